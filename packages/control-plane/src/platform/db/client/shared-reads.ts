import { setImmediate } from "node:timers/promises";

/** Reads `key` by `read`, or waits for a read of it that has not begun yet. */
export type SharedReads<T> = (key: string, read: () => Promise<T>) => Promise<T>;

interface Line<T> {
  readonly running: Promise<T>;
  /** Begins when `running` has ended; later callers share it. */
  next: Promise<T> | null;
}

/**
 * Coalesces reads by key. A caller during a running read waits for the next one, which all callers until then share. So
 * a caller gets what was read after its call, and any number of callers cost one read at a time. Nothing is cached; a
 * failed read rejects its own callers only.
 */
export function sharedReads<T>(): SharedReads<T> {
  const lines = new Map<string, Line<T>>();

  const begin = (key: string, read: () => Promise<T>): Promise<T> => {
    const line: Line<T> = { running: read(), next: null };
    lines.set(key, line);
    const forget = (): void => {
      if (line.next === null) lines.delete(key);
    };
    line.running.then(forget, forget);
    return line.running;
  };

  return (key, read) => {
    const line = lines.get(key);
    if (line === undefined) return begin(key, read);
    // One turn of the event loop later, so that callers of this turn join the read.
    const then = async (): Promise<T> => {
      await setImmediate();
      return await begin(key, read);
    };
    line.next ??= line.running.then(then, then);
    return line.next;
  };
}
