import { columnOf, type Db, firstOf, valueOf } from "../../../platform/db/client/sql.ts";
import { readCause } from "../../causes/service.ts";
import { ranks, told } from "./alert-queries.ts";

/*
 * An outage of thousands is as many deliveries to a pager. What is decided for one of them is decided for those that
 * wait, so that each of them need not be claimed to join and to wait again.
 */

/** Deliveries that a statement reads, and those that it returns. */
const window = 500;
const portion = 300;

/** Condition on `d`: due, and neither leased nor in a message. */
const waitsAt = (sql: Db, channelId: string, at: Date) => sql`
  d.channel_id = ${channelId} and d.state = 'pending' and d.next_attempt_at <= ${at} and d.message_id is null
  and d.leased_until is null`;

/**
 * The key of the alert of `d.incident_id`. A subquery, as the other lookups here, not a join: a planner that has no
 * statistics of rows just written joins each alert of the channel with each delivery (660 ms).
 */
const keyOf = (sql: Db, channelId: string) => sql`
  (select m.key from channel_alert_incidents m where m.incident_id = d.incident_id and m.channel_id = ${channelId})`;

/**
 * Adds the incidents to an alert whose first notices wait and would join it one by one: those of its host, or of its
 * tag where no open alert has their host, that are not more severe.
 */
export async function joinWaiting(
  sql: Db,
  channelId: string,
  alert: { key: string; cause: string },
  at: Date,
): Promise<void> {
  const { kind, value } = readCause(alert.cause)!;
  const isOfCause =
    kind === "host"
      ? sql`t.host = ${value}`
      : sql`t.tags @> array[${value}]::text[] and not exists (
          select from channel_alerts o where o.channel_id = ${channelId} and o.ended_at is null
            and ('host:' || t.host) = any(case when o.cause is null then o.candidates else array[o.cause] end))`;
  const rank = await valueOf<number | null>(sql`
    select max(array_position(${ranks(sql)}, i.severity))
    from channel_alerts a cross join lateral (select i.severity ${told(sql)}) i
    where a.channel_id = ${channelId} and a.key = ${alert.key}`);
  if (rank === null) return;
  for (let last: Position | null = null; ;) {
    const position: Position | null = await firstOf(sql<Position[]>`
      with batch as materialized (
        select d.id, d.incident_id, d.next_attempt_at from deliveries d
        where ${waitsAt(sql, channelId, at)} and d.reason = 'opened'
          ${after(sql, last)}
        order by d.next_attempt_at, d.id limit ${window}
      ), joined as (
        insert into channel_alert_incidents (incident_id, channel_id, key, joined_at)
        select d.incident_id, ${channelId}, ${alert.key}, ${at} from batch d
        where ${keyOf(sql, channelId)} is null
          and (select ${isOfCause} and array_position(${ranks(sql)}, i.severity) <= ${rank}
               from incidents i join targets t on t.id = i.target_id where i.id = d.incident_id)
        on conflict do nothing
      )
      select id, next_attempt_at::text from batch order by batch.next_attempt_at desc, id desc limit 1`);
    if (position === null) return;
    last = position;
  }
}

/** The last delivery that was read; its time as text, which has microseconds. */
interface Position {
  id: string;
  next_attempt_at: string;
}

const after = (sql: Db, last: Position | null) =>
  last === null
    ? sql``
    : sql`and (d.next_attempt_at, d.id) > (${last.next_attempt_at}::text::timestamptz, ${last.id}::uuid)`;

/**
 * Deliveries of an alert that are due and wait: the changes of incidents that they were written with are committed, so
 * that a state that is read afterwards has them. Acknowledgements, and reopenings, which begin the alert anew, decide
 * for themselves.
 */
export async function selectWaiting(sql: Db, channelId: string, key: string, at: Date): Promise<string[]> {
  return await columnOf<string>(sql`
    with batch as materialized (
      select d.id, d.incident_id from deliveries d
      where ${waitsAt(sql, channelId, at)} and d.reason not in ('acknowledged', 'reopened')
      order by d.next_attempt_at, d.id limit ${window})
    select d.id from batch d where ${keyOf(sql, channelId)} = ${key} limit ${portion}`);
}

/** Lets deliveries that {@link selectWaiting} returned wait until `due`. */
export async function postponeWaiting(sql: Db, ids: readonly string[], due: Date): Promise<void> {
  if (ids.length === 0) return;
  await sql`
    update deliveries set next_attempt_at = ${due}
    where id = any(${[...ids]}::uuid[]) and state = 'pending' and message_id is null and leased_until is null`;
}
