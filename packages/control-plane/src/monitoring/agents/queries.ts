import { reservedRegions } from "@statusmesh/shared/checks";
import type { Abilities } from "@statusmesh/shared/checks/abilities";
import { anyOf, type Db, firstOf, listed, type Listed, type Paging, rowOf } from "../../platform/db/client/sql.ts";

export interface AgentRow {
  id: string;
  region_id: string;
  name: string;
  built_in: boolean;
  version: string | null;
  created_at: Date;
  last_seen_at: Date | null;
  impaired_since: Date | null;
  left_at: Date | null;
  waiting: number | null;
  lag_ms: number | null;
  /** Null before it was seen. */
  kinds: Abilities | null;
}

const columns = (sql: Db) =>
  sql`id, region_id, name, built_in, version, created_at, last_seen_at, impaired_since, left_at, waiting, lag_ms,
    kinds`;

export async function selectAgentByToken(sql: Db, hash: Buffer) {
  return await firstOf(
    sql<{ id: string; region_id: string }[]>`select id, region_id from agents where token_hash = ${hash}`,
  );
}

export async function insertAgent(
  sql: Db,
  row: { id: string; regionId: string; name: string; hash: Buffer; builtIn: boolean; now: Date },
): Promise<AgentRow> {
  return await rowOf(sql<AgentRow[]>`
    insert into agents (id, region_id, name, token_hash, built_in, created_at)
    values (${row.id}, ${row.regionId}, ${row.name}, ${row.hash}, ${row.builtIn}, ${row.now})
    returning ${columns(sql)}`);
}

/**
 * The built-in agent of this data folder: the row of its token, created at the first start, moved when the region is
 * renamed.
 */
export async function upsertBuiltInAgent(
  sql: Db,
  row: { id: string; regionId: string; name: string; hash: Buffer; now: Date },
): Promise<void> {
  await sql`
    insert into agents (id, region_id, name, token_hash, built_in, created_at, started_at)
    values (${row.id}, ${row.regionId}, ${row.name}, ${row.hash}, true, ${row.now}, ${row.now})
    on conflict (token_hash)
    do update set region_id = excluded.region_id, name = excluded.name, started_at = excluded.started_at`;
}

/** Built-in agents of vanished control planes: not seen for a week. */
export async function deleteStaleBuiltIns(sql: Db, before: Date): Promise<void> {
  await sql`delete from agents where built_in and coalesce(last_seen_at, created_at) < ${before}`;
}

export async function selectAgents(sql: Db, { limit, offset }: Paging): Promise<Listed<AgentRow>> {
  const from = sql`from agents`;
  const part = sql<AgentRow[]>`
    select ${columns(sql)} ${from} order by region_id, natural_key(name), id limit ${limit} offset ${offset}`;
  return await listed(sql, from, part);
}

export async function selectAgent(sql: Db, id: string): Promise<AgentRow | null> {
  return await firstOf(sql<AgentRow[]>`select ${columns(sql)} from agents where id = ${id}`);
}

export async function renameAgent(sql: Db, id: string, name: string): Promise<AgentRow | null> {
  return await firstOf(sql<AgentRow[]>`update agents set name = ${name} where id = ${id} returning ${columns(sql)}`);
}

/** `unlessSince` keeps an agent that was seen later than that and has not left. False when nothing was deleted. */
export async function deleteAgent(sql: Db, id: string, unlessSince: Date | null): Promise<boolean> {
  const { count } = await sql`
    delete from agents where id = ${id}
      and (${unlessSince}::timestamptz is null or left_at is not null or last_seen_at is null
        or last_seen_at <= ${unlessSince})`;
  return count === 1;
}

/** Updates `last_seen_at`. False when the agent no longer exists. */
export async function touchAgent(sql: Db, id: string, now: Date): Promise<boolean> {
  return (await sql`update agents set last_seen_at = ${now} where id = ${id}`).count === 1;
}

/** State of an agent before its pull. */
export type AgentStateRow = Pick<AgentRow, "last_seen_at" | "impaired_since" | "left_at"> & {
  /** False where it said the same of kinds before. */
  otherKinds: boolean;
};

/** Results in its spool, and its scheduling lag. */
type AgentLoad = Record<"waiting" | "lag_ms", number>;

/** Stores the state that an agent reports in a pull. Returns the previous state; null when the agent is gone. */
export async function updateAgentState(
  sql: Db,
  id: string,
  state: { version: string; impairedSince: Date | null; load: AgentLoad | null; kinds: Abilities; now: Date },
): Promise<AgentStateRow | null> {
  return await firstOf(sql<AgentStateRow[]>`
    update agents a
    set last_seen_at = ${state.now}, version = ${state.version}, impaired_since = ${state.impairedSince},
      left_at = null, waiting = ${state.load?.waiting ?? null}, lag_ms = ${state.load?.lag_ms ?? null},
      kinds = ${sql.json(state.kinds)}
    from (select last_seen_at, impaired_since, left_at, kinds from agents where id = ${id} for update) before
    where a.id = ${id}
    returning before.last_seen_at, before.impaired_since, before.left_at,
      before.kinds is distinct from a.kinds as "otherKinds"`);
}

/** Marks the agent as left. Its own held pull that ends later does not revive it. */
export async function markAgentLeft(sql: Db, id: string, now: Date): Promise<void> {
  await sql`update agents set left_at = ${now} where id = ${id}`;
}

/** Wakes the callers of on-demand runs that wait for an agent of the region. */
export async function wakeCallers(sql: Db, regionId: string): Promise<void> {
  await sql`select pg_notify('sm_agents', ${regionId})`;
}

/** True when an agent of the regions was seen, left or was started by its control plane since then. */
export async function hasExpectedAgent(sql: Db, regionIds: readonly string[], since: Date): Promise<boolean> {
  const expected = sql`
    from agents
    where region_id = any(${regionIds as string[]}) and greatest(last_seen_at, left_at, started_at) > ${since}`;
  return await anyOf(sql, expected);
}

/** An agent that is connected. */
export interface LiveAgent {
  id: string;
  region: string;
  /** True while its own network is down. */
  impaired: boolean;
  version: string;
  kinds: Abilities;
}

/** Agents of the region (of all, when null) that have pulled since then and have not left, in a stable order. */
export async function selectLiveAgents(sql: Db, regionId: string | null, since: Date): Promise<LiveAgent[]> {
  return await sql<LiveAgent[]>`
    select id, region_id as region, impaired_since is not null as impaired, version, kinds from agents
    where (${regionId}::text is null or region_id = ${regionId}) and last_seen_at > ${since} and left_at is null
      and kinds is not null
    order by id`;
}

/** A region with targets and without a working agent. */
export interface SilentRegionRow {
  region_id: string;
  name: string;
  /** Null when it has live agents that are all impaired. */
  unserved_since: Date | null;
  impaired_since: Date | null;
  has_agents: boolean;
}

/**
 * Enabled regions without a live, unimpaired agent, among those with targets of the organisation (of any, when null).
 */
export async function selectSilentRegions(sql: Db, orgId: string | null, since: Date): Promise<SilentRegionRow[]> {
  return await sql<SilentRegionRow[]>`
    select r.id as region_id, r.name,
      case when count(a.id) filter (where a.last_seen_at > ${since}) = 0 then max(a.last_seen_at) end as unserved_since,
      max(a.impaired_since) filter (where a.last_seen_at > ${since}) as impaired_since,
      count(a.id) > 0 as has_agents
    from regions r left join agents a on a.region_id = r.id
    -- Not exists: PostgreSQL would join all targets before it looks for one of each region. The offset makes it begin
    -- with those of the region: of one without targets it read all others (100,000: 320 ms).
    where r.enabled and r.id <> all(${reservedRegions as string[]}::text[]) and (
      select true from (select target_id from target_regions where region_id = r.id offset 0) tr
      join targets t on t.id = tr.target_id and t.enabled
      join orgs o on o.id = t.org_id and o.deleted_at is null
      where (${orgId}::uuid is null or t.org_id = ${orgId}) limit 1)
    group by r.id
    having count(a.id) filter (where a.last_seen_at > ${since} and a.impaired_since is null) = 0
    order by r.id`;
}

export async function selectImpairedAgents(sql: Db, since: Date): Promise<AgentRow[]> {
  return await sql<
    AgentRow[]
  >`select ${columns(sql)} from agents where impaired_since is not null and last_seen_at > ${since} order by id`;
}

/** Enabled targets of an organisation per region: their number and their kinds. */
export async function countTargetsByRegion(sql: Db, orgId: string) {
  return await sql<{ region_id: string; targets: number; kinds: string[] }[]>`
    select tr.region_id, count(*)::int as targets, array_agg(distinct t.kind) as kinds
    from target_regions tr join targets t on t.id = tr.target_id
    where t.org_id = ${orgId} and t.enabled group by tr.region_id`;
}

/** True when an agent that the control plane did not start itself has connected. */
export async function hasJoinedAgent(sql: Db): Promise<boolean> {
  return await anyOf(sql, sql`from agents where not built_in and last_seen_at is not null`);
}

export interface RegionCoverRow {
  region_id: string;
  targets: number;
  live_agents: number;
}

/** Targets of each enabled region, and the number of its agents that have pulled since then. */
export async function selectRegionCover(sql: Db, since: Date): Promise<RegionCoverRow[]> {
  return await sql<RegionCoverRow[]>`
    select r.id as region_id,
      (select count(*)::int from target_regions tr join targets t on t.id = tr.target_id and t.enabled
        where tr.region_id = r.id) as targets,
      (select count(*)::int from agents a
        where a.region_id = r.id and a.last_seen_at > ${since} and a.left_at is null) as live_agents
    from regions r where r.enabled and r.id <> all(${reservedRegions as string[]}::text[]) order by r.id`;
}
