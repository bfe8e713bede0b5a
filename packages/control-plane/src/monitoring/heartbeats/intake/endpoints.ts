import type { Context, Middleware } from "koa";
import { LRUCache } from "lru-cache";
import { atMost } from "../../../platform/caches.ts";
import {
  digestOf,
  isPingPath,
  keyOf,
  type PingRefusal,
  type PingRequest,
  readPing,
} from "@statusmesh/shared/pings/address";
import {
  inWordsOf,
  MinuteCounts,
  pingHeaders,
  PingRate,
  pingReplies,
  type PingReply,
  preflightHeaders,
  RateWarning,
  reasonOf,
  textOf,
} from "@statusmesh/shared/pings/receive";
import { secondMs } from "@statusmesh/shared/time";
import { messageOf } from "@statusmesh/shared/thrown";
import type { System } from "../../../platform/context.ts";
import { addressKey, visitorAddress } from "../../../platform/http/limits/per-ip.ts";
import { atRoute } from "../../../platform/http/exchange.ts";
import { selectAddressed } from "../address-queries.ts";
import { writeBody } from "../ping-queries.ts";
import { openAutoCreate } from "./auto-create.ts";
import { openLookups } from "./lookups.ts";
import type { PingOutcome, ReceivedPing } from "./reports.ts";

/*
 * Requests of jobs: unauthenticated, in the words of each product, outside the envelope of the API.
 */

/** Pings to unknown addresses of one visitor (of IPv6, one /64) within a minute; the next ones are answered 429. */
const unknownPerMinute = 60;
/** How long an address stays unknown without another look: a new monitor waits no longer for its first ping. */
const unknownMs = 5 * secondMs;
const maxEntries = 50_000;

/**
 * Answers pings of heartbeat monitors. The reply says that the ping is stored; it waits for the database and not for
 * the body. `take` stores a ping.
 */
export function heartbeatEndpoints(system: System, take: (ping: ReceivedPing) => Promise<PingOutcome>): Middleware {
  const { clock, config } = system;
  const buckets = new LRUCache<string, PingRate>(atMost(maxEntries));
  const unknown = new LRUCache<string, number>(atMost(maxEntries));
  const strangers = new MinuteCounts(maxEntries);
  const warning = new RateWarning();
  const lookUp = openLookups(
    async (hashes) => new Set((await selectAddressed(system.sql, hashes, new Date(clock.now()))).keys()),
  );
  const create = openAutoCreate(system);

  const countUnknown = (visitor: string, key: string, now: number): void => {
    unknown.set(key, now + unknownMs);
    strangers.of(visitor, now).count++;
  };

  const answer = async (http: Context, path: string): Promise<void> => {
    http.set(pingHeaders);
    if (http.method === "OPTIONS") {
      http.set(preflightHeaders);
      http.status = 204;
      return;
    }
    const asked = readPing({
      method: http.method,
      path,
      query: http.URL.searchParams,
      authorization: http.get("authorization"),
    });
    // The declared path only: the path of a ping is a secret.
    atRoute(http, "/hb/{token}");
    http.state["loggedPath"] = "/hb/***";
    if (!/^(?:GET|HEAD|POST)$/.test(http.method)) return send(http, null, pingReplies.otherMethod);
    if ("status" in asked) return send(http, null, pingReplies.refused(asked));
    const now = clock.now();
    const key = keyOf(digestOf(asked.address, asked.value));
    const visitor = addressKey(visitorAddress(http, config));
    const bucket = buckets.get(key) ?? null;
    if (bucket === null) {
      // Never seen here: perhaps unknown. Only misses count: a known job may share the address of who sends them.
      const isFull = strangers.of(visitor, now).count >= unknownPerMinute;
      const isKnown = (unknown.get(key) ?? 0) <= now && (!isFull || ((await lookUp(key, visitor)) ?? false));
      // With create=1 it is tried all the same, and counted below.
      if (!isKnown && (isFull || !asked.mayCreate)) {
        countUnknown(visitor, key, now);
        return send(http, asked, isFull ? pingReplies.limited(60) : pingReplies.unknown);
      }
    }
    const isOver = bucket !== null && !bucket.take(now);
    const proceed = () => /100-continue/i.test(http.get("expect")) && http.res.writeContinue();
    const body = isOver ? null : textOf(http.req, asked, proceed);
    const ping: ReceivedPing = {
      hash: key,
      method: http.method,
      kind: asked.kind,
      exitCode: asked.exitCode,
      runId: asked.runId,
      message: isOver ? null : await reasonOf(asked, body),
      durationMs: asked.durationMs,
      sourceIp: visitorAddress(http, config),
      userAgent: http.get("user-agent").slice(0, 200),
      at: now,
      isKept: !isOver,
      by: null,
    };
    if (isOver) {
      if (bucket.showsLife(now))
        take(ping).catch((error: unknown) => system.log.debug({ reason: messageOf(error) }, "a ping was not counted"));
      const words = warning.words(now);
      if (words !== null) system.log.warn({ address: asked.address }, words);
      return send(http, asked, pingReplies.limited(1));
    }
    let outcome = await take(ping);
    let reply: PingReply = pingReplies.stored;
    if (outcome === "unknown" && asked.mayCreate) {
      const created = await create(asked, { ip: ping.sourceIp, userAgent: ping.userAgent });
      if (created === "limit") return send(http, asked, pingReplies.limit);
      if (created === "created") reply = pingReplies.created;
      if (created !== "off") outcome = await take(ping);
    }
    if (outcome === "unknown") {
      buckets.delete(key);
      countUnknown(visitor, key, now);
      return send(http, asked, pingReplies.unknown);
    }
    if (bucket === null) buckets.set(key, new PingRate(now));
    // healthchecks answers a GET that does not count like one that does.
    if (outcome === "post_only")
      return send(http, asked, asked.address.startsWith("healthchecks") ? pingReplies.stored : pingReplies.postOnly);
    if (typeof outcome !== "string" && body !== null && outcome.number !== null)
      void keep(system, outcome.targetId, outcome.number, body);
    send(http, asked, reply);
  };
  // Every request passes here: an async function would cost it a promise.
  const pingHost = config.heartbeats.host;
  return (http, next) => {
    if (isPingPath(http.path)) return answer(http, http.path);
    // The form of hc-ping.com, https://healthchecks.io/docs/http_api/
    const isPingHost = pingHost !== "" && http.hostname.toLowerCase().replace(/\.$/, "") === pingHost;
    return isPingHost ? answer(http, `/ping${http.path}`) : next();
  };
}

/** Replies in the words of the product. */
function send(http: Context, asked: PingRequest | PingRefusal | null, reply: PingReply): void {
  const { headers, body } = inWordsOf(asked, reply);
  http.status = reply.status;
  http.set(headers);
  http.body = body;
}

async function keep(system: System, targetId: string, number: number, body: Promise<string>): Promise<void> {
  try {
    const text = await body;
    if (text !== "") await writeBody(system.sql, targetId, number, text);
  } catch (error) {
    system.log.warn({ target_id: targetId, reason: messageOf(error) }, "the body of a ping could not be stored");
  }
}
