import {
  checkKinds,
  type CheckSpec,
  type CheckType,
  isCheckType,
  isGroup,
  isProbed,
  kindOf,
  type SpecOf,
} from "@statusmesh/shared/checks";
import { AppError } from "@statusmesh/shared/errors";
import { below, checkAll } from "@statusmesh/shared/schema/faults";
import { fieldOf, mask } from "@statusmesh/shared/secrets";
import { validate } from "@statusmesh/shared/schema/validate";
import { sameJson } from "../../../access/audit/service.ts";
import { existingChannelIds } from "../../../alerting/channels/service.ts";
import type { Ctx } from "../../../platform/context.ts";
import { refuseMovedSecrets } from "../../../platform/crypto/kept-secrets.ts";
import { unreadable } from "../../../platform/crypto/opening.ts";
import { etagOf } from "../../../platform/http/reply/etag.ts";
import { certificateRule, type KnownCertificates, knownCertificates } from "../../certificates/service.ts";
import { ladderRule } from "../../../access/orgs/service.ts";
import { type Plan, planOf } from "../../../access/plans/service.ts";
import { enabledRegionIds } from "../../regions/service.ts";
import { dependenciesOf } from "../dependencies/dependencies.ts";
import type * as queries from "../queries.ts";
import {
  afterFailuresRule,
  alertRule,
  checkRules,
  completed,
  fixedIntervalSecs,
  intervalRule,
  kindRules,
  regionPolicyRule,
  regionsRule,
  renotifyRule,
  reportedRules,
  tagsRule,
} from "./rules.ts";
import { openSpecPartly, sealSpec } from "../stored/sealing.ts";
import { Check, type Target, type TargetPatch } from "../schema.ts";
import { asStored } from "./unable.ts";

/** Entity tag of a target as it is stored. That of `GET /targets/{id}` is of all that is sent. */
export const targetTag = (target: Target): string => tagOf(asStored(target));

export const tagOf = (target: Target): string => etagOf(JSON.stringify(target));

/** A change of one target; `regions`: those that probe it from now on. */
export interface TargetEdit {
  readonly id: string;
  readonly patch: TargetPatch;
  readonly regions?: readonly string[];
}

export interface Edited {
  readonly edit: TargetEdit;
  readonly before: queries.ProbedTargetRow;
  readonly after: queries.TargetRow;
  readonly regions: readonly string[];
  /** The check before and after, where the patch has one. */
  readonly check: CheckChange | null;
}

/** What the rules of edits compare with, read once for all of them. */
export interface EditContext {
  readonly plan: Plan | null;
  /** Those that the caller may bind. */
  readonly channels: ReadonlySet<string>;
  /** Devices of others: a target that notifies one may go on. */
  readonly keepable: ReadonlySet<string>;
  readonly certificates: KnownCertificates;
  readonly regions: ReadonlySet<string>;
}

/** The channels that an edit of a target may name. */
function channelsOf(before: queries.ProbedTargetRow, { channels, keepable }: EditContext): ReadonlySet<string> {
  if (keepable.size === 0) return channels;
  const bound = [
    ...before.alerts.map(({ channel_id }) => channel_id),
    ...(before.escalation ?? []).flatMap(({ channel_ids }) => channel_ids),
  ];
  return new Set([...channels, ...bound.filter((id) => keepable.has(id))]);
}

export async function editContext(tx: Ctx, edits: readonly TargetEdit[]): Promise<EditContext> {
  const channels = new Set(
    edits.flatMap(({ patch: { alerts = [], escalation } }) => [
      ...alerts.map((alert) => alert.channel_id),
      ...(escalation ?? []).flatMap((level) => level.channel_ids),
    ]),
  );
  const regions = new Set(edits.flatMap((edit) => edit.regions ?? []));
  const known = channels.size === 0 ? channels : await existingChannelIds(tx, tx.orgId, [...channels]);
  const others = [...channels].filter((id) => !known.has(id));
  return {
    plan: edits.some(({ patch }) => patch.interval !== undefined) ? await planOf(tx) : null,
    channels: known,
    keepable: others.length === 0 ? new Set() : await existingChannelIds(tx, tx.orgId, others, others),
    certificates: await knownCertificates(
      tx,
      edits.map(({ patch }) => patch.check ?? {}),
    ),
    regions: regions.size === 0 ? regions : await enabledRegionIds(tx, [...regions]),
  };
}

/** The row after an edit. Throws all faults of the edit at once. */
export function edited(
  tx: Ctx,
  before: queries.ProbedTargetRow,
  edit: TargetEdit,
  known: EditContext,
): Pick<Edited, "after" | "check" | "regions"> {
  const { patch } = edit;
  const regions = edit.regions ?? before.regions;
  const check = patchRules(tx, before, edit, known);
  const isReported = !isProbed(before.spec);
  return {
    check,
    regions,
    after: {
      ...before,
      name: patch.name ?? before.name,
      spec: check === null ? before.spec : sealSpec(tx, before.id, check.after),
      interval_secs: isReported
        ? fixedIntervalSecs((check?.after ?? before.spec) as SpecOf<"heartbeat" | "group">)
        : (patch.interval ?? before.interval_secs),
      enabled: patch.enabled ?? before.enabled,
      tags: patch.tags === undefined ? before.tags : tagsRule(patch.tags),
      alert_confirmations: isReported ? 1 : (patch.alert_confirmations ?? before.alert_confirmations),
      notify_recovery: patch.notify_recovery ?? before.notify_recovery,
      renotify_interval_secs: patch.renotify_interval_secs ?? before.renotify_interval_secs,
      region_policy: (isGroup(before.spec) ? undefined : patch.region_policy) ?? before.region_policy,
      severity: patch.severity ?? before.severity,
      flap_detection: patch.flap_detection ?? before.flap_detection,
      escalation: patch.escalation === undefined ? before.escalation : patch.escalation,
      depends_on: patch.depends_on === undefined ? before.depends_on : dependenciesOf(patch.depends_on),
      alerts: patch.alerts === undefined ? before.alerts : alertRule(patch.alerts, channelsOf(before, known)),
      write_source: tx.writeSource,
      updated_at: new Date(tx.clock.now()),
    },
  };
}

/** Throws all faults of a patch at once; returns the check before and after it, null where the patch has none. */
function patchRules(
  tx: Ctx,
  before: queries.ProbedTargetRow,
  { patch, regions: chosen }: TargetEdit,
  known: EditContext,
): CheckChange | null {
  const { plan, certificates, regions: enabled } = known;
  const channels = channelsOf(before, known);
  const { check: checkPatch, interval, renotify_interval_secs: renotify, alerts, region_policy: policy } = patch;
  const { alert_confirmations: confirmations } = patch;
  let check: CheckChange | null = null;
  checkAll(
    () => {
      if (checkPatch === undefined) return;
      check = mergeCheck(tx, before.id, before.spec, checkPatch);
      if (Object.hasOwn(checkPatch, "certificates")) certificateRule(check.after, certificates);
    },
    // A patch cannot change the kind, which decides the shortest interval.
    () => interval !== undefined && isProbed(before.spec) && intervalRule(plan!, before.spec, interval),
    () => renotify !== undefined && renotifyRule(renotify),
    () => alerts && alertRule(alerts, channels),
    () =>
      (alerts !== undefined || confirmations !== undefined) &&
      isProbed(before.spec) &&
      afterFailuresRule(alerts ?? before.alerts, confirmations ?? before.alert_confirmations),
    () => patch.escalation && ladderRule(patch.escalation, channels),
    () => chosen && regionsRule(chosen, new Set([...enabled, ...before.regions])),
    () =>
      (policy !== undefined || chosen !== undefined) &&
      !isGroup(before.spec) &&
      regionPolicyRule(policy ?? before.region_policy, (chosen ?? before.regions).length),
    () =>
      reportedRules(
        before.spec,
        { region_policy: policy, heartbeat_addresses: patch.heartbeat_addresses },
        before.region_policy,
      ),
  );
  return check;
}

interface CheckChange {
  readonly before: CheckSpec;
  readonly after: CheckSpec;
}

/** The stored check with the patch laid over it, validated as a whole; and as it was, as far as it opens. */
function mergeCheck(ctx: Ctx, id: string, stored: CheckSpec, patch: Record<string, unknown>): CheckChange {
  if (patch["type"] !== undefined && patch["type"] !== stored.type) {
    const known = isCheckType(patch["type"]) ? "" : " (and there is no such kind)";
    throw new AppError(
      "CHECK_KIND_IMMUTABLE",
      `The kind of a check cannot change from ${stored.type}${known}. Create another target instead.`,
      { field: "/check/type" },
    );
  }
  const { value: before, isClosed } = openSpecPartly(ctx, id, stored);
  const merged = validate(Check, { ...before, ...cleared(stored.type, patch), type: stored.type }, "/check");
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

export const isChanged = ({ before, after }: CheckChange): boolean => !sameJson(before, after);

/** The patch with the default in place of a null that clears a list or a map, which is empty by default. */
function cleared(type: CheckType, patch: Record<string, unknown>): Record<string, unknown> {
  const fields = checkKinds[type].schema.properties as Record<string, { default?: unknown }>;
  return Object.fromEntries(
    Object.entries(patch).map(([name, value]) => {
      const { default: empty } = Object.hasOwn(fields, name) ? fields[name]! : {};
      const clears = value === null && typeof empty === "object" && empty !== null;
      return [name, clears ? structuredClone(empty) : value];
    }),
  );
}

/** True when the check is about another certificate or domain than before. */
export function isElsewhere({ before, after }: CheckChange): boolean {
  const kind = kindOf(after);
  const about = (spec: CheckSpec) => {
    const { starttls = "none", judge = "leaf" } = spec as { starttls?: string; judge?: string };
    return JSON.stringify([
      kind.destination(spec),
      kind.subject?.(spec),
      kind.secretsGoTo(spec)?.origin,
      starttls,
      judge,
    ]);
  };
  return about(before) !== about(after);
}
