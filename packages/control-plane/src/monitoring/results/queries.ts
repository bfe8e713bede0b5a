import type { CheckType, ResultDetails } from "@statusmesh/shared/checks";
import type { CheckStatus } from "@statusmesh/shared/protocol/result";
import { longestDelayMs } from "@statusmesh/shared/schedule";
import { hourMs, minuteMs } from "@statusmesh/shared/time";
import type { Fragment } from "postgres";
import { numbersIn } from "../../platform/db/client/number-arrays.ts";
import { arrayOf, type Db, inPortions } from "../../platform/db/client/sql.ts";
import { takeTurns } from "../../platform/process/turns.ts";
import type { Sources } from "./hours.ts";
import { hourCountRows, type HourRange, packedHours } from "./hours-queries.ts";
import { intervalsOf } from "./slots/issued-slot-queries.ts";
import type { Range } from "./range.ts";
import { type RunColumn, type RunRange, countRuns, runs, startOfMost } from "./runs-queries.ts";

/** A target for result queries: longest distance of its slots, and its rolled-up hours. */
export interface ResultTarget {
  id: string;
  kind: CheckType;
  /** Over the current and earlier intervals, because their results are read as well. */
  longest_interval_secs: number;
  shortest_interval_secs: number;
  /** Results before this time are counted by the hour; null before the first rollup. */
  counted_to: Date | null;
  /** Whether days of it were imported. */
  imported: boolean;
}

/** The target; null when the organisation has none with that id. */
export async function targetExists(sql: Db, orgId: string, targetId: string): Promise<ResultTarget | null> {
  const [row] = await sql<ResultTarget[]>`
    select t.id, t.kind, i.longest_interval_secs, i.shortest_interval_secs, p.next_hour as counted_to,
      exists (select from imported_days d where d.target_id = t.id) as imported
    from targets t left join rollup_progress p on true cross join lateral (
      select max(secs) as longest_interval_secs, min(secs) as shortest_interval_secs
      from unnest(${intervalsOf(sql)}) as i (secs)
    ) i
    where t.org_id = ${orgId} and t.id = ${targetId}`;
  return row ?? null;
}

/** Clock tolerance: ingest refuses runs that are further off their slot. */
export const slackMs = 6 * minuteMs;

/** Maximum time from a slot to its run, ms. */
export const delayMs = (target: ResultTarget): number => longestDelayMs(target.longest_interval_secs * 1000) + slackMs;

/** The target of the organisation as `own`, to join with. */
export const ownTarget = (sql: Db, orgId: string, target: ResultTarget) => sql`
  (select t.id from targets t where t.org_id = ${orgId} and t.id = ${target.id}) own`;

/** Runs of the target by slot; between names of columns, or times. */
export const runsOf = (
  sql: Db,
  orgId: string,
  target: ResultTarget,
  { from, to, ...rest }: Omit<RunRange, "target" | "from" | "to"> & { from: Fragment | Date; to: Fragment | Date },
  columns: readonly RunColumn[],
) => {
  const time = (at: Fragment | Date) => (at instanceof Date ? sql`${at}::timestamptz` : at);
  const own = runs(sql, { target: sql`own.id`, from: time(from), to: time(to), ...rest }, columns);
  return sql`(select r.* from ${ownTarget(sql, orgId, target)} cross join lateral ${own} r)`;
};

/**
 * Runs of the target whose time is in the range. Results are found by slot, so the slot is bounded too, by the rule of
 * ingest (`scheduleViolation` in schedule.ts).
 */
const rowsOf = (
  sql: Db,
  orgId: string,
  target: ResultTarget,
  range: Range,
  region: string | null,
  columns: readonly RunColumn[],
  days?: Fragment,
) => sql`
    from ${runsOf(sql, orgId, target, { ...slotsAround(target, range), days }, ["timestamp", ...columns])} r
    where ${isIn(sql, range, region)}`;

/** Slots whose runs may be in the range; the inverse of {@link surelyIn}. */
export const slotsAround = (target: ResultTarget, range: Range): Range => ({
  from: new Date(range.from.getTime() - delayMs(target)),
  to: new Date(range.to.getTime() + slackMs),
});

/** Condition for runs `r` by their time. */
const isIn = (sql: Db, { from, to }: Range, region: string | null) => sql`
  r."timestamp" >= ${from} and r."timestamp" < ${to} and (${region}::text is null or r.region = ${region})`;

export interface ResultRow {
  target_id: string;
  region: string;
  timestamp: Date;
  status: CheckStatus;
  error: string | null;
  http_status: number | null;
  response_size: number | null;
  dns_ms: number | null;
  connect_ms: number | null;
  tls_ms: number | null;
  ttfb_ms: number | null;
  total_ms: number | null;
  details: ResultDetails | null;
  diagnosis: string | null;
  recheck: boolean;
  skip: boolean;
}

/** Slots in the range whose runs are certainly in it too; the inverse of {@link rowsOf}. May be empty. */
export const surelyIn = (target: ResultTarget, range: Range): Range => ({
  from: new Date(range.from.getTime() + slackMs),
  to: new Date(range.to.getTime() - delayMs(target)),
});

const resultColumns = [
  "status",
  "error",
  "http_status",
  "response_size",
  "dns_ms",
  "connect_ms",
  "tls_ms",
  "ttfb_ms",
  "total_ms",
  "details",
  "diagnosis",
  "recheck",
  "skip",
] as const;

/**
 * One page of results, newest first. They are ordered by the time of the run and found by slot: once the page is full,
 * no slot that is earlier by more than the maximum delay can be on it. Ten results of a month took 350 ms when all
 * 86,000 were sorted.
 */
export async function selectResults(
  sql: Db,
  orgId: string,
  target: ResultTarget,
  range: Range,
  region: string | null,
  limit: number,
  offset: number,
): Promise<ResultRow[]> {
  const depth = offset + limit - 1;
  const inner = surelyIn(target, range);
  const around = slotsAround(target, range);
  const marginMs = delayMs(target) + slackMs;
  // Full within the time of as many runs, unless some are missing: a plan of a third of the nodes.
  const usual = new Date(inner.to.getTime() - (depth + 2) * target.shortest_interval_secs * 1000);
  const pageFrom = async (first: Fragment) => {
    const found = { target: sql`own.id`, from: sql`first.at`, to: sql`${around.to}::timestamptz`, isShort: true };
    const page = sql<(ResultRow & { full: boolean })[]>`
      select r.target_id, r.region, r."timestamp", r.status, r.error, r.http_status, r.response_size,
        r.dns_ms, r.connect_ms, r.tls_ms, r.ttfb_ms, r.total_ms, r.details, r.diagnosis, r.recheck, r.skip,
        count(*) filter (where r.scheduled_at >= ${usual} and r.scheduled_at < ${inner.to}) over () > ${depth} as full
      from ${ownTarget(sql, orgId, target)}
      cross join lateral (${first}) first cross join lateral ${runs(sql, found, ["timestamp", ...resultColumns])} r
      where ${isIn(sql, range, region)}
      order by r."timestamp" desc, r.scheduled_at desc, r.region
      limit ${limit} offset ${offset}`;
    return await inPortions(page, { most: limit });
  };
  const isAll = usual <= inner.from;
  const from = isAll ? around.from : new Date(usual.getTime() - marginMs);
  const rows = await pageFrom(sql`select ${from}::timestamptz as at`);
  if (isAll || rows[0]?.full === true) return rows;
  // Of packed days only those that can be on the page. `offset 0` keeps the bounds from being computed for each result.
  const all = { target: sql`own.id`, from: sql`${inner.from}::timestamptz`, to: sql`${inner.to}::timestamptz` };
  const margin = sql`make_interval(secs => ${marginMs / 1000}::float8)`;
  return await pageFrom(sql`
    select greatest(${around.from}::timestamptz, nth.scheduled_at - ${margin}) as at
    from (
      select greatest(${inner.from}::timestamptz, most.at) as at
      from ${startOfMost(sql, all, region, depth)} most offset 0
    ) since
    left join lateral (
      select r.scheduled_at from ${runs(sql, { ...all, from: sql`since.at`, isShort: true }, [])} r
      where ${region}::text is null or r.region = ${region} order by r.scheduled_at desc limit 1 offset ${depth}
    ) nth on true
    offset 0`);
}

/** Failing and degraded runs in the range, newest first; not those that count in no figure. */
export async function selectFailures(
  sql: Db,
  orgId: string,
  target: ResultTarget,
  range: Range,
  limit: number,
): Promise<Pick<ResultRow, "region" | "timestamp" | "status" | "error" | "http_status">[]> {
  const columns = ["status", "error", "http_status", "skip", "recheck"] as const;
  return await sql<Pick<ResultRow, "region" | "timestamp" | "status" | "error" | "http_status">[]>`
    select r.region, r."timestamp", r.status, r.error, r.http_status
    ${rowsOf(sql, orgId, target, range, null, columns, sql`packed.up < packed.runs`)}
      and r.status <> 'up' and not r.skip and not r.recheck
    order by r."timestamp" desc, r.scheduled_at desc, r.region limit ${limit}`;
}

/**
 * Number of results. All but the ends of the range are counted by the slot: of packed days by their number of runs, and
 * of rows in the index, where 86,000 took 21 ms and in the table 260.
 */
export async function countResults(
  sql: Db,
  orgId: string,
  target: ResultTarget,
  range: Range,
  region: string | null,
): Promise<number> {
  const inner = surelyIn(target, range);
  const around = slotsAround(target, range);
  const later = (a: Date, b: Date) => (a > b ? a : b);
  const parts = [
    { slots: inner, isInner: true },
    { slots: { from: around.from, to: inner.from }, isInner: false },
    { slots: { from: later(inner.from, inner.to), to: around.to }, isInner: false },
  ];
  // An empty part is left out: planning takes longer than counting.
  const counts = parts
    .filter(({ slots }) => slots.from < slots.to)
    .map(({ slots, isInner }) => {
      const [from, to] = [sql`${slots.from}::timestamptz`, sql`${slots.to}::timestamptz`];
      return isInner
        ? countRuns(sql, { target: sql`own.id`, from, to }, region)
        : sql`(select count(*) from ${runs(sql, { target: sql`own.id`, from, to, isShort: true }, ["timestamp"])} r
            where ${isIn(sql, range, region)})`;
    });
  const [row] = await sql<{ count: number }[]>`
    select (${counts.reduce((sum, count) => sql`${sum} + ${count}`, sql`0`)})::int as count
    from ${ownTarget(sql, orgId, target)}`;
  return row?.count ?? 0;
}

/** Runs by status. */
export interface Counts {
  up: number;
  down: number;
  degraded: number;
  error: number;
}

export async function countStatuses(
  sql: Db,
  orgId: string,
  target: ResultTarget,
  range: Range,
  region: string | null,
): Promise<Counts> {
  const [row] = await sql<Counts[]>`
    select count(*) filter (where r.status = 'up')::int as up, count(*) filter (where r.status = 'down')::int as down,
      count(*) filter (where r.status = 'degraded')::int as degraded,
        count(*) filter (where r.status = 'error')::int as error
    ${rowsOf(sql, orgId, target, range, region, ["status", "skip", "recheck"])} and not r.skip and not r.recheck`;
  return row!;
}

/**
 * Ranges that an hourly query reads from raw results: the parts that {@link Sources} leaves to them, and hours of the
 * target marked by late results; each as "from" and "to".
 */
export const unsummed = (sql: Db, target: ResultTarget, { hours, runs }: Sources) => sql`
  select u."from", u."to"
  from unnest(${arrayOf(runs.map(({ from }) => from.toISOString()))}::timestamptz[],
    ${arrayOf(runs.map(({ to }) => to.toISOString()))}::timestamptz[]) as u ("from", "to")
  union all
  select d.hour, d.hour + interval '1 hour' from rollup_dirty d
  where d.target_id = ${target.id} and d.hour >= ${hours?.from ?? null} and d.hour < ${hours?.to ?? null}`;

/** The valid rolled-up hours `h` of the target and, if given, the region; `hours` reads one kind of sums. */
export const summed = (
  sql: Db,
  orgId: string,
  target: ResultTarget,
  sources: Sources,
  region: string | null,
  hours: (sql: Db, range: HourRange) => Fragment,
) => sql`
  from ${ownTarget(sql, orgId, target)} cross join lateral ${hours(sql, {
    target: sql`own.id`,
    ...rangeOf(sql, sources.hours),
  })} h
  where (${region}::text is null or h.region = ${region})
    and not exists (select from rollup_dirty d where d.target_id = ${target.id} and d.hour = h.hour)`;

const evidence = ["status", "skip", "recheck"] as const;

/** {@link countStatuses} by slot, by the hour where rolled up: 90 days are 2,160 rows per region instead of 130,000. */
export async function countStatusesByHour(
  sql: Db,
  orgId: string,
  target: ResultTarget,
  sources: Sources,
  region: string | null,
): Promise<Counts> {
  const { hours } = sources;
  const slots = rangeOf(sql, hours);
  // Whole days are summed up here: to expand the arrays of 90 took twice as long.
  const query = sql`
    select ${dayOf(sql, sql`p.day`)} as day, null::bytea as marked, array_send(p.up), array_send(p.down),
      array_send(p.degraded), array_send(p.error)
    from ${ownTarget(sql, orgId, target)} cross join lateral ${packedHours(sql, { target: sql`own.id`, ...slots })} p
    where ${region}::text is null or p.region = ${region}
    union all
    select null, ${markedHours(sql, target, hours)}, array_send(array[sum(c.up)::int]),
      array_send(array[sum(c.down)::int]), array_send(array[sum(c.degraded)::int]), array_send(array[sum(c.error)::int])
    from (
      select sum(h.up) as up, sum(h.down) as down, sum(h.degraded) as degraded, sum(h.error) as error
      ${summed(sql, orgId, target, sources, region, hourCountRows)}
      union all
      select n.up, n.down, n.degraded, n.error
      from (${unsummed(sql, target, sources)}) as part ("from", "to")
      cross join lateral (
        select count(*) filter (where r.status = 'up') as up, count(*) filter (where r.status = 'down') as down,
          count(*) filter (where r.status = 'degraded') as degraded, count(*) filter (where r.status = 'error') as error
        from ${runsOf(sql, orgId, target, { from: sql`part."from"`, to: sql`part."to"` }, evidence)} r
        where (${region}::text is null or r.region = ${region}) and not r.skip and not r.recheck
      ) n
    ) c`;
  const rows = await query.values();
  const isValid = validHours(rows, hours);
  const counts = [0, 0, 0, 0];
  // 13 months in ten regions are 4,000 rows.
  const turns = await takeTurns();
  for (const row of rows) {
    if (turns.over()) await turns.next();
    for (let status = 0; status < counts.length; status++) {
      const hourly = numbersIn(row[status + 2] ?? null);
      for (let n = 0; n < hourly.length; n++) if (hourly[n]! > 0 && isValid(row, n)) counts[status]! += hourly[n]!;
    }
  }
  const [up, down, degraded, error] = counts as [number, number, number, number];
  return { up, down, degraded, error };
}

/** A row of packed hours: its day (null: the rest, summed up), the marked hours, then arrays. */
type HourArrays = readonly (Buffer | null)[];

/** Start of a UTC day, as Unix ms. */
const dayOf = (sql: Db, day: Fragment) => sql`array_send(array[${day}::timestamp at time zone 'UTC'])`;

/** The ends of a range of hours. */
const rangeOf = (sql: Db, hours: Range | null) => ({
  from: sql`${hours?.from ?? null}::timestamptz`,
  to: sql`${hours?.to ?? null}::timestamptz`,
});

/** Hours of the target marked by late results, as an array; null for none. */
const markedHours = (sql: Db, target: ResultTarget, hours: Range | null) => sql`(
  select array_send(array_agg(d.hour)) from rollup_dirty d
  where d.target_id = ${target.id} and d.hour >= ${hours?.from ?? null} and d.hour < ${hours?.to ?? null})`;

/** Whether hour `n` of a row, from 0, is in the range and valid by the marks in one of the rows; the rest always is. */
function validHours(rows: readonly HourArrays[], hours: Range | null): (row: HourArrays, n: number) => boolean {
  const marks = new Set(rows.flatMap(([, marked = null]) => [...numbersIn(marked)]));
  const starts = new Map(rows.map((row) => [row, numbersIn(row[0] ?? null)[0]]));
  const [from, to] = [hours?.from.getTime() ?? 0, hours?.to.getTime() ?? 0];
  return (row, n) => {
    const start = starts.get(row);
    if (start === undefined) return true;
    const at = start + n * hourMs;
    return at >= from && at < to && !marks.has(at);
  };
}
