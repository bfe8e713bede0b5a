import { createHmac } from "node:crypto";
import type { Context } from "koa";
import { LRUCache } from "lru-cache";
import { dayMs } from "@statusmesh/shared/time";
import { ownCookie } from "../../access/auth/service.ts";
import { atMost, getOrMake } from "../../platform/caches.ts";
import type { System } from "../../platform/context.ts";
import { sameSecret } from "../../platform/crypto/token.ts";
import { signingKey } from "../../platform/db/signing-keys.ts";
import type { PageRow } from "../status-pages/service.ts";

const lifetimeMs = 30 * dayMs;
/** Cookies that are known to be right, so that a reader costs a signature once. */
const maxKnown = 10_000;

/** A cookie of each page: a reader may have access to several on one host. */
const nameOf = (page: PageRow): string => `_sm_page_${page.id}`;

type Bound = Pick<PageRow, "id" | "access_revision">;

async function signed({ sql }: System, { id, access_revision }: Bound, expires: number): Promise<string> {
  return createHmac("sha256", await signingKey(sql, "page"))
    .update(`${id}.${access_revision}.${expires}`)
    .digest("base64url");
}

/** The Set-Cookie header of a reader: for this page, until its mode or password changes, 30 days at most. */
export async function readerCookie(system: System, page: PageRow): Promise<string> {
  const expires = system.clock.now() + lifetimeMs;
  return ownCookie(system.config, nameOf(page), `${expires}.${await signed(system, page, expires)}`, new Date(expires));
}

/** Times at which known cookies expire, per database pool. */
const known = new WeakMap<object, LRUCache<string, number>>();

/** True for a browser whose cookie was set for this page since the last change of its mode and password. */
export async function hasReaderCookie(system: System, http: Context, page: PageRow): Promise<boolean> {
  const value = http.cookies.get(nameOf(page));
  if (value === undefined) return false;
  const ours = getOrMake(known, system.sql, () => new LRUCache<string, number>(atMost(maxKnown)));
  const key = `${page.id} ${page.access_revision} ${value}`;
  const until = ours.get(key);
  if (until !== undefined) return until > system.clock.now();
  const [expires, signature, ...more] = value.split(".");
  if (expires === undefined || signature === undefined || more.length > 0 || !/^\d{1,15}$/.test(expires)) return false;
  if (!sameSecret(signature, await signed(system, page, Number(expires)))) return false;
  ours.set(key, Number(expires));
  return Number(expires) > system.clock.now();
}
