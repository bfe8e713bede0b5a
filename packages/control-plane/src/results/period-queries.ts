import type { Db } from "../db/sql.ts";
import { type ResultTarget, rowsOf } from "./queries.ts";
import type { Range } from "./range.ts";

/** A period of failing runs. */
export interface PeriodRow {
  /** Region and slot of its first failing run; they identify the period. */
  region: string;
  slot: Date;
  started_at: Date;
  ended_at: Date | null;
  status: "down" | "error";
  check_count: number;
  error_sample: string | null;
}

/**
 * Common table expressions up to `followed`: the results from the last `up` of each region before the range to the
 * first one after it, so that a period at an edge of the range is complete.
 */
const followed = (sql: Db, orgId: string, target: ResultTarget, range: Range) => sql`
  edges as (
    select r.region, min(r.scheduled_at) as first_slot, max(r.scheduled_at) as last_slot
    ${rowsOf(sql, orgId, target, range, null)} and not r.skip and r.status <> 'degraded' group by r.region
  ), reach as (
    select min(coalesce(b.slot, '-infinity')) as since, max(coalesce(a.slot, 'infinity')) as until
    from edges e
    left join lateral (
      select r.scheduled_at as slot from results r
      where r.target_id = ${target.id} and r.region = e.region and r.scheduled_at <= e.first_slot
        and r.status = 'up' and not r.skip
      order by r.scheduled_at desc limit 1) b on true
    left join lateral (
      select r.scheduled_at as slot from results r
      where r.target_id = ${target.id} and r.region = e.region and r.scheduled_at >= e.last_slot
        and r.status = 'up' and not r.skip
      order by r.scheduled_at limit 1) a on true
  ), followed as (
    select r.region, r.scheduled_at, r."timestamp", r.status,
      lag(r.status) over (partition by r.region order by r.scheduled_at) as before
    from results r
    where r.target_id = ${target.id} and r.scheduled_at >= (select since from reach)
      and r.scheduled_at <= (select until from reach) and not r.skip and r.status <> 'degraded'
  )`;

/** Common table expressions up to `ended`: the periods of each region, with an end of infinity for ongoing ones. */
const endedByRegion = (sql: Db, target: ResultTarget) => sql`
  numbered as (
    select f.region, f.scheduled_at, f."timestamp", f.status,
      count(*) filter (where f.status = 'up') over (partition by f.region order by f.scheduled_at
        rows between unbounded preceding and 1 preceding) as number
    from followed f where f.status <> 'up' or f.before <> 'up'
  ), runs as (
    select n.region, min(n.scheduled_at) as slot,
      min(n."timestamp") filter (where n.status <> 'up') as started_at,
      min(n."timestamp") filter (where n.status = 'up') as up_at,
      max(n."timestamp") filter (where n.status <> 'up') as last_at,
      max(n.scheduled_at) filter (where n.status <> 'up') as last_slot,
      count(*) filter (where n.status <> 'up') as failed, bool_or(n.status = 'down') as down
    from numbered n group by n.region, n.number
  ), ended as (
    select u.region, u.slot, u.started_at, u.last_slot, u.failed, u.down, case
      when u.up_at is not null then u.up_at
      when exists (select from target_regions p join targets t on t.id = p.target_id
        where p.target_id = ${target.id} and p.region_id = u.region and t.enabled) then 'infinity'
      else u.last_at end as ended_at
    from runs u
  )`;

/** Common table expressions up to `periods`: overlapping periods of several regions as one. */
const merged = (sql: Db) => sql`
  marked as (
    select d.*, max(d.ended_at) over (order by d.started_at, d.region
      rows between unbounded preceding and 1 preceding) as covered_until
    from ended d
  ), grouped as (
    select m.*, count(*) filter (where m.covered_until is null or m.covered_until <= m.started_at)
      over (order by m.started_at, m.region) as period
    from marked m
  ), periods as (
    select (array_agg(g.region order by g.started_at, g.region))[1] as region,
      (array_agg(g.slot order by g.started_at, g.region))[1] as slot, min(g.started_at) as started_at,
      nullif(max(g.ended_at), 'infinity') as ended_at,
      case when bool_or(g.down) then 'down' else 'error' end as status, sum(g.failed)::int as check_count,
      (array_agg(g.region order by g.last_slot desc, g.region))[1] as last_region, max(g.last_slot) as last_slot
    from grouped g group by g.period
  )`;

/**
 * Periods with a result in the range; `ongoing` leaves out ended ones. Within a region a period is a run of failing
 * results in slot order until the next `up`; skipped and degraded runs are ignored. A period that crosses an edge of
 * the range is followed to its end, so it does not depend on the range. Overlapping periods of several regions are
 * one. A period without an `up` is ongoing, unless the region no longer probes the target: then its last failing
 * result ends it.
 */
export async function selectPeriods(
  sql: Db,
  orgId: string,
  target: ResultTarget,
  range: Range,
  ongoing: boolean,
  limit: number,
  offset: number,
): Promise<{ total: number; rows: PeriodRow[] }> {
  const [page] = await sql<{ total: number; rows: PeriodJson[] }[]>`
    with ${followed(sql, orgId, target, range)},
    ${endedByRegion(sql, target)},
    ${merged(sql)},
    shown as (
      select p.region, p.slot, p.started_at, p.ended_at, p.status, p.check_count, p.last_region, p.last_slot
      from periods p
      where p.started_at < ${range.to} and (p.ended_at is null or (p.ended_at > ${range.from} and not ${ongoing}))
    ), page as (
      select s.region, s.slot, s.started_at, s.ended_at, s.status, s.check_count,
        (select coalesce(r.cause, r.error) from results r
          where r.target_id = ${target.id} and r.scheduled_at = s.last_slot and r.region = s.last_region)
          as error_sample
      from shown s order by s.started_at desc, s.region limit ${limit} offset ${offset}
    )
    select (select count(*)::int from shown) as total,
      coalesce((select json_agg(page order by page.started_at desc, page.region) from page), '[]') as rows`;
  const { total, rows } = page!;
  return {
    total,
    rows: rows.map((row) => ({
      ...row,
      slot: new Date(row.slot),
      started_at: new Date(row.started_at),
      ended_at: row.ended_at === null ? null : new Date(row.ended_at),
    })),
  };
}

/** Times as JSON has them. */
type PeriodJson = Omit<PeriodRow, "slot" | "started_at" | "ended_at"> & {
  slot: string;
  started_at: string;
  ended_at: string | null;
};
