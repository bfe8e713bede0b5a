import { snapshotLimits } from "@statusmesh/shared/protocol/failure-snapshot";

/** Maximum number of body bytes that are read. */
export const maxBodyBytes = 1024 * 1024;
const none = Buffer.alloc(0);

/** Counts the bytes of a body and searches the first `max` ones. Keeps the first KiB, with `keepsAll` all of them. */
export class BodyReader {
  size = 0;
  /** True when the body was longer than the limit. */
  cut = false;
  readonly #needle: Buffer | null;
  /** The body so far with room for more: chunks may have one byte each. */
  #kept: Buffer | null;
  readonly #max: number;
  #found: boolean;
  /** End of the previous chunk: the text may span two chunks. */
  #tail: Buffer = none;
  #start: Buffer = none;

  constructor(text: string | null, { keepsAll = false, max = maxBodyBytes } = {}) {
    this.#needle = text === null ? null : Buffer.from(text, "utf8");
    this.#max = max;
    this.#found = this.#needle === null;
    this.#kept = keepsAll ? none : null;
  }

  /** The first bytes of the body, at most 1 KiB. */
  get start(): Buffer {
    return this.#start.subarray(0, snapshotLimits.body);
  }

  /** The body as far as it was read; empty unless it is kept. */
  get whole(): Buffer {
    return this.#kept?.subarray(0, this.size) ?? none;
  }

  /** True where {@link whole} is the body. */
  get isKept(): boolean {
    return this.#kept !== null;
  }

  /** True when the text was in what was read, or none is searched. */
  get found(): boolean {
    return this.#found;
  }

  take(chunk: Buffer): void {
    const part = chunk.subarray(0, this.#max - this.size);
    if (this.#start.length === 0) this.#start = part;
    else if (this.#start.length < snapshotLimits.body) this.#start = Buffer.concat([this.#start, part]);
    // The first byte of a UTF-16 mark, which UTF-8 does not have: such a body is decoded before it is searched.
    if (this.size === 0 && this.#needle !== null && part[0]! >= 0xfe) this.#kept ??= none;
    if (this.#kept !== null) this.#keep(this.#kept, part);
    this.size += part.length;
    this.cut ||= part.length < chunk.length;
    if (this.#found || this.#needle === null) return;
    const window = this.#tail.length === 0 ? part : Buffer.concat([this.#tail, part]);
    this.#found = window.includes(this.#needle);
    this.#tail = this.#needle.length === 1 ? none : window.subarray(-(this.#needle.length - 1));
  }

  #keep(kept: Buffer, part: Buffer): void {
    const size = this.size + part.length;
    if (size > kept.length) {
      this.#kept = this.size === 0 ? Buffer.from(part) : Buffer.allocUnsafe(Math.min(this.#max, 2 * size));
      if (this.size === 0) return;
      kept.copy(this.#kept, 0, 0, this.size);
    }
    part.copy(this.#kept!, this.size);
  }
}
