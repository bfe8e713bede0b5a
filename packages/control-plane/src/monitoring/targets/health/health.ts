import { type Ctx, type OrgReader, requireScope } from "../../../platform/context.ts";
import { readCause } from "../../../alerting/causes/service.ts";
import { selectMonitorCauses } from "../list/cause-queries.ts";
import { everything, filterOf } from "../list/filter-queries.ts";
import * as queries from "./health-queries.ts";
import { countMonitors } from "../list/list-queries.ts";
import { type MonitorCause, type MonitorsInput, presentCause } from "../list/monitors.ts";
import type { MonitorState } from "../schema.ts";

export interface OrgHealth {
  /** Monitors in each state. */
  totals: Record<MonitorState, number>;
  /** Common causes of failing monitors, those with the most monitors first. */
  causes: MonitorCause[];
  /** Number of causes, and of failing monitors without one. */
  causesTotal: number;
  uncaused: number;
  /** The worst failing monitors: worst state first, then the longest failure. */
  failing: (queries.FailingRow & { cause: string | null })[];
  failingTotal: number;
}

/** How the monitors of the organisation are now, with the `worst` worst ones and the `most` largest causes. */
export async function orgHealth(ctx: Ctx, { worst, most }: { worst: number; most: number }): Promise<OrgHealth> {
  requireScope(ctx, "targets:read");
  const now = new Date(ctx.clock.now());
  const [counts, failing, causes] = await Promise.all([
    countMonitors(ctx.sql, ctx.orgId, now, everything),
    queries.selectFailing(ctx.sql, ctx.orgId, now, worst),
    selectMonitorCauses(ctx.sql, ctx.orgId, now, everything, { limit: most, offset: 0 }),
  ]);
  const totals: OrgHealth["totals"] = { up: 0, down: 0, degraded: 0, error: 0, unknown: 0, paused: 0 };
  for (const { state, count } of counts) totals[state as MonitorState] = count;
  const failingTotal = totals.down + totals.error + totals.degraded;
  const causeOf = await causesOf(
    ctx,
    failing.map(({ id }) => id),
  );
  return {
    totals,
    causes: causes.map(presentCause),
    causesTotal: causes[0]?.causes ?? 0,
    uncaused: failingTotal - (causes[0]?.monitors ?? 0),
    failing: failing.map((row) => ({ ...row, cause: causeOf.get(row.id)?.key ?? null })),
    failingTotal,
  };
}

export interface MonitorListInput extends Pick<MonitorsInput, "q" | "tag" | "kind" | "state" | "limit"> {
  failing?: boolean;
  /** A cause as filters name it; `none`: failing monitors without a common cause. */
  cause?: string;
  /** The `position` of the row before. */
  after: string | null;
}

export interface ListedMonitor extends queries.ListedMonitorRow {
  cause: string | null;
  position: string;
}

/** Monitors, newest first. Pages neither skip nor repeat a monitor when others change their state meanwhile. */
export async function monitorsAfter(
  ctx: Ctx,
  { after, limit, failing, cause, ...narrowing }: MonitorListInput,
): Promise<{ items: ListedMonitor[]; total: number }> {
  requireScope(ctx, "targets:read");
  const now = new Date(ctx.clock.now());
  const isAlone = cause === "none";
  const filter = {
    ...filterOf({ ...narrowing, cause: cause === undefined || isAlone ? null : readCause(cause) }),
    failing: isAlone ? true : (failing ?? null),
    caused: isAlone ? false : null,
  };
  const [createdAt, id] = after?.split(" ") ?? [];
  const [rows, total] = await Promise.all([
    queries.selectListedMonitors(ctx.sql, ctx.orgId, now, filter, {
      after: id === undefined ? null : { createdAt: new Date(Number(createdAt)), id },
      limit,
    }),
    queries.countListedMonitors(ctx.sql, ctx.orgId, now, filter),
  ]);
  const failed = rows.filter(({ state }) => state === "down" || state === "error" || state === "degraded");
  const causeOf = await causesOf(
    ctx,
    failed.map((row) => row.id),
  );
  const items = rows.map((row) => ({
    ...row,
    cause: causeOf.get(row.id)?.key ?? null,
    position: `${row.created_at.getTime()} ${row.id}`,
  }));
  return { items, total };
}

/** Causes of the failing ones among these monitors, without a scope check. */
export async function causesOf(
  reader: OrgReader,
  ids: readonly string[],
): Promise<ReadonlyMap<string, { key: string; count: number }>> {
  if (ids.length === 0) return new Map();
  return await queries.selectCausesOf(reader.sql, reader.orgId, new Date(reader.clock.now()), ids);
}

/** States of these monitors. Without a scope check, for lists of status pages, which check their own. */
export async function monitorStates(reader: OrgReader, ids: readonly string[]): Promise<Map<string, MonitorState>> {
  if (ids.length === 0) return new Map();
  const rows = await queries.selectStates(reader.sql, reader.orgId, new Date(reader.clock.now()), ids);
  return new Map(rows.map(({ id, state }) => [id, state]));
}

/** All monitors of the organisation with their states, oldest first. Without a scope check, for their metrics. */
export async function measuredMonitors(reader: OrgReader): Promise<queries.MeasuredRow[]> {
  return await queries.selectMeasured(reader.sql, reader.orgId, new Date(reader.clock.now()));
}

/** The id of the monitor with this number; null for none in the organisation. Without a scope check. */
export async function idOfNumber(reader: OrgReader, number: number): Promise<string | null> {
  return await queries.selectIdOfNumber(reader.sql, reader.orgId, number);
}
