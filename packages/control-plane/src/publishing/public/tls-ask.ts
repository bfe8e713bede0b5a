import { domainToASCII } from "node:url";
import { AppError } from "@statusmesh/shared/errors";
import type { System } from "../../platform/context.ts";
import { pageOfName } from "../../platform/http/page-host.ts";
import { type PublishedNames, publishedNames } from "../status-pages/service.ts";
import { LastGoodCache } from "./cache.ts";

/** One cache per database pool. */
const caches = new WeakMap<object, LastGoodCache<PublishedNames>>();

function cacheOf(system: System): LastGoodCache<PublishedNames> {
  let cache = caches.get(system.sql);
  if (cache === undefined) {
    cache = new LastGoodCache({
      freshMs: 10_000,
      lastGoodMs: system.config.public_status.last_good_ttl_secs * 1000,
      patienceMs: 2000,
      maxBytes: 1000,
      // The only value.
      bytesOf: () => 0,
      clock: system.clock,
      onFallback: () => undefined,
    });
    caches.set(system.sql, cache);
  }
  return cache;
}

/** Drops the names after a change of a page. */
export const dropNames = (system: System): void => cacheOf(system).drop();

/**
 * Throws STATUS_PAGE_NOT_FOUND unless the domain is the host of a published page: a proved custom domain or a subdomain
 * of `public_status.base_domain`. All names are read at once, at most every 10 s, because each TLS handshake with an
 * unknown name may ask.
 */
export async function requirePageDomain(system: System, asked: string): Promise<void> {
  const domain = domainToASCII(asked.replace(/\.$/, ""));
  const { slugs, domains } = await cacheOf(system).get("all", () => publishedNames(system));
  const page = pageOfName(domain, system.config);
  const served =
    page !== null && "slug" in page ? page.slug !== null && slugs.has(page.slug) : domain !== "" && domains.has(domain);
  if (!served) throw new AppError("STATUS_PAGE_NOT_FOUND", "No status page is published at this domain.");
}
