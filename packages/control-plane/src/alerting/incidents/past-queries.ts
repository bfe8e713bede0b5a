import { arrayOf, type Db } from "../../platform/db/sql.ts";

/** An incident from before the first own result of its target. */
export interface ImportedIncident {
  id: string;
  targetId: string;
  startedAt: Date;
  endedAt: Date;
  /** Null: derived from the component. */
  title: string | null;
}

/**
 * Stores imported incidents with their outages, in one statement: without events, because nothing was decided here. One
 * that began at the same time is replaced.
 */
export async function upsertImported(
  sql: Db,
  orgId: string,
  incidents: readonly ImportedIncident[],
  now: Date,
): Promise<void> {
  const times = (of: (one: ImportedIncident) => Date) =>
    sql`${arrayOf(incidents.map((one) => of(one).toISOString()))}::timestamptz[]`;
  await sql`
    with stored as (
      insert into incidents (id, org_id, target_id, started_at, opened_at, ended_at, past_outage_ms, severity,
        engine_severity, impact, peak_impact, regions_down, regions_up, opened_by, closed_by, public_title,
        error_sample, imported, created_at, updated_at)
      select n.id, ${orgId}, n.target_id, n.started_at, n.started_at, n.ended_at,
        extract(epoch from n.ended_at - n.started_at) * 1000, 'major', 'major', 'major_outage', 'major_outage', '{}',
        '{}', 'person', 'person', n.title, n.title, true, ${now}, ${now}
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
    select id, org_id, started_at, ended_at, 'major_outage' from stored
    on conflict (incident_id, started_at) do update set ended_at = excluded.ended_at`;
}

/** A target with more imported incidents than `most`; null for none. */
export async function selectFull(sql: Db, targetIds: readonly string[], most: number): Promise<string | null> {
  const [row] = await sql<{ target_id: string }[]>`
    select target_id from incidents where imported and target_id = any(${arrayOf(targetIds)}::uuid[])
    group by target_id having count(*) > ${most} limit 1`;
  return row?.target_id ?? null;
}
