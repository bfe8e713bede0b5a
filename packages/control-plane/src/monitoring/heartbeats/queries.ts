import type { HeartbeatCheck } from "@statusmesh/shared/checks/heartbeat";
import { budgetOf } from "../../alerting/incidents/service.ts";
import type { EvidenceTarget } from "../../alerting/incidents/evidence/service.ts";
import { arrayOf, type Db, idArray, type Ids } from "../../platform/db/client/sql.ts";
import { addresses } from "./address-queries.ts";
import type { Window } from "./schedule/windows.ts";

/** The part of `heartbeats` that decides, as it is stored. */
interface WindowRow {
  reported_at: Date | null;
  last_duration: number | null;
  failing: boolean;
  run_id: string | null;
  started_at: Date | null;
  run_over_at: Date | null;
  due_at: Date | null;
}

const windowColumns = (sql: Db) =>
  sql`h.reported_at, h.last_duration, h.failing, h.run_id, h.started_at, h.run_over_at, h.due_at`;

const windowOf = (row: WindowRow): Window => ({
  reportedAt: row.reported_at?.getTime() ?? null,
  lastDuration: row.last_duration,
  failing: row.failing,
  runId: row.run_id,
  startedAt: row.started_at?.getTime() ?? null,
  runOverAt: row.run_over_at?.getTime() ?? null,
  dueAt: row.due_at?.getTime() ?? null,
});

/** A heartbeat monitor with its policy and its window, locked with its evidence. */
export interface HeartbeatTarget extends EvidenceTarget {
  kind: "heartbeat";
  spec: HeartbeatCheck;
  enabled: boolean;
  pings: number;
  window: Window;
  /** The agent that took the newest ping; null where the control plane did. */
  agentId: string | null;
  /** What that agent took before, Unix ms, has been delivered; null without an agent. */
  agentUntil: number | null;
  /** Zone of the organisation. */
  timezone: string;
}

type TargetRow = Omit<HeartbeatTarget, "window" | "agentId" | "agentUntil"> &
  WindowRow & { agent_id: string | null; agent_until: Date | null };

/** Heartbeat monitors, without those of deleted organisations, and their columns. */
const targetsOf = (sql: Db) => ({
  columns: sql`t.id, t.org_id, t.name, t.kind, t.spec, t.enabled, ${budgetOf(sql, sql`t.spec`)} as timeout,
    t.interval_secs, t.alert_confirmations, t.region_policy, t.renotify_interval_secs, t.severity, t.flap_detection,
    h.pings::float8 as pings,
    h.agent_id, a.pings_until as agent_until, o.timezone, ${windowColumns(sql)}`,
  tables: sql`targets t join heartbeats h on h.target_id = t.id
    join orgs o on o.id = t.org_id and o.deleted_at is null
    left join heartbeat_agents a on a.agent_id = h.agent_id`,
});

const targetOf = (row: TargetRow): HeartbeatTarget => ({
  ...row,
  window: windowOf(row),
  agentId: row.agent_id,
  agentUntil: row.agent_until?.getTime() ?? null,
});

/** The heartbeat monitors among `ids`, without those of deleted organisations. Their evidence is locked. */
export async function selectHeartbeats(sql: Db, ids: Ids): Promise<HeartbeatTarget[]> {
  const { columns, tables } = targetsOf(sql);
  const rows = await sql<TargetRow[]>`select ${columns} from ${tables} where t.id = any(${idArray(sql, ids)})`;
  return rows.map(targetOf);
}

/** {@link selectHeartbeats} of addresses, and the monitor of each hash; unknown and expired ones are left out. */
export async function selectHeartbeatsAt(
  sql: Db,
  hashes: readonly string[],
  now: Date,
): Promise<{ monitors: HeartbeatTarget[]; idOf: Map<string, string> }> {
  const { columns, tables } = targetsOf(sql);
  const rows = await sql<(TargetRow & { hash: string })[]>`
    select u.hash, ${columns}
    from (select encode(a.hash, 'hex') as hash, a.target_id ${addresses(sql, hashes, now)}) u
    join (${tables}) on t.id = u.target_id`;
  return {
    monitors: [...new Map(rows.map((row) => [row.id, row])).values()].map(targetOf),
    idOf: new Map(rows.map(({ hash, id }) => [hash, id])),
  };
}

/** What a batch of pings or missed reports changes. */
export interface WindowUpdate {
  targetId: string;
  /** Pings that are added to the count. */
  pings: number;
  window: Window;
  /** Unix ms. */
  downAt: number | null;
  agentId: string | null;
  /** Unix ms: the window is over and is looked at again then. */
  heldUntil: number | null;
}

const times = (sql: Db, values: readonly (number | null)[]) =>
  sql`${arrayOf(values.map((ms) => (ms === null ? null : new Date(ms).toISOString())))}::timestamptz[]`;

/**
 * Writes the windows of heartbeats whose evidence the caller has locked. Where a report begins or ceases to be expected
 * a span of {@link selectExpected} begins or ends: with the first report, which may be older than `now`, or now.
 */
export async function writeWindows(sql: Db, updates: readonly WindowUpdate[], now: Date): Promise<void> {
  const column = (of: (update: WindowUpdate) => string | number | boolean | null) => arrayOf(updates.map(of));
  const timesOf = (of: (window: Window) => number | null) =>
    times(
      sql,
      updates.map(({ window }) => of(window)),
    );
  await sql`
    with u as (
      select * from unnest(${column((u) => u.targetId)}::uuid[], ${column((u) => u.pings)}::integer[],
      ${timesOf((w) => w.reportedAt)}, ${column((u) => u.window.lastDuration)}::integer[],
      ${column((u) => u.window.failing)}::boolean[], ${column((u) => u.window.runId)}::uuid[],
      ${timesOf((w) => w.startedAt)}, ${timesOf((w) => w.runOverAt)}, ${timesOf((w) => w.dueAt)},
      ${times(
        sql,
        updates.map((u) => u.downAt),
      )}, ${column((u) => u.agentId)}::uuid[], ${times(
        sql,
        updates.map((u) => u.heldUntil),
      )}) as u (target_id, pings, reported_at, last_duration, failing, run_id,
      started_at, run_over_at, due_at, down_at, agent_id, held_until)
    ), begun as (
      insert into heartbeat_spans (target_id, starts_at)
      select u.target_id, case when h.reported_at is null then least(u.reported_at, ${now}) else ${now} end
      from u join heartbeats h on h.target_id = u.target_id
      where h.down_at is null and u.down_at is not null
      on conflict (target_id, starts_at) do update set ends_at = null
    ), over as (
      update heartbeat_spans s set ends_at = greatest(s.starts_at, ${now}) from u
      where u.down_at is null and s.target_id = u.target_id and s.ends_at is null
    )
    update heartbeats h set pings = h.pings + u.pings, reported_at = u.reported_at, last_duration = u.last_duration,
      failing = u.failing, run_id = u.run_id, started_at = u.started_at, run_over_at = u.run_over_at,
      due_at = u.due_at, down_at = u.down_at, agent_id = u.agent_id, held_until = u.held_until
    from u where h.target_id = u.target_id`;
}

export interface ExpectedRow {
  target_id: string;
  starts_at: Date;
  /** Null: still. */
  ends_at: Date | null;
}

/** Times in which heartbeats among `ids` expected reports, or groups had members, as far as they overlap a range. */
export async function selectExpected(
  sql: Db,
  orgId: string,
  ids: readonly string[],
  { from, to }: { from: Date; to: Date },
): Promise<ExpectedRow[]> {
  return await sql<ExpectedRow[]>`
    select t.id as target_id, coalesce(s.starts_at, ${from}) as starts_at,
      case when s.target_id is null then ${from} else s.ends_at end as ends_at
    from targets t
    left join (select * from heartbeat_spans union all select * from group_spans) s
      on s.target_id = t.id and s.starts_at < ${to} and (s.ends_at is null or s.ends_at > ${from})
    where t.org_id = ${orgId} and t.kind in ('heartbeat', 'group') and t.id = any(${arrayOf(ids)}::uuid[])`;
}

/** Drops spans that ended before `before`. */
export async function deleteSpansBefore(sql: Db, before: Date): Promise<void> {
  await sql`delete from heartbeat_spans where ends_at < ${before}`;
}

/**
 * Notes that an agent has delivered what it took before `until`. Returns up to when it had before; null for never.
 */
export async function noteDelivered(
  sql: Db,
  agentId: string,
  { until, dropped }: { until: Date; dropped: number },
): Promise<Date | null> {
  const [row] = await sql<{ before: Date | null }[]>`
    with before as (select pings_until from heartbeat_agents where agent_id = ${agentId})
    insert into heartbeat_agents as a (agent_id, pings_until, dropped) values (${agentId}, ${until}, ${dropped})
    on conflict (agent_id) do update
      set pings_until = greatest(a.pings_until, excluded.pings_until), dropped = a.dropped + excluded.dropped
    returning (select pings_until from before) as before`;
  return row!.before;
}

/** Has the windows that wait for an agent looked at now. */
export async function endHolds(sql: Db, agentId: string): Promise<void> {
  await sql`
    update heartbeats set held_until = null where target_id in (
      select target_id from heartbeats where agent_id = ${agentId} and held_until is not null
      for update skip locked)`;
}

/**
 * The window is over, and not held; of a deleted organisation none is. The subquery has one value, and so PostgreSQL
 * begins with the index of windows; a semi-join read all monitors (of 100,000: 2 s, now 1 ms).
 */
const isOver = (sql: Db, now: Date) => sql`
  h.down_at is not null and coalesce(h.held_until, h.down_at) <= ${now} and (
    select o.deleted_at is null from targets t join orgs o on o.id = t.org_id where t.id = h.target_id)`;

/** Heartbeats whose window is over, the most overdue first. */
export async function selectOverdue(sql: Db, now: Date, limit: number): Promise<string[]> {
  const rows = await sql<{ target_id: string }[]>`
    select h.target_id from heartbeats h where ${isOver(sql, now)}
    order by coalesce(h.held_until, h.down_at) limit ${limit}`;
  return rows.map((row) => row.target_id);
}

/** Condition: a window is over at `now`, or there are heartbeats and no control plane has watched since `watched`. */
export const isWatchDue = (sql: Db, now: Date, watched: Date) => sql`
  exists (select from heartbeats h where ${isOver(sql, now)})
  or exists (select from heartbeats) and not exists (select from heartbeat_watch where alive_at > ${watched})`;

/** Writes that this control plane watches at `now`. Returns when one did before; null for never. */
export async function keepWatch(sql: Db, now: Date): Promise<Date | null> {
  const [before] = await sql<{ alive_at: Date }[]>`select alive_at from heartbeat_watch for update`;
  await sql`
    insert into heartbeat_watch (alive_at) values (${now}) on conflict (only_row) do update set alive_at = ${now}`;
  return before?.alive_at ?? null;
}

/**
 * Extends every open window and running start after an absence from `before` to `now`: of all monitors, or of those
 * whose last ping an agent took. A job has its grace, or what of it was left before, but at least an hour: repeated
 * absences, such as a restart each night, must not extend a window for ever. Returns how many.
 */
export async function extendWindows(
  sql: Db,
  { before, now }: { before: Date; now: Date },
  agentId: string | null = null,
): Promise<number> {
  // Evidence first, in the order of ids, as everything that changes windows locks it.
  const { count } = await sql`
    with locked as (
      select s.target_id, w.grace,
        -- When a report that is late is taken as due: the grace that it had before is not given again.
        case when h.due_at is not null then greatest(h.due_at, ${now}::timestamptz
          - least(greatest(${before}::timestamptz - h.due_at, interval '0'), greatest(w.grace - interval '1 hour',
            interval '0'))) end as due_at,
        case when h.run_over_at is not null then
          greatest(h.run_over_at, ${now}::timestamptz + least(w.grace, interval '1 hour')) end as run_over_at
      from target_states s join targets t on t.id = s.target_id join heartbeats h on h.target_id = t.id
      cross join lateral (select (t.spec ->> 'grace')::float8 * interval '1 ms' as grace) w
      where h.down_at < ${now}::timestamptz + w.grace
        ${agentId === null ? sql`` : sql`and h.agent_id = ${agentId}`}
      order by s.target_id for update of s)
    update heartbeats h set due_at = l.due_at, run_over_at = l.run_over_at,
      down_at = greatest(h.down_at, least(l.due_at + l.grace, l.run_over_at)), held_until = null
    from locked l where l.target_id = h.target_id`;
  return count;
}

export interface HeartbeatRow {
  id: string;
  spec: HeartbeatCheck;
  enabled: boolean;
  token: string;
  window: Window;
  down_at: Date | null;
  previous_until: Date | null;
}

/** A heartbeat monitor of the organisation, or null: `kind` says which other kind it is. */
export async function selectHeartbeat(
  sql: Db,
  orgId: string,
  id: string,
  now: Date,
): Promise<HeartbeatRow | { kind: string } | null> {
  const [row] = await sql<(Omit<HeartbeatRow, "window"> & WindowRow & { kind: string; token: string | null })[]>`
    select t.id, t.kind, t.spec, t.enabled, h.token, h.down_at, ${windowColumns(sql)},
      (select max(a.valid_until) from heartbeat_addresses a
        where a.target_id = t.id and a.kind = 'own' and a.valid_until > ${now}) as previous_until
    from targets t left join heartbeats h on h.target_id = t.id
    where t.org_id = ${orgId} and t.id = ${id}`;
  if (row === undefined) return null;
  return row.token === null ? { kind: row.kind } : { ...row, window: windowOf(row) };
}
