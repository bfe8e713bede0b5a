import type { PendingQuery, Row } from "postgres";
import type { Db } from "./sql.ts";

/** What failing monitors have in common, the most telling first. */
export const causeKinds = ["host", "tag", "region"] as const;
export type CauseKind = (typeof causeKinds)[number];

/** A common cause of failing monitors: `db-1.example.org`, a tag, or the id of a region. */
export interface Cause {
  kind: CauseKind;
  value: string;
}

/** `host:db-1.example.org`, as filters name a cause. */
export const causeKey = ({ kind, value }: Cause): string => `${kind}:${value}`;

/** Syntax of {@link causeKey}. */
export const causePattern = `^(${causeKinds.join("|")}):.+$`;

/** The cause that a key names; null for any other text. */
export function readCause(key: string): Cause | null {
  const at = key.indexOf(":");
  const kind = causeKinds.find((known) => known === key.slice(0, at));
  return kind === undefined || at === key.length - 1 ? null : { kind, value: key.slice(at + 1) };
}

/**
 * Minimum number of failing monitors with a shared cause for a line of its own. Monitors of one host fail together;
 * monitors with a common tag or region are often unrelated, so a few of them are listed by name.
 */
const least = { host: 2, tag: 3, region: 5 } as const;

/**
 * Common table expressions that end in `caused (id, kind, value)`: the cause of each member that has one. `members` is
 * a query of the columns id, host, tags and regions. A member belongs to its host, else to the most frequent of its
 * tags, else to the most frequent of its regions.
 */
export const causeTables = (sql: Db, members: PendingQuery<Row[]>) => sql`
  members as materialized (${members}),
  hosted as (
    select id, host, count(*) over (partition by host) as n from members where host is not null
  ), hostless as (
    select m.id, m.tags, m.regions from members m
    where not exists (select from hosted h where h.id = m.id and h.n >= ${least.host})
  ), tag_counts as (
    select u.tag, count(*) as n from hostless m cross join unnest(m.tags) as u (tag) group by u.tag
    having count(*) >= ${least.tag}
  ), tag_choices as (
    select distinct on (m.id) m.id, c.tag
    from hostless m cross join unnest(m.tags) as u (tag) join tag_counts c on c.tag = u.tag
    order by m.id, c.n desc, c.tag collate "C"
  ), tagged as (
    select id, tag, count(*) over (partition by tag) as n from tag_choices
  ), tagless as (
    select m.id, m.regions from hostless m
    where not exists (select from tagged g where g.id = m.id and g.n >= ${least.tag})
  ), region_counts as (
    select u.region, count(*) as n from tagless m cross join unnest(m.regions) as u (region) group by u.region
  ), region_choices as (
    select distinct on (m.id) m.id, c.region
    from tagless m cross join unnest(m.regions) as u (region) join region_counts c on c.region = u.region
    order by m.id, c.n desc, c.region collate "C"
  ), regional as (
    select id, region, count(*) over (partition by region) as n from region_choices
  ), caused as (
    select id, 'host' as kind, host as value from hosted where n >= ${least.host}
    union all select id, 'tag', tag from tagged where n >= ${least.tag}
    union all select id, 'region', region from regional where n >= ${least.region}
  )`;
