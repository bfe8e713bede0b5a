import {
  affectsRow,
  columnOf,
  countOf,
  type Db,
  listed,
  type Listed,
  type Paging,
} from "../../../platform/db/client/sql.ts";
import type { Narration, NewUpdate } from "../timeline/narration-schema.ts";
import type { Actor } from "../timeline/event-schema.ts";
import { flappingOf } from "../holds/hold-queries.ts";

export async function selectIncidentTargets(sql: Db, orgId: string, ids: readonly string[]) {
  return await sql<{ id: string; target_id: string }[]>`
    select id, target_id from incidents where org_id = ${orgId} and id = any(${[...ids]}::uuid[]) and not retracted`;
}

/**
 * Acknowledges those that are open, or flap and are up at this moment, and unacknowledged, which stops their reminders
 * and ladders. Returns their ids.
 */
export async function acknowledgeIncidents(
  sql: Db,
  orgId: string,
  ids: readonly string[],
  userId: string | null,
  now: Date,
): Promise<string[]> {
  return await columnOf<string>(sql`
    update incidents i
    set acknowledged_at = ${now}, acknowledged_by = ${userId}, reminder_due_at = null, escalation_due_at = null,
      updated_at = ${now}
    where org_id = ${orgId} and id = any(${[...ids]}::uuid[]) and acknowledged_at is null and not retracted
      and (ended_at is null or ${flappingOf(sql)} is not null)
    returning id`);
}

/** Undoes the acknowledgement. Returns false when there is none. */
export async function unacknowledgeIncident(sql: Db, orgId: string, id: string, now: Date): Promise<boolean> {
  return await affectsRow(sql`
    update incidents set acknowledged_at = null, acknowledged_by = null, updated_at = ${now}
    where org_id = ${orgId} and id = ${id} and acknowledged_at is not null`);
}

/** Moves the reminder of the target's open incident that is not acknowledged to one interval after its last notice. */
export async function rescheduleReminders(
  sql: Db,
  orgId: string,
  targetId: string,
  intervalSecs: number,
  now: Date,
): Promise<void> {
  // First the lock, so that the next statement sees the reminder that another process is just sending.
  const [open] = await sql<{ id: string }[]>`
    select id from incidents where org_id = ${orgId} and target_id = ${targetId} and ended_at is null
      and acknowledged_at is null and not retracted for update`;
  if (open === undefined) return;
  await sql`
    update incidents i set reminder_due_at = case when ${intervalSecs}::int > 0 then
      greatest(${now}, make_interval(secs => ${intervalSecs}) +
        coalesce((select max(d.created_at) from deliveries d where d.incident_id = i.id), i.created_at)) end
    where i.id = ${open.id}`;
}

/** Writes the fields that the narration has. A null severity unpins it: the severity of the engine returns. */
export async function narrateIncident(
  sql: Db,
  orgId: string,
  id: string,
  { public_title: title, public_description: description, severity }: Narration,
  now: Date,
): Promise<void> {
  await sql`
    update incidents set updated_at = ${now}
      ${title === undefined ? sql`` : sql`, public_title = ${title}`}
      ${description === undefined ? sql`` : sql`, public_description = ${description}`}
      ${
        severity === undefined
          ? sql``
          : sql`, severity_pinned = ${severity !== null},
        severity = coalesce(${severity}, case
          when case when ended_at is null then impact else peak_impact end = 'degraded' then 'minor'
          else (select t.severity from targets t where t.id = incidents.target_id) end)`
      }
    where org_id = ${orgId} and id = ${id}`;
}

export interface UpdateRow extends NewUpdate {
  id: string;
  incident_id: string;
  author_type: Exclude<Actor["type"], "engine" | "channel">;
  author_id: string | null;
  author_name: string | null;
  created_at: Date;
}

export async function insertUpdate(sql: Db, orgId: string, row: UpdateRow, notify: boolean): Promise<void> {
  await sql`insert into incident_updates ${sql({ ...row, org_id: orgId, notify_subscribers: notify } as never)}`;
}

const updatesOf = (sql: Db, orgId: string, incidentId: string) =>
  sql`from incident_updates where org_id = ${orgId} and incident_id = ${incidentId}`;

/** Newest first. */
export async function selectUpdates(
  sql: Db,
  orgId: string,
  incidentId: string,
  { limit, offset }: Paging,
): Promise<Listed<UpdateRow>> {
  const from = updatesOf(sql, orgId, incidentId);
  const part = sql<UpdateRow[]>`
    select id, incident_id, phase, message, author_type, author_id, author_name, created_at ${from}
    order by created_at desc, id desc limit ${limit} offset ${offset}`;
  return await listed(sql, from, part);
}

export const countUpdates = async (sql: Db, orgId: string, incidentId: string): Promise<number> =>
  await countOf(sql, updatesOf(sql, orgId, incidentId));
