import type { Mistake } from "@statusmesh/shared/declared/position";
import type { Db } from "../../platform/db/sql.ts";

/** What acts for declared.path: the action of its writes in the audit log, and who applied. */
export const fileActor = "declared files";

/** The server's own file as a replica found it last. */
export interface FileRow {
  org_id: string | null;
  path: string;
  ok: boolean;
  error: Mistake | null;
  read_at: Date;
  applied_at: Date | null;
}

export async function selectFile(sql: Db): Promise<FileRow | null> {
  const [row] = await sql<FileRow[]>`select org_id, path, ok, error, read_at, applied_at from declared_files`;
  return row ?? null;
}

/** Stores what was found; `applied`: the file has changed something. */
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
