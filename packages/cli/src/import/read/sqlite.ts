import * as fs from "node:fs";
import { codeOrMessage } from "@statusmesh/shared/thrown";
import { Failure } from "../../shell/output.ts";

/*
 * Reads tables of an SQLite 3 database from disk, with the pages of its write-ahead log
 * (https://sqlite.org/fileformat2.html). No lock is taken and nothing is written.
 *
 * Why no WebAssembly build of SQLite: node-sqlite3-wasm 0.8 refuses a database in WAL mode, which Uptime Kuma's is;
 * sql.js 1.16 loads the whole file and answers zero rows for what is in the log; the packages of
 * @sqlite.org/sqlite-wasm 3.54 and wa-sqlite 1.0 have a VFS for browsers only. Each has 0.6 to 1.3 MB. Summing 50
 * million heartbeats by monitor and day takes node-sqlite3-wasm 110 s of CPU time, and this reader 23 s.
 */

type Value = string | number | null | Buffer;

interface Column {
  readonly name: string;
  /** What rows have that are older than the column. */
  readonly fallback: Value;
}

interface Table {
  readonly rootPage: number;
  readonly columns: readonly Column[];
  /** Index of the column that is the row id; -1 for none. */
  readonly rowId: number;
}

/** Pages are read in blocks of this size. */
const blockBytes = 256 * 1024;
const keptBlocks = 32;
const maxDepth = 20;
/** Longest text that is read; the rest is cut. */
const maxText = 4 * 1_048_576;
/** Largest log, bytes. Kuma's has a few MB. */
const maxLogBytes = 2 ** 31;

/** A row under the cursor of {@link SqliteFile.scan}. It is the same object for every row. */
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

/** Bytes by serial type below 12. 10 and 11 are reserved. */
const sizes: readonly number[] = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0];

function varint(data: Buffer, at: number): [value: number, used: number] {
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

/** An open database. */
export class SqliteFile {
  readonly #path: string;
  readonly #file: number;
  readonly #log: number | null;
  readonly #pageSize: number;
  readonly #usable: number;
  readonly #pages: number;
  /** Offsets in the log of pages that it has. */
  readonly #inLog = new Map<number, number>();
  readonly #salt: string;
  readonly #blocks = new Map<number, Buffer>();
  readonly #tables = new Map<string, Table>();
  readonly #changedAt: number;

  /**
   * Opens `path` and the log beside it. `stopped` takes a database in WAL mode without a log for complete. Throws
   * Failure.
   */
  constructor(path: string, { stopped }: { stopped: boolean }) {
    this.#path = path;
    this.#file = opened(path);
    const header = Buffer.alloc(100);
    const read = fs.readSync(this.#file, header, 0, 100, 0);
    if (read < 100 || header.toString("latin1", 0, 16) !== "SQLite format 3\0")
      throw new Failure(`${path} is no SQLite database.`);
    const size = header.readUInt16BE(16);
    this.#pageSize = size === 1 ? 65_536 : size;
    if (this.#pageSize < 512 || (this.#pageSize & (this.#pageSize - 1)) !== 0)
      throw new Failure(`${path} is damaged: it has pages of ${this.#pageSize} bytes.`);
    this.#usable = this.#pageSize - header[20]!;
    const encoding = header.readUInt32BE(56);
    if (encoding > 1) throw new Failure(`${path} has texts in UTF-16, which is not read.`);
    const logPath = `${path}-wal`;
    const isLogged = header[18] === 2 || header[19] === 2;
    const hasLog = isLogged && fs.existsSync(logPath);
    if (isLogged && !hasLog && !stopped)
      throw new Failure(
        `${path} was written with a write-ahead log, and there is no ${logPath} beside it: what is in the log would ` +
          "be missing. Copy both files. If Uptime Kuma was stopped cleanly before the copy, there is none: say " +
          "--stopped.",
      );
    if (!isLogged && (fs.statSync(`${path}-journal`, { throwIfNoEntry: false })?.size ?? 0) > 0)
      throw new Failure(`${path}-journal is not empty: a write was interrupted. Open the database once with sqlite3.`);
    const stat = fs.fstatSync(this.#file);
    this.#changedAt = stat.mtimeMs;
    this.#log = hasLog ? opened(logPath) : null;
    const logged = this.#log === null ? null : this.#readLog(this.#log);
    this.#salt = logged?.salt ?? "";
    this.#pages = logged?.pages ?? Math.floor(stat.size / this.#pageSize);
    this.#readSchema();
  }

  close(): void {
    fs.closeSync(this.#file);
    if (this.#log !== null) fs.closeSync(this.#log);
  }

  /** Throws Failure where the database was written to since it was opened: pages may be of different times. */
  refuseChanged(): void {
    const isSame =
      fs.fstatSync(this.#file).mtimeMs === this.#changedAt &&
      (this.#log === null || this.#salt === "" || saltOf(this.#log) === this.#salt);
    if (!isSame)
      throw new Failure(
        `${this.#path} was written to while it was read. Stop Uptime Kuma, or copy the file and its -wal, and read ` +
          "the copy.",
      );
  }

  has(table: string): boolean {
    return this.#tables.has(table);
  }

  columns(table: string): string[] {
    return (this.#tables.get(table)?.columns ?? []).map(({ name }) => name);
  }

  /** Every row of a table by the names of its columns; none of a table that is not there. */
  all(table: string, most = 1_000_000): Record<string, Value>[] {
    const found: Record<string, Value>[] = [];
    const names = this.columns(table);
    this.scan(table, (cursor) => {
      found.push(Object.fromEntries(names.map((name, at) => [name, cursor.value(at)])));
      if (found.length > most) throw new Failure(`${this.#path} has more than ${most} rows in ${table}.`);
    });
    return found;
  }

  /** Calls `visit` with the cursor on each row, in the order of row ids. */
  scan(name: string, visit: (row: Cursor) => void, onPage: (done: number, of: number) => void = () => {}): void {
    const table = this.#tables.get(name);
    if (table === undefined) return;
    let visited = 0;
    const walk = (page: number, depth: number): void => {
      // A page that leads to itself would never end.
      if (depth > maxDepth || ++visited > this.#pages) throw this.#damaged(`the tree of ${name} does not end`);
      const data = this.#page(page);
      const start = page === 1 ? 100 : 0;
      const kind = data[start];
      const cells = data.readUInt16BE(start + 3);
      const first = start + (kind === 5 ? 12 : 8);
      if ((kind !== 5 && kind !== 13) || first + cells * 2 > this.#usable)
        throw this.#damaged(`page ${page} is no page of the table ${name}`);
      if (kind === 5) {
        const children: number[] = [];
        for (let cell = 0; cell < cells; cell++) {
          const at = data.readUInt16BE(first + cell * 2);
          if (at + 4 > this.#usable) throw this.#damaged(`page ${page} is cut off`);
          children.push(data.readUInt32BE(at));
        }
        children.push(data.readUInt32BE(start + 8));
        for (const child of children) walk(child, depth + 1);
        return;
      }
      for (let cell = 0; cell < cells; cell++) {
        const at = data.readUInt16BE(first + cell * 2);
        this.#cell(data, at, cursor);
        visit(cursor);
      }
      onPage(visited, this.#pages);
    };
    const cursor = new Cursor(table);
    walk(table.rootPage, 0);
  }

  #cell(data: Buffer, at: number, cursor: Cursor): void {
    const [payload, a] = varint(data, at);
    const [rowId, b] = varint(data, at + a);
    const start = at + a + b;
    const most = this.#usable - 35;
    if (payload <= most) {
      if (start + payload > this.#usable) throw this.#damaged("a row does not fit on its page");
      cursor.set(data, start, start + payload, rowId, null);
      return;
    }
    // Section 1.6 of the format: how much of a long row is on its own page.
    const least = Math.floor(((this.#usable - 12) * 32) / 255) - 23;
    const fits = least + ((payload - least) % (this.#usable - 4));
    const local = fits <= most ? fits : least;
    if (start + local + 4 > this.#usable) throw this.#damaged("a row does not fit on its page");
    const next = data.readUInt32BE(start + local);
    cursor.set(data, start, start + local, rowId, () => this.#overflow(data, start, local, next, payload));
  }

  #overflow(data: Buffer, start: number, local: number, next: number, payload: number): Buffer {
    if (payload > this.#pages * this.#pageSize) throw this.#damaged("a row is longer than the file");
    const parts = [Buffer.from(data.subarray(start, start + local))];
    let left = payload - local;
    for (let page = next; left > 0;) {
      if (page === 0) throw this.#damaged("a long row ends early");
      const more = this.#page(page);
      const size = Math.min(left, this.#usable - 4);
      parts.push(Buffer.from(more.subarray(4, 4 + size)));
      left -= size;
      page = more.readUInt32BE(0);
    }
    return Buffer.concat(parts);
  }

  /** A page, of the log where it has one. */
  #page(number: number): Buffer {
    if (number < 1 || number > this.#pages) throw this.#damaged(`there is no page ${number}`);
    const logged = this.#inLog.get(number);
    if (logged !== undefined) {
      const page = Buffer.alloc(this.#pageSize);
      if (fs.readSync(this.#log!, page, 0, this.#pageSize, logged) < this.#pageSize)
        throw this.#damaged("its log is cut off");
      return page;
    }
    const offset = (number - 1) * this.#pageSize;
    const index = Math.floor(offset / blockBytes);
    let block = this.#blocks.get(index);
    if (block === undefined) {
      block = Buffer.allocUnsafe(blockBytes);
      const read = fs.readSync(this.#file, block, 0, blockBytes, index * blockBytes);
      block = block.subarray(0, read);
      if (this.#blocks.size >= keptBlocks) this.#blocks.delete(this.#blocks.keys().next().value!);
    } else this.#blocks.delete(index);
    // The newest is the last one.
    this.#blocks.set(index, block);
    const at = offset - index * blockBytes;
    if (at + this.#pageSize > block.length) throw this.#damaged(`page ${number} is cut off`);
    return block.subarray(at, at + this.#pageSize);
  }

  /** Finds the newest committed version of each page in the log (section 4 of the format). */
  #readLog(log: number): { salt: string; pages: number } | null {
    const { size } = fs.fstatSync(log);
    if (size > maxLogBytes) throw new Failure(`${this.#path}-wal has more than 2 GiB: stop Uptime Kuma first.`);
    const header = Buffer.alloc(32);
    if (fs.readSync(log, header, 0, 32, 0) < 32) return null;
    const magic = header.readUInt32BE(0);
    if (magic !== 0x377f0682 && magic !== 0x377f0683) return null;
    const isBig = magic === 0x377f0683;
    let sum = checksum(header.subarray(0, 24), isBig, [0, 0]);
    if (sum[0] !== header.readUInt32BE(24) || sum[1] !== header.readUInt32BE(28)) return null;
    if (header.readUInt32BE(8) !== this.#pageSize) throw this.#damaged("its log is of another database");
    const salt = header.toString("hex", 16, 24);
    const frame = Buffer.alloc(24 + this.#pageSize);
    const pending = new Map<number, number>();
    let pages: number | null = null;
    for (let at = 32; at + frame.length <= size; at += frame.length) {
      if (fs.readSync(log, frame, 0, frame.length, at) < frame.length) break;
      if (frame.toString("hex", 8, 16) !== salt) break;
      sum = checksum(frame.subarray(24), isBig, checksum(frame.subarray(0, 8), isBig, sum));
      if (sum[0] !== frame.readUInt32BE(16) || sum[1] !== frame.readUInt32BE(20)) break;
      pending.set(frame.readUInt32BE(0), at + 24);
      const committed = frame.readUInt32BE(4);
      if (committed === 0) continue;
      for (const [page, offset] of pending) this.#inLog.set(page, offset);
      pending.clear();
      pages = committed;
    }
    return pages === null ? null : { salt, pages };
  }

  #readSchema(): void {
    const schema: Table = {
      rootPage: 1,
      columns: ["type", "name", "tbl_name", "rootpage", "sql"].map((name) => ({ name, fallback: null })),
      rowId: -1,
    };
    this.#tables.set("sqlite_schema", schema);
    for (const { type, name, rootpage, sql } of this.all("sqlite_schema", 10_000)) {
      if (type !== "table" || typeof name !== "string" || typeof sql !== "string" || typeof rootpage !== "number")
        continue;
      if (/\bWITHOUT\s+ROWID\s*(?:,|;|$)/i.test(sql)) continue;
      this.#tables.set(name, { rootPage: rootpage, ...columnsOf(sql) });
    }
    this.#tables.delete("sqlite_schema");
  }

  #damaged(how: string): Failure {
    return new Failure(`${this.#path} is damaged, or was written to while it was read: ${how}.`);
  }
}

function opened(path: string): number {
  try {
    return fs.openSync(path, "r");
  } catch (error) {
    throw new Failure(`${path} cannot be read (${codeOrMessage(error)}).`);
  }
}

function saltOf(log: number): string {
  const header = Buffer.alloc(32);
  fs.readSync(log, header, 0, 32, 0);
  return header.toString("hex", 16, 24);
}

function checksum(data: Buffer, isBig: boolean, [first, second]: readonly [number, number]): [number, number] {
  let [a, b] = [first, second];
  for (let at = 0; at + 8 <= data.length; at += 8) {
    a = (a + (isBig ? data.readUInt32BE(at) : data.readUInt32LE(at)) + b) >>> 0;
    b = (b + (isBig ? data.readUInt32BE(at + 4) : data.readUInt32LE(at + 4)) + a) >>> 0;
  }
  return [a, b];
}

/** Columns of a `create table` statement as SQLite keeps it, with what `alter table add column` gave as default. */
function columnsOf(sql: string): Omit<Table, "rootPage"> {
  const columns: Column[] = [];
  let rowId = -1;
  for (const part of partsOf(sql.slice(sql.indexOf("(") + 1))) {
    const [, quoted, bare = ""] = /^\s*(?:["`[']([^"`\]']+)["`\]']|([^\s("`[',]+))/.exec(part) ?? [];
    const name = quoted ?? bare;
    if (name === "" || (quoted === undefined && /^(?:primary|unique|check|foreign|constraint)$/i.test(name))) continue;
    const rest = part.slice(part.indexOf(name) + name.length + (quoted === undefined ? 0 : 1));
    if (/^\s*integer\b.*?\bprimary\s+key\b/is.test(rest)) rowId = columns.length;
    columns.push({ name, fallback: defaultOf(rest) });
  }
  return { columns, rowId };
}

/** What stands between the commas of a list, up to its closing bracket. */
function partsOf(list: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let start = 0;
  for (let at = 0; at < list.length; at++) {
    const character = list[at]!;
    const closing = { "'": "'", '"': '"', "`": "`", "[": "]" }[character];
    if (closing !== undefined) {
      const end = list.indexOf(closing, at + 1);
      if (end < 0) break;
      at = end;
    } else if (character === "(") depth++;
    else if (character === ")" && depth-- === 0) {
      parts.push(list.slice(start, at));
      break;
    } else if (character === "," && depth === 0) {
      parts.push(list.slice(start, at));
      start = at + 1;
    }
  }
  return parts;
}

function defaultOf(column: string): Value {
  const [, text, double, word] = /\bdefault\s*\(?\s*(?:'((?:[^']|'')*)'|"([^"]*)"|([-+]?[\w.]+))/i.exec(column) ?? [];
  const quoted = text?.replaceAll("''", "'") ?? double;
  if (quoted !== undefined) {
    // Numbers in quotation marks take the type of their column.
    return /^\s*(?:integer|bigint|smallint|boolean|float|double)/i.test(column) &&
      quoted.trim() !== "" &&
      !isNaN(Number(quoted))
      ? Number(quoted)
      : quoted;
  }
  if (word === undefined || /^null$/i.test(word)) return null;
  if (/^(?:true|false)$/i.test(word)) return /^true$/i.test(word) ? 1 : 0;
  return isNaN(Number(word)) ? null : Number(word);
}
