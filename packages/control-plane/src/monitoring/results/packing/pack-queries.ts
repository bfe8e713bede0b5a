import type { Fragment } from "postgres";
import { lockKeys } from "../../../platform/db/locks.ts";
import { arrayOf, columnOf, type Db, firstOf, valueOf } from "../../../platform/db/client/sql.ts";
import { flagsOf, jitterOf, packedTo, positionMs, runColumns, runs } from "../runs-queries.ts";

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
  return await firstOf(sql<PackProgress[]>`
    select first_day::text, sealed_to::text, packed_to::text, packed_at, mismatches,
      failure
    from pack_progress`);
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
  return await valueOf<Date | null>(sql`
    select sealed_to::timestamp at time zone 'UTC' as at from pack_progress`);
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

/** A target with one of its regions; null: none is known. */
export type PlacedTarget = PackTarget & { region: string | null };

/**
 * Time between two positions of a packed day, ms: the interval of a target `t`. Periods of heartbeats are up to 90
 * days, which are more than the integer of the column.
 */
const spacing = (sql: Db) => sql`least(t.interval_secs, 86400) * 1000`;

/** Targets that may have results, also deleted ones whose results were not subtracted yet; by id. */
export async function selectPackTargets(sql: Db): Promise<PlacedTarget[]> {
  return await sql<PlacedTarget[]>`
    select t.id, ${spacing(sql)} as interval_ms,
      (select min(r.region_id) from target_regions r where r.target_id = t.id) as region
    from targets t
    union
    select target_id, 60000, null from deleted_targets d
    where not d.uncounted and not exists (select from targets t where t.id = d.target_id)
    order by id`;
}

/** Those of the targets that have packed results of the day. */
export async function selectPacked(sql: Db, day: Day, targets: readonly PackTarget[]): Promise<Set<string>> {
  const ids = await columnOf<string>(sql`
    select distinct target_id from results_packed
    where target_id = any(${arrayOf(targets.map(({ id }) => id))}::uuid[]) and day = ${day}`);
  return new Set(ids);
}

/** A target with what its jitter is computed from. */
export interface SeededTarget extends PackTarget {
  jitter_seed: number;
}

/** Microseconds as an integer. */
const us = (sql: Db, ms: Fragment) => sql`(${ms} * 1000::float8)::int`;

/**
 * The low 32 bits of a position as an integer. A day with many more runs than its interval says (rechecks, check-nows,
 * pings) has positions far below 0; {@link positionMs} finds them, because a day is shorter than 2^32 ms.
 */
const wrapped = (sql: Db, position: Fragment) => sql`(((${position} & 4294967295) # 2147483648) - 2147483648)::int`;

/**
 * True for rows whose values return unchanged from microseconds in 4 bytes: below 2,000 s, with 3 decimals. The planner
 * expects half of the rows; for the comparisons alone one of a million, and so nested loops.
 */
const fits = (sql: Db) => {
  // Null for null, which counts as true.
  const exact = (ms: Fragment) => sql`${ms} < 2000000 and (round(${ms} * 1000::float8) / 1000)::real = ${ms}`;
  return sql`coalesce(${exact(sql`r.dns_ms`)} and ${exact(sql`r.connect_ms`)} and ${exact(sql`r.tls_ms`)}
    and ${exact(sql`r.ttfb_ms`)} and ${exact(sql`r.total_ms`)}, true)`;
};

const given = (sql: Db, targets: readonly SeededTarget[]) => sql`
  unnest(${arrayOf(targets.map(({ id }) => id))}::uuid[], ${arrayOf(targets.map((one) => one.interval_ms))}::integer[],
    ${arrayOf(targets.map((one) => one.jitter_seed))}::bigint[]) as k (id, interval_ms, jitter_seed)`;

const startOf = (sql: Db, day: Day) => sql`(${day}::date::timestamp at time zone 'UTC')`;
const endOf = (sql: Db, day: Day) => sql`((${day}::date + 1)::timestamp at time zone 'UTC')`;

/** Condition for rows `r` of the day and the targets. */
const inDay = (sql: Db, day: Day, targetIds: readonly string[]) => sql`
  r.target_id = any(${arrayOf(targetIds)}::uuid[])
  and r.scheduled_at >= ${startOf(sql, day)} and r.scheduled_at < ${endOf(sql, day)}`;

const idsOf = (targets: readonly { id: string }[]) => targets.map(({ id }) => id);

/**
 * Settings of the transaction for {@link insertPacked}: groups by hash keep the order of their rows, which a second
 * sort would lose. The cost of the disabled one would start the compiler (jit).
 */
export async function allowPacking(sql: Db, workMem: string): Promise<void> {
  await sql`
    select set_config(name, value, true)
    from (values ('work_mem', ${workMem}), ('enable_sort', 'off'), ('jit', 'off')) as setting (name, value)`;
}

/** Packs the results of some targets of a sealed day. Packing them again changes nothing. */
export async function packRows(sql: Db, day: Day, targets: readonly SeededTarget[], jitterPct: number): Promise<void> {
  // A bitmap reads each page once. In the order of the key a day that exceeds the buffers took twice the CPU time.
  await sql`set local enable_indexscan = off`;
  const rows = sql`results r where ${inDay(sql, day, idsOf(targets))} and ${fits(sql)}`;
  await sql`${insertPacked(sql, day, targets, jitterPct, rows)} on conflict do nothing`;
}

/** Copies results of a sealed day that no array can hold to results_late, of targets whose day is packed otherwise. */
export async function keepUnfit(sql: Db, day: Day, targetIds: readonly string[]): Promise<void> {
  await sql`
    insert into results_late
    select r.* from results r where ${inDay(sql, day, targetIds)} and not ${fits(sql)} on conflict do nothing`;
}

/** A target whose packed results of a day are not as many as its rows. */
export interface Mismatch {
  id: string;
  rows: number;
  packed: number;
  /** Rows that no array can hold. */
  unfit: number;
}

/**
 * The mismatches of the sealed day among the targets that are not deleted. Rows are counted in the index, and read
 * where their number differs.
 */
export async function selectMismatches(sql: Db, day: Day, targets: readonly PackTarget[]): Promise<Mismatch[]> {
  const ids = idsOf(targets);
  const found = await sql<Omit<Mismatch, "unfit">[]>`
    with n as materialized (
      select r.target_id, count(*)::int as rows from results r where ${inDay(sql, day, ids)} group by r.target_id
    ), p as materialized (
      select target_id, sum(runs)::int as runs from results_packed
      where target_id = any(${arrayOf(ids)}::uuid[]) and day = ${day} group by target_id
    )
    select k.id, coalesce(n.rows, 0) as rows, coalesce(p.runs, 0) as packed
    from unnest(${arrayOf(ids)}::uuid[]) k (id)
    left join n on n.target_id = k.id left join p on p.target_id = k.id
    where coalesce(n.rows, 0) <> coalesce(p.runs, 0)
      and not exists (select from deleted_targets d where d.target_id = k.id)`;
  const counts = await sql<{ id: string; rows: number }[]>`
    select r.target_id as id, count(*)::int as rows from results r
    where ${inDay(sql, day, idsOf(found))} and not ${fits(sql)} group by r.target_id`;
  const unfit = new Map(counts.map(({ id, rows }) => [id, rows]));
  return found.map((one) => ({ ...one, unfit: unfit.get(one.id) ?? 0 }));
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
  const rows = sql`${runs(sql, { target: sql`${target.id}::uuid`, from, to }, runColumns)} r where ${fits(sql)}`;
  await sql`
    ${insertPacked(sql, day, [target], jitterPct, rows)}
    on conflict (target_id, day, region) do update set (${packedColumns(sql)}) = (${sql`
      excluded.runs, excluded.up, excluded.down, excluded.degraded, excluded.error, excluded.first_slot,
      excluded.interval_ms, excluded.jitter_seed, excluded.jitter_pct, excluded.slots, excluded.delays, excluded.flags,
      excluded.http_statuses, excluded.sizes, excluded.dns, excluded.connect, excluded.tls, excluded.total,
      excluded.rest, excluded.texts, excluded.errors, excluded.causes, excluded.diagnoses, excluded.details`})`;
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
  return await valueOf<number>(sql`
    select count(*)::int as count from (select from results_late r where ${packable(sql)} limit ${most}) l`);
}

export async function dropLateBefore(sql: Db, day: Day): Promise<void> {
  await sql`delete from results_late where scheduled_at < ${day}::date::timestamp at time zone 'UTC'`;
}

/** Columns of results_packed without the key, in table order. */
const packedColumns = (sql: Db) => sql`
  runs, up, down, degraded, error, first_slot, interval_ms, jitter_seed, jitter_pct, slots, delays, flags,
  http_statuses, sizes, dns, connect, tls, total, rest, texts, errors, causes, diagnoses, details`;

/**
 * Inserts results `r` of the targets, what follows `from` in a query, as arrays. All are sorted by the slot alone, an
 * integer, and grouped by hash ({@link allowPacking}): a sort by target, region and time took a fifth of the CPU time.
 * What needs the interval or the dictionary of texts is computed from the arrays: a join of results with texts was
 * planned as a nested loop, for which 30 targets took 30 s. Citus cannot read `case … when` with a value before `when`.
 */
function insertPacked(
  sql: Db,
  day: Day,
  targets: readonly SeededTarget[],
  jitterPct: number,
  results: Fragment,
): Fragment {
  const jitter = jitterOf(sql, {
    seed: sql`k.jitter_seed`,
    slot: sql`p.slots[n]`,
    intervalMs: sql`k.interval_ms`,
    pct: sql`${jitterPct}::smallint`,
    recheck: sql`p.flags[n] & 8 <> 0`,
  });
  const unlessNull = (value: Fragment) => sql`case when count(${value}) > 0 then array_agg(${value}) end`;
  const rest = sql`coalesce(g.total_us - coalesce(g.dns_us, 0) - coalesce(g.connect_us, 0) - coalesce(g.tls_us, 0)
    - g.ttfb_us, g.ttfb_us)`;
  /** Runs with a status that are neither skipped nor rechecks. */
  const counted = (status: number) => sql`count(*) filter (where g.flags = ${status}::smallint)`;
  const present = (text: Fragment) => sql`array_agg(${text}) filter (where ${text} is not null)`;
  const positions = (column: string) => sql`case when p.${sql(column)} && d.texts then (
    select array_agg(case when text is not null then array_position(d.texts, text) end)
    from (select unnest(p.${sql(column)}) as text) text) end`;
  return sql`
    insert into results_packed (target_id, day, region, ${packedColumns(sql)})
    select p.target_id, ${day}::date, p.region, p.runs, p.up, p.down, p.degraded, p.error, p.first_slot, k.interval_ms,
      k.jitter_seed, ${jitterPct}::smallint, a.slots, a.delays, p.flags, p.http_statuses, p.sizes, p.dns, p.connect,
      p.tls, p.total, p.rest, d.texts,
      ${positions("errors")}, ${positions("causes")}, ${positions("diagnoses")}, ${positions("details")}
    from (
      select g.target_id, g.region, count(*) as runs, ${counted(0)} as up, ${counted(1)} as down,
        ${counted(2)} as degraded, ${counted(3)} as error, min(g.slot) as first_slot, array_agg(g.slot) as slots,
        array_agg((g.at - g.slot)::int) as delays, array_agg(g.flags) as flags,
        ${unlessNull(sql`g.http_status`)} as http_statuses, ${unlessNull(sql`g.response_size`)} as sizes,
        ${unlessNull(sql`g.dns_us`)} as dns, ${unlessNull(sql`g.connect_us`)} as connect,
        ${unlessNull(sql`g.tls_us`)} as tls, ${unlessNull(sql`g.total_us`)} as total,
        ${unlessNull(sql`(${rest})`)} as rest, array_agg(g.error) as errors, array_agg(g.cause) as causes,
        array_agg(g.diagnosis) as diagnoses, array_agg(g.details) as details,
        ${present(sql`g.error`)} || ${present(sql`g.cause`)} || ${present(sql`g.diagnosis`)}
          || ${present(sql`g.details`)} as texts
      from (
        select r.target_id, r.region, r.error, r.cause, r.diagnosis, r.details::text as details, r.http_status,
          r.response_size,
          (date_part('epoch', r.scheduled_at) * 1000)::bigint as slot,
          (date_part('epoch', r."timestamp") * 1000)::bigint as at,
          ${flagsOf(sql, sql`r`)} as flags,
          ${us(sql, sql`r.dns_ms`)} as dns_us, ${us(sql, sql`r.connect_ms`)} as connect_us,
          ${us(sql, sql`r.tls_ms`)} as tls_us, ${us(sql, sql`r.ttfb_ms`)} as ttfb_us,
          ${us(sql, sql`r.total_ms`)} as total_us
        from ${results}
        order by slot
      ) g
      group by g.target_id, g.region
    ) p
    join ${given(sql, targets)} on k.id = p.target_id
    cross join lateral (select array_agg(distinct text) as texts from unnest(p.texts) text) d
    cross join lateral (
      select array_agg(${wrapped(sql, sql`(p.slots[n] - p.first_slot - (n - 1)::bigint * k.interval_ms)`)}) as slots,
        array_agg((p.delays[n] - ${jitter})::int) as delays
      from (select generate_series(1, p.runs::int) as n) n
    ) a`;
}
