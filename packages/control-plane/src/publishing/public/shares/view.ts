import { dayMs } from "@statusmesh/shared/time";
import type { OrgReader, System } from "../../../platform/context.ts";
import {
  latestBucket,
  phasesOf,
  readLatency,
  readLatencyByRegion,
} from "../../../monitoring/results/latency/service.ts";
import { readPeriods } from "../../../monitoring/results/history/service.ts";
import { readResults, readUptime } from "../../../monitoring/results/service.ts";
import { regionNamer } from "../../../alerting/incidents/service.ts";
import { openShare } from "../../shares/service.ts";
import { type MonitorRow, readMonitor } from "../../../monitoring/targets/list/service.ts";
import { readForVisitors } from "./reads.ts";
import type { SharedStatus } from "../schema.ts";
import type { CheckResult, IncidentPeriod } from "../../../monitoring/results/schema.ts";

const shownPeriods = 10;
const shownResults = 20;

/** The time ranges of the page, shortest first. */
export const shareRanges = [
  { key: "24h", label: "24 h", words: "last 24 hours", ms: dayMs },
  { key: "7d", label: "7 d", words: "last 7 days", ms: 7 * dayMs },
  { key: "30d", label: "30 d", words: "last 30 days", ms: 30 * dayMs },
  { key: "90d", label: "90 d", words: "last 90 days", ms: 90 * dayMs },
] as const;
export type ShareRange = (typeof shareRanges)[number];

/** State, uptime and regions of a shared monitor, at most 10 s old. */
export async function sharedStatus(system: System, token: string): Promise<SharedStatus> {
  const share = await openShare(system, token);
  return await readForVisitors(system, share, "pages", "status", (reader) => readStatus(reader, share.targetId));
}

async function readStatus(reader: OrgReader, targetId: string): Promise<SharedStatus> {
  const now = reader.clock.now();
  const since = (days: number) => ({
    from: new Date(now - days * dayMs).toISOString(),
    to: new Date(now).toISOString(),
  });
  const [monitor, day, month] = await Promise.all([
    readMonitor(reader, targetId),
    readUptime(reader, targetId, since(1)),
    readUptime(reader, targetId, since(30)),
  ]);
  return {
    name: monitor.target.name,
    type: monitor.target.check.type,
    state: monitor.paused ? "paused" : monitor.status,
    since: (monitor.open_incident?.outage_since ?? monitor.status_since)?.toISOString() ?? null,
    last_checked_at: monitor.last_result_at?.toISOString() ?? null,
    interval: monitor.target.interval,
    reason: reasonOf(monitor),
    uptime_24h_pct: day.share,
    uptime_30d_pct: month.share,
    regions: monitor.regions.map(({ region, status, last_slot }) => ({
      region,
      status,
      last_checked_at: last_slot?.toISOString() ?? null,
    })),
  };
}

function reasonOf({ paused, status, open_incident, last_error }: MonitorRow): string | null {
  if (paused || status === "up" || status === "unknown") return null;
  return publicError(open_incident?.error_sample ?? last_error);
}

/** Everything that the page of a shared monitor shows for a range, at most 10 s old. */
export async function sharedPage(system: System, token: string, range: ShareRange) {
  const share = await openShare(system, token);
  return await readForVisitors(system, share, "pages", range.key, (reader) => readPage(reader, share.targetId, range));
}

async function readPage(reader: OrgReader, targetId: string, range: ShareRange) {
  const now = reader.clock.now();
  const span = { from: new Date(now - range.ms).toISOString(), to: new Date(now).toISOString() };
  const [status, nameOf, series, byRegion, uptime, periods, results] = await Promise.all([
    readStatus(reader, targetId),
    regionNamer(reader),
    readLatency(reader, targetId, span),
    readLatencyByRegion(reader, targetId, span),
    readUptime(reader, targetId, span),
    readPeriods(reader, targetId, { ...span, ongoing_only: false, limit: shownPeriods, offset: 0 }),
    readResults(reader, targetId, { ...span, limit: shownResults, offset: 0 }),
  ]);
  return {
    status,
    points: series.buckets,
    latest: latestBucket(series.buckets),
    phases: phasesOf(series.buckets),
    chartRange: { from: now - range.ms, to: now },
    regions: status.regions.map((own) => ({
      ...own,
      name: nameOf(own.region),
      p95: latestBucket(byRegion.regions.find((it) => it.region === own.region)?.buckets ?? [])?.p95 ?? null,
    })),
    uptime,
    periods: { ...periods, items: periods.items.map(publicPeriod) },
    results: {
      ...results,
      items: results.items.map((one) => ({ ...publicResult(one), regionName: nameOf(one.region) })),
    },
  };
}

/** Errors that name no host, address or certificate: the whole text has to match. */
const harmless = [
  /^connection (?:refused|reset by peer|aborted|closed by peer)$/,
  /^(?:no route to host|host is down|network unreachable)$/,
  /^(?:(?:name resolution|TLS handshake|connection) )?timed out(?: after [\d.]+ m?s)?$/,
  /^no response within [\d.]+ m?s$/,
  /^expected status [\d., -]{1,60}, got \d{3}$/,
  /^rate-limited \d{3}$/,
  /^slow: \d+ ms, limit \d+ ms$/,
];

/** The error for a visitor: itself when it names nothing, else that the check failed. Null stays null. */
const publicError = (error: string | null): string | null =>
  error === null || harmless.some((pattern) => pattern.test(error)) ? error : "check failed";

/** A result for a visitor: no error that names hosts, no diagnosis, no names of certificates, domains or registrars. */
export function publicResult({ diagnosis: _, ...result }: CheckResult): CheckResult {
  return { ...result, error: publicError(result.error), details: publicDetails(result.details) };
}

/** A period for a visitor. */
export const publicPeriod = (period: IncidentPeriod): IncidentPeriod => ({
  ...period,
  error_sample: publicError(period.error_sample),
});

function publicDetails(details: CheckResult["details"]): CheckResult["details"] {
  if (details === null || "domain" in details) return null;
  return { ...details, subject_common_name: null, issuer_common_name: null };
}
