/*
 * Arrays of numbers without their text, which takes PostgreSQL three times as long to write: `array_send(…)` in a raw
 * query, whose values come as bytes. Array and numbers are as the binary protocol has them.
 */

/** Types of elements by their OID in pg_type, which never changes. */
const types = { int8: 20, int2: 21, int4: 23, float4: 700, timestamptz: 1184 } as const;

/** Unix ms of 2000-01-01, from which PostgreSQL counts. */
const epochMs = Date.UTC(2000, 0, 1);

/** Reads an array of numbers or times, the elements of several dimensions one after the other. */
export class NumberArray {
  readonly length: number;
  readonly #bytes: DataView;
  readonly #type: number;
  #at: number;

  constructor(bytes: Buffer) {
    this.#bytes = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const dimensions = this.#bytes.getInt32(0);
    this.#type = this.#bytes.getInt32(8);
    this.#at = 12 + 8 * dimensions;
    let length = dimensions === 0 ? 0 : 1;
    for (let n = 0; n < dimensions; n++) length *= this.#bytes.getInt32(12 + 8 * n);
    this.length = length;
  }

  /** The next number, or the next time as Unix ms; NaN for null. */
  next(): number {
    const at = this.#at + 4;
    const size = this.#bytes.getInt32(this.#at);
    this.#at = at + Math.max(0, size);
    if (size < 0) return NaN;
    switch (this.#type) {
      case types.int4:
        return this.#bytes.getInt32(at);
      case types.int2:
        return this.#bytes.getInt16(at);
      case types.float4:
        return this.#bytes.getFloat32(at);
      case types.int8:
        return int8At(this.#bytes, at);
      case types.timestamptz:
        return int8At(this.#bytes, at) / 1000 + epochMs;
      default:
        throw new Error(`an array of the type ${this.#type}`);
    }
  }
}

const int8At = (bytes: DataView, at: number): number => bytes.getInt32(at) * 0x1_0000_0000 + bytes.getUint32(at + 4);

/** All numbers of an array; none for null. */
export function numbersIn(bytes: Buffer | null): number[] {
  if (bytes === null) return [];
  const array = new NumberArray(bytes);
  return Array.from({ length: array.length }, () => array.next());
}
