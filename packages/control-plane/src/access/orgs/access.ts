import { AppError } from "@statusmesh/shared/errors";
import { isId } from "@statusmesh/shared/ids";
import { type Ctx, requireOwner } from "../../platform/context.ts";
import * as queries from "./queries.ts";

export const notFound = () => new AppError("ORG_NOT_FOUND", "You belong to no such organisation.");

/**
 * The caller's membership in the organisation of a path, which may differ from the one that the request acts in. A
 * token bound to another organisation has no access. Throws ORG_NOT_FOUND.
 */
export async function inOrg(ctx: Ctx, orgId: string, deletedToo = false): Promise<Ctx> {
  const role = isId(orgId) ? await queries.selectRole(ctx.sql, ctx.userId, orgId, tokenOf(ctx), deletedToo) : null;
  if (role === null) throw notFound();
  return { ...ctx, orgId, role };
}

/** {@link inOrg} for owners. */
export async function asOwner(ctx: Ctx, orgId: string, deletedToo = false): Promise<Ctx> {
  const own = await inOrg(ctx, orgId, deletedToo);
  requireOwner(own);
  return own;
}

/** The token of the caller; null for a session. */
export const tokenOf = (ctx: Ctx): string | null => (ctx.actor.type === "token" ? ctx.actor.id : null);
