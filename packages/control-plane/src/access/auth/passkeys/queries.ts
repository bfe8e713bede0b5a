import {
  affectsRow,
  anyOf,
  countOf,
  type Db,
  firstOf,
  type Listed,
  listed,
  type Paging,
} from "../../../platform/db/client/sql.ts";
import type { StoredRow } from "../../../platform/http/wire.ts";
import type { Passkey } from "./schema.ts";

export type PasskeyRow = StoredRow<Passkey>;

/** A passkey with what verifies its signatures. */
export interface CredentialRow extends PasskeyRow {
  user_id: string;
  rp_id: string;
  public_key: Buffer;
  counter: number;
}

/** The passkey with this credential id. A host that has changed back finds its passkeys again. */
export async function selectCredential(sql: Db, credentialId: Buffer, rpId: string): Promise<CredentialRow | null> {
  return await firstOf(sql<CredentialRow[]>`
    select id, user_id, rp_id, name, public_key, counter, created_at, last_used_at, suspended_at
    from passkeys where credential_id = ${credentialId} and rp_id = ${rpId}`);
}

/** False where the credential id is known already. */
export async function insertPasskey(sql: Db, row: CredentialRow & { credential_id: Buffer }): Promise<boolean> {
  return await affectsRow(sql`insert into passkeys ${sql(row)} on conflict (credential_id) do nothing`);
}

export async function selectPasskeys(sql: Db, userId: string, { limit, offset }: Paging): Promise<Listed<PasskeyRow>> {
  const from = sql`from passkeys where user_id = ${userId}`;
  const part = sql<PasskeyRow[]>`
    select id, name, rp_id, created_at, last_used_at, suspended_at ${from} order by id limit ${limit} offset ${offset}`;
  return await listed(sql, from, part);
}

/** Credential ids of a user: a device that has one of them adds no second one. */
export async function selectCredentialIds(sql: Db, userId: string, rpId: string): Promise<Buffer[]> {
  const rows = await sql<{ credential_id: Buffer }[]>`
    select credential_id from passkeys where user_id = ${userId} and rp_id = ${rpId} order by id`;
  return rows.map(({ credential_id }) => credential_id);
}

export const countPasskeys = async (sql: Db, userId: string): Promise<number> =>
  await countOf(sql, sql`from passkeys where user_id = ${userId}`);

/** True where the user has a passkey that works at this host. */
export const hasUsablePasskey = async (sql: Db, userId: string, rpId: string): Promise<boolean> =>
  await anyOf(sql, sql`from passkeys where user_id = ${userId} and rp_id = ${rpId} and suspended_at is null`);

/** True where a member of an organisation has a passkey that works at this host. */
export const anyUsablePasskey = async (sql: Db, rpId: string): Promise<boolean> =>
  await anyOf(
    sql,
    sql`from passkeys p where p.rp_id = ${rpId} and p.suspended_at is null and exists (
      select 1 from memberships m where m.user_id = p.user_id)`,
  );

/** Hosts other than this one that passkeys were registered for, with their number. */
export async function selectOtherHosts(sql: Db, rpId: string | null): Promise<{ rp_id: string; passkeys: number }[]> {
  return await sql<{ rp_id: string; passkeys: number }[]>`
    select rp_id, count(*)::integer as passkeys from passkeys
    where rp_id is distinct from ${rpId}::text group by rp_id order by rp_id`;
}

export async function updateUse(sql: Db, id: string, counter: number, now: Date): Promise<void> {
  await sql`update passkeys set counter = ${counter}, last_used_at = ${now} where id = ${id}`;
}

export async function suspendPasskey(sql: Db, id: string, now: Date): Promise<void> {
  await sql`update passkeys set suspended_at = ${now} where id = ${id}`;
}

/** The row before and after the new name; null where the user has no such passkey. */
export async function renamePasskey(
  sql: Db,
  userId: string,
  id: string,
  name: string,
): Promise<(PasskeyRow & { old_name: string }) | null> {
  return await firstOf(sql<(PasskeyRow & { old_name: string })[]>`
    with old as (select id, name from passkeys where id = ${id} and user_id = ${userId} for update)
    update passkeys p set name = ${name} from old where p.id = old.id
    returning p.id, p.name, p.rp_id, p.created_at, p.last_used_at, p.suspended_at, old.name as old_name`);
}

export async function deletePasskey(sql: Db, userId: string, id: string): Promise<PasskeyRow | null> {
  return await firstOf(sql<PasskeyRow[]>`
    delete from passkeys where user_id = ${userId} and id = ${id}
    returning id, name, rp_id, created_at, last_used_at, suspended_at`);
}

export async function deletePasskeysOf(sql: Db, userId: string): Promise<void> {
  await sql`delete from passkeys where user_id = ${userId}`;
}

/** True for the first caller with this challenge. */
export async function insertUsedChallenge(sql: Db, hash: Buffer, expiresAt: Date): Promise<boolean> {
  return await affectsRow(sql`
    insert into used_challenges (challenge_hash, expires_at) values (${hash}, ${expiresAt})
    on conflict (challenge_hash) do nothing`);
}

/** Deletes challenges that have expired. */
export async function deleteUsedChallenges(sql: Db, now: Date): Promise<void> {
  await sql`delete from used_challenges where expires_at <= ${now}`;
}
