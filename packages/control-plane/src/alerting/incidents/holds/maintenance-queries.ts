import { type Db, firstOf } from "../../../platform/db/client/sql.ts";
import type { StoredFlapping } from "../evidence/flapping-queries.ts";
import { flappingOf, isHeld, isParentUnclear, openParent } from "./hold-queries.ts";
import type { Transition } from "../evaluation/machine.ts";
import type { NoticeSubject } from "../evaluation/notices.ts";
import { noticeColumns } from "../queries.ts";
import type { Severity } from "../schema.ts";

/** A notice that waits until nothing holds it. */
export interface HeldNotice {
  reason: Transition;
  seq: number;
}

/** Condition on `i` (incidents): a maintenance window of its target is active at `at`. */
const inActiveWindow = (sql: Db, at: Date) => sql`
  exists (select from maintenance_window_targets wt join maintenance_occurrences o on o.window_id = wt.window_id
          where wt.target_id = i.target_id and o.starts_at <= ${at} and o.ends_at > ${at} and not o.cancelled)`;

/** The parts of an incident that decide about a notice. */
export interface NoticeState {
  id: string;
  severity: Severity;
  severity_pinned: boolean;
  /** A notice of the incident has left or is held. */
  was_told: boolean;
  held_reason: Transition | null;
  held_seq: number | null;
  is_held: boolean;
  hold_stage: HoldStage | null;
  /** The open incident of a monitor that its target depends on. */
  parent_incident: string | null;
  parent_unclear: boolean;
}

/** How far a dependency holds an opening; see the table. */
export type HoldStage = "asking" | "asked" | "parent" | "ended" | "recheck" | "free";

/** Locks incidents in id order and reads what decides about their notices. */
export async function lockNoticeStates(sql: Db, ids: readonly string[], at: Date): Promise<NoticeState[]> {
  return await sql<NoticeState[]>`
    select i.id, i.severity, i.severity_pinned, i.escalation_from is not null or i.held_reason is not null as was_told,
      i.held_reason, i.held_seq, ${isHeld(sql, at)} as is_held,
      i.hold_stage, p.id as parent_incident,
      ${isParentUnclear(sql)} as parent_unclear
    from incidents i left join lateral (${openParent(sql)}) p on true
    where i.id = any(${[...ids]}::uuid[]) order by i.id for update of i`;
}

/** Stores the held notice of each incident; null for none. */
export async function writeHeld(
  sql: Db,
  held: readonly { id: string; notice: HeldNotice | null; stage: HoldStage | null; parent: string | null }[],
): Promise<void> {
  await sql`
    update incidents i set held_reason = h.reason, held_seq = h.seq, hold_stage = h.stage,
      hold_parent = coalesce(h.parent, i.hold_parent)
    from unnest(${held.map(({ id }) => id)}::uuid[], ${held.map(({ notice }) => notice?.reason ?? null)}::text[],
      ${held.map(({ notice }) => notice?.seq ?? null)}::integer[], ${held.map(({ stage }) => stage)}::text[],
      ${held.map(({ parent }) => parent)}::uuid[]) as h (id, reason, seq, stage, parent)
    where i.id = h.id`;
}

/** Condition on incidents `i` that the index incidents_in_maintenance has: no dependency holds the notice. */
const isMarked = (sql: Db) =>
  sql`(i.in_maintenance or i.held_reason is not null and coalesce(i.hold_stage, 'free') = 'free')`;

/**
 * True when a maintenance window is active at `at`, an incident is under maintenance, or one has a held notice. Asked
 * every second: each part has an index.
 */
export const isMaintenanceActive = (sql: Db, at: Date) => sql`
  exists (select from incidents i where ${isMarked(sql)})
  or exists (select from incidents where hold_stage is not null)
  or exists (select from maintenance_occurrences where not cancelled and starts_at <= ${at} and ends_at > ${at})`;

/** An open incident whose target is under maintenance now. */
export interface EnteredIncident {
  id: string;
  org_id: string;
  window_id: string;
  title: string;
  ends_at: Date;
}

/** Marks open incidents whose target has an active window now. Each is returned once, to one caller. */
export async function takeEntered(sql: Db, at: Date, limit: number): Promise<EnteredIncident[]> {
  return await sql<EnteredIncident[]>`
    with entered as (
      select i.id, w.id as window_id, w.title, o.ends_at
      from maintenance_occurrences o
      join maintenance_windows w on w.id = o.window_id
      join maintenance_window_targets wt on wt.window_id = w.id
      join incidents i on i.target_id = wt.target_id and i.ended_at is null and not i.retracted and not i.in_maintenance
      where o.starts_at <= ${at} and o.ends_at > ${at} and not o.cancelled
      limit ${limit} for update of i skip locked
    )
    update incidents i set in_maintenance = true
    from (select distinct on (id) * from entered order by id, ends_at desc) e
    where i.id = e.id returning i.id, i.org_id, e.window_id, e.title, e.ends_at`;
}

/** An incident whose target has no active window any more, or whose notice nothing holds any more. */
export interface LeftIncident extends NoticeSubject {
  retracted: boolean;
  left_maintenance: boolean;
  /** True when a dependency holds the opening from now on. */
  entered_parent: boolean | null;
  was_held_reason: Transition | null;
  was_held_seq: number | null;
  /** True when any channel has been notified of the incident. */
  notified: boolean;
  flapping: StoredFlapping | null;
}

/**
 * Unmarks incidents whose windows are over, and takes held notices that nothing holds any more. Each is returned once,
 * to one caller. Where one was held, the next reminder is due a whole interval later.
 */
export async function takeLeft(sql: Db, at: Date, limit: number): Promise<LeftIncident[]> {
  return await sql<LeftIncident[]>`
    with over as (
      select i.id, i.in_maintenance, f.in_window, i.held_reason, i.held_seq, f.is_held, t.name, t.severity,
        make_interval(secs => t.renotify_interval_secs) as period, p.id as parent,
        -- Held by nothing else, an opening passes the dependencies like a new one.
        case when f.is_held or i.held_reason is null or i.held_reason not in ('opened', 'reopened')
               or i.ended_at is not null then null
             when p.id is not null then 'parent' when i.hold_stage is null and f.unclear then 'asking' end as stage
      from incidents i
      join targets t on t.id = i.target_id
      join orgs o on o.id = i.org_id and o.deleted_at is null
      left join lateral (${openParent(sql)}) p on true
      cross join lateral (select ${inActiveWindow(sql, at)} as in_window, ${isHeld(sql, at)} as is_held,
        ${isParentUnclear(sql)} as unclear) f
      where ${isMarked(sql)}
        and ((i.in_maintenance and not f.in_window) or (i.held_reason is not null and not f.is_held))
      order by i.id limit ${limit} for update of i skip locked
    )
    update incidents i set in_maintenance = over.in_maintenance and over.in_window,
      held_reason = case when over.is_held or over.stage is not null then i.held_reason end,
      held_seq = case when over.is_held or over.stage is not null then i.held_seq end,
      hold_stage = case when over.is_held then i.hold_stage else over.stage end,
      hold_parent = case when over.stage = 'parent' then over.parent else i.hold_parent end,
      reminder_due_at = case
        when over.held_reason is null or over.is_held or over.stage is not null then i.reminder_due_at
        else greatest(i.reminder_due_at, ${at}::timestamptz + over.period) end
    from over where i.id = over.id
    returning ${noticeColumns(sql)}, i.retracted, over.name as monitor_name,
      case when over.held_reason = 'escalated' and not i.severity_pinned and i.engine_severity <> 'minor'
        then over.severity else i.severity end as severity,
      over.in_maintenance and not over.in_window as left_maintenance,
      case when not over.is_held and over.stage is null then over.held_reason end as was_held_reason,
      over.held_seq as was_held_seq, over.stage = 'parent' as entered_parent,
      exists (select from deliveries d where d.incident_id = i.id) as notified, ${flappingOf(sql)} as flapping`;
}

/** The active window of a target that ends last; null for none. */
export async function selectActiveWindow(sql: Db, orgId: string, targetId: string, at: Date) {
  return await firstOf(sql<{ id: string; title: string; ends_at: Date }[]>`
    select w.id, w.title, o.ends_at from maintenance_windows w
    join maintenance_occurrences o on o.window_id = w.id
    join maintenance_window_targets wt on wt.window_id = w.id
    where w.org_id = ${orgId} and wt.target_id = ${targetId}
      and o.starts_at <= ${at} and o.ends_at > ${at} and not o.cancelled
    order by o.ends_at desc limit 1`);
}
