/** A semaphore per key, with a FIFO queue. */
export class Line {
  readonly #taken = new Map<string, number>();
  readonly #waiting = new Map<string, (() => void)[]>();
  /** Places per key. */
  max = 1;

  /** Resolves with the release function when a place is free. Rejects with the reason of `signal`. */
  enter(key: string, signal: AbortSignal): Promise<() => void> {
    if (signal.aborted) return Promise.reject(signal.reason as Error);
    return new Promise((settle, reject) => {
      const onAbort = (): void => {
        const waiting = this.#waiting.get(key)?.filter((other) => other !== take) ?? [];
        if (waiting.length === 0) this.#waiting.delete(key);
        else this.#waiting.set(key, waiting);
        reject(signal.reason as Error);
      };
      const take = (): void => {
        signal.removeEventListener("abort", onAbort);
        this.#taken.set(key, (this.#taken.get(key) ?? 0) + 1);
        settle(() => this.#leave(key));
      };
      signal.addEventListener("abort", onAbort, { once: true });
      this.#waiting.set(key, [...(this.#waiting.get(key) ?? []), take]);
      this.#admit(key);
    });
  }

  #leave(key: string): void {
    const left = (this.#taken.get(key) ?? 0) - 1;
    if (left <= 0) this.#taken.delete(key);
    else this.#taken.set(key, left);
    this.#admit(key);
  }

  #admit(key: string): void {
    const waiting = this.#waiting.get(key) ?? [];
    while (waiting.length > 0 && (this.#taken.get(key) ?? 0) < this.max) waiting.shift()?.();
    if (waiting.length === 0) this.#waiting.delete(key);
  }
}
