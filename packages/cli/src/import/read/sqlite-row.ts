import { Failure } from "../../shell/output.ts";
import type { Table, Value } from "./sqlite-table.ts";

/** Longest text that is read; the rest is cut. */
const maxText = 4 * 1_048_576;
/** Bytes by serial type below 12. 10 and 11 are reserved. */
const sizes: readonly number[] = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0];

/** A row under the cursor of `SqliteFile.scan`. It is the same object for every row. */
export class Cursor {
  /** The record, from its header; overflow pages are put together only where a column lies in them. */
  #data: Buffer = Buffer.alloc(0);
  #start = 0;
  #end = 0;
  #rowId = 0;
  #more: (() => Buffer) | null = null;
  /** Serial types and offsets by column. */
  readonly #types: Float64Array;
  readonly #offsets: Float64Array;
  #count = 0;
  readonly #table: Table;

  constructor(table: Table) {
    this.#table = table;
    this.#types = new Float64Array(table.columns.length);
    this.#offsets = new Float64Array(table.columns.length);
  }

  /** @internal */
  set(data: Buffer, start: number, end: number, rowId: number, more: (() => Buffer) | null): void {
    this.#data = data;
    this.#start = start;
    this.#end = end;
    this.#rowId = rowId;
    this.#more = more;
    let at = start;
    let header = data[at]!;
    at++;
    if (header >= 0x80) {
      const [size, used] = varint(data, at - 1);
      header = size;
      at = start + used;
    }
    const last = start + header;
    if (last > end) throw new Failure("the database is damaged: the header of a row does not fit.");
    let offset = header;
    let count = 0;
    const { length } = this.#types;
    while (at < last && count < length) {
      let type = data[at]!;
      if (type < 0x80) at++;
      else {
        const [wide, used] = varint(data, at);
        type = wide;
        at += used;
      }
      this.#types[count] = type;
      this.#offsets[count] = offset;
      offset += type >= 12 ? (type - 12) >> 1 : sizes[type]!;
      count++;
    }
    this.#count = count;
  }

  /** A whole number; NaN for another value. */
  int(column: number): number {
    if (column === this.#table.rowId) return this.#rowId;
    if (column >= this.#count) {
      const { fallback } = this.#table.columns[column]!;
      return typeof fallback === "number" ? fallback : NaN;
    }
    const type = this.#types[column]!;
    if (type === 8) return 0;
    if (type === 9) return 1;
    const at = this.#start + this.#offsets[column]!;
    if (type === 1 && at < this.#end) return this.#data.readInt8(at);
    if (type === 2 && at + 2 <= this.#end) return this.#data.readInt16BE(at);
    const value = this.value(column);
    return typeof value === "number" ? value : NaN;
  }

  /** `20261123` of a text that begins with `2026-11-23`; NaN for another value. */
  day(column: number): number {
    if (column >= this.#count || this.#types[column]! < 33) return NaN;
    let at = this.#start + this.#offsets[column]!;
    let data = this.#data;
    if (at + 10 > this.#end) {
      data = this.#whole();
      at = this.#offsets[column]!;
      if (at + 10 > data.length) return NaN;
    }
    if (data[at + 4] !== 45 || data[at + 7] !== 45) return NaN;
    const digit = (index: number): number => data[at + index]! - 48;
    return (
      (digit(0) * 1000 + digit(1) * 100 + digit(2) * 10 + digit(3)) * 10_000 +
      (digit(5) * 10 + digit(6)) * 100 +
      digit(8) * 10 +
      digit(9)
    );
  }

  value(column: number): Value {
    if (column === this.#table.rowId) return this.#rowId;
    if (column >= this.#count) return this.#table.columns[column]!.fallback;
    const type = this.#types[column]!;
    const size = type >= 12 ? Math.floor((type - 12) / 2) : sizes[type]!;
    let at = this.#start + this.#offsets[column]!;
    let data = this.#data;
    if (at + size > this.#end) {
      data = this.#whole();
      at = this.#offsets[column]!;
      if (at + size > data.length) throw new Failure("the database is damaged: a row is shorter than it says.");
    }
    switch (type) {
      case 0:
        return null;
      case 8:
        return 0;
      case 9:
        return 1;
      case 1:
      case 2:
      case 3:
      case 4:
      case 5:
        return data.readIntBE(at, size);
      case 6:
        return Number(data.readBigInt64BE(at));
      case 7:
        return data.readDoubleBE(at);
      default: {
        const cut = Math.min(size, maxText);
        return type % 2 === 1 ? data.toString("utf8", at, at + cut) : Buffer.from(data.subarray(at, at + cut));
      }
    }
  }

  #whole(): Buffer {
    if (this.#more === null) throw new Failure("the database is damaged: a row is shorter than it says.");
    const whole = this.#more();
    this.#more = () => whole;
    return whole;
  }
}

/** A number of 1 to 9 bytes, and how many it has. */
export function varint(data: Buffer, at: number): [value: number, used: number] {
  let value = 0;
  for (let used = 0; used < 8; used++) {
    const byte = data[at + used];
    if (byte === undefined) throw new Failure("the database is damaged: a number is cut off.");
    value = value * 128 + (byte & 0x7f);
    if (byte < 0x80) return [value, used + 1];
  }
  // 64 bits; negative ones are row ids that nobody uses.
  return [value * 256 + data[at + 8]!, 9];
}
