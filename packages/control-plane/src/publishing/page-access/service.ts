import type { BlockList } from "node:net";
import type { Context } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import { addressList, isListed } from "@statusmesh/shared/net/address";
import { minuteMs } from "@statusmesh/shared/time";
import { bearerOf } from "../../access/auth/sessions/service.ts";
import { findToken } from "../../access/auth/tokens/service.ts";
import { withPlace } from "../../access/auth/passwords/service.ts";
import { getOrMake } from "../../platform/caches.ts";
import type { System } from "../../platform/context.ts";
import { countEvent, takeBackEvent } from "../../platform/db/counters.ts";
import { addressKey, visitorAddress } from "../../platform/http/limits/per-ip.ts";
import { rateLimited } from "../../platform/http/limits/throttle.ts";
import { isPasswordOf } from "../status-pages/access/service.ts";
import type { PageRow } from "../status-pages/visits/service.ts";
import { provenBy, readerCookie } from "./cookie.ts";
import * as queries from "./queries.ts";
import { hasReaderToken } from "./reader-key.ts";
import { isReader } from "./readers.ts";

export { isLink, requestLink, useLink } from "./mail-links.ts";
export { readerKeys } from "./reader-key.ts";
export { bindBrowser, hostOf, isAtPageHost, proofAtConsole, readerCode, redeemCode } from "./readers.ts";

/** Wrong passwords of a visitor for a page within a minute. */
const maxWrong = 10;

/** Headers of every reply to a reader of a private page. */
export const readerHeaders = {
  "Cache-Control": "private, max-age=10",
  Vary: "Cookie, Authorization",
  "X-Robots-Tag": "noindex",
} as const;

/** The refusal of a private page. It says nothing of the page beside the title that its owner chose for strangers. */
export const noAccess = (message = "This page is private."): AppError => new AppError("PAGE_ACCESS", message);

/** Whether the request may read this private page. */
export async function mayRead(system: System, http: Context, page: PageRow): Promise<boolean> {
  return (
    isInOpenNetwork(system, http, page) ||
    hasReaderToken(system, http, page) ||
    (await hasProven(system, http, page)) ||
    (await hasConsoleToken(system, http, page))
  );
}

/** Whether the visitor has proven what the mode of the page asks for. */
async function hasProven(system: System, http: Context, page: PageRow): Promise<boolean> {
  const { mode, email_domains: domains } = page.access;
  if (mode === "members" || mode === "groups") return await isReader(system, http, page);
  const proven = await provenBy(system, http, page);
  if (proven === null) return false;
  return proven === "password" ? mode === "password" : mode === "email_domains" && domains.includes(proven.mailDomain);
}

const lists = new WeakMap<object, BlockList>();

function isInOpenNetwork({ config }: System, http: Context, { access }: PageRow): boolean {
  const { open_networks: networks } = access;
  if (networks.length === 0) return false;
  return isListed(
    getOrMake(lists, access, () => addressList(networks)),
    visitorAddress(http, config),
  );
}

/** True for a token that reads status pages in the organisation of the page. */
async function hasConsoleToken(system: System, http: Context, page: PageRow): Promise<boolean> {
  const token = bearerOf(http);
  if (token === null || !token.startsWith("sm_live_")) return false;
  const found = await findToken(system, token, { org: page.org_id, deletedToo: false, anyOrg: false });
  return !("refused" in found) && found.orgId === page.org_id && found.scopes.has("status_page:read");
}

/**
 * The Set-Cookie header for a visitor who knows the password of the page. Throws PAGE_ACCESS for a wrong one, and
 * RATE_LIMITED after 10 wrong ones of a visitor within a minute, before the password is judged.
 */
export async function enterWithPassword(
  system: System,
  http: Context,
  page: PageRow,
  password: string,
): Promise<string> {
  const visitor = addressKey(visitorAddress(http, system.config));
  // Each try counts as wrong until it was right, so that parallel tries count each other.
  const cap = { scope: "page_password", key: `${visitor} ${page.id}`, limit: maxWrong, windowMs: minuteMs };
  return await withPlace(visitor, false, async () => {
    const exceeded = await countEvent(system.sql, [cap], system.clock.now());
    if (exceeded !== null) throw rateLimited(cap.scope, exceeded.leftMs, { limit: maxWrong });
    if (!(await isPasswordOf(system, page, password))) throw noAccess("The password is wrong.");
    await takeBackEvent(system.sql, cap);
    return await readerCookie(system, page, "password");
  });
}

/** Deletes codes, readers and links that are over. */
export async function sweepReaders({ sql, clock }: System): Promise<void> {
  await queries.deleteOver(sql, new Date(clock.now()));
}
