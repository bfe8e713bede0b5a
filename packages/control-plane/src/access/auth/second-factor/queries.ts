import { affectsRow, anyOf, type Db, firstOf, valueOf } from "../../../platform/db/client/sql.ts";

/** The second factor of a user: `secret` signs in, `pending_secret` waits for its first code. Both are sealed. */
export interface TotpRow {
  id: string;
  secret: string | null;
  pending_secret: string | null;
}

const columns = (sql: Db) => sql`user_id as id, secret, pending_secret`;

export const hasSecondFactor = async (sql: Db, userId: string): Promise<boolean> =>
  await anyOf(sql, sql`from totp_factors where user_id = ${userId} and secret is not null`);

export async function selectTotp(sql: Db, userId: string): Promise<TotpRow | null> {
  return await firstOf(sql<TotpRow[]>`select ${columns(sql)} from totp_factors where user_id = ${userId}`);
}

/** The secret that waits for its first code, unless it was made before `since`. */
export async function selectPending(sql: Db, userId: string, since: Date): Promise<string | null> {
  return await valueOf<string | null>(sql`
    select pending_secret from totp_factors where user_id = ${userId} and pending_at > ${since}`);
}

export async function insertPending(sql: Db, userId: string, secret: string, now: Date): Promise<void> {
  await sql`
    insert into totp_factors (user_id, pending_secret, pending_at) values (${userId}, ${secret}, ${now})
    on conflict (user_id) do update
      set pending_secret = excluded.pending_secret, pending_at = excluded.pending_at`;
}

/** Puts the pending secret in force; `step` is that of its first code. False when another one is pending by now. */
export async function confirmPending(
  sql: Db,
  userId: string,
  { pending, step, now }: { pending: string; step: number; now: Date },
): Promise<boolean> {
  return await affectsRow(sql`
    update totp_factors
    set secret = pending_secret, confirmed_at = ${now}, last_step = ${step}, pending_secret = null, pending_at = null
    where user_id = ${userId} and pending_secret = ${pending}`);
}

/**
 * Uses the code of a step: of concurrent calls with one code exactly one is true. A last step after `implausible` comes
 * from a clock that was wrong then, and refuses nothing.
 */
export async function useStep(sql: Db, userId: string, step: number, implausible: number): Promise<boolean> {
  return await affectsRow(sql`
    update totp_factors set last_step = ${step}
    where user_id = ${userId} and secret is not null and (last_step < ${step} or last_step > ${implausible})`);
}

/** No code up to this step counts any more. */
export async function useStepsUntil(sql: Db, step: number): Promise<void> {
  await sql`update totp_factors set last_step = ${step} where secret is not null`;
}

/** Deletes the second factor with its recovery codes. False when there is none. */
export async function deleteTotp(sql: Db, userId: string): Promise<boolean> {
  await sql`delete from recovery_codes where user_id = ${userId}`;
  return await affectsRow(sql`delete from totp_factors where user_id = ${userId} and secret is not null`);
}

export async function replaceRecoveryCodes(sql: Db, userId: string, hashes: readonly Buffer[]): Promise<void> {
  await sql`delete from recovery_codes where user_id = ${userId}`;
  await sql`insert into recovery_codes ${sql(hashes.map((code_hash) => ({ user_id: userId, code_hash })))}`;
}

/** Uses a recovery code: of concurrent calls exactly one is true. */
export async function useRecoveryCode(sql: Db, userId: string, hash: Buffer): Promise<boolean> {
  return await affectsRow(sql`delete from recovery_codes where user_id = ${userId} and code_hash = ${hash}`);
}

export async function countRecoveryCodes(sql: Db, userId: string): Promise<number> {
  return await valueOf<number>(sql`select count(*)::int from recovery_codes where user_id = ${userId}`);
}

/** Rows for rotate-kek, locked. */
export async function selectSealed(sql: Db, after: string | null, limit: number): Promise<TotpRow[]> {
  return await sql<TotpRow[]>`
    select ${columns(sql)} from totp_factors where ${after}::uuid is null or user_id > ${after}
    order by user_id limit ${limit} for update`;
}

export async function storeSealed(sql: Db, userId: string, row: Omit<TotpRow, "id">): Promise<void> {
  await sql`update totp_factors set ${sql(row)} where user_id = ${userId}`;
}

/** A sign-in whose first factor was right, while its code is awaited. */
export interface PendingRow {
  user_id: string;
  org_id: string;
  factor_revision: string;
  method: string;
  action: string;
  /** State for the audit log. */
  after: object | null;
  /** An identity that the completed sign-in links. */
  identity: object | null;
}

/** Keeps the newest 20 of a user. */
export async function insertPendingSignIn(
  sql: Db,
  { after, identity, ...row }: PendingRow & { browser_hash: Buffer; expires_at: Date },
): Promise<void> {
  await sql`
    insert into pending_sign_ins
    ${sql({ ...row, after: sql.json(after as never), identity: sql.json(identity as never) })}`;
  await sql`
    delete from pending_sign_ins where user_id = ${row.user_id} and browser_hash not in (
      select browser_hash from pending_sign_ins where user_id = ${row.user_id} order by expires_at desc limit 20)`;
}

export async function selectPendingSignIn(sql: Db, hash: Buffer, now: Date) {
  return await firstOf(sql<(PendingRow & { email: string })[]>`
    select p.*, u.email from pending_sign_ins p join users u on u.id = p.user_id
    where p.browser_hash = ${hash} and p.expires_at > ${now}`);
}

/** Ends a pending sign-in: of concurrent calls exactly one is true. */
export async function takePendingSignIn(sql: Db, hash: Buffer): Promise<boolean> {
  return await affectsRow(sql`delete from pending_sign_ins where browser_hash = ${hash}`);
}

export async function deletePendingSignIns(sql: Db): Promise<void> {
  await sql`delete from pending_sign_ins`;
}

export async function deletePendingBefore(sql: Db, now: Date): Promise<void> {
  await sql`delete from pending_sign_ins where expires_at <= ${now}`;
}
