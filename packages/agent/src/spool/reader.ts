import type { AgentResult } from "@statusmesh/shared/protocol/agent-protocol";
import { messageOf } from "@statusmesh/shared/thrown";
import type { Files } from "./files.ts";
import { decodeResult, frameAt, type Segment } from "./format.ts";

/** A result and its frame number. */
export interface Entry {
  seq: number;
  result: AgentResult;
}

export interface ReaderOptions {
  files: Files;
  /** The segments to read, in order; they change while the reader reads. */
  segments: () => readonly Segment[];
  /** True for a frame to skip: done or in flight. */
  skip: (seq: number) => boolean;
  /** True when every frame from `from` up to `to` is to be skipped. */
  skipAll: (from: number, to: number) => boolean;
  /** Called for results from `from` up to `to` that cannot be read. */
  lost: (from: number, to: number, reason: string) => void;
}

/** Reads the backlog from the oldest result on. Keeps one segment in memory. */
export class Reader {
  readonly #options: ReaderOptions;
  #segment: Segment | null = null;
  /** The part of the segment that starts at byte `#offset` of the file. */
  #bytes: Buffer = Buffer.alloc(0);
  #offset = 0;
  #at = 0;
  /** The frame at `#at`, or, without a segment, the first frame to read. */
  #seq = 0;

  constructor(options: ReaderOptions) {
    this.#options = options;
  }

  /** Rewinds so that the frame `seq` is read again. */
  rewind(seq: number): void {
    if (seq >= this.#seq) return;
    const segment = this.#options.segments().find(({ base, end }) => base <= seq && seq < end);
    this.#segment = null;
    this.#seq = segment?.base ?? seq;
  }

  /** Passes each result below frame `limit()` to `take` until `take` returns false or there are no more. */
  async read(limit: () => number, take: (entry: Entry) => boolean): Promise<void> {
    for (;;) {
      const segment = await this.#load(limit);
      if (segment === null) return;
      // No await from here on: a result that was read is taken before any other code can take or drop it.
      while (this.#seq < segment.end && this.#at < this.#bytes.length) {
        if (this.#seq >= limit()) return;
        const entry = this.#next(segment, limit());
        if (entry !== null && !take(entry)) return;
      }
    }
  }

  /** The segment of the next frame, in memory; null when there is nothing to read below `limit`. */
  async #load(limit: () => number): Promise<Segment | null> {
    for (;;) {
      const segment = this.#options.segments().find(({ end }) => end > this.#seq);
      if (segment === undefined || Math.max(this.#seq, segment.base) >= limit()) {
        this.#forget();
        return null;
      }
      if (segment !== this.#segment) this.#open(segment);
      if (this.#options.skipAll(this.#seq, segment.end)) {
        this.#segment = null;
        this.#bytes = Buffer.alloc(0);
        this.#seq = segment.end;
        continue;
      }
      if (this.#at < this.#bytes.length) return segment;
      const from = this.#offset + this.#at;
      const seq = this.#seq;
      try {
        const bytes = await this.#options.files.read(segment.name, from, segment.size);
        // The segment may have been dropped, or the reader rewound, meanwhile.
        if (this.#segment !== segment || this.#seq !== seq || !this.#options.segments().includes(segment)) continue;
        if (bytes.length === 0) throw new Error("the file is shorter than it was");
        this.#bytes = bytes;
        this.#offset = from;
        this.#at = 0;
        return segment;
      } catch (error) {
        if (this.#options.segments().includes(segment)) this.#giveUp(segment, seq, limit(), messageOf(error));
      }
    }
  }

  #open(segment: Segment): void {
    this.#segment = segment;
    this.#bytes = Buffer.alloc(0);
    this.#offset = segment.start;
    this.#at = 0;
    this.#seq = segment.base;
  }

  /** Releases the bytes of the segment while there is nothing to read. */
  #forget(): void {
    this.#offset += this.#at;
    this.#at = 0;
    this.#bytes = Buffer.alloc(0);
  }

  #next(segment: Segment, limit: number): Entry | null {
    const seq = this.#seq;
    const skip = this.#options.skip(seq);
    const found = frameAt(this.#bytes, this.#at, skip);
    if (found.is === "cut" || found.is === "broken") {
      this.#giveUp(segment, seq, limit, "the rest of the file is damaged");
      return null;
    }
    this.#seq++;
    this.#at = found.end;
    if (skip) return null;
    const result = found.is === "frame" ? decodeResult(this.#bytes.toString("utf8", found.start, found.end)) : null;
    if (result === null) this.#options.lost(seq, seq + 1, "a result is damaged");
    return result === null ? null : { seq, result };
  }

  /** Frames at or above the limit are still in memory, so they are not lost. */
  #giveUp(segment: Segment, from: number, limit: number, reason: string): void {
    const to = Math.min(segment.end, limit);
    this.#options.lost(from, to, reason);
    this.#segment = null;
    this.#bytes = Buffer.alloc(0);
    this.#seq = Math.max(this.#seq, to);
  }
}
