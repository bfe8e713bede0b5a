import type { Fragment } from "postgres";
import { dayMs } from "@statusmesh/shared/time";
import { arrayOf, inPortions, type Db } from "../../../platform/db/client/sql.ts";
import { hourCounts } from "../hours-queries.ts";
import type { TargetDay } from "../packing/pack-hours-queries.ts";
import { slackMs } from "../queries.ts";
import type { Range } from "../range.ts";
import { runs } from "../runs-queries.ts";

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

/** Runs of a target that are not rolled up yet, in the days. None of them is in a packed day: those have their sums. */
const recentRuns = (sql: Db, target: Fragment, { first, last }: DayRange, { nextHour, now }: Recent) => {
  const from = Math.max(nextHour?.getTime() ?? 0, Date.parse(first));
  const end = last === "infinity" ? Infinity : Date.parse(last) + dayMs;
  const slots = {
    target,
    from: sql`${new Date(from)}::timestamptz`,
    to: sql`${new Date(Math.min(end, now + slackMs))}::timestamptz`,
    days: nextHour === null ? undefined : sql`false`,
  };
  return runs(sql, slots, ["skip", "recheck"]);
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
        select u.id, ${dayOf(sql)} from unnest(${ids}::uuid[]) as u (id)
        cross join lateral ${recentRuns(sql, sql`u.id`, days, recent)} r where not r.skip and not r.recheck
      ) own
    ) d
    join targets t on t.id = d.target_id and t.org_id = ${orgId}
    group by d.target_id, d.stretch order by 1, 2`);
}

/** Runs of a target around a range, by source. */
export interface CheckedRow {
  target_id: string;
  /** First and last rolled-up UTC day, and how many there are; null for none. */
  first: string | null;
  last: string | null;
  days: number;
  /** Runs in the range. */
  checks: number;
  /** Slots of the first and the last run that is not rolled up yet; null for none. */
  recent_first: Date | null;
  recent_last: Date | null;
}

/** Parts of a range by the source that counts their runs. They do not overlap. */
export interface CountedParts {
  /** Whole rolled-up days; `to` null: all until the rollup, also a part of a day. Null for none. */
  days: { from: Date; to: Date | null } | null;
  /** Whole rolled-up hours. */
  hours: readonly Range[];
  /** From the results: parts of rolled-up hours. */
  runs: readonly Range[];
}

/**
 * Rolled-up days and recent runs of targets from the first to the last day, and their runs in `range`, whose rolled-up
 * `parts` have other sources. One statement: each one that joins 10,000 targets costs 50 ms before it reads a sum.
 */
export async function selectChecked(
  sql: Db,
  orgId: string,
  targetIds: readonly string[],
  around: DayRange,
  range: Range,
  parts: CountedParts,
  recent: Recent,
): Promise<CheckedRow[]> {
  const { days } = parts;
  const dateOf = (at: Date) => sql`(${at}::timestamptz at time zone 'UTC')::date`;
  const isCounted =
    days === null
      ? sql`false`
      : sql`s.day >= ${dateOf(days.from)} and ${days.to === null ? sql`true` : sql`s.day < ${dateOf(days.to)}`}`;
  // Another hour may be rolled up since `recent` was read.
  const isUnsummed = days?.to === null ? sql`r.scheduled_at >= (select p.next_hour from rollup_progress p)` : sql`true`;
  const part = { target: sql`t.id`, from: sql`part."from"`, to: sql`part."to"` };
  const inHours = sql`select sum(h.up + h.down + h.degraded + h.error) as checks from ${hourCounts(sql, part)} h`;
  const inSlots = sql`
    select count(*) as checks from ${runs(sql, part, ["skip", "recheck"])} r where not r.skip and not r.recheck`;
  // Runs after the range matter only where no sum says that a target was checked until its end.
  const hasRecent = recent.nextHour === null || range.to > recent.nextHour;
  const recentPart = hasRecent
    ? sql`
      select min(r.scheduled_at) as first, max(r.scheduled_at) as last,
        count(*) filter (where r.scheduled_at >= ${range.from} and r.scheduled_at < ${range.to}) as checks
      from ${recentRuns(sql, sql`t.id`, around, recent)} r
      where not r.skip and not r.recheck and ${isUnsummed}`
    : sql`select null::timestamptz as first, null::timestamptz as last, 0 as checks`;
  return await sql<CheckedRow[]>`
    select t.id as target_id, d.first::text, d.last::text, d.days::int, r.first as recent_first,
      r.last as recent_last, (coalesce(d.checks, 0) + r.checks
        + ${sumOf(sql, parts.hours, inHours)} + ${sumOf(sql, parts.runs, inSlots)})::float8 as checks
    from unnest(${arrayOf(targetIds)}::uuid[]) as u (id) join targets t on t.id = u.id and t.org_id = ${orgId}
    cross join lateral (
      select min(s.day) as first, max(s.day) as last, count(*) as days,
        sum(s.up + s.down + s.degraded + s.error) filter (where ${isCounted}) as checks
      from results_daily_of(t.id, ${around.first}, ${around.last}) s
    ) d
    cross join lateral (${recentPart}) r`;
}

/** The sum of what `counts` answers for the target `t` in each of the parts. */
const sumOf = (sql: Db, parts: readonly Range[], counts: Fragment): Fragment =>
  parts.length === 0
    ? sql`0`
    : sql`(
      select coalesce(sum(n.checks), 0)
      from unnest(${arrayOf(parts.map(({ from }) => from.toISOString()))}::timestamptz[],
        ${arrayOf(parts.map(({ to }) => to.toISOString()))}::timestamptz[]) as part ("from", "to")
      cross join lateral (${counts}) n)`;

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
