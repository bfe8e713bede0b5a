import type { Db } from "../../platform/db/sql.ts";

/** The secret of the installation with this name. */
export async function selectKey(sql: Db, name: string): Promise<string> {
  const [row] = await sql<{ secret: string }[]>`select secret from mcp_keys where name = ${name}`;
  return row!.secret;
}
