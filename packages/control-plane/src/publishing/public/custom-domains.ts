import type { System } from "../../platform/context.ts";
import type { Hub } from "../../platform/db/notify.ts";
import { pagesChannel, verifiedDomains } from "../status-pages/service.ts";
import { LastGoodCache } from "./cache.ts";

/** Time until a proved domain serves its page, ms. */
const freshMs = 10_000;

/**
 * Answers the id of the page of a verified custom domain. All of them are read at once, at most every 10 s and after a
 * change of a page: a lookup per unknown Host header would let any visitor cause queries.
 */
export function customDomains(system: System, hub: Hub): (host: string) => Promise<string | null> {
  const cache = new LastGoodCache<ReadonlyMap<string, string>>({
    freshMs,
    lastGoodMs: system.config.public_status.last_good_ttl_secs * 1000,
    patienceMs: 2000,
    maxBytes: 1000,
    // The only value.
    bytesOf: () => 0,
    clock: system.clock,
    onFallback: () => undefined,
  });
  hub.on(pagesChannel, () => cache.drop());
  return async (host) => {
    try {
      return (await cache.get("all", () => verifiedDomains(system))).get(host) ?? null;
    } catch {
      // Without the database no custom domain is known; the console says that the database is away.
      return null;
    }
  };
}
