import type { Sql, TransactionSql } from "postgres";
import type { WriteSource } from "../context.ts";

type Db = Sql | TransactionSql;

export interface AuditRow {
  id: string;
  at: Date;
  user_id: string | null;
  user_email: string | null;
  actor_type: "session" | "token" | "system";
  actor_id: string | null;
  action: string;
  resource_id: string | null;
  before: unknown;
  after: unknown;
  write_source: WriteSource;
  ip: string | null;
  user_agent: string | null;
  trace_id: string | null;
}

export async function insertEntry(sql: Db, orgId: string, row: Omit<AuditRow, "user_email">): Promise<void> {
  await sql`
    insert into audit_log (id, org_id, at, user_id, user_email, actor_type, actor_id, action, resource_id, before, after, write_source, ip, user_agent, trace_id)
    values (${row.id}, ${orgId}, ${row.at}, ${row.user_id}, (select u.email from users u where u.id = ${row.user_id}), ${row.actor_type}, ${row.actor_id}, ${row.action}, ${row.resource_id},
      ${json(sql, row.before)}, ${json(sql, row.after)}, ${row.write_source}, ${row.ip}, ${row.user_agent}, ${row.trace_id})`;
}

const json = (sql: Db, value: unknown) => (value === null ? null : sql.json(value as never));

export interface AuditFilter {
  userId: string | null;
  resourceId: string | null;
}

const matching = (sql: Db, orgId: string, filter: AuditFilter) => sql`
  org_id = ${orgId} and (${filter.userId}::text is null or user_id::text = ${filter.userId}) and (${filter.resourceId}::text is null or resource_id = ${filter.resourceId})`;

/** Newest first. */
export async function selectEntries(sql: Db, orgId: string, filter: AuditFilter, limit: number, offset: number): Promise<AuditRow[]> {
  return await sql<AuditRow[]>`
    select id, at, user_id, user_email, actor_type, actor_id, action, resource_id, before, after, write_source, ip, user_agent, trace_id
    from audit_log where ${matching(sql, orgId, filter)} order by id desc limit ${limit} offset ${offset}`;
}

export async function countEntries(sql: Db, orgId: string, filter: AuditFilter): Promise<number> {
  const [row] = await sql<{ count: number }[]>`select count(*)::int as count from audit_log where ${matching(sql, orgId, filter)}`;
  return row!.count;
}

/** How many rows went. */
export async function deleteEntriesBefore(sql: Db, before: Date): Promise<number> {
  return (await sql`delete from audit_log where at < ${before}`).count;
}
