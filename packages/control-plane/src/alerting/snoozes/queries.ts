import { lockSpaces } from "../../platform/db/locks.ts";
import { arrayOf, countOf, type Db, firstOf, type Listed, listed, type Paging } from "../../platform/db/client/sql.ts";
import type { StoredRow } from "../../platform/http/wire.ts";
import type { Snooze } from "./schema.ts";

export type SnoozeRow = StoredRow<Snooze> & { org_id: string };

const columns = (sql: Db) => sql`id, org_id, scope, until, reason, created_by, created_at`;

export async function insertSnooze(sql: Db, row: SnoozeRow): Promise<void> {
  await sql`
    insert into snoozes (id, org_id, scope, until, reason, created_by, created_at)
    values (${row.id}, ${row.org_id}, ${sql.json(row.scope)}, ${row.until}, ${row.reason}, ${sql.json(row.created_by)},
      ${row.created_at})`;
}

const lasting = (sql: Db, orgId: string, at: Date) => sql`from snoozes where org_id = ${orgId} and until > ${at}`;

/** Snoozes that last at `at`, the next to end first. */
export async function selectSnoozes(
  sql: Db,
  orgId: string,
  at: Date,
  { limit, offset }: Paging,
): Promise<Listed<SnoozeRow>> {
  const from = lasting(sql, orgId, at);
  const part = sql<SnoozeRow[]>`select ${columns(sql)} ${from} order by until, id limit ${limit} offset ${offset}`;
  return await listed(sql, from, part);
}

/** Waits until no other transaction adds a snooze to the organisation. */
export async function lockSnoozes(sql: Db, orgId: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(${lockSpaces.snoozes}, hashtext(${orgId}))`;
}

export const countSnoozes = async (sql: Db, orgId: string, at: Date): Promise<number> =>
  await countOf(sql, lasting(sql, orgId, at));

export async function deleteSnooze(sql: Db, orgId: string, id: string): Promise<SnoozeRow | null> {
  return await firstOf(sql<SnoozeRow[]>`
    delete from snoozes where org_id = ${orgId} and id = ${id} returning ${columns(sql)}`);
}

/** The names of the monitors of the organisation among `ids`. */
export async function selectTargets(sql: Db, orgId: string, ids: readonly string[]): Promise<Map<string, string>> {
  const rows = await sql<{ id: string; name: string }[]>`
    select id, name from targets where org_id = ${orgId} and id = any(${arrayOf(ids)}::uuid[])`;
  return new Map(rows.map(({ id, name }) => [id, name]));
}

/** Drops snoozes of an organisation that ended before `at`. */
export async function dropEnded(sql: Db, orgId: string, at: Date): Promise<void> {
  await sql`delete from snoozes where org_id = ${orgId} and until <= ${at}`;
}
