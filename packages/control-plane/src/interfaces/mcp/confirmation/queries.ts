import { affectsRow, type Db, columnOf, valueOf } from "../../../platform/db/client/sql.ts";

/** failed: the client answered with an error; withdrawn: the client cancelled the call. */
export type Answer = "accepted" | "declined" | "dismissed" | "failed" | "withdrawn";

/** Locks the session until the end of the transaction, against a second confirmation; false when it has ended. */
export async function lockSession(sql: Db, sessionId: string): Promise<boolean> {
  return await affectsRow(sql`select 1 from mcp_sessions where id = ${sessionId} for no key update`);
}

/** Adds a confirmation unless `max` of its session are open. */
export async function insertConfirmation(
  sql: Db,
  row: { id: string; sessionId: string; requestId: string; now: Date; expiresAt: Date },
  max: number,
): Promise<boolean> {
  return await affectsRow(sql`
    insert into mcp_elicitations (id, session_id, request_id, expires_at)
    select ${row.id}, ${row.sessionId}, ${row.requestId}, ${row.expiresAt}
    where (select count(*) from mcp_elicitations
      where session_id = ${row.sessionId} and answer is null and expires_at > ${row.now}) < ${max}`);
}

/** Answers an open confirmation of the session. The first answer counts; false for any other. */
export async function answerOpen(sql: Db, sessionId: string, id: string, answer: Answer, now: Date): Promise<boolean> {
  return await affectsRow(sql`
    update mcp_elicitations set answer = ${answer}
    where id = ${id} and session_id = ${sessionId} and answer is null and expires_at > ${now}`);
}

/** Withdraws the open confirmations of a call. Returns their ids. */
export async function withdrawCall(sql: Db, sessionId: string, requestId: string): Promise<string[]> {
  return await columnOf<string>(sql`
    update mcp_elicitations set answer = 'withdrawn'
    where session_id = ${sessionId} and request_id = ${requestId} and answer is null returning id`);
}

/** The answer of a confirmation; `open` while there is none, null when its session has ended. */
export async function selectAnswer(sql: Db, id: string): Promise<Answer | "open" | null> {
  const [row] = await sql<{ answer: Answer | null }[]>`select answer from mcp_elicitations where id = ${id}`;
  return row === undefined ? null : (row.answer ?? "open");
}

/** Deletes a confirmation and returns its answer; later answers find no row. */
export async function closeConfirmation(sql: Db, id: string): Promise<Answer | null> {
  return await valueOf<Answer | null>(sql`delete from mcp_elicitations where id = ${id} returning answer`);
}

/** Confirmations of killed processes. */
export async function deleteExpiredConfirmations(sql: Db, before: Date): Promise<void> {
  await sql`delete from mcp_elicitations where expires_at < ${before}`;
}
