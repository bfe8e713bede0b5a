/** Sends in flight in one process. */
export const maxInFlight = 200;
/**
 * Limits of one channel, host and organisation, while its sends are answered within {@link slowMs} and otherwise: a
 * host that hangs occupies 8 of 200 places, and a channel that hangs 3 of the 20 of its host.
 */
export const channelLimit = { fast: 10, slow: 3 };
export const hostLimit = { fast: 20, slow: 8 };
export const orgLimit = { fast: 100, slow: 40 };
const slowMs = 1_000;
/** Slow until this long after the last slow answer, unless a fast one follows. */
const slowForMs = 60_000;

/** Free places by key. */
export interface FreePlaces {
  /** Places of a key that {@link all} does not list. */
  readonly limit: number;
  all(): readonly { key: string; free: number }[];
}

/** Counts sends in flight by a key, and limits them. */
interface Lane extends FreePlaces {
  free(key: string): number;
  begin(key: string, at: number): void;
  end(key: string, began: number): void;
}

interface Entry {
  /** Start of each send in flight, Unix ms, oldest first. */
  begun: number[];
  slowUntil: number;
}

function openLane(limit: { fast: number; slow: number }, now: () => number): Lane {
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

/** Places for sends of this process, in all, by channel, by host and by organisation. */
export interface Places {
  /** Free places in all. */
  room(): number;
  readonly channels: FreePlaces;
  readonly hosts: FreePlaces;
  readonly orgs: FreePlaces;
  /** Occupies a place and returns what frees it; null when the host has none. */
  take(of: { channel: string; host: string; org: string }): (() => void) | null;
}

/** `now` is Unix ms. */
export function openPlaces(now: () => number): Places {
  const channels = openLane(channelLimit, now);
  const hosts = openLane(hostLimit, now);
  const orgs = openLane(orgLimit, now);
  let taken = 0;
  return {
    room: () => maxInFlight - taken,
    channels,
    hosts,
    orgs,
    take({ channel, host, org }) {
      if (hosts.free(host) === 0) return null;
      const began = now();
      const lanes: [Lane, string][] = [
        [channels, channel],
        [hosts, host],
        [orgs, org],
      ];
      taken++;
      for (const [lane, key] of lanes) lane.begin(key, began);
      return () => {
        taken--;
        for (const [lane, key] of lanes) lane.end(key, began);
      };
    },
  };
}
