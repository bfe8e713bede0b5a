import type { Db } from "../../../platform/db/client/sql.ts";
import type { Evaluation } from "../evaluation/replay.ts";
import { insertEvents, type NewEvent } from "../timeline/event-queries.ts";
import type { Actor, EventKind } from "../timeline/event-schema.ts";
import { passGate, sendNotices } from "../holds/maintenance.ts";
import { outboxNotice, type NoticeSubject, type NoticeToSend } from "../evaluation/notices.ts";
import {
  type IncidentBefore,
  type IncidentFacts,
  insertIncidents,
  outageSince,
  restartReminders,
  retractIncidents,
  shownSeverity,
  updateIncidents,
} from "./record-queries.ts";
import { writeOutages } from "../reports/outage-queries.ts";
import type { IncidentState } from "../evaluation/machine.ts";

export interface EvaluatedTarget extends IncidentFacts {
  name: string;
  renotifyIntervalSecs: number;
  /** The cause of the change; the engine where left out. */
  actor?: Actor | undefined;
  evaluation: Evaluation;
}

/**
 * Writes evaluations: incidents first closed, then opened (a target never has two open ones), then the
 * events in one statement, then the notices into the outbox. Runs in the caller's transaction, which holds the state
 * rows of the targets.
 */
export async function recordEvaluations(
  sql: Db,
  evaluated: readonly EvaluatedTarget[],
  publicUrl: string,
  now: Date,
): Promise<void> {
  const updated = evaluated.flatMap((target) => target.evaluation.updated.map((incident) => ({ target, incident })));
  const inserted = evaluated.flatMap((target) => target.evaluation.inserted.map((incident) => ({ target, incident })));
  const retracted = evaluated.flatMap((target) => target.evaluation.retracted);
  const events: NewEvent[] = [];
  if (retracted.length > 0) {
    await retractIncidents(sql, retracted, now);
    for (const target of evaluated)
      for (const id of target.evaluation.retracted) events.push(eventOf(target, id, "retracted", {}));
  }
  const facts = ({ target, incident }: Change) => {
    const { renotifyIntervalSecs: secs, manual } = target;
    const isSilent = incident.closedAt !== null || secs === 0 || manual?.notify === false;
    return { facts: target, incident, reminderDueAt: isSilent ? null : new Date(now.getTime() + secs * 1000) };
  };
  // A closing incident of a target is written before its next one opens.
  const [closing, open] = [true, false].map((closes) =>
    updated.filter(({ incident }) => (incident.closedAt !== null) === closes),
  ) as [Change[], Change[]];
  for (const some of [closing, open]) {
    const before = await updateIncidents(sql, some.map(facts), now);
    for (const { target, incident } of some) {
      const known = before.get(incident.id);
      if (known !== undefined) events.push(...transitionsOf(target, known, incident));
    }
  }
  if (inserted.length > 0) await insertIncidents(sql, inserted.map(facts), now);
  for (const { target, incident } of inserted) events.push(...transitionsOf(target, null, incident));
  for (const target of evaluated) events.push(...flapsOf(target));
  // What flapped and stays down is told now: its reminder counts from here.
  const settled = evaluated.filter(({ flaps }) => flaps.before !== null && flaps.after === null);
  if (settled.length > 0)
    await restartReminders(
      sql,
      settled.map(({ flaps }) => flaps.before!.incident_id),
      settled.map(({ renotifyIntervalSecs: secs }) => new Date(now.getTime() + secs * 1000)),
    );
  const written = [...updated, ...inserted].map(({ target, incident }) => ({ orgId: target.orgId, incident }));
  if (written.length > 0) await writeOutages(sql, written);
  if (events.length > 0) await insertEvents(sql, events, now);
  const notices = evaluated.flatMap((target) =>
    target.evaluation.notices.map((planned) => ({
      ...outboxNotice(subjectOf(target, planned), planned.reason, planned.seq, publicUrl),
      ...(planned.raised === true ? { raised: true as const } : {}),
    })),
  );
  await sendNotices(sql, await passGate(sql, notices, now), now);
}

interface Change {
  readonly target: EvaluatedTarget;
  readonly incident: IncidentState;
}

/** The events of a target that flaps from now on, or does not any more. */
function flapsOf(target: EvaluatedTarget): NewEvent[] {
  const { before, after } = target.flaps;
  if (before === null && after !== null)
    return [eventOf(target, after.incident_id, "flapping_started", { changes: after.changes })];
  if (before === null || after !== null) return [];
  const { incident } = target.evaluation.checkpoint;
  const outcome = incident?.id === before.incident_id && incident.closedAt === null ? "down" : "up";
  return [eventOf(target, before.incident_id, "flapping_ended", { changes: before.changes, outcome })];
}

const subjectOf = (target: EvaluatedTarget, { incident, flap, flapping }: NoticeToSend): NoticeSubject => ({
  id: incident.id,
  org_id: target.orgId,
  target_id: target.targetId,
  monitor_name: target.name,
  severity: shownSeverity(target, incident),
  started_at: new Date(incident.startedAt),
  ended_at: incident.endedAt === null ? null : new Date(incident.endedAt),
  outage_since: outageSince(incident),
  past_outage_ms: incident.pastMs,
  error_sample: target.errorSample,
  diagnosis: target.diagnosis,
  regions_down: incident.regionsDown,
  regions_up: incident.regionsUp,
  ...(flap === undefined
    ? {}
    : {
        flap: flapping === undefined ? { flap } : { flap, since: new Date(flapping.since), changes: flapping.changes },
      }),
});

/** The events between a stored incident (null: none) and its new state, in order. */
function transitionsOf(target: EvaluatedTarget, before: IncidentBefore | null, incident: IncidentState): NewEvent[] {
  const event = (kind: EventKind, detail: object) => eventOf(target, incident.id, kind, detail);
  const { regionsDown: regions_down, regionsUp: regions_up, closedAt, reopened } = incident;
  const shown = target.manual?.severity ?? shownSeverity(target, { ...incident, closedAt: null });
  // Changes of what flaps are held: subscribers of pages are not notified of them either.
  const held = target.flaps.before === null ? {} : { flapping: true };
  const facts = { severity: shown, error: target.errorSample, regions_down, regions_up, ...held };
  const time = (ms: number) => new Date(ms).toISOString();
  const events: NewEvent[] = [];
  let open = before?.was_open ?? true;
  if (before === null) events.push(event("opened", { ...facts, confirmed_at: time(incident.openedAt) }));
  const reopenings = reopened - (before?.reopened_count ?? 0);
  // Several transitions in one batch: the closings between two reopenings are events as well.
  for (let left = Math.max(reopenings, !open && closedAt === null ? 1 : 0); left > 0; left--) {
    if (open) events.push(event("resolved", { closed_by: "engine", ...held }));
    events.push(event("reopened", facts));
    open = true;
  }
  if (before?.engine_severity === "minor" && reopenings <= 0 && incident.severity === "major")
    events.push(event("escalated", { severity: target.downSeverity, regions_down, regions_up }));
  if (open && closedAt !== null)
    events.push(
      event("resolved", {
        closed_by: target.closedBy,
        regions_down,
        regions_up,
        confirmed_at: time(closedAt),
        ...held,
      }),
    );
  return events;
}

const eventOf = (target: EvaluatedTarget, incidentId: string, kind: EventKind, detail: object): NewEvent => ({
  orgId: target.orgId,
  incidentId,
  kind,
  actor: target.actor,
  detail,
});
