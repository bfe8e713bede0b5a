import { LRUCache } from "lru-cache";
import { atMost } from "../../../platform/caches.ts";
import type { HeartbeatCheck } from "@statusmesh/shared/checks/heartbeat";
import { timeIn } from "../../../platform/zoned.ts";
import type { PingKind } from "@statusmesh/shared/pings/address";
import { dayMs, hourMs, inUnits, minuteMs, secondMs } from "@statusmesh/shared/time";
import { nextOf } from "./schedule.ts";

/*
 * When the next report of a job is expected, and what a ping or a missed report means. Pure; times are Unix ms.
 */

export interface Ping {
  readonly kind: PingKind;
  readonly at: number;
  readonly exitCode: number | null;
  /** Pairs the start of a run with its end. */
  readonly runId: string | null;
  /** Why the job failed, and how long it took by its own account, ms; null where it did not say. */
  readonly message: string | null;
  readonly durationMs: number | null;
}

/** What is expected of a job next. */
export interface Window {
  /** The newest ping that was a result. */
  readonly reportedAt: number | null;
  readonly lastDuration: number | null;
  readonly failing: boolean;
  readonly runId: string | null;
  readonly startedAt: number | null;
  /** End of the longest run that is allowed; null without one, and once it was missed. */
  readonly runOverAt: number | null;
  readonly dueAt: number | null;
}

/** A result that follows from a ping or a missed report. */
export interface Verdict {
  readonly at: number;
  readonly status: "up" | "down";
  readonly error: string | null;
  /** Of the run, ms; null where its start was not reported. */
  readonly durationMs: number | null;
}

/** A start and an end this far apart are not of one run, ms. */
const pairedMs = 7 * dayMs;

/** When the window is over: the job is down from then on. Null while nothing is expected. */
export function downAt({ grace }: HeartbeatCheck, { dueAt, runOverAt }: Window): number | null {
  const times = [...(dueAt === null ? [] : [dueAt + grace!]), ...(runOverAt === null ? [] : [runOverAt])];
  return times.length === 0 ? null : Math.min(...times);
}

/** A time zone makes a search in a schedule cost half a millisecond: many jobs have the same one. */
const found = new LRUCache<string, { from: number; next: number | null }>(atMost(10_000));

/** When the report after one at `after` is due; null for a schedule that ends. */
export function dueAfter({ period, schedule }: HeartbeatCheck, after: number): number | null {
  if (schedule === null) return after + period!;
  const key = `${schedule.timezone} ${schedule.cron}`;
  const known = found.get(key);
  if (known !== undefined && after >= known.from && (known.next === null || after < known.next)) return known.next;
  const next = nextOf(schedule, after);
  found.set(key, { from: after, next });
  return next;
}

/**
 * The window after a ping, and the result that the ping is; null for a start and a log. A ping that a later report has
 * overtaken is a result of its time and changes no window.
 */
export function take(spec: HeartbeatCheck, window: Window, ping: Ping): { window: Window; verdict: Verdict | null } {
  if (ping.kind === "log") return { window, verdict: null };
  const isOvertaken = ping.at < (window.reportedAt ?? -Infinity);
  if (ping.kind === "start") {
    if (isOvertaken || ping.at < (window.startedAt ?? -Infinity)) return { window, verdict: null };
    const runOverAt = spec.max_runtime === null ? null : ping.at + spec.max_runtime;
    return { window: { ...window, runId: ping.runId, startedAt: ping.at, runOverAt }, verdict: null };
  }
  const failed = ping.kind === "fail";
  const result = {
    at: ping.at,
    status: failed ? "down" : "up",
    error: failed ? failureWords(ping) : null,
  } as const;
  if (isOvertaken) return { window, verdict: { ...result, durationMs: ping.durationMs } };
  // The end of an older run leaves the newest one running.
  const isOwn = window.startedAt !== null && ping.runId === window.runId;
  const tookMs = isOwn ? ping.at - window.startedAt! : null;
  const durationMs = ping.durationMs ?? (tookMs !== null && tookMs >= 0 && tookMs <= pairedMs ? tookMs : null);
  return {
    window: {
      reportedAt: ping.at,
      lastDuration: durationMs ?? (failed ? window.lastDuration : null),
      failing: failed,
      ...(isOwn || ping.runId === null
        ? { runId: null, startedAt: null, runOverAt: null }
        : { runId: window.runId, startedAt: window.startedAt, runOverAt: window.runOverAt }),
      dueAt: dueAfter(spec, ping.at),
    },
    verdict: { ...result, durationMs },
  };
}

function failureWords({ exitCode, message }: Ping): string {
  if (exitCode === null) return message ?? "the job reported a failure";
  return `the job failed with exit code ${exitCode}${message === null ? "" : `: ${message}`}`;
}

/** A window that is over is late for so long while the agent that took the last ping is away. */
const holdMs = dayMs;
/** A window that is held is looked at again after a tenth of the time that it has been over, within these bounds. */
const lookAgain = { leastMs: secondMs, mostMs: minuteMs } as const;

/**
 * When a window that is over is looked at again, because the agent that took the last ping may have another one: it has
 * delivered what it took before `agentUntil`. Null without an agent, and once the window is not held any more.
 */
export function heldUntil(
  spec: HeartbeatCheck,
  window: Window,
  { agentUntil, now }: { agentUntil: number | null; now: number },
): number | null {
  const over = downAt(spec, window);
  if (over === null || over > now || !isAway(over, agentUntil) || now >= over + holdMs) return null;
  const wait = Math.max(lookAgain.leastMs, Math.min(lookAgain.mostMs, (now - over) / 10));
  return Math.min(over + holdMs, now + wait);
}

const isAway = (over: number, agentUntil: number | null): boolean => agentUntil !== null && agentUntil < over;

/**
 * The window after a report was missed, and the failing result, with times in `zone`: one for each window. Null while
 * it is open.
 */
export function miss(
  spec: HeartbeatCheck,
  window: Window,
  { agentUntil, now, zone }: { agentUntil: number | null; now: number; zone: string },
): { window: Window; verdict: Verdict } | null {
  const over = downAt(spec, window);
  if (over === null || over > now) return null;
  const wasHeld = isAway(over, agentUntil);
  if (wasHeld && now < over + holdMs) return null;
  const failed = (error: string): Verdict => ({
    at: wasHeld ? over + holdMs : over,
    status: "down",
    error: wasHeld ? `${error}; the agent that received it is offline` : error,
    durationMs: null,
  });
  if (window.runOverAt === over)
    return {
      window: { ...window, failing: true, runOverAt: null },
      verdict: failed(`still running ${inUnits(spec.max_runtime!)} after its start`),
    };
  const { dueAt, reportedAt } = window;
  const last = reportedAt === null ? "no report yet" : `last report ${timeIn(reportedAt, zone)}`;
  return {
    window: { ...window, failing: true, dueAt: dueAfter(spec, dueAt!) },
    verdict: failed(`no report, due ${timeIn(dueAt!, zone)} (${last})`),
  };
}

/**
 * The window after an edit of the check, or when a pause ends: a whole one from `now` on where the last report is
 * older. Nothing is expected before the first ping.
 */
export function reopened(spec: HeartbeatCheck, window: Window, now: number): Window {
  const { reportedAt, startedAt } = window;
  const runOverAt =
    startedAt === null || spec.max_runtime === null ? null : Math.max(startedAt, now) + spec.max_runtime;
  if (reportedAt === null) return { ...window, runOverAt };
  const dueAt = dueAfter(spec, reportedAt);
  return { ...window, runOverAt, dueAt: dueAt === null || dueAt > now ? dueAt : dueAfter(spec, now) };
}

/** State of a heartbeat, the first that holds. */
export const heartbeatStates = ["paused", "down", "running", "late", "up", "new"] as const;
export type HeartbeatState = (typeof heartbeatStates)[number];

export function stateOf(
  enabled: boolean,
  { failing, startedAt, dueAt, reportedAt }: Window,
  now: number,
): HeartbeatState {
  if (!enabled) return "paused";
  if (failing) return "down";
  if (startedAt !== null) return "running";
  if (reportedAt === null) return "new";
  return dueAt !== null && dueAt <= now ? "late" : "up";
}

/** Reports from which a cadence is read. */
const leastReports = 8;

export interface Suggestion {
  period: number;
  grace: number;
  reason: string;
}

/**
 * Another period where the job reports at another pace than expected; null where the period fits. `successes` are the
 * times of the last ones, newest first.
 */
export function suggestionFor({ period, grace }: HeartbeatCheck, successes: readonly number[]): Suggestion | null {
  if (period === null || successes.length < leastReports) return null;
  const gaps = successes
    .slice(1)
    .map((at, n) => successes[n]! - at)
    .sort((a, b) => a - b);
  const middle = gaps[Math.floor(gaps.length / 2)]!;
  const longest = gaps.at(-1)!;
  if (middle >= period * 0.5 && longest <= period + grace!) return null;
  const unit = middle >= hourMs ? minuteMs : secondMs;
  const better = Math.max(10_000, Math.ceil(middle / unit) * unit);
  return {
    period: better,
    grace: Math.max(minuteMs, Math.ceil((longest - middle) / 1000) * 1000, Math.floor(better / 10)),
    reason:
      middle < period * 0.5
        ? `it reports about every ${inUnits(better)}, more often than expected`
        : `the longest time between two reports was ${inUnits(Math.ceil(longest / 1000) * 1000)}`,
  };
}
