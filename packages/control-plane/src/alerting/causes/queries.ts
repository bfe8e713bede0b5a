import type { PendingQuery, Row } from "postgres";
import type { Db } from "../../platform/db/client/sql.ts";

/** What failing monitors have in common, the most telling first. */
export const causeKinds = ["host", "tag", "error", "region"] as const;
export type CauseKind = (typeof causeKinds)[number];

/** A common cause of failing monitors: `db-1.example.org`, a tag, a class of error, or the id of a region. */
export interface Cause {
  kind: CauseKind;
  value: string;
}

/** `host:db-1.example.org`, as filters name a cause. */
export const causeKey = ({ kind, value }: Cause): string => `${kind}:${value}`;

/** Monitors or incidents that share a cause, as statements read them. */
export interface SharedCauseRow extends Cause {
  count: number;
  /** Enabled monitors with the tag; null for another kind of cause. */
  total: number | null;
  /** Open incidents that nobody has acknowledged. */
  waiting: number;
  /** The most frequent error, and whether all members have it. */
  error_sample: string | null;
  same_error: boolean;
  /** The first three names of monitors, the most severe first, and the id of the first member. */
  names: string[];
  example_id: string;
}

/** They as one line of a list. */
export interface CauseLine extends Pick<SharedCauseRow, "count" | "total" | "waiting" | "names"> {
  cause: Cause;
  /** The cause as filters name it. */
  key: string;
  error: string | null;
  /** True where all members have the error, not only most of them. */
  sameError: boolean;
  exampleId: string;
}

export const causeLine = ({ kind, value, ...row }: SharedCauseRow): CauseLine => ({
  cause: { kind, value },
  key: causeKey({ kind, value }),
  count: row.count,
  total: row.total,
  waiting: row.waiting,
  error: row.error_sample,
  sameError: row.same_error,
  names: row.names,
  exampleId: row.example_id,
});

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
const least = { host: 2, tag: 3, error: 3, region: 5 } as const;

/** Kinds of diagnoses that are the class of their monitors, with the provider: `challenge:cloudflare`. */
const sharedDiagnosis = "^(?:blocked|challenge|origin_unreachable|rate_limited|tls):[a-z0-9-]+";

/** SQL: the error by which incidents are grouped: the diagnosis where a provider has answered. */
export const causeError = (sql: Db, error: PendingQuery<Row[]>, diagnosis: PendingQuery<Row[]>) =>
  sql`coalesce(substring(${diagnosis} from ${sharedDiagnosis}), ${error})`;

/**
 * SQL: the class of an error text, which many monitors can share. A diagnosis is its own class, an unexpected or
 * rate-limited status is `HTTP 500`, another error the words before the first number, address or detail.
 */
export const errorClass = (sql: Db, error: PendingQuery<Row[]>) => sql`
  coalesce(
    substring(${error} from ${`${sharedDiagnosis}$`}),
    'HTTP ' || substring(${error} from '^(?:expected status .+, got|rate-limited) ([0-9]{3})'),
    nullif(regexp_replace(substring(${error} from '^[^0-9:;({"]*'), '(,? (within|after|at|from|due))?\\s*$', ''), ''))`;

/**
 * Common table expressions that end in `caused (id, kind, value, total)`: the cause of each member that has one.
 * `members` is a query of the columns id, host, tags, error, diagnosis, regions and critical. A member belongs to its
 * host, else to the tag that most of its failing monitors share if most monitors of that tag fail, else to the class of
 * its error, else to the most frequent of its regions if most of what that region runs fails there. A critical one
 * belongs to its host at most, and is a line of its own otherwise. `total` is the number of enabled monitors with the
 * tag; null for other kinds. `shared_hosts (host)` are the hosts that are causes, `caused_otherwise` has what belongs
 * to none of them: of thousands of members of a few hosts the two are read faster.
 */
export const causeTables = (sql: Db, orgId: string, members: PendingQuery<Row[]>) => sql`
  members as materialized (${members}),
  shared_hosts as materialized (
    select host from members where host is not null group by host having count(*) >= ${least.host}
  ), hostless as (
    select m.id, m.tags, ${errorClass(sql, causeError(sql, sql`m.error`, sql`m.diagnosis`))} as class, m.regions
    from members m
    where not m.critical and not exists (select from shared_hosts h where h.host = m.host)
  ), tag_failures as materialized (
    select u.tag, count(*) as n from hostless m cross join unnest(m.tags) as u (tag) group by u.tag
    having count(*) >= ${least.tag}
  ), tag_counts as (
    select f.tag, f.n, a.total from tag_failures f cross join lateral (
      select count(*)::int as total from targets t
      where t.org_id = ${orgId} and t.enabled and t.tags @> array[f.tag]::text[]
    ) a
    where f.n * 2 > a.total
  ), tag_choices as (
    select distinct on (m.id) m.id, c.tag, c.total
    from hostless m cross join unnest(m.tags) as u (tag) join tag_counts c on c.tag = u.tag
    order by m.id, c.n desc, c.tag collate "C"
  ), tagged as (
    select id, tag, total, count(*) over (partition by tag) as n from tag_choices
  ), tagless as (
    select m.id, m.class, m.regions from hostless m
    where not exists (select from tagged g where g.id = m.id and g.n >= ${least.tag})
  ), classed as (
    select id, class, count(*) over (partition by class) as n from tagless where class is not null
  ), classless as (
    select m.id, m.regions from tagless m
    where not exists (select from classed c where c.id = m.id and c.n >= ${least.error})
  ), region_counts as (
    select f.region, f.n from (
      select u.region, count(*) as n from members m cross join unnest(m.regions) as u (region)
      where exists (select from classless) group by u.region having count(*) >= ${least.region}
    ) f
    where f.n * 2 > (select count(*) from target_regions r join targets t on t.id = r.target_id
      where r.region_id = f.region and t.org_id = ${orgId} and t.enabled)
  ), region_choices as (
    select distinct on (m.id) m.id, c.region
    from classless m cross join unnest(m.regions) as u (region) join region_counts c on c.region = u.region
    order by m.id, c.n desc, c.region collate "C"
  ), regional as (
    select id, region, count(*) over (partition by region) as n from region_choices
  ), caused_otherwise as (
    select id, 'tag' as kind, tag as value, total from tagged where n >= ${least.tag}
    union all select id, 'error', class, null from classed where n >= ${least.error}
    union all select id, 'region', region, null from regional where n >= ${least.region}
  ), caused as (
    select m.id, 'host' as kind, m.host as value, null::int as total from members m join shared_hosts h using (host)
    union all select id, kind, value, total from caused_otherwise
  )`;
