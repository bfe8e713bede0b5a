import { AppError } from "@statusmesh/shared/errors";
import { isId } from "@statusmesh/shared/ids";
import { differences, record } from "../../audit/service.ts";
import { endAccess } from "../../auth/sessions/service.ts";
import { requireFreshSession } from "../../auth/second-factor/service.ts";
import { endConnectionsOf } from "../../oauth/service.ts";
import { type Ctx, inTransaction, requireEveryScope, requireOwner, requireScope } from "../../../platform/context.ts";
import type { Paging } from "../../../platform/db/client/sql.ts";
import { isoTimes, type Page, pageOf } from "../../../platform/http/wire.ts";
import { asChangingOwner, inOrg } from "../access.ts";
import * as queries from "./queries.ts";
import { lockOrg } from "../queries.ts";
import type { Member, Role } from "../schema.ts";

/** The members of the organisation, oldest first. */
export async function listMembers(ctx: Ctx, orgId: string, paging: Paging): Promise<Page<Member>> {
  requireScope(ctx, "org:read");
  const own = await inOrg(ctx, orgId);
  return pageOf(await queries.selectMembers(own.sql, orgId, paging), paging, isoTimes);
}

/** Changes the role of a member. For owners. Throws MEMBER_NOT_FOUND, LAST_OWNER, FRESH_SIGN_IN_REQUIRED. */
export async function updateMember(ctx: Ctx, orgId: string, userId: string, role: Role): Promise<Member> {
  requireScope(ctx, "org:write");
  requireEveryScope(ctx);
  return await inTransaction(ctx, async (tx) => {
    const own = await asChangingOwner(tx, orgId);
    if (role === "owner") await requireFreshSession(own);
    const before = await lockMember(own, userId);
    const after = { ...before, role };
    if (before.role === "owner" && role !== "owner") await notTheLast(own);
    await queries.updateRole(tx.sql, orgId, userId, role);
    await record(own, { resourceId: userId, ...differences({ before: auditable(before), after: auditable(after) }) });
    return isoTimes(after);
  });
}

/** Removes a member; sessions and tokens fail there from the next request on. For owners, and for the member. */
export async function removeMember(ctx: Ctx, orgId: string, userId: string): Promise<void> {
  requireScope(ctx, "org:write");
  requireEveryScope(ctx);
  await inTransaction(ctx, async (tx) => {
    const own = await inOrg(tx, orgId);
    if (userId !== ctx.userId) {
      requireOwner(own);
      requireScope(own, "org:write");
    }
    const before = await lockMember(own, userId);
    if (before.role === "owner") await notTheLast(own);
    await queries.deleteMembership(tx.sql, orgId, userId);
    await endAccess(tx, userId, orgId);
    await endConnectionsOf(tx, userId, orgId);
    await record(own, { resourceId: userId, before: auditable(before) });
  });
}

/** Reads a member under the lock of the organisation, so that concurrent removals of owners see each other. */
async function lockMember(own: Ctx, userId: string): Promise<queries.MemberRow> {
  await lockOrg(own.sql, own.orgId);
  const row = isId(userId) ? await queries.selectMember(own.sql, own.orgId, userId) : null;
  if (row === null) throw new AppError("MEMBER_NOT_FOUND", "Member not found.");
  return row;
}

async function notTheLast(own: Ctx): Promise<void> {
  if ((await queries.countOwners(own.sql, own.orgId)) > 1) return;
  throw new AppError(
    "LAST_OWNER",
    "This is the only owner. Make another member an owner first, or delete the organisation.",
  );
}

const auditable = ({ email, role }: queries.MemberRow) => ({ email, role });
