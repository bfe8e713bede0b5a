import { dayMs, hourMs } from "@statusmesh/shared/time";
import type { Sql } from "postgres";

/** What the tables hold at the end, to compute their sizes from. */
export interface Extent {
  monitors: number;
  days: number;
  /** Results by minute and monitor. */
  resultsADay: number;
}

export interface Size {
  table: string;
  mb: number;
  computedMb: number;
}

/**
 * Bytes of the tables, from those of a row with its keys (`npm run bench -- packing`, docs/storage.md). Days before the
 * last one are packed, up to four hours after their end; the hours of the day and of the one before are rows.
 */
const computedBytes = ({ monitors, days, resultsADay }: Extent): Readonly<Record<string, number>> => {
  const rows = 2 * monitors * resultsADay;
  const packed = monitors * Math.max(0, days - 1);
  const hours = 2 * monitors * (dayMs / hourMs);
  return {
    results: rows * 240,
    results_packed: packed * resultsADay * 25,
    results_late: 1e6,
    hours_packed: packed * 2_000,
    changes_packed: packed * 1_800,
    results_daily: monitors * days * 150,
    results_hourly: hours * 200,
    latency_hourly: hours * 270,
    changes_hourly: hours * 220,
    rollup_dirty: 1e6,
    issued_slots: 1e6,
    org_hours: 1e6,
    // Appended and emptied; 90,000 rows of 25 hours. Autovacuum comes once a second, here after a quarter of an hour.
    org_hours_new: 1e7,
    org_seconds: 2e7,
    // Updated with each result: thousands of times before autovacuum comes.
    target_states: monitors * 500 + 2e6,
  };
};

/** Sizes with indexes and TOAST, partitions included, beside the computed ones. */
export async function sizesOf(sql: Sql, extent: Extent): Promise<Size[]> {
  const sizes: Size[] = [];
  for (const [table, bytes] of Object.entries(computedBytes(extent))) {
    const [row] = await sql<{ bytes: number }[]>`
      select (pg_total_relation_size(${table}::regclass) + coalesce((select sum(pg_total_relation_size(relid))
        from pg_partition_tree(${table}::regclass) where relid <> ${table}::regclass), 0))::float8 as bytes`;
    const mb = (n: number) => Number((n / 1e6).toFixed(1));
    sizes.push({ table, mb: mb(row!.bytes), computedMb: mb(bytes) });
  }
  return sizes;
}
