import { arrayOf, type Db } from "../../../platform/db/client/sql.ts";
import type { Incident, Severity } from "../schema.ts";
import type { StoredFlapping } from "./flapping-queries.ts";
import { type IncidentState, severityOf } from "../evaluation/machine.ts";

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
  /** Severity of its incidents that are more than minor. */
  downSeverity: Exclude<Severity, "minor">;
  errorSample: string | null;
  /** Of the run of the error, as results have it. */
  diagnosis: string | null;
  closedBy: Exclude<Incident["closed_by"], null>;
  /** Of an incident that a person opens. */
  manual?: ManualFacts | undefined;
  /** Whether the target flapped, and does now. */
  flaps: { before: StoredFlapping | null; after: StoredFlapping | null };
}

export interface NewFacts {
  facts: IncidentFacts;
  incident: IncidentState;
  /** When the next reminder is due; null for none. */
  reminderDueAt: Date | null;
}

/** Severity of an incident, now or of the worst that failed. */
export const shownSeverity = ({ downSeverity }: Pick<IncidentFacts, "downSeverity">, incident: IncidentState) =>
  severityOf(incident) === "minor" ? "minor" : downSeverity;

const at = (ms: number | null): Date | null => (ms === null ? null : new Date(ms));

/** Start of the current outage; null when closed. */
export const outageSince = ({ closedAt, since }: IncidentState): Date | null =>
  closedAt === null ? new Date(since) : null;

/** Columns that an evaluation decides, with their types. */
const evaluated = (sql: Db) => sql`
  id uuid, org_id uuid, started_at timestamptz, opened_at timestamptz, ended_at timestamptz, outage_since timestamptz,
  past_outage_ms bigint, severity text, engine_severity text, impact text, peak_impact text,
  error_sample text, diagnosis text, regions_down text[], regions_up text[],
  reopened_count integer, closed_by text, reminder_due_at timestamptz, flapped boolean`;

const evaluatedOf = ({ facts, incident, reminderDueAt }: NewFacts) => ({
  id: incident.id,
  org_id: facts.orgId,
  started_at: at(incident.startedAt),
  opened_at: at(incident.openedAt),
  ended_at: at(incident.endedAt),
  outage_since: outageSince(incident),
  past_outage_ms: incident.pastMs,
  severity: shownSeverity(facts, incident),
  engine_severity: incident.severity,
  impact: incident.impact,
  peak_impact: incident.peakImpact,
  error_sample: facts.errorSample,
  diagnosis: facts.diagnosis,
  regions_down: incident.regionsDown,
  regions_up: incident.regionsUp,
  reopened_count: incident.reopened,
  closed_by: incident.closedAt === null ? null : facts.closedBy,
  reminder_due_at: reminderDueAt,
  flapped: facts.flaps.before !== null,
});

/** Inserts incidents in one statement: a target has at most one open one among them. */
export async function insertIncidents(sql: Db, incidents: readonly NewFacts[], now: Date): Promise<void> {
  const rows = incidents.map((one) => {
    const { targetId, manual } = one.facts;
    const row = evaluatedOf(one);
    return {
      ...row,
      severity: manual?.severity ?? row.severity,
      target_id: targetId,
      severity_pinned: manual !== undefined,
      opened_by: manual === undefined ? "engine" : "person",
      public_title: manual?.publicTitle ?? null,
    };
  });
  await sql`
    insert into incidents (id, org_id, target_id, started_at, opened_at, ended_at, outage_since, past_outage_ms,
      severity, severity_pinned, engine_severity, impact, peak_impact, error_sample, diagnosis, regions_down,
      regions_up, reopened_count, opened_by, closed_by, reminder_due_at, public_title, created_at, updated_at)
    select id, org_id, target_id, started_at, opened_at, ended_at, outage_since, past_outage_ms,
      severity, severity_pinned, engine_severity, impact, peak_impact, error_sample, diagnosis, regions_down,
      regions_up, reopened_count, opened_by, closed_by, reminder_due_at, public_title, ${now}, ${now}
    from jsonb_to_recordset(${sql.json(rows as never)}) as n (${evaluated(sql)}, target_id uuid,
      severity_pinned boolean, opened_by text, public_title text)`;
}

export interface IncidentBefore {
  id: string;
  was_open: boolean;
  reopened_count: number;
  engine_severity: Severity;
}

/**
 * Updates incidents in one statement and returns how they were before, without those that are gone. A pinned severity
 * stays. Reminders, the ladder and the acknowledgement restart when an incident reopens, unless it flaps.
 */
export async function updateIncidents(
  sql: Db,
  incidents: readonly NewFacts[],
  now: Date,
): Promise<Map<string, IncidentBefore>> {
  if (incidents.length === 0) return new Map();
  const rows = await sql<IncidentBefore[]>`
    with n as (select * from jsonb_to_recordset(${sql.json(incidents.map(evaluatedOf) as never)})
      as n (${evaluated(sql)})),
    old as (
      select i.id, i.ended_at is null as was_open, i.reopened_count,
        coalesce(i.engine_severity, i.severity) as engine_severity
      from incidents i join n on i.id = n.id and i.org_id = n.org_id order by i.id for update of i
    )
    update incidents i set started_at = n.started_at, opened_at = n.opened_at, ended_at = n.ended_at,
      outage_since = n.outage_since, past_outage_ms = n.past_outage_ms,
      severity = case when i.severity_pinned then i.severity else n.severity end,
      engine_severity = n.engine_severity, impact = n.impact, peak_impact = n.peak_impact,
      regions_down = n.regions_down, regions_up = n.regions_up,
      error_sample = case when n.closed_by is null then coalesce(n.error_sample, i.error_sample)
        else i.error_sample end,
      diagnosis = case when n.closed_by is null and n.error_sample is not null then n.diagnosis else i.diagnosis end,
      reopened_count = n.reopened_count, closed_by = n.closed_by,
      acknowledged_at = case when i.reopened_count = n.reopened_count or n.flapped then i.acknowledged_at end,
      acknowledged_by = case when i.reopened_count = n.reopened_count or n.flapped then i.acknowledged_by end,
      reminder_due_at = case
        when n.closed_by is not null then null
        when i.reopened_count = n.reopened_count then i.reminder_due_at
        else n.reminder_due_at end,
      escalation_due_at = case
        when n.closed_by is null and (i.reopened_count = n.reopened_count or n.flapped) then i.escalation_due_at end,
      updated_at = ${now}
    from n join old on old.id = n.id where i.id = n.id
    returning old.id, old.was_open, old.reopened_count, old.engine_severity`;
  return new Map(rows.map((row) => [row.id, row]));
}

/** Has the reminders of open incidents be due at these times; an incident without reminders gets none. */
export async function restartReminders(sql: Db, ids: readonly string[], dueAt: readonly Date[]): Promise<void> {
  await sql`
    update incidents i set reminder_due_at = n.due_at
    from unnest(${arrayOf(ids)}::uuid[], ${arrayOf(dueAt.map((at) => at.toISOString()))}::timestamptz[])
      as n (id, due_at)
    where i.id = n.id and i.ended_at is null and i.reminder_due_at is not null`;
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
