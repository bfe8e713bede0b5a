import { type Db, valueOf } from "../../platform/db/sql.ts";

export interface FlowRow {
  state_hash: Buffer;
  browser_hash: Buffer;
  provider: string;
  return_to: string;
  expires_at: Date;
}

export async function insertFlow(sql: Db, row: FlowRow): Promise<void> {
  await sql`insert into sign_in_flows ${sql(row)}`;
}

/**
 * Consumes a flow, for the browser that started it; returns its `return_to`. Exactly one of two callers gets it.
 * Another browser consumes nothing.
 */
export async function takeFlow(
  sql: Db,
  provider: string,
  stateHash: Buffer,
  browserHash: Buffer,
  now: Date,
): Promise<string | null> {
  return await valueOf<string | null>(sql`
    delete from sign_in_flows
    where state_hash = ${stateHash} and browser_hash = ${browserHash} and provider = ${provider} and expires_at > ${now}
    returning return_to`);
}

export async function deleteFlowsOver(sql: Db, at: Date): Promise<void> {
  await sql`delete from sign_in_flows where expires_at <= ${at}`;
}
