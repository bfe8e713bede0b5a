import type { Fragment } from "postgres";
import { arrayOf, inPortions, type Db } from "../../platform/db/sql.ts";
import { hourCounts } from "./hours-queries.ts";
import { slackMs } from "./queries.ts";
import type { Range } from "./range.ts";
import { runs } from "./runs-queries.ts";

/** A UTC day of a target. */
export interface TargetDay {
  target_id: string;
  /** `2026-11-20` */
  day: string;
}

/** UTC days one after the other, each with runs. */
export interface StretchRow {
  target_id: string;
  first: string;
  last: string;
}

/** UTC days from the first to the last one; `infinity` is no end. */
export interface DayRange {
  first: string;
  last: string;
}

/** Runs that are not rolled up yet: usually those of at most two hours. */
export interface Recent {
  /** Known before the statement, which would else look for the partitions of the time once for each target. */
  nextHour: Date | null;
  /** Unix ms. */
  now: number;
}

/** Recent runs of targets `u` since the first day that are evidence. */
const recentRuns = (sql: Db, { first }: DayRange, { nextHour, now }: Recent) => {
  const from = Math.max(nextHour?.getTime() ?? 0, Date.parse(first));
  const slots = {
    target: sql`u.id`,
    from: sql`${new Date(from)}::timestamptz`,
    to: sql`${new Date(now + slackMs)}::timestamptz`,
  };
  return sql`cross join lateral ${runs(sql, slots, ["skip", "recheck"])} r
    where not r.skip and not r.recheck`;
};

const dayOf = (sql: Db) => sql`(r.scheduled_at at time zone 'UTC')::date`;

/**
 * The stretches of days with runs, oldest first: rolled-up days, and the rest from the results. A row for each day of
 * 1,000 targets took 36 MB.
 */
export async function selectStretches(
  sql: Db,
  orgId: string,
  targetIds: readonly string[],
  days: DayRange,
  recent: Recent,
): Promise<StretchRow[]> {
  const ids = arrayOf(targetIds);
  return await inPortions(sql<StretchRow[]>`
    select d.target_id, min(d.day)::text as first, max(d.day)::text as last
    from (
      select own.target_id, own.day,
        own.day - (dense_rank() over (partition by own.target_id order by own.day))::int as stretch
      from (
        select s.target_id, s.day
        from unnest(${ids}::uuid[]) as u (id)
        cross join lateral results_daily_of(u.id, ${days.first}, ${days.last}::text::date) s
        union all
        select u.id, ${dayOf(sql)} from unnest(${ids}::uuid[]) as u (id) ${recentRuns(sql, days, recent)}
      ) own
    ) d
    join targets t on t.id = d.target_id and t.org_id = ${orgId}
    group by d.target_id, d.stretch order by 1, 2`);
}

/** Rolled-up days of a target: how many there are from the first to the last one. */
export interface DaySumsRow extends StretchRow {
  days: number;
  /** Runs of the counted ones. */
  checks: number;
}

/** The rolled-up days of targets, and the runs of those in `counted`, a range of whole days. */
export async function selectDaySums(
  sql: Db,
  orgId: string,
  targetIds: readonly string[],
  { first, last }: DayRange,
  counted: Range | null,
): Promise<DaySumsRow[]> {
  const isCounted = sql`
    s.day >= (${counted?.from ?? null}::timestamptz at time zone 'UTC')::date
      and s.day < (${counted?.to ?? null}::timestamptz at time zone 'UTC')::date`;
  return await sql<DaySumsRow[]>`
    select t.id as target_id, d.first::text, d.last::text, d.days, d.checks
    from unnest(${arrayOf(targetIds)}::uuid[]) as u (id) join targets t on t.id = u.id and t.org_id = ${orgId}
    cross join lateral (
      select min(s.day) as first, max(s.day) as last, count(*)::int as days,
        coalesce(sum(s.up + s.down + s.degraded + s.error) filter (where ${isCounted}), 0)::float8 as checks
      from results_daily_of(t.id, ${first}, ${last}) s
    ) d
    where d.days > 0`;
}

/** Days of targets with runs that are not rolled up yet, oldest first, with those in `counted`. */
export async function selectRecentDays(
  sql: Db,
  orgId: string,
  targetIds: readonly string[],
  days: DayRange,
  counted: Range,
  recent: Recent,
): Promise<(TargetDay & ChecksRow)[]> {
  return await inPortions(sql<(TargetDay & ChecksRow)[]>`
    select u.id as target_id, ${dayOf(sql)}::text as day,
      (count(*) filter (where r.scheduled_at >= ${counted.from} and r.scheduled_at < ${counted.to}))::float8 as checks
    from unnest(${arrayOf(targetIds)}::uuid[]) as u (id) join targets t on t.id = u.id and t.org_id = ${orgId}
    ${recentRuns(sql, days, recent)} and ${dayOf(sql)} <= ${days.last}::date
    group by 1, 2 order by 1, 2`);
}

export interface ChecksRow {
  target_id: string;
  checks: number;
}

/** Runs of targets in parts of a range. `counts` answers the runs of the target `t` in the part `part`. */
async function countIn(
  sql: Db,
  orgId: string,
  targetIds: readonly string[],
  parts: readonly Range[],
  counts: Fragment,
): Promise<ChecksRow[]> {
  if (parts.length === 0) return [];
  return await inPortions(sql<ChecksRow[]>`
    select t.id as target_id, sum(n.checks)::float8 as checks
    from unnest(${arrayOf(targetIds)}::uuid[]) as u (id) join targets t on t.id = u.id and t.org_id = ${orgId}
    cross join unnest(${arrayOf(parts.map(({ from }) => from.toISOString()))}::timestamptz[],
      ${arrayOf(parts.map(({ to }) => to.toISOString()))}::timestamptz[]) as part ("from", "to")
    cross join lateral (${counts}) n
    group by t.id having sum(n.checks) > 0`);
}

const inPart = (sql: Db) => ({ target: sql`t.id`, from: sql`part."from"`, to: sql`part."to"` });

/** Runs of targets in ranges of whole rolled-up hours. */
export const countHours = (sql: Db, orgId: string, targetIds: readonly string[], parts: readonly Range[]) =>
  countIn(
    sql,
    orgId,
    targetIds,
    parts,
    sql`select sum(h.up + h.down + h.degraded + h.error) as checks from ${hourCounts(sql, inPart(sql))} h`,
  );

/** Runs of targets in ranges of slots, from the results. */
export const countRuns = (sql: Db, orgId: string, targetIds: readonly string[], parts: readonly Range[]) =>
  countIn(
    sql,
    orgId,
    targetIds,
    parts,
    sql`
      select count(*) as checks from ${runs(sql, inPart(sql), ["skip", "recheck"])} r
      where not r.skip and not r.recheck`,
  );

export interface DayHoursRow extends TargetDay {
  first: Date;
  /** Start of the last hour with a run. */
  last: Date;
}

/** First and last hour with a run of each given day. Days without rolled-up hours are left out. */
export async function selectDayHours(sql: Db, orgId: string, days: readonly TargetDay[]): Promise<DayHoursRow[]> {
  return await sql<DayHoursRow[]>`
    select d.target_id, d.day::text as day, h.first, h.last
    from unnest(${arrayOf(days.map((one) => one.target_id))}::uuid[], ${arrayOf(days.map((one) => one.day))}::date[])
      as d (target_id, day)
    join targets t on t.id = d.target_id and t.org_id = ${orgId}
    cross join lateral (
      select min(h.hour) as first, max(h.hour) as last
      from ${hourCounts(sql, {
        target: sql`d.target_id`,
        from: sql`(d.day::timestamp at time zone 'UTC')`,
        to: sql`((d.day + 1)::timestamp at time zone 'UTC')`,
      })} h
    ) h
    where h.first is not null`;
}
