import { snapshotLimits } from "@statusmesh/shared/failure-snapshot";

/** Maximum number of body bytes that are read. */
const maxBodyBytes = 1024 * 1024;
const none = Buffer.alloc(0);

/** Counts the bytes of a body and searches its first MiB. Keeps the first KiB, or with `keepsAll` the first MiB. */
export class BodyReader {
  size = 0;
  /** True when the body was longer than the limit. */
  cut = false;
  readonly #needle: Buffer | null;
  readonly #chunks: Buffer[] | null;
  #found: boolean;
  /** End of the previous chunk: the text may span two chunks. */
  #tail: Buffer = none;
  #start: Buffer = none;

  constructor(text: string | null, charset: "utf8" | "latin1" = "utf8", keepsAll = false) {
    this.#needle = text === null ? null : Buffer.from(text, charset);
    this.#found = this.#needle === null;
    this.#chunks = keepsAll ? [] : null;
  }

  /** The first bytes of the body, at most 1 KiB. */
  get start(): Buffer {
    return this.#start.subarray(0, snapshotLimits.body);
  }

  /** The first MiB of the body; empty unless it is kept. */
  get whole(): Buffer {
    return Buffer.concat(this.#chunks ?? []);
  }

  /** True when the text was in the first MiB, or none is searched. */
  get found(): boolean {
    return this.#found;
  }

  take(chunk: Buffer): void {
    const part = chunk.subarray(0, maxBodyBytes - this.size);
    if (this.#start.length === 0) this.#start = part;
    else if (this.#start.length < snapshotLimits.body) this.#start = Buffer.concat([this.#start, part]);
    this.size += part.length;
    this.cut ||= part.length < chunk.length;
    this.#chunks?.push(part);
    if (this.#found || this.#needle === null) return;
    const window = this.#tail.length === 0 ? part : Buffer.concat([this.#tail, part]);
    this.#found = window.includes(this.#needle);
    this.#tail = this.#needle.length === 1 ? none : window.subarray(-(this.#needle.length - 1));
  }
}
