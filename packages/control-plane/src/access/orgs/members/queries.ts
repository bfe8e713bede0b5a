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
import type { Invitation, Member, Role } from "../schema.ts";

/** False when the user is already a member. */
export async function insertMembership(
  sql: Db,
  row: { org_id: string; user_id: string; role: Role; created_at: Date },
): Promise<boolean> {
  return await affectsRow(sql`insert into memberships ${sql(row)} on conflict (org_id, user_id) do nothing`);
}

export type MemberRow = StoredRow<Member>;

const memberColumns = (sql: Db) => sql`u.id as user_id, u.email, u.name, m.role, m.created_at as joined_at`;

/** Oldest member first. */
export async function selectMembers(sql: Db, orgId: string, { limit, offset }: Paging): Promise<Listed<MemberRow>> {
  const from = sql`from memberships m join users u on u.id = m.user_id where m.org_id = ${orgId}`;
  const part = sql<MemberRow[]>`
    select ${memberColumns(sql)} ${from} order by m.created_at, u.id limit ${limit} offset ${offset}`;
  return await listed(sql, from, part);
}

export const countMembers = async (sql: Db, orgId: string): Promise<number> =>
  await countOf(sql, sql`from memberships where org_id = ${orgId}`);

export async function selectMember(sql: Db, orgId: string, userId: string): Promise<MemberRow | null> {
  return await firstOf(sql<MemberRow[]>`
    select ${memberColumns(sql)} from memberships m join users u on u.id = m.user_id
    where m.org_id = ${orgId} and m.user_id = ${userId}`);
}

export async function isMember(sql: Db, orgId: string, email: string): Promise<boolean> {
  return await anyOf(
    sql,
    sql`from memberships m join users u on u.id = m.user_id where m.org_id = ${orgId} and u.email = ${email}`,
  );
}

export const countOwners = async (sql: Db, orgId: string): Promise<number> =>
  await countOf(sql, sql`from memberships where org_id = ${orgId} and role = 'owner'`);

export async function updateRole(sql: Db, orgId: string, userId: string, role: Role): Promise<void> {
  await sql`update memberships set role = ${role} where org_id = ${orgId} and user_id = ${userId}`;
}

/** True for a member who came by groups of an identity provider. */
export const cameByGroups = async (sql: Db, orgId: string, userId: string): Promise<boolean> =>
  await anyOf(sql, sql`from memberships where org_id = ${orgId} and user_id = ${userId} and by_groups`);

/** Marks a member as one who came by groups. */
export async function markByGroups(sql: Db, orgId: string, userId: string): Promise<void> {
  await sql`
    update memberships set by_groups = true where org_id = ${orgId} and user_id = ${userId} and not by_groups`;
}

export async function deleteMembership(sql: Db, orgId: string, userId: string): Promise<void> {
  await sql`delete from memberships where org_id = ${orgId} and user_id = ${userId}`;
}

export type InvitationRow = StoredRow<Invitation> & { org_id: string };

const invitationColumns = (sql: Db) =>
  sql`
    i.id, i.org_id, i.email, i.role, (select u.email from users u where u.id = i.invited_by) as invited_by,
    i.created_at, i.expires_at`;
const pending = (sql: Db, now: Date) => sql`i.accepted_at is null and i.revoked_at is null and i.expires_at > ${now}`;

export async function insertInvitation(sql: Db, row: InvitationRow & { code_hash: Buffer }): Promise<void> {
  await sql`insert into invitations ${sql(row)}`;
}

const pendingOf = (sql: Db, orgId: string, now: Date) =>
  sql`from invitations i where i.org_id = ${orgId} and ${pending(sql, now)}`;

/** Newest first. */
export async function selectInvitations(
  sql: Db,
  orgId: string,
  now: Date,
  { limit, offset }: Paging,
): Promise<Listed<InvitationRow>> {
  const from = pendingOf(sql, orgId, now);
  const part = sql<InvitationRow[]>`
    select ${invitationColumns(sql)} ${from} order by i.id desc limit ${limit} offset ${offset}`;
  return await listed(sql, from, part);
}

export const countInvitations = async (sql: Db, orgId: string, now: Date): Promise<number> =>
  await countOf(sql, pendingOf(sql, orgId, now));

export const isInvited = async (sql: Db, orgId: string, email: string, now: Date): Promise<boolean> =>
  await anyOf(sql, sql`from invitations i where i.org_id = ${orgId} and i.email = ${email} and ${pending(sql, now)}`);

export async function revokeInvitation(sql: Db, orgId: string, id: string, now: Date): Promise<InvitationRow | null> {
  return await firstOf(sql<InvitationRow[]>`
    update invitations i set revoked_at = ${now} where i.org_id = ${orgId} and i.id = ${id} and ${pending(sql, now)}
    returning ${invitationColumns(sql)}`);
}

/** A pending invitation to a live organisation. */
export async function selectInvitation(sql: Db, hash: Buffer, now: Date) {
  return await firstOf(sql<(InvitationRow & { org_name: string })[]>`
    select ${invitationColumns(sql)}, o.name as org_name from invitations i
    join orgs o on o.id = i.org_id and o.deleted_at is null where i.code_hash = ${hash} and ${pending(sql, now)}`);
}

/** The newest pending invitation of one of these addresses to a live organisation; earlier addresses win. */
export async function selectInvitationTo(sql: Db, emails: readonly string[], now: Date): Promise<InvitationRow | null> {
  return await firstOf(sql<InvitationRow[]>`
    select ${invitationColumns(sql)} from invitations i join orgs o on o.id = i.org_id and o.deleted_at is null
    where i.email = any(${[...emails]}::text[]) and ${pending(sql, now)}
    order by array_position(${[...emails]}::text[], i.email), i.id desc limit 1`);
}

/** Consumes an invitation. Exactly one of two callers with one code gets true. */
export async function takeInvitation(sql: Db, id: string, now: Date): Promise<boolean> {
  return await affectsRow(sql`
    update invitations i set accepted_at = ${now} where i.id = ${id} and ${pending(sql, now)}`);
}
