import { record } from "../../audit/service.ts";
import { type Attested, linkTo, personWith } from "../../auth/identities/service.ts";
import type { Caller } from "../../auth/passwords/service.ts";
import { endAccess } from "../../auth/sessions/service.ts";
import { endConnectionsOf } from "../../oauth/service.ts";
import { asSystem, type System } from "../../../platform/context.ts";
import { roomForMember } from "./invitations.ts";
import * as queries from "./queries.ts";
import { lockOrg, selectFirstOrg } from "../queries.ts";
import type { Role } from "../schema.ts";

/**
 * Has the membership of a person follow the groups at the identity provider, in the first organisation of the
 * installation: the one whose operator has set up the provider. A role makes the person a member with that role, whose
 * account is the linked one, or that of a verified address, or a new one. Without a role a member who came by groups
 * leaves, with sessions and tokens; others stay. The last owner stays one. Part of the caller's transaction. Throws
 * QUOTA_EXCEEDED.
 */
export async function followGroups(
  tx: System,
  person: Attested & { role: Role | null },
  caller: Caller,
  action: string,
): Promise<void> {
  const { sql } = tx;
  const orgId = await selectFirstOrg(sql);
  if (orgId === null) return;
  await lockOrg(sql, orgId);
  const { role } = person;
  const known = await personWith(tx, person, { create: role !== null });
  if (known === null) return;
  const { userId, email } = known;
  const before = await queries.selectMember(sql, orgId, userId);
  const isLastOwner = before?.role === "owner" && (await queries.countOwners(sql, orgId)) === 1;
  const trail = asSystem(tx, orgId, action, { userId, ip: caller.ip, userAgent: caller.userAgent });
  if (role === null) {
    if (before === null || !(await queries.cameByGroups(sql, orgId, userId)) || isLastOwner) return;
    await queries.deleteMembership(sql, orgId, userId);
    await endAccess(tx, userId, orgId);
    await endConnectionsOf(tx, userId, orgId);
    await record(trail, { resourceId: userId, before: { email, role: before.role } });
    return;
  }
  await linkTo(tx, userId, person, email);
  if (before === null) {
    const current = await queries.countMembers(sql, orgId);
    await queries.insertMembership(sql, { org_id: orgId, user_id: userId, role, created_at: new Date(tx.clock.now()) });
    await roomForMember(tx, orgId, current);
    await record(trail, { resourceId: userId, after: { email, role } });
  } else if (before.role !== role && !isLastOwner) {
    await queries.updateRole(sql, orgId, userId, role);
    await record(trail, { resourceId: userId, before: { email, role: before.role }, after: { email, role } });
  }
  await queries.markByGroups(sql, orgId, userId);
}
