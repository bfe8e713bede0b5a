import { type Db, firstOf } from "../../platform/db/client/sql.ts";

export interface FlowRow {
  state_hash: Buffer;
  browser_hash: Buffer;
  provider: string;
  return_to: string;
  for_reader: boolean;
  expires_at: Date;
}

export async function insertFlow(sql: Db, row: FlowRow): Promise<void> {
  await sql`insert into sign_in_flows ${sql(row)}`;
}

/**
 * Consumes a flow, for the browser that started it. Exactly one of two callers gets it.
 * Another browser consumes nothing.
 */
export async function takeFlow(
  sql: Db,
  provider: string,
  stateHash: Buffer,
  browserHash: Buffer,
  now: Date,
): Promise<Pick<FlowRow, "return_to" | "for_reader"> | null> {
  return await firstOf(sql<Pick<FlowRow, "return_to" | "for_reader">[]>`
    delete from sign_in_flows
    where state_hash = ${stateHash} and browser_hash = ${browserHash} and provider = ${provider} and expires_at > ${now}
    returning return_to, for_reader`);
}

export async function deleteFlowsOver(sql: Db, at: Date): Promise<void> {
  await sql`delete from sign_in_flows where expires_at <= ${at}`;
}

export interface ReaderSessionRow {
  id: string;
  secret_hash: Buffer;
  issuer: string;
  subject: string;
  groups: readonly string[];
  expires_at: Date;
}

/** Adds a reader session; earlier ones of the person have their present groups from now on. */
export async function insertReaderSession(sql: Db, row: ReaderSessionRow): Promise<void> {
  await sql`
    update reader_sessions set groups = ${[...row.groups]}::text[]
    where issuer = ${row.issuer} and subject = ${row.subject}`;
  await sql`
    insert into reader_sessions (id, secret_hash, issuer, subject, groups, expires_at)
    values (${row.id}, ${row.secret_hash}, ${row.issuer}, ${row.subject}, ${[...row.groups]}::text[],
      ${row.expires_at})`;
}

/** The live reader session with this hash. */
export async function selectReaderSession(sql: Db, hash: Buffer, now: Date) {
  return await firstOf(sql<Pick<ReaderSessionRow, "id" | "groups">[]>`
    select id, groups from reader_sessions where secret_hash = ${hash} and expires_at > ${now}`);
}

export async function deleteReaderSessionsOver(sql: Db, at: Date): Promise<void> {
  await sql`delete from reader_sessions where expires_at <= ${at}`;
}
