import { createHash } from "node:crypto";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip, createGzip } from "node:zlib";

/**
 * File format of a backup: a gzipped tar (POSIX.1-1988 ustar), which other tools can read. A table is written in parts,
 * because a tar entry has its size before its content, and memory holds one part.
 */

const blockBytes = 512;
/** Approximate size of a part; one row may exceed it. */
export const partBytes = 4 << 20;
/** Size of a part with the largest row, which has 3 MiB. A damaged header must not make memory hold more. */
const maxEntryBytes = 32 << 20;

export interface Entry {
  readonly name: string;
  readonly content: Buffer;
}

/** Writes the entries to `to` as a gzipped tar, and ends the stream. `at` is the time of every entry. */
export async function writeArchive(entries: AsyncIterable<Entry>, to: NodeJS.WritableStream, at: Date): Promise<void> {
  async function* tar(): AsyncGenerator<Buffer> {
    for await (const { name, content } of entries) {
      yield header(name, content.length, at);
      yield content;
      const rest = content.length % blockBytes;
      if (rest > 0) yield Buffer.alloc(blockBytes - rest);
    }
    // Two empty blocks end a tar.
    yield Buffer.alloc(2 * blockBytes);
  }
  await pipeline(tar, createGzip({ level: 4 }), to);
}

/** Reads a file of {@link writeArchive}, one entry in memory at a time. Throws one sentence when it is damaged. */
export async function* readArchive(from: Readable): AsyncGenerator<Entry> {
  const bytes = new Bytes(from.pipe(createGunzip()), from);
  try {
    for (;;) {
      const head = await bytes.take(blockBytes);
      if (head.every((byte) => byte === 0)) return;
      const { name, size } = parseHeader(head);
      const content = await bytes.take(size);
      await bytes.take((blockBytes - (size % blockBytes)) % blockBytes);
      yield { name, content };
    }
  } finally {
    from.destroy();
  }
}

/** Computes the SHA-256 of several buffers, in hex. */
export function digest(): { add(bytes: Buffer): void; hex(): string } {
  const hash = createHash("sha256");
  return { add: (bytes) => void hash.update(bytes), hex: () => hash.digest("hex") };
}

const notABackup = "This is no backup of StatusMesh";

function header(name: string, size: number, at: Date): Buffer {
  if (size > maxEntryBytes) throw new Error(`The part ${name} has ${size} bytes, and ${maxEntryBytes} are allowed.`);
  if (Buffer.byteLength(name) > 100) throw new Error(`The name ${name} does not fit into a tar.`);
  const block = Buffer.alloc(blockBytes);
  const octal = (value: number, digits: number) => `${value.toString(8).padStart(digits, "0")}\0`;
  block.write(name, 0);
  block.write(octal(0o600, 7), 100);
  block.write(octal(0, 7), 108);
  block.write(octal(0, 7), 116);
  block.write(octal(size, 11), 124);
  block.write(octal(Math.floor(at.getTime() / 1000), 11), 136);
  // The checksum is computed with blanks in its own field.
  block.write(" ".repeat(8), 148);
  block.write("0", 156);
  block.write("ustar\u000000", 257);
  block.write(`${sumOf(block).toString(8).padStart(6, "0")}\0 `, 148);
  return block;
}

/** Digits of a number in octal, as {@link header} writes it. Other tars also have signs and binary numbers. */
const octalDigits = /^[0-7]+[ \0]*$/;

/** A header of {@link writeArchive}: a plain file. Links, folders and extended headers (PAX, GNU) are refused. */
function parseHeader(block: Buffer): { name: string; size: number } {
  const field = (from: number, to: number) => block.toString("latin1", from, to);
  const octal = (from: number, to: number) =>
    octalDigits.test(field(from, to)) ? Number.parseInt(field(from, to), 8) : Number.NaN;
  const unsummed = Buffer.from(block);
  unsummed.fill(" ", 148, 156);
  const size = octal(124, 136);
  const isPlainFile = field(156, 157) === "0" && field(257, 262) === "ustar" && block[345] === 0;
  if (octal(148, 156) !== sumOf(unsummed) || !isPlainFile || !(size <= maxEntryBytes))
    throw new Error(`${notABackup}, or it is damaged.`);
  return { name: field(0, 100).replace(/\0.*$/s, ""), size };
}

const sumOf = (block: Buffer): number => block.reduce((sum, byte) => sum + byte, 0);

/** Reads exact numbers of bytes from a stream. */
class Bytes {
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer[] = [];
  #length = 0;

  constructor(unzipped: Readable, source: Readable) {
    source.on("error", (error) => unzipped.destroy(error));
    this.#chunks = unzipped[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  }

  async take(length: number): Promise<Buffer> {
    while (this.#length < length) {
      const next = await this.#chunks.next().catch((error: NodeJS.ErrnoException) => {
        if (error.code?.startsWith("Z_") === true)
          throw new Error(
            error.code === "Z_BUF_ERROR"
              ? "The backup is cut off: its end is missing."
              : `${notABackup}, or it is damaged.`,
            { cause: error },
          );
        throw error;
      });
      if (next.done === true) throw new Error("The backup is cut off: its end is missing.");
      this.#rest.push(next.value);
      this.#length += next.value.length;
    }
    const all = this.#rest.length === 1 ? this.#rest[0]! : Buffer.concat(this.#rest);
    this.#rest = [all.subarray(length)];
    this.#length = all.length - length;
    return all.subarray(0, length);
  }
}
