import type { Fragment } from "postgres";
import { inBatches, type System } from "../../../platform/context.ts";
import { insertEvents, type NewEvent } from "../timeline/event-queries.ts";
import type { EventKind } from "../timeline/event-schema.ts";
import {
  type HeldNotice,
  type HoldStage,
  isMaintenanceActive,
  type LeftIncident,
  lockNoticeStates,
  type NoticeState,
  takeEntered,
  takeLeft,
  writeHeld,
} from "./maintenance-queries.ts";
import { type OutboxNotice, writeDeliveries } from "../../deliveries/engine.ts";
import { followDependencies, tellHeld, withDependents } from "./dependencies.ts";
import { resumeGated, resumeLadders, startLadders } from "../escalation/ladder-queries.ts";
import type { Transition } from "../evaluation/machine.ts";
import { type FlapFacts, outboxNotice } from "../evaluation/notices.ts";
import type { Notice, Reason } from "../../channels/schema.ts";

type Sql = System["sql"];

/** Few enough that one transaction is short. */
const batch = 200;

/**
 * One notice in place of a held one and a newer one: the newer, except that an escalation of an opening that was not
 * sent is still that opening.
 */
function coalesce(held: HeldNotice | null, next: HeldNotice): HeldNotice {
  return next.reason === "escalated" && held !== null && isOpening(held.reason) ? held : next;
}

/**
 * Returns the notices to send now. Those that something holds wait; a held notice and the next one that leaves are sent
 * as one. A severity that a person has pinned replaces that of the notice; results
 * do not escalate it. Call it in the transaction that changed the incidents.
 */
export async function passGate(sql: Sql, notices: readonly OutboxNotice[], now: Date): Promise<OutboxNotice[]> {
  if (notices.length === 0) return [];
  const ids = [...new Set(notices.map(({ notice }) => notice.incident_id))];
  const states = new Map((await lockNoticeStates(sql, ids, now)).map((state) => [state.id, state]));
  const held = new Map<string, HeldNotice | null>();
  const stages = new Map<string, HoldStage | null>();
  const passed: OutboxNotice[] = [];
  for (const planned of notices) {
    const id = planned.notice.incident_id;
    const state = states.get(id);
    const reason = planned.notice.reason as Transition;
    if (state === undefined || (reason === "escalated" && state.severity_pinned && planned.raised !== true)) continue;
    // An incident that was opened without notices stays silent.
    if (planned.raised === true && !state.was_told) continue;
    // A change that is held by flapping goes to channels that get every change, unless something else holds it.
    if (planned.notice.flap === "held") {
      if (!state.is_held && state.held_reason === null && !held.has(id)) passed.push(planned);
      continue;
    }
    const stored =
      state.held_reason === null || state.held_seq === null ? null : { reason: state.held_reason, seq: state.held_seq };
    const before = held.has(id) ? held.get(id)! : stored;
    const one = coalesce(before, { reason, seq: planned.seq });
    const stage = state.is_held ? state.hold_stage : stageOf(state, one.reason);
    if (state.is_held || stage !== null) {
      held.set(id, one);
      stages.set(id, isOpening(one.reason) ? stage : null);
    } else {
      const { severity } = state.severity_pinned ? state : planned.notice;
      passed.push(withReason(planned, one, severity));
      if (before !== null) held.set(id, null);
    }
  }
  if (held.size > 0) {
    const rows = [...held].map(([id, notice]) => {
      const { parent_incident: parent } = states.get(id)!;
      return { id, notice, stage: notice === null ? null : (stages.get(id) ?? null), parent };
    });
    await writeHeld(sql, rows);
    const entered = rows
      .filter(({ id, stage }) => stage === "parent" && states.get(id)!.hold_stage !== "parent")
      .map(({ id }) => id);
    await tellHeld(sql, entered, now);
  }
  return passed;
}

const isOpening = (reason: Reason): boolean => reason === "opened" || reason === "reopened";

/** How a dependency holds a notice that nothing else holds; null when it leaves. */
function stageOf(state: NoticeState, reason: Transition): HoldStage | null {
  if (!isOpening(reason)) return null;
  if (state.hold_stage !== null && state.hold_stage !== "free") return state.hold_stage;
  if (state.parent_incident !== null) return "parent";
  return state.hold_stage === null && state.parent_unclear ? "asking" : null;
}

/**
 * Writes notices that nothing holds into the outbox, and begins the ladders of those that open or reopen an incident;
 * levels that a gate passed over follow an escalation.
 * Returns the number of deliveries.
 */
export async function sendNotices(sql: Sql, notices: readonly OutboxNotice[], now: Date): Promise<number> {
  const begins = ({ reason, flap }: Notice) => isOpening(reason) && flap !== "held" && flap !== "down";
  const idsOf = (has: (notice: Notice) => boolean) =>
    notices.filter(({ notice }) => has(notice)).map(({ notice }) => notice.incident_id);
  await startLadders(sql, idsOf(begins), now);
  await resumeLadders(
    sql,
    idsOf(({ flap }) => flap === "down"),
    now,
  );
  await resumeGated(
    sql,
    idsOf(({ reason }) => reason === "escalated"),
    now,
  );
  return await writeDeliveries(sql, now.getTime(), await withDependents(sql, notices));
}

function withReason(planned: OutboxNotice, { reason, seq }: HeldNotice, severity: OutboxNotice["notice"]["severity"]) {
  const urgency = severity === "minor" ? ("low" as const) : ("high" as const);
  return { ...planned, seq, notice: { ...planned.notice, reason: reason as Reason, severity, urgency } };
}

/** False when {@link followMaintenance} would find nothing. */
export const isMaintenanceDue = ({ sql, clock }: System): Fragment => isMaintenanceActive(sql, new Date(clock.now()));

/**
 * Follows the starts and ends of maintenance windows and snoozes: appends the events of windows to open incidents, and
 * sends the held notices that are still true once nothing holds them. Returns the number of deliveries. Any number of
 * replicas may run it at once: each incident is taken by one of them.
 */
export async function followMaintenance(system: System): Promise<number> {
  await followDependencies(system);
  return await inBatches(system, batch, async (tx) => {
    const now = new Date(tx.clock.now());
    const entered = await takeEntered(tx.sql, now, batch);
    const left = await takeLeft(tx.sql, now, batch);
    const events = [
      ...entered.map(({ id, org_id, window_id, title, ends_at }) =>
        eventOf("maintenance_started", { id, org_id }, { window_id, title, ends_at: ends_at.toISOString() }),
      ),
      ...left
        .filter((one) => one.left_maintenance && one.ended_at === null)
        .map((one) => eventOf("maintenance_ended", one, {})),
    ];
    if (events.length > 0) await insertEvents(tx.sql, events, now);
    await tellHeld(
      tx.sql,
      left.filter((one) => one.entered_parent).map(({ id }) => id),
      now,
    );
    const notices = left.flatMap((one) => heldNotice(one, tx.config.server.public_url));
    const released = await sendNotices(tx.sql, notices, now);
    return { taken: Math.max(entered.length, left.length), done: released };
  });
}

const eventOf = (kind: EventKind, incident: { id: string; org_id: string }, detail: object): NewEvent => ({
  orgId: incident.org_id,
  incidentId: incident.id,
  kind,
  detail,
});

function heldNotice(one: LeftIncident, publicUrl: string): OutboxNotice[] {
  const { was_held_reason: reason, was_held_seq: seq, ended_at, retracted } = one;
  if (reason === null || seq === null) return [];
  const isTrue = reason === "resolved" ? ended_at !== null : ended_at === null && !retracted;
  if (!isTrue) return [];
  // Opened, closed and reopened inside the window: the channels get the opening.
  const first = reason === "reopened" && !one.notified;
  const { flapping } = one;
  const flap: FlapFacts | null =
    flapping === null || !isOpening(reason)
      ? null
      : { flap: "begins", since: new Date(flapping.since), changes: flapping.changes };
  const subject = flap === null ? one : { ...one, flap };
  return [outboxNotice(subject, first ? "opened" : reason, first ? 0 : seq, publicUrl)];
}
