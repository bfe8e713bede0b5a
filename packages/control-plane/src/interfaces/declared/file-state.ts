import { mistakeLine } from "@statusmesh/shared/declared/position";
import type { Ctx, System } from "../../platform/context.ts";
import { iso, isoOrNull } from "../../platform/http/wire.ts";
import { selectFile } from "./file-queries.ts";
import type { FileState } from "./schema.ts";

/** The server's own files as the organisation that they configure sees them; null without. */
export async function fileState({ sql, orgId, config }: Ctx): Promise<FileState | null> {
  const row = config.declared.path === "" ? null : await selectFile(sql);
  if (row === null || row.org_id !== orgId) return null;
  const { path, ok, error, applied_at: appliedAt } = row;
  const none = { file: null, line: null, column: null };
  return { path, ok, error: error === null ? null : { ...none, ...error }, applied_at: isoOrNull(appliedAt) };
}

/** The same in words, for the operator; throws what is wrong. */
export async function filesInWords({ sql, config }: Pick<System, "sql" | "config">): Promise<string> {
  const { path } = config.declared;
  const row = await selectFile(sql);
  if (row === null || row.path !== path) return `${path}: the service has not read it yet`;
  if (!row.ok) throw new Error(`${path}: ${row.error === null ? "it cannot be applied" : mistakeLine(row.error)}`);
  return `${path} is applied${row.applied_at === null ? "" : `, last at ${iso(row.applied_at)}`}`;
}
