import { createHmac } from "node:crypto";
import type { Context } from "koa";
import { LRUCache } from "lru-cache";
import { dayMs } from "@statusmesh/shared/time";
import { ownCookie } from "../../access/auth/cookies/service.ts";
import type { Config } from "../../config/config.ts";
import { atMost, getOrMake } from "../../platform/caches.ts";
import type { System } from "../../platform/context.ts";
import { sameSecret } from "../../platform/crypto/token.ts";
import { signingKey } from "../../platform/db/signing-keys.ts";
import type { PageRow } from "../status-pages/visits/service.ts";

const lifetimeMs = 30 * dayMs;
/** Cookies that are known to be right, so that a reader costs a signature once. */
const maxKnown = 10_000;

/**
 * A cookie of each page: a reader may have access to several on one host. Over TLS `__Host-`: browsers refuse such a
 * cookie from another host of the same domain (RFC 6265bis, section 4.1.3.2).
 */
export const readerCookieName = (config: Config, { id }: Pick<PageRow, "id">): string =>
  `${prefixOf(config)}_sm_page_${id}`;

/** The cookie of a browser on its way to the console's host and back. A page's own host has one page. */
export const enterCookieName = (config: Config): string => `${prefixOf(config)}_sm_enter`;

const prefixOf = ({ server }: Config): string => (server.public_url.startsWith("https:") ? "__Host-" : "");

type Bound = Pick<PageRow, "id" | "access_revision">;

/** What a visitor has proven: an address of this domain, or the password of the page. */
export type Proven = { mailDomain: string } | "password";

const partOf = (proven: Proven): string =>
  proven === "password" ? "" : `.${Buffer.from(proven.mailDomain).toString("base64url")}`;

async function signed({ sql }: System, { id, access_revision }: Bound, claim: string): Promise<string> {
  return createHmac("sha256", await signingKey(sql, "page"))
    .update(`${id}.${access_revision}.${claim}`)
    .digest("base64url");
}

/** The Set-Cookie header of a reader: for this page, until its mode or password changes, 30 days at most. */
export async function readerCookie(system: System, page: PageRow, proven: Proven): Promise<string> {
  const expires = system.clock.now() + lifetimeMs;
  const claim = `${expires}${partOf(proven)}`;
  const value = `${claim}.${await signed(system, page, claim)}`;
  return ownCookie(system.config, readerCookieName(system.config, page), value, new Date(expires));
}

interface Known {
  until: number;
  proven: Proven;
}

/** Known cookies, per database pool. */
const known = new WeakMap<object, LRUCache<string, Known>>();

/** What a browser has proven for this page since the last change of its mode and password; null for nothing. */
export async function provenBy(system: System, http: Context, page: PageRow): Promise<Proven | null> {
  const value = http.cookies.get(readerCookieName(system.config, page));
  if (value === undefined) return null;
  const ours = getOrMake(known, system.sql, () => new LRUCache<string, Known>(atMost(maxKnown)));
  const key = `${page.id} ${page.access_revision} ${value}`;
  let found = ours.get(key);
  if (found === undefined) {
    const [, expires, domain, signature] = /^(\d{1,15})(?:\.([\w-]{1,400}))?\.([\w-]{43})$/.exec(value) ?? [];
    if (expires === undefined || signature === undefined) return null;
    const proven: Proven =
      domain === undefined ? "password" : { mailDomain: Buffer.from(domain, "base64url").toString() };
    if (!sameSecret(signature, await signed(system, page, `${expires}${partOf(proven)}`))) return null;
    found = { until: Number(expires), proven };
    ours.set(key, found);
  }
  return found.until > system.clock.now() ? found.proven : null;
}
