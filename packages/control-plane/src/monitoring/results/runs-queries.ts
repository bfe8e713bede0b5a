import { jitterStep } from "@statusmesh/shared/schedule";
import type { Fragment } from "postgres";
import type { Db } from "../../platform/db/sql.ts";

/** Columns of a run besides target_id, region and scheduled_at. */
export const runColumns = [
  "timestamp",
  "status",
  "skip",
  "recheck",
  "error",
  "cause",
  "details",
  "http_status",
  "response_size",
  "dns_ms",
  "connect_ms",
  "tls_ms",
  "ttfb_ms",
  "total_ms",
] as const;
export type RunColumn = (typeof runColumns)[number];

/**
 * Runs of one target by slot, from `from` to before `to`; fragments, so that they may name columns of a query. They are
 * arguments of functions that PostgreSQL does not inline where they contain a subquery.
 */
export interface RunRange {
  target: Fragment;
  from: Fragment;
  to: Fragment;
  /** Condition that leaves out packed days, on the columns of results_packed as `packed`. */
  days?: Fragment | undefined;
  /**
   * True for a small part of a day: only that part of the arrays is expanded. It is computed where all slots are on the
   * schedule; otherwise the slots are looked at first.
   */
  isShort?: boolean | undefined;
}

/** Day before which results are packed. */
export const packedTo = (sql: Db) => sql`coalesce((select b.packed_to from pack_progress b), '-infinity'::date)`;

/**
 * Start of the packed day from which on a target has more than `most` runs before the day of `to`, as a subquery with
 * the column `at`; null for none. Reads no arrays.
 */
export const startOfMost = (sql: Db, { target, from, to }: RunRange, region: string | null, most: number) => sql`(
  select ${startOf(sql, sql`max(d.day)`)} as at
  from (
    select p.day, sum(sum(p.runs)) over (order by p.day desc) as runs
    from results_packed_of(${target}, ((${from}) at time zone 'UTC')::date, ((${to}) at time zone 'UTC')::date) p
    where p.day < ((${to}) at time zone 'UTC')::date and p.day < ${packedTo(sql)}
      and (${region}::text is null or p.region = ${region})
    group by p.day
  ) d
  where d.runs > ${most})`;

/** Start of a UTC day. */
const startOf = (sql: Db, day: Fragment) => sql`(${day}::timestamp at time zone 'UTC')`;

/** Milliseconds from the first run of a packed day to another, whose position is stored in 32 bits. */
export const positionMs = (sql: Db, position: Fragment) => sql`((${position}) & 4294967295)`;

/**
 * Runs as a subquery with target_id, region, scheduled_at and the given columns: the rows of days that are not packed,
 * late rows, and packed days, of which only the arrays that hold the columns are read. Every statement that reads
 * results reads them here. Functions after `select` expand arrays: after `from` each would store its elements first,
 * which took twice as long. For one day of a target in psql:
 *
 *     select p.region, flag,
 *       to_timestamp((p.first_slot + ((n - 1) * p.interval_ms + slot & 4294967295)) / 1000.0) as scheduled_at,
 *       rest + coalesce(dns, 0) + coalesce(connect, 0) + coalesce(tls, 0) + coalesce(ttfb, 0) as total_us
 *     from results_packed p, unnest(slots, flags, dns, connect, tls, ttfb, rest)
 *       with ordinality u (slot, flag, dns, connect, tls, ttfb, rest, n)
 *     where p.target_id = '…' and p.day = '2026-11-20';
 */
export const runs = (sql: Db, { target, from, to, days, isShort }: RunRange, columns: readonly RunColumn[]) => {
  const rows = [
    sql`result.target_id, result.region, result.scheduled_at`,
    ...columns.map((name) => sql`result.${sql(name)}`),
  ];
  const wanted = columns.map((name) => packedColumns[name]);
  const arrays = [...new Set(["slots", ...wanted.flatMap((column) => column.arrays)])];
  const values = [
    sql`packed.target_id, packed.region, slot.scheduled_at`,
    ...columns.map((name) => sql`${packedColumns[name].value(sql)} as ${sql(name)}`),
  ];
  const slotOf = (n: Fragment, slot: Fragment) =>
    sql`packed.first_slot + ${positionMs(sql, sql`(${n} - 1) * packed.interval_ms + ${slot}`)}`;
  const inRange = (ms: Fragment) => sql`${ms} >= span.low and ${ms} < span.high`;
  const isRegular = sql`0 = all (packed.slots)`;
  const part = sql`
    cross join lateral (
      select least(greatest(1, ceil((span.low - packed.first_slot) / packed.interval_ms) + 1), packed.runs + 1)::bigint
          as low,
        least(ceil((span.high - packed.first_slot) / packed.interval_ms), packed.runs)::bigint as high
      where ${isRegular}
      union all
      select min(s.n), max(s.n)
      from (select unnest(packed.slots) as slot, generate_series(1::bigint, packed.runs) as n) s
      where not ${isRegular} and ${inRange(sql`(${slotOf(sql`s.n`, sql`s.slot`)})`)}
      having count(*) > 0
    ) part`;
  return sql`(
    select ${list(sql, rows)} from results_of(${target}, ${from}, ${to}) result
    where result.scheduled_at >= ${startOf(sql, packedTo(sql))}
    union all
    select ${list(sql, rows)} from results_late_of(${target}, ${from}, ${to}) result
    union all
    select ${list(sql, values)}
    from results_packed_of(${target}, ((${from}) at time zone 'UTC')::date, ((${to}) at time zone 'UTC')::date) packed
    cross join lateral (select ${msUpFrom(sql, from)} as low, ${msUpFrom(sql, to)} as high offset 0) span
    ${isShort ? part : sql``}
    cross join lateral (
      select ${list(
        sql,
        arrays.map(
          (name) => sql`unnest(packed.${sql(name)}${isShort ? sql`[part.low:part.high]` : sql``}) as ${sql(name)}`,
        ),
      )}, ${isShort ? sql`generate_series(part.low, part.high)` : sql`generate_series(1::bigint, packed.runs)`} as n
    ) item
    cross join lateral (select ${slotOf(sql`item.n`, sql`item.slots`)} as ms) at
    cross join lateral (select to_timestamp(at.ms / 1000.0::float8) as scheduled_at) slot
    where packed.day < ${packedTo(sql)} and ${days ?? sql`true`} and ${inRange(sql`at.ms`)})`;
};

/** A time as Unix ms, rounded up: slots are whole ones. Integers compare faster than times. */
const msUpFrom = (sql: Db, at: Fragment) => sql`ceil(round(date_part('epoch', ${at}) * 1000000) / 1000)`;

/** What the jitter of a run is computed from: names of columns, or values. */
export interface JitterOf {
  seed: Fragment;
  /** Unix ms. */
  slot: Fragment;
  intervalMs: Fragment;
  pct: Fragment;
  recheck: Fragment;
}

/** Milliseconds from a slot to the start of its run: `jitterMs` of shared/schedule.ts, in the same arithmetic. */
export const jitterOf = (sql: Db, { seed, slot, intervalMs, pct, recheck }: JitterOf) => sql`
  case when ${recheck} then 0 else floor(((${seed} + ${slot} / ${intervalMs} * ${jitterStep}::bigint)
    & 4294967295)::float8 / 4294967296 * ${intervalMs} * (${pct} / 100::float8))::bigint end`;

interface PackedColumn {
  /** Arrays of results_packed that the value is made of. */
  arrays: string[];
  value: (sql: Db) => Fragment;
}

/** Milliseconds as stored in results, from microseconds; null stays null. */
const msOf = (sql: Db, us: Fragment) => sql`(${us} / 1000.0::float8)::real`;
const phase = (name: string): PackedColumn => ({
  arrays: [name],
  value: (sql) => msOf(sql, sql`item.${sql(name)}`),
});
const text = (name: string): PackedColumn => ({
  arrays: [name],
  value: (sql) => sql`case when item.${sql(name)} is not null then packed.texts[item.${sql(name)}] end`,
});

const packedColumns: Record<RunColumn, PackedColumn> = {
  timestamp: {
    arrays: ["delays", "flags"],
    value: (sql) => {
      const jitter = jitterOf(sql, {
        seed: sql`packed.jitter_seed`,
        slot: sql`at.ms`,
        intervalMs: sql`packed.interval_ms`,
        pct: sql`packed.jitter_pct`,
        recheck: sql`item.flags & 8 <> 0`,
      });
      return sql`to_timestamp((at.ms + item.delays + ${jitter}) / 1000.0::float8)`;
    },
  },
  status: {
    arrays: ["flags"],
    value: (sql) => sql`(array['up', 'down', 'degraded', 'error'])[(item.flags & 3) + 1]`,
  },
  skip: { arrays: ["flags"], value: (sql) => sql`item.flags & 4 <> 0` },
  recheck: { arrays: ["flags"], value: (sql) => sql`item.flags & 8 <> 0` },
  error: text("errors"),
  cause: text("causes"),
  details: { arrays: ["details"], value: (sql) => sql`${text("details").value(sql)}::jsonb` },
  http_status: { arrays: ["http_statuses"], value: (sql) => sql`item.http_statuses` },
  response_size: { arrays: ["sizes"], value: (sql) => sql`item.sizes` },
  dns_ms: phase("dns"),
  connect_ms: phase("connect"),
  tls_ms: phase("tls"),
  ttfb_ms: phase("ttfb"),
  total_ms: {
    arrays: ["rest", "dns", "connect", "tls", "ttfb"],
    value: (sql) =>
      msOf(
        sql,
        sql`(item.rest + coalesce(item.dns, 0) + coalesce(item.connect, 0) + coalesce(item.tls, 0)
          + coalesce(item.ttfb, 0))`,
      ),
  },
};

/** Fragments separated by commas; of at least one. */
const list = (sql: Db, parts: readonly Fragment[]): Fragment =>
  parts.slice(1).reduce((all, part) => sql`${all}, ${part}`, parts[0]!);
