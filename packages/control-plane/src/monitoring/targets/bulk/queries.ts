import type { CheckSpec } from "@statusmesh/shared/checks";
import type { WriteSource } from "../../../platform/context.ts";
import { budgetOf } from "../../../alerting/incidents/service.ts";
import { arrayOf, columnOf, type Db } from "../../../platform/db/client/sql.ts";
import { pastIntervals, runDue, type TargetRow } from "../queries.ts";

/** The columns that a bulk action needs. */
export interface LockedTarget extends Pick<
  TargetRow,
  | "id"
  | "name"
  | "enabled"
  | "tags"
  | "interval_secs"
  | "alert_confirmations"
  | "region_policy"
  | "flap_detection"
  | "severity"
> {
  kind: CheckSpec["type"];
  /** Time budget of the check, ms. */
  timeout: number;
}

/**
 * {@link lockTarget} for many: those that the organisation has, in id order, so that two callers cannot wait for each
 * other.
 */
export async function lockTargets(sql: Db, orgId: string, ids: readonly string[]): Promise<LockedTarget[]> {
  await sql`
    select 1 from target_states
    where target_id in (select id from targets where org_id = ${orgId} and id = any(${arrayOf(ids)}::uuid[]))
    order by lock_level, target_id for update`;
  return await sql<LockedTarget[]>`
    select id, name, enabled, tags, kind, ${budgetOf(sql, sql`spec`)} as timeout, interval_secs, alert_confirmations,
      region_policy, flap_detection, severity
    from targets where org_id = ${orgId} and id = any(${arrayOf(ids)}::uuid[]) order by id for no key update`;
}

/** A write to targets of an organisation: its transaction, its client and its time. */
export interface Write {
  sql: Db;
  orgId: string;
  source: WriteSource;
  at: Date;
}

/** Assignments of every change that agents are not sent. */
const stamped = ({ sql, source, at }: Write) => sql`write_source = ${source}, updated_at = ${at}`;

/** Assignments of every change that agents are sent. */
const sent = (write: Write) => write.sql`
  ${stamped(write)}, changed_xid = pg_current_xact_id(), version = version + 1`;

export async function setEnabled(write: Write, ids: readonly string[], enabled: boolean): Promise<void> {
  const { sql, orgId, at } = write;
  await sql`
    update targets t set ${runDue(sql, sql`${enabled} and not t.enabled`, at)}, enabled = ${enabled}, ${sent(write)}
    where org_id = ${orgId} and id = any(${arrayOf(ids)}::uuid[])`;
}

/** Writes the tags of each target. Agents are not sent tags, so their copies stay valid. */
export async function setTags(write: Write, rows: readonly Pick<LockedTarget, "id" | "tags">[]): Promise<void> {
  const { sql, orgId } = write;
  await sql`
    update targets t set tags = n.tags, ${stamped(write)}
    from jsonb_to_recordset(${sql.json(rows.map(({ id, tags }) => ({ id, tags })))}) as n (id uuid, tags text[])
    where t.org_id = ${orgId} and t.id = n.id`;
}

/** Sets the interval. A replaced one is kept: ingest takes results of its slots. */
export async function setInterval(write: Write, ids: readonly string[], interval: number): Promise<void> {
  const { sql, orgId, at } = write;
  await sql`
    update targets t set ${pastIntervals(sql, interval, at)},
      ${runDue(sql, sql`t.enabled and ${interval} < t.interval_secs`, at)}, interval_secs = ${interval}, ${sent(write)}
    where org_id = ${orgId} and id = any(${arrayOf(ids)}::uuid[])`;
}

/** Writes what down means at the targets. Agents are not sent it. */
export async function setSeverity(
  write: Write,
  ids: readonly string[],
  severity: TargetRow["severity"],
): Promise<void> {
  const { sql, orgId } = write;
  await sql`
    update targets set severity = ${severity}, ${stamped(write)}
    where org_id = ${orgId} and id = any(${arrayOf(ids)}::uuid[])`;
}

/** Has exactly these regions probe the targets. */
export async function setRegions(write: Write, ids: readonly string[], regions: readonly string[]): Promise<void> {
  const { sql, orgId } = write;
  await sql`
    with gone as (
      delete from target_regions
      where target_id = any(${arrayOf(ids)}::uuid[]) and region_id <> all(${[...regions]}::text[])
      returning target_id, region_id
    )
    update targets t set former_regions = array(
        select unnest(t.former_regions) union select region_id from gone where gone.target_id = t.id),
      ${sent(write)}
    where t.org_id = ${orgId} and t.id = any(${arrayOf(ids)}::uuid[])`;
  await sql`
    insert into target_regions (target_id, region_id)
    select t.id, r.id from targets t cross join unnest(${[...regions]}::text[]) as r (id)
    where t.org_id = ${orgId} and t.id = any(${arrayOf(ids)}::uuid[]) on conflict do nothing`;
}

/** The regions of each target, in the order of their ids. */
export async function selectRegionsOfMany(sql: Db, ids: readonly string[]) {
  return await sql<{ target_id: string; regions: string[] }[]>`
    select target_id, array_agg(region_id order by region_id) as regions from target_regions
    where target_id = any(${arrayOf(ids)}::uuid[]) group by target_id`;
}

/** Number of channels that each target would have with these added. */
export async function countChannelsWith(sql: Db, ids: readonly string[], channelIds: readonly string[]) {
  return await sql<{ target_id: string; count: number }[]>`
    select t.id as target_id, count(distinct c.id)::int as count
    from unnest(${arrayOf(ids)}::uuid[]) as t (id) cross join lateral (
      select a.channel_id as id from target_alerts a where a.target_id = t.id
      union select unnest(${arrayOf(channelIds)}::uuid[])) c
    group by t.id`;
}

/** The targets whose bindings change, as the expression `changed`. */
const changed = (write: Write, ids: readonly string[]) => write.sql`
  changed as (
    update targets set ${stamped(write)}
    where org_id = ${write.orgId} and id = any(${arrayOf(ids)}::uuid[]) returning id
  )`;

/** Binds channels to the targets, after those that they have. Agents are not sent channels. */
export async function addChannels(write: Write, ids: readonly string[], channelIds: readonly string[]): Promise<void> {
  await write.sql`
    with ${changed(write, ids)}
    insert into target_alerts (target_id, channel_id, position)
    select t.id, c.id, c.place + coalesce((select max(position) from target_alerts a where a.target_id = t.id), 0)
    from changed t cross join unnest(${arrayOf(channelIds)}::uuid[]) with ordinality as c (id, place)
    on conflict do nothing`;
}

/** Targets of the organisation without the channel that can take one more, locked in the order of ids. */
export async function lockTargetsWithout(sql: Db, orgId: string, channelId: string, most: number): Promise<string[]> {
  return await columnOf<string>(sql`
    select t.id from targets t
    where t.org_id = ${orgId}
      and not exists (select from target_alerts a where a.target_id = t.id and a.channel_id = ${channelId})
      and (select count(*) from target_alerts a where a.target_id = t.id) < ${most}
    order by t.id for no key update`);
}

export async function removeChannels(
  write: Write,
  ids: readonly string[],
  channelIds: readonly string[],
): Promise<void> {
  await write.sql`
    with ${changed(write, ids)}
    delete from target_alerts a using changed t
    where a.target_id = t.id and a.channel_id = any(${arrayOf(channelIds)}::uuid[])`;
}
