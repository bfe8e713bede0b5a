import { isNext } from "../../alerting/deliveries/engine.ts";
import { countOf, type Db, rowOf } from "../../platform/db/client/sql.ts";

export interface OutboxRow {
  kind: string;
  pending: number;
  oldest_at: Date;
  /** Due time of the oldest delivery that is neither held nor leased; null when none is due. */
  due_since: Date | null;
}

/** Pending deliveries by channel kind, without those of deleted organisations. */
export async function outbox(sql: Db, now: Date): Promise<OutboxRow[]> {
  return await sql<OutboxRow[]>`
    select d.channel_kind as kind, count(*)::int as pending, min(d.created_at) as oldest_at,
      min(d.next_attempt_at) filter (
        where d.next_attempt_at <= ${now} and (d.leased_until is null or d.leased_until <= ${now})
          and ${isNext(sql)}) as due_since
    from deliveries d join orgs o on o.id = d.org_id and o.deleted_at is null
    where d.state = 'pending'
    group by d.channel_kind`;
}

/** Open incidents of all organisations that are not deleted. */
export async function openIncidents(sql: Db) {
  return await sql<{ severity: string; count: number }[]>`
    select i.severity, count(*)::int as count from incidents i
    join orgs o on o.id = i.org_id and o.deleted_at is null where i.ended_at is null group by i.severity`;
}

/** Enabled channels whose last delivery attempt failed. */
export async function failingChannels(sql: Db): Promise<number> {
  const from = sql`
    from channel_health h
    join channels c on c.id = h.channel_id and c.enabled
    join orgs o on o.id = c.org_id and o.deleted_at is null
    where h.failing_since is not null`;
  return await countOf(sql, from);
}

/** Enabled targets of all organisations that are not deleted. */
export const enabledTargets = async (sql: Db): Promise<number> =>
  await countOf(sql, sql`from targets t join orgs o on o.id = t.org_id and o.deleted_at is null where t.enabled`);

export interface AgentCounts {
  /** Agents that pull and are not impaired. */
  live: number;
  /** Agents that pull and report their own network down. */
  impaired: number;
  /** Agents that do not pull. */
  silent: number;
}

export async function agentCounts(sql: Db, since: Date): Promise<AgentCounts> {
  return await rowOf(sql<AgentCounts[]>`
    select count(*) filter (where last_seen_at > ${since} and impaired_since is null)::int as live,
      count(*) filter (where last_seen_at > ${since} and impaired_since is not null)::int as impaired,
      count(*) filter (where last_seen_at is null or last_seen_at <= ${since})::int as silent
    from agents`);
}

/** Open notices to the operator. */
export const openOperatorNotices = async (sql: Db): Promise<number> =>
  await countOf(sql, sql`from operator_notices where mailed_at is not null`);

/** Connections of all replicas to the database, by state. */
export async function connections(sql: Db) {
  return await sql<{ state: string; count: number }[]>`
    select coalesce(state, 'unknown') as state, count(*)::int as count from pg_stat_activity
    where datname = current_database() and application_name = 'statusmesh' group by 1`;
}
