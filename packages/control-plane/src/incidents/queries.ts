import { arrayOf } from "../db/array.ts";
import type { Db } from "../db/sql.ts";
import type { Incident, Severity } from "./schema.ts";

export interface IncidentRow {
  id: string;
  target_id: string;
  monitor_name: string;
  severity: Severity;
  started_at: Date;
  opened_at: Date;
  ended_at: Date | null;
  acknowledged_at: Date | null;
  closed_by: Incident["closed_by"];
  reopened_count: number;
  error_sample: string | null;
  regions_down: string[];
  regions_up: string[];
  public_title: string | null;
  public_description: string | null;
  created_at: Date;
  updated_at: Date;
}

const columns = (sql: Db) => sql`
  i.id, i.target_id, t.name as monitor_name, i.severity, i.started_at, i.opened_at, i.ended_at, i.acknowledged_at, i.closed_by, i.reopened_count,
  i.error_sample, i.regions_down, i.regions_up, i.public_title, i.public_description, i.created_at, i.updated_at`;

export interface IncidentFilter {
  state: "open" | "closed" | "all";
  targetId: string | null;
}

const matching = (sql: Db, orgId: string, { state, targetId }: IncidentFilter) => sql`
  i.org_id = ${orgId} and not i.retracted
  and (${state} = 'all' or (i.ended_at is null) = (${state} = 'open'))
  and (${targetId}::uuid is null or i.target_id = ${targetId}::uuid)`;

/** Open ones first, then by start, newest first. */
export async function selectIncidents(
  sql: Db,
  orgId: string,
  filter: IncidentFilter,
  limit: number,
  offset: number,
): Promise<IncidentRow[]> {
  return await sql<IncidentRow[]>`
    select ${columns(sql)} from incidents i join targets t on t.id = i.target_id
    where ${matching(sql, orgId, filter)} order by i.ended_at is not null, i.started_at desc, i.id desc limit ${limit} offset ${offset}`;
}

export async function countIncidents(sql: Db, orgId: string, filter: IncidentFilter): Promise<number> {
  const [row] = await sql<
    { count: number }[]
  >`select count(*)::int as count from incidents i where ${matching(sql, orgId, filter)}`;
  return row!.count;
}

/** How many have begun since then. */
export async function countIncidentsSince(sql: Db, orgId: string, since: Date): Promise<number> {
  const [row] = await sql<
    { count: number }[]
  >`select count(*)::int as count from incidents where org_id = ${orgId} and started_at >= ${since} and not retracted`;
  return row!.count;
}

export async function selectIncident(sql: Db, orgId: string, id: string): Promise<IncidentRow | null> {
  const [row] = await sql<
    IncidentRow[]
  >`select ${columns(sql)} from incidents i join targets t on t.id = i.target_id where i.org_id = ${orgId} and i.id = ${id} and not i.retracted`;
  return row ?? null;
}

/** Marks an open incident as seen; the first acknowledgement counts. */
export async function acknowledgeIncident(
  sql: Db,
  orgId: string,
  id: string,
  userId: string,
  now: Date,
): Promise<void> {
  await sql`
    update incidents set acknowledged_at = ${now}, acknowledged_by = ${userId}, reminder_due_at = null, updated_at = ${now}
    where org_id = ${orgId} and id = ${id} and ended_at is null and acknowledged_at is null`;
}

/** Moves the reminder of the target's open incident that nobody has acknowledged. */
export async function rescheduleReminders(
  sql: Db,
  orgId: string,
  targetId: string,
  intervalSecs: number,
  now: Date,
): Promise<void> {
  // First the lock, so that the next statement sees the reminder that another process is just sending.
  const [open] = await sql<{ id: string }[]>`
    select id from incidents
    where org_id = ${orgId} and target_id = ${targetId} and ended_at is null and acknowledged_at is null and not retracted for update`;
  if (open === undefined) return;
  await sql`
    update incidents i set reminder_due_at = case when ${intervalSecs}::int > 0 then
      greatest(${now}, make_interval(secs => ${intervalSecs}) +
        coalesce((select max(d.created_at) from deliveries d where d.incident_id = i.id), i.created_at)) end
    where i.id = ${open.id}`;
}

export interface DeliveryRow {
  id: string;
  channel_id: string | null;
  channel_name: string;
  channel_kind: string;
  reason: "opened" | "reminder" | "escalated" | "reopened" | "resolved";
  state: "pending" | "delivered" | "dead";
  next_attempt_at: Date | null;
  created_at: Date;
  delivered_at: Date | null;
  attempts: { at: string; ok: boolean; status: number | null; error: string | null }[];
}

export async function selectDeliveries(
  sql: Db,
  orgId: string,
  incidentId: string,
  limit: number,
  offset: number,
): Promise<DeliveryRow[]> {
  return await sql<DeliveryRow[]>`
    select d.id, d.channel_id, d.channel_name, d.channel_kind, d.reason, d.state, d.next_attempt_at, d.created_at, d.delivered_at,
      coalesce((select jsonb_agg(jsonb_build_object('at', a.at, 'ok', a.ok, 'status', a.status, 'error', a.error) order by a.number)
        from delivery_attempts a where a.delivery_id = d.id), '[]') as attempts
    from deliveries d where d.org_id = ${orgId} and d.incident_id = ${incidentId} order by d.created_at, d.id limit ${limit} offset ${offset}`;
}

export async function countDeliveries(sql: Db, orgId: string, incidentId: string): Promise<number> {
  const [row] = await sql<
    { count: number }[]
  >`select count(*)::int as count from deliveries where org_id = ${orgId} and incident_id = ${incidentId}`;
  return row!.count;
}

/** Gives up what was not sent yet to the organisation's channels, with the reason as its last attempt. What is being sent right now is left to its sender. */
export async function dropPendingDeliveries(sql: Db, orgId: string, reason: string, now: Date): Promise<number> {
  const rows = await sql`
    with dropped as (
      update deliveries set state = 'dead', next_attempt_at = null, leased_until = null, attempt_count = attempt_count + 1
      where org_id = ${orgId} and state = 'pending' and (leased_until is null or leased_until <= ${now})
      returning id, attempt_count
    )
    insert into delivery_attempts (delivery_id, number, at, ok, error) select id, attempt_count, ${now}, false, ${reason} from dropped returning 1`;
  return rows.length;
}

/** The evidence of one target as stored. */
export interface StateRow {
  state: string;
  status_until: Date | null;
}

/** The state of one target, unlocked, for reading; null for a target that does not exist. */
export async function selectState(sql: Db, targetId: string): Promise<StateRow | null> {
  const [row] = await sql<StateRow[]>`select state, status_until from target_states where target_id = ${targetId}`;
  return row ?? null;
}

export interface PolicyRow {
  id: string;
  org_id: string;
  name: string;
  timeout: number;
  interval_secs: number;
  alert_confirmations: number;
  region_policy: never;
  renotify_interval_secs: number;
  notify_recovery: boolean;
}

export async function selectPolicies(sql: Db, orgId: string, targetIds: readonly string[]): Promise<PolicyRow[]> {
  return await sql<PolicyRow[]>`
    select id, org_id, name, (spec ->> 'timeout')::int as timeout, interval_secs, alert_confirmations, region_policy, renotify_interval_secs, notify_recovery
    from targets where org_id = ${orgId} and id = any(${arrayOf(targetIds)}::uuid[])`;
}
