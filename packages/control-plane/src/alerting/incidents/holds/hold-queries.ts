import { type Db, madeOnce } from "../../../platform/db/client/sql.ts";
import type { StoredRow } from "../../../platform/http/wire.ts";
import type { Explanation } from "../schema.ts";

/**
 * What holds the notices of an incident `i` at a time, one row each: by, id, reason, until. A notice leaves when there
 * is none: this is the only place that decides so, for the gate, the release, reminders, ladders and explanations.
 * Dependencies hold openings alone: {@link openParent}.
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

/** Monitors whose open incidents hold the openings of a target: those that it depends on, and groups that hold it. */
export const holding = madeOnce(
  (sql) => sql`
  (select target_id, parent_id from target_dependencies
    union all select target_id, group_id from group_members where holds)`,
);

/**
 * The open incident of a monitor that the target of `i` depends on, the oldest; no row without one. A paused or deleted
 * monitor holds nothing, and neither holds anything what a person opened.
 */
export const openParent = (sql: Db) => sql`
  select p.id
  from ${holding(sql)} td
  join targets pt on pt.id = td.parent_id and pt.enabled
  -- A limit: joined, all open incidents were read for each (1,000 of them: 35 ms for 25 new ones, now below 1 ms).
  cross join lateral (
    select p.id, p.started_at from incidents p
    where p.target_id = pt.id and p.ended_at is null and not p.retracted limit 1) p
  where td.target_id = i.target_id and i.opened_by = 'engine' order by p.started_at, p.id limit 1`;

/**
 * Condition on `i`: a monitor that its target depends on may be the cause and is not known to be: its last run is older
 * than the failure, or contradicts what is known. It is checked once more before the opening leaves. Or a group that
 * holds openings of its members may open, in this transaction or with the next member.
 */
export const isParentUnclear = (sql: Db) => sql`
  i.opened_by = 'engine' and (exists (
    select from group_members m join targets g on g.id = m.group_id and g.enabled
    where m.target_id = i.target_id and m.holds) or exists (
    select from target_dependencies td
    join targets pt on pt.id = td.parent_id and pt.enabled and pt.kind not in ('heartbeat', 'group')
    join target_states ps on ps.target_id = pt.id
    where td.target_id = i.target_id
      and (ps.recheck_regions is not null or ps.last_result_at is null or ps.last_result_at <= i.started_at)
      and exists (select from target_regions tr join regions r on r.id = tr.region_id and r.enabled
                  where tr.target_id = pt.id)))`;

/** Condition on `i`: something holds its notices at `at`. */
export const isHeld = (sql: Db, at: Date) => sql`exists (${holds(sql, at)})`;

/** SQL: how the incident `i` flaps, as it is stored; null where it does not. */
export const flappingOf = (sql: Db) => sql`
  (select fs.flapping from target_states fs
    where fs.target_id = i.target_id and fs.flapping ->> 'incident_id' = i.id::text)`;

/** Condition on `i`: its reminders and its ladder wait at `at`. What flaps sends one notice of its own. */
export const waits = (sql: Db, at: Date) => sql`(${isHeld(sql, at)} or ${flappingOf(sql)} is not null)`;

/** How long the opening waits for the check of a parent, ms: one that no agent runs must not hide an outage. */
export const parentCheckMs = 30_000;

/** A cause that holds notices. */
export type Hold = StoredRow<Explanation["held"][number]>;

/** SQL: who holds a dependent: the name of target `t` of incident `p`, or what the status page of a service reports. */
export const holderOf = (sql: Db) => sql`
  case when t.kind = 'status_page' and p.error_sample like '% reports: %' then p.error_sample else t.name end`;

/** What holds the notices of an incident at `at`, the last to end first. */
export async function selectHolds(sql: Db, orgId: string, incidentId: string, at: Date): Promise<Hold[]> {
  return await sql<Hold[]>`
    select h.by, h.id, h.reason, h.until from incidents i cross join lateral (
      ${holds(sql, at)}
      union all
      select 'flapping', i.id, null, null where ${flappingOf(sql)} is not null
      union all
      select 'dependency', p.id, ${holderOf(sql)}, null
      from incidents p join targets t on t.id = p.target_id
      where i.hold_stage = 'parent' and p.id = i.hold_parent
      union all
      select 'recheck', i.id, case when i.hold_stage in ('asking', 'asked')
          then 'a monitor that it depends on is checked first' else 'it is checked once more after its dependency' end,
        case when i.hold_stage = 'asked' then i.hold_since + make_interval(secs => ${parentCheckMs / 1000}) end
      where i.hold_stage in ('asking', 'asked', 'ended', 'recheck')) h
    where i.org_id = ${orgId} and i.id = ${incidentId} order by h.until desc nulls first, h.id`;
}
