import type { RunReply } from "@statusmesh/shared/protocol/agent-protocol";
import type { Abilities } from "@statusmesh/shared/checks/abilities";
import type { CheckSpec } from "@statusmesh/shared/checks";
import { type Db, valueOf } from "../../platform/db/client/sql.ts";

/** A stored run: its secrets are sealed while it waits. */
export interface RunRow {
  id: string;
  org_id: string;
  target_id: string | null;
  spec: CheckSpec;
  requested_at: Date;
  /** Slot of the stored result; null for a test that is not stored. */
  scheduled_at: Date | null;
}

export async function insertRun(sql: Db, row: RunRow & { region_id: string; needs: string | null }): Promise<void> {
  await sql`
    insert into on_demand_runs (id, org_id, region_id, target_id, spec, needs, requested_at, scheduled_at)
    values (${row.id}, ${row.org_id}, ${row.region_id}, ${row.target_id}, ${sql.json(row.spec as never)},
      ${row.needs}, ${row.requested_at}, ${row.scheduled_at})`;
}

/** Wakes the held pulls of the region. */
export async function wakeAgents(sql: Db, region: string): Promise<void> {
  await sql`select pg_notify('sm_runs', ${region})`;
}

/** The agent's reply; null until there is one. */
export async function selectReply(sql: Db, id: string): Promise<RunReply | null> {
  return await valueOf<RunReply | null>(sql`select reply from on_demand_runs where id = ${id}`);
}

export async function deleteRun(sql: Db, id: string): Promise<void> {
  await sql`delete from on_demand_runs where id = ${id}`;
}

/** Deletes the tests of the same URL that were kept before a test. */
export async function deleteEarlierTests(sql: Db, id: string): Promise<void> {
  await sql`
    delete from on_demand_runs o using on_demand_runs latest
    where latest.id = ${id} and o.org_id = latest.org_id and o.id <> latest.id and o.reply ? 'components'
      and o.spec ->> 'url' = latest.spec ->> 'url'`;
}

/** Number of the organisation's runs without a reply that were requested after a time. */
export async function countWaitingRuns(sql: Db, orgId: string, after: Date): Promise<number> {
  return await valueOf<number>(sql`
    select count(*)::int as count from on_demand_runs
    where org_id = ${orgId} and reply is null and requested_at > ${after}`);
}

export interface RunClaim {
  agentId: string;
  region: string;
  limit: number;
  /** What the agent can run. */
  kinds: Abilities;
  now: Date;
  requestedAfter: Date;
}

/** Claims the oldest unclaimed runs of the region that the agent can run. */
export async function claimRuns(
  sql: Db,
  { agentId, region, limit, kinds, now, requestedAfter }: RunClaim,
): Promise<RunRow[]> {
  return await sql<RunRow[]>`
    update on_demand_runs set claimed_by = ${agentId}, claimed_at = ${now}
    where id in (
      select id from on_demand_runs
      where region_id = ${region} and claimed_at is null and requested_at > ${requestedAfter}
        and ${sql.json(kinds)}::jsonb ? (spec ->> 'type')
        and not ${sql.json(kinds)}::jsonb -> (spec ->> 'type') ? 'unable'
        and (needs is null or ${sql.json(kinds)}::jsonb -> (spec ->> 'type') -> 'names' ? needs)
      order by requested_at limit ${limit} for update skip locked)
    returning id, org_id, target_id, spec, requested_at, scheduled_at`;
}

/** Stores the first reply of the agent that claimed the run, and wakes the caller. */
export async function storeReply(sql: Db, agentId: string, reply: RunReply): Promise<void> {
  await sql`
    with answered as (
      update on_demand_runs set reply = ${sql.json(reply as never)}
      where id = ${reply.run_id} and claimed_by = ${agentId} and reply is null returning id)
    select pg_notify('sm_runs_done', id::text) from answered`;
}

/** Locks up to `limit` unclaimed runs after `after`, by id. */
export async function selectUnclaimedRuns(sql: Db, after: string | null, limit: number) {
  return await sql<Pick<RunRow, "id" | "spec">[]>`
    select id, spec from on_demand_runs
    where claimed_at is null and (${after}::uuid is null or id > ${after}::uuid) order by id
    limit ${limit} for no key update`;
}

export async function updateRunSpec(sql: Db, id: string, spec: CheckSpec): Promise<void> {
  await sql`update on_demand_runs set spec = ${sql.json(spec as never)} where id = ${id}`;
}

export async function deleteRunsBefore(sql: Db, before: Date): Promise<void> {
  await sql`delete from on_demand_runs where requested_at < ${before}`;
}
