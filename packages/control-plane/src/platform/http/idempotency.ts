import { createHash } from "node:crypto";
import type { Context } from "koa";
import { LRUCache } from "lru-cache";
import { hourMs } from "@statusmesh/shared/time";
import type { Ctx } from "../context.ts";
import { bodyDigest } from "./body/body.ts";
import type { Route, Sent } from "./route.ts";

const lifetimeMs = 24 * hourMs;
/**
 * Memory of all stored replies: a dozen of the largest, which create ten thousand targets each. Least recently used
 * first out.
 */
const maxBytes = 64 * 1_048_576;
/** Overhead of a stored reply beside its text. */
const overheadBytes = 500;

/** Answers a request, or replays the reply of an earlier request with the same key. */
export type Replays = (route: Route, ctx: Ctx, http: Context, answer: () => Promise<Sent>) => Promise<Sent>;

/**
 * Replies by `Idempotency-Key`, in memory of this process. The same key with the same body, route and organisation gets
 * the first reply for 24 hours, and waits while the first request is in flight. Errors are not stored: they changed
 * nothing, and a retry runs again.
 */
export function openReplays(): Replays {
  const kept = new LRUCache<string, { sent: Sent; until: number }>({
    maxSize: maxBytes,
    sizeCalculation: ({ sent }) => bytesOf(sent) + overheadBytes,
  });
  const running = new Map<string, Promise<Sent>>();

  return async (route, ctx, http, answer) => {
    const header = http.get("idempotency-key");
    if (header === "") return await answer();
    const key = createHash("sha256")
      .update(JSON.stringify([ctx.orgId, route.method, route.path, header, await bodyDigest(http)]))
      .digest("base64");
    const known = kept.get(key);
    if (known !== undefined && known.until > ctx.clock.now()) return replayed(known.sent);
    const first = running.get(key);
    if (first !== undefined) return replayed(await first);

    const work = answer();
    running.set(key, work);
    try {
      const sent = await work;
      kept.set(key, { sent, until: ctx.clock.now() + lifetimeMs });
      return sent;
    } finally {
      running.delete(key);
    }
  };
}

/** A stream is no reply of an idempotent route, which has a body to compare. */
const bytesOf = ({ text }: Sent): number =>
  typeof text === "string" || Buffer.isBuffer(text) ? Buffer.byteLength(text) : 0;

/** The same reply, marked as a replay. */
const replayed = (sent: Sent): Sent => ({ ...sent, headers: { ...sent.headers, "Idempotent-Replayed": "true" } });
