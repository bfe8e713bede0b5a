import { throttledByCap } from "@statusmesh/shared/checks";
import { getOrMake } from "../../platform/caches.ts";
import { arrayOf, columnOf, type Db } from "../../platform/db/sql.ts";
import { portionsOf, takeTurns } from "../../platform/process/turns.ts";
import { daysOf } from "../history/service.ts";
import { type Counts, slackMs } from "./queries.ts";
import { percentileOf, runStatus, visitRuns } from "./run-arrays.ts";
import { runArrays, runs } from "./runs-queries.ts";
import type { Range } from "./range.ts";

/** The targets whose newest result was throttled by the limit per host. */
export async function selectThrottled(sql: Db, orgId: string, targetIds: readonly string[]): Promise<string[]> {
  return await columnOf<string>(sql`
    select t.id from targets t join target_states s on s.target_id = t.id
    cross join lateral (
      select r.skip, r.error
      from ${runs(
        sql,
        {
          target: sql`t.id`,
          from: sql`s.last_result_at - make_interval(secs => t.interval_secs) - interval '10 minutes'`,
          to: sql`s.last_result_at + interval '10 minutes'`,
        },
        ["skip", "error"],
      )} r
      order by r.scheduled_at desc limit 1
    ) newest
    where t.org_id = ${orgId} and t.id = any(${arrayOf(targetIds)}::uuid[]) and newest.skip
      and newest.error = ${throttledByCap}`);
}

export interface SliceRow {
  target_id: string;
  /** Index from the start of the range. */
  slice: number;
  status: "up" | "degraded" | "down";
  p95: number | null;
}

/** Targets that are read at once, so that few values are in memory: 20 with five checks per 10 s a day have 7 MB. */
const portion = 20;

/**
 * The range cut into slices of `sliceMs` by slot, for many targets: the worst status and the 95th percentile in ms,
 * without empty slices. Going by slot keeps the planner away from partitions of other days.
 */
export async function selectSlices(
  sql: Db,
  orgId: string,
  targetIds: readonly string[],
  range: Range,
  sliceMs: number,
): Promise<SliceRow[]> {
  const found: SliceRow[] = [];
  for (const ids of portionsOf(targetIds, portion)) found.push(...(await slicesOf(sql, orgId, ids, range, sliceMs)));
  return found;
}

async function slicesOf(sql: Db, orgId: string, targetIds: readonly string[], range: Range, sliceMs: number) {
  const values = runArrays(
    sql,
    { target: sql`t.id`, from: sql`${range.from}::timestamptz`, to: sql`${range.to}::timestamptz` },
    null,
    ["status", "skip", "recheck", "total_ms"],
  );
  const [from, to] = [range.from.getTime(), range.to.getTime()];
  const ofTargets = new Map<string, Slice[]>();
  const query = sql`
    select t.id::text, r.* from targets t cross join lateral ${values} r
    where t.org_id = ${orgId} and t.id = any(${arrayOf(targetIds)}::uuid[])`;
  await query.values().forEach(([id, , ...arrays]) => {
    const slices = getOrMake(ofTargets, String(id), () => []);
    visitRuns(arrays, ({ slot, status, counts, total }) => {
      if (!counts || slot < from || slot >= to) return;
      const slice = (slices[Math.floor((slot - from) / sliceMs)] ??= { failed: false, degraded: false, totals: [] });
      if (status === runStatus.down || status === runStatus.error) slice.failed = true;
      else {
        if (status === runStatus.degraded) slice.degraded = true;
        if (!Number.isNaN(total)) slice.totals.push(total);
      }
    });
  });
  const turns = await takeTurns();
  const rows: SliceRow[] = [];
  for (const [target_id, slices] of ofTargets)
    for (const [slice, found] of slices.entries()) {
      if (found === undefined) continue;
      if (turns.over()) await turns.next();
      const status = found.failed ? "down" : found.degraded ? "degraded" : "up";
      const p95 = found.totals.length === 0 ? null : percentileOf(found.totals, 0.95);
      rows.push({ target_id, slice, status, p95 });
    }
  return rows;
}

interface Slice {
  failed: boolean;
  degraded: boolean;
  /** Of runs with a connection, ms. */
  totals: number[];
}

export interface DayRow extends Counts {
  target_id: string;
  /** A UTC day, `2026-11-20`. */
  day: string;
  /** Whether runs of the day were imported. */
  imported: boolean;
}

/**
 * Runs per target and UTC day from `firstDay` to `now`: rolled-up days, and the rest (usually at most two hours) from
 * the results; imported days too. Days without a run are left out.
 */
export async function selectDays(
  sql: Db,
  orgId: string,
  targetIds: readonly string[],
  firstDay: string,
  now: Date,
): Promise<DayRow[]> {
  return await sql<DayRow[]>`
    select t.id as target_id, d.day::text as day, sum(d.up)::int as up, sum(d.down)::int as down,
      sum(d.degraded)::int as degraded, sum(d.error)::int as error, bool_or(d.imported) as imported
    from targets t left join rollup_progress progress on true
    cross join lateral (
      select s.day, s.up, s.down, s.degraded, s.error, false as imported
      from results_daily_of(t.id, ${firstDay}, 'infinity') s
      union all
      select i.*, true from ${daysOf(sql, sql`t.id`, sql`${firstDay}::date`)} i
      union all
      select (r.scheduled_at at time zone 'UTC')::date as day, count(*) filter (where r.status = 'up') as up,
        count(*) filter (where r.status = 'down') as down,
        count(*) filter (where r.status = 'degraded') as degraded, count(*) filter (where r.status = 'error') as error,
        false as imported
      from ${runs(
        sql,
        {
          target: sql`t.id`,
          from: sql`greatest(progress.next_hour, ${`${firstDay}T00:00:00Z`}::timestamptz)`,
          to: sql`${new Date(now.getTime() + slackMs)}::timestamptz`,
        },
        ["status", "skip", "recheck"],
      )} r
      where not r.skip and not r.recheck
      group by 1
    ) d
    where t.org_id = ${orgId} and t.id = any(${targetIds as string[]}::uuid[])
    group by 1, 2
    order by 1, 2`;
}
