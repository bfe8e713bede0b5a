import { arrayOf, columnOf, type Db, firstOf, valueOf } from "../../../platform/db/client/sql.ts";
import type { ActiveHours } from "../../channels/schema.ts";
import { deliveriesChannel, type HeldBy } from "./outbox-queries.ts";

export const isHeldDue = (sql: Db, at: Date) => sql`
  exists (select from deliveries where state = 'held' and next_attempt_at <= ${at})`;

/** A held delivery with what decides about it. */
export interface HeldRow {
  id: string;
  /** Null: it was deleted. */
  channel_id: string | null;
  target_id: string;
  started_at: Date;
  interval_secs: number;
  /** True when its incident is over, so that its opening is not to be sent any more. */
  over: boolean;
  /** Failing slots that the channel waits for; null for none. */
  after_failures: number | null;
  active_hours: ActiveHours | null;
}

/** Locks deliveries that wait for failures and are due for a look, with their incidents. */
export async function lockHeld(sql: Db, at: Date, limit: number): Promise<HeldRow[]> {
  return await sql<HeldRow[]>`
    select d.id, d.channel_id, i.target_id, i.started_at, t.interval_secs,
      i.ended_at is not null or i.retracted as over,
      case when a.after_failures > t.alert_confirmations then a.after_failures end as after_failures, c.active_hours
    from deliveries d
    join incidents i on i.id = d.incident_id
    join targets t on t.id = i.target_id
    join orgs o on o.id = d.org_id and o.deleted_at is null
    left join channels c on c.id = d.channel_id
    left join target_alerts a on a.target_id = i.target_id and a.channel_id = d.channel_id
    where d.state = 'held' and d.held_by = 'failures' and d.next_attempt_at <= ${at}
    order by d.next_attempt_at, d.id limit ${limit} for update of i, d skip locked`;
}

/** What becomes of a held delivery. */
export interface Look {
  state: "pending" | "held" | "dropped";
  heldBy: HeldBy;
  /** Unix ms. */
  at: number;
}

/** Writes the outcome of held deliveries, and wakes the deliverers. */
export async function writeLooks(sql: Db, looks: readonly (Look & { id: string })[]): Promise<void> {
  await sql`
    with done as (
      update deliveries d set state = l.state, held_by = l.held_by,
        next_attempt_at = case when l.state <> 'dropped' then l.at end
      from unnest(${arrayOf(looks.map(({ id }) => id))}::uuid[], ${arrayOf(looks.map(({ state }) => state))}::text[],
        ${arrayOf(looks.map(({ heldBy }) => heldBy))}::text[],
        ${arrayOf(looks.map(({ at }) => new Date(at).toISOString()))}::timestamptz[]) as l (id, state, held_by, at)
      where d.id = l.id and d.state = 'held' returning 1)
    select count(*), pg_notify(${deliveriesChannel}, '') from done`;
}

/** Channels with deliveries that wait for their hours and are due for a look; null for those of deleted channels. */
export async function selectWaitingChannels(sql: Db, at: Date): Promise<(string | null)[]> {
  return await columnOf<string | null>(sql`
    select distinct d.channel_id from deliveries d
    join orgs o on o.id = d.org_id and o.deleted_at is null
    where d.state = 'held' and d.held_by = 'hours' and d.next_attempt_at <= ${at}`);
}

/** Keeps a channel as it is until the transaction ends; null where another process has it, or it is gone. */
export async function keepChannel(sql: Db, id: string) {
  return await firstOf(sql<{ kind: string; active_hours: ActiveHours | null }[]>`
    select kind, active_hours from channels where id = ${id} for no key update skip locked`);
}

/** Has what waits for the hours of a channel wait until `next`. */
export async function waitUntil(sql: Db, channelId: string, next: Date): Promise<void> {
  await sql`
    update deliveries set next_attempt_at = ${next}
    where channel_id = ${channelId} and state = 'held' and held_by = 'hours' and next_attempt_at <= ${next}`;
}

/** Drops what waits for the hours of deleted channels. */
export async function dropOfDeleted(sql: Db): Promise<void> {
  await sql`
    update deliveries set state = 'dropped', next_attempt_at = null
    where channel_id is null and state = 'held' and held_by = 'hours'`;
}

/**
 * Sends what has waited for the hours of a channel. What is not true any more is dropped; of an incident that opened
 * and ended meanwhile, people read one line (`forPeople`). Returns the number of deliveries. An incident that changes
 * at this moment is left for the next look.
 */
export async function sendWaiting(sql: Db, channelId: string, at: Date, forPeople: boolean): Promise<number> {
  return await valueOf<number>(sql`
    with waiting as materialized (
      select d.id, case
          when d.reason = 'resolved' then true
          when i.retracted then false
          when i.ended_at is not null then ${forPeople} and d.notice ->> 'ended_at' is not null
          else true end as leaves
      from deliveries d join incidents i on i.id = d.incident_id
      where d.channel_id = ${channelId} and d.state = 'held' and d.held_by = 'hours'
      order by i.id for update of i, d skip locked
    ), done as (
      update deliveries d set state = case when w.leaves then 'pending' else 'dropped' end,
        next_attempt_at = case when w.leaves then ${at}::timestamptz end
      from waiting w where d.id = w.id returning d.state)
    select count(*) filter (where state = 'pending')::integer as sent, pg_notify(${deliveriesChannel}, '') from done`);
}
