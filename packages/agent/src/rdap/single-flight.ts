interface Flight<T> {
  controller: AbortController;
  waiters: number;
  result: Promise<T>;
}

/** Single-flight: concurrent callers of a key share the work, which continues while at least one of them waits. */
export class SingleFlight<T> {
  readonly #flights = new Map<string, Flight<T>>();

  /** Joins the running work of `key`, or starts it. Rejects with the reason of `signal` when the caller gives up. */
  join(key: string, signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    if (signal.aborted) return Promise.reject(signal.reason as Error);
    const flight = this.#flights.get(key) ?? this.#start(key, work);
    flight.waiters++;
    return new Promise((settle, reject) => {
      const onAbort = (): void => {
        reject(signal.reason as Error);
        if (--flight.waiters > 0) return;
        // Later callers start anew instead of joining cancelled work.
        this.#end(key, flight);
        flight.controller.abort(signal.reason);
      };
      signal.addEventListener("abort", onAbort, { once: true });
      flight.result.then(settle, reject).finally(() => signal.removeEventListener("abort", onAbort));
    });
  }

  #start(key: string, work: (signal: AbortSignal) => Promise<T>): Flight<T> {
    const controller = new AbortController();
    const flight: Flight<T> = { controller, waiters: 0, result: work(controller.signal) };
    this.#flights.set(key, flight);
    const end = (): void => this.#end(key, flight);
    flight.result.then(end, end);
    return flight;
  }

  #end(key: string, flight: Flight<T>): void {
    if (this.#flights.get(key) === flight) this.#flights.delete(key);
  }
}
