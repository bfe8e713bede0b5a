import { inPortions, type Db } from "../../../platform/db/client/sql.ts";
import { hourCounts } from "../hours-queries.ts";
import { runs } from "../runs-queries.ts";
import type { ResultRow } from "../queries.ts";

/** The newest run of a target in a region. */
export type NewestRun = Pick<
  ResultRow,
  "target_id" | "region" | "timestamp" | "status" | "dns_ms" | "connect_ms" | "tls_ms" | "ttfb_ms" | "total_ms"
>;

const newestColumns = ["timestamp", "status", "skip", "dns_ms", "connect_ms", "tls_ms", "ttfb_ms", "total_ms"] as const;

/** The newest run that is evidence, of every target of the organisation in each of its regions. */
export async function selectNewestRuns(sql: Db, orgId: string): Promise<NewestRun[]> {
  const slot = {
    target: sql`t.id`,
    from: sql`s.last_result_at - 2 * make_interval(secs => t.interval_secs) - interval '10 minutes'`,
    to: sql`s.last_result_at + interval '10 minutes'`,
  };
  return await inPortions(sql<NewestRun[]>`
    select t.id as target_id, p.region_id as region, newest.*
    from targets t
    join target_states s on s.target_id = t.id and s.last_result_at is not null
    join target_regions p on p.target_id = t.id
    cross join lateral (
      select r."timestamp", r.status, r.dns_ms, r.connect_ms, r.tls_ms, r.ttfb_ms, r.total_ms
      from ${runs(sql, slot, newestColumns)} r
      where r.region = p.region_id and not r.skip
      order by r.scheduled_at desc limit 1
    ) newest
    where t.org_id = ${orgId} and t.enabled`);
}

/** Runs of a target without a summed hour that its uptime is made of: two hours of one a minute, roughly. */
const newestRunsCounted = 100;

export const uptimeWindows = ["24h", "7d", "30d"] as const;
export type UptimeWindow = (typeof uptimeWindows)[number];

/** Runs that were up or degraded, and all runs, of ranges that end with the newest summed hour; of a target without a
 * summed hour its newest runs. */
export interface UptimeRow extends Record<`${"up" | "all"}_${UptimeWindow}`, number> {
  target_id: string;
}

/** Uptime of every target of the organisation by summed hours and days. The long ranges begin with a UTC day. */
export async function selectUptimes(sql: Db, orgId: string, now: Date): Promise<UptimeRow[]> {
  const day = { target: sql`t.id`, from: sql`progress.next_hour - interval '24 hours'`, to: sql`progress.next_hour` };
  const good = sql`d.up + d.degraded`;
  const all = sql`d.up + d.degraded + d.down + d.error`;
  const newest = { target: sql`t.id`, from: sql`${now}::timestamptz - interval '1 day'`, to: sql`${now}::timestamptz` };
  const isOfWeek = sql`d.day >= ${now}::timestamptz::date - 7`;
  return await inPortions(sql<UptimeRow[]>`
    select t.id as target_id, coalesce(h.up, fresh.up, 0)::float8 as up_24h,
      coalesce(h.counted, fresh.counted, 0)::float8 as all_24h,
      coalesce(l.up_7d, fresh.up, 0)::float8 as up_7d, coalesce(l.all_7d, fresh.counted, 0)::float8 as all_7d,
      coalesce(l.up_30d, fresh.up, 0)::float8 as up_30d, coalesce(l.all_30d, fresh.counted, 0)::float8 as all_30d
    from targets t left join rollup_progress progress on true
    cross join lateral (
      select sum(c.up + c.degraded) as up, sum(c.up + c.degraded + c.down + c.error) as counted
      from ${hourCounts(sql, day)} c
    ) h
    left join (
      select d.target_id, sum(${good}) filter (where ${isOfWeek}) as up_7d,
        sum(${all}) filter (where ${isOfWeek}) as all_7d, sum(${good}) as up_30d, sum(${all}) as all_30d
      from (
        select target_id, day, up, degraded, down, error
        from results_daily_of_org(${orgId}, ${now}::timestamptz::date - 30)
        union all
        select target_id, day, up, degraded, down, error from imported_days
        where target_id in (select id from targets where org_id = ${orgId}) and day >= ${now}::timestamptz::date - 30
      ) d
      group by d.target_id
    ) l on l.target_id = t.id
    left join lateral (
      select count(*) filter (where n.status in ('up', 'degraded')) as up, count(*) as counted
      from (
        select r.status from ${runs(sql, newest, ["status", "skip", "recheck"])} r
        where not r.skip and not r.recheck order by r.scheduled_at desc limit ${newestRunsCounted}
      ) n
    ) fresh on h.counted is null and l.all_30d is null
    where t.org_id = ${orgId}`);
}

/** Sums of the days of a year: runs, and time by window. */
export interface YearRow extends Record<`${"ms" | "timed"}_${"1d" | "30d" | "365d"}`, number> {
  target_id: string;
  up: number;
  counted: number;
}

/** Sums of every target of the organisation by UTC days. The window 1d is today and yesterday. */
export async function selectYears(sql: Db, orgId: string, now: Date): Promise<YearRow[]> {
  const today = sql`${now}::timestamptz::date`;
  const time = (days: number) => sql`
    coalesce(sum(d.avg_ms * d.samples) filter (where d.day >= ${today} - ${days}::int), 0)::float8`;
  const timed = (days: number) => sql`
    coalesce(sum(d.samples) filter (where d.day >= ${today} - ${days}::int), 0)::float8`;
  return await inPortions(sql<YearRow[]>`
    select d.target_id, sum(d.up + d.degraded)::float8 as up,
      sum(d.up + d.degraded + d.down + d.error)::float8 as counted,
      ${time(1)} as ms_1d, ${timed(1)} as timed_1d, ${time(30)} as ms_30d, ${timed(30)} as timed_30d,
      ${time(365)} as ms_365d, ${timed(365)} as timed_365d
    from (
      select target_id, day, up, degraded, down, error, samples, avg_ms
      from results_daily_of_org(${orgId}, ${today} - 365)
      union all
      select target_id, day, up, degraded, down, error, case when avg_ms is not null then up + degraded end, avg_ms
      from imported_days
      where target_id in (select id from targets where org_id = ${orgId}) and day >= ${today} - 365
    ) d
    group by d.target_id`);
}
