import { kindOf } from "@statusmesh/shared/checks";
import { AppError } from "@statusmesh/shared/errors";
import { newId } from "@statusmesh/shared/ids";
import { type Change, record } from "../audit/service.ts";
import { existingChannelIds } from "../channels/service.ts";
import { type Ctx, inTransaction, requireScope } from "../context.ts";
import { takeQuota } from "../plans/service.ts";
import * as queries from "./queries.ts";
import {
  alertRule,
  below,
  checkRules,
  intervalRule,
  present,
  regionPolicyRule,
  renotifyRule,
  tagsRule,
} from "./rules.ts";
import { sealSpec } from "./sealing.ts";
import type { Target, TargetCreate } from "./schema.ts";

/** Creates a target in every enabled region; its first check runs at once. REGION_INVALID where no region is enabled. */
export async function createTarget(ctx: Ctx, input: TargetCreate): Promise<Target> {
  const [target] = await create(
    ctx,
    [input],
    () => "",
    ([made]) => ({ resourceId: made!.id, after: made! }),
  );
  return target!;
}

/** Creates many targets, all or none, and returns them in the order given. The fields of errors begin with the place in the list: `/3/check/port`. */
export async function createTargets(ctx: Ctx, inputs: readonly TargetCreate[]): Promise<Target[]> {
  // One row of the audit log for the request: a row for each of ten thousand would cost as much as the targets themselves.
  return await create(
    ctx,
    inputs,
    (at) => `/${at}`,
    (made) => ({
      resourceId: null,
      after: { count: made.length, ids: made.map((target) => target.id), names: made.map((target) => target.name) },
    }),
  );
}

/** The same few statements for one target as for ten thousand. */
async function create(
  ctx: Ctx,
  inputs: readonly TargetCreate[],
  base: (at: number) => string,
  changeOf: (made: Target[]) => Change,
): Promise<Target[]> {
  requireScope(ctx, "targets:write");
  // What needs no database is refused before it is asked.
  const drafts = inputs.map((input, at) => below(base(at), () => draft(ctx, input)));
  return await inTransaction(ctx, async (tx) => {
    const { sql } = tx;
    const plan = await takeQuota(tx, "max_targets", async () => ({
      current: await queries.countTargets(sql, ctx.orgId, { q: null, tag: null, enabled: null }),
      adding: drafts.length,
    }));
    const channels = await existingChannelIds(
      tx,
      ctx.orgId,
      inputs.flatMap((input) => (input.alerts ?? []).map((alert) => alert.channel_id)),
    );
    const regions = await queries.countEnabledRegions(sql);
    if (regions === 0)
      throw new AppError(
        "REGION_INVALID",
        "No region is enabled, so nothing would be checked. The operator of this instance can enable one (PATCH /operator/regions/{id}).",
      );
    const rows = drafts.map((row, at): queries.TargetRow =>
      below(base(at), () => {
        intervalRule(plan, row.spec, row.interval_secs);
        const channel_ids = alertRule(inputs[at]!.alerts ?? [], channels);
        regionPolicyRule(row.region_policy, regions);
        return { ...row, spec: sealSpec(ctx, row.id, row.spec), channel_ids };
      }),
    );
    await queries.insertTargets(sql, rows);
    await queries.insertAlerts(
      sql,
      rows.flatMap((row) => row.channel_ids.map((channelId, position) => ({ targetId: row.id, channelId, position }))),
    );
    await queries.announceTargets(sql);
    const made = rows.map(present);
    await record(tx, changeOf(made));
    return made;
  });
}

/** The row of a new target, its secrets still open. */
function draft(ctx: Ctx, input: TargetCreate): queries.NewTargetRow {
  const spec = input.check;
  checkRules(ctx, spec, "/check");
  const now = new Date(ctx.clock.now());
  return {
    id: newId(),
    org_id: ctx.orgId,
    name: input.name,
    spec,
    interval_secs: input.interval ?? kindOf(spec).defaultIntervalSecs,
    enabled: input.enabled ?? true,
    tags: tagsRule(input.tags ?? []),
    alert_confirmations: input.alert_confirmations ?? 2,
    notify_recovery: input.notify_recovery ?? true,
    renotify_interval_secs: renotifyRule(input.renotify_interval_secs ?? 3600),
    region_policy: input.region_policy ?? "majority",
    write_source: ctx.writeSource,
    created_at: now,
    updated_at: now,
  };
}
