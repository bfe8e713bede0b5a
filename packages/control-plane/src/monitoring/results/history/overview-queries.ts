import { throttledByCap } from "@statusmesh/shared/checks";
import { arrayOf, columnOf, type Db } from "../../../platform/db/client/sql.ts";
import { portionsOf } from "../../../platform/process/turns.ts";
import { daysOf } from "../../history/service.ts";
import { type Counts, slackMs } from "../queries.ts";
import { type RunArrays, runArrays, runs, startOfMost } from "../runs-queries.ts";

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

/** Runs of a region of a target, or of a packed day of it, as visitRuns reads them; `arrays` is null without runs. */
export interface RecentRow {
  targetId: string;
  intervalMs: number;
  region: string;
  arrays: RunArrays | null;
}

/** Targets that are read at once, so that few values are in memory: 20 with five checks per 10 s a day have 7 MB. */
const portion = 20;
/** Runs of packed days of a target that are read: an interval that became longer has earlier runs close together. */
const mostPacked = 20_000;

/** Runs of the last `checks` intervals of each target, and of `leastSecs` at least, by slot. */
export async function selectRecent(
  sql: Db,
  orgId: string,
  targetIds: readonly string[],
  now: Date,
  { checks, leastSecs }: { checks: number; leastSecs: number },
): Promise<RecentRow[]> {
  const to = sql`${now}::timestamptz`;
  const wanted = sql`${to} - make_interval(secs => greatest(${checks} * t.interval_secs, ${leastSecs}))`;
  const most = startOfMost(sql, { target: sql`t.id`, from: wanted, to }, null, mostPacked);
  const range = { target: sql`t.id`, from: sql`span.start`, to };
  const found: RecentRow[] = [];
  for (const ids of portionsOf(targetIds, portion)) {
    const query = sql`
      select t.id::text, t.interval_secs, r.* from targets t
      cross join lateral (select greatest(${wanted}, most.at) as start from ${most} most offset 0) span
      left join lateral ${runArrays(sql, range, null, ["status", "skip", "recheck", "total_ms"])} r on true
      where t.org_id = ${orgId} and t.id = any(${arrayOf(ids)}::uuid[])`;
    for (const [id, secs, region, ...arrays] of await query.values())
      found.push({
        targetId: String(id),
        intervalMs: 1000 * Number(secs),
        region: String(region),
        arrays: region === null ? null : (arrays as RunArrays),
      });
  }
  return found;
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
