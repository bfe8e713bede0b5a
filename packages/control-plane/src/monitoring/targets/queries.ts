import type { PendingQuery, Row } from "postgres";
import { type CheckSpec, type CheckType, kindOf, reservedRegions } from "@statusmesh/shared/checks";
import type { Escalation } from "../../access/orgs/schema.ts";
import type { TestedComponent } from "@statusmesh/shared/checks/kind";
import { routeTables } from "../../alerting/channels/routes/service.ts";
import type { WriteSource } from "../../platform/context.ts";
import type { Managed } from "../../platform/db/managed-queries.ts";
import { arrayOf, columnOf, type Db, firstOf, inPortions } from "../../platform/db/client/sql.ts";
import type { HeartbeatAddresses } from "../heartbeats/schema.ts";
import type { Alert, RegionPolicy } from "./schema.ts";

export { wakePulls as announceTargets } from "../regions/service.ts";

/** A row of `targets` with its bindings. `spec` has its secrets sealed. */
export interface TargetRow {
  id: string;
  org_id: string;
  name: string;
  spec: CheckSpec;
  interval_secs: number;
  enabled: boolean;
  tags: string[];
  alert_confirmations: number;
  notify_recovery: boolean;
  renotify_interval_secs: number;
  region_policy: RegionPolicy;
  /** What down means there. */
  severity: "major" | "critical";
  flap_detection: boolean;
  write_source: WriteSource;
  created_at: Date;
  updated_at: Date;
  managed: Managed | null;
  /** Null: that of the organisation. */
  escalation: Escalation | null;
  /** Settings that a binding leaves to the target are absent. */
  alerts: Alert[];
  depends_on: string[];
  /** Of a heartbeat, as they are shown; null for other kinds. */
  heartbeat_addresses: HeartbeatAddresses | null;
}

export const columns = (sql: Db) => sql`
  t.id, t.org_id, t.name, t.spec, t.interval_secs, t.enabled, t.tags, t.alert_confirmations, t.notify_recovery,
  t.renotify_interval_secs, t.region_policy, t.write_source, t.created_at, t.updated_at,
  t.managed, t.escalation, t.severity, t.flap_detection,
  (select coalesce(json_agg(case
      when a.after_failures is null and a.notify_recovery is null and a.min_severity is null
        then json_build_object('channel_id', a.channel_id)
      else json_strip_nulls(json_build_object('channel_id', a.channel_id, 'after_failures', a.after_failures,
        'notify_recovery', a.notify_recovery, 'min_severity', a.min_severity)) end order by a.position), '[]')
    from target_alerts a where a.target_id = t.id) as alerts,
  array(select d.parent_id from target_dependencies d where d.target_id = t.id order by d.position) as depends_on,
  case when t.kind = 'heartbeat' then (
    select coalesce(jsonb_agg(jsonb_build_object('kind', h.kind, 'value', '***', 'hint', h.hint) order by h.position),
      '[]')
    from heartbeat_addresses h where h.target_id = t.id and h.kind <> 'own') end as heartbeat_addresses`;

/** A row with the regions that probe it, in the order of their ids. */
export type ProbedTargetRow = TargetRow & { regions: string[] };

const regionsOf = (sql: Db) => sql`
  array(select r.region_id from target_regions r where r.target_id = t.id order by r.region_id) as regions`;

export type NewTargetRow = Omit<TargetRow, "alerts" | "heartbeat_addresses">;

/** Search terms of the check, beside the name. */
const searchText = ({ spec }: Pick<TargetRow, "spec">): string => kindOf(spec).searchText(spec);

/** The host that the check connects to first; null without one, and for a spec that cannot be read any more. */
function hostOf({ spec }: Pick<TargetRow, "spec">): string | null {
  try {
    return kindOf(spec).destination(spec)?.host ?? null;
  } catch {
    return null;
  }
}

/** A new target as {@link insertTargets} takes it; without `regions` every enabled region probes it. */
export const insertable = (row: NewTargetRow & { regions: readonly string[] | null }): string =>
  JSON.stringify({ ...row, search_text: searchText(row), host: hostOf(row) });

/**
 * Stores new targets, each an {@link insertable}, with their blank evidence and their regions, as far as those are
 * enabled.
 */
export async function insertTargets(sql: Db, rows: readonly string[]): Promise<void> {
  await sql`
    with given as (
      select id, org_id, name, spec, search_text, host, interval_secs, enabled, tags, alert_confirmations,
        notify_recovery, renotify_interval_secs, region_policy, regions, write_source, created_at, updated_at,
        escalation, severity, flap_detection
      from jsonb_to_recordset(${`[${rows.join()}]`}::text::jsonb) as g
        (id uuid, org_id uuid, name text, spec jsonb, search_text text, host text, interval_secs integer,
          enabled boolean, tags text[], alert_confirmations integer, notify_recovery boolean,
          renotify_interval_secs integer, region_policy jsonb, regions text[], write_source text,
          created_at timestamptz, updated_at timestamptz, escalation jsonb, severity text, flap_detection boolean)
    ), stored as (
      insert into targets
        (id, org_id, name, kind, spec, search_text, host, interval_secs, enabled, tags, alert_confirmations,
          notify_recovery, renotify_interval_secs, region_policy, write_source, created_at, updated_at, escalation,
          severity, flap_detection)
      select id, org_id, name, spec ->> 'type', spec, search_text, host, interval_secs, enabled, tags,
        alert_confirmations, notify_recovery, renotify_interval_secs, region_policy, write_source, created_at,
        updated_at, nullif(escalation, 'null'), severity, flap_detection
      from given returning id
    ), blank as (
      insert into target_states (target_id, state, status) select id, '', 'unknown' from stored
    )
    insert into target_regions (target_id, region_id)
    select g.id, r.id from given g cross join regions r
    where r.enabled and case when g.regions is null then r.id <> all(${reservedRegions as string[]}::text[])
      else r.id = any(g.regions) end`;
}

/** A target bound to a channel. */
export interface Binding extends Alert {
  targetId: string;
  position: number;
}

export const bindingsOf = (targetId: string, alerts: readonly Alert[]): Binding[] =>
  alerts.map((alert, position) => ({ ...alert, targetId, position }));

/** Binds new targets to their channels. */
export async function insertAlerts(sql: Db, alerts: readonly Binding[]): Promise<void> {
  if (alerts.length === 0) return;
  await sql`
    insert into target_alerts (target_id, channel_id, position, after_failures, notify_recovery, min_severity)
    select * from unnest(${arrayOf(alerts.map((it) => it.targetId))}::uuid[],
      ${arrayOf(alerts.map((it) => it.channel_id))}::uuid[], ${arrayOf(alerts.map((it) => it.position))}::integer[],
      ${arrayOf(alerts.map((it) => it.after_failures ?? null))}::integer[],
      ${arrayOf(alerts.map((it) => it.notify_recovery ?? null))}::boolean[],
      ${arrayOf(alerts.map((it) => it.min_severity ?? null))}::text[])`;
}

/** Binds targets to exactly these channels. */
export async function replaceAlerts(
  sql: Db,
  targetIds: readonly string[],
  bindings: readonly Binding[],
): Promise<void> {
  if (targetIds.length === 0) return;
  await sql`delete from target_alerts where target_id = any(${arrayOf(targetIds)}::uuid[])`;
  await insertAlerts(sql, bindings);
}

export async function selectTarget(sql: Db, orgId: string, id: string): Promise<TargetRow | null> {
  return await firstOf(
    sql<TargetRow[]>`select ${columns(sql)} from targets t where t.org_id = ${orgId} and t.id = ${id}`,
  );
}

/**
 * Locks the target against another edit until the transaction ends. Its evidence first: ingest holds that while it
 * writes incidents, whose foreign key asks for the target, and two orders would end in a deadlock.
 */
export async function lockTarget(sql: Db, orgId: string, id: string): Promise<ProbedTargetRow | null> {
  const [row] = await lockTargets(sql, orgId, [id]);
  return row ?? null;
}

/** Targets with the ids, by id. */
export async function selectProbedTargets(sql: Db, orgId: string, ids: readonly string[]): Promise<ProbedTargetRow[]> {
  return await inPortions(sql<ProbedTargetRow[]>`
    select ${columns(sql)}, ${regionsOf(sql)} from targets t
    where t.org_id = ${orgId} and t.id = any(${arrayOf(ids)}::uuid[]) order by t.id`);
}

const withTag = (sql: Db, tag: string | null) => (tag === null ? sql`true` : sql`t.tags @> ${[tag]}::text[]`);

export type NamedTargetRow = Pick<TargetRow, "id" | "name" | "managed" | "enabled" | "updated_at">;

/**
 * Names of the targets of the organisation by id: of those with a tag, or of those of a project of configuration as
 * code and those with the ids.
 */
export async function selectNames(
  sql: Db,
  orgId: string,
  which: { tag?: string | undefined } | { project: string; ids: readonly string[] },
): Promise<NamedTargetRow[]> {
  const isChosen =
    "project" in which
      ? sql`(t.managed ->> 'project' = ${which.project} or t.id = any(${arrayOf(which.ids)}::uuid[]))`
      : withTag(sql, which.tag ?? null);
  return await inPortions(sql<NamedTargetRow[]>`
    select t.id, t.name, t.managed, t.enabled, t.updated_at from targets t
    where t.org_id = ${orgId} and ${isChosen} order by t.id`);
}

/** Ids of the channels that the targets with a tag notify, those by a tag and of their ladders included. */
export async function selectNotified(sql: Db, orgId: string, tag: string): Promise<string[]> {
  return await columnOf<string>(sql`
    with tagged as materialized (
      select t.id, t.tags, t.escalation from targets t where t.org_id = ${orgId} and ${withTag(sql, tag)}
    ), ${routeTables(sql, orgId, { targets: sql`select tagged.id, tagged.tags from tagged` })}
    select a.channel_id::text as id from tagged t join target_alerts a on a.target_id = t.id
    union
    select l.channel_id::text from loose l where exists (select from owned o where o.tag = l.tag)
    union
    select s.channel_id::text from strict s where exists (select from owned o where o.tag = s.tag and o.tags @> s.tags)
    union
    select c.id from tagged t cross join jsonb_array_elements(t.escalation) as level
    cross join jsonb_array_elements_text(level -> 'channel_ids') as c (id)`);
}

export async function selectTagged(sql: Db, orgId: string, tags: readonly string[]) {
  return await sql<{ id: string; tags: string[] }[]>`
    select id, tags from targets where org_id = ${orgId} and tags && ${[...tags]}::text[] order by id`;
}

/**
 * Targets with one of the names that no project declares, oldest first. Joined: `= any` compares every target with
 * every name in a generic plan, a second for 20,000 names.
 */
export async function selectUndeclared(sql: Db, orgId: string, names: readonly string[]) {
  return await sql<{ id: string; name: string; kind: CheckType }[]>`
    select t.id, t.name, t.kind from targets t
    join (select distinct name from unnest(${[...names]}::text[]) as n (name)) n using (name)
    where t.org_id = ${orgId} and t.managed is null order by t.created_at, t.id`;
}

export async function selectExisting(sql: Db, orgId: string, ids: readonly string[]): Promise<string[]> {
  return await columnOf<string>(sql`
    select id from targets where org_id = ${orgId} and id = any(${arrayOf(ids)}::uuid[])`);
}

/** {@link lockTarget} for many, in the order of ids, so that two callers cannot wait for each other. */
export async function lockTargets(sql: Db, orgId: string, ids: readonly string[]): Promise<ProbedTargetRow[]> {
  await sql`
    select 1 from target_states
    where target_id in (select id from targets where org_id = ${orgId} and id = any(${arrayOf(ids)}::uuid[]))
    order by lock_level, target_id for update`;
  return await inPortions(sql<ProbedTargetRow[]>`
    select ${columns(sql)}, ${regionsOf(sql)} from targets t
    where t.org_id = ${orgId} and t.id = any(${arrayOf(ids)}::uuid[]) order by t.id for no key update of t`);
}

/** Earlier intervals are kept for as long as an agent may bring results of them, and at most so many. */
const keptIntervals = { days: 91, most: 50 };

/** Assignment that keeps a replaced interval with the time of the edit. */
export const pastIntervals = (sql: Db, interval: number | ReturnType<Db>, at: Date) => sql`
  past_intervals = case when t.interval_secs = ${interval as number} then past_intervals else (
    select jsonb_object_agg(secs, replaced_at) from (
      select e.key as secs, e.value as replaced_at
      from jsonb_each(past_intervals || jsonb_build_object(t.interval_secs::text, ${at.toISOString()}::text)) e
      where (e.value #>> '{}')::timestamptz > ${at}::timestamptz - ${`${keptIntervals.days} days`}::interval
      order by (e.value #>> '{}')::timestamptz desc limit ${keptIntervals.most}) kept) end`;

/** Assignment that has a target run soon where the condition holds. */
export const runDue = (sql: Db, condition: PendingQuery<Row[]>, at: Date) => sql`
  run_due_since = case when ${condition} then ${at}::timestamptz else t.run_due_since end`;

/**
 * Writes the rows. An interval that is replaced is kept with the time of the edit: ingest takes results of its slots.
 * `restarted`: ids of targets with another check.
 */
export async function updateTargets(
  sql: Db,
  orgId: string,
  rows: readonly NewTargetRow[],
  restarted: readonly string[],
): Promise<void> {
  const at = rows[0]?.updated_at;
  if (at === undefined) return;
  const isOther = sql`n.id = any(${arrayOf(restarted)}::uuid[])`;
  const due = sql`n.enabled and (not t.enabled or n.interval_secs < t.interval_secs or ${isOther})`;
  await sql`
    update targets t set ${pastIntervals(sql, sql`n.interval_secs`, at)}, ${runDue(sql, due, at)},
      name = n.name, spec = n.spec, search_text = n.search_text, host = n.host, interval_secs = n.interval_secs,
      enabled = n.enabled, tags = n.tags, alert_confirmations = n.alert_confirmations,
      notify_recovery = n.notify_recovery, renotify_interval_secs = n.renotify_interval_secs,
      region_policy = n.region_policy, write_source = n.write_source, updated_at = n.updated_at,
      escalation = nullif(n.escalation, 'null'), severity = n.severity, flap_detection = n.flap_detection,
      changed_xid = pg_current_xact_id(), version = t.version + 1,
      check_version = case when ${isOther} then t.version + 1 else t.check_version end
    from jsonb_to_recordset(${`[${rows.map((row) => insertable({ ...row, regions: null })).join()}]`}::text::jsonb) as n
      (id uuid, name text, spec jsonb, search_text text, host text, interval_secs integer, enabled boolean,
        tags text[], alert_confirmations integer, notify_recovery boolean, renotify_interval_secs integer,
        region_policy jsonb, write_source text, updated_at timestamptz, escalation jsonb, severity text,
        flap_detection boolean)
    where t.org_id = ${orgId} and t.id = n.id`;
}

/** Deletes targets, which the caller has locked, and leaves tombstones for their agents. `ids`: null for all. */
export async function deleteTargets(sql: Db, orgId: string, ids: readonly string[] | null, at: Date): Promise<void> {
  const chosen = ids === null ? sql`` : sql`and id = any(${arrayOf(ids)}::uuid[])`;
  await sql`
    with gone as (delete from targets where org_id = ${orgId} ${chosen} returning id, org_id, former_regions)
    insert into deleted_targets (target_id, org_id, deleted_at, regions)
    select id, org_id, ${at}, former_regions || array(select region_id from target_regions r
      where r.target_id = gone.id) from gone`;
}

export async function selectRegionsOf(sql: Db, targetId: string): Promise<string[]> {
  return await columnOf<string>(
    sql`select region_id from target_regions where target_id = ${targetId} order by region_id`,
  );
}

/** The enabled regions of each target, in the order of their ids. */
export async function selectEnabledRegions(sql: Db, targetIds: readonly string[]): Promise<Map<string, string[]>> {
  const rows = await sql<{ target_id: string; regions: string[] }[]>`
    select tr.target_id, array_agg(tr.region_id order by tr.region_id) as regions
    from target_regions tr join regions r on r.id = tr.region_id and r.enabled
    where tr.target_id = any(${arrayOf(targetIds)}::uuid[]) group by tr.target_id`;
  return new Map(rows.map((row) => [row.target_id, row.regions]));
}

/** The checks of these kinds that are enabled, once for each enabled region. Secrets are sealed. */
export async function selectSpecsByRegion(sql: Db, kinds: readonly string[]) {
  return await sql<{ region: string; spec: CheckSpec }[]>`
    select tr.region_id as region, t.spec
    from targets t join orgs o on o.id = t.org_id and o.deleted_at is null
    join target_regions tr on tr.target_id = t.id join regions r on r.id = tr.region_id and r.enabled
    where t.enabled and t.kind = any(${kinds as string[]})`;
}

/** Has exactly these regions probe the target. */
export async function replaceRegions(sql: Db, targetId: string, regions: readonly string[]): Promise<void> {
  await sql`
    with gone as (delete from target_regions
      where target_id = ${targetId} and region_id <> all(${[...regions]}::text[]) returning region_id)
    update targets set former_regions = array(select unnest(former_regions) union select region_id from gone)
    where id = ${targetId} and exists (select 1 from gone)`;
  await sql`
    insert into target_regions (target_id, region_id) select ${targetId}, r.id
    from unnest(${[...regions]}::text[]) as r (id) on conflict do nothing`;
}

/** Marks all targets of an organisation as changed: their agents are sent updates, or tombstones. */
export async function touchTargets(sql: Db, orgId: string): Promise<void> {
  await sql`update targets set changed_xid = pg_current_xact_id(), version = version + 1 where org_id = ${orgId}`;
}

/** Only those whose data are deleted, which nothing else would find. */
export async function deleteTombstonesBefore(sql: Db, before: Date): Promise<void> {
  await sql`delete from deleted_targets where deleted_at < ${before} and emptied`;
}

/**
 * The checks of targets of all organisations, secrets sealed, in the order of ids; `lock` locks the rows until the
 * transaction ends.
 */
export async function selectSpecs(sql: Db, after: string | null, limit: number, { lock = false } = {}) {
  return await sql<{ id: string; spec: CheckSpec }[]>`
    select id, spec from targets where ${after}::uuid is null or id > ${after}::uuid order by id
    limit ${limit} ${lock ? sql`for no key update` : sql``}`;
}

/** Writes the spec and nothing else: agents have the check already. */
export async function storeSpec(sql: Db, id: string, spec: CheckSpec): Promise<void> {
  await sql`update targets set spec = ${sql.json(spec as never)} where id = ${id}`;
}

/** What the latest tests of these URLs have listed; tests are kept for ten minutes. */
export async function selectTestedComponents(sql: Db, orgId: string, urls: readonly string[]) {
  return await sql<{ url: string; components: TestedComponent[] }[]>`
    select distinct on (r.spec ->> 'url') r.spec ->> 'url' as url, r.reply -> 'components' as components
    from on_demand_runs r
    where r.org_id = ${orgId} and r.spec ->> 'url' = any(${[...urls]}::text[]) and r.reply ? 'components'
    order by r.spec ->> 'url', r.requested_at desc`;
}
