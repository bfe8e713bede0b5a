/*
 * Arrays of numbers as the binary protocol has them: `array_send(…)`, whose bytes come as hexadecimal digits.
 * PostgreSQL takes as long for the text of an array, which would have to be parsed here.
 */

/** Types of elements by their OID in pg_type, which never changes. */
const types = { int8: 20, int2: 21, int4: 23, float4: 700, timestamptz: 1184 } as const;

/** Unix ms of 2000-01-01, from which PostgreSQL counts. */
const epochMs = Date.UTC(2000, 0, 1);

/** Numbers of an array, times as Unix ms, null as NaN; of several dimensions one after the other. None for null. */
export function numbersIn(bytes: Buffer | null): Float64Array {
  if (bytes === null) return new Float64Array(0);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const [dimensions, type] = [view.getInt32(0), view.getInt32(8)];
  let count = dimensions === 0 ? 0 : 1;
  for (let n = 0; n < dimensions; n++) count *= view.getInt32(12 + 8 * n);
  const numbers = new Float64Array(count);
  // One loop for all types: a number that a function returns is allocated.
  for (let n = 0, at = 12 + 8 * dimensions; n < count; n++) {
    const size = view.getInt32(at);
    at += 4;
    if (size < 0) {
      numbers[n] = NaN;
      continue;
    }
    if (type === types.int4) numbers[n] = view.getInt32(at);
    else if (type === types.int2) numbers[n] = view.getInt16(at);
    else if (type === types.float4) numbers[n] = view.getFloat32(at);
    else {
      const value = view.getInt32(at) * 0x1_0000_0000 + view.getUint32(at + 4);
      if (type === types.int8) numbers[n] = value;
      else if (type === types.timestamptz) numbers[n] = value / 1000 + epochMs;
      else throw new Error(`an array of the type ${type}`);
    }
    at += size;
  }
  return numbers;
}
