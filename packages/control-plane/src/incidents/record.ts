import type { Db } from "../db/sql.ts";
import type { Evaluation } from "./evaluate.ts";
import { noticeOf, type TellableIncident, writeDeliveries } from "./outbox.ts";
import type { IncidentState } from "./votes.ts";

/** The outcome of an evaluation and the target it belongs to. */
export interface EvaluatedTarget {
  orgId: string;
  targetId: string;
  name: string;
  renotifyIntervalSecs: number;
  notifyRecovery: boolean;
  errorSample: string | null;
  closedBy: "engine" | "person" | "pause";
  evaluation: Evaluation;
}

/**
 * Writes what evaluations found: incidents first closed, then opened (there is only ever one open per target), then the
 * notices into the outbox. Runs in the caller's transaction, which holds the state rows of the targets.
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
  if (retracted.length > 0) await retractIncidents(sql, retracted, now);
  // One at a time: an incident changes rarely, and a closing one must be written before the next one opens.
  for (const it of updated.toSorted(
    (a, b) => Number(a.incident.closedAt === null) - Number(b.incident.closedAt === null),
  ))
    await updateIncident(sql, it.target, it.incident, now);
  for (const it of inserted) await insertIncident(sql, it.target, it.incident, now);

  const notices = evaluated.flatMap((target) =>
    target.evaluation.notices
      .filter((it) => it.reason !== "resolved" || target.notifyRecovery)
      .map((it) => ({
        orgId: target.orgId,
        seq: it.seq,
        notice: noticeOf(tellable(target, it.incident), target.name, it.reason, publicUrl),
      })),
  );
  await writeDeliveries(sql, now.getTime(), notices);
}

function tellable(target: EvaluatedTarget, incident: IncidentState): TellableIncident {
  return {
    id: incident.id,
    target_id: target.targetId,
    severity: incident.severity,
    started_at: new Date(incident.startedAt),
    ended_at: at(incident.endedAt),
    error_sample: target.errorSample,
    regions_down: incident.regionsDown,
    regions_up: incident.regionsUp,
  };
}

const dueAt = (target: EvaluatedTarget, incident: IncidentState, now: Date): Date | null =>
  incident.closedAt !== null || target.renotifyIntervalSecs === 0
    ? null
    : new Date(now.getTime() + target.renotifyIntervalSecs * 1000);

const at = (ms: number | null): Date | null => (ms === null ? null : new Date(ms));

async function insertIncident(sql: Db, target: EvaluatedTarget, incident: IncidentState, now: Date): Promise<void> {
  await sql`
    insert into incidents (id, org_id, target_id, started_at, opened_at, ended_at, severity, impact, peak_impact, error_sample, regions_down, regions_up,
      reopened_count, closed_by, reminder_due_at, created_at, updated_at)
    values (${incident.id}, ${target.orgId}, ${target.targetId}, ${at(incident.startedAt)}, ${at(incident.openedAt)}, ${at(incident.endedAt)}, ${incident.severity},
      ${incident.impact}, ${incident.peakImpact}, ${target.errorSample}, ${incident.regionsDown}, ${incident.regionsUp}, ${incident.reopened},
      ${incident.closedAt === null ? null : target.closedBy}, ${dueAt(target, incident, now)}, ${now}, ${now})`;
}

/** A severity that a person has set stays. Reminders start anew when an incident reopens, and so does its acknowledgement. */
async function updateIncident(sql: Db, target: EvaluatedTarget, incident: IncidentState, now: Date): Promise<void> {
  await sql`
    update incidents set started_at = ${at(incident.startedAt)}, opened_at = ${at(incident.openedAt)}, ended_at = ${at(incident.endedAt)},
      severity = case when severity_pinned then severity else ${incident.severity} end,
      impact = ${incident.impact}, peak_impact = ${incident.peakImpact}, regions_down = ${incident.regionsDown}, regions_up = ${incident.regionsUp},
      error_sample = coalesce(${incident.closedAt === null ? target.errorSample : null}, error_sample),
      reopened_count = ${incident.reopened},
      closed_by = ${incident.closedAt === null ? null : target.closedBy},
      acknowledged_at = case when reopened_count = ${incident.reopened} then acknowledged_at end,
      acknowledged_by = case when reopened_count = ${incident.reopened} then acknowledged_by end,
      reminder_due_at = case
        when ${incident.closedAt !== null} then null
        when reopened_count = ${incident.reopened} then reminder_due_at
        else ${dueAt(target, incident, now)} end,
      updated_at = ${now}
    where id = ${incident.id} and org_id = ${target.orgId}`;
}

/** What late results took back. The row stays for the record, closed at the moment at which it opened. */
async function retractIncidents(sql: Db, ids: readonly string[], now: Date): Promise<void> {
  await sql`
    update incidents set retracted = true, ended_at = coalesce(ended_at, opened_at), closed_by = coalesce(closed_by, 'engine'), reminder_due_at = null, updated_at = ${now}
    where id = any(${ids as string[]}::uuid[])`;
}
