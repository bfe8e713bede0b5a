import { arrayOf, type Db, valueOf } from "../../../platform/db/client/sql.ts";
import type { Actor } from "../timeline/event-schema.ts";
import type { Impact, Severity } from "../schema.ts";

/** An incident that is over when it is stored. */
export interface PastIncident {
  id: string;
  targetId: string;
  startedAt: Date;
  endedAt: Date;
  /** Null: derived from the component. */
  title: string | null;
}

/**
 * Stores incidents with their outages, in one statement. An imported one that began at the same time is replaced. The
 * severity is pinned where a person states it.
 */
export async function insertPast(
  sql: Db,
  orgId: string,
  incidents: readonly PastIncident[],
  { severity, imported }: { severity: Severity; imported: boolean },
  now: Date,
): Promise<void> {
  const impact: Impact = severity === "minor" ? "degraded" : "major_outage";
  const ofEngine = severity === "minor" ? "minor" : "major";
  const times = (of: (one: PastIncident) => Date) =>
    sql`${arrayOf(incidents.map((one) => of(one).toISOString()))}::timestamptz[]`;
  await sql`
    with stored as (
      insert into incidents (id, org_id, target_id, started_at, opened_at, ended_at, past_outage_ms, severity,
        severity_pinned, engine_severity, impact, peak_impact, regions_down, regions_up, opened_by, closed_by,
        public_title, error_sample, imported, created_at, updated_at)
      select n.id, ${orgId}, n.target_id, n.started_at, n.started_at, n.ended_at,
        extract(epoch from n.ended_at - n.started_at) * 1000, ${severity}, ${!imported}, ${ofEngine}, ${impact},
        ${impact}, '{}', '{}', 'person', 'person', n.title, n.title, ${imported}, ${now}, ${now}
      from unnest(${arrayOf(incidents.map(({ id }) => id))}::uuid[],
        ${arrayOf(incidents.map(({ targetId }) => targetId))}::uuid[], ${times((one) => one.startedAt)},
        ${times((one) => one.endedAt)}, ${incidents.map(({ title }) => title)}::text[])
        as n (id, target_id, started_at, ended_at, title)
      on conflict (target_id, started_at) where imported do update
      set ended_at = excluded.ended_at, past_outage_ms = excluded.past_outage_ms,
        public_title = excluded.public_title,
        error_sample = excluded.error_sample, updated_at = excluded.updated_at
      returning id, org_id, started_at, ended_at
    )
    insert into incident_outages (incident_id, org_id, started_at, ended_at, impact)
    select id, org_id, started_at, ended_at, ${impact} from stored
    on conflict (incident_id, started_at) do update set ended_at = excluded.ended_at`;
}

/** A target with more imported incidents than `most`; null for none. */
export async function selectFull(sql: Db, targetIds: readonly string[], most: number): Promise<string | null> {
  return await valueOf<string | null>(sql`
    select target_id from incidents where imported and target_id = any(${arrayOf(targetIds)}::uuid[])
    group by target_id having count(*) > ${most} limit 1`);
}

/** Writes the opening and the end of incidents that a person reports afterwards, at their times. */
export async function insertPastEvents(
  sql: Db,
  orgId: string,
  incidentIds: readonly string[],
  { startedAt, endedAt, severity, actor }: { startedAt: Date; endedAt: Date; severity: Severity; actor: Actor },
): Promise<void> {
  const opened = { severity, error: null, regions_down: [], regions_up: [] };
  await sql`
    insert into incident_events (id, org_id, incident_id, at, kind, actor_type, actor_id, actor_name, detail)
    select gen_random_uuid(), ${orgId}, i.id, e.at, e.kind, ${actor.type}, ${actor.id}, ${actor.name}, e.detail
    from unnest(${arrayOf(incidentIds)}::uuid[]) as i (id)
    cross join (values (${startedAt}::timestamptz, 'opened', ${sql.json(opened)}::jsonb),
      (${endedAt}::timestamptz, 'resolved', ${sql.json({ closed_by: "person" })}::jsonb)) as e (at, kind, detail)`;
}
