import { isId } from "@statusmesh/shared/ids";
import { type Ctx, requireScope } from "../../platform/context.ts";
import * as queries from "./pin-queries.ts";
import { notFound } from "./rules.ts";

/** Pinned monitors on top of the list; further ones stay in their place. */
const mostPins = 20;

/** Keeps a monitor on top of the list of the caller; nobody else sees it. TARGET_NOT_FOUND. */
export async function pinTarget(ctx: Ctx, id: string): Promise<void> {
  requireScope(ctx, "targets:read");
  const now = new Date(ctx.clock.now());
  if (!isId(id) || !(await queries.insertPin(ctx.sql, ctx.orgId, ctx.userId, id, now))) throw notFound();
}

/** Takes a monitor off the top of the list of the caller. TARGET_NOT_FOUND. */
export async function unpinTarget(ctx: Ctx, id: string): Promise<void> {
  requireScope(ctx, "targets:read");
  if (!isId(id) || !(await queries.deletePin(ctx.sql, ctx.orgId, ctx.userId, id))) throw notFound();
}

/** Ids of the monitors that the caller has pinned, those pinned first. */
export async function pinnedTargets(ctx: Ctx): Promise<string[]> {
  requireScope(ctx, "targets:read");
  return await queries.selectPins(ctx.sql, ctx.orgId, ctx.userId, mostPins);
}
