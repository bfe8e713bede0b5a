import type { GroupCheck } from "@statusmesh/shared/checks/group";
import { arrayOf, columnOf, type Db } from "../../../platform/db/client/sql.ts";
import { type PolicyRow, policyColumns } from "../queries.ts";
import type { Severity } from "../schema.ts";

/** Condition on targets `t`: a maintenance window is active at `at`. */
const isMaintained = (sql: Db, at: Date) => sql`
  exists (select from maintenance_window_targets wt join maintenance_occurrences o on o.window_id = wt.window_id
          where wt.target_id = t.id and o.starts_at <= ${at} and o.ends_at > ${at} and not o.cancelled)`;

/**
 * SQL: what a monitor `t` with the evidence `s` and the open incident `i`, which no person opened, is for its groups:
 * paused, maintenance, down, degraded, unknown or up.
 */
const memberState = (sql: Db, at: Date) => sql`
  case when not t.enabled then 'paused' when ${isMaintained(sql, at)} then 'maintenance'
    when i.id is not null then case when i.impact = 'degraded' then 'degraded' else 'down' end
    when s.status = 'unknown' or s.status_until is null or s.status_until <= ${at} then 'unknown'
    else 'up' end`;

const members = (sql: Db) => sql`
  group_members m join targets t on t.id = m.target_id join target_states s on s.target_id = t.id
  left join incidents i on i.target_id = t.id and i.ended_at is null and not i.retracted and i.opened_by = 'engine'`;

/** Groups that have one of the monitors as a member, with the level at which they are locked. */
export async function selectGroupsOf(sql: Db, memberIds: readonly string[]) {
  return await sql<GroupLevel[]>`
    select distinct g.target_id as id, g.lock_level as level
    from group_members m join target_states g on g.target_id = m.group_id
    where m.target_id = any(${arrayOf(memberIds)}::uuid[])`;
}

export interface GroupLevel {
  id: string;
  level: number;
}

/** The groups among targets, with the level at which they are locked. */
export async function selectLevels(sql: Db, ids: readonly string[]): Promise<GroupLevel[]> {
  return await sql<GroupLevel[]>`
    select target_id as id, lock_level as level from target_states
    where target_id = any(${arrayOf(ids)}::uuid[]) and lock_level > 0`;
}

/** A group as it is judged. */
export interface GroupRow extends PolicyRow {
  rule: GroupCheck["rule"];
  degraded_below: number | null;
  known: number;
  down: number;
  degraded: number;
  /** Members that are not paused. */
  present: number;
  /** A hash of the members under maintenance; null for none. */
  maintained: string | null;
  /** When the first of those that are up becomes unknown. */
  due_at: Date | null;
  /** True where the incident of a member that is down is critical. */
  critical: boolean;
  /** The first five that are down. */
  first: { target_id: string; monitor_name: string }[];
  /** Of its open incident; null without one. */
  open_severity: Severity | null;
}

/** Enabled groups with the states of their members at `at`, which this transaction has changed or locks out. */
export async function selectGroups(sql: Db, ids: readonly string[], at: Date): Promise<GroupRow[]> {
  return await sql<GroupRow[]>`
    with states as (
      select m.group_id, t.id, t.name, i.severity, i.started_at, s.status_until, ${memberState(sql, at)} as state
      from ${members(sql)} where m.group_id = any(${arrayOf(ids)}::uuid[])
    ), counted as (
      select group_id, count(*) filter (where state in ('up', 'down', 'degraded'))::integer as known,
        count(*) filter (where state = 'down')::integer as down,
        count(*) filter (where state = 'degraded')::integer as degraded,
        count(*) filter (where state <> 'paused')::integer as present,
        md5(string_agg(id::text, ',' order by id) filter (where state = 'maintenance')) as maintained,
        min(status_until) filter (where state = 'up') as due_at,
        coalesce(bool_or(state = 'down' and severity = 'critical'), false) as critical
      from states group by group_id
    )
    select g.*, coalesce(c.known, 0) as known, coalesce(c.down, 0) as down, coalesce(c.degraded, 0) as degraded,
      coalesce(c.present, 0) as present, c.maintained, c.due_at, coalesce(c.critical, false) as critical,
      array(select jsonb_build_object('target_id', f.id, 'monitor_name', f.name) from states f
        where f.group_id = g.id and f.state = 'down' order by f.started_at, f.id limit 5) as first,
      (select i.severity from incidents i
        where i.target_id = g.id and i.ended_at is null and not i.retracted) as open_severity
    from (select ${policyColumns(sql)}, spec -> 'rule' as rule, (spec ->> 'degraded_below')::integer as degraded_below
      from targets where id = any(${arrayOf(ids)}::uuid[]) and kind = 'group' and enabled) g
    left join counted c on c.group_id = g.id`;
}

/** What a group was judged by. */
export type Judged = Pick<GroupRow, "id" | "known" | "down" | "degraded" | "maintained" | "due_at" | "first"> & {
  error: string | null;
};

/**
 * Stores what groups were judged by: for lists, of their open incidents, and when their uptime counts. The error of an
 * open incident is that of now: more members fail after its opening.
 */
export async function writeJudged(sql: Db, judged: readonly Judged[], at: Date): Promise<void> {
  const rows = judged.map((one) => ({ ...one, due_at: one.due_at?.toISOString() ?? null }));
  const given = sql`
    jsonb_to_recordset(${sql.json(rows as never)}) as n (id uuid, known integer, down integer, degraded integer,
      maintained text, due_at timestamptz, first jsonb, error text)`;
  await Promise.all([
    sql`
      insert into target_groups as g (target_id, known, down, degraded, maintained, due_at)
      select id, known, down, degraded, maintained, due_at from ${given}
      on conflict (target_id) do update set known = excluded.known, down = excluded.down,
        degraded = excluded.degraded, maintained = excluded.maintained, due_at = excluded.due_at`,
    sql`
      update incidents i set members = jsonb_build_object('down', n.down, 'degraded', n.degraded, 'known', n.known,
          'first', n.first),
        error_sample = case when i.opened_by = 'engine' then coalesce(n.error, i.error_sample) else i.error_sample end
      from ${given} where i.target_id = n.id and i.ended_at is null and n.known > 0`,
    sql`
      insert into group_spans (target_id, starts_at) select id, ${at} from ${given}
      where known > 0 and not exists (select from group_spans s where s.target_id = n.id and s.ends_at is null)
      on conflict (target_id, starts_at) do update set ends_at = null`,
    sql`
      update group_spans s set ends_at = greatest(s.starts_at, ${at}) from ${given}
      where s.target_id = n.id and s.ends_at is null and n.known = 0`,
  ]);
}

/** Ends the time in which groups that are paused were judged. */
export async function endSpans(sql: Db, ids: readonly string[], at: Date): Promise<void> {
  await sql`
    update group_spans s set ends_at = greatest(s.starts_at, ${at}) from targets t
    where s.target_id = any(${arrayOf(ids)}::uuid[]) and s.ends_at is null and t.id = s.target_id and not t.enabled`;
}

/** Condition on groups `g` of target_groups: the windows that are active for their members are not those before. */
const activeWindows = (sql: Db, at: Date) => sql`
  select m.group_id, md5(string_agg(distinct m.target_id::text, ',' order by m.target_id::text)) as maintained
  from maintenance_occurrences o join maintenance_window_targets wt on wt.window_id = o.window_id
  join group_members m on m.target_id = wt.target_id join targets t on t.id = m.target_id and t.enabled
  where o.starts_at <= ${at} and o.ends_at > ${at} and not o.cancelled group by m.group_id`;

/** Groups of which a member may have changed without a write: it became unknown, or a window began or ended. */
const dueGroups = (sql: Db, at: Date) => sql`
  with active as materialized (${activeWindows(sql, at)}), due as (
    select target_id as id from target_groups where due_at <= ${at}
    union
    select coalesce(g.target_id, a.group_id) from active a
    full join (select target_id, maintained from target_groups where maintained is not null) g
      on g.target_id = a.group_id
    where a.maintained is distinct from g.maintained
  )
  select due.id from due join targets t on t.id = due.id and t.enabled
  join orgs o on o.id = t.org_id and o.deleted_at is null`;

export const isAnyGroupDue = (sql: Db, at: Date) => sql`exists (${dueGroups(sql, at)})`;

export async function selectDueGroups(sql: Db, at: Date, limit: number): Promise<string[]> {
  return await columnOf<string>(sql`${dueGroups(sql, at)} order by due.id limit ${limit}`);
}

/** Writes at which level groups are locked. */
export async function writeLevels(sql: Db, levels: readonly GroupLevel[]): Promise<void> {
  await sql`
    update target_states s set lock_level = n.level
    from jsonb_to_recordset(${sql.json(levels as never)}) as n (id uuid, level smallint)
    where s.target_id = n.id and s.lock_level <> n.level`;
}

/** A member on the page of a group. */
export interface MemberRow {
  id: string;
  name: string;
  kind: string;
  state: "down" | "degraded" | "unknown" | "maintenance" | "paused" | "up";
  since: Date | null;
  total: number;
}

/** Members of a group: those that are down first, at most `limit` of each state. */
export async function selectMembers(sql: Db, orgId: string, groupId: string, at: Date, limit: number) {
  return await sql<MemberRow[]>`
    select id, name, kind, state, since, total from (
      select *, count(*) over (partition by state)::integer as total,
        row_number() over (partition by state order by sort_name, id) as place
      from (select t.id, t.name, t.kind, t.sort_name, ${memberState(sql, at)} as state,
          coalesce(i.started_at, s.status_since) as since
        from ${members(sql)} where m.group_id = ${groupId} and t.org_id = ${orgId}) all_members
    ) shown
    where place <= ${limit}
    order by array_position(array['down', 'degraded', 'unknown', 'maintenance', 'paused', 'up'], state), place`;
}
