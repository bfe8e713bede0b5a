import type { Db } from "../../../platform/db/client/sql.ts";
import type { Range } from "../range.ts";
import { runs } from "../runs-queries.ts";

/** The runs of one region in one slice of time. */
export interface BeatRow {
  /** Number of the slice, counted from the Unix epoch. */
  slice: number;
  region: string;
  failed: number;
  degraded: number;
  /** Median of the successful runs, ms. */
  p50: number | null;
  error: string | null;
}

/** Runs by slices of `sliceMs` and region, without empty ones; those on demand and skipped ones count in no figure. */
export async function selectBeats(
  sql: Db,
  orgId: string,
  targetId: string,
  range: Range,
  sliceMs: number,
): Promise<BeatRow[]> {
  const slots = {
    target: sql`t.id`,
    from: sql`${range.from}::timestamptz`,
    to: sql`${range.to}::timestamptz`,
  };
  return await sql<BeatRow[]>`
    select floor(extract(epoch from r.scheduled_at)::float8 * 1000 / ${sliceMs}::float8)::float8 as slice, r.region,
      count(*) filter (where r.status in ('down', 'error'))::int as failed,
      count(*) filter (where r.status = 'degraded')::int as degraded,
      percentile_cont(0.5) within group (order by r.total_ms) filter (where r.status in ('up', 'degraded')) as p50,
      (array_agg(r.error order by r.scheduled_at desc) filter (where r.error is not null))[1] as error
    from targets t cross join lateral ${runs(sql, slots, ["status", "skip", "recheck", "error", "total_ms"])} r
    where t.org_id = ${orgId} and t.id = ${targetId} and not r.skip and not r.recheck
    group by 1, 2 order by 1, 2`;
}
