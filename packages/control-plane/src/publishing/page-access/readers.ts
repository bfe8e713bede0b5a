import type { Context } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import { hourMs, minuteMs, secondMs } from "@statusmesh/shared/time";
import { browserSession, idleSince } from "../../access/auth/sessions/service.ts";
import { ownCookie } from "../../access/auth/cookies/service.ts";
import { readerSession } from "../../access/sign-in/service.ts";
import { getOrMake } from "../../platform/caches.ts";
import type { System } from "../../platform/context.ts";
import { hashToken, newToken } from "../../platform/crypto/token.ts";
import { type SharedReads, sharedReads } from "../../platform/db/client/shared-reads.ts";
import { pageHostOf } from "../../platform/http/page-host.ts";
import type { PageRow } from "../status-pages/visits/service.ts";
import { enterCookieName, readerCookieName } from "./cookie.ts";
import * as queries from "./queries.ts";

/*
 * Members and people with groups. They prove who they are at the console's host; its cookies never leave it. A page's
 * own host gets a one-time code, bound to page, host and browser, and sets a cookie of its own for it.
 */

const codeMs = 60 * secondMs;
const cookieMs = 12 * hourMs;
/** Time to sign in before the code is fetched. */
const browserMs = 60 * minuteMs;
const secretShape = /^[\w-]{43}$/;

/** True at a page's own host, false at the console's. */
export function isAtPageHost(http: Context): boolean {
  const page = pageHostOf(http);
  return page !== null && !("path" in page);
}

/** The requested host in its one spelling. */
export const hostOf = (http: Context): string => http.hostname.toLowerCase().replace(/\.$/, "");

/** Who proves to be a reader: a session of the console, or a reader session. */
export type Proof = { sessionId: string } | { readerSessionId: string };

/** Lookups in flight per database pool. Nothing is cached: a reader who leaves is out at the next request. */
const lookups = new WeakMap<object, SharedReads<unknown>>();

const sharedRead = async <T>(system: System, key: string, read: () => Promise<T>): Promise<T> =>
  (await getOrMake(lookups, system.sql, () => sharedReads<unknown>())(key, read)) as T;

/** What a browser at the console's host proves for a page; `refused`: somebody who may not read it; null: nobody. */
export async function proofAtConsole(system: System, http: Context, page: PageRow): Promise<Proof | "refused" | null> {
  const { mode, groups } = page.access;
  if (mode === "groups") {
    const session = await readerSession(system, http);
    if (session === null) return null;
    return session.groups.some((group) => groups.includes(group)) ? { readerSessionId: session.id } : "refused";
  }
  const session = await sessionOf(system, http, page.org_id);
  if (session === null) return null;
  const { orgId, scopes, actor } = session.ctx;
  return orgId === page.org_id && scopes.has("status_page:read") ? { sessionId: actor.id! } : "refused";
}

async function sessionOf(system: System, http: Context, orgId: string) {
  try {
    return await browserSession(system, http, orgId);
  } catch (error) {
    if (error instanceof AppError && error.code === "ORG_NOT_FOUND") return null;
    throw error;
  }
}

/** True for a member, or a person with one of the groups of the page. */
export async function isReader(system: System, http: Context, page: PageRow): Promise<boolean> {
  if (!isAtPageHost(http)) {
    const proof = await proofAtConsole(system, http, page);
    return proof !== null && proof !== "refused";
  }
  const secret = http.cookies.get(readerCookieName(system.config, page));
  if (secret === undefined || !secretShape.test(secret)) return false;
  const host = hostOf(http);
  const { mode, groups } = page.access;
  const key = `${page.id} ${page.revision} ${host} ${secret}`;
  return await sharedRead(system, key, async () => {
    const now = new Date(system.clock.now());
    const wanted = mode === "groups" ? groups : null;
    return await queries.isReader(system.sql, readPage(page, host), hashToken(secret), wanted, {
      now,
      idle: idleSince(now),
    });
  });
}

const readPage = ({ id, org_id, access_revision }: PageRow, host: string): queries.ReadPage => ({
  page_id: id,
  org_id,
  access_revision,
  host,
});

/** Binds a browser at a page's own host: its Set-Cookie header, and what it tells the console's host. */
export function bindBrowser({ config, clock }: System): { cookie: string; browser: string } {
  const secret = newToken("");
  const name = enterCookieName(config);
  return {
    cookie: ownCookie(config, name, secret, new Date(clock.now() + browserMs)),
    browser: hashToken(secret).toString("base64url"),
  };
}

/** A one-time code for the browser that {@link bindBrowser} has bound; null for a text that binds none. */
export async function readerCode(
  { sql, clock }: System,
  page: PageRow,
  { host, browser, proof }: { host: string; browser: string; proof: Proof },
): Promise<string | null> {
  if (!secretShape.test(browser)) return null;
  const code = newToken("");
  await queries.insertReaderCode(sql, {
    secret_hash: hashToken(code),
    browser_hash: Buffer.from(browser, "base64url"),
    ...readPage(page, host),
    session_id: "sessionId" in proof ? proof.sessionId : null,
    reader_session_id: "readerSessionId" in proof ? proof.readerSessionId : null,
    expires_at: new Date(clock.now() + codeMs),
  });
  return code;
}

/** Redeems a code at a page's own host: the Set-Cookie headers of the reader; null for a code that is not valid. */
export async function redeemCode(
  { sql, clock, config }: System,
  http: Context,
  page: PageRow,
  code: string,
): Promise<string[] | null> {
  const enter = enterCookieName(config);
  const browser = http.cookies.get(enter);
  if (browser === undefined || !secretShape.test(browser) || !secretShape.test(code)) return null;
  const secret = newToken("");
  const now = new Date(clock.now());
  const until = new Date(clock.now() + cookieMs);
  const hashes = { code: hashToken(code), browser: hashToken(browser), secret: hashToken(secret) };
  if (!(await queries.redeemReaderCode(sql, readPage(page, hostOf(http)), hashes, { now, until }))) return null;
  return [ownCookie(config, readerCookieName(config, page), secret, until), ownCookie(config, enter, "", new Date(0))];
}
