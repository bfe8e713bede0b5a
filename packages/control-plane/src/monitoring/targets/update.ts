import { budgetMs, type CheckSpec, detailsOf, isCheckType, isProbed, kindOf } from "@statusmesh/shared/checks";
import type { HeartbeatCheck } from "@statusmesh/shared/checks/heartbeat";
import { AppError } from "@statusmesh/shared/errors";
import { below, checkAll } from "@statusmesh/shared/faults";
import { isId } from "@statusmesh/shared/ids";
import { fieldOf, mask } from "@statusmesh/shared/secrets";
import { validate } from "@statusmesh/shared/validate";
import { differences, record } from "../../access/audit/service.ts";
import { existingChannelIds } from "../../alerting/channels/service.ts";
import { type Ctx, inTransaction, requireScope } from "../../platform/context.ts";
import { refuseMovedSecrets } from "../../platform/crypto/kept-secrets.ts";
import { unreadable } from "../../platform/crypto/opening.ts";
import { etagOf, requireMatch } from "../../platform/http/etag.ts";
import { closeSilently, reevaluate, rescheduleReminders } from "../../alerting/incidents/service.ts";
import { intervalSecsOf, reopenWindows, replaceAddresses, shownOf } from "../heartbeats/service.ts";
import { planOf } from "../../access/plans/service.ts";
import { forgetDetails } from "../results/service.ts";
import * as queries from "./queries.ts";
import {
  alertRule,
  checkRules,
  completed,
  intervalRule,
  kindRules,
  notFound,
  present,
  regionPolicyRule,
  renotifyRule,
  reportedRules,
  tagsRule,
} from "./rules.ts";
import { openSpecPartly, sealSpec } from "./sealing.ts";
import { Check, type Target, type TargetPatch } from "./schema.ts";
import { asStored, withInabilities } from "./unable.ts";

/** Entity tag of a target as it is stored. That of `GET /targets/{id}` is of all that is sent. */
export const targetTag = (target: Target): string => tagOf(asStored(target));
const tagOf = (target: Target): string => etagOf(JSON.stringify(target));

/**
 * Changes what the patch names. Fields of `check` that it leaves out stay, secrets included: SECRET_UNREADABLE where
 * one of those cannot be opened, CREDENTIALS_REQUIRED where one would be sent to another server. PRECONDITION_FAILED
 * where `ifMatch` names an older state than the stored one (empty: any).
 */
export async function updateTarget(ctx: Ctx, id: string, patch: TargetPatch, ifMatch = ""): Promise<Target> {
  requireScope(ctx, "targets:write");
  if (!isId(id)) throw notFound();
  const after = await inTransaction(ctx, async (tx) => {
    const before = await queries.lockTarget(tx.sql, ctx.orgId, id);
    if (before === null) throw notFound();
    const old = present(before);
    if (ifMatch !== "") requireMatch(ifMatch, targetTag(old), ...(await withInabilities(tx, [old])).map(tagOf));
    const regions = await queries.selectRegionsOf(tx.sql, id);
    const check = await patchRules(tx, before, patch, regions.length);
    const isReported = !isProbed(before.spec);
    const renotify = patch.renotify_interval_secs ?? before.renotify_interval_secs;
    const channels = patch.alerts?.map((alert) => alert.channel_id) ?? before.channel_ids;
    const after: queries.NewTargetRow = {
      ...before,
      name: patch.name ?? before.name,
      spec: check === null ? before.spec : sealSpec(ctx, id, check.after),
      interval_secs: isReported
        ? intervalSecsOf((check?.after ?? before.spec) as HeartbeatCheck)
        : (patch.interval ?? before.interval_secs),
      enabled: patch.enabled ?? before.enabled,
      tags: patch.tags === undefined ? before.tags : tagsRule(patch.tags),
      alert_confirmations: isReported ? 1 : (patch.alert_confirmations ?? before.alert_confirmations),
      notify_recovery: patch.notify_recovery ?? before.notify_recovery,
      renotify_interval_secs: renotify,
      region_policy: patch.region_policy ?? before.region_policy,
      write_source: ctx.writeSource,
      updated_at: new Date(ctx.clock.now()),
    };
    await queries.updateTarget(tx.sql, after);
    if (patch.alerts !== undefined) await queries.replaceAlerts(tx.sql, id, channels);
    if (check !== null && isElsewhere(check)) await forgetDetails(tx.sql, ctx.orgId, id, after.updated_at);
    if (before.enabled && !after.enabled) await closeSilently(tx, [id]);
    else if (after.enabled)
      await reevaluate(tx, new Map([[id, { ...before, timeout: budgetMs(before.spec), regions }]]));
    if (patch.heartbeat_addresses !== undefined) await replaceAddresses(tx, id, patch.heartbeat_addresses);
    if (isReported && (check !== null || after.enabled !== before.enabled))
      await reopenWindows(tx, [id], { resumed: after.enabled && !before.enabled });
    if (renotify !== before.renotify_interval_secs) await rescheduleReminders(tx, id, renotify);
    await queries.announceTargets(tx.sql);
    const addresses = patch.heartbeat_addresses === undefined ? before.heartbeat_addresses : await shownOf(tx, id);
    const fresh = present({ ...after, channel_ids: channels, heartbeat_addresses: addresses });
    const real =
      check === null ? undefined : { before: { ...old, check: check.before }, after: { ...fresh, check: check.after } };
    await record(tx, { resourceId: id, ...differences({ before: old, after: fresh }, real) });
    return fresh;
  });
  return (await withInabilities(ctx, [after]))[0]!;
}

/** Throws all faults of a patch at once; returns the check before and after it, null where the patch has none. */
async function patchRules(
  tx: Ctx,
  before: queries.TargetRow,
  {
    check: checkPatch,
    interval,
    renotify_interval_secs: renotify,
    alerts,
    region_policy: policy,
    heartbeat_addresses: addresses,
  }: TargetPatch,
  regions: number,
): Promise<ReturnType<typeof mergeCheck> | null> {
  const plan = interval === undefined ? null : await planOf(tx);
  const ids = alerts?.map((alert) => alert.channel_id) ?? [];
  const channels = ids.length === 0 ? new Set<string>() : await existingChannelIds(tx, tx.orgId, ids);
  let check: ReturnType<typeof mergeCheck> | null = null;
  checkAll(
    () => (check = checkPatch === undefined ? null : mergeCheck(tx, before.id, before.spec, checkPatch)),
    // A patch cannot change the kind, which decides the shortest interval.
    () => plan && isProbed(before.spec) && intervalRule(plan, before.spec, interval!),
    () => renotify !== undefined && renotifyRule(renotify),
    () => alerts && alertRule(alerts, channels),
    () => policy && regionPolicyRule(policy, regions),
    () => reportedRules(before.spec, { region_policy: policy, heartbeat_addresses: addresses }, before.region_policy),
  );
  return check;
}

/** The stored check with the patch laid over it, validated as a whole; and as it was, as far as it opens. */
function mergeCheck(
  ctx: Ctx,
  id: string,
  stored: CheckSpec,
  patch: Record<string, unknown>,
): { before: CheckSpec; after: CheckSpec } {
  if (patch["type"] !== undefined && patch["type"] !== stored.type) {
    const known = isCheckType(patch["type"]) ? "" : " (and there is no such kind)";
    throw new AppError(
      "CHECK_KIND_IMMUTABLE",
      `The kind of a check cannot change from ${stored.type}${known}. Create another target instead.`,
      { field: "/check/type" },
    );
  }
  const { value: before, isClosed } = openSpecPartly(ctx, id, stored);
  const merged = validate(Check, { ...before, ...patch, type: stored.type }, "/check");
  const kind = kindOf(merged);
  below("/check", () => kindRules(merged));
  const after = completed(merged);
  refuseMovedSecrets(kind, {
    before,
    after,
    isSent: (pointer, secret) => Object.hasOwn(patch, fieldOf(pointer)) && secret !== mask,
    base: "/check",
  });
  kind.mapSecrets(after, (secret, pointer) => {
    if (isClosed(secret)) throw unreadable(`/check${pointer}`, "the check cannot be changed without it");
    return secret;
  });
  checkRules(ctx, after, "/check");
  return { before, after };
}

/** True when the check is about another certificate or domain than before. */
function isElsewhere({ before, after }: { before: CheckSpec; after: CheckSpec }): boolean {
  if (detailsOf(after.type)?.expiresAt === undefined) return false;
  const kind = kindOf(after);
  const about = (spec: CheckSpec) => JSON.stringify([kind.destination(spec), kind.subject?.(spec)]);
  return about(before) !== about(after);
}
