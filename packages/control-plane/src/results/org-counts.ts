import type { Sql, TransactionSql } from "postgres";
import type { CheckStatus } from "@statusmesh/shared/result";
import { arrayOf } from "../db/array.ts";
import { hourOf } from "./late.ts";
import type { Counts } from "./queries.ts";

type Db = Sql | TransactionSql;

/** Hours that are kept: the begun one, and the 24 before it. */
const keepMs = 24 * 3_600_000;

/** A run as far as it is counted for its organisation. Times are Unix ms. */
export interface CountedRun {
  orgId: string;
  scheduledAt: number;
  status: CheckStatus;
}

/**
 * Counts new runs for their organisations, in the transaction that stores them: a row per organisation and hour of the
 * batch, appended, so that batches do not wait for each other's counter. Runs that no dashboard shows any more are left out.
 */
export async function countForOrgs(sql: Db, runs: readonly CountedRun[], nowMs: number): Promise<void> {
  const first = hourOf(nowMs - keepMs);
  const rows = new Map<string, Counts & { orgId: string; hour: number }>();
  for (const { orgId, scheduledAt, status } of runs) {
    const hour = hourOf(scheduledAt);
    if (hour < first) continue;
    const key = `${orgId} ${hour}`;
    let row = rows.get(key);
    if (row === undefined) rows.set(key, (row = { orgId, hour, up: 0, down: 0, degraded: 0, error: 0 }));
    row[status]++;
  }
  if (rows.size === 0) return;
  const column = (of: (row: Counts & { orgId: string; hour: number }) => string | number): string =>
    arrayOf([...rows.values()].map(of));
  await sql`
    insert into org_hours_new (org_id, hour, up, down, degraded, error)
    select org_id, hour, up, down, degraded, error
    from unnest(${column((row) => row.orgId)}::uuid[], ${column((row) => new Date(row.hour).toISOString())}::timestamptz[], ${column((row) => row.up)}::integer[],
      ${column((row) => row.down)}::integer[], ${column((row) => row.degraded)}::integer[], ${column((row) => row.error)}::integer[]) as u (org_id, hour, up, down, degraded, error)`;
}

/** Moves what batches have appended into one row per organisation and hour. Nothing is counted twice or lost if two processes do it at once. */
export async function gatherOrgCounts(sql: Db): Promise<void> {
  await sql`
    with taken as (delete from org_hours_new returning org_id, hour, up, down, degraded, error)
    insert into org_hours as o (org_id, hour, up, down, degraded, error)
    select org_id, hour, sum(up), sum(down), sum(degraded), sum(error) from taken group by 1, 2 order by 1, 2
    on conflict (org_id, hour) do update set up = o.up + excluded.up, down = o.down + excluded.down, degraded = o.degraded + excluded.degraded, error = o.error + excluded.error`;
}

/** Drops hours that no dashboard shows any more. */
export async function dropOldOrgCounts(sql: Db, nowMs: number): Promise<void> {
  await sql`delete from org_hours where hour < ${new Date(hourOf(nowMs - keepMs))}`;
}

/**
 * Runs of the organisation in the last 24 hours and the begun hour before them, deleted targets' included. Of 10,000 targets
 * this took most of the 92 ms of a dashboard (157 the first time) when it was summed from the hourly rows of each target and the results
 * since, with 200 results a target and week; at a check a minute those of the begun hour alone are 600,000. Counted at ingest it is 25 rows
 * and those that the last minute's batches have appended.
 */
export async function selectOrgCounts(sql: Db, orgId: string, nowMs: number): Promise<Counts> {
  const first = new Date(hourOf(nowMs - keepMs));
  const [row] = await sql<Counts[]>`
    select coalesce(sum(c.up), 0)::int as up, coalesce(sum(c.down), 0)::int as down, coalesce(sum(c.degraded), 0)::int as degraded, coalesce(sum(c.error), 0)::int as error
    from (
      select up, down, degraded, error from org_hours where org_id = ${orgId} and hour >= ${first}
      union all
      select up, down, degraded, error from org_hours_new where org_id = ${orgId} and hour >= ${first}
    ) c`;
  return row!;
}
