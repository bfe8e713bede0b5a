import { AppError } from "@statusmesh/shared/errors";
import { isId } from "@statusmesh/shared/ids";
import { type Ctx, requireOwner } from "../context.ts";
import * as queries from "./queries.ts";

export const notFound = () => new AppError("ORG_NOT_FOUND", "You belong to no such organisation.");

/**
 * The caller as they are in the organisation that a path names, which need not be the one that the request acts in. A
 * token that is bound to an organisation reaches only that one. Throws ORG_NOT_FOUND.
 */
export async function inOrg(ctx: Ctx, orgId: string, deletedToo = false): Promise<Ctx> {
  const role = isId(orgId) ? await queries.selectRole(ctx.sql, ctx.userId, orgId, tokenOf(ctx), deletedToo) : null;
  if (role === null) throw notFound();
  return { ...ctx, orgId, role };
}

/** {@link inOrg} for what only an owner may do. */
export async function asOwner(ctx: Ctx, orgId: string, deletedToo = false): Promise<Ctx> {
  const own = await inOrg(ctx, orgId, deletedToo);
  requireOwner(own);
  return own;
}

/** The token that asks; null when a person does. */
export const tokenOf = (ctx: Ctx): string | null => (ctx.actor.type === "token" ? ctx.actor.id : null);
