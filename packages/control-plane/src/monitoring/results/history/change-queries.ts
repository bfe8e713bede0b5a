import type { Fragment } from "postgres";
import { arrayOf, columnOf, type Db, valueOf } from "../../../platform/db/client/sql.ts";
import type { Sources } from "../hours.ts";
import { changeRegions, hourChanges, latestChanges } from "../hours-queries.ts";
import { ownTarget, type ResultTarget, summed, unsummed } from "../queries.ts";
import type { Range } from "../range.ts";
import { runs } from "../runs-queries.ts";

/** The columns of changes_hourly in table order, without the target. */
export const changeColumns = (sql: Db) => sql`hour, region, results, changes, failing`;

/** Milliseconds from the hour as a 4-byte integer; slots are at most two days before their runs. */
const offset = (sql: Db, at: Fragment) => sql`(extract(epoch from ${at} - s.hour) * 1000)::int`;

/**
 * State changes of one target by the hour of the slot and region, from results; for a lateral join. `target`, `from`
 * and `to` may name columns of the outer query; hours are those of UTC. Runs in slot order without skipped and degraded
 * ones make stretches that fail (down, error) or pass (up). All numbers are 4-byte integers, big-endian; offsets are ms
 * from the start of the hour.
 *
 * - `changes`: the hour counted from the Unix epoch, the number of stretches, the offset of the latest run of the last
 *   stretch; then of each stretch twice the offset of its start, plus 1 if it fails. A failing stretch starts with its
 *   earliest run, a passing one with its first slot. Empty without a stretch.
 * - `failing`: of each failing stretch twice the number of its runs, plus 1 if one is down; the offsets of its first
 *   slot, its last slot and its latest run.
 */
export const changesOfRuns = (sql: Db, target: Fragment, from: Fragment, to: Fragment) => sql`
  select s.hour, s.region, sum(s.runs)::int as results,
    coalesce(int4send((extract(epoch from s.hour) / 3600)::int)
      || int4send((count(*) filter (where s.counts))::int)
      || int4send((array_agg(${offset(sql, sql`s.latest`)} order by s.stretch desc) filter (where s.counts))[1])
      || string_agg(int4send(case when s.up then 2 * ${offset(sql, sql`s.first_run`)}
        else 2 * ${offset(sql, sql`s.earliest`)} + 1 end), ''::bytea order by s.stretch)
        filter (where s.counts), ''::bytea) as changes,
    coalesce(string_agg(int4send(s.runs::int * 2 + s.down::int) || int4send(${offset(sql, sql`s.first_slot`)})
      || int4send(${offset(sql, sql`s.last_slot`)}) || int4send(${offset(sql, sql`s.latest`)}), ''::bytea
      order by s.stretch) filter (where s.counts and not s.up), ''::bytea) as failing
  from (
    select n.hour, n.region, n.counts, n.stretch, n.up, count(*) as runs, bool_or(n.status = 'down') as down,
      min(n."timestamp") as earliest, max(n."timestamp") as latest,
      max(n."timestamp") filter (where n.changed) as first_run,
      min(n.scheduled_at) as first_slot, max(n.scheduled_at) as last_slot
    from (
      select c.*, count(*) filter (where c.changed) over stretches as stretch
      from (
        select u.*, u.up is distinct from lag(u.up) over stretches as changed
        from (
          select date_trunc('hour', r.scheduled_at) as hour, r.region, r.scheduled_at, r."timestamp", r.status,
            r.status = 'up' as up, not r.skip and r.status <> 'degraded' as counts
          from ${runs(sql, { target, from, to }, ["timestamp", "status", "skip"])} r
        ) u
        window stretches as (partition by u.region, u.hour, u.counts order by u.scheduled_at)
      ) c
      window stretches as (partition by c.region, c.hour, c.counts order by c.scheduled_at)
    ) n
    group by n.region, n.hour, n.counts, n.stretch, n.up
  ) s
  group by s.hour, s.region`;

/** Stored hours with those of the rest of the range computed from results. */
const hoursOf = (sql: Db, orgId: string, target: ResultTarget, sources: Sources) => sql`
  select h.hour, h.region, h.changes, h.failing ${summed(sql, orgId, target, sources, null, hourChanges)}
  union all
  select n.hour, n.region, n.changes, n.failing
  from ${ownTarget(sql, orgId, target)} cross join (${unsummed(sql, target, sources)}) as part ("from", "to")
  cross join lateral (${changesOfRuns(sql, sql`own.id`, sql`part."from"`, sql`part."to"`)}) n`;

/** State changes of a region, oldest hour first; see {@link changesOfRuns}. */
export interface RegionChanges {
  region: string;
  /** False when the target no longer runs there, or is paused. */
  probed: boolean;
  changes: Buffer;
  /** Empty unless selected. */
  failing: Buffer;
}

/** State changes of the target by region, in whole hours. One row a day: a message of 1 MB holds the event loop. */
export async function selectChanges(
  sql: Db,
  orgId: string,
  target: ResultTarget,
  sources: Sources,
  withFailing: boolean,
): Promise<RegionChanges[]> {
  const rows = await sql<RegionChanges[]>`
    select d.region, d.changes, d.failing,
      exists (select from target_regions p join targets t on t.id = p.target_id
        where p.target_id = ${target.id} and p.region_id = d.region and t.enabled) as probed
    from (
      select h.region, string_agg(h.changes, ''::bytea order by h.hour) as changes,
        ${withFailing ? sql`string_agg(h.failing, ''::bytea order by h.hour)` : sql`''::bytea`} as failing
      from (${hoursOf(sql, orgId, target, sources)}) h
      group by h.region, date_trunc('day', h.hour) order by h.region, date_trunc('day', h.hour)
    ) d`;
  return [...new Set(rows.map(({ region }) => region))].map((region) => {
    const own = rows.filter((row) => row.region === region);
    const joined = (column: "changes" | "failing") => Buffer.concat(own.map((row) => row[column]));
    return { region, probed: own[0]!.probed, changes: joined("changes"), failing: joined("failing") };
  });
}

/**
 * Regions that failed at the end of the stored hours before `hour`; null when hours before it are marked or not stored.
 */
export async function selectFailingAt(sql: Db, target: ResultTarget, hour: Date): Promise<string[] | null> {
  if (target.counted_to === null || target.counted_to < hour) return null;
  const [own, before] = [sql`${target.id}::uuid`, sql`${hour}::timestamptz`];
  const [row] = await sql<{ regions: string[]; marked: boolean }[]>`
    select exists (select from rollup_dirty d where d.target_id = ${target.id} and d.hour < ${hour}) as marked,
      array(
        select r.region
        from ${changeRegions(sql, { target: own, before })} r
        cross join lateral (
          select h.changes from ${latestChanges(sql, { target: own, region: sql`r.region`, before })} h
          order by h.hour desc limit 1
        ) last
        where get_byte(last.changes, length(last.changes) - 1) % 2 = 1
      ) as regions`;
  return row!.marked ? null : row!.regions;
}

/**
 * Cause, or else error, of the given runs of the target, by position; null without one. The limit keeps the planner
 * from joining 1,000 runs with all results of the target: 800 ms for 777,600.
 */
export async function selectErrors(
  sql: Db,
  target: ResultTarget,
  failed: readonly { region: string; slotMs: number }[],
): Promise<(string | null)[]> {
  return await columnOf<string | null>(sql`
    select coalesce(r.cause, r.error) as error
    from unnest(${arrayOf(failed.map(({ slotMs }) => new Date(slotMs).toISOString()))}::timestamptz[],
      ${arrayOf(failed.map(({ region }) => region))}::text[]) with ordinality as u (slot, region, n)
    left join lateral (select r.cause, r.error from ${runs(
      sql,
      { target: sql`${target.id}::uuid`, from: sql`u.slot`, to: sql`u.slot + interval '1 ms'` },
      ["cause", "error"],
    )} r where r.region = u.region limit 1) r on true
    order by u.n`);
}

/**
 * The start of the oldest stored hour from which on at most `most` results are stored; null for none. Marked hours are
 * left out of the sum.
 */
export async function hourOfDepth(
  sql: Db,
  orgId: string,
  target: ResultTarget,
  hours: Range,
  region: string | null,
  most: number,
): Promise<Date | null> {
  return await valueOf<Date | null>(sql`
    select min(c.hour)
    from (
      select h.hour, sum(sum(h.results)) over (order by h.hour desc) as results
      ${summed(sql, orgId, target, { hours, runs: [] }, region, hourChanges)}
      group by h.hour
    ) c
    where c.results <= ${most}`);
}
