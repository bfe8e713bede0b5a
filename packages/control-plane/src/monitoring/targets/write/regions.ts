import { budgetMs, isProbed } from "@statusmesh/shared/checks";
import { isId } from "@statusmesh/shared/ids";
import { record } from "../../../access/audit/service.ts";
import { type Ctx, inTransaction, requireScope } from "../../../platform/context.ts";
import { reevaluate } from "../../../alerting/incidents/evidence/service.ts";
import { notProbed } from "../../heartbeats/service.ts";
import { enabledRegionIds } from "../../regions/service.ts";
import * as queries from "../queries.ts";
import { notFound, regionPolicyRule, regionsRule } from "./rules.ts";
import type { TargetRegions } from "../schema.ts";

/** The regions that probe a target, in the order of their ids. */
export async function targetRegions(ctx: Ctx, id: string): Promise<TargetRegions> {
  requireScope(ctx, "targets:read");
  const target = isId(id) ? await queries.selectTarget(ctx.sql, ctx.orgId, id) : null;
  if (target === null) throw notFound();
  return { regions: await queries.selectRegionsOf(ctx.sql, id) };
}

/**
 * Has exactly these regions probe a target. A removed one stops at once and loses its vote; a new one runs its first
 * check at its next slot.
 */
export async function setTargetRegions(ctx: Ctx, id: string, { regions }: TargetRegions): Promise<TargetRegions> {
  requireScope(ctx, "targets:write");
  if (!isId(id)) throw notFound();
  return await inTransaction(ctx, async (tx) => {
    const before = await queries.lockTarget(tx.sql, ctx.orgId, id);
    if (before === null) throw notFound();
    if (!isProbed(before.spec)) throw notProbed("it has no regions");
    const old = before.regions;
    // A disabled region that the target has already may stay, so that a client can send back what it read.
    const allowed = new Set([...(await enabledRegionIds(tx, regions)), ...old]);
    regionsRule(regions, allowed);
    regionPolicyRule(before.region_policy, regions.length, "/regions");
    await queries.replaceRegions(tx.sql, id, regions);
    await record(tx, { resourceId: id, before: { regions: old }, after: { regions: regions.toSorted() } });
    // The row itself changes too: agents are sent targets whose row changed.
    const after = { ...before, write_source: ctx.writeSource, updated_at: new Date(ctx.clock.now()) };
    await queries.updateTargets(tx.sql, ctx.orgId, [after], []);
    await reevaluate(tx, new Map([[id, { ...before, timeout: budgetMs(before.spec), regions }]]));
    await queries.announceTargets(tx.sql);
    return { regions: regions.toSorted() };
  });
}
