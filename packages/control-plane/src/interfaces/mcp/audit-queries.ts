import { deleteInBatches, type Db } from "../../platform/db/sql.ts";
import type { Outcome } from "./schema.ts";

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
}

export async function insertCall(sql: Db, row: Omit<CallRow, "user_email" | "actor_type">): Promise<void> {
  await sql`
    insert into mcp_audit
      (id, at, actor_type, token_id, user_id, org_id, app, monitor, tool, arguments, outcome, detail)
    values (${row.id}, ${row.at}, 'mcp', ${row.token_id}, ${row.user_id}, ${row.org_id}, ${row.app}, ${row.monitor},
      ${row.tool}, ${sql.json(row.arguments as never)}, ${row.outcome}, ${row.detail})`;
}

/** Newest first. */
export async function selectCalls(sql: Db, orgId: string, limit: number, offset: number): Promise<CallRow[]> {
  return await sql<CallRow[]>`
    select a.id, a.at, a.actor_type, a.token_id, a.user_id, u.email as user_email, a.org_id, a.app, a.monitor,
      a.tool, a.arguments, a.outcome, a.detail
    from mcp_audit a left join users u on u.id = a.user_id
    where a.org_id = ${orgId} order by a.id desc limit ${limit} offset ${offset}`;
}

export async function countCalls(sql: Db, orgId: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`select count(*)::int as count from mcp_audit where org_id = ${orgId}`;
  return row!.count;
}

export async function deleteCallsBefore(sql: Db, before: Date): Promise<void> {
  await deleteInBatches(
    async (limit) =>
      (await sql`delete from mcp_audit where id in (select id from mcp_audit where at < ${before} limit ${limit})`)
        .count,
  );
}
