import type { Db } from "../../platform/db/sql.ts";
import type { Incident, Severity } from "./schema.ts";
import { type IncidentState, severityOf } from "./machine.ts";

/** What a person states of an incident: the severity is pinned. */
export interface ManualFacts {
  severity: Severity;
  publicTitle: string;
  /** False: no channel is notified, not by reminders either. */
  notify: boolean;
}

/** What an incident row has beside the state of the evaluation. */
export interface IncidentFacts {
  orgId: string;
  targetId: string;
  errorSample: string | null;
  closedBy: Exclude<Incident["closed_by"], null>;
  /** Of an incident that a person opens; null otherwise. */
  manual: ManualFacts | null;
  /** When the next reminder is due; null for none. */
  reminderDueAt: Date | null;
}

const at = (ms: number | null): Date | null => (ms === null ? null : new Date(ms));

/** Start of the current outage; null when closed. */
export const outageSince = ({ closedAt, since }: IncidentState): Date | null =>
  closedAt === null ? new Date(since) : null;

export async function insertIncident(sql: Db, facts: IncidentFacts, incident: IncidentState, now: Date): Promise<void> {
  const closedBy = incident.closedAt === null ? null : facts.closedBy;
  const { manual } = facts;
  await sql`
    insert into incidents (id, org_id, target_id, started_at, opened_at, ended_at, outage_since, past_outage_ms,
      severity, severity_pinned, engine_severity, impact, peak_impact, error_sample, regions_down, regions_up,
      reopened_count, opened_by, closed_by, reminder_due_at, public_title, created_at, updated_at)
    values (${incident.id}, ${facts.orgId}, ${facts.targetId}, ${at(incident.startedAt)}, ${at(incident.openedAt)},
      ${at(incident.endedAt)}, ${outageSince(incident)}, ${incident.pastMs},
      ${manual?.severity ?? severityOf(incident)}, ${manual !== null}, ${incident.severity},
      ${incident.impact}, ${incident.peakImpact}, ${facts.errorSample}, ${incident.regionsDown},
      ${incident.regionsUp}, ${incident.reopened}, ${manual === null ? "engine" : "person"}, ${closedBy},
      ${facts.reminderDueAt}, ${manual?.publicTitle ?? null}, ${now}, ${now})`;
}

/** An incident as it was before an update. */
export interface IncidentBefore {
  was_open: boolean;
  reopened_count: number;
  engine_severity: Severity;
}

/**
 * Updates an incident and returns how it was before; null when it is gone. A pinned severity stays. Reminders, the
 * ladder and the acknowledgement restart when the incident reopens.
 */
export async function updateIncident(
  sql: Db,
  facts: IncidentFacts,
  incident: IncidentState,
  now: Date,
): Promise<IncidentBefore | null> {
  const closed = incident.closedAt !== null;
  const [before] = await sql<IncidentBefore[]>`
    with old as (
      select id, ended_at is null as was_open, reopened_count, coalesce(engine_severity, severity) as engine_severity
      from incidents where id = ${incident.id} and org_id = ${facts.orgId} for update
    )
    update incidents i set started_at = ${at(incident.startedAt)}, opened_at = ${at(incident.openedAt)},
      ended_at = ${at(incident.endedAt)}, outage_since = ${outageSince(incident)}, past_outage_ms = ${incident.pastMs},
      severity = case when i.severity_pinned then i.severity else ${severityOf(incident)} end,
      engine_severity = ${incident.severity}, impact = ${incident.impact}, peak_impact = ${incident.peakImpact},
      regions_down = ${incident.regionsDown}, regions_up = ${incident.regionsUp},
      error_sample = coalesce(${closed ? null : facts.errorSample}, i.error_sample),
      reopened_count = ${incident.reopened}, closed_by = ${closed ? facts.closedBy : null},
      acknowledged_at = case when i.reopened_count = ${incident.reopened} then i.acknowledged_at end,
      acknowledged_by = case when i.reopened_count = ${incident.reopened} then i.acknowledged_by end,
      reminder_due_at = case
        when ${closed} then null
        when i.reopened_count = ${incident.reopened} then i.reminder_due_at
        else ${facts.reminderDueAt} end,
      escalation_due_at = case
        when ${!closed} and i.reopened_count = ${incident.reopened} then i.escalation_due_at end,
      updated_at = ${now}
    from old where i.id = old.id
    returning old.was_open, old.reopened_count, old.engine_severity`;
  return before ?? null;
}

/**
 * Marks incidents that late results took back. The rows stay for the record, closed at the moment at which they opened.
 */
export async function retractIncidents(sql: Db, ids: readonly string[], now: Date): Promise<void> {
  await sql`
    with outages as (delete from incident_outages where incident_id = any(${[...ids]}::uuid[]))
    update incidents set retracted = true, ended_at = coalesce(ended_at, opened_at), outage_since = null,
      past_outage_ms = 0, closed_by = coalesce(closed_by, 'engine'), reminder_due_at = null,
      escalation_due_at = null, updated_at = ${now}
    where id = any(${[...ids]}::uuid[])`;
}
