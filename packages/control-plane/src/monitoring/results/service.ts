import { diagnosisOf } from "@statusmesh/shared/protocol/diagnosis";
import { measuredPart } from "@statusmesh/shared/protocol/result";
import { dayMs, utcDay } from "@statusmesh/shared/time";
import { type Ctx, type OrgReader, requireScope, type System } from "../../platform/context.ts";
import { mapInTurns } from "../../platform/process/turns.ts";
import type { Page } from "../../platform/http/wire.ts";
import { readRecent, type RecentChecks } from "./history/beats.ts";
import { hourOfDepth } from "./history/change-queries.ts";
import { isByHour, sourcesOf } from "./hours.ts";
import { selectOrgCounts } from "./rollups/org-count-queries.ts";
import { availabilityOf, shareOf } from "../heartbeats/schedule/service.ts";
import { importedDays } from "../history/service.ts";
import * as overview from "./history/overview-queries.ts";
import * as queries from "./queries.ts";
import { type Counts, delayMs, type ResultTarget, slackMs, surelyIn } from "./queries.ts";
import { parseRange, type Range } from "./range.ts";
import { forMembers, inTurn, type RangeInput, resolve } from "./resolve.ts";
import type { CheckResult, Uptime } from "./schema.ts";

export { resultsCsv } from "./export.ts";
export { inTurn, parseRange };
export type { Counts } from "./queries.ts";
export { runs } from "./runs-queries.ts";

/** From this offset on whole hours are skipped by their counts. */
const deepOffset = 2_000;
/** Tries to find the hour of an offset: counts of marked hours are known only afterwards. */
const mostTries = 5;

/**
 * Results of a target, newest first, without a scope check. Throws TARGET_NOT_FOUND and BAD_TIME_RANGE, like every
 * function here.
 */
export async function readResults(
  reader: OrgReader,
  targetId: string,
  input: RangeInput & { limit: number; offset: number },
): Promise<Page<CheckResult>> {
  const { target, range, region } = await resolve(reader, targetId, input);
  const { sql, orgId } = reader;
  const { limit, offset } = input;
  const counting = queries.countResults(sql, orgId, target, range, region);
  const reading = async () => {
    const { before, skipped } = await skip(reader, target, range, region, offset, counting);
    const part = { from: range.from, to: before };
    return await queries.selectResults(sql, orgId, target, part, region, limit, offset - skipped);
  };
  const [total, rows] = await Promise.all([counting, reading()]);
  return { items: await mapInTurns(rows, present), total, limit, offset };
}

/** {@link readResults} for members. */
export const listResults = forMembers(readResults);

/**
 * A time in the range with `skipped` results after it, at most `asked`: whole hours of them are not read. Waits for
 * the number of results only where the offset is deep, so that a usual page is read while they are counted.
 */
async function skip(
  reader: OrgReader,
  target: ResultTarget,
  range: Range,
  region: string | null,
  asked: number,
  counting: Promise<number>,
) {
  const { sql, orgId } = reader;
  const none = { before: range.to, skipped: 0 };
  const offset = asked < deepOffset ? asked : Math.min(asked, await counting);
  if (offset < deepOffset) return none;
  const { hours } = sourcesOf(surelyIn(target, range), target.counted_to);
  if (hours === null) return none;
  const newest = { from: new Date(hours.to.getTime() - slackMs), to: range.to };
  let most = offset - (await queries.countResults(sql, orgId, target, newest, region));
  for (let tried = 0; tried < mostTries && most > 0; tried++) {
    const hour = await hourOfDepth(sql, orgId, target, hours, region, most);
    if (hour === null) return none;
    // Runs of earlier slots are over by then.
    const before = new Date(hour.getTime() + delayMs(target));
    if (before >= range.to) return none;
    const skipped = await queries.countResults(sql, orgId, target, { from: before, to: range.to }, region);
    if (skipped <= offset) return { before, skipped };
    most -= skipped - offset;
  }
  return none;
}

/** {@link Uptime} and the share that it is made from: null where nothing was measured. */
export type Measured = Uptime & { share: number | null };

/**
 * Runs by status, and the share of up and degraded ones. Long ranges go by slot and hour, as latency does. Imported
 * days that begin in the range count as well; they have no region. Without a scope check.
 */
export async function readUptime(reader: OrgReader, targetId: string, input: RangeInput): Promise<Measured> {
  const { target, range, region } = await resolve(reader, targetId, input);
  const { sql, orgId } = reader;
  const counts = isByHour(range, reader.clock.now())
    ? await queries.countStatusesByHour(sql, orgId, target, sourcesOf(range, target.counted_to), region)
    : await queries.countStatuses(sql, orgId, target, range, region);
  const days =
    target.imported && region === null ? (await importedDays(reader, orgId, [target.id], range)).get(target.id) : null;
  const all = sum([counts, ...(days ?? [])]);
  const share =
    target.kind === "heartbeat" || target.kind === "group"
      ? ((await heartbeatShares(reader, [target.id], range)).get(target.id) ?? null)
      : uptimePct(all);
  const found = { total: totalOf(all), ...all, uptime_pct: share ?? 100, share };
  return days ? { ...found, imported: totalOf(sum(days)) } : found;
}

/** {@link readUptime} for members. */
export const uptime = forMembers(readUptime);

/** Uptime of the heartbeats among the targets, which is by time. */
async function heartbeatShares(reader: OrgReader, ids: readonly string[], range: Range) {
  const found = await availabilityOf(reader, reader.orgId, ids, range);
  return new Map([...found].map(([id, own]) => [id, shareOf(own)]));
}

/** Failing and degraded runs in the range, newest first. */
export async function listFailures(
  ctx: Ctx,
  targetId: string,
  input: Omit<RangeInput, "region"> & { limit: number },
): Promise<Pick<CheckResult, "region" | "timestamp" | "status" | "error" | "http_status">[]> {
  requireScope(ctx, "targets:read");
  const { target, range } = await resolve(ctx, targetId, input);
  const rows = await inTurn(ctx, () => queries.selectFailures(ctx.sql, ctx.orgId, target, range, input.limit));
  return rows.map((row) => ({ ...row, timestamp: row.timestamp.toISOString() }));
}

/** Targets whose newest run was throttled by the limit per host: their status is unknown, with this reason. */
export async function throttledTargets(ctx: Ctx, targetIds: readonly string[]): Promise<ReadonlySet<string>> {
  requireScope(ctx, "targets:read");
  return new Set(targetIds.length === 0 ? [] : await overview.selectThrottled(ctx.sql, ctx.orgId, targetIds));
}

/** A monitor in a list. */
export interface MonitorHistory extends RecentChecks {
  /** Percent over the last 30 days (30 UTC days and today); null without runs. */
  uptime30d: number | null;
}

/** The last checks and the uptime of up to 100 monitors, for lists; foreign ids are left out. */
export async function recentHistory(ctx: Ctx, targetIds: readonly string[]): Promise<Map<string, MonitorHistory>> {
  requireScope(ctx, "targets:read");
  if (targetIds.length === 0) return new Map();
  const now = ctx.clock.now();
  const month = { from: new Date(Math.floor(now / dayMs - 30) * dayMs), to: new Date(now) };
  const [recent, days, shares] = await Promise.all([
    readRecent(ctx, targetIds),
    dailyCounts(ctx, ctx.orgId, targetIds, 30),
    heartbeatShares(ctx, targetIds, month),
  ]);
  return new Map(
    [...recent].map(([id, checks]) => {
      const share = shares.get(id);
      return [id, { ...checks, uptime30d: share === undefined ? uptimePct(sum(days.get(id)?.values() ?? [])) : share }];
    }),
  );
}

/**
 * Runs per target and UTC day (`2026-11-20`), for today and the `days` days before; days without a run are left out.
 * Without a scope check, for the functions above.
 */
export async function dailyCounts(
  system: System,
  orgId: string,
  targetIds: readonly string[],
  days: number,
): Promise<Map<string, Map<string, Counts>>> {
  const now = new Date(system.clock.now());
  const firstDay = utcDay(now.getTime() - days * dayMs);
  const rows = targetIds.length === 0 ? [] : await overview.selectDays(system.sql, orgId, targetIds, firstDay, now);
  const byTarget = new Map<string, Map<string, Counts>>();
  for (const { target_id, day, up, down, degraded, error } of rows) {
    const own = byTarget.get(target_id) ?? new Map<string, Counts>();
    byTarget.set(target_id, own.set(day, { up, down, degraded, error }));
  }
  return byTarget;
}

/** Runs of the organisation in the last 24 hours. For the dashboard, which checks its own scope. */
export async function lastDayCounts(system: System, orgId: string): Promise<Counts> {
  return await selectOrgCounts(system.sql, orgId, system.clock.now());
}

/** The one definition of uptime of probed monitors: 100 × (up + degraded) / total runs; null without a run. */
export function uptimePct({ up, down, degraded, error }: Counts): number | null {
  const total = up + down + degraded + error;
  return total === 0 ? null : (100 * (up + degraded)) / total;
}

const totalOf = ({ up, down, degraded, error }: Counts): number => up + down + degraded + error;

/** Sum of all counts. */
function sum(counts: Iterable<Counts>): Counts {
  const all = { up: 0, down: 0, degraded: 0, error: 0 };
  for (const { up, down, degraded, error } of counts) {
    all.up += up;
    all.down += down;
    all.degraded += degraded;
    all.error += error;
  }
  return all;
}

/** The diagnosis of a failed run, for its record; nothing for one that is up or no evidence. */
export const diagnosisField = (run: {
  status: string;
  skip?: boolean;
  region: string;
  diagnosis?: string | null | undefined;
}): Pick<CheckResult, "diagnosis"> =>
  run.status === "up" || run.skip === true ? {} : { diagnosis: diagnosisOf(run.diagnosis, [run.region]) };

const present = (row: queries.ResultRow): CheckResult => ({
  target_id: row.target_id,
  region: row.region,
  timestamp: row.timestamp.toISOString(),
  ...measuredPart(row),
  details: row.details,
  ...diagnosisField(row),
  recheck: row.recheck,
  ...(row.skip ? { skipped: true as const } : {}),
});
