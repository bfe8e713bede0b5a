import type { Context, Middleware } from "koa";
import { LRUCache } from "lru-cache";
import { minuteMs } from "@statusmesh/shared/time";
import { bearerOf } from "../../access/auth/sessions/service.ts";
import { atMost, getOrMake } from "../../platform/caches.ts";
import type { System } from "../../platform/context.ts";
import { hashToken } from "../../platform/crypto/token.ts";
import type { PageRow } from "../status-pages/visits/service.ts";
import { touchReaderToken } from "../status-pages/access/service.ts";

const isImage = (path: string): boolean =>
  path.startsWith("/status-assets/") || (path.startsWith("/api/public/v1/") && path.endsWith("/badge.svg"));
const data = /^\/(?:api\/(?:public\/v1|status-page)\/|status\/(?:maintenance\.ics|embed\.js|custom\.css)$|llms\.txt$)/;
const prefix = "sm_read_";

/**
 * Takes `?key=` off requests of data and images: neither caches nor logs nor handlers see a reader token. Behind
 * pageHosts, which removes the path of the page.
 */
export const readerKeys: Middleware = (http, next) => {
  if (http.search.includes("key=") && isRead(http) && (isImage(http.path) || data.test(http.path))) {
    const { searchParams } = http.URL;
    const key = searchParams.get("key");
    if (key !== null) {
      searchParams.delete("key");
      http.search = searchParams.toString();
      http.state["readerKey"] = key;
    }
  }
  return next();
};

const isRead = ({ method }: Context): boolean => method === "GET" || method === "HEAD";

/** Whether the request has a token of the page, in its header or as `?key=`, that opens what it requests. */
export function hasReaderToken(system: System, http: Context, { reader_tokens: tokens }: PageRow): boolean {
  if (tokens.length === 0 || !isRead(http)) return false;
  // Either suffices: a stale `?key=` in an address does not void the header.
  const sent = [bearerOf(http), http.state["readerKey"] as string | undefined];
  const hashes = sent.filter((one) => one?.startsWith(prefix)).map((one) => hashToken(one!).toString("hex"));
  // Timing says at most how far the hash of a guess matches, not the token.
  const token = tokens.find((one) => hashes.includes(one.hash) && opens(one.scope, http.path));
  if (token === undefined) return false;
  recordUse(system, token.id);
  return true;
}

const opens = (scope: PageRow["reader_tokens"][number]["scope"], path: string): boolean =>
  isImage(path) || (scope === "data" && data.test(path));

/** Tokens whose use was recorded within a minute, per database pool. */
const recorded = new WeakMap<object, LRUCache<string, number>>();

/** Records a use in the background: a reader does not wait for the database. */
function recordUse(system: System, id: string): void {
  const ours = getOrMake(recorded, system.sql, () => new LRUCache<string, number>(atMost(10_000)));
  const now = system.clock.now();
  if ((ours.get(id) ?? -Infinity) > now - minuteMs) return;
  ours.set(id, now);
  touchReaderToken(system, id).catch((error: unknown) =>
    system.log.debug({ err: String(error) }, "the use of a reader token could not be recorded"),
  );
}
