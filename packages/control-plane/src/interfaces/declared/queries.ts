import { arrayOf, type Db, firstOf, valueOf } from "../../platform/db/client/sql.ts";
import type { Section } from "@statusmesh/shared/declared/files";
import type { Managed } from "../../platform/db/managed-queries.ts";
import type { SourceReport, Summary } from "./schema.ts";
import type { Mistake } from "@statusmesh/shared/declared/position";

/** Who applied, as the audit log has it. */
export interface AppliedBy {
  readonly type: string;
  readonly id: string | null;
  readonly name: string | null;
}

export interface ProjectRow {
  project: string;
  applied_at: Date | null;
  applied_by: AppliedBy | null;
  summary: Summary | null;
  /** What discovery reported last; null for a project of files. */
  source: ReportedSource | null;
}

/** What a run of discovery has applied, and when. */
export type Applied = NonNullable<SourceReport["applied"]> & { at: string };

export type ReportedSource = Required<
  Omit<SourceReport, "project" | "writer" | "release" | "unchanged" | "applied">
> & {
  at: string;
  applied?: Applied;
};

/** Locks a project against another apply until the transaction ends; makes it where it is new. */
export async function lockProject(sql: Db, orgId: string, project: string): Promise<void> {
  await sql`
    insert into declared_projects (org_id, project) values (${orgId}, ${project}) on conflict do nothing`;
  await sql`select 1 from declared_projects where org_id = ${orgId} and project = ${project} for update`;
}

export async function storeApply(
  sql: Db,
  orgId: string,
  row: Omit<ProjectRow, "applied_by" | "source"> & {
    applied_by: Omit<AppliedBy, "name"> & { name?: string };
    userId: string | null;
  },
): Promise<void> {
  await sql`
    update declared_projects set applied_at = ${row.applied_at}, summary = ${sql.json(row.summary as never)},
      applied_by = jsonb_build_object('name', (select u.email from users u where u.id = ${row.userId}))
        || ${sql.json(row.applied_by as never)}::jsonb
    where org_id = ${orgId} and project = ${row.project}`;
}

export async function selectProjects(sql: Db, orgId: string): Promise<ProjectRow[]> {
  return await sql<ProjectRow[]>`
    select project, applied_at, applied_by, summary, source from declared_projects
    where org_id = ${orgId} order by project`;
}

/** The writer whose lease of the project lasts; null for none. */
export async function selectWriter(sql: Db, orgId: string, project: string, at: Date): Promise<string | null> {
  const row = await firstOf(sql<{ writer: string }[]>`
    select writer from declared_projects
    where org_id = ${orgId} and project = ${project} and leased_until > ${at}`);
  return row?.writer ?? null;
}

/** Gives a writer the project until `until`; null ends its lease. */
export async function storeLease(
  sql: Db,
  orgId: string,
  { project, writer, until }: { project: string; writer: string; until: Date | null },
): Promise<void> {
  await sql`
    update declared_projects set writer = ${writer}, leased_until = ${until}
    where org_id = ${orgId} and project = ${project}`;
}

export async function storeSource(sql: Db, orgId: string, project: string, source: ReportedSource): Promise<void> {
  await sql`
    update declared_projects set source = ${sql.json(source as never)}
    where org_id = ${orgId} and project = ${project}`;
}

/** The report of the last run; null without one. */
export async function selectSource(sql: Db, orgId: string, project: string): Promise<ReportedSource | null> {
  return await valueOf<ReportedSource | null>(sql`
    select source from declared_projects where org_id = ${orgId} and project = ${project}`);
}

/** Monitors of a project: how many there are, and whether each is as the last apply left it and was found by it. */
export async function selectCurrent(
  sql: Db,
  orgId: string,
  project: string,
): Promise<{ count: number; current: boolean }> {
  return (await firstOf(sql<{ count: number; current: boolean }[]>`
    select count(*)::int as count,
      coalesce(bool_and(
        updated_at <= (managed ->> 'at')::timestamptz and managed ->> 'orphaned_since' is null), true) as current
    from targets where org_id = ${orgId} and managed ->> 'project' = ${project}`))!;
}

/** Sources of discovery of all organisations, for the operator. */
export async function selectSources(sql: Db) {
  return await sql<{ project: string; source: ReportedSource; leased_until: Date | null }[]>`
    select project, source, leased_until from declared_projects where source is not null order by org_id, project`;
}

/** Everything that files can declare, declared or not. */
const objects = (sql: Db, orgId: string) => sql`
  select 'monitors' as section, id, name, managed, withheld, updated_at from targets where org_id = ${orgId}
  union all select 'channels', id, name, managed, withheld, updated_at from channels where org_id = ${orgId}
  union all select 'status_pages', id, name, managed, withheld, updated_at from status_pages where org_id = ${orgId}
  union all select 'maintenance', id, title, managed, withheld, updated_at from maintenance_windows
  where org_id = ${orgId}`;

/** Fields whose values came from variables, of objects that a project declared before, by the id of the object. */
export async function selectWithheld(
  sql: Db,
  orgId: string,
  ids: readonly string[],
): Promise<Map<string, readonly string[]>> {
  if (ids.length === 0) return new Map();
  const rows = await sql<{ id: string; withheld: string[] }[]>`
    select id, withheld from (${objects(sql, orgId)}) o
    where withheld is not null and id = any(${arrayOf(ids)}::uuid[])`;
  return new Map(rows.map(({ id, withheld }) => [id, withheld]));
}

/** Number of objects by project and kind. */
export async function countManaged(sql: Db, orgId: string) {
  return await sql<{ project: string; section: Section; count: number }[]>`
    select managed ->> 'project' as project, section, count(*)::int as count from (${objects(sql, orgId)}) o
    where managed is not null group by project, section`;
}

export interface DriftRow {
  section: Section;
  id: string;
  name: string;
  managed: Managed;
  updated_at: Date;
  /** How many there are regardless of the limit. */
  total: number;
}

/** Declared objects that were written after their last apply, newest first. An apply gives both times one value. */
export async function selectDrift(sql: Db, orgId: string, limit: number): Promise<DriftRow[]> {
  return await sql<DriftRow[]>`
    select section, id, name, managed, updated_at, count(*) over ()::int as total from (${objects(sql, orgId)}) o
    where managed is not null and updated_at > (managed ->> 'at')::timestamptz
    order by updated_at desc, id limit ${limit}`;
}

/** The object of a project under a key. */
export async function selectKey(
  sql: Db,
  orgId: string,
  section: Section,
  { project, key }: { project: string; key: string },
): Promise<string | null> {
  return await valueOf<string | null>(sql`
    select id from (${objects(sql, orgId)}) o
    where section = ${section} and managed ->> 'project' = ${project} and managed ->> 'key' = ${key}`);
}

/** Actor of `declared.path`: the action of its writes in the audit log, and who applied. */
export const fileActor = "declared files";

/** The server's own files as a replica read them last. */
export interface FileRow {
  org_id: string | null;
  path: string;
  ok: boolean;
  error: Mistake | null;
  read_at: Date;
  applied_at: Date | null;
}

export async function selectFile(sql: Db): Promise<FileRow | null> {
  return await firstOf(sql<FileRow[]>`select org_id, path, ok, error, read_at, applied_at from declared_files`);
}

/** Stores what was read; `applied`: the files have changed something. */
export async function storeFile(
  sql: Db,
  { org_id, path, ok, error, read_at }: Omit<FileRow, "applied_at">,
  applied: boolean,
): Promise<void> {
  const json = error === null ? null : sql.json(error as never);
  await sql`
    insert into declared_files as f (org_id, path, ok, error, read_at, applied_at)
    values (${org_id}, ${path}, ${ok}, ${json}, ${read_at}, ${ok ? read_at : null})
    on conflict (only_row) do update set org_id = excluded.org_id, path = excluded.path, ok = excluded.ok,
      error = excluded.error, read_at = excluded.read_at,
      applied_at = case when f.path = excluded.path and not ${applied} and (f.applied_at is not null or not excluded.ok)
        then f.applied_at else excluded.applied_at end`;
}
