import { snapshotLimits } from "@statusmesh/shared/failure-snapshot";

/** Maximum number of body bytes that are read. */
const maxBodyBytes = 1024 * 1024;
const none = Buffer.alloc(0);

/** Counts the bytes of a body and searches its first MiB. Keeps the first KiB. */
export class BodyReader {
  size = 0;
  /** True when the body was longer than the limit. */
  cut = false;
  readonly #text: string | null;
  readonly #needle: Buffer | null;
  #found: boolean;
  /** End of the previous chunk: the text may span two chunks. */
  #tail: Buffer = none;
  #start: Buffer = none;

  constructor(text: string | null) {
    this.#text = text;
    this.#needle = text === null ? null : Buffer.from(text, "utf8");
    this.#found = this.#needle === null;
  }

  /** The first bytes of the body, at most 1 KiB. */
  get start(): Buffer {
    return this.#start.subarray(0, snapshotLimits.body);
  }

  take(chunk: Buffer): void {
    const part = chunk.subarray(0, maxBodyBytes - this.size);
    if (this.#start.length === 0) this.#start = part;
    else if (this.#start.length < snapshotLimits.body) this.#start = Buffer.concat([this.#start, part]);
    this.size += part.length;
    this.cut ||= part.length < chunk.length;
    if (this.#found || this.#needle === null) return;
    const window = this.#tail.length === 0 ? part : Buffer.concat([this.#tail, part]);
    this.#found = window.includes(this.#needle);
    this.#tail = this.#needle.length === 1 ? none : window.subarray(-(this.#needle.length - 1));
  }

  /** Error when the expected text is absent; null otherwise. */
  missing(contentEncoding: string | undefined): string | null {
    if (this.#found || this.#text === null) return null;
    const shown = this.#text.length > 100 ? `${this.#text.slice(0, 100)}…` : this.#text;
    const where = this.cut ? "the first MiB of the body" : "the body";
    const why =
      contentEncoding === undefined
        ? ""
        : ` (the server sent it as ${contentEncoding.slice(0, 40)} although that was not asked for)`;
    return `${where} does not contain "${shown}"${why}`;
  }
}
