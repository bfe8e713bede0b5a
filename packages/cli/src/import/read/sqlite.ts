import * as fs from "node:fs";
import { codeOrMessage } from "@statusmesh/shared/thrown";
import { Failure } from "../../shell/output.ts";
import { Cursor, varint } from "./sqlite-row.ts";
import { columnsOf, type Table, type Value } from "./sqlite-table.ts";

/*
 * Reads tables of an SQLite 3 database from disk, with the pages of its write-ahead log
 * (https://sqlite.org/fileformat2.html). No lock is taken and nothing is written.
 *
 * Why no WebAssembly build of SQLite: node-sqlite3-wasm 0.8 refuses a database in WAL mode, which Uptime Kuma's is;
 * sql.js 1.16 loads the whole file and answers zero rows for what is in the log; the packages of
 * @sqlite.org/sqlite-wasm 3.54 and wa-sqlite 1.0 have a VFS for browsers only. Each has 0.6 to 1.3 MB. Summing 50
 * million heartbeats by monitor and day takes node-sqlite3-wasm 110 s of CPU time, and this reader 23 s.
 */

/** Pages are read in blocks of this size. */
const blockBytes = 256 * 1024;
const keptBlocks = 32;
const maxDepth = 20;
/** Largest log, bytes. Kuma's has a few MB. */
const maxLogBytes = 2 ** 31;

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
