import type { IncomingMessage } from "node:http";
import type { Context, Middleware } from "koa";
import { LRUCache } from "lru-cache";
import { minuteMs, secondMs } from "@statusmesh/shared/time";
import { messageOf } from "@statusmesh/shared/thrown";
import type { System } from "../../platform/context.ts";
import { addressKey } from "../../platform/http/address.ts";
import { atRoute } from "../../platform/http/exchange.ts";
import { visitorAddress } from "../../platform/http/per-ip.ts";
import {
  hashOf,
  isPingPath,
  type PingRefusal,
  type PingRequest,
  readPing,
  selectAddressed,
  writeBody,
} from "../heartbeats/engine.ts";
import { openLookups } from "./heartbeat-lookups.ts";
import type { PingOutcome, ReceivedPing } from "./heartbeats.ts";

/*
 * Requests of jobs: unauthenticated, in the words of each product, outside the envelope of the API.
 */

/** Pings of one address: a bucket of `burst` that fills by `perSecond`. */
const rate = { perSecond: 5, burst: 60 };
/** A job beyond its rate is alive: one ping of it in so many ms is counted, without a row. */
const aliveMs = secondMs;
/** Pings to unknown addresses of one visitor (of IPv6, one /64) within a minute; the next ones are answered 429. */
const unknownPerMinute = 60;
/** How long an address stays unknown without another look: a new monitor waits no longer for its first ping. */
const unknownMs = 5 * secondMs;
const maxEntries = 50_000;
/** Bytes of a body that are kept. */
const bodyLimit = 10_000;
/** A body may take so long, and so many may be under way. */
const bodyMs = 10 * secondMs;
const maxBodies = 1000;

interface Bucket {
  level: number;
  at: number;
  aliveAt: number;
}

interface Reply {
  readonly status: number;
  readonly text: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Answers pings of heartbeat monitors. The reply says that the ping is stored; it waits for the database and not for
 * the body. `take` stores a ping.
 */
export function heartbeatEndpoints(system: System, take: (ping: ReceivedPing) => Promise<PingOutcome>): Middleware {
  const { clock, config } = system;
  const buckets = new LRUCache<string, Bucket>({ max: maxEntries });
  const unknown = new LRUCache<string, number>({ max: maxEntries });
  const strangers = new LRUCache<string, { count: number; endsAt: number }>({ max: maxEntries });
  const lookUp = openLookups(async (hashes) => {
    const found = await selectAddressed(system.sql, hashes, new Date(clock.now()));
    return new Set(found.map(({ hash }) => hash));
  });
  let quietUntil = 0;

  const isLimited = (bucket: Bucket, now: number): boolean => {
    const passed = (Math.max(0, now - bucket.at) * rate.perSecond) / secondMs;
    bucket.level = Math.min(rate.burst, bucket.level + passed);
    bucket.at = now;
    if (bucket.level < 1) return true;
    bucket.level--;
    return false;
  };

  /** Counts a ping to an unknown address. False once the visitor has sent too many. */
  const mayTry = (visitor: string, now: number): boolean => {
    const known = strangers.get(visitor);
    const tally = known !== undefined && now < known.endsAt ? known : { count: 0, endsAt: now + minuteMs };
    strangers.set(visitor, tally);
    return tally.count < unknownPerMinute;
  };
  const countUnknown = (visitor: string, key: string, now: number): void => {
    unknown.set(key, now + unknownMs);
    const tally = strangers.get(visitor);
    if (tally !== undefined) tally.count++;
  };

  const answer = async (http: Context): Promise<void> => {
    http.set("Access-Control-Allow-Origin", "*");
    http.set("Cache-Control", "no-store");
    if (http.method === "OPTIONS") {
      http.set("Access-Control-Allow-Methods", "GET, HEAD, POST");
      http.set("Access-Control-Allow-Headers", "*");
      http.status = 204;
      return;
    }
    const asked = readPing({
      method: http.method,
      path: http.path,
      query: http.URL.searchParams,
      authorization: http.get("authorization"),
    });
    // The declared path only: the path of a ping is a secret.
    atRoute(http, "/hb/{token}");
    http.state["loggedPath"] = "/hb/***";
    if (!/^(?:GET|HEAD|POST)$/.test(http.method)) return send(http, null, { status: 405, text: "GET, HEAD or POST" });
    if ("status" in asked) return send(http, null, refused(asked));
    const now = clock.now();
    const key = hashOf(asked.address, asked.value);
    const visitor = addressKey(visitorAddress(http, config));
    const bucket = buckets.get(key) ?? null;
    if (bucket === null) {
      // Never seen here: perhaps unknown. Only misses count: a known job may share the address of who sends them.
      const isFull = !mayTry(visitor, now);
      const isKnown = (unknown.get(key) ?? 0) <= now && (!isFull || ((await lookUp(key, visitor)) ?? false));
      if (!isKnown) {
        countUnknown(visitor, key, now);
        return send(http, asked, isFull ? limited(secondMs * 60) : notFound);
      }
    }
    const isOver = bucket !== null && isLimited(bucket, now);
    const ping: ReceivedPing = {
      hash: key,
      method: http.method,
      kind: asked.kind,
      exitCode: asked.exitCode,
      runId: asked.runId,
      sourceIp: visitorAddress(http, config),
      userAgent: http.get("user-agent").slice(0, 200),
      at: now,
      isKept: !isOver,
    };
    if (isOver) {
      if (now - bucket.aliveAt >= aliveMs) {
        bucket.aliveAt = now;
        take(ping).catch((error: unknown) => system.log.debug({ reason: messageOf(error) }, "a ping was not counted"));
      }
      if (now >= quietUntil) {
        quietUntil = now + minuteMs;
        system.log.warn({ address: asked.address }, "a job sends more than 5 pings a second: they are answered 429");
      }
      return send(http, asked, limited(secondMs));
    }
    const body = http.method === "POST" ? receiveBody(http.req, http) : null;
    const outcome = await take(ping);
    if (outcome === "unknown") {
      buckets.delete(key);
      countUnknown(visitor, key, now);
      return send(http, asked, notFound);
    }
    if (bucket === null) buckets.set(key, { level: rate.burst - 1, at: now, aliveAt: now });
    if (outcome === "post_only") return send(http, asked, { status: 405, text: "POST only" });
    if (body !== null && outcome.number !== null) void keep(system, outcome.targetId, outcome.number, body);
    send(http, asked, done);
  };
  // Every request passes here: an async function would cost it a promise.
  return (http, next) => (isPingPath(http.path) ? answer(http) : next());
}

const done: Reply = { status: 200, text: "OK" };
const notFound: Reply = { status: 404, text: "not found" };
const refused = ({ status, reason }: PingRefusal): Reply => ({ status, text: reason });
const limited = (ms: number): Reply => ({
  status: 429,
  text: "too many pings",
  headers: { "Retry-After": String(Math.ceil(ms / secondMs)) },
});

/** Replies in the words of the product. */
function send(http: Context, asked: PingRequest | PingRefusal | null, { status, text, headers = {} }: Reply): void {
  const isKuma = asked !== null && "address" in asked && asked.address === "kuma";
  http.status = status;
  for (const [name, value] of Object.entries(headers)) http.set(name, value);
  http.set("Ping-Body-Limit", String(bodyLimit));
  http.type = isKuma ? "application/json; charset=utf-8" : "text/plain; charset=utf-8";
  http.body = !isKuma ? text : status === 200 ? '{"ok":true}' : JSON.stringify({ ok: false, msg: text });
}

let bodies = 0;

/**
 * The first {@link bodyLimit} bytes of the body, once it is there. It is read beside the reply; a sender that takes too
 * long loses its connection. Empty without a body, or while too many are under way.
 */
async function receiveBody(request: IncomingMessage, http: Context): Promise<string> {
  if (bodies >= maxBodies) return "";
  if (/100-continue/i.test(http.get("expect"))) http.res.writeContinue();
  bodies++;
  const chunks: Buffer[] = [];
  let size = 0;
  const timer = setTimeout(() => request.socket.destroy(), bodyMs);
  try {
    await new Promise<void>((resolve) => {
      request.on("data", (chunk: Buffer) => {
        if (size < bodyLimit) chunks.push(chunk.subarray(0, bodyLimit - size));
        size += chunk.length;
      });
      request.once("end", resolve);
      request.once("close", resolve);
    });
  } finally {
    clearTimeout(timer);
    bodies--;
  }
  // PostgreSQL stores no NUL.
  return Buffer.concat(chunks).toString("utf8").replaceAll("\0", "");
}

async function keep(system: System, targetId: string, number: number, body: Promise<string>): Promise<void> {
  try {
    const text = await body;
    if (text !== "") await writeBody(system.sql, targetId, number, text);
  } catch (error) {
    system.log.warn({ target_id: targetId, reason: messageOf(error) }, "the body of a ping could not be stored");
  }
}
