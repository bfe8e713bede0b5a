import { AppError } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import { differences, record } from "../audit/service.ts";
import { type Ctx, inTransaction, requireScope, type System } from "../context.ts";
import { iso, isoOrNull, type Page } from "../http/wire.ts";
import { closeByHand, current, reconsider } from "./evaluate.ts";
import {
  changeEvidence,
  type EvidenceChange,
  type LockedEvidence,
  lockEvidence,
  type Reevaluated,
} from "./evidence.ts";
import { isLive, needed } from "./votes.ts";
import { disabledRegionIds } from "../regions/service.ts";
import * as queries from "./queries.ts";
import type { Delivery, Explanation, Incident } from "./schema.ts";
import { parseState } from "./stored-state.ts";
import { policyOf, type PolicyFields } from "./target-state.ts";

/** Deliveries that an explanation shows; the others are a list of their own. */
const explainedDeliveries = 100;

const notFound = () => new AppError("INCIDENT_NOT_FOUND", "Incident not found.");

function present(row: queries.IncidentRow): Incident {
  return {
    id: row.id,
    target_id: row.target_id,
    monitor_name: row.monitor_name,
    state: row.ended_at === null ? "open" : "closed",
    severity: row.severity,
    started_at: iso(row.started_at),
    ended_at: isoOrNull(row.ended_at),
    duration_secs:
      row.ended_at === null ? null : Math.round((row.ended_at.getTime() - row.started_at.getTime()) / 1000),
    acknowledged_at: isoOrNull(row.acknowledged_at),
    closed_by: row.closed_by,
    reopened_count: row.reopened_count,
    error_sample: row.error_sample,
    regions_down: row.regions_down,
    regions_up: row.regions_up,
    public_title: row.public_title,
    public_description: row.public_description,
    created_at: iso(row.created_at),
    updated_at: iso(row.updated_at),
  };
}

/** The incidents of the organisation, open ones first, newest first. */
export async function listIncidents(
  ctx: Ctx,
  input: { state: "open" | "closed" | "all"; target_id?: string; limit: number; offset: number },
): Promise<Page<Incident>> {
  requireScope(ctx, "incidents:read");
  if (input.target_id !== undefined && !isId(input.target_id))
    return { items: [], total: 0, limit: input.limit, offset: input.offset };
  const filter = { state: input.state, targetId: input.target_id ?? null };
  const [rows, total] = await Promise.all([
    queries.selectIncidents(ctx.sql, ctx.orgId, filter, input.limit, input.offset),
    queries.countIncidents(ctx.sql, ctx.orgId, filter),
  ]);
  return { items: rows.map(present), total, limit: input.limit, offset: input.offset };
}

async function find(ctx: Ctx, id: string): Promise<queries.IncidentRow> {
  const row = isId(id) ? await queries.selectIncident(ctx.sql, ctx.orgId, id) : null;
  if (row === null) throw notFound();
  return row;
}

/** One incident. INCIDENT_NOT_FOUND for an absent or foreign id. */
export async function getIncident(ctx: Ctx, id: string): Promise<Incident> {
  requireScope(ctx, "incidents:read");
  return present(await find(ctx, id));
}

/** Marks an open incident as seen, which ends its reminders. Doing it twice changes nothing. */
export async function acknowledgeIncident(ctx: Ctx, id: string): Promise<Incident> {
  requireScope(ctx, "incidents:write");
  return await recorded(
    ctx,
    id,
    async (tx) => await queries.acknowledgeIncident(tx.sql, ctx.orgId, id, ctx.userId, new Date(ctx.clock.now())),
  );
}

/** Closes an incident by hand and tells its channels. Failing runs may open it again, by the ordinary rule. */
export async function resolveIncident(ctx: Ctx, id: string): Promise<Incident> {
  requireScope(ctx, "incidents:write");
  return await recorded(ctx, id, async (tx, { target_id }) => {
    await decideOn(tx, [target_id], "person", ({ policy, state }) => {
      const open = current(policy, state.evaluation).incident;
      return open?.id === id
        ? { evaluation: closeByHand(policy, state.evaluation, ctx.clock.now(), false), latest: state.latest }
        : null;
    });
  });
}

/** What a person does to an incident, in one transaction with its row in the audit log. */
async function recorded(
  ctx: Ctx,
  id: string,
  work: (tx: Ctx, row: queries.IncidentRow) => Promise<void>,
): Promise<Incident> {
  return await inTransaction(ctx, async (tx) => {
    // No other transaction changes the incident between the two looks.
    await lockEvidence(tx, [(await find(tx, id)).target_id]);
    const row = await find(tx, id);
    await work(tx, row);
    const after = present(await find(tx, id));
    await record(tx, { resourceId: id, ...differences({ before: present(row), after }) });
    return after;
  });
}

/** Targets whose evidence is changed at once. */
const portion = 500;

/** Closes the open incidents of targets that are paused, without a notice. Call it in the transaction of the pause. */
export async function closeSilently(ctx: Ctx, targetIds: readonly string[]): Promise<void> {
  const sorted = [...targetIds].sort();
  // In portions, so that thousands do not hold the event loop; locks are taken in id order all the same.
  for (let at = 0; at < sorted.length; at += portion)
    await decideOn(ctx, sorted.slice(at, at + portion), "pause", ({ policy, state }) => ({
      evaluation: closeByHand(policy, state.evaluation, ctx.clock.now(), true),
      latest: state.latest,
    }));
}

/**
 * Evaluates the evidence by an edited policy, without the votes of regions that are not among `regions` (any more). Call
 * it in the transaction of the edit, after the row is written; `before` is the old row.
 */
export async function reevaluate(
  ctx: Ctx,
  targetId: string,
  before: PolicyFields,
  regions: readonly string[],
): Promise<void> {
  const old = policyOf(before);
  await decideOn(ctx, [targetId], "engine", ({ policy, state }) => ({
    evaluation: reconsider(old, policy, state.evaluation, regions, ctx.clock.now(), newId),
    latest: Object.fromEntries(Object.entries(state.latest).filter(([region]) => regions.includes(region))),
  }));
}

/**
 * Has reminders of the target's open incident follow its edited interval: the next one is due that long after the last
 * notice, at once if that has passed, and never with an interval of 0. Call it in the transaction of the edit.
 */
export async function rescheduleReminders(ctx: Ctx, targetId: string, intervalSecs: number): Promise<void> {
  await queries.rescheduleReminders(ctx.sql, ctx.orgId, targetId, intervalSecs, new Date(ctx.clock.now()));
}

/** Changes the evidence of the organisation's targets by a decision that is no result. Null changes nothing. */
async function decideOn(
  ctx: Ctx,
  targetIds: readonly string[],
  closedBy: EvidenceChange["closedBy"],
  decision: (evidence: LockedEvidence<queries.PolicyRow>) => Reevaluated | null,
): Promise<void> {
  await changeEvidence(
    ctx,
    targetIds,
    (sql, ids) => queries.selectPolicies(sql, ctx.orgId, ids),
    async (evidence) => {
      const changes = new Map<string, EvidenceChange>();
      for (const [id, locked] of evidence) {
        const change = decision(locked);
        if (change !== null) changes.set(id, { ...change, closedBy, lastResultAt: null });
      }
      return { changes, result: undefined };
    },
  );
}

/** How many incidents of the organisation have begun since then. For the dashboard, which asks for its own scope. */
export async function incidentsSince(system: System, orgId: string, since: Date): Promise<number> {
  return await queries.countIncidentsSince(system.sql, orgId, since);
}

/**
 * Gives up the notices that were held while the organisation was deleted: they are no news any more. What still goes on is
 * told by its next reminder. Called in the transaction that restores it. Returns how many there were.
 */
export async function dropHeldNotices(tx: System, orgId: string): Promise<number> {
  return await queries.dropPendingDeliveries(
    tx.sql,
    orgId,
    "the organisation was deleted when this was to be sent",
    new Date(tx.clock.now()),
  );
}

/** What was sent to whom about the incident, oldest first, with every attempt. */
export async function listDeliveries(
  ctx: Ctx,
  incidentId: string,
  input: { limit: number; offset: number },
): Promise<Page<Delivery>> {
  requireScope(ctx, "incidents:read");
  await find(ctx, incidentId);
  return await deliveriesOf(ctx, incidentId, input.limit, input.offset);
}

async function deliveriesOf(ctx: Ctx, incidentId: string, limit: number, offset: number): Promise<Page<Delivery>> {
  const [rows, total] = await Promise.all([
    queries.selectDeliveries(ctx.sql, ctx.orgId, incidentId, limit, offset),
    queries.countDeliveries(ctx.sql, ctx.orgId, incidentId),
  ]);
  const items = rows.map((row) => ({
    id: row.id,
    channel_id: row.channel_id,
    channel_name: row.channel_name,
    channel_type: row.channel_kind,
    reason: row.reason,
    state: row.state,
    attempts: row.attempts.map((attempt) => ({ ...attempt, at: new Date(attempt.at).toISOString() })),
    next_attempt_at: isoOrNull(row.next_attempt_at),
    created_at: iso(row.created_at),
    delivered_at: isoOrNull(row.delivered_at),
  }));
  return { items, total, limit, offset };
}

/** Why the incident is as it is: the vote of every region, the policy that they are held against, and the deliveries. */
export async function explainIncident(ctx: Ctx, incidentId: string): Promise<Explanation> {
  requireScope(ctx, "incidents:read");
  const incident = await find(ctx, incidentId);
  const [[target], state, disabled, deliveries] = await Promise.all([
    queries.selectPolicies(ctx.sql, ctx.orgId, [incident.target_id]),
    queries.selectState(ctx.sql, incident.target_id),
    disabledRegionIds(ctx),
    deliveriesOf(ctx, incidentId, explainedDeliveries, 0),
  ]);
  if (target === undefined || state === null) throw notFound();
  return {
    incident_id: incident.id,
    opened_at: iso(incident.opened_at),
    region_policy: target.region_policy,
    alert_confirmations: target.alert_confirmations,
    ...explainVotes(target, state, disabled, ctx.clock.now()),
    deliveries: deliveries.items,
    deliveries_total: deliveries.total,
  };
}

/** The votes of a target's regions at `now`, for people. `stored` is its state row, `disabled` are region ids. */
export function explainVotes(
  target: PolicyFields,
  stored: queries.StateRow,
  disabled: ReadonlySet<string>,
  now: number,
): Pick<Explanation, "regions" | "regions_live" | "regions_failing" | "regions_failing_silent" | "regions_needed"> {
  const policy = policyOf(target);
  const state = parseState(stored.state, stored.status_until);
  const checkpoint = current(policy, state.evaluation);
  const regions = Object.entries(checkpoint.regions)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([region, it]) => ({
      region,
      enabled: !disabled.has(region),
      vote: it.vote ?? ("none" as const),
      live: isLive(policy, it.last, now),
      consecutive: it.streak,
      consecutive_kind: it.kind === "P" ? ("passing" as const) : ("failing" as const),
      last_slot: new Date(it.last).toISOString(),
      last_status: state.latest[region]?.status ?? null,
      last_error: state.latest[region]?.error ?? null,
    }));
  const live = regions.filter((it) => it.live).length;
  const failing = regions.filter((it) => it.vote === "failing");
  const failingLive = failing.filter((it) => it.live).length;
  return {
    regions,
    regions_live: live,
    regions_failing: failingLive,
    regions_failing_silent: failing.length - failingLive,
    regions_needed: needed(policy.regionPolicy, live),
  };
}
