/** First-in, first-out queue with amortised constant cost. */
export class Queue<T> {
  #items: T[] = [];
  #head = 0;

  get size(): number {
    return this.#items.length - this.#head;
  }

  get first(): T | undefined {
    return this.#items[this.#head];
  }

  get last(): T | undefined {
    return this.size === 0 ? undefined : this.#items.at(-1);
  }

  push(item: T): void {
    this.#items.push(item);
  }

  /** The item at an index, counted from the front. */
  at(index: number): T | undefined {
    return this.#items[this.#head + index];
  }

  /** Removes and returns the first `max` items, or as many as there are. */
  take(max: number): T[] {
    const taken = this.#items.slice(this.#head, this.#head + max);
    this.#head += taken.length;
    // Slicing the array at every call would copy it every time.
    if (this.#head >= 1024 && this.#head * 2 >= this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return taken;
  }

  /** Puts items back in order. */
  merge(items: readonly T[], compare: (one: T, other: T) => number): void {
    const last = items.at(-1);
    if (last === undefined) return;
    const { first } = this;
    this.#items = [...items, ...this.#items.slice(this.#head)];
    this.#head = 0;
    // Usually they were the first items and are again.
    if (first !== undefined && compare(last, first) > 0) this.#items.sort(compare);
  }
}
