import { type Cause, causeTables } from "../../../alerting/causes/service.ts";
import { arrayOf, type Db } from "../../../platform/db/client/sql.ts";
import { routedTargetIds } from "../../../alerting/channels/routes/service.ts";
import type { MonitorState } from "../schema.ts";
import type { CheckSpec } from "@statusmesh/shared/checks";

/** Which targets a list has. Null and the empty filter {@link everything} leave none out. */
export interface TargetFilter {
  q: string | null;
  tag: string | null;
  enabled: boolean | null;
  kind: string | null;
  state: MonitorState | null;
  cause: Cause | null;
  /** Only targets without a tag that begins with this prefix and a slash. */
  lacksPrefix: string | null;
  /** None of these targets. */
  except: readonly string[];
  /** Whether an enabled channel is notified of its incidents. */
  notified: boolean | null;
}

export const everything: TargetFilter = {
  q: null,
  tag: null,
  enabled: null,
  kind: null,
  state: null,
  cause: null,
  lacksPrefix: null,
  except: [],
  notified: null,
};

/** The filter of an input. Search text and tag in NFC, as names and tags are stored. */
export const filterOf = (input: { q?: string; tag?: string } & Partial<Omit<TargetFilter, "q" | "tag">>) => ({
  ...everything,
  ...input,
  q: input.q?.normalize("NFC") ?? null,
  tag: input.tag?.normalize("NFC") ?? null,
});

/** Longest search in words: each is a condition of its own. */
const mostWords = 10;

const wordsOf = (q: string | null): string[] =>
  (q ?? "")
    .split(/\s+/)
    .filter((word) => word !== "")
    .slice(0, mostWords);

/** The text with the wildcards of LIKE taken literally. */
export const likeText = (text: string): string => text.replaceAll(/[\\%_]/g, "\\$&");

/** False for a target with no enabled region. The second part is only run while some region is disabled. */
export const isProbed = (sql: Db) => sql`
  (not exists (select from regions where not enabled) or exists (
    select from target_regions p join regions g on g.id = p.region_id and g.enabled where p.target_id = t.id))`;

/** Whether the target has an enabled channel, of its list or by its tags. */
export const isNotified = (sql: Db, orgId: string) => sql`
  (exists (select from target_alerts a join channels c on c.id = a.channel_id and c.enabled where a.target_id = t.id)
    or t.id in (${routedTargetIds(sql, orgId)}))`;

/** Status of a monitor at `now`: unknown when its votes are stale, and when it has no enabled region. */
export const statusAt = (sql: Db, now: Date) => sql`
  case when s.status_until is null or s.status_until < ${now} or not ${isProbed(sql)} then 'unknown' else s.status end`;

/** State of a monitor at `now`: its status, or `paused`. */
export const stateAt = (sql: Db, now: Date) =>
  sql`case when not t.enabled then 'paused' else ${statusAt(sql, now)} end`;

/** Target, state and open incident. */
export const monitorTables = (sql: Db) => sql`
  targets t
  join target_states s on s.target_id = t.id
  left join incidents i on i.target_id = t.id and i.ended_at is null and not i.retracted`;

/** The CTEs of {@link causeTables} for the failing monitors of the organisation. */
export const monitorCauses = (sql: Db, orgId: string, now: Date) =>
  causeTables(
    sql,
    orgId,
    sql`
      select t.id, t.host, t.tags,
        coalesce(s.last_error, i.error_sample) as error, i.diagnosis,
        coalesce(i.regions_down, '{}') as regions, coalesce(i.severity = 'critical', false) as critical
      from ${monitorTables(sql)}
      where t.org_id = ${orgId} and t.enabled and s.status in ('down', 'error', 'degraded') and s.status_until >= ${now}
        and ${isProbed(sql)}`,
  );

/**
 * Condition on `targets t` joined with `target_states s`. A search matches a target that has every word of it in its
 * name, address or tags, in any order.
 */
export const matching = (sql: Db, orgId: string, now: Date, filter: TargetFilter) => sql`
  t.org_id = ${orgId}
  ${wordsOf(filter.q).reduce(
    (before, word) => sql`${before} and (t.search like '%' || lower(${likeText(word)}) || '%'
      or exists (select 1 from unnest(t.tags) own where lower(own) like '%' || lower(${likeText(word)}) || '%'))`,
    sql``,
  )}
  ${filter.tag === null ? sql`` : sql`and t.tags @> array[${filter.tag}]::text[]`}
  ${filter.enabled === null ? sql`` : sql`and t.enabled = ${filter.enabled}`}
  ${filter.kind === null ? sql`` : sql`and t.kind = ${filter.kind}`}
  ${filter.state === null ? sql`` : sql`and ${stateAt(sql, now)} = ${filter.state}`}
  ${
    filter.cause === null
      ? sql``
      : sql`and t.id in (with ${monitorCauses(sql, orgId, now)}
          select id from caused where kind = ${filter.cause.kind} and value = ${filter.cause.value})`
  }
  ${filter.notified === null ? sql`` : sql`and ${isNotified(sql, orgId)} = ${filter.notified}`}
  ${
    filter.lacksPrefix === null
      ? sql``
      : sql`and not exists (
          select from unnest(t.tags) own (tag) where starts_with(own.tag, ${`${filter.lacksPrefix}/`}))`
  }
  ${filter.except.length === 0 ? sql`` : sql`and t.id not in (select unnest(${arrayOf(filter.except)}::uuid[]))`}`;

interface FoundTarget {
  id: string;
  name: string;
  spec: CheckSpec;
  state: MonitorState;
  /** Monitors that match, in every row. */
  total: number;
}

/** The monitors that match a search: those whose name begins with it first, then failing ones, then by name. */
export async function searchTargets(
  sql: Db,
  orgId: string,
  now: Date,
  q: string,
  limit: number,
): Promise<FoundTarget[]> {
  const filter = filterOf({ q });
  return await sql<FoundTarget[]>`
    with found as (
      select t.id, t.name, t.sort_name, ${stateAt(sql, now)} as state,
        lower(t.name) like lower(${likeText(filter.q ?? "")}) || '%' as begins, count(*) over ()::int as total
      from targets t join target_states s on s.target_id = t.id where ${matching(sql, orgId, now, filter)}
      order by begins desc, (${stateAt(sql, now)}) not in ('down', 'error', 'degraded'), t.sort_name, t.id
      limit ${limit})
    select f.id, f.name, f.state, t.spec, f.total from found f join targets t on t.id = f.id
    order by f.begins desc, f.state not in ('down', 'error', 'degraded'), f.sort_name, f.id`;
}
