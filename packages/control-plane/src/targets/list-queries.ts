import type { CheckSpec, ResultDetails } from "@statusmesh/shared/checks";
import type { Db } from "../db/sql.ts";
import { columns, type TargetRow } from "./queries.ts";

export interface TargetFilter {
  q: string | null;
  tag: string | null;
  enabled: boolean | null;
}

/** Search text and tag in NFC, as names and tags are stored. */
export const textFilter = ({ q, tag }: { q?: string; tag?: string }): Pick<TargetFilter, "q" | "tag"> => ({
  q: q?.normalize("NFC") ?? null,
  tag: tag?.normalize("NFC") ?? null,
});

/** A target matches a search that has every word of it in its name, address or tags, in any order. */
const matching = (sql: Db, orgId: string, { q, tag, enabled }: TargetFilter) => sql`
  t.org_id = ${orgId}
  ${wordsOf(q).reduce(
    (before, word) => sql`${before} and (t.search like '%' || lower(${likeText(word)}) || '%'
      or exists (select 1 from unnest(t.tags) own where lower(own) like '%' || lower(${likeText(word)}) || '%'))`,
    sql``,
  )}
  and (${tag}::text is null or t.tags @> array[${tag}]::text[])
  and (${enabled}::boolean is null or t.enabled = ${enabled})`;

/** Longest search in words: each is a condition of its own. */
const mostWords = 10;

const wordsOf = (q: string | null): string[] =>
  (q ?? "")
    .split(/\s+/)
    .filter((word) => word !== "")
    .slice(0, mostWords);

/** The text with the wildcards of LIKE taken literally. */
const likeText = (text: string): string => text.replaceAll(/[\\%_]/g, "\\$&");

/**
 * A page, newest first. The page is found before its columns are fetched: they cost the rows that are passed over as
 * well, and the last page of 10,000 targets took 69 ms so, 6 ms now.
 */
export async function selectTargets(
  sql: Db,
  orgId: string,
  filter: TargetFilter,
  limit: number,
  offset: number,
): Promise<TargetRow[]> {
  return await sql<TargetRow[]>`
    select ${columns(sql)}
    from (select t.id from targets t where ${matching(sql, orgId, filter)} order by t.created_at desc, t.id desc
      limit ${limit} offset ${offset}) page
    join targets t on t.id = page.id order by t.created_at desc, t.id desc`;
}

export async function countTargets(sql: Db, orgId: string, filter: TargetFilter): Promise<number> {
  const [row] = await sql<
    { count: number }[]
  >`select count(*)::int as count from targets t where ${matching(sql, orgId, filter)}`;
  return row!.count;
}

/** False for a target with no enabled region. The second part is only run while some region is disabled. */
const isProbed = (sql: Db) => sql`
  (not exists (select from regions where not enabled) or exists (
    select from target_regions p join regions g on g.id = p.region_id and g.enabled where p.target_id = t.id))`;

/** How a monitor reads at `now`: unknown when its votes are stale, and when it has no enabled region. */
const statusAt = (sql: Db, now: Date) => sql`
  case when s.status_until is null or s.status_until < ${now} or not ${isProbed(sql)} then 'unknown' else s.status end`;

export interface MonitorDbRow extends TargetRow {
  status: "up" | "degraded" | "down" | "error" | "unknown";
  /** False while none of its regions is enabled. */
  probed: boolean;
  status_since: Date | null;
  last_result_at: Date | null;
  last_error: string | null;
  details: ResultDetails | null;
  incident_id: string | null;
  incident_started_at: Date | null;
  incident_severity: string | null;
  incident_error: string | null;
  incident_regions_down: string[] | null;
  incident_regions_up: string[] | null;
}

const monitorColumns = (sql: Db, now: Date) => sql`
  ${columns(sql)}, ${statusAt(sql, now)} as status, ${isProbed(sql)} as probed, s.status_since, s.last_result_at,
    s.last_error, s.details,
  i.id as incident_id, i.started_at as incident_started_at, i.severity as incident_severity,
    i.error_sample as incident_error,
  i.regions_down as incident_regions_down, i.regions_up as incident_regions_up`;

const monitorTables = (sql: Db) => sql`
  targets t
  join target_states s on s.target_id = t.id
  left join incidents i on i.target_id = t.id and i.ended_at is null and not i.retracted`;

/** How the console's list is sorted: worst first, or by what expires next, and then worst first. */
export type MonitorSort = "state" | "days_left";

/** The console's list: paused last. `state` is a status, `paused`, or null for all. */
export async function selectMonitors(
  sql: Db,
  orgId: string,
  now: Date,
  filter: TargetFilter,
  state: string | null,
  sort: MonitorSort,
  limit: number,
  offset: number,
): Promise<MonitorDbRow[]> {
  const first = sort === "days_left" ? sql`s.expires_at nulls last,` : sql``;
  return await sql<MonitorDbRow[]>`
    select ${monitorColumns(sql, now)} from ${monitorTables(sql)}
    where ${matching(sql, orgId, filter)}
      and (${state}::text is null or ${state} = case when not t.enabled then 'paused' else ${statusAt(sql, now)} end)
    order by ${first} not t.enabled,
      array_position(array['down', 'error', 'degraded', 'unknown', 'up'], ${statusAt(sql, now)}), lower(t.name), t.id
    limit ${limit} offset ${offset}`;
}

export async function selectMonitor(
  sql: Db,
  orgId: string,
  now: Date,
  id: string,
): Promise<(MonitorDbRow & { state: string; status_until: Date | null }) | null> {
  const [row] = await sql<(MonitorDbRow & { state: string; status_until: Date | null })[]>`
    select ${monitorColumns(sql, now)}, s.state, s.status_until from ${monitorTables(sql)}
    where t.org_id = ${orgId} and t.id = ${id}`;
  return row ?? null;
}

export interface MonitorCounts {
  state: string;
  count: number;
  last_check_at: Date | null;
}

/**
 * How many monitors that match there are in each state (`paused` is one of them), and when any of them was checked
 * last.
 */
export async function countMonitors(sql: Db, orgId: string, now: Date, filter: TargetFilter): Promise<MonitorCounts[]> {
  return await sql<MonitorCounts[]>`
    select case when not t.enabled then 'paused'
      else ${statusAt(sql, now)} end as state, count(*)::int as count, max(s.last_result_at) as last_check_at
    from targets t join target_states s on s.target_id = t.id
    where ${matching(sql, orgId, filter)} group by 1`;
}

const tagged = (sql: Db, orgId: string, prefix: string) =>
  sql`
    from targets t cross join unnest(t.tags) as tag (name)
    where t.org_id = ${orgId} and tag.name ilike ${likeText(prefix)} || '%'`;

/** The tags that begin with `prefix` in either case, most used first. */
export async function selectTags(
  sql: Db,
  orgId: string,
  prefix: string,
  limit: number,
  offset: number,
): Promise<{ name: string; count: number }[]> {
  return await sql<{ name: string; count: number }[]>`
    select tag.name, count(*)::int as count ${tagged(sql, orgId, prefix)} group by tag.name
    order by count(*) desc, tag.name collate "C" limit ${limit} offset ${offset}`;
}

export async function countTags(sql: Db, orgId: string, prefix: string): Promise<number> {
  const [row] = await sql<
    { count: number }[]
  >`select count(distinct tag.name)::int as count ${tagged(sql, orgId, prefix)}`;
  return row!.count;
}

/** The checks (secrets sealed) of enabled monitors whose newest runs an open circuit breaker refused. */
export async function selectCircuitOpenSpecs(sql: Db, orgId: string, now: Date): Promise<CheckSpec[]> {
  const rows = await sql<{ spec: CheckSpec }[]>`
    select t.spec from targets t join target_states s on s.target_id = t.id
    where t.org_id = ${orgId} and t.enabled and s.status_until >= ${now} and s.circuit_open`;
  return rows.map((row) => row.spec);
}
