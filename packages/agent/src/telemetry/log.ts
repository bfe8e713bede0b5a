type Level = "debug" | "info" | "warn" | "error";

/**
 * Writes one JSON object per line to standard output. Callers name every field; specs, headers and tokens are never
 * logged.
 */
export type Log = (
  level: Level,
  msg: string,
  fields?: Record<string, string | number | boolean | null | object>,
) => void;

/** The agent's log. `now` gives Unix ms. */
export function jsonLog(write: (line: string) => void, now: () => number): Log {
  return (level, msg, fields = {}) =>
    write(`${JSON.stringify({ time: new Date(now()).toISOString(), level, msg, ...fields })}\n`);
}

/** Logs a condition once when it starts, and not again until {@link Once.clear}. */
export class Once {
  #current: string | null = null;
  readonly #log: Log;

  constructor(log: Log) {
    this.#log = log;
  }

  say(level: Level, msg: string): void {
    if (this.#current === msg) return;
    this.#current = msg;
    this.#log(level, msg);
  }

  /** The condition has ended. Returns true when there was one. */
  clear(): boolean {
    const was = this.#current !== null;
    this.#current = null;
    return was;
  }
}
