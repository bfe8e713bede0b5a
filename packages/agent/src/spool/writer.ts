import type { Files, SegmentFile } from "./files.ts";
import { encodeHeader, maxFrame, type SegmentHeader, segmentName } from "./format.ts";
import type { Segment } from "./segment.ts";

export interface WriterOptions {
  files: Files;
  /** A segment that has grown to this size gets no more frames. */
  segmentBytes: number;
  /** What the header of a new segment says beside its base. */
  header: () => Omit<SegmentHeader, "base">;
  /** A new segment exists. */
  opened: (segment: Segment) => void;
}

const chunkBytes = 1_000_000;

/** Appends frames to the newest segment. After any error that segment is closed as it was before, and the next write begins another. */
export class Writer {
  readonly #options: WriterOptions;
  readonly #scratch: Buffer;
  #current: { segment: Segment; file: SegmentFile } | null = null;
  #unsynced = false;

  constructor(options: WriterOptions) {
    this.#options = options;
    this.#scratch = Buffer.allocUnsafe(Math.min(chunkBytes, options.segmentBytes) + maxFrame);
  }

  /** The segment that is being written; null when there is none. */
  get segment(): Segment | null {
    return this.#current?.segment ?? null;
  }

  /**
   * Appends frames from number `first` on, as many as fit into one write. `encode` writes frame n after `first` at a place
   * of the buffer and says where it ends, or null when there is no such frame. Returns how many frames arrived.
   */
  async append(first: number, encode: (n: number, into: Buffer, at: number) => number | null): Promise<number> {
    if (
      this.#current !== null &&
      (this.#current.segment.size >= this.#options.segmentBytes || this.#current.segment.end !== first)
    )
      await this.close();
    const { segment, file } = (this.#current ??= await this.#open(first));
    const limit = this.#scratch.length - maxFrame;
    let count = 0;
    let length = 0;
    while (length < limit) {
      const end = encode(count, this.#scratch, length);
      if (end === null) break;
      length = end;
      count++;
    }
    try {
      await writeAll(file, this.#scratch.subarray(0, length), segment.size);
    } catch (error) {
      await this.#abandon();
      throw error;
    }
    segment.size += length;
    segment.end += count;
    this.#unsynced = true;
    return count;
  }

  /** What was appended survives a power failure, once this has resolved. */
  async sync(): Promise<void> {
    if (this.#current === null || !this.#unsynced) return;
    try {
      await this.#current.file.sync();
      this.#unsynced = false;
    } catch (error) {
      // The kernel may have given up the pages: no later sync of this file would tell.
      await this.#abandon();
      throw error;
    }
  }

  /** Ends the segment. The next write begins another. */
  async close(): Promise<void> {
    await this.sync();
    const file = this.#current?.file;
    this.#current = null;
    await file?.close();
  }

  /** Ends the segment as it is, without a promise that it survives. */
  leave(): void {
    void this.#abandon();
  }

  async #open(base: number): Promise<{ segment: Segment; file: SegmentFile }> {
    const { files, header, opened } = this.#options;
    const name = segmentName(base);
    const about = { base, ...header() };
    const bytes = encodeHeader(about);
    // One that is already there never became a segment: its numbers would have been counted at the start.
    await files.remove(name);
    const file = await files.create(name);
    try {
      await writeAll(file, bytes, 0);
    } catch (error) {
      await file.close().catch(() => undefined);
      await files.remove(name).catch(() => undefined);
      throw error;
    }
    const segment: Segment = { name, region: about.region, base, end: base, start: bytes.length, size: bytes.length };
    opened(segment);
    return { segment, file };
  }

  /** What was half written is cut off; where that fails too, the checksums tell. */
  async #abandon(): Promise<void> {
    const current = this.#current;
    this.#current = null;
    if (current === null) return;
    await current.file.close().catch(() => undefined);
    await this.#options.files.truncate(current.segment.name, current.segment.size).catch(() => undefined);
  }
}

/** A full disk takes a part of a write without an error; the error comes with the rest. */
async function writeAll(file: SegmentFile, bytes: Buffer, position: number): Promise<void> {
  for (let written = 0; written < bytes.length;) {
    const count = await file.write(bytes.subarray(written), position + written);
    if (count === 0) throw new Error("the disk takes no more");
    written += count;
  }
}
