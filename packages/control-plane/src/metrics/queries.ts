import type { Sql, TransactionSql } from "postgres";

type Db = Sql | TransactionSql;

export interface OutboxRow {
  kind: string;
  pending: number;
  oldest_at: Date;
  /** When the one that has been due for longest became due, of those that nothing holds back and nobody is sending; null when none is due. */
  due_since: Date | null;
}

/** What is still to be told, by the kind of channel. What a deleted organisation holds back does not wait for anybody. */
export async function outbox(sql: Db, now: Date): Promise<OutboxRow[]> {
  return await sql<OutboxRow[]>`
    select d.channel_kind as kind, count(*)::int as pending, min(d.created_at) as oldest_at,
      min(d.next_attempt_at) filter (
        where d.next_attempt_at <= ${now} and (d.leased_until is null or d.leased_until <= ${now})
          and not exists (select from deliveries older
                          where older.incident_id = d.incident_id and older.channel_id = d.channel_id and older.state = 'pending'
                            and (older.created_at, older.id) < (d.created_at, d.id))) as due_since
    from deliveries d join orgs o on o.id = d.org_id and o.deleted_at is null
    where d.state = 'pending'
    group by d.channel_kind`;
}

/** Open incidents of all organisations that are not deleted. */
export async function openIncidents(sql: Db): Promise<{ severity: string; count: number }[]> {
  return await sql<{ severity: string; count: number }[]>`
    select i.severity, count(*)::int as count from incidents i join orgs o on o.id = i.org_id and o.deleted_at is null where i.ended_at is null group by i.severity`;
}

/** Targets that are switched on, of all organisations that are not deleted. */
export async function enabledTargets(sql: Db): Promise<number> {
  const [row] = await sql<
    { count: number }[]
  >`select count(*)::int as count from targets t join orgs o on o.id = t.org_id and o.deleted_at is null where t.enabled`;
  return row!.count;
}

export interface AgentCounts {
  /** Those that pull, with a network that works. */
  live: number;
  /** Those that pull, and whose own network is down. */
  impaired: number;
  /** The others. */
  silent: number;
}

export async function agentCounts(sql: Db, since: Date): Promise<AgentCounts> {
  const [row] = await sql<AgentCounts[]>`
    select count(*) filter (where last_seen_at > ${since} and impaired_since is null)::int as live,
      count(*) filter (where last_seen_at > ${since} and impaired_since is not null)::int as impaired,
      count(*) filter (where last_seen_at is null or last_seen_at <= ${since})::int as silent
    from agents`;
  return row!;
}

/** What the operator has been told of and is not over. */
export async function toldNotices(sql: Db): Promise<number> {
  const [row] = await sql<
    { count: number }[]
  >`select count(*)::int as count from operator_notices where told_at is not null`;
  return row!.count;
}

/** Connections of this service to the database, those of all replicas together, by what they are doing. */
export async function connections(sql: Db): Promise<{ state: string; count: number }[]> {
  return await sql<{ state: string; count: number }[]>`
    select coalesce(state, 'unknown') as state, count(*)::int as count from pg_stat_activity
    where datname = current_database() and application_name = 'statusmesh' group by 1`;
}
