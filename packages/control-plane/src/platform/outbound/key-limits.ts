import { minuteMs } from "@statusmesh/shared/time";

/** Limits of one key, while its sends are answered within {@link slowMs} and otherwise. */
export interface LimitPair {
  fast: number;
  slow: number;
}

const slowMs = 1_000;
/** Slow until this long after the last slow answer, unless a fast one follows. */
const slowForMs = minuteMs;

/** Free slots by key. */
export interface FreePlaces {
  /** Places of a key that {@link all} does not list. */
  readonly limit: number;
  all(): readonly { key: string; free: number }[];
}

/** Counts sends in flight by a key, and limits them. */
export interface KeyLimit extends FreePlaces {
  free(key: string): number;
  begin(key: string, at: number): void;
  end(key: string, began: number): void;
}

interface Entry {
  /** Start of each send in flight, Unix ms, oldest first. */
  begun: number[];
  slowUntil: number;
}

/** `now` is Unix ms. */
export function openKeyLimit(limit: LimitPair, now: () => number): KeyLimit {
  const entries = new Map<string, Entry>();
  const freeOf = ({ begun, slowUntil }: Entry): number => {
    const at = now();
    const slow = at < slowUntil || (begun.length > 0 && at - begun[0]! >= slowMs);
    return Math.max(0, (slow ? limit.slow : limit.fast) - begun.length);
  };
  return {
    limit: limit.fast,
    free(key) {
      const entry = entries.get(key);
      return entry === undefined ? limit.fast : freeOf(entry);
    },
    all: () => [...entries].map(([key, entry]) => ({ key, free: freeOf(entry) })),
    begin(key, at) {
      const entry = entries.get(key) ?? { begun: [], slowUntil: 0 };
      entry.begun.push(at);
      entries.set(key, entry);
    },
    end(key, began) {
      const entry = entries.get(key);
      if (entry === undefined) return;
      entry.begun.splice(entry.begun.indexOf(began), 1);
      const at = now();
      entry.slowUntil = at - began >= slowMs ? at + slowForMs : 0;
      for (const [other, { begun, slowUntil }] of entries)
        if (begun.length === 0 && slowUntil <= at) entries.delete(other);
    },
  };
}
