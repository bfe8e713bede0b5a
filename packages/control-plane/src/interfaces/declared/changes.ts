import { Readable } from "node:stream";
import type { ApplyReply, Change, Summary } from "./schema.ts";

/** Bytes of the changes in a reply. */
const maxBytes = 32 * 1_048_576;
/** Characters that are encoded together. */
const chunkLength = 65_536;
/** Bytes of a reply that is sent in one piece. */
const onePiece = 1_048_576;

/** Changes as the JSON of a reply, as many of the first as it has; counts all. */
export class WrittenChanges {
  readonly #chunks: Buffer[] = [];
  #texts: string[] = [];
  #length = 0;
  /** With the brackets, and a comma a change. */
  #bytes = 1;
  #total = 0;
  #listed = 0;
  readonly #counts = { create: 0, update: 0, delete: 0, adopt: 0, move: 0, pause: 0, orphaned: 0, drift: 0 };

  add(change: Change): void {
    this.#total++;
    this.#counts[change.action]++;
    if (change.drift !== null) this.#counts.drift++;
    if (this.#bytes > maxBytes) return;
    const text = JSON.stringify(change);
    this.#bytes += 1 + Buffer.byteLength(text);
    if (this.#bytes > maxBytes) return;
    this.#texts.push(this.#listed++ === 0 ? text : `,${text}`);
    this.#length += text.length;
    if (this.#length >= chunkLength) this.#flush();
  }

  #flush(): void {
    this.#chunks.push(Buffer.from(this.#texts.join("")));
    this.#texts = [];
    this.#length = 0;
  }

  summary(unchanged: number): Summary {
    const { orphaned, drift, ...done } = this.#counts;
    return { ...done, unchanged, orphaned, drift };
  }

  /** Says that not all changes are listed; null where they are. */
  get warning(): string | null {
    if (this.#listed === this.#total) return null;
    return (
      `The reply has the first ${this.#listed} of ${this.#total} changes, because all of them have more than ` +
      `${maxBytes / 1_048_576} MiB. The summary counts all.`
    );
  }

  /** The bytes of the list without its brackets. */
  get chunks(): readonly Buffer[] {
    if (this.#length > 0) this.#flush();
    return this.#chunks;
  }
}

/** A reply whose changes are written. */
export type WrittenReply<Reply extends ApplyReply = ApplyReply> = Omit<Reply, "changes"> & {
  readonly changes: WrittenChanges;
};

/** The JSON of a reply; a large one is a stream, because its bytes in one piece would be in memory twice. */
export function replyJson<Reply extends ApplyReply>({ changes, ...rest }: WrittenReply<Reply>): Buffer | Readable {
  const text = JSON.stringify(rest);
  const parts = [Buffer.from(`${text.slice(0, -1)},"changes":[`), ...changes.chunks, Buffer.from("]}")];
  const bytes = parts.reduce((sum, { length }) => sum + length, 0);
  return bytes <= onePiece ? Buffer.concat(parts) : Readable.from(parts);
}
