import { type FreePlaces, type KeyLimit, openKeyLimit } from "../../../platform/outbound/key-limits.ts";

/** Sends in flight in one process. */
export const maxInFlight = 200;
/**
 * Limits of one channel, host and organisation, while its sends are answered within a second and otherwise: a
 * host that hangs occupies 8 of 200 places, and a channel that hangs 3 of the 20 of its host.
 */
export const channelLimit = { fast: 10, slow: 3 };
export const hostLimit = { fast: 20, slow: 8 };
export const orgLimit = { fast: 100, slow: 40 };

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
  const channels = openKeyLimit(channelLimit, now);
  const hosts = openKeyLimit(hostLimit, now);
  const orgs = openKeyLimit(orgLimit, now);
  let taken = 0;
  return {
    room: () => maxInFlight - taken,
    channels,
    hosts,
    orgs,
    take({ channel, host, org }) {
      if (hosts.free(host) === 0) return null;
      const began = now();
      const limits: [KeyLimit, string][] = [
        [channels, channel],
        [hosts, host],
        [orgs, org],
      ];
      taken++;
      for (const [limit, key] of limits) limit.begin(key, began);
      return () => {
        taken--;
        for (const [limit, key] of limits) limit.end(key, began);
      };
    },
  };
}
