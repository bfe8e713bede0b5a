import type { Context } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import type { System } from "../../../platform/context.ts";
import { sameSecret } from "../../../platform/crypto/token.ts";
import { addressKey, visitorAddress } from "../../../platform/http/limits/per-ip.ts";
import type { Counter } from "../../../platform/http/limits/counter.ts";
import { rateLimited } from "../../../platform/http/limits/throttle.ts";
import { bearerOf } from "./authenticate.ts";

/** Wrong secrets of one address (of IPv6, one /64) per minute before it is blocked. */
const maxWrong = 10;
/** Blocked addresses kept in memory. A guesser with more addresses cannot guess 16 characters either. */
const maxAddresses = 10_000;

type Authenticate = (http: Context) => Promise<System>;

/**
 * Authenticates an operator by the static secret. After 10 wrong secrets from one address within a minute, the address
 * gets RATE_LIMITED until the minute is over, for the right secret too: a guesser cannot tell which one is right.
 */
export function operatorAuthentication(system: System, counter: Counter): Authenticate {
  const blocked = new Map<string, number>();
  return async (http) => {
    const secret = system.config.operator.admin_token;
    if (secret === "") throw new AppError("NOT_FOUND", `There is nothing at ${http.path}.`);
    const address = addressKey(visitorAddress(http, system.config));
    const until = blocked.get(address) ?? 0;
    const now = system.clock.now();
    if (until > now) throw tooManyWrong(until - now);
    const token = bearerOf(http);
    if (token !== null && sameSecret(token, secret)) return system;
    if (token !== null && isGuess(token, secret)) {
      const { count, leftMs } = await counter.add(`operator:ip:${address}`);
      if (count >= maxWrong) {
        if (blocked.size >= maxAddresses) blocked.clear();
        blocked.set(address, now + leftMs);
      }
      if (count > maxWrong) throw tooManyWrong(leftMs);
    }
    throw new AppError(
      "UNAUTHENTICATED",
      "The operator secret is missing or wrong. Send it as Authorization: Bearer <operator.admin_token>.",
    );
  };
}

/** A token of an organisation or an agent is a mistake, not a guess, unless the secret looks like such a token. */
const isGuess = (token: string, secret: string): boolean => !ourTokens.test(token) || ourTokens.test(secret);
const ourTokens = /^sm_(?:live|agent)_/;

const tooManyWrong = (ms: number): AppError => rateLimited("per_ip_operator", ms, { limit: maxWrong, window_secs: 60 });
