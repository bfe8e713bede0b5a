import { LRUCache } from "lru-cache";
import { atMost } from "../../platform/caches.ts";
import type { Middleware } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import { Semaphore } from "@statusmesh/shared/semaphore";
import type { System } from "../../platform/context.ts";
import { addressKey, visitorAddress } from "../../platform/http/limits/per-ip.ts";
import type { Counter } from "../../platform/http/limits/counter.ts";
import { rateLimited } from "../../platform/http/limits/throttle.ts";
import { maxBytes, tooLarge } from "./reading.ts";

/** Refused requests of an address (of IPv6, one /64) within a minute; then its requests are refused unread. */
const refusedPerMinute = 60;
/** Requests of an address at a time: the signature is known only after the body. */
const atOnce = 4;
const maxAddresses = 50_000;

/** Limits unauthenticated requests to the hooks of vendors. A body that declares too many bytes is not read. */
export function hookLimits({ config, clock }: Pick<System, "config" | "clock">, counter: Counter): Middleware {
  const blockedUntil = new LRUCache<string, number>(atMost(maxAddresses));
  const byAddress = new Semaphore(atOnce);
  return async (http, next) => {
    if (http.method !== "POST" || !http.path.startsWith("/hooks/")) return await next();
    const key = addressKey(visitorAddress(http, config));
    await byAddress.run(key, async () => {
      const leftMs = (blockedUntil.get(key) ?? 0) - clock.now();
      if (leftMs > 0) throw rateLimited("per_ip_hooks", leftMs, { limit: refusedPerMinute, window_secs: 60 });
      try {
        if (Number(http.get("content-length")) > maxBytes) throw tooLarge();
        await next();
      } catch (error) {
        if (error instanceof AppError && error.status < 500) {
          const tally = await counter.add(`hooks:ip:${key}`);
          if (tally.count >= refusedPerMinute) blockedUntil.set(key, clock.now() + tally.leftMs);
        }
        throw error;
      }
    });
  };
}
