import type { Files, SegmentFile } from "./files.ts";
import { encodeHeader, maxFrame, type SegmentHeader, segmentName, type Segment } from "./format.ts";

export interface WriterOptions {
  files: Files;
  /** Size at which a segment is closed, bytes. */
  segmentBytes: number;
  /** Header fields of a new segment, besides its base. */
  header: () => Omit<SegmentHeader, "base">;
  /** Called for a new segment. */
  opened: (segment: Segment) => void;
}

const chunkBytes = 1_000_000;

/**
 * Appends frames to the newest segment. After an error that segment is closed unchanged, and the next write starts a
 * new one.
 */
export class Writer {
  readonly #options: WriterOptions;
  readonly #scratch: Buffer;
  #current: { segment: Segment; file: SegmentFile } | null = null;
  #unsynced = false;

  constructor(options: WriterOptions) {
    this.#options = options;
    this.#scratch = Buffer.allocUnsafe(Math.min(chunkBytes, options.segmentBytes) + maxFrame);
  }

  /** The open segment; null when there is none. */
  get segment(): Segment | null {
    return this.#current?.segment ?? null;
  }

  /**
   * Appends frames from number `first` on, as many as fit into one write. `encode` writes frame n after `first` at an
   * offset of the buffer and returns its end, or null after the last frame. Returns the number of frames written.
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

  /** Resolves when appended frames survive a power failure. */
  async sync(): Promise<void> {
    if (this.#current === null || !this.#unsynced) return;
    try {
      await this.#current.file.sync();
      this.#unsynced = false;
    } catch (error) {
      // The kernel may have dropped the dirty pages: a later sync of this file would not report it.
      await this.#abandon();
      throw error;
    }
  }

  /** Closes the segment. The next write starts a new one. */
  async close(): Promise<void> {
    await this.sync();
    const file = this.#current?.file;
    this.#current = null;
    await file?.close();
  }

  /** Closes the segment without a sync. */
  leave(): void {
    void this.#abandon();
  }

  async #open(base: number): Promise<{ segment: Segment; file: SegmentFile }> {
    const { files, header, opened } = this.#options;
    const name = segmentName(base);
    const about = { base, ...header() };
    const bytes = encodeHeader(about);
    // An existing file never became a segment: its numbers would have been counted at the start.
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

  /** Truncates a partial write; if that fails too, the checksums reveal it. */
  async #abandon(): Promise<void> {
    const current = this.#current;
    this.#current = null;
    if (current === null) return;
    await current.file.close().catch(() => undefined);
    await this.#options.files.truncate(current.segment.name, current.segment.size).catch(() => undefined);
  }
}

/** A full disk accepts part of a write without an error; the error comes with the rest. */
async function writeAll(file: SegmentFile, bytes: Buffer, position: number): Promise<void> {
  for (let written = 0; written < bytes.length;) {
    const count = await file.write(bytes.subarray(written), position + written);
    if (count === 0) throw new Error("the disk accepts no more writes");
    written += count;
  }
}
