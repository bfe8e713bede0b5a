import { type Db, deleteInBatches, firstOf, type Listed, listed, type Paging } from "../../platform/db/client/sql.ts";
import type { StoredRow } from "../../platform/http/wire.ts";
import type { AuditEntry } from "./schema.ts";

export type AuditRow = StoredRow<AuditEntry>;

export async function insertEntries(
  sql: Db,
  orgId: string,
  rows: readonly Omit<AuditRow, "user_email">[],
): Promise<void> {
  await sql`
    insert into audit_log
      (id, org_id, at, user_id, user_email, actor_type, actor_id, action, resource_id, before, after,
      write_source, ip, user_agent, trace_id)
    select g.id, ${orgId}, g.at, g.user_id, u.email, g.actor_type, g.actor_id, g.action, g.resource_id, g.before,
      g.after, g.write_source, g.ip, g.user_agent, g.trace_id
    from jsonb_to_recordset(${JSON.stringify(rows)}::text::jsonb) as g
      (id uuid, at timestamptz, user_id uuid, actor_type text, actor_id uuid, action text, resource_id text,
        before jsonb, after jsonb, write_source text, ip text, user_agent text, trace_id text)
    left join users u on u.id = g.user_id`;
}

/** A write as the log has it. */
export type WriteRow = Pick<AuditRow, "at" | "actor_type" | "actor_id" | "user_email"> & { resource_id: string };

/** The last write of each resource after its time but for some actions; a bulk request is found by its ids. */
export async function selectLastWrites(
  sql: Db,
  orgId: string,
  resources: readonly { id: string; after: Date }[],
  ignored: readonly string[],
): Promise<WriteRow[]> {
  const counts = sql`a.org_id = ${orgId} and a.at > r.after and a.action <> all (${ignored as string[]})`;
  const columns = sql`a.id, a.at, a.actor_type, a.actor_id, a.user_email`;
  return await sql<WriteRow[]>`
    select distinct on (r.id) r.id as resource_id, w.at, w.actor_type, w.actor_id, w.user_email
    from jsonb_to_recordset(${JSON.stringify(resources)}::text::jsonb) as r (id text, after timestamptz)
    cross join lateral (
      (select ${columns} from audit_log a where ${counts} and a.resource_id = r.id order by a.id desc limit 1)
      union all
      (select ${columns} from audit_log a
       where ${counts} and coalesce(a.after ->> 'page_id', a.before ->> 'page_id') = r.id order by a.id desc limit 1)
      union all
      select ${columns} from audit_log a where ${counts} and a.resource_id is null and a.after -> 'ids' ? r.id
    ) w
    order by r.id, w.id desc`;
}

export interface AuditFilter {
  userId: string | null;
  /** Also matches bulk requests that include the resource. */
  resourceId: string | null;
  /** The collection in the path: `targets`. */
  resourceType: string | null;
}

/** Ids and names of a bulk request in a list; complete rows would be half a megabyte each. */
const shownInList = 100;
const shortened = (sql: Db, column: "before" | "after") => sql`
  case when resource_id is null and jsonb_typeof(${sql(column)}) = 'object' then (
    select coalesce(jsonb_object_agg(key, case when jsonb_typeof(value) = 'array'
      then jsonb_path_query_array(value, ${`$[0 to ${shownInList - 1}]`}) else value end), '{}')
    from jsonb_each(${sql(column)}))
  else ${sql(column)} end as ${sql(column)}`;

/** Newest first. */
export async function selectEntries(
  sql: Db,
  orgId: string,
  { userId, resourceId, resourceType }: AuditFilter,
  { limit, offset }: Paging,
): Promise<Listed<AuditRow>> {
  const from = sql`
    from audit_log where org_id = ${orgId}
    ${userId === null ? sql`` : sql`and user_id::text = ${userId}`}
    ${
      resourceId === null
        ? sql``
        : sql`and (resource_id = ${resourceId} or (resource_id is null and after -> 'ids' ? ${resourceId}))`
    }
    ${resourceType === null ? sql`` : sql`and split_part(action, '/', 4) = ${resourceType}`}`;
  const part = sql<AuditRow[]>`
    select id, at, user_id, user_email, actor_type, actor_id, action, resource_id, ${shortened(sql, "before")},
      ${shortened(sql, "after")}, write_source, ip, user_agent, trace_id
    ${from} order by id desc limit ${limit} offset ${offset}`;
  return await listed(sql, from, part);
}

/** One complete row. */
export async function selectEntry(sql: Db, orgId: string, id: string): Promise<AuditRow | null> {
  return await firstOf(sql<AuditRow[]>`
    select id, at, user_id, user_email, actor_type, actor_id, action, resource_id, before, after, write_source, ip,
      user_agent, trace_id
    from audit_log where org_id = ${orgId} and id = ${id}`);
}

/** The last recorded name of each resource that has one. */
export async function selectNames(sql: Db, orgId: string, ids: readonly string[]) {
  return await sql<{ id: string; name: string }[]>`
    select distinct on (a.resource_id) a.resource_id as id, n.name from audit_log a,
      lateral (select coalesce(a.after ->> 'name', a.before ->> 'name', a.after ->> 'email', a.before ->> 'email',
        a.after ->> 'monitor_name', a.before ->> 'monitor_name') as name) n
    where a.org_id = ${orgId} and a.resource_id = any(${[...ids]}::text[]) and n.name is not null
    order by a.resource_id, a.id desc`;
}

/** Returns the number of deleted rows. */
export async function deleteEntriesBefore(sql: Db, before: Date): Promise<number> {
  return await deleteInBatches(
    (limit) => sql`delete from audit_log where id in (select id from audit_log where at < ${before} limit ${limit})`,
  );
}
