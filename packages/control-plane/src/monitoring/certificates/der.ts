/** A value in DER (ITU-T X.690). */
export interface DerValue {
  readonly tag: number;
  readonly content: Buffer;
}

/** The value at the start of the bytes. Throws RangeError where it is incomplete. */
export const readDer = (bytes: Buffer): DerValue => valueAt(bytes, 0).value;

/** The values in a constructed one. */
export function derChildren(value: DerValue | undefined): DerValue[] {
  if (value === undefined) throw new RangeError("a value is missing");
  const children: DerValue[] = [];
  for (let at = 0; at < value.content.length;) {
    const { value: child, end } = valueAt(value.content, at);
    children.push(child);
    at = end;
  }
  return children;
}

function valueAt(bytes: Buffer, at: number): { value: DerValue; end: number } {
  const tag = bytes.readUInt8(at);
  const short = bytes.readUInt8(at + 1);
  const lengthBytes = short < 0x80 ? 0 : short & 0x7f;
  const length = lengthBytes === 0 ? short : bytes.readUIntBE(at + 2, lengthBytes);
  const from = at + 2 + lengthBytes;
  if (from + length > bytes.length) throw new RangeError("a value is longer than the data");
  return { value: { tag, content: bytes.subarray(from, from + length) }, end: from + length };
}

/** A small number; Infinity for one of more than 6 bytes. */
export function derNumber(value: DerValue | undefined): number {
  if (value === undefined || value.tag !== 0x02 || value.content.length === 0) throw new RangeError("no number");
  return value.content.length > 6 ? Infinity : value.content.readIntBE(0, value.content.length);
}

/** An object identifier in dotted form. */
export function oidOf(value: DerValue | undefined): string {
  if (value === undefined || value.tag !== 0x06 || value.content.length > 32) throw new RangeError("no identifier");
  const parts: number[] = [];
  let part = 0;
  for (const byte of value.content) {
    part = part * 128 + (byte & 0x7f);
    if (byte >= 0x80) continue;
    if (parts.length === 0)
      parts.push(Math.min(2, Math.floor(part / 40)), part - 40 * Math.min(2, Math.floor(part / 40)));
    else parts.push(part);
    part = 0;
  }
  return parts.join(".");
}
