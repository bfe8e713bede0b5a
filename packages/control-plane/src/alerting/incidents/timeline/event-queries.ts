import { newId } from "@statusmesh/shared/ids";
import { countOf, type Db, listed, type Listed, type Paging, rowOf, valueOf } from "../../../platform/db/client/sql.ts";
import type { StoredRow } from "../../../platform/http/wire.ts";
import { type Actor, engineActor, type EventKind, type IncidentEvent } from "./event-schema.ts";

/** An event to append; without an actor it is the engine's. */
export interface NewEvent {
  orgId: string;
  incidentId: string;
  kind: EventKind;
  actor?: Actor | undefined;
  detail: object;
}

/**
 * Appends events in one statement. Clocks of replicas differ, so an event is dated later than those before it of the
 * same incident; the caller holds a lock that keeps other events of the incident away.
 */
export async function insertEvents(sql: Db, events: readonly NewEvent[], now: Date): Promise<void> {
  const rows = events.map(({ orgId, incidentId, kind, actor = engineActor, detail }) => ({
    id: newId(),
    org_id: orgId,
    incident_id: incidentId,
    kind,
    actor_type: actor.type,
    actor_id: actor.id,
    actor_name: actor.name,
    detail,
  }));
  await sql`
    insert into incident_events (id, org_id, incident_id, at, kind, actor_type, actor_id, actor_name, detail)
    select e.id, e.org_id, e.incident_id,
      greatest(${now}::timestamptz, (select max(k.at) from incident_events k where k.incident_id = e.incident_id)
        + interval '1 ms') + (row_number() over (partition by e.incident_id order by e.place) - 1) * interval '1 ms',
      e.kind, e.actor_type, e.actor_id, e.actor_name, e.detail
    from rows
    from (jsonb_to_recordset(${sql.json(rows as never)}) as (id uuid, org_id uuid, incident_id uuid, kind text,
      actor_type text, actor_id uuid, actor_name text, detail jsonb)) with ordinality
      as e (id, org_id, incident_id, kind, actor_type, actor_id, actor_name, detail, place)`;
}

export interface EventRow extends StoredRow<Omit<IncidentEvent, "actor">> {
  actor_type: Actor["type"];
  actor_id: string | null;
  actor_name: string | null;
}

/** Oldest first. */
export async function selectEvents(
  sql: Db,
  orgId: string,
  incidentId: string,
  { limit, offset }: Paging,
): Promise<Listed<EventRow>> {
  const from = sql`from incident_events where org_id = ${orgId} and incident_id = ${incidentId}`;
  const part = sql<EventRow[]>`
    select id, at, kind, actor_type, actor_id, actor_name, detail ${from}
    order by at, id limit ${limit} offset ${offset}`;
  return await listed(sql, from, part);
}

export async function countNotes(sql: Db, orgId: string, incidentId: string): Promise<number> {
  return await countOf(
    sql,
    sql`from incident_events where org_id = ${orgId} and incident_id = ${incidentId} and kind = 'noted'`,
  );
}

export async function selectNewestEvent(sql: Db, orgId: string, incidentId: string): Promise<EventRow> {
  return await rowOf(sql<EventRow[]>`
    select id, at, kind, actor_type, actor_id, actor_name, detail from incident_events
    where org_id = ${orgId} and incident_id = ${incidentId} order by at desc, id desc limit 1`);
}

/** The name of a user without their address, or of an API token. Null for one that is gone. */
export async function selectActorName(sql: Db, type: "user" | "token" | "mcp", id: string): Promise<string | null> {
  return await valueOf<string | null>(
    type === "user"
      ? sql`select coalesce(name, split_part(email, '@', 1)) from users where id = ${id}`
      : sql`select name from api_tokens where id = ${id}`,
  );
}
