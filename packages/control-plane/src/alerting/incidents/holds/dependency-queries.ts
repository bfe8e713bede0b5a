import type { Fragment } from "postgres";
import { anyOf, arrayOf, columnOf, type Db } from "../../../platform/db/client/sql.ts";
import { holderOf, holding, openParent, parentCheckMs } from "./hold-queries.ts";

/** True when a dependency holds an opening. */
export const isAnyHeld = async (sql: Db): Promise<boolean> =>
  await anyOf(sql, sql`from incidents where hold_stage is not null`);

/** Forgets held openings of incidents that ended without a notice. */
export async function clearOver(sql: Db): Promise<void> {
  await sql`
    update incidents set held_reason = null, held_seq = null, hold_stage = null
    where id in (select id from incidents where hold_stage is not null and (ended_at is not null or retracted)
                 for update skip locked)`;
}

/** Incidents at a stage, with the monitors that their targets depend on. */
export async function selectStage(sql: Db, stage: "asking" | "ended", limit: number) {
  return await sql<{ id: string; target_id: string; parents: string[] }[]>`
    select i.id, i.target_id, array(select td.parent_id from ${holding(sql)} td
      where td.target_id = i.target_id) as parents
    from incidents i where i.hold_stage = ${stage} order by i.target_id limit ${limit}`;
}

/**
 * Has the agents of enabled monitors run them once more, in every enabled region. Returns the regions. The evidence is
 * locked in id order, before any incident.
 */
export async function askForChecks(sql: Db, targetIds: readonly string[]): Promise<string[]> {
  if (targetIds.length === 0) return [];
  return await columnOf<string>(sql`
    with locked as materialized (
      select s.target_id from target_states s
      where s.target_id = any(${arrayOf([...new Set(targetIds)])}::uuid[]) order by s.lock_level, s.target_id for update
    ), probed as (
      select l.target_id, array_agg(r.id order by r.id) as regions
      from locked l
      join targets t on t.id = l.target_id and t.enabled and t.kind not in ('heartbeat', 'group')
      join target_regions tr on tr.target_id = l.target_id
      join regions r on r.id = tr.region_id and r.enabled
      group by l.target_id
    ), asked as (
      update target_states s set recheck_regions = p.regions from probed p where s.target_id = p.target_id returning 1
    )
    select distinct unnest(regions) from probed where (select count(*) from asked) >= 0`);
}

/** Wakes the held pulls of regions, which then name what is to be checked once more. */
export async function wakeRegions(sql: Db, regions: readonly string[]): Promise<void> {
  await sql`select pg_notify('sm_runs', region) from unnest(${[...regions]}::text[]) region`;
}

/**
 * Condition on incidents `i` of an update: it is one of `found`, a FROM clause with incidents as `o`. They are locked
 * in id order, as the gate does: any other order could end in a deadlock with a batch of results.
 */
const inOrder = (sql: Db, found: Fragment) => sql`i.id in (select o.id from ${found} order by o.id for update of o)`;

/** Moves incidents on whose checks are asked for. One whose target no agent runs is free. */
export async function moveOn(sql: Db, ids: readonly string[], from: "asking" | "ended", at: Date): Promise<void> {
  await sql`
    update incidents i set hold_since = ${at}, hold_stage = case
      when ${from} = 'asking' then 'asked'
      when exists (select from targets t join target_regions tr on tr.target_id = t.id
                   join regions r on r.id = tr.region_id and r.enabled
                   where t.id = i.target_id and t.enabled and t.kind not in ('heartbeat', 'group')) then 'recheck'
      else 'free' end
    where ${inOrder(sql, sql`incidents o where o.id = any(${arrayOf(ids)}::uuid[]) and o.hold_stage = ${from}`)}`;
}

/** Openings whose parents have been checked: the next stage of each, `parent` or `free`. */
export async function followAsked(sql: Db, at: Date, limit: number) {
  return await sql<{ id: string; stage: "parent" | "free" }[]>`
    with asked as materialized (
      select id, target_id, hold_since from incidents where hold_stage = 'asked'
    ), parents as materialized (
      select d.parent_id, p.id as incident, s.recheck_regions is not null and t.enabled as is_pending
      from (select distinct td.parent_id from asked join ${holding(sql)} td on td.target_id = asked.target_id) d
      join targets t on t.id = d.parent_id
      join target_states s on s.target_id = d.parent_id
      left join incidents p on p.target_id = d.parent_id and p.ended_at is null and not p.retracted and t.enabled
    ), found as (
      select a.id, a.hold_since, (array_agg(p.incident) filter (where p.incident is not null))[1] as parent,
        coalesce(bool_or(p.is_pending), false) as is_pending
      from asked a left join ${holding(sql)} td on td.target_id = a.target_id
      left join parents p on p.parent_id = td.parent_id
      group by a.id, a.hold_since
    ), next as (
      select i.id, found.parent from found join incidents i on i.id = found.id
      where i.hold_stage = 'asked' and (found.parent is not null or not found.is_pending
        or found.hold_since <= ${at}::timestamptz - make_interval(secs => ${parentCheckMs / 1000}))
      order by i.id limit ${limit} for update of i skip locked
    )
    update incidents i set hold_stage = case when next.parent is null then 'free' else 'parent' end,
      hold_parent = next.parent
    from next where i.id = next.id returning i.id, i.hold_stage as stage`;
}

/** Incidents of parents that hold openings and are over, or whose monitor is paused or gone. One index probe each. */
export async function selectLapsedParents(sql: Db): Promise<string[]> {
  return await columnOf<string>(sql`
    with recursive holding as (
      (select hold_parent as parent from incidents where hold_stage = 'parent' order by hold_parent limit 1)
      union all
      select (select i.hold_parent from incidents i where i.hold_stage = 'parent' and i.hold_parent > h.parent
              order by i.hold_parent limit 1)
      from holding h where h.parent is not null
    )
    select h.parent from holding h
    where h.parent is not null and not exists (
      select from incidents p join targets t on t.id = p.target_id and t.enabled
      where p.id = h.parent and p.ended_at is null and not p.retracted)`);
}

/** Gives openings that a parent held to another one that is down, or ends the hold. Returns how many it took. */
export async function leaveParent(sql: Db, parent: string, limit: number): Promise<number> {
  const rows = await sql`
    update incidents i set hold_stage = case when held.parent is null then 'ended' else 'parent' end,
      hold_parent = coalesce(held.parent, i.hold_parent)
    from (
      select i.id, p.id as parent from incidents i left join lateral (${openParent(sql)}) p on true
      where i.hold_stage = 'parent' and i.hold_parent = ${parent}
      order by i.id limit ${limit} for update of i skip locked
    ) held
    where i.id = held.id returning 1`;
  return rows.length;
}

/**
 * Frees openings whose monitor has had no result for two intervals, also after a passing run that did not end its
 * incident: silence must not hide an outage. Five minutes at least, as thousands of monitors may be checked at once.
 * Neither must runs that are no evidence: after five minutes more than its recovery would take all are freed.
 */
export async function freeUnchecked(sql: Db, at: Date): Promise<void> {
  await sql`
    update incidents set hold_stage = 'free' where id in (
      select i.id from incidents i join targets t on t.id = i.target_id
      join target_states s on s.target_id = t.id
      -- The first condition spares the joins of the thousands that began together.
      where i.hold_stage = 'recheck' and i.hold_since <= ${at}::timestamptz - interval '5 minutes'
        and (greatest(i.hold_since, s.last_result_at)
            <= ${at}::timestamptz - greatest(interval '5 minutes', make_interval(secs => 2 * t.interval_secs))
          or i.hold_since <= ${at}::timestamptz
            - make_interval(mins => 5, secs => (t.alert_confirmations + 2)::float8 * t.interval_secs))
      for update of i skip locked)`;
}

/** Frees openings whose monitor has failed since its check was asked for. */
export async function freeFailing(sql: Db, failures: readonly { targetId: string; at: number }[]): Promise<void> {
  await sql`
    update incidents i set hold_stage = 'free' where ${inOrder(
      sql,
      sql`unnest(${arrayOf(failures.map(({ targetId }) => targetId))}::uuid[],
          ${arrayOf(failures.map(({ at }) => new Date(at).toISOString()))}::timestamptz[]) as f (target_id, at)
        join incidents o on o.target_id = f.target_id
        where o.ended_at is null and o.hold_stage = 'recheck' and o.hold_since <= f.at`,
    )}`;
}

/** Ends the holds of openings whose targets have other dependencies now: they are looked at again. */
export async function reconsiderDependencies(sql: Db, targetIds: readonly string[]): Promise<void> {
  await sql`
    update incidents i set hold_stage = 'parent', hold_parent = '00000000-0000-0000-0000-000000000000'
    where ${inOrder(
      sql,
      sql`incidents o where o.target_id = any(${arrayOf(targetIds)}::uuid[]) and o.ended_at is null
        and o.hold_stage in ('asking', 'asked', 'parent')`,
    )}`;
}

/** What holds openings, as the timeline names it. */
export async function selectHolders(sql: Db, incidentIds: readonly string[]) {
  return await sql<
    { id: string; org_id: string; incident_id: string; target_id: string; monitor_name: string; reason: string }[]
  >`
    select i.id, i.org_id, p.id as incident_id, t.id as target_id, t.name as monitor_name, ${holderOf(sql)} as reason
    from incidents i join incidents p on p.id = i.hold_parent join targets t on t.id = p.target_id
    where i.id = any(${arrayOf(incidentIds)}::uuid[])`;
}

/** Of incidents: the monitors that depend on theirs, and the openings that they hold; absent where there are none. */
export async function countDependents(
  sql: Db,
  incidentIds: readonly string[],
): Promise<Map<string, { affected: number; held: number }>> {
  const rows = await sql<{ id: string; affected: number; held: number }[]>`
    select i.id, (select count(*)::integer from ${holding(sql)} td where td.parent_id = i.target_id) as affected,
      (select count(*)::integer from incidents c where c.hold_stage = 'parent' and c.hold_parent = i.id) as held
    from incidents i where i.id = any(${arrayOf(incidentIds)}::uuid[])
      and exists (select from ${holding(sql)} td where td.parent_id = i.target_id)`;
  return new Map(rows.map(({ id, ...counts }) => [id, counts]));
}
