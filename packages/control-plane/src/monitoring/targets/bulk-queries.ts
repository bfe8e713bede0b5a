import type { CheckSpec } from "@statusmesh/shared/checks";
import type { WriteSource } from "../../platform/context.ts";
import { budgetOf } from "../../alerting/incidents/service.ts";
import { arrayOf, columnOf, type Db } from "../../platform/db/sql.ts";
import { pastIntervals } from "./queries.ts";
import type { RegionPolicy } from "./schema.ts";

/** The columns that a bulk action needs. */
export interface LockedTarget {
  id: string;
  name: string;
  enabled: boolean;
  tags: string[];
  kind: CheckSpec["type"];
  /** Time budget of the check, ms. */
  timeout: number;
  interval_secs: number;
  alert_confirmations: number;
  region_policy: RegionPolicy;
}

/**
 * {@link lockTarget} for many: those that the organisation has, in id order, so that two callers cannot wait for each
 * other.
 */
export async function lockTargets(sql: Db, orgId: string, ids: readonly string[]): Promise<LockedTarget[]> {
  await sql`
    select 1 from target_states
    where target_id in (select id from targets where org_id = ${orgId} and id = any(${arrayOf(ids)}::uuid[]))
    order by target_id for update`;
  return await sql<LockedTarget[]>`
    select id, name, enabled, tags, kind, ${budgetOf(sql, sql`spec`)} as timeout, interval_secs, alert_confirmations,
      region_policy
    from targets where org_id = ${orgId} and id = any(${arrayOf(ids)}::uuid[]) order by id for no key update`;
}

/** Client and time of a write. */
export interface Stamp {
  write_source: WriteSource;
  updated_at: Date;
}

export async function setEnabled(
  sql: Db,
  orgId: string,
  ids: readonly string[],
  enabled: boolean,
  stamp: Stamp,
): Promise<void> {
  await sql`
    update targets
    set enabled = ${enabled}, write_source = ${stamp.write_source}, updated_at = ${stamp.updated_at},
      changed_xid = pg_current_xact_id(), version = version + 1
    where org_id = ${orgId} and id = any(${arrayOf(ids)}::uuid[])`;
}

/** Writes the tags of each target. Agents are not sent tags, so their copies stay valid. */
export async function setTags(
  sql: Db,
  orgId: string,
  rows: readonly Pick<LockedTarget, "id" | "tags">[],
  stamp: Stamp,
): Promise<void> {
  await sql`
    update targets t set tags = n.tags, write_source = ${stamp.write_source}, updated_at = ${stamp.updated_at}
    from jsonb_to_recordset(${sql.json(rows.map(({ id, tags }) => ({ id, tags })))}) as n (id uuid, tags text[])
    where t.org_id = ${orgId} and t.id = n.id`;
}

/** Assignments of every change that agents are not sent. */
const stamped = (sql: Db, stamp: Stamp) => sql`write_source = ${stamp.write_source}, updated_at = ${stamp.updated_at}`;

/** Sets the interval. A replaced one is kept: ingest takes results of its slots. */
export async function setInterval(
  sql: Db,
  orgId: string,
  ids: readonly string[],
  interval: number,
  stamp: Stamp,
): Promise<void> {
  await sql`
    update targets t set ${pastIntervals(sql, interval, stamp.updated_at)}, interval_secs = ${interval},
      ${stamped(sql, stamp)}, changed_xid = pg_current_xact_id(), version = version + 1
    where org_id = ${orgId} and id = any(${arrayOf(ids)}::uuid[])`;
}

/** Has exactly these regions probe the targets. */
export async function setRegions(
  sql: Db,
  orgId: string,
  ids: readonly string[],
  regions: readonly string[],
  stamp: Stamp,
): Promise<void> {
  await sql`
    with gone as (
      delete from target_regions
      where target_id = any(${arrayOf(ids)}::uuid[]) and region_id <> all(${[...regions]}::text[])
      returning target_id, region_id
    )
    update targets t set former_regions = array(
        select unnest(t.former_regions) union select region_id from gone where gone.target_id = t.id),
      ${stamped(sql, stamp)}, changed_xid = pg_current_xact_id(), version = version + 1
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
const changed = (sql: Db, orgId: string, ids: readonly string[], stamp: Stamp) => sql`
  changed as (
    update targets set ${stamped(sql, stamp)}
    where org_id = ${orgId} and id = any(${arrayOf(ids)}::uuid[]) returning id
  )`;

/** Binds channels to the targets, after those that they have. Agents are not sent channels. */
export async function addChannels(
  sql: Db,
  orgId: string,
  ids: readonly string[],
  channelIds: readonly string[],
  stamp: Stamp,
): Promise<void> {
  await sql`
    with ${changed(sql, orgId, ids, stamp)}
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
  sql: Db,
  orgId: string,
  ids: readonly string[],
  channelIds: readonly string[],
  stamp: Stamp,
): Promise<void> {
  await sql`
    with ${changed(sql, orgId, ids, stamp)}
    delete from target_alerts a using changed t
    where a.target_id = t.id and a.channel_id = any(${arrayOf(channelIds)}::uuid[])`;
}
