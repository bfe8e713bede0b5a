import { domainToASCII } from "node:url";
import { AppError } from "@statusmesh/shared/errors";
import { getOrMake } from "../../platform/caches.ts";
import type { System } from "../../platform/context.ts";
import type { Hub } from "../../platform/db/notify.ts";
import { pageOfName } from "../../platform/http/page-host.ts";
import { pagesChannel } from "../status-pages/service.ts";
import { type PublishedNames, publishedNames, verifiedDomains } from "../status-pages/domains/service.ts";
import { LastGoodCache } from "./page/cache.ts";

/*
 * Domains of status pages. All of them are read at once, at most every 10 s and after a change of a page: a lookup per
 * unknown Host header or TLS handshake would let any visitor cause queries.
 */

const newCache = <T extends object>({ config, clock }: System) =>
  new LastGoodCache<T>({
    freshMs: 10_000,
    lastGoodMs: config.public_status.last_good_ttl_secs * 1000,
    patienceMs: 2000,
    maxBytes: 1000,
    // The only value.
    bytesOf: () => 0,
    clock,
    onFallback: () => undefined,
  });

/** Answers the id of the page of a verified custom domain. */
export function customDomains(system: System, hub: Hub): (host: string) => Promise<string | null> {
  const cache = newCache<ReadonlyMap<string, string>>(system);
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

/** One cache per database pool. */
const caches = new WeakMap<object, LastGoodCache<PublishedNames>>();

const namesOf = (system: System): LastGoodCache<PublishedNames> =>
  getOrMake(caches, system.sql, () => newCache<PublishedNames>(system));

/** Drops the names after a change of a page. */
export const dropNames = (system: System): void => namesOf(system).drop();

/**
 * Throws STATUS_PAGE_NOT_FOUND unless the domain is the host of a published page: a proved custom domain or a subdomain
 * of `public_status.base_domain`.
 */
export async function requirePageDomain(system: System, asked: string): Promise<void> {
  const domain = domainToASCII(asked.replace(/\.$/, ""));
  const { slugs, domains } = await namesOf(system).get("all", () => publishedNames(system));
  const page = pageOfName(domain, system.config);
  const served =
    page !== null && "slug" in page ? page.slug !== null && slugs.has(page.slug) : domain !== "" && domains.has(domain);
  if (!served) throw new AppError("STATUS_PAGE_NOT_FOUND", "No status page is published at this domain.");
}
