import { createHash } from "node:crypto";
import type { Context } from "koa";
import { LRUCache } from "lru-cache";
import type { Ctx } from "../context.ts";
import { bodyDigest } from "./body.ts";
import type { Route, Sent } from "./route.ts";

const lifetimeMs = 24 * 3_600_000;
/** What all kept answers may weigh together: a dozen of the largest, which create ten thousand targets each. The oldest go first. */
const maxBytes = 64 * 1_048_576;
/** What a kept answer weighs beside its text. */
const overheadBytes = 500;

/** Answers a request, or gives the answer that the same request got before. */
export type Replays = (route: Route, ctx: Ctx, http: Context, answer: () => Promise<Sent>) => Promise<Sent>;

/**
 * The memory behind `Idempotency-Key`: of this process, lost when it ends. The same key with the same body, for the same
 * route and organisation, gets the first answer for 24 hours, and waits for it while the first is still at work. Only
 * answers are kept: what was refused or failed has changed nothing, and is tried again.
 */
export function openReplays(): Replays {
  const kept = new LRUCache<string, { sent: Sent; until: number }>({
    maxSize: maxBytes,
    sizeCalculation: ({ sent }) => Buffer.byteLength(sent.text ?? "") + overheadBytes,
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

/** The same answer, which says of itself that nothing was done for it. */
const replayed = (sent: Sent): Sent => ({ ...sent, headers: { ...sent.headers, "Idempotent-Replayed": "true" } });
