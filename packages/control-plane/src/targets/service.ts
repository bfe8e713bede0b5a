import { type CheckSpec, detailsOf, isCheckType, kindOf, type ResultDetails } from "@statusmesh/shared/checks";
import { AppError } from "@statusmesh/shared/errors";
import type { CheckStatus } from "@statusmesh/shared/result";
import { isId } from "@statusmesh/shared/ids";
import { fieldOf, mask } from "@statusmesh/shared/secrets";
import { differences, record } from "../audit/service.ts";
import { existingChannelIds } from "../channels/service.ts";
import { type Ctx, inTransaction, type OrgReader, requireScope } from "../context.ts";
import { refuseMovedSecrets } from "../crypto/kept-secrets.ts";
import { unreadable } from "../crypto/opening.ts";
import { validate } from "@statusmesh/shared/validate";
import { etagOf, requireMatch } from "../http/etag.ts";
import type { Page } from "../http/wire.ts";
import { closeSilently, explainVotes, reevaluate, rescheduleReminders } from "../incidents/service.ts";
import { planOf } from "../plans/service.ts";
import { disabledRegionIds, enabledRegionIds } from "../regions/service.ts";
import { forgetDetails } from "../results/service.ts";
import * as queries from "./queries.ts";
import {
  alertRule,
  below,
  checkRules,
  intervalRule,
  notFound,
  present,
  regionPolicyRule,
  renotifyRule,
  tagsRule,
} from "./rules.ts";
import { openSpec, openSpecPartly, sealSpec } from "./sealing.ts";
import {
  Check,
  type MonitorStatus,
  type TagCount,
  type Target,
  type TargetPatch,
  type TargetRegions,
} from "./schema.ts";

export { createTarget } from "./create.ts";
export { checkRules } from "./rules.ts";
export { openSpec, resealTargets, unreadableTargets } from "./sealing.ts";

/** Search text and tag in NFC, as names and tags are stored. */
const textFilter = ({ q, tag }: { q?: string; tag?: string }): Pick<queries.TargetFilter, "q" | "tag"> => ({
  q: q?.normalize("NFC") ?? null,
  tag: tag?.normalize("NFC") ?? null,
});

/** The targets of the organisation, newest first. `q` looks in name, URL and host. */
export async function listTargets(
  ctx: Ctx,
  input: { q?: string; tag?: string; enabled?: boolean; limit: number; offset: number },
): Promise<Page<Target>> {
  requireScope(ctx, "targets:read");
  const filter = { ...textFilter(input), enabled: input.enabled ?? null };
  const [rows, total] = await Promise.all([
    queries.selectTargets(ctx.sql, ctx.orgId, filter, input.limit, input.offset),
    queries.countTargets(ctx.sql, ctx.orgId, filter),
  ]);
  return { items: rows.map(present), total, limit: input.limit, offset: input.offset };
}

/** Entity tag of a target, as `GET /targets/{id}` sends it. */
export const targetTag = (target: Target): string => etagOf(JSON.stringify(target));

/** One target. TARGET_NOT_FOUND for an absent or foreign id. */
export async function getTarget(ctx: Ctx, id: string): Promise<Target> {
  requireScope(ctx, "targets:read");
  const row = isId(id) ? await queries.selectTarget(ctx.sql, ctx.orgId, id) : null;
  if (row === null) throw notFound();
  return present(row);
}

/**
 * The stored check of a target with its secrets opened, and the enabled regions that probe it; for runs on demand.
 * Throws SECRET_UNREADABLE.
 */
export async function targetToRun(ctx: Ctx, id: string): Promise<{ spec: CheckSpec; regions: string[] }> {
  requireScope(ctx, "targets:execute");
  const row = isId(id) ? await queries.selectTarget(ctx.sql, ctx.orgId, id) : null;
  if (row === null) throw notFound();
  const spec = openSpec(ctx, id, row.spec);
  const [regions, disabled] = await Promise.all([queries.selectRegionsOf(ctx.sql, id), disabledRegionIds(ctx)]);
  return { spec, regions: regions.filter((region) => !disabled.has(region)) };
}

/**
 * Changes what the patch names. Fields of `check` that it leaves out stay, secrets included: SECRET_UNREADABLE where
 * one of those cannot be opened, CREDENTIALS_REQUIRED where one would be sent to another server. PRECONDITION_FAILED
 * where `ifMatch` names an older state than the stored one (empty: any).
 */
export async function updateTarget(ctx: Ctx, id: string, patch: TargetPatch, ifMatch = ""): Promise<Target> {
  requireScope(ctx, "targets:write");
  if (!isId(id)) throw notFound();
  return await inTransaction(ctx, async (tx) => {
    const before = await queries.lockTarget(tx.sql, ctx.orgId, id);
    if (before === null) throw notFound();
    requireMatch(ifMatch, targetTag(present(before)));
    const check = patch.check === undefined ? null : mergeCheck(ctx, id, before.spec, patch.check);
    const interval = patch.interval ?? before.interval_secs;
    if (patch.interval !== undefined) intervalRule(await planOf(tx), check?.after ?? before.spec, interval);
    const renotify =
      patch.renotify_interval_secs === undefined
        ? before.renotify_interval_secs
        : renotifyRule(patch.renotify_interval_secs);
    const channels =
      patch.alerts === undefined
        ? before.channel_ids
        : alertRule(
            patch.alerts,
            await existingChannelIds(
              tx,
              ctx.orgId,
              patch.alerts.map((alert) => alert.channel_id),
            ),
          );
    const regions = await queries.selectRegionsOf(tx.sql, id);
    if (patch.region_policy !== undefined) regionPolicyRule(patch.region_policy, regions.length);
    const after: queries.NewTargetRow = {
      ...before,
      name: patch.name ?? before.name,
      spec: check === null ? before.spec : sealSpec(ctx, id, check.after),
      interval_secs: interval,
      enabled: patch.enabled ?? before.enabled,
      tags: patch.tags === undefined ? before.tags : tagsRule(patch.tags),
      alert_confirmations: patch.alert_confirmations ?? before.alert_confirmations,
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
    else if (after.enabled) await reevaluate(tx, id, { ...before, timeout: before.spec.timeout }, regions);
    if (renotify !== before.renotify_interval_secs) await rescheduleReminders(tx, id, renotify);
    await queries.announceTargets(tx.sql);
    const [old, fresh] = [present(before), present({ ...after, channel_ids: channels })];
    const real =
      check === null ? undefined : { before: { ...old, check: check.before }, after: { ...fresh, check: check.after } };
    await record(tx, { resourceId: id, ...differences({ before: old, after: fresh }, real) });
    return fresh;
  });
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
  const after = validate(Check, { ...before, ...patch, type: stored.type }, "/check");
  const kind = kindOf(after);
  below("/check", () => kind.rules(after));
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
  if (detailsOf(after.type) === null) return false;
  const kind = kindOf(after);
  const about = (spec: CheckSpec) => JSON.stringify([kind.destination(spec), kind.subject?.(spec)]);
  return about(before) !== about(after);
}

/** Deletes the target with its results and incidents. Its agents stop at once; no notification is sent. */
export async function deleteTarget(ctx: Ctx, id: string): Promise<void> {
  requireScope(ctx, "targets:write");
  await inTransaction(ctx, async (tx) => {
    const before = isId(id) ? await queries.lockTarget(tx.sql, ctx.orgId, id) : null;
    if (before === null) throw notFound();
    await queries.deleteTargets(tx.sql, ctx.orgId, [id], new Date(ctx.clock.now()));
    await record(tx, { resourceId: id, before: present(before) });
    await queries.announceTargets(tx.sql);
  });
}

/** A target as the console lists it: with how it reads now. */
export interface MonitorRow {
  target: Target;
  status: MonitorStatus;
  paused: boolean;
  /** False while none of its regions is enabled: nothing checks it, and it reads as unknown. */
  probed: boolean;
  status_since: Date | null;
  last_result_at: Date | null;
  last_error: string | null;
  /** The newest details that a run read; its check has not been pointed elsewhere since. */
  details: ResultDetails | null;
  open_incident: {
    id: string;
    started_at: Date;
    severity: string;
    error_sample: string | null;
    regions_down: string[];
    regions_up: string[];
  } | null;
}

function presentMonitor(row: queries.MonitorDbRow): MonitorRow {
  return {
    target: present(row),
    status: row.status,
    paused: !row.enabled,
    probed: row.probed,
    status_since: row.status_since,
    last_result_at: row.last_result_at,
    last_error: row.last_error,
    details: row.details,
    open_incident:
      row.incident_id === null
        ? null
        : {
            id: row.incident_id,
            started_at: row.incident_started_at!,
            severity: row.incident_severity!,
            error_sample: row.incident_error,
            regions_down: row.incident_regions_down!,
            regions_up: row.incident_regions_up!,
          },
  };
}

export type MonitorState = MonitorStatus | "paused";

export interface MonitorList extends Page<MonitorRow> {
  /** Of all that match, whatever `state` says. */
  counts: Record<MonitorState, number>;
  last_check_at: Date | null;
}

function countsOf(tallies: readonly queries.MonitorCounts[]): Record<MonitorState, number> {
  const counts: Record<MonitorState, number> = { up: 0, degraded: 0, down: 0, error: 0, unknown: 0, paused: 0 };
  for (const { state, count } of tallies) counts[state as MonitorState] = count;
  return counts;
}

/** The console's list of monitors, worst first unless `sort` says otherwise. */
export async function listMonitors(
  ctx: Ctx,
  input: {
    q?: string;
    tag?: string;
    state?: MonitorState;
    sort?: queries.MonitorSort;
    limit: number;
    offset: number;
  },
): Promise<MonitorList> {
  requireScope(ctx, "targets:read");
  const now = new Date(ctx.clock.now());
  const filter = { ...textFilter(input), enabled: null };
  const [rows, tallies] = await Promise.all([
    queries.selectMonitors(
      ctx.sql,
      ctx.orgId,
      now,
      filter,
      input.state ?? null,
      input.sort ?? "state",
      input.limit,
      input.offset,
    ),
    queries.countMonitors(ctx.sql, ctx.orgId, now, filter),
  ]);
  const counts = countsOf(tallies);
  let last: Date | null = null;
  for (const tally of tallies) {
    if (tally.last_check_at !== null && (last === null || tally.last_check_at > last)) last = tally.last_check_at;
  }
  const total =
    input.state === undefined ? Object.values(counts).reduce((sum, count) => sum + count, 0) : counts[input.state];
  return {
    items: rows.map(presentMonitor),
    total,
    limit: input.limit,
    offset: input.offset,
    counts,
    last_check_at: last,
  };
}

export interface MonitorRegion {
  region: string;
  /** False: the operator has disabled the region. */
  enabled: boolean;
  vote: "failing" | "passing" | "none";
  live: boolean;
  status: CheckStatus | null;
  error: string | null;
  last_slot: Date | null;
}

/** One monitor with the vote of each of its regions. */
export async function getMonitor(ctx: Ctx, id: string): Promise<MonitorRow & { regions: MonitorRegion[] }> {
  requireScope(ctx, "targets:read");
  return await readMonitor(ctx, id);
}

/** {@link getMonitor} without a scope check. */
export async function readMonitor(reader: OrgReader, id: string): Promise<MonitorRow & { regions: MonitorRegion[] }> {
  const now = reader.clock.now();
  const row = isId(id) ? await queries.selectMonitor(reader.sql, reader.orgId, new Date(now), id) : null;
  if (row === null) throw notFound();
  const [own, disabled] = await Promise.all([queries.selectRegionsOf(reader.sql, id), disabledRegionIds(reader)]);
  const votes = explainVotes({ ...row, timeout: row.spec.timeout }, row, disabled, now).regions;
  const regions = own.map((region): MonitorRegion => {
    const enabled = !disabled.has(region);
    const vote = votes.find((it) => it.region === region);
    if (vote === undefined)
      return { region, enabled, vote: "none", live: false, status: null, error: null, last_slot: null };
    return {
      region,
      enabled,
      vote: vote.vote,
      live: vote.live,
      status: vote.last_status,
      error: vote.last_error,
      last_slot: new Date(vote.last_slot),
    };
  });
  return { ...presentMonitor(row), regions };
}

/** The regions that probe a target, in the order of their ids. */
export async function targetRegions(ctx: Ctx, id: string): Promise<TargetRegions> {
  await getTarget(ctx, id);
  return { regions: await queries.selectRegionsOf(ctx.sql, id) };
}

/**
 * Has exactly these regions probe a target. One that is taken away stops at once and loses its vote; one that is new
 * runs its first check at its next slot.
 */
export async function setTargetRegions(ctx: Ctx, id: string, { regions }: TargetRegions): Promise<TargetRegions> {
  requireScope(ctx, "targets:write");
  if (!isId(id)) throw notFound();
  return await inTransaction(ctx, async (tx) => {
    const before = await queries.lockTarget(tx.sql, ctx.orgId, id);
    if (before === null) throw notFound();
    const old = await queries.selectRegionsOf(tx.sql, id);
    // A disabled region that the target has already may stay, so that a client can send back what it read.
    const allowed = new Set([...(await enabledRegionIds(tx, regions)), ...old]);
    const unknown = regions.findIndex((region) => !allowed.has(region));
    if (unknown >= 0)
      throw new AppError("REGION_INVALID", `There is no enabled region "${regions[unknown]}".`, {
        field: `/regions/${unknown}`,
      });
    regionPolicyRule(before.region_policy, regions.length, "/regions");
    await queries.replaceRegions(tx.sql, id, regions);
    await record(tx, { resourceId: id, before: { regions: old }, after: { regions: regions.toSorted() } });
    // The row itself changes too: that is what agents hear of.
    await queries.updateTarget(tx.sql, {
      ...before,
      write_source: ctx.writeSource,
      updated_at: new Date(ctx.clock.now()),
    });
    await reevaluate(tx, id, { ...before, timeout: before.spec.timeout }, regions);
    await queries.announceTargets(tx.sql);
    return { regions: regions.toSorted() };
  });
}

/** How many targets of the organisation read how, and how many are paused. For the dashboard. */
export async function monitorCounts(ctx: Ctx): Promise<Record<MonitorState, number>> {
  requireScope(ctx, "targets:read");
  return countsOf(
    await queries.countMonitors(ctx.sql, ctx.orgId, new Date(ctx.clock.now()), { q: null, tag: null, enabled: null }),
  );
}

/**
 * Destinations (host and port) of enabled targets that an agent's circuit breaker keeps from being checked. Read from
 * the last runs: agents report no breakers. For the dashboard.
 */
export async function openCircuits(ctx: Ctx): Promise<number> {
  requireScope(ctx, "targets:read");
  const specs = await queries.selectCircuitOpenSpecs(ctx.sql, ctx.orgId, new Date(ctx.clock.now()));
  return new Set(
    specs.flatMap((spec) => {
      const destination = kindOf(spec).destination(spec);
      return destination === null ? [] : [`${destination.host} ${destination.port}`];
    }),
  ).size;
}

/** The tags in use that begin with `q`, in either case, most used first. */
export async function listTags(
  ctx: Ctx,
  input: { q?: string; limit: number; offset: number },
): Promise<Page<TagCount>> {
  requireScope(ctx, "targets:read");
  const prefix = input.q?.normalize("NFC") ?? "";
  const [items, total] = await Promise.all([
    queries.selectTags(ctx.sql, ctx.orgId, prefix, input.limit, input.offset),
    queries.countTags(ctx.sql, ctx.orgId, prefix),
  ]);
  return { items, total, limit: input.limit, offset: input.offset };
}
