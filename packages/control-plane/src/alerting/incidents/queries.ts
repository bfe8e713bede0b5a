import type { Fragment } from "postgres";
import {
  arrayOf,
  columnOf,
  countOf,
  type Db,
  firstOf,
  inPortions,
  type Listed,
  listed,
  type Paging,
  rowOf,
  valueOf,
} from "../../platform/db/client/sql.ts";
import { type Cause, causeTables } from "../causes/service.ts";
import type { StoredRow } from "../../platform/http/wire.ts";
import { severityOrder } from "../channels/service.ts";
import { publicationsOf } from "./timeline/publication-queries.ts";
import { flappingOf } from "./holds/hold-queries.ts";
import type { StoredFlapping } from "./evidence/flapping-queries.ts";
import type { OutageTimes } from "./reports/outages.ts";
import type { PolicyFields } from "./evaluation/policy.ts";
import type { GroupMembers, Impact, Incident, Severity } from "./schema.ts";

type Derived =
  | "diagnosis"
  | "state"
  | "published"
  | "publications"
  | "peak_severity"
  | "duration_secs"
  | "past_outage_secs"
  | "imported"
  | "flapping"
  | "members";
type Shown = StoredRow<Omit<Incident, Derived>>;

export interface IncidentRow extends Shown, OutageTimes {
  opened_at: Date;
  peak_impact: Impact;
  /** What down means at its target. */
  down_severity: Exclude<Severity, "minor">;
  flapping: StoredFlapping | null;
  members: GroupMembers | null;
  publications: { page_id: string; page_name: string; is_open: boolean; published_at: string | null }[];
  imported: boolean;
  /** As results have it. */
  diagnosis: string | null;
  /** Names of the regions that see it failing, where there is a diagnosis. */
  diagnosed_from: string[];
}

/** What the tables of incidents and monitors hold. */
export type StoredIncident = Omit<IncidentRow, "flapping" | "publications" | "acknowledged_by">;

const storedColumns = (sql: Db) => sql`
  i.id, i.target_id, t.name as monitor_name, i.severity, i.severity_pinned, i.peak_impact,
  i.started_at, i.opened_at, i.ended_at, i.outage_since, i.past_outage_ms::float8,
  i.acknowledged_at, i.opened_by, i.closed_by, i.reopened_count, i.error_sample, i.diagnosis, i.members,
  case when i.diagnosis is null then '{}' else array(
    select coalesce(g.name, r.id) from unnest(i.regions_down) with ordinality as r (id, position)
    left join regions g on g.id = r.id order by r.position) end as diagnosed_from,
  i.regions_down, i.regions_up, i.public_title, i.public_description, i.visibility, i.created_at, i.updated_at,
  i.imported, t.severity as down_severity`;

const columns = (sql: Db) => sql`
  ${storedColumns(sql)}, ${flappingOf(sql)} as flapping, ${publicationsOf(sql)} as publications,
  case when i.acknowledged_at is not null then (
    select jsonb_build_object('type', e.actor_type, 'id', e.actor_id, 'name', e.actor_name)
    from incident_events e
    where e.incident_id = i.id and e.kind = 'acknowledged'
    order by e.at desc, e.id desc limit 1
  ) end as acknowledged_by`;

/** Columns of incident `i` for a notice, without severity and name of the monitor. */
export const noticeColumns = (sql: Db) => sql`
  i.id, i.org_id, i.target_id, i.started_at, i.ended_at, i.outage_since, i.past_outage_ms::float8, i.error_sample,
  i.diagnosis, i.regions_down, i.regions_up`;

export interface IncidentFilter {
  state: "open" | "closed" | "all";
  targetId: string | null;
  severity: Severity | null;
  /** Incidents that lasted into the range: not over before `from`, begun before `to`. */
  from: Date | null;
  to: Date | null;
  /** Open incidents whose monitors fail together. */
  cause: Cause | null;
  /** Acknowledged ones, or those without an acknowledgement. */
  acknowledged: boolean | null;
}

/** The CTEs of {@link causeTables} for the open incidents of the organisation. */
const incidentCauses = (sql: Db, orgId: string) =>
  causeTables(
    sql,
    orgId,
    sql`
      select i.id, t.host, t.tags, i.error_sample as error, i.diagnosis,
        i.regions_down as regions,
        i.severity = 'critical' as critical
      from incidents i join targets t on t.id = i.target_id
      where i.org_id = ${orgId} and i.ended_at is null and not i.retracted`,
  );

/** The members of causes that match, with the number of those that share their cause. */
export const causeMembers = (sql: Db, orgId: string, filter: IncidentFilter) => sql`
  with ${incidentCauses(sql, orgId)}, matched as (
    select c.id, c.kind, c.value, c.total, count(*) over (partition by c.kind, c.value) as n
    from caused c join incidents i on i.id = c.id where ${matching(sql, orgId, filter)}
  )`;

const matching = (
  sql: Db,
  orgId: string,
  { state, targetId, severity, from, to, cause, acknowledged }: IncidentFilter,
) => sql`
  i.org_id = ${orgId} and not i.retracted
  ${state === "all" ? sql`` : state === "open" ? sql`and i.ended_at is null` : sql`and i.ended_at is not null`}
  ${targetId === null ? sql`` : sql`and i.target_id = ${targetId}`}
  ${severity === null ? sql`` : sql`and i.severity = ${severity}`}
  ${acknowledged === null ? sql`` : sql`and (i.acknowledged_at is not null) = ${acknowledged}`}
  ${from === null ? sql`` : sql`and (i.ended_at is null or i.ended_at >= ${from})`}
  ${to === null ? sql`` : sql`and i.started_at < ${to}`}
  ${
    cause === null
      ? sql``
      : sql`and i.id in (with ${incidentCauses(sql, orgId)}
          select id from caused where kind = ${cause.kind} and value = ${cause.value})`
  }`;

/** Ranks of an incident in lists: open ones by severity, acknowledged ones by severity, closed ones. */
export const ranks = 7;

/** SQL: the rank of incident `i`, from 0. */
export const rankOf = (sql: Db) => sql`
  case when i.ended_at is not null then ${ranks - 1}::int
    else ${severityOrder(sql, sql`i.severity`)} - 1 + case when i.acknowledged_at is null then 0 else 3 end end`;

/** Order of lists of incidents: by rank, then by start, newest first. */
const inRank = (sql: Db) => sql`${rankOf(sql)}, i.started_at desc, i.id desc`;

/** Condition: no member of a line of `selectIncidentCauses`. */
const alone = (sql: Db, orgId: string, filter: IncidentFilter) =>
  sql`i.id not in (${causeMembers(sql, orgId, filter)} select id from matched where n > 1)`;

/** Incidents that share no line with others, by rank. */
export async function countAlone(sql: Db, orgId: string, filter: IncidentFilter): Promise<number[]> {
  const rows = await sql<{ rank: number; count: number }[]>`
    select ${rankOf(sql)} as rank, count(*)::int as count from incidents i
    where ${matching(sql, orgId, filter)} and ${alone(sql, orgId, filter)} group by 1`;
  return Array.from({ length: ranks }, (_, rank) => rows.find((row) => row.rank === rank)?.count ?? 0);
}

/**
 * In the order of {@link inRank}. With `grouped`, without the incidents that share a line of `selectIncidentCauses`,
 * which are counted all the same.
 */
export async function selectIncidents(
  sql: Db,
  orgId: string,
  filter: IncidentFilter,
  { grouped = false, limit, offset }: Paging & { grouped?: boolean },
): Promise<Listed<IncidentRow>> {
  const part = sql<IncidentRow[]>`
    select ${columns(sql)} from incidents i join targets t on t.id = i.target_id
    where ${matching(sql, orgId, filter)} ${grouped ? sql`and ${alone(sql, orgId, filter)}` : sql``}
    order by ${inRank(sql)} limit ${limit} offset ${offset}`;
  const all = sql`from incidents i where ${matching(sql, orgId, filter)}`;
  return await listed(sql, all, limit === 0 ? Promise.resolve([]) : part);
}

/** Ids of the list in its order, for {@link selectIncidentsOf}. */
export async function selectIncidentIds(
  sql: Db,
  orgId: string,
  filter: IncidentFilter,
  limit: number,
): Promise<string[]> {
  const rows = await inPortions(sql<{ id: string }[]>`
    select i.id from incidents i where ${matching(sql, orgId, filter)}
    order by ${inRank(sql)} limit ${limit}`);
  return rows.map(({ id }) => id);
}

const givenIncidents = (sql: Db, orgId: string, ids: readonly string[]) => sql`
  from unnest(${[...ids]}::uuid[]) with ordinality as u (id, n)
  join incidents i on i.id = u.id join targets t on t.id = i.target_id
  where i.org_id = ${orgId} order by u.n`;

/** The given incidents in the given order, without deleted ones. */
export async function selectIncidentsOf(sql: Db, orgId: string, ids: readonly string[]): Promise<IncidentRow[]> {
  return await sql<IncidentRow[]>`select ${columns(sql)} ${givenIncidents(sql, orgId, ids)}`;
}

/** As {@link selectIncidentsOf}, at a tenth of the price. */
export async function selectStoredIncidents(sql: Db, orgId: string, ids: readonly string[]): Promise<StoredIncident[]> {
  return await sql<StoredIncident[]>`select ${storedColumns(sql)} ${givenIncidents(sql, orgId, ids)}`;
}

/** Open incidents and their causes; an incident that shares none is a cause of its own. */
export interface OpenCounts {
  incidents: number;
  acknowledged: number;
  minor: number;
  causes: number;
  /** Causes with an incident that nobody has acknowledged. */
  waiting: number;
}

export async function countOpen(sql: Db, orgId: string): Promise<OpenCounts> {
  return await rowOf(sql<OpenCounts[]>`
    with ${incidentCauses(sql, orgId)}, open as (
      select c.kind, coalesce(c.value, i.id::text) as value, i.acknowledged_at is null as waiting, i.severity
      from incidents i left join caused c on c.id = i.id
      where i.org_id = ${orgId} and i.ended_at is null and not i.retracted
    )
    select count(*)::int as incidents, count(*) filter (where not waiting)::int as acknowledged,
      count(*) filter (where severity = 'minor')::int as minor, count(distinct (kind, value))::int as causes,
      count(distinct (kind, value)) filter (where waiting)::int as waiting
    from open`);
}

/** Number of incidents that began at `since` or later. */
export const countIncidentsSince = async (sql: Db, orgId: string, since: Date): Promise<number> =>
  await countOf(sql, sql`from incidents where org_id = ${orgId} and started_at >= ${since} and not retracted`);

export async function selectIncident(sql: Db, orgId: string, id: string): Promise<IncidentRow | null> {
  return await firstOf(sql<IncidentRow[]>`
    select ${columns(sql)} from incidents i join targets t on t.id = i.target_id
    where i.org_id = ${orgId} and i.id = ${id} and not i.retracted`);
}

/** The evidence of one target as stored. */
export interface StateRow {
  state: string;
  status_until: Date | null;
}

/** The state of one target, unlocked, for reading; null for a target that does not exist. */
export async function selectState(sql: Db, targetId: string): Promise<StateRow | null> {
  return await firstOf(sql<StateRow[]>`select state, status_until from target_states where target_id = ${targetId}`);
}

export async function selectRegionNames(sql: Db): Promise<Map<string, string>> {
  const rows = await sql<{ id: string; name: string }[]>`select id, name from regions`;
  return new Map(rows.map(({ id, name }) => [id, name]));
}

export async function selectDisabledRegions(sql: Db): Promise<string[]> {
  return await columnOf<string>(sql`select id from regions where not enabled`);
}

/**
 * Time budget of a run in ms, from the check of a target: `budgetMs` of the check kinds as SQL. A heartbeat has no
 * timeout: its vote stays for a year, because another report or a missed one changes it.
 */
export const budgetOf = (sql: Db, spec: Fragment) => sql`coalesce(${spec} ->> 'timeout', '31622400000')::float8`;

export interface PolicyRow extends PolicyFields {
  id: string;
  org_id: string;
  name: string;
  renotify_interval_secs: number;
  /** What down means there. */
  severity: Exclude<Severity, "minor">;
}

export const policyColumns = (sql: Db) => sql`
  id, org_id, name, ${budgetOf(sql, sql`spec`)} as timeout, interval_secs, alert_confirmations, region_policy,
  renotify_interval_secs, severity, flap_detection`;

export async function selectPolicies(sql: Db, orgId: string, targetIds: readonly string[]): Promise<PolicyRow[]> {
  return await sql<PolicyRow[]>`
    select ${policyColumns(sql)} from targets where org_id = ${orgId} and id = any(${arrayOf(targetIds)}::uuid[])`;
}

/** Policies of targets of any organisation, for jobs. */
export async function selectPoliciesOfAny(sql: Db, targetIds: readonly string[]): Promise<PolicyRow[]> {
  return await sql<PolicyRow[]>`
    select ${policyColumns(sql)} from targets where id = any(${arrayOf(targetIds)}::uuid[])`;
}

/** Monitors that have had an incident, by name. */
export async function selectMonitorsWithIncidents(sql: Db, orgId: string, limit: number) {
  return await sql<{ id: string; name: string }[]>`
    select t.id, t.name from targets t
    where t.org_id = ${orgId} and exists (select from incidents i where i.target_id = t.id and not i.retracted)
    order by t.sort_name, t.id limit ${limit}`;
}

export async function selectOpenIncident(sql: Db, orgId: string, targetId: string): Promise<string | null> {
  return await valueOf<string | null>(sql`
    select id from incidents
    where org_id = ${orgId} and target_id = ${targetId} and ended_at is null and not retracted`);
}

/** The ids among these of targets with an open incident. */
export async function selectFailing(sql: Db, orgId: string, targetIds: readonly string[]): Promise<string[]> {
  return await columnOf<string>(sql`
    select distinct target_id from incidents
    where org_id = ${orgId} and target_id = any(${arrayOf(targetIds)}::uuid[]) and ended_at is null and not retracted`);
}

export async function selectNamedMonitor(sql: Db, orgId: string, id: string) {
  return await firstOf(sql<{ id: string; name: string }[]>`
    select id, name from targets where org_id = ${orgId} and id = ${id}`);
}

export interface FoundIncident extends Pick<
  IncidentRow,
  "id" | "monitor_name" | "public_title" | "error_sample" | "started_at" | "ended_at"
> {
  /** Incidents that match, in every row. */
  total: number;
}

/**
 * Incidents since `from`, and open ones, with every word in monitor, title or error: open ones first, then the newest.
 * `words` are in lower case. Without words only open ones: closed incidents would fill an empty search.
 */
export async function searchIncidents(
  sql: Db,
  orgId: string,
  words: readonly string[],
  from: Date,
  limit: number,
): Promise<FoundIncident[]> {
  const text = sql`lower(t.name || ' ' || coalesce(i.public_title, '') || ' ' || coalesce(i.error_sample, ''))`;
  return await sql<FoundIncident[]>`
    select i.id, t.name as monitor_name, i.public_title, i.error_sample, i.started_at, i.ended_at,
      count(*) over ()::int as total
    from incidents i join targets t on t.id = i.target_id
    where i.org_id = ${orgId} and not i.retracted
      and (i.ended_at is null ${words.length === 0 ? sql`` : sql`or i.started_at >= ${from}`})
      ${words.reduce((before, word) => sql`${before} and position(${word} in ${text}) > 0`, sql``)}
    order by i.ended_at is not null, i.started_at desc, i.id desc limit ${limit}`;
}
