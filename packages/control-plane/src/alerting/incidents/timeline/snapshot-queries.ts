import type { PendingQuery, Row } from "postgres";
import type { Db } from "../../../platform/db/client/sql.ts";

/** A snapshot to store. `slot` and `since` are Unix ms. */
export interface NewSnapshot {
  id: string;
  orgId: string;
  targetId: string;
  slot: number;
  /** Start of the failing streak that the evidence of the region is in; null where it is in none. */
  since: number | null;
  /** Sealed. */
  content: string;
}

/** A stored snapshot. `content` is sealed. */
export interface SnapshotRow {
  id: string;
  org_id: string;
  region: string;
  slot: Date;
  content: string;
}

/** Inserts snapshots of HTTP targets of a region that keep them. A slot that has one keeps it. */
export async function insertSnapshots(sql: Db, region: string, snapshots: readonly NewSnapshot[]): Promise<void> {
  const rows = snapshots.map(({ id, orgId, targetId, slot, content }) => ({
    id,
    org_id: orgId,
    target_id: targetId,
    slot: new Date(slot),
    content,
  }));
  await sql`
    insert into failure_snapshots (id, org_id, target_id, region, slot, content)
    select n.id, n.org_id, n.target_id, ${region}, n.slot, n.content
    from jsonb_to_recordset(${sql.json(rows as never)}) as n
      (id uuid, org_id uuid, target_id uuid, slot timestamptz, content text)
    join targets t on t.id = n.target_id and t.org_id = n.org_id and ${isCapturing(sql)}
    on conflict (target_id, region, slot) do nothing`;
}

/** SQL condition on `t`: the target keeps responses. */
const isCapturing = (sql: Db) => sql`(t.kind = 'http' and (t.spec ->> 'capture_failures')::boolean)`;

/**
 * Deletes superfluous snapshots of the targets in a region. Of an incident the first one, the first of each of its
 * newest ten outages and the latest stay, and of those outside incidents the first of the present streak and the
 * newest two, which an incident may still come to cover.
 */
export async function pruneSnapshots(
  sql: Db,
  region: string,
  targets: readonly { targetId: string; since: number | null }[],
): Promise<void> {
  const rows = targets.map(({ targetId, since }) => ({
    target_id: targetId,
    since: since === null ? null : new Date(since),
  }));
  await sql`
    with own as (
      select f.id, f.target_id, f.slot, f.slot >= p.since as in_streak, (
        select i.id from incidents i
        where i.target_id = f.target_id and not i.retracted and i.started_at <= f.slot
          and f.slot <= coalesce(i.ended_at, 'infinity')
        order by i.started_at desc limit 1
      ) as incident_id
      from jsonb_to_recordset(${sql.json(rows as never)}) as p (target_id uuid, since timestamptz)
      join failure_snapshots f on f.target_id = p.target_id and f.region = ${region}
    ), placed as (
      select own.*, ${outageOf(sql, sql`own.incident_id`, sql`own.slot`)} as outage from own
    ), ranked as (
      select id, incident_id,
        row_number() over (partition by target_id, incident_id, outage order by slot) = 1
          and dense_rank() over (partition by target_id, incident_id order by outage desc nulls last) <= ${keptOutages}
          as starts_outage,
        row_number() over (partition by target_id, incident_id order by slot) as place,
        row_number() over (partition by target_id, incident_id order by slot desc) as from_end,
        row_number() over (partition by target_id, incident_id, in_streak order by slot) = 1
          and in_streak is true as starts_streak
      from placed
    )
    delete from failure_snapshots f using ranked r
    where f.id = r.id
      and case when r.incident_id is null then r.from_end > 2 and not r.starts_streak 
        else r.place > 1 and r.from_end > 1 and not r.starts_outage end`;
}

/** Outages of an incident, newest first, whose first response is kept. */
const keptOutages = 10;

/** SQL: the start of the outage of an incident that a slot is in. A stretch that follows another is part of it. */
const outageOf = (sql: Db, incidentId: PendingQuery<Row[]>, slot: PendingQuery<Row[]>) => sql`(
  select max(o.started_at) from incident_outages o
  where o.incident_id = ${incidentId} and o.started_at <= ${slot} and not exists (
    select from incident_outages p where p.incident_id = o.incident_id and p.ended_at = o.started_at))`;

/**
 * The first snapshot of an incident in each region, the first of each outage and the latest, by region, oldest first;
 * of slots since `from`.
 */
export async function selectSnapshots(sql: Db, orgId: string, incidentId: string, from: Date): Promise<SnapshotRow[]> {
  return await sql<SnapshotRow[]>`
    with own as (
    select f.id, f.org_id, f.region, f.slot, f.content, ${outageOf(sql, sql`i.id`, sql`f.slot`)} as outage
    from incidents i
    join targets t on t.id = i.target_id and t.org_id = i.org_id and ${isCapturing(sql)}
    join failure_snapshots f on f.target_id = i.target_id and f.org_id = i.org_id
    where i.id = ${incidentId} and i.org_id = ${orgId} and not i.retracted
      and f.slot between i.started_at and coalesce(i.ended_at, 'infinity') and f.slot >= ${from}
    ), ranked as (
      select own.*, row_number() over (partition by region order by slot desc) as from_end,
        row_number() over (partition by region, outage order by slot) as place from own
    )
    select id, org_id, region, slot, content from ranked where from_end = 1 or place = 1 order by region, slot`;
}

/** Deletes snapshots of slots before a time, and those of targets that keep none any more. Returns how many. */
export async function deleteSnapshots(sql: Db, before: Date): Promise<number> {
  const { count } = await sql`
    delete from failure_snapshots f
    where f.slot < ${before} or exists (select from targets t where t.id = f.target_id and not ${isCapturing(sql)})`;
  return count;
}

/** Up to `limit` snapshots after `after`, by id, locked for {@link storeContent}. */
export async function lockSnapshots(sql: Db, after: string | null, limit: number): Promise<SnapshotRow[]> {
  return await sql<SnapshotRow[]>`
    select id, org_id, region, slot, content from failure_snapshots where ${after}::uuid is null or id > ${after}::uuid
    order by id limit ${limit} for no key update`;
}

export async function storeContent(sql: Db, id: string, content: string): Promise<void> {
  await sql`update failure_snapshots set content = ${content} where id = ${id}`;
}
