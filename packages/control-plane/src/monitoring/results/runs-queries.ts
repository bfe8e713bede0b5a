import { jitterStep } from "@statusmesh/shared/schedule";
import type { Fragment } from "postgres";
import { getOrMake } from "../../platform/caches.ts";
import { type Db, madeOnce } from "../../platform/db/client/sql.ts";

/** Columns of a run besides target_id, region and scheduled_at. */
export const runColumns = [
  "timestamp",
  "status",
  "skip",
  "recheck",
  "error",
  "cause",
  "diagnosis",
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
export const packedTo = madeOnce((sql) => sql`coalesce((select b.packed_to from pack_progress b), '-infinity'::date)`);
/** Start of the first day that is not packed. */
const unpackedFrom = madeOnce((sql) => startOf(sql, packedTo(sql)));

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
 *     select p.region, flag, total as total_us,
 *       to_timestamp((p.first_slot + ((n - 1) * p.interval_ms + slot & 4294967295)) / 1000.0) as scheduled_at,
 *       coalesce(total - coalesce(dns, 0) - coalesce(connect, 0) - coalesce(tls, 0) - rest, rest) as ttfb_us
 *     from results_packed p, unnest(slots, flags, dns, connect, tls, rest, total)
 *       with ordinality u (slot, flag, dns, connect, tls, rest, total, n)
 *     where p.target_id = '…' and p.day = '2026-11-20';
 */
export const runs = (sql: Db, { target, from, to, days, isShort = false }: RunRange, columns: readonly RunColumn[]) => {
  const { rows, values, items } = getOrMake(partsOfRuns, `${isShort} ${columns.join()}`, () =>
    makeParts(sql, columns, isShort),
  );
  return sql`(
    select ${rows} from results_of(${target}, ${from}, ${to}) result
    where result.scheduled_at >= ${unpackedFrom(sql)}
    union all
    select ${rows} from results_late_of(${target}, ${from}, ${to}) result
    union all
    select ${values}
    from ${packedDays(sql, { target, from, to })}
    ${items}
    where packed.day < ${packedTo(sql)} and ${days ?? sql`true`} and ${isSlotInSpan(sql)})`;
};

/** The parts of {@link runs} without values, by their columns. */
const partsOfRuns = new Map<string, Record<"rows" | "values" | "items", Fragment>>();

function makeParts(sql: Db, columns: readonly RunColumn[], isShort: boolean) {
  const rows = [
    sql`result.target_id, result.region, result.scheduled_at`,
    ...columns.map((name) => sql`result.${sql(name)}`),
  ];
  const values = [
    sql`packed.target_id, packed.region, slot.scheduled_at`,
    ...columns.map((name) => sql`${packedColumns[name].value(sql)} as ${sql(name)}`),
  ];
  const arrays = new Set(["slots", ...columns.flatMap((name) => packedColumns[name].arrays)]);
  const part = sql`
    cross join lateral (
      select ${regularPart(sql)} where ${isRegular(sql)}
      union all
      select min(s.n), max(s.n)
      from (select unnest(packed.slots) as slot, generate_series(1::bigint, packed.runs) as n) s
      where not ${isRegular(sql)} and ${isInSpan(sql, slotAt(sql, sql`s.n`, sql`s.slot`))}
      having count(*) > 0
    ) part`;
  const items = sql`
    ${isShort ? part : sql``}
    cross join lateral (
      select ${list(
        sql,
        [...arrays].map(
          (name) => sql`unnest(packed.${sql(name)}${isShort ? sql`[part.low:part.high]` : sql``}) as ${sql(name)}`,
        ),
      )}, ${isShort ? sql`generate_series(part.low, part.high)` : sql`generate_series(1::bigint, packed.runs)`} as n
    ) item
    cross join lateral (select ${slotAt(sql, sql`item.n`, sql`item.slots`)} as ms) at
    cross join lateral (select to_timestamp(at.ms / 1000.0::float8) as scheduled_at) slot`;
  return { rows: list(sql, rows), values: list(sql, values), items };
}

/**
 * The values of a row of {@link runArrays} after the region: numbers of the packed day (null: rows), then slots, times,
 * flags, dns, connect, tls, rest, total. An array is null when it was not asked for, or is null in all runs. Of a
 * packed day they are as in results_packed; `slots` is null when all are on the schedule, `flags` when all are 0, and
 * the numbers are first_slot, interval_ms, jitter_seed, jitter_pct, the position of the first run from 0, and the
 * number of runs. Of rows they have what the rows have, and `rest` is ttfb. Read by visitRuns.
 */
export type RunArrays = readonly (Buffer | null)[];

/** The array of {@link RunArrays} with the values of a column. */
const arrayOfColumn = {
  timestamp: "delays",
  status: "flags",
  skip: "flags",
  recheck: "flags",
  dns_ms: "dns",
  connect_ms: "connect",
  tls_ms: "tls",
  ttfb_ms: "rest",
  total_ms: "total",
} as const;
/** Columns that {@link runArrays} can have. */
export type ArrayColumn = keyof typeof arrayOfColumn;
const arrayNames = [...new Set(Object.values(arrayOfColumn))];

/**
 * Runs as in {@link runs}, for statements whose many runs are computed with in this process: a row per region, and per
 * packed day. Of days with irregular slots there are also runs out of the range. PostgreSQL writes an array in 135 µs
 * for a check per minute; to expand it took 180, and to sort what it holds more than that.
 */
export const runArrays = (
  sql: Db,
  { target, from, to }: RunRange,
  region: string | null,
  columns: readonly ArrayColumn[],
) => {
  const { rows, ofRows, ofDays } = getOrMake(partsOfArrays, columns.join(), () => makeArrayParts(sql, columns));
  const isOfRegion = (name: Fragment) => (region === null ? sql`true` : sql`${name} = ${region}`);
  return sql`(
    select result.region, null::bytea as day, array_send(array_agg(result.scheduled_at)) as slots,
      ${ofRows}
    from (
      select ${rows} from results_of(${target}, ${from}, ${to}) r
      where r.scheduled_at >= ${unpackedFrom(sql)}
      union all
      select ${rows} from results_late_of(${target}, ${from}, ${to}) r
    ) result
    where ${isOfRegion(sql`result.region`)}
    group by result.region
    union all
    select packed.region, array_send(array[packed.first_slot, packed.interval_ms, packed.jitter_seed,
        packed.jitter_pct, part.low - 1, part.high - part.low + 1]::bigint[]),
      case when not day.regular then array_send(packed.slots) end,
      ${ofDays}
    from ${packedDays(sql, { target, from, to })}
    cross join lateral (select ${isRegular(sql)} as regular offset 0) day
    cross join lateral (
      select ${regularPart(sql)} where day.regular
      union all
      select 1, packed.runs where not day.regular
    ) part
    where packed.day < ${packedTo(sql)} and part.low <= part.high and ${isOfRegion(sql`packed.region`)})`;
};

/** The parts of {@link runArrays} without values, by their columns. */
const partsOfArrays = new Map<string, Record<"rows" | "ofRows" | "ofDays", Fragment>>();

function makeArrayParts(sql: Db, columns: readonly ArrayColumn[]) {
  const each = (names: readonly string[], value: (name: (typeof arrayNames)[number]) => Fragment) =>
    list(
      sql,
      arrayNames.map((name) => (names.includes(name) ? sql`array_send(${value(name)})` : sql`null::bytea`)),
    );
  const valueOfRow = {
    delays: sql`result."timestamp"`,
    flags: flagsOf(sql, sql`result`),
    dns: sql`result.dns_ms`,
    connect: sql`result.connect_ms`,
    tls: sql`result.tls_ms`,
    rest: sql`result.ttfb_ms`,
    total: sql`result.total_ms`,
  };
  const part = (array: Fragment) =>
    sql`case when part.high - part.low + 1 = packed.runs then ${array} else ${array}[part.low:part.high] end`;
  return {
    rows: list(sql, [sql`r.region`, sql`r.scheduled_at`, ...columns.map((name) => sql`r.${sql(name)}`)]),
    ofRows: each(
      columns.map((name) => arrayOfColumn[name]),
      (name) => sql`array_agg(${valueOfRow[name]})`,
    ),
    ofDays: each(
      columns.flatMap((name) => packedColumns[name].arrays),
      (name) =>
        name === "flags"
          ? sql`case when packed.up < packed.runs then ${part(sql`packed.flags`)} end`
          : part(sql`packed.${sql(name)}`),
    ),
  };
}

/** Number of {@link runs} by slot, as an expression. Arrays are expanded of part of a day with irregular slots only. */
export const countRuns = (sql: Db, { target, from, to }: RunRange, region: string | null) => {
  const isOfRegion = (name: Fragment) => (region === null ? sql`true` : sql`${name} = ${region}`);
  return sql`(
    (select count(*) from results_of(${target}, ${from}, ${to}) result
    where result.scheduled_at >= ${unpackedFrom(sql)} and ${isOfRegion(sql`result.region`)})
    + (select count(*) from results_late_of(${target}, ${from}, ${to}) late where ${isOfRegion(sql`late.region`)})
    + (select coalesce(sum(case when ${isWhole(sql)} then packed.runs
        when ${isRegular(sql)} then greatest(0, part.high - part.low + 1) else (
        select count(*) from unnest(packed.slots) with ordinality u (slot, n)
        where ${isPositionInSpan(sql)}) end), 0)
      from ${packedDays(sql, { target, from, to })} cross join lateral (select ${regularPart(sql)}) part
      where packed.day < ${packedTo(sql)} and ${isOfRegion(sql`packed.region`)}))`;
};

/** Unix ms of run `n` of a packed day. */
const slotAt = (sql: Db, n: Fragment, slot: Fragment) =>
  sql`(packed.first_slot + ${positionMs(sql, sql`(${n} - 1) * packed.interval_ms + ${slot}`)})`;
const isInSpan = (sql: Db, ms: Fragment) => sql`${ms} >= span.low and ${ms} < span.high`;
const isSlotInSpan = madeOnce((sql) => isInSpan(sql, sql`at.ms`));
const isPositionInSpan = madeOnce((sql) => isInSpan(sql, slotAt(sql, sql`u.n`, sql`u.slot`)));

/** Status of a row, plus 4 if skipped, plus 8 for a recheck, as in results_packed. */
export const flagsOf = (sql: Db, row: Fragment) => sql`
  (case when ${row}.status = 'up' then 0 when ${row}.status = 'down' then 1 when ${row}.status = 'degraded' then 2
    when ${row}.status = 'error' then 3 end
    + case when ${row}.skip then 4 else 0 end + case when ${row}.recheck then 8 else 0 end)::smallint`;

/** Packed days of the range, with its ends as `span` in Unix ms. */
const packedDays = (sql: Db, { target, from, to }: RunRange) => sql`
  results_packed_of(${target}, ((${from}) at time zone 'UTC')::date, ((${to}) at time zone 'UTC')::date) packed
  cross join lateral (select ${msUpFrom(sql, from)} as low, ${msUpFrom(sql, to)} as high offset 0) span`;

/** Whether a packed day is in the range as a whole. */
const isWhole = madeOnce(
  (sql) => sql`extract(epoch from packed.day) * 1000 >= span.low
    and extract(epoch from packed.day + 1) * 1000 <= span.high`,
);
/** Whether all slots of a packed day are on its schedule. */
const isRegular = madeOnce((sql) => sql`0 = all (packed.slots)`);
/** First and last position in the range, of a regular day; the last is less when there is none. */
const regularPart = madeOnce(
  (sql) => sql`
  least(greatest(1, ceil((span.low - packed.first_slot) / packed.interval_ms) + 1), packed.runs + 1)::bigint as low,
  least(ceil((span.high - packed.first_slot) / packed.interval_ms), packed.runs)::bigint as high`,
);

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
  diagnosis: text("diagnoses"),
  details: { arrays: ["details"], value: (sql) => sql`${text("details").value(sql)}::jsonb` },
  http_status: { arrays: ["http_statuses"], value: (sql) => sql`item.http_statuses` },
  response_size: { arrays: ["sizes"], value: (sql) => sql`item.sizes` },
  dns_ms: phase("dns"),
  connect_ms: phase("connect"),
  tls_ms: phase("tls"),
  ttfb_ms: {
    arrays: ["dns", "connect", "tls", "rest", "total"],
    value: (sql) =>
      msOf(
        sql,
        sql`coalesce(item.total - coalesce(item.dns, 0) - coalesce(item.connect, 0) - coalesce(item.tls, 0)
          - item.rest, item.rest)`,
      ),
  },
  total_ms: phase("total"),
};

/** Fragments separated by commas; of at least one. */
const list = (sql: Db, parts: readonly Fragment[]): Fragment =>
  parts.slice(1).reduce((all, part) => sql`${all}, ${part}`, parts[0]!);
