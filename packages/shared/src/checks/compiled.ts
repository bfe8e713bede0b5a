/** Something compiled, with the memory that it keeps, bytes. */
export interface Weighed<T> {
  readonly value: T;
  readonly bytes: number;
}

/** What was compiled from texts, the most recently used of it. Its size is bounded in bytes: texts are of tenants. */
export class CompiledCache<T> {
  readonly #known = new Map<string, Weighed<T>>();
  readonly #maxBytes: number;
  readonly #compile: (text: string) => Weighed<T>;
  #bytes = 0;

  constructor(maxBytes: number, compile: (text: string) => Weighed<T>) {
    this.#maxBytes = maxBytes;
    this.#compile = compile;
  }

  /** The memory of all that is kept. */
  get bytes(): number {
    return this.#bytes;
  }

  /** What the text compiles to. Throws like the compiler, whose errors are not kept. */
  get(text: string): T {
    const one = this.#known.get(text) ?? this.#compile(text);
    this.#put(text, one);
    return one.value;
  }

  /** Notes the memory of a value that has grown, where it is still kept. */
  weigh(text: string, bytes: number): void {
    const one = this.#known.get(text);
    if (one !== undefined && one.bytes !== bytes) this.#put(text, { value: one.value, bytes });
  }

  #put(text: string, one: Weighed<T>): void {
    this.#bytes += one.bytes - (this.#known.get(text)?.bytes ?? 0);
    // The last one of a map is the most recent.
    this.#known.delete(text);
    this.#known.set(text, one);
    for (const [oldest, { bytes }] of this.#known) {
      if (this.#bytes <= this.#maxBytes) return;
      this.#known.delete(oldest);
      this.#bytes -= bytes;
    }
  }
}
