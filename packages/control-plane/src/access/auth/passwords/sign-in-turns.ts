import { createHash } from "node:crypto";
import { LRUCache } from "lru-cache";
import { AppError } from "@statusmesh/shared/errors";
import { hourMs, minuteMs } from "@statusmesh/shared/time";
import type { Config } from "../../../config/config.ts";
import { atMost, getOrMake } from "../../../platform/caches.ts";
import { inTransaction, type System } from "../../../platform/context.ts";
import { rateLimited } from "../../../platform/http/limits/throttle.ts";
import * as turnQueries from "./turn-queries.ts";

/** A failure counts for an hour; under throttling every further one starts the hour again. */
const windowMs = hourMs;
const firstWaitMs = 30_000;
const longestWaitMs = 15 * minuteMs;

/** Failures within an hour after which each further try waits for its turn. */
const limits = { address: 10, visitor: 30, device: 10, code: 10 } as const;

/**
 * The counters of one try: typed address and visitor, or a browser that has signed in to the account before; for the
 * code of a second factor its user, and the visitor unless the password has counted them.
 */
export type Counted = { address: string; visitor: string } | { device: string } | { code: string; visitor?: string };

/** A try that may be judged. It counts as a failure until it is settled, so that parallel tries count each other. */
export interface Turn {
  readonly keys: readonly { kind: keyof typeof limits; hash: Buffer }[];
}

/**
 * When the next try of a waiting counter is judged, as last read. Another process may have forgotten the failures
 * since, so it counts for `memoryMs`: a flood of tries then costs a statement per counter and `memoryMs`, and no hash.
 */
const waits = new WeakMap<Config, LRUCache<string, { nextAt: number; readAt: number }>>();
const memoryMs = 5_000;
const maxWaits = 50_000;

const waitsOf = ({ config }: System) =>
  getOrMake(waits, config, () => new LRUCache<string, { nextAt: number; readAt: number }>(atMost(maxWaits)));

const nameOf = (hash: Buffer): string => hash.toString("base64url");

const keysOf = (counted: Counted): Turn["keys"] =>
  Object.entries(counted).map(([kind, value]) => ({
    kind: kind as keyof typeof limits,
    hash: createHash("sha256").update(`${kind}:${value}`).digest(),
  }));

/** Throws RATE_LIMITED for a try that {@link takeTurn} would refuse, as far as this process knows. */
export function refuseWaiting(system: System, counted: Counted): void {
  const now = system.clock.now();
  for (const { kind, hash } of keysOf(counted)) {
    const wait = waitsOf(system).get(nameOf(hash));
    if (wait !== undefined && wait.nextAt > now && Math.abs(now - wait.readAt) < memoryMs)
      throw tooEarly(kind, wait.nextAt - now);
  }
}

const tooEarly = (kind: keyof typeof limits, waitMs: number) =>
  rateLimited(`per_${kind}_sign_in`, waitMs, { limit: limits[kind] });

/** The tries were right: they are no failures, and the account's own failures are forgotten. */
export async function succeeded(system: System, ...turns: Turn[]): Promise<void> {
  for (const { kind, hash } of inLockOrder(turns))
    if (kind === "visitor") await turnQueries.giveBack(system.sql, hash);
    else {
      await turnQueries.deleteTurn(system.sql, hash);
      waitsOf(system).delete(nameOf(hash));
    }
}

/** The try was neither right nor wrong: it is no failure, and the failures before it stay. */
export async function withdrawn(system: System, turn: Turn): Promise<void> {
  for (const { hash } of inLockOrder([turn])) await turnQueries.giveBack(system.sql, hash);
}

/** The order in which {@link takeTurn} locks counters: another one would deadlock with parallel tries. */
const inLockOrder = (turns: readonly Turn[]) =>
  turns.flatMap(({ keys }) => keys).sort((a, b) => Buffer.compare(a.hash, b.hash));

/**
 * Decides, over all replicas, whether a try to prove a password or a code is judged now. Throws RATE_LIMITED with the
 * time to wait; such a try counts nowhere.
 */
export async function takeTurn(system: System, counted: Counted): Promise<Turn> {
  const keys = keysOf(counted);
  const now = system.clock.now();
  const refused = await inTransaction(system, async (tx) => {
    const states = await turnQueries.lockTurns(
      tx.sql,
      keys.map(({ hash }) => hash),
      new Date(now),
    );
    const next = keys.map(({ kind, hash }) => {
      const state = states.find(({ key_hash }) => key_hash.equals(hash))!;
      return { kind, hash, ...afterTry(state, limits[kind], now) };
    });
    const waiting = next.filter(({ waitMs }) => waitMs > 0).sort((a, b) => b.waitMs - a.waitMs)[0];
    if (waiting !== undefined) return waiting;
    await turnQueries.updateTurns(
      tx.sql,
      next.map(({ state }) => state),
    );
    return null;
  });
  if (refused === null) return { keys };
  waitsOf(system).set(nameOf(refused.hash), { nextAt: now + refused.waitMs, readAt: now });
  throw tooEarly(refused.kind, refused.waitMs);
}

/** The state after one more failure, or the time to wait before it may be judged. */
function afterTry(
  state: turnQueries.TurnRow,
  limit: number,
  now: number,
): { waitMs: number; state: turnQueries.TurnRow } {
  const over = state.window_ends_at.getTime() <= now;
  const failures = over ? 0 : state.failures;
  if (failures < limit)
    return {
      waitMs: 0,
      state: {
        ...state,
        failures: failures + 1,
        window_ends_at: over ? new Date(now + windowMs) : state.window_ends_at,
        wait_ms: firstWaitMs,
        next_at: new Date(now + (failures + 1 < limit ? 0 : firstWaitMs)),
      },
    };
  const waitMs = state.next_at.getTime() - now;
  if (waitMs > 0) return { waitMs, state };
  const wait = Math.min(longestWaitMs, state.wait_ms * 2);
  return {
    waitMs: 0,
    state: {
      ...state,
      failures: failures + 1,
      window_ends_at: new Date(now + windowMs),
      wait_ms: wait,
      next_at: new Date(now + wait),
    },
  };
}

/** True if the queue for hashes was full: that is no failed sign-in. */
export const crowded = (): AppError =>
  new AppError("RATE_LIMITED", "Too many people are signing in at this moment. Try again in 1 s.", {
    retryAfterSecs: 1,
    details: { scope: "sign_in_capacity" },
  });
