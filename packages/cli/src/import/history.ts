import { utcDay } from "@statusmesh/shared/time";
import { clamp } from "@statusmesh/shared/foreign/values";

/** An outage that has ended, RFC 3339 in UTC. */
export interface Outage {
  readonly started_at: string;
  readonly ended_at: string;
  /** Null takes that of the server. */
  readonly title: string | null;
}

/** Sums of a UTC day. */
export interface Day {
  readonly date: string;
  readonly up: number;
  readonly degraded: number;
  readonly down: number;
  readonly error: number;
  readonly avg_ms: number | null;
}

/** A subscriber who has confirmed with the other product; null components are all of the page. */
export interface Subscriber {
  readonly email?: string;
  readonly webhook_url?: string;
  readonly components: readonly { readonly name: string; readonly group: string | null }[] | null;
}

/** What `import --history` writes and `smctl history` sends; monitors and pages are keys of the project. */
export interface HistoryFile {
  readonly version: 1;
  readonly project: string;
  readonly items: readonly { monitor: string; incidents: readonly Outage[]; days: readonly Day[] }[];
  readonly subscribers?: readonly { page: string; source: string; items: readonly Subscriber[] }[];
}

/** Bounds of the API for counts and times of a day. */
const mostRuns = 1_000_000;
const mostMs = 10_000_000;

/** A day of runs that were up or down, and the mean time of those that were up; null for a day without runs. */
export function dayOf(date: string, sums: { up: number; down: number; avgMs: number }): Day | null {
  const count = (value: number): number => (Number.isFinite(value) ? clamp(value, 0, mostRuns) : 0);
  const [up, down] = [count(sums.up), count(sums.down)];
  if (up + down === 0 || Number.isNaN(Date.parse(date))) return null;
  const { avgMs } = sums;
  const isTime = up > 0 && Number.isFinite(avgMs) && avgMs >= 0 && avgMs <= mostMs;
  return { date, up, degraded: 0, down, error: 0, avg_ms: isTime ? Math.round(avgMs * 10) / 10 : null };
}

/** The UTC day of Unix seconds; empty for what is none. */
export const dateOf = (secs: number): string => (secs > 0 && secs < 4_102_444_800 ? utcDay(secs * 1000) : "");
