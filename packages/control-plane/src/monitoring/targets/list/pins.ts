import { isId } from "@statusmesh/shared/ids";
import { record } from "../../../access/audit/service.ts";
import { type Ctx, inTransaction, requireScope } from "../../../platform/context.ts";
import * as queries from "./pin-queries.ts";
import { notFound } from "../write/rules.ts";

/** Pinned monitors on top of the list; further ones stay in their place. */
const mostPins = 20;

/** Keeps a monitor on top of the list of the caller; nobody else sees it. TARGET_NOT_FOUND. */
export async function pinTarget(ctx: Ctx, id: string): Promise<void> {
  requireScope(ctx, "targets:read");
  await inTransaction(ctx, async (tx) => {
    const now = new Date(ctx.clock.now());
    const pinned = isId(id) ? await queries.insertPin(tx.sql, ctx.orgId, ctx.userId, id, now) : null;
    if (pinned === null) throw notFound();
    await record(tx, { resourceId: id, before: { pinned: pinned === "before" }, after: { pinned: true } });
  });
}

/** Takes a monitor off the top of the list of the caller. TARGET_NOT_FOUND. */
export async function unpinTarget(ctx: Ctx, id: string): Promise<void> {
  requireScope(ctx, "targets:read");
  await inTransaction(ctx, async (tx) => {
    if (!isId(id) || !(await queries.deletePin(tx.sql, ctx.orgId, ctx.userId, id))) throw notFound();
    await record(tx, { resourceId: id, before: { pinned: true } });
  });
}

/** Ids of the monitors that the caller has pinned, those pinned first. */
export async function pinnedTargets(ctx: Ctx): Promise<string[]> {
  requireScope(ctx, "targets:read");
  return await queries.selectPins(ctx.sql, ctx.orgId, ctx.userId, mostPins);
}
