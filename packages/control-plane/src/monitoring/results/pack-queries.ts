import type { Fragment } from "postgres";
import { lockKeys } from "../../platform/db/locks.ts";
import { arrayOf, type Db } from "../../platform/db/sql.ts";
import { jitterOf, packedTo, positionMs, runColumns, runs } from "./runs-queries.ts";

/** A UTC day, `2026-11-20`. */
type Day = string;

export interface PackProgress {
  first_day: Day;
  sealed_to: Day;
  packed_to: Day;
  packed_at: Date;
  /** Times in a row that the results of the day before which all are packed did not match. */
  mismatches: number;
  /** Why the last run broke off. */
  failure: string | null;
}

/** Begins with nothing packed before `firstDay`, unless it has begun. */
export async function startPacking(sql: Db, firstDay: Day, now: Date): Promise<void> {
  await sql`
    insert into pack_progress (first_day, sealed_to, packed_to, packed_at)
    values (${firstDay}, ${firstDay}, ${firstDay}, ${now}) on conflict do nothing`;
}

export async function selectProgress(sql: Db): Promise<PackProgress | null> {
  const [row] = await sql<PackProgress[]>`
    select first_day::text, sealed_to::text, packed_to::text, packed_at, mismatches,
      failure
    from pack_progress`;
  return row ?? null;
}

/**
 * Makes packers wait for each other until the transaction ends: two may run when a replica lost the connection with the
 * lock of its job. Call it before the statement that reads what it packs.
 */
export async function lockPacking(sql: Db): Promise<void> {
  await sql`select from pack_progress for update`;
}

/**
 * Keeps the days of results from being sealed until the transaction ends; for ingest of results that are not recent.
 * Returns the start of the first day that is not sealed; null: none is.
 */
export async function lockSealing(sql: Db): Promise<Date | null> {
  await sql`select pg_advisory_xact_lock_shared(${lockKeys.sealDay})`;
  const [row] = await sql<{ at: Date }[]>`
    select sealed_to::timestamp at time zone 'UTC' as at from pack_progress`;
  return row?.at ?? null;
}

/** Seals a day: from now on its results go to results_late. Waits for transactions of {@link lockSealing}. */
export async function sealDay(sql: Db, day: Day): Promise<void> {
  await sql`select pg_advisory_xact_lock(${lockKeys.sealDay})`;
  await sql`update pack_progress set sealed_to = ${day}::date + 1 where sealed_to = ${day}`;
}

/** Every reader that starts after this transaction finds the day in results_packed. */
export async function finishDay(sql: Db, day: Day, now: Date): Promise<void> {
  await sql`
    update pack_progress set packed_to = ${day}::date + 1, packed_at = ${now}, mismatches = 0
    where packed_to = ${day} and sealed_to > ${day}`;
}

/** Counts a mismatch of the day that is packed next. */
export async function countMismatch(sql: Db, now: Date): Promise<void> {
  await sql`update pack_progress set mismatches = mismatches + 1, packed_at = ${now}`;
}

/** Records why a run broke off; null: it did not. */
export async function writeFailure(sql: Db, failure: string | null): Promise<void> {
  await sql`update pack_progress set failure = ${failure} where failure is distinct from ${failure}`;
}

/** A target whose results are packed. */
export interface PackTarget {
  id: string;
  interval_ms: number;
}

/**
 * Time between two positions of a packed day, ms: the interval of a target `t`. Periods of heartbeats are up to 90
 * days, which are more than the integer of the column.
 */
const spacing = (sql: Db) => sql`least(t.interval_secs, 86400) * 1000`;

/** Targets that may have results, also deleted ones whose results were not subtracted yet; by id. */
export async function selectPackTargets(sql: Db): Promise<PackTarget[]> {
  return await sql<PackTarget[]>`
    select t.id, ${spacing(sql)} as interval_ms from targets t
    union
    select target_id, 60000 from deleted_targets d
    where not d.uncounted and not exists (select from targets t where t.id = d.target_id)
    order by id`;
}

/** Those of the targets that have packed results of the day. */
export async function selectPacked(sql: Db, day: Day, targets: readonly PackTarget[]): Promise<Set<string>> {
  const rows = await sql<{ id: string }[]>`
    select distinct target_id as id from results_packed
    where target_id = any(${arrayOf(targets.map(({ id }) => id))}::uuid[]) and day = ${day}`;
  return new Set(rows.map(({ id }) => id));
}

/** A target with what its jitter is computed from. */
export interface SeededTarget extends PackTarget {
  jitter_seed: number;
}

/** Microseconds as an integer. */
const us = (sql: Db, ms: Fragment) => sql`(${ms}::float8 * 1000)::int`;

/**
 * The low 32 bits of a position as an integer. A day with many more runs than its interval says (rechecks, check-nows,
 * pings) has positions far below 0; {@link positionMs} finds them, because a day is shorter than 2^32 ms.
 */
const wrapped = (sql: Db, position: Fragment) => sql`(((${position} & 4294967295) # 2147483648) - 2147483648)::int`;

/** True for values that return unchanged from microseconds in 4 bytes: below 2,000 s, with 3 decimals. */
const fits = (sql: Db) => {
  const exact = (ms: Fragment) => sql`(${ms} is null or (${ms} < 2000000
    and ((${ms}::float8 * 1000)::bigint / 1000.0::float8)::real = ${ms}))`;
  return sql`${exact(sql`r.dns_ms`)} and ${exact(sql`r.connect_ms`)} and ${exact(sql`r.tls_ms`)}
    and ${exact(sql`r.ttfb_ms`)} and ${exact(sql`r.total_ms`)}`;
};

const given = (sql: Db, targets: readonly SeededTarget[]) => sql`
  unnest(${arrayOf(targets.map(({ id }) => id))}::uuid[], ${arrayOf(targets.map((one) => one.interval_ms))}::integer[],
    ${arrayOf(targets.map((one) => one.jitter_seed))}::bigint[]) as k (id, interval_ms, jitter_seed)`;

const startOf = (sql: Db, day: Day) => sql`(${day}::date::timestamp at time zone 'UTC')`;
const endOf = (sql: Db, day: Day) => sql`((${day}::date + 1)::timestamp at time zone 'UTC')`;

/** Rows of results of the day and the targets. */
const rowsOfDay = (sql: Db, day: Day, targets: readonly SeededTarget[]) => sql`
  results r join ${given(sql, targets)} on k.id = r.target_id
  where r.scheduled_at >= ${startOf(sql, day)} and r.scheduled_at < ${endOf(sql, day)}`;

/**
 * Packs the results of some targets of a sealed day, and copies those that no array can hold to results_late. Packing
 * them again changes nothing.
 */
export async function packRows(sql: Db, day: Day, targets: readonly SeededTarget[], jitterPct: number): Promise<void> {
  await sql`
    insert into results_late
    select r.* from ${rowsOfDay(sql, day, targets)} and not (${fits(sql)}) on conflict do nothing`;
  const rows = sql`select r.*, k.interval_ms, k.jitter_seed from ${rowsOfDay(sql, day, targets)} and ${fits(sql)}`;
  await sql`${insertPacked(sql, day, jitterPct, rows)} on conflict do nothing`;
}

/** A target whose packed results of a day are not as many as its rows. */
export interface Mismatch {
  id: string;
  rows: number;
  packed: number;
}

/**
 * The mismatches of the sealed day among the targets that are not deleted. Rows are counted in the index; those that no
 * array can hold are in results_late.
 */
export async function selectMismatches(sql: Db, day: Day, targets: readonly PackTarget[]): Promise<Mismatch[]> {
  const ids = arrayOf(targets.map(({ id }) => id));
  const inDay = sql`r.target_id = any(${ids}::uuid[])
    and r.scheduled_at >= ${startOf(sql, day)} and r.scheduled_at < ${endOf(sql, day)}`;
  return await sql<Mismatch[]>`
    with n as materialized (
      select r.target_id, count(*)::int as rows from results r where ${inDay} group by r.target_id
    ), p as materialized (
      select target_id, sum(runs)::int as runs from results_packed
      where target_id = any(${ids}::uuid[]) and day = ${day} group by target_id
    ), late as materialized (
      select r.target_id, count(*)::int as rows
      from results_late r join results s using (target_id, scheduled_at, region)
      where ${inDay} and not (${fits(sql)}) group by r.target_id
    )
    select k.id, coalesce(n.rows, 0) as rows, coalesce(p.runs, 0) + coalesce(late.rows, 0) as packed
    from unnest(${ids}::uuid[]) k (id)
    left join n on n.target_id = k.id left join p on p.target_id = k.id left join late on late.target_id = k.id
    where coalesce(n.rows, 0) <> coalesce(p.runs, 0) + coalesce(late.rows, 0)
      and not exists (select from deleted_targets d where d.target_id = k.id)`;
}

/** Removes what was packed of targets and a day that is not finished. */
export async function unpackRows(sql: Db, day: Day, targetIds: readonly string[]): Promise<void> {
  await sql`
    delete from results_packed
    where target_id = any(${arrayOf(targetIds)}::uuid[]) and day = ${day} and day >= ${packedTo(sql)}`;
}

/**
 * Merges late results of one target and packed day; those that no array can hold stay, and so do those that arrive
 * between the two statements.
 */
export async function packLate(sql: Db, day: Day, target: SeededTarget, jitterPct: number): Promise<void> {
  const [from, to] = [startOf(sql, day), endOf(sql, day)];
  const rows = sql`
    select r.*, ${target.interval_ms}::integer as interval_ms, ${target.jitter_seed}::bigint as jitter_seed
    from ${runs(sql, { target: sql`${target.id}::uuid`, from, to }, runColumns)} r where ${fits(sql)}`;
  await sql`
    ${insertPacked(sql, day, jitterPct, rows)}
    on conflict (target_id, day, region) do update set (${packedColumns(sql)}) = (${sql`
      excluded.runs, excluded.up, excluded.down, excluded.degraded, excluded.error, excluded.first_slot,
      excluded.interval_ms, excluded.jitter_seed, excluded.jitter_pct, excluded.slots, excluded.delays, excluded.flags,
      excluded.http_statuses, excluded.sizes, excluded.dns, excluded.connect, excluded.tls, excluded.ttfb,
      excluded.rest, excluded.texts, excluded.errors, excluded.causes, excluded.details`})`;
  await sql`
    delete from results_late
    where target_id = ${target.id} and (region, scheduled_at) in (
      select p.region, to_timestamp((p.first_slot
        + ${positionMs(sql, sql`(u.n - 1) * p.interval_ms + u.slot`)}) / 1000.0::float8)
      from results_packed p cross join lateral unnest(p.slots) with ordinality u (slot, n)
      where p.target_id = ${target.id} and p.day = ${day})`;
}

/** A target and a packed day of it with late results. */
export type LateDay = PackTarget & { day: Day };

/** Late results that can be packed. */
const packable = (sql: Db) => sql`
  r.scheduled_at < ${packedTo(sql)}::timestamp at time zone 'UTC' and ${fits(sql)}`;

/** Target and day of late results that can be packed, of the next targets after `after` by id. */
export async function selectLateDays(sql: Db, after: string | null, limit: number): Promise<LateDay[]> {
  return await sql<LateDay[]>`
    select distinct r.target_id as id, (r.scheduled_at at time zone 'UTC')::date::text as day,
      coalesce(${spacing(sql)}, 60000) as interval_ms
    from (
      select distinct r.target_id from results_late r
      where r.target_id > coalesce(${after}::uuid, '00000000-0000-0000-0000-000000000000') and ${packable(sql)}
      order by r.target_id limit ${limit}
    ) k
    join results_late r on r.target_id = k.target_id left join targets t on t.id = k.target_id
    where ${packable(sql)} order by 1, 2`;
}

/** Number of late results that wait to be merged, at most `most`. */
export async function countLate(sql: Db, most: number): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from (select from results_late r where ${packable(sql)} limit ${most}) l`;
  return row!.count;
}

/** Drops late results of days before `day`. */
export async function dropLateBefore(sql: Db, day: Day): Promise<void> {
  await sql`delete from results_late where scheduled_at < ${day}::date::timestamp at time zone 'UTC'`;
}

/** Columns of results_packed without the key, in table order. */
const packedColumns = (sql: Db) => sql`
  runs, up, down, degraded, error, first_slot, interval_ms, jitter_seed, jitter_pct, slots, delays, flags,
  http_statuses, sizes, dns, connect, tls, ttfb, rest, texts, errors, causes, details`;

/**
 * Inserts rows of results as arrays. `rows` is a query of results with interval_ms and jitter_seed of the target. One
 * sort serves every array, because all are in the order of the key. Texts become positions after the grouping: a join
 * with their dictionary was planned as a nested loop, for which 30 targets took 30 s.
 */
function insertPacked(sql: Db, day: Day, jitterPct: number, rows: Fragment): Fragment {
  const jitter = jitterOf(sql, {
    seed: sql`g.jitter_seed`,
    slot: sql`g.slot`,
    intervalMs: sql`g.interval_ms`,
    pct: sql`${jitterPct}::smallint`,
    recheck: sql`g.recheck`,
  });
  const array = (value: Fragment) => sql`array_agg(${value} order by g.scheduled_at)`;
  const unlessNull = (value: Fragment) => sql`case when count(${value}) > 0 then ${array(value)} end`;
  const rest = sql`g.total_us - coalesce(g.dns_us, 0) - coalesce(g.connect_us, 0) - coalesce(g.tls_us, 0)
    - coalesce(g.ttfb_us, 0)`;
  const counted = (status: string) =>
    sql`count(*) filter (where g.status = ${status} and not g.skip and not g.recheck)`;
  const positions = (column: Fragment) => sql`case when ${column} is not null then (
    select array_agg(array_position(d.texts, u.text) order by u.n)
    from unnest(${column}) with ordinality u (text, n)) end`;
  return sql`
    insert into results_packed (target_id, day, region, ${packedColumns(sql)})
    select p.target_id, ${day}::date, p.region, p.runs, p.up, p.down, p.degraded, p.error, p.first_slot, p.interval_ms,
      p.jitter_seed, ${jitterPct}::smallint, p.slots, p.delays, p.flags, p.http_statuses, p.sizes, p.dns, p.connect,
      p.tls, p.ttfb, p.rest, d.texts, ${positions(sql`p.errors`)}, ${positions(sql`p.causes`)},
      ${positions(sql`p.details`)}
    from (
      select g.target_id, g.region, count(*) as runs, ${counted("up")} as up, ${counted("down")} as down,
        ${counted("degraded")} as degraded, ${counted("error")} as error, min(g.first_slot) as first_slot,
        min(g.interval_ms) as interval_ms, min(g.jitter_seed) as jitter_seed,
        ${array(wrapped(sql, sql`(g.slot - g.first_slot - (g.n - 1) * g.interval_ms)`))} as slots,
        ${array(sql`(g.at - g.slot - ${jitter})::int`)} as delays,
        ${array(sql`(array_position(array['up', 'down', 'degraded', 'error'], g.status) - 1
          + case when g.skip then 4 else 0 end + case when g.recheck then 8 else 0 end)::smallint`)} as flags,
        ${unlessNull(sql`g.http_status`)} as http_statuses, ${unlessNull(sql`g.response_size`)} as sizes,
        ${unlessNull(sql`g.dns_us`)} as dns, ${unlessNull(sql`g.connect_us`)} as connect,
        ${unlessNull(sql`g.tls_us`)} as tls, ${unlessNull(sql`g.ttfb_us`)} as ttfb,
        ${unlessNull(sql`(${rest})`)} as rest,
        ${unlessNull(sql`g.error`)} as errors, ${unlessNull(sql`g.cause`)} as causes,
        ${unlessNull(sql`g.details_text`)} as details
      from (
        select r.*, r.details::text as details_text, (date_part('epoch', r.scheduled_at) * 1000)::bigint as slot,
          (date_part('epoch', r."timestamp") * 1000)::bigint as at, row_number() over w as n,
          (date_part('epoch', first_value(r.scheduled_at) over w) * 1000)::bigint as first_slot,
          ${us(sql, sql`r.dns_ms`)} as dns_us, ${us(sql, sql`r.connect_ms`)} as connect_us,
          ${us(sql, sql`r.tls_ms`)} as tls_us, ${us(sql, sql`r.ttfb_ms`)} as ttfb_us,
          ${us(sql, sql`r.total_ms`)} as total_us
        from (${rows}) r
        window w as (partition by r.target_id, r.region order by r.scheduled_at)
      ) g
      group by g.target_id, g.region
    ) p
    cross join lateral (
      select array_agg(distinct text) as texts from unnest(p.errors || p.causes || p.details) text
      where text is not null
    ) d`;
}
