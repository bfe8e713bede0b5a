import { setImmediate } from "node:timers/promises";

/** Reads `key` by `read`, or waits for a read of it that begins from now on. */
export type SharedReads<T> = (key: string, read: () => Promise<T>) => Promise<T>;

interface Line<T> {
  readonly running: Promise<T>;
  /** Begins when `running` has ended; those who come meanwhile wait for it. */
  next: Promise<T> | null;
}

/**
 * Whoever asks for a key while a read of it is on its way waits for the next one, together with all who come meanwhile.
 * So what a caller gets was read after it asked, as if it had asked alone, and any number of callers cost one read at a
 * time. Nothing is remembered. A read that fails, fails for those who waited for it and for nobody else.
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
    // A turn of the event loop later: whoever is on the doorstep comes along.
    const then = async (): Promise<T> => {
      await setImmediate();
      return await begin(key, read);
    };
    line.next ??= line.running.then(then, then);
    return line.next;
  };
}
