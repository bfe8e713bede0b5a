import { AppError } from "@statusmesh/shared/errors";
import { isId } from "@statusmesh/shared/ids";
import { type Change, record } from "../../../access/audit/service.ts";
import { type Ctx, inTransaction, requireScope } from "../../../platform/context.ts";
import { existingChannelIds } from "../../../alerting/channels/service.ts";
import { closeSilently } from "../../../alerting/incidents/evidence/service.ts";
import { reopenWindows } from "../../heartbeats/service.ts";
import * as queries from "./queries.ts";
import {
  changeChannels,
  changeInterval,
  changeRegions,
  changeSeverity,
  refusalsOf,
  type Refusals,
} from "./settings.ts";
import { keepDependencies } from "../dependencies/dependencies.ts";
import { followPause, leaveGroups, writeMembers } from "../dependencies/group-members.ts";
import { announceTargets, deleteTargets } from "../queries.ts";
import { addedTags, notFound, tagsRule } from "../write/rules.ts";
import { maxAlerts } from "../schema.ts";
import type { BulkAction, BulkOutcome } from "./schema.ts";

type Action = BulkAction["action"];

/**
 * Applies one action to many targets, in one transaction. A target that refuses it is listed as failed with its reason;
 * the others are changed. A repeated id counts once; both lists keep the order of `ids`.
 */
export async function bulkAction(ctx: Ctx, { ids, action }: BulkAction): Promise<BulkOutcome> {
  requireScope(ctx, "targets:write");
  const asked = [...new Set(ids)];
  return await inTransaction(ctx, async (tx) => {
    if (action.type === "tag_add" || action.type === "tag_remove") await keepDependencies(tx);
    const rows = await queries.lockTargets(tx.sql, ctx.orgId, asked.filter(isId));
    const refused = await act(tx, rows, action);
    const found = new Set(rows.map((row) => row.id));
    const reason = (id: string) =>
      found.has(id) ? refused.get(id) : isId(id) ? notFound() : new AppError("INVALID_ID", "This is not an id.");
    const failed = asked.flatMap((id) => {
      const error = reason(id);
      return error === undefined ? [] : [{ id, code: error.code, message: error.message }];
    });
    const succeeded = asked.filter((id) => found.has(id) && !refused.has(id));
    await record(tx, changeOf(rows, succeeded, failed.length, action));
    return { succeeded, failed };
  });
}

/**
 * Binds a channel to every target of the organisation that lacks it and has room for one more. Returns how many. Throws
 * CHANNEL_NOT_FOUND.
 */
export async function applyChannel(ctx: Ctx, channelId: string): Promise<number> {
  requireScope(ctx, "targets:write");
  return await inTransaction(ctx, async (tx) => {
    if (!(await existingChannelIds(tx, tx.orgId, [channelId])).has(channelId))
      throw new AppError("CHANNEL_NOT_FOUND", "Channel not found.");
    const ids = await queries.lockTargetsWithout(tx.sql, tx.orgId, channelId, maxAlerts);
    if (ids.length > 0) await queries.addChannels(writeOf(tx), ids, [channelId]);
    await record(tx, { resourceId: channelId, after: { action: "apply", count: ids.length, ids } });
    return ids.length;
  });
}

/** One row of the audit log per request: the action, the targets, and the previous values that the action removes. */
function changeOf(
  rows: readonly queries.LockedTarget[],
  ids: readonly string[],
  failed: number,
  action: Action,
): Change {
  const after = { action, count: ids.length, failed, ids };
  const change = (before?: Record<string, unknown>): Change => ({ resourceId: null, ...(before && { before }), after });
  if (action.type === "enable" || action.type === "disable")
    return change({ enabled: rows.filter((row) => row.enabled).map((row) => row.id) });
  if (action.type === "interval_set")
    return change({ intervals: Object.fromEntries(rows.map((row) => [row.id, row.interval_secs])) });
  if (action.type === "severity_set")
    return change({ severities: Object.fromEntries(rows.map((row) => [row.id, row.severity])) });
  if (action.type !== "delete") return change();
  const names = new Map(rows.map((row) => [row.id, row.name]));
  return change({ names: ids.map((id) => names.get(id)) });
}

/** Applies the action to the locked rows. Returns the refused ones. */
async function act(tx: Ctx, rows: readonly queries.LockedTarget[], action: Action): Promise<Refusals> {
  if (action.type === "tag_add" || action.type === "tag_remove") return await changeTags(tx, rows, action);
  if (action.type === "channel_add" || action.type === "channel_remove")
    return await changeChannels(tx, rows, action, writeOf(tx));
  if (action.type === "interval_set") return await changeInterval(tx, rows, action.interval, writeOf(tx));
  if (action.type === "regions_set") return await changeRegions(tx, rows, action.regions, writeOf(tx));
  if (action.type === "severity_set") {
    await changeSeverity(tx, rows, action.severity, writeOf(tx));
    return new Map();
  }
  const ids = rows.map((row) => row.id);
  if (action.type === "delete") {
    await leaveGroups(tx, ids);
    await deleteTargets(tx.sql, tx.orgId, ids, new Date(tx.clock.now()));
  } else {
    await queries.setEnabled(writeOf(tx), ids, action.type === "enable");
    const reported = rows.filter((row) => row.kind === "heartbeat" && row.enabled !== (action.type === "enable"));
    await reopenWindows(
      tx,
      reported.map(({ id }) => id),
      { resumed: action.type === "enable" },
    );
    // Enabling needs no evaluation: the pause has ended all streaks, and results during it were no evidence.
    if (action.type === "disable")
      await closeSilently(
        tx,
        rows.filter((row) => row.enabled).map((row) => row.id),
      );
    followPause(tx, ids);
  }
  await announceTargets(tx.sql);
  return new Map();
}

async function changeTags(
  tx: Ctx,
  rows: readonly queries.LockedTarget[],
  action: Extract<Action, { tags: string[] }>,
): Promise<Refusals> {
  const tags = tagsRule(action.tags);
  const changed: Pick<queries.LockedTarget, "id" | "tags">[] = [];
  const refused = refusalsOf(rows, ({ id, tags: before }) => {
    const after = action.type === "tag_add" ? addedTags(before, tags) : before.filter((tag) => !tags.includes(tag));
    changed.push({ id, tags: after });
  });
  await queries.setTags(writeOf(tx), changed);
  await writeMembers(tx, { groups: [], monitors: changed.map(({ id }) => ({ id, base: "" })) });
  return refused;
}

const writeOf = ({ sql, orgId, writeSource, clock }: Ctx): queries.Write => ({
  sql,
  orgId,
  source: writeSource,
  at: new Date(clock.now()),
});
