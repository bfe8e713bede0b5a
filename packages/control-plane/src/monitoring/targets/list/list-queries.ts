import { runs } from "../../results/service.ts";
import type { CheckSpec, ResultDetails } from "@statusmesh/shared/checks";
import type { MemberCounts } from "../../../alerting/incidents/groups/service.ts";
import { minuteMs } from "@statusmesh/shared/time";
import { arrayOf, columnOf, countOf, type Db, firstOf } from "../../../platform/db/client/sql.ts";
import { groupedMonitors, ranks } from "./cause-queries.ts";
import {
  isNotified,
  isProbed,
  matching,
  monitorTables,
  stateAt,
  statusAt,
  type TargetFilter,
} from "./filter-queries.ts";
import type { MonitorOrder, MonitorSort } from "./list-schema.ts";
import { columns, type TargetRow } from "../queries.ts";
import type { MonitorStatus } from "../schema.ts";

/** Sort key and direction; null for the default direction of the key. */
export interface Sorting {
  sort: MonitorSort;
  order: MonitorOrder | null;
}

/** Time ranges of the figures in a row of the list: 30 days of uptime, p95 of the newest half hour. */
const uptimeDays = 30;
const p95Minutes = 30;

type Sql = ReturnType<typeof statusAt>;

/**
 * A sort key: its expression, the joins that it needs (`matched` selects the ids of the targets to sort), and whether
 * the largest value is first by default.
 */
interface SortKey {
  by: (sql: Db, now: Date) => Sql;
  join?: (sql: Db, orgId: string, now: Date, matched: Sql) => Sql;
  largestFirst?: true;
}

/** Id and share of the time of a heartbeat or group `h` that it was not down, maintenance included. */
const heartbeatShare = (sql: Db, now: Date) => {
  const within = (start: Sql, end: Sql) => sql`
    extract(epoch from sum(least(coalesce(${end}, ${now}), ${now}::timestamptz)
      - greatest(${start}, ${now}::timestamptz::date - ${uptimeDays}::int)))::float8`;
  return sql`
    h.target_id, 1 - coalesce((
      select ${within(sql`o.started_at`, sql`o.ended_at`)}
      from incidents i join incident_outages o on o.incident_id = i.id
      where i.target_id = h.target_id and not i.retracted and not i.imported and o.impact <> 'degraded'
        and (o.ended_at is null or o.ended_at > ${now}::timestamptz::date - ${uptimeDays}::int)), 0)
    / nullif((
      select ${within(sql`s.starts_at`, sql`s.ends_at`)} from (
        select * from heartbeat_spans union all select * from group_spans) s
      where s.target_id = h.target_id
        and (s.ends_at is null or s.ends_at > ${now}::timestamptz::date - ${uptimeDays}::int)), 0)`;
};

const worstFirst = (sql: Db, now: Date) => sql`
  case when i.severity = 'critical' and t.enabled then 0 else 1 end,
  array_position(array['down', 'error', 'degraded', 'unknown', 'up', 'paused'], ${stateAt(sql, now)})`;

const sortKeys: Record<MonitorSort, SortKey> = {
  state: { by: worstFirst },
  name: { by: (sql) => sql`t.sort_name` },
  // Runs of the hours that are not rolled up yet change the figure on the screen and not the place in the list. One
  // pass over the days: 10,000 monitors take 0.2 s, and 0.5 s where the days of each are looked up.
  uptime: {
    by: (sql) => sql`case when h.target_id is null then u.share else h.share end`,
    join: (sql, orgId, now, matched) => sql`
      left join (
        select d.target_id, sum(d.up + d.degraded)::float8 / nullif(sum(d.up + d.degraded + d.down + d.error), 0)
          as share
        from (
          select target_id, day, up, degraded, down, error
          from results_daily_of_org(${orgId}, ${now}::timestamptz::date - ${uptimeDays}::int)
          union all
          select target_id, day, up, degraded, down, error from imported_days
          where day >= ${now}::timestamptz::date - ${uptimeDays}::int
        ) d
        where d.target_id in (${matched})
        group by d.target_id
      ) u on u.target_id = t.id
      left join (select ${heartbeatShare(sql, now)} from (
          select target_id from heartbeats union all select target_id from target_groups) h
        where h.target_id in (${matched}))
        h (target_id, share) on h.target_id = t.id`,
  },
  p95: {
    by: (sql) => sql`l.p95`,
    join: (sql, _, now) => sql`
      left join lateral (
        select percentile_cont(0.95) within group (order by r.total_ms) as p95
        from ${runs(
          sql,
          {
            target: sql`t.id`,
            from: sql`${new Date(now.getTime() - p95Minutes * minuteMs)}::timestamptz`,
            to: sql`${now}::timestamptz`,
          },
          ["status", "skip", "recheck", "total_ms"],
        )} r
        where r.status in ('up', 'degraded') and not r.skip and not r.recheck
      ) l on true`,
    largestFirst: true,
  },
  days_left: { by: (sql) => sql`s.expires_at` },
  last_checked: { by: (sql) => sql`s.last_result_at`, largestFirst: true },
};

/**
 * Monitors without a value are last in both directions; among equals the worst and then the newest failure is first.
 */
function orderOf(sql: Db, now: Date, { sort, order }: Sorting, grouped: boolean) {
  const { by, largestFirst } = sortKeys[sort];
  const descending = order === null ? largestFirst === true : order === "desc";
  return sql`
    ${grouped ? sql`${rankAt(sql, now)},` : sql``}
    ${by(sql, now)} ${descending ? sql`desc nulls last` : sql`asc nulls last`}, ${worstFirst(sql, now)},
    case when ${statusAt(sql, now)} in ('down', 'error', 'degraded') then coalesce(i.outage_since, s.status_since) end
      desc nulls last,
    t.sort_name, t.id`;
}

/**
 * SQL: the rank of a monitor in the grouped list, as {@link rankOf} has it. Causes have those of `selectMonitorCauses`.
 */
const rankAt = (sql: Db, now: Date) => sql`
  case when i.severity = 'critical' and i.acknowledged_at is null
      and ${stateAt(sql, now)} in ('down', 'error', 'degraded') then ${ranks.critical}::int
    when ${stateAt(sql, now)} not in ('down', 'error') then ${ranks.rest}::int
    when i.acknowledged_at is null then ${ranks.failing}::int else ${ranks.acknowledged}::int end`;

/** Monitors that share no line with others, but those of `except`, by rank. */
export async function countAlone(
  sql: Db,
  orgId: string,
  now: Date,
  filter: TargetFilter,
  except: readonly string[],
): Promise<number[]> {
  const rows = await sql<{ rank: number; count: number }[]>`
    select ${rankAt(sql, now)} as rank, count(*)::int as count from ${monitorTables(sql)}
    where ${matching(sql, orgId, now, filter)} and t.id not in (${groupedMonitors(sql, orgId, now, filter)})
      and t.id <> all(${arrayOf(except)}::uuid[])
    group by 1`;
  return Object.values(ranks).map((rank) => rows.find((row) => row.rank === rank)?.count ?? 0);
}

/** Which rows of a list, in which order. */
interface ListPage {
  sorting: Sorting;
  /** True: without the monitors that share a line of `selectMonitorCauses`. */
  grouped: boolean;
  /** True: acknowledged failures stand behind the others. */
  inSections?: boolean;
  /** Only, or none of, these monitors. */
  only?: readonly string[];
  except?: readonly string[];
  limit: number;
  offset: number;
}

/** A page of ids in order, found before their columns are fetched: those cost the rows that are passed over as well. */
const idsInOrder = (
  sql: Db,
  orgId: string,
  now: Date,
  filter: TargetFilter,
  { sorting, grouped, inSections = false, only, except = [], limit, offset }: ListPage,
) => sql`
  select t.id, row_number() over (order by ${orderOf(sql, now, sorting, inSections)}) as place
  from ${monitorTables(sql)}
  ${
    sortKeys[sorting.sort].join?.(
      sql,
      orgId,
      now,
      sql`select t.id from targets t join target_states s on s.target_id = t.id
        where ${matching(sql, orgId, now, filter)}`,
    ) ?? sql``
  }
  where ${matching(sql, orgId, now, filter)}
    ${grouped ? sql`and t.id not in (${groupedMonitors(sql, orgId, now, filter)})` : sql``}
    ${only === undefined ? sql`` : sql`and t.id = any(${arrayOf(only)}::uuid[])`}
    ${except.length === 0 ? sql`` : sql`and t.id <> all(${arrayOf(except)}::uuid[])`}
  order by place limit ${limit} offset ${offset}`;

export type ListedTargetRow = TargetRow & Pick<MonitorStatusRow, "status" | "status_since" | "last_result_at">;

/** A page of targets, newest first unless `sorting` says otherwise. */
export async function selectTargets(
  sql: Db,
  orgId: string,
  now: Date,
  filter: TargetFilter,
  page: { sorting: Sorting | null; limit: number; offset: number },
): Promise<ListedTargetRow[]> {
  const { sorting, limit, offset } = page;
  const ids =
    sorting === null
      ? sql`
          select t.id, row_number() over (order by t.created_at desc, t.id desc) as place
          from targets t join target_states s on s.target_id = t.id where ${matching(sql, orgId, now, filter)}
          order by place limit ${limit} offset ${offset}`
      : idsInOrder(sql, orgId, now, filter, { sorting, grouped: false, limit, offset });
  return await sql<ListedTargetRow[]>`
    select ${columns(sql)}, case when t.enabled then ${statusAt(sql, now)} else 'unknown' end as status,
      case when not t.enabled or not ${isProbed(sql)} then null
        when s.status_until < ${now} then s.status_until else s.status_since end as status_since, s.last_result_at
    from (${ids}) page join targets t on t.id = page.id join target_states s on s.target_id = t.id
    order by page.place`;
}

export async function countTargets(sql: Db, orgId: string, now: Date, filter: TargetFilter): Promise<number> {
  return await countOf(
    sql,
    sql`from targets t join target_states s on s.target_id = t.id where ${matching(sql, orgId, now, filter)}`,
  );
}

export interface MonitorStatusRow {
  status: MonitorStatus;
  /** False while none of its regions is enabled: nothing checks it, and it reads as unknown. */
  probed: boolean;
  /** Whether it has an enabled channel: nobody is notified of its incidents otherwise. */
  notified: boolean;
  status_since: Date | null;
  last_result_at: Date | null;
  last_error: string | null;
  /** The newest details that a run read; its check has not been pointed elsewhere since. */
  details: ResultDetails | null;
  expires_at: Date | null;
}

export interface MonitorDbRow extends TargetRow, MonitorStatusRow {
  incident_id: string | null;
  /** Start of the current outage; null without an open incident. */
  outage_since: Date | null;
  acknowledged_at: Date | null;
  incident_severity: string | null;
  incident_error: string | null;
  incident_regions_down: string[] | null;
  incident_regions_up: string[] | null;
  /** Of a group that has been judged. */
  members: MemberCounts | null;
}

const monitorColumns = (sql: Db, orgId: string, now: Date) => sql`
  ${columns(sql)}, ${statusAt(sql, now)} as status, ${isProbed(sql)} as probed,
  ${isNotified(sql, orgId)} as notified,
  s.status_since, s.last_result_at,
  s.last_error, s.details, s.expires_at, i.id as incident_id, i.outage_since, i.acknowledged_at,
  i.severity as incident_severity, i.error_sample as incident_error, i.regions_down as incident_regions_down,
  i.regions_up as incident_regions_up,
  case when t.kind = 'group' then (
    select jsonb_build_object('known', g.known, 'down', g.down, 'degraded', g.degraded)
    from target_groups g where g.target_id = t.id) end as members`;

/** The console's list. */
export async function selectMonitors(
  sql: Db,
  orgId: string,
  now: Date,
  filter: TargetFilter,
  page: ListPage,
): Promise<MonitorDbRow[]> {
  if (page.limit === 0) return [];
  return await sql<MonitorDbRow[]>`
    select ${monitorColumns(sql, orgId, now)}
    from (${idsInOrder(sql, orgId, now, filter, page)}) page join (${monitorTables(sql)}) on t.id = page.id
    order by page.place`;
}

export async function selectMonitor(sql: Db, orgId: string, now: Date, id: string) {
  return await firstOf(sql<(MonitorDbRow & { state: string; status_until: Date | null })[]>`
    select ${monitorColumns(sql, orgId, now)}, s.state, s.status_until from ${monitorTables(sql)}
    where t.org_id = ${orgId} and t.id = ${id}`);
}

export interface MonitorCounts {
  state: string;
  count: number;
  last_check_at: Date | null;
}

/** Number of monitors in each state (`paused` is one of them), and when any of them was checked last. */
export async function countMonitors(sql: Db, orgId: string, now: Date, filter: TargetFilter): Promise<MonitorCounts[]> {
  return await sql<MonitorCounts[]>`
    select ${stateAt(sql, now)} as state, count(*)::int as count, max(s.last_result_at) as last_check_at
    from targets t join target_states s on s.target_id = t.id
    where ${matching(sql, orgId, now, filter)} group by 1`;
}

/** The checks (secrets sealed) of enabled monitors whose newest runs an open circuit breaker refused. */
export async function selectCircuitOpenSpecs(sql: Db, orgId: string, now: Date): Promise<CheckSpec[]> {
  return await columnOf<CheckSpec>(sql`
    select t.spec from targets t join target_states s on s.target_id = t.id
    where t.org_id = ${orgId} and t.enabled and s.status_until >= ${now} and s.circuit_open`);
}
