import { deleteInBatches, type Db, type Listed, listed, type Paging } from "../../../platform/db/client/sql.ts";
import type { Outcome } from "../schema.ts";

export interface CallRow {
  id: string;
  at: Date;
  actor_type: "mcp";
  token_id: string;
  user_id: string;
  user_email: string | null;
  org_id: string;
  app: string;
  monitor: string | null;
  tool: string;
  arguments: Record<string, unknown>;
  outcome: Outcome;
  detail: string | null;
  refused: number | null;
}

/** Adds a row; with `refused` to the row of the same token, tool and minute, where there is one. */
export async function insertCall(
  sql: Db,
  row: Omit<CallRow, "user_email" | "actor_type"> & { minute: Date | null },
): Promise<void> {
  const whole = { ...row, actor_type: "mcp", arguments: sql.json(row.arguments as never) };
  await sql`
    insert into mcp_audit ${sql(whole)}
    on conflict (token_id, tool, minute) where minute is not null
    do update set refused = mcp_audit.refused + excluded.refused`;
}

/** Newest first. */
export async function selectCalls(sql: Db, orgId: string, { limit, offset }: Paging): Promise<Listed<CallRow>> {
  const from = sql`from mcp_audit a left join users u on u.id = a.user_id where a.org_id = ${orgId}`;
  const part = sql<CallRow[]>`
    select a.id, a.at, a.actor_type, a.token_id, a.user_id, u.email as user_email, a.org_id, a.app, a.monitor,
      a.tool, a.arguments, a.outcome, a.detail, a.refused
    ${from} order by a.id desc limit ${limit} offset ${offset}`;
  return await listed(sql, from, part);
}

export async function deleteCallsBefore(sql: Db, before: Date): Promise<void> {
  await deleteInBatches(
    (limit) => sql`delete from mcp_audit where id in (select id from mcp_audit where at < ${before} limit ${limit})`,
  );
}
