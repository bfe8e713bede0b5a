import type { Db } from "../../platform/db/sql.ts";

/**
 * What holds the notices of an incident `i` at a time, one row each: by, id, reason, until. A notice leaves when there
 * is none: this is the only place that decides so, for the gate, the release, reminders, ladders and explanations.
 */
const holds = (sql: Db, at: Date) => sql`
  select 'maintenance' as by, w.id, w.title as reason, o.ends_at as until
  from maintenance_window_targets wt
  join maintenance_occurrences o on o.window_id = wt.window_id
  join maintenance_windows w on w.id = wt.window_id
  where wt.target_id = i.target_id and o.starts_at <= ${at} and o.ends_at > ${at} and not o.cancelled
  union all
  select 'snooze', s.id, s.reason, s.until
  from snoozes s
  where s.org_id = i.org_id and s.until > ${at} and (s.scope ? 'all'
    or s.scope -> 'target_ids' ? i.target_id::text
    or exists (select from targets st where st.id = i.target_id and s.scope ->> 'tag' = any(st.tags)))`;

/** Condition on `i`: something holds its notices at `at`. */
export const isHeld = (sql: Db, at: Date) => sql`exists (${holds(sql, at)})`;

/** A cause that holds notices. */
export interface Hold {
  by: "maintenance" | "snooze";
  id: string;
  reason: string | null;
  until: Date;
}

/** What holds the notices of an incident at `at`, the last to end first. */
export async function selectHolds(sql: Db, orgId: string, incidentId: string, at: Date): Promise<Hold[]> {
  return await sql<Hold[]>`
    select h.by, h.id, h.reason, h.until from incidents i cross join lateral (${holds(sql, at)}) h
    where i.org_id = ${orgId} and i.id = ${incidentId} order by h.until desc, h.id`;
}
