import { affectsRow, type Db, columnOf } from "../../../platform/db/client/sql.ts";

/** User, organisation and client that a session belongs to. */
export interface SessionOwner {
  readonly userId: string;
  readonly orgId: string;
  readonly client: string;
}

export interface SessionRow {
  id: string;
  can_confirm: boolean;
  protocol: string;
  expires_at: Date;
}

const owned = (sql: Db, { userId, orgId, client }: SessionOwner) =>
  sql`user_id = ${userId} and org_id = ${orgId} and client = ${client}`;

export async function insertSession(
  sql: Db,
  { userId, orgId, client }: SessionOwner,
  row: SessionRow & { client_name: string; created_at: Date },
): Promise<void> {
  await sql`insert into mcp_sessions ${sql({ ...row, user_id: userId, org_id: orgId, client })}`;
}

/** Ends the oldest sessions of an owner beyond `keep`. Returns their ids. */
export async function deleteOldest(sql: Db, owner: SessionOwner, keep: number): Promise<string[]> {
  return await columnOf<string>(sql`
    delete from mcp_sessions where id in (
      select id from mcp_sessions where ${owned(sql, owner)} order by created_at desc, id desc offset ${keep})
    returning id`);
}

export async function extendSession(sql: Db, id: string, expiresAt: Date): Promise<void> {
  await sql`update mcp_sessions set expires_at = ${expiresAt} where id = ${id} and expires_at < ${expiresAt}`;
}

/** The given sessions that have not ended. */
export async function selectLive(sql: Db, ids: readonly string[], now: Date): Promise<string[]> {
  return await columnOf<string>(
    sql`select id from mcp_sessions where id = any(${[...ids]}::uuid[]) and expires_at > ${now}`,
  );
}

/** Returns true when there was such a session. */
export async function deleteSession(sql: Db, owner: SessionOwner, id: string): Promise<boolean> {
  return await affectsRow(sql`delete from mcp_sessions where id = ${id} and ${owned(sql, owner)}`);
}

export async function deleteExpiredSessions(sql: Db, now: Date): Promise<void> {
  await sql`delete from mcp_sessions where expires_at < ${now}`;
}

/** Wakes waiting streams and calls of this session or confirmation, on every replica. */
export async function announce(sql: Db, id: string): Promise<void> {
  await sql`select pg_notify('sm_mcp', ${id})`;
}
