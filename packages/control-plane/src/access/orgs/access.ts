import { AppError } from "@statusmesh/shared/errors";
import { isId } from "@statusmesh/shared/ids";
import { type Ctx, isReadScope, requireOwner, requireScope } from "../../platform/context.ts";
import * as queries from "./queries.ts";

export const notFound = () => new AppError("ORG_NOT_FOUND", "You belong to no such organisation.");

/**
 * The caller's membership in the organisation of a path, which may differ from the one that the request acts in. A
 * token bound to another organisation has no access. Throws ORG_NOT_FOUND.
 */
export async function inOrg(ctx: Ctx, orgId: string, deletedToo = false): Promise<Ctx> {
  const through = { token: tokenOf(ctx), session: ctx.actor.type === "session" ? ctx.actor.id : null };
  const found = isId(orgId) ? await queries.selectRole(ctx.sql, ctx.userId, orgId, through, deletedToo) : null;
  if (found === null) throw notFound();
  const { role, lacks_second_factor: lacksSecondFactor } = found;
  const scopes = lacksSecondFactor ? new Set([...ctx.scopes].filter(isReadScope)) : ctx.scopes;
  return { ...ctx, orgId, role, scopes, lacksSecondFactor };
}

/** {@link inOrg} for owners. */
export async function asOwner(ctx: Ctx, orgId: string, deletedToo = false): Promise<Ctx> {
  const own = await inOrg(ctx, orgId, deletedToo);
  requireOwner(own);
  return own;
}

/** {@link asOwner} for a change: a session needs the second factor that the organisation may require. */
export async function asChangingOwner(ctx: Ctx, orgId: string, deletedToo = false): Promise<Ctx> {
  const own = await asOwner(ctx, orgId, deletedToo);
  requireScope(own, "org:write");
  return own;
}

/** The token of the caller; null for a session. */
export const tokenOf = (ctx: Ctx): string | null => (ctx.actor.type === "token" ? ctx.actor.id : null);
