import { type BlockList, isIP, type Socket } from "node:net";
import type { Context, Middleware } from "koa";
import { LRUCache } from "lru-cache";
import { AppError } from "@statusmesh/shared/errors";
import { atMost } from "../../caches.ts";
import type { Config } from "../../../config/config.ts";
import type { Clock } from "../../process/clock.ts";
import { addressList, isListed } from "@statusmesh/shared/net/address";
import { minuteMs } from "@statusmesh/shared/time";
import type { Counter, Tally } from "./counter.ts";
import { rateLimited, refuseOver } from "./throttle.ts";

/** Buckets of the most recent addresses. An evicted one starts full again. */
const maxAddresses = 50_000;

/**
 * Limits requests of one TCP peer (of IPv6, one /64) to /api/v1 in this process: a token bucket of `burst` with
 * `per_second`.
 */
export function apiPerIp({ enabled, per_second, burst }: Config["api"]["rate_limit"], clock: Clock): Middleware {
  if (!enabled) return (_http, next) => next();
  const buckets = new LRUCache<string, { level: number; at: number }>(atMost(maxAddresses));
  return (http, next) => {
    if (!http.path.startsWith("/api/v1/")) return next();
    const now = clock.now();
    const peer = addressKey(peerOf(http));
    const before = buckets.get(peer) ?? { level: burst, at: now };
    const level = Math.min(burst, before.level + (Math.max(0, now - before.at) * per_second) / 1000);
    buckets.set(peer, { level: level < 1 ? level : level - 1, at: now });
    if (level < 1) throw rateLimited("per_ip_api", ((1 - level) * 1000) / per_second, { per_second, burst });
    return next();
  };
}

/** Paths whose GET starts a sign-in; `/status/enter` is that of the readers of a status page. */
const providerPath = "(?:sign-in/(?:github|google|oidc)(?:/callback)?|status/enter)";
const credentialPath = "api/v1/(?:auth/magic-link|sessions(?:/current/verify|/passkey)?|invitations/accept)";
const providers = new RegExp(`^/${providerPath}/?$`, "i");
const signInPath = new RegExp(`^/(?:sign-in|${providerPath}|${credentialPath})/?$`, "i");

/**
 * Limits sign-in attempts of a visitor per minute over all methods; 0 is unlimited. Reads of /sessions do not count.
 */
export function signInPerIp(perMinute: number, trusted: BlockList, counter: Counter): Middleware {
  if (perMinute === 0) return (_http, next) => next();
  return chargeVisitors(
    (http) => signInPath.test(http.path) && (http.method === "POST" || providers.test(http.path)),
    (http) => counter.add(`sign-in:ip:${visitorKey(http, trusted)}`),
    { perMinute, scope: "per_ip_sign_in" },
  );
}

/** Writes that may name addresses of heartbeat monitors. */
const addressPath = /^\/api\/v1\/(?:targets|config)(?:\/|$)/i;

/**
 * Addresses of heartbeat monitors are secrets and unique in the installation, so a refusal tells that one exists: taken
 * ones of a visitor are counted like failed sign-ins. Beyond `perMinute` its writes of monitors are refused until the
 * minute is over; 0 is unlimited.
 */
export function takenAddressesPerIp(perMinute: number, trusted: BlockList, counter: Counter, clock: Clock): Middleware {
  if (perMinute === 0) return (_http, next) => next();
  const blocked = new LRUCache<string, number>(atMost(maxAddresses));
  return (http, next) => {
    if (/^(?:GET|HEAD|OPTIONS)$/.test(http.method) || !addressPath.test(http.path)) return next();
    const visitor = visitorKey(http, trusted);
    const now = clock.now();
    const waitMs = (blocked.get(visitor) ?? 0) - now;
    // The wall clock may have been set back.
    if (waitMs > 0 && waitMs <= minuteMs)
      throw rateLimited("per_ip_taken_addresses", waitMs, { limit: perMinute, window_secs: 60 });
    return next().catch(async (error: unknown) => {
      if (error instanceof AppError && error.code === "HEARTBEAT_ADDRESS_TAKEN") {
        const { count, leftMs } = await counter.add(`taken-address:ip:${visitor}`);
        if (count >= perMinute) blocked.set(visitor, now + leftMs);
      }
      throw error;
    });
  };
}

/** Status pages and their JSON, share links, and the pages of codes: acknowledge, connect, confirm, unsubscribe. */
const publicPath =
  /^\/(?:status(?:-assets)?(?:\/|$)|api\/(?:public\/v1|status-page)\/|llms\.txt$|(?:m|a|c|confirm|unsubscribe)\/)/;

/** True for a path that visitors read without an account. */
export const isPublicPath = (path: string): boolean => publicPath.test(path);

/** Limits requests of a visitor to the public pages and their JSON per minute; 0 is unlimited. Assets do not count. */
export function publicPerIp(perMinute: number, trusted: BlockList, counter: Counter): Middleware {
  if (perMinute === 0) return (_http, next) => next();
  return chargeVisitors(
    (http) => publicPath.test(http.path),
    (http) => counter.add(`public:ip:${visitorKey(http, trusted)}`),
    { perMinute, scope: "per_ip_public" },
  );
}

/** Limits registrations of OAuth clients of a visitor per minute; 0 is unlimited. */
export function registrationsPerIp(perMinute: number, trusted: BlockList, counter: Counter): Middleware {
  if (perMinute === 0) return (_http, next) => next();
  return chargeVisitors(
    (http) => http.path === "/oauth/register" && http.method === "POST",
    (http) => counter.add(`oauth-register:ip:${visitorKey(http, trusted)}`),
    { perMinute, scope: "per_ip_oauth_register" },
  );
}

/** Charges requests that match `isFor`; others pass without an extra promise, because every request passes here. */
function chargeVisitors(
  isFor: (http: Context) => boolean,
  count: (http: Context) => Tally | Promise<Tally>,
  { perMinute, scope }: { perMinute: number; scope: string },
): Middleware {
  return (http, next) => {
    if (!isFor(http)) return next();
    const tally = count(http);
    if (tally instanceof Promise) return tally.then((shared) => refuseOver(perMinute, shared, scope)).then(next);
    refuseOver(perMinute, tally, scope);
    return next();
  };
}

const peers = new WeakMap<Socket, string>();

/** Canonical address of the TCP peer: the visitor, or a proxy. Computed once per connection. */
function peerOf({ req: { socket } }: Context): string {
  let peer = peers.get(socket);
  if (peer === undefined) peers.set(socket, (peer = canonicalAddress(socket.remoteAddress ?? "")));
  return peer;
}

/** The last address in X-Forwarded-For that a trusted proxy appended: each proxy appends its peer. */
function visitorOf(http: Context, trusted: BlockList): string {
  let visitor = peerOf(http);
  const forwarded = http.get("x-forwarded-for");
  if (forwarded === "") return visitor;
  for (const hop of forwarded.split(",").reverse()) {
    if (!isListed(trusted, visitor)) break;
    const next = canonicalAddress(hop.trim());
    if (isIP(next) === 0) break;
    visitor = next;
  }
  return visitor;
}

/** Canonical address of the visitor, behind `server.trusted_proxies`. */
export const visitorAddress = (http: Context, config: Config): string => visitorOf(http, proxiesOf(config));

/** Rate limit key of a visitor: the address, of IPv6 the /64. */
const visitorKey = (http: Context, trusted: BlockList): string => addressKey(visitorOf(http, trusted));

const lists = new WeakMap<Config, BlockList>();

/** The list of `server.trusted_proxies`. */
export function proxiesOf(config: Config): BlockList {
  let list = lists.get(config);
  if (list === undefined) lists.set(config, (list = addressList(config.server.trusted_proxies)));
  return list;
}

/** IPv4 addresses within IPv6: mapped (RFC 4291, section 2.5.5.2) and translated (RFC 6052, section 2.1). */
const embedded = /^(?:::ffff|64:ff9b:):([0-9a-f]{1,4}):([0-9a-f]{1,4})$/;

/**
 * The canonical spelling of an address: RFC 5952, without brackets, port or zone; IPv4 within IPv6 as IPv4. Returns any
 * other text unchanged.
 */
export function canonicalAddress(text: string): string {
  const bare = /^\[(.*)\](?::\d+)?$/.exec(text)?.[1] ?? /^([\d.]+):\d+$/.exec(text)?.[1] ?? text;
  const address = bare.split("%", 1)[0]!;
  const family = isIP(address);
  if (family === 0) return text;
  if (family === 4) return address;
  const spelt = new URL(`http://[${address}]/`).hostname.slice(1, -1);
  const [, high, low] = embedded.exec(spelt) ?? [];
  if (high === undefined || low === undefined) return spelt;
  const bits = [Number.parseInt(high, 16), Number.parseInt(low, 16)];
  return bits.flatMap((group) => [group >> 8, group & 0xff]).join(".");
}

/** Key under which limits count a canonical address: IPv4 itself, the /64 of IPv6, because one host has a whole /64. */
export function addressKey(address: string): string {
  if (isIP(address) !== 6) return address;
  const [head = "", tail] = address.split("::");
  const left = head === "" ? [] : head.split(":");
  const right = tail === undefined || tail === "" ? [] : tail.split(":");
  const groups = [...left, ...Array<string>(8 - left.length - right.length).fill("0"), ...right];
  return `${groups.slice(0, 4).join(":")}::/64`;
}
