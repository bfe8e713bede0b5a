import {
  affectsRow,
  countOf,
  type Db,
  firstOf,
  type Listed,
  listed,
  type Paging,
} from "../../platform/db/client/sql.ts";
import type { StoredRow } from "../../platform/http/wire.ts";
import type { UpdateTemplate } from "./schema.ts";

export type TemplateRow = StoredRow<UpdateTemplate> & { org_id: string };

const columns = (sql: Db) => sql`id, org_id, kind, name, phase, title, body, created_at, updated_at`;

/** False when the organisation has a template of this kind with the name. */
export async function insertTemplate(sql: Db, row: TemplateRow): Promise<boolean> {
  return await affectsRow(sql`
    insert into update_templates (id, org_id, kind, name, phase, title, body, created_at, updated_at)
    values (${row.id}, ${row.org_id}, ${row.kind}, ${row.name}, ${row.phase}, ${row.title}, ${row.body},
      ${row.created_at}, ${row.updated_at})
    on conflict (org_id, kind, name) do nothing`);
}

/** Writes every mutable field. A taken name raises a unique violation. */
export async function updateTemplate(sql: Db, row: TemplateRow): Promise<void> {
  await sql`
    update update_templates set kind = ${row.kind}, name = ${row.name}, phase = ${row.phase}, title = ${row.title},
      body = ${row.body}, updated_at = ${row.updated_at}
    where org_id = ${row.org_id} and id = ${row.id}`;
}

export async function selectTemplate(sql: Db, orgId: string, id: string, lock = false): Promise<TemplateRow | null> {
  return await firstOf(sql<TemplateRow[]>`
    select ${columns(sql)} from update_templates where org_id = ${orgId} and id = ${id}
    ${lock ? sql`for update` : sql``}`);
}

/** Templates by name; of all kinds where `kind` is null. */
export async function selectTemplates(
  sql: Db,
  orgId: string,
  kind: string | null,
  { limit, offset }: Paging,
): Promise<Listed<TemplateRow>> {
  const from = sql`from update_templates where org_id = ${orgId} and (${kind}::text is null or kind = ${kind})`;
  const part = sql<TemplateRow[]>`
    select ${columns(sql)} ${from} order by kind, natural_key(name), name limit ${limit} offset ${offset}`;
  return await listed(sql, from, part);
}

export const countTemplates = async (sql: Db, orgId: string): Promise<number> =>
  await countOf(sql, sql`from update_templates where org_id = ${orgId}`);

export async function deleteTemplate(sql: Db, orgId: string, id: string): Promise<TemplateRow | null> {
  return await firstOf(sql<TemplateRow[]>`
    delete from update_templates where org_id = ${orgId} and id = ${id} returning ${columns(sql)}`);
}
