import type { CheckSpec } from "@statusmesh/shared/checks";
import { lockSpaces } from "../../platform/db/locks.ts";
import { type Db, valueOf } from "../../platform/db/sql.ts";
import type { Notice } from "../channels/schema.ts";
import { isDue, isFresh, isNext, stormOf, type StormRules, waitingAndStorms } from "./claim-queries.ts";
import type { HeldBy } from "./outbox-queries.ts";

/** Notices of one channel that wait for a digest. */
export interface HeldGroup {
  channel_id: string;
  storm: string;
  /** Incidents of the organisation in this storm, over all its channels. */
  incidents: number;
  oldest_at: Date;
  newest_at: Date;
}

/** The groups of notices that a storm holds back from being sent one by one. */
export async function heldGroups(sql: Db, rules: StormRules, now: number): Promise<HeldGroup[]> {
  const at = new Date(now);
  return await sql<HeldGroup[]>`
    with recursive ${waitingAndStorms(sql, at, rules)}
    select g.id as channel_id, s.storm, s.incidents::int, held.oldest_at, held.newest_at
    from storms s
    join digesting g on g.org_id = s.org_id
    cross join lateral (
      select min(d.created_at) as oldest_at, max(d.created_at) as newest_at
      from deliveries d
      where d.channel_id = g.id and ${stormOf(sql)} = s.storm
        and ${isDue(sql, at)} and ${isFresh(sql)} and ${isNext(sql)}
    ) held
    where held.oldest_at is not null`;
}

/**
 * Makes each group one digest: its deliveries get the id of the oldest as `digest_id`. One process at a time forms
 * digests of a database, so that two replicas do not halve a group. Call it in a transaction of its own. Returns the
 * number of deliveries.
 */
export async function formDigests(sql: Db, groups: readonly HeldGroup[], now: number): Promise<number> {
  if (!(await valueOf<boolean>(sql`select pg_try_advisory_xact_lock(${lockSpaces.digests}, 0)`))) return 0;
  const at = new Date(now);
  const rows = await sql`
    with ripe as (
      select * from unnest(${groups.map(({ channel_id }) => channel_id)}::uuid[],
                           ${groups.map(({ storm }) => storm)}::text[]) as t (channel_id, storm)
    ), held as (
      select d.id, d.channel_id, ripe.storm, d.created_at
      from ripe join deliveries d on d.channel_id = ripe.channel_id and ${stormOf(sql)} = ripe.storm
      where ${isDue(sql, at)} and ${isFresh(sql)} and ${isNext(sql)}
      order by d.id
      for update of d skip locked
    ), led as (
      select id, first_value(id) over (partition by channel_id, storm order by created_at, id) as leader from held
    )
    update deliveries d set digest_id = led.leader from led where d.id = led.id
    returning 1`;
  return rows.length;
}

/** A notice of a digest, with the host and tags of its monitor. Null where the monitor is gone. */
export interface DigestMember {
  notice: Notice;
  held_by: HeldBy | null;
  spec: CheckSpec | null;
  tags: string[] | null;
}

/** The notices of a digest that are still pending, oldest first. */
export async function digestMembers(sql: Db, digestId: string): Promise<DigestMember[]> {
  return await sql<DigestMember[]>`
    select d.notice, d.held_by, t.spec, t.tags
    from deliveries d join incidents i on i.id = d.incident_id left join targets t on t.id = i.target_id
    where d.digest_id = ${digestId} and d.state = 'pending'
    order by d.created_at, d.id`;
}

/**
 * Takes a digest apart: each of its pending deliveries is then sent by itself. Openings of incidents that are over are
 * dropped, because no recovery would follow.
 */
export async function dissolveDigest(sql: Db, digestId: string): Promise<void> {
  await sql`
    update deliveries d set digest_id = null, leased_until = null,
      state = case when o.is_over then 'dropped' else state end,
      next_attempt_at = case when not o.is_over then next_attempt_at end
    from (
      select id, reason <> 'resolved' and notice ->> 'ended_at' is not null as is_over from deliveries
      where digest_id = ${digestId} or id = ${digestId}
    ) o
    where d.id = o.id and d.state = 'pending'`;
}
