import { columnOf, type Db } from "../../platform/db/sql.ts";
import { readCause } from "../../platform/db/causes.ts";
import { ranks, told } from "./alert-queries.ts";

/*
 * An outage of thousands is as many deliveries to a pager. What is decided for one of them is decided for those that
 * wait, so that each of them need not be claimed to join and to wait again.
 */

/** Rows of a statement. */
const portion = 300;

/** Condition on `d`: due, and neither leased nor in a message. */
const waitsAt = (sql: Db, channelId: string, at: Date) => sql`
  d.channel_id = ${channelId} and d.state = 'pending' and d.next_attempt_at <= ${at} and d.message_id is null
  and d.leased_until is null`;

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
  for (let joined = portion; joined === portion;) {
    const rows = await sql`
      insert into channel_alert_incidents (incident_id, channel_id, key, joined_at)
      select i.id, ${channelId}, ${alert.key}, ${at}
      from deliveries d join incidents i on i.id = d.incident_id join targets t on t.id = i.target_id
      join channel_alerts a on a.channel_id = ${channelId} and a.key = ${alert.key}
      where ${waitsAt(sql, channelId, at)} and d.reason = 'opened' and ${isOfCause}
        and not exists (
          select from channel_alert_incidents n where n.incident_id = i.id and n.channel_id = ${channelId})
        and exists (select from (select i.severity as own) s cross join lateral (
          select 1 ${told(sql)} and array_position(${ranks(sql)}, i.severity) >= array_position(${ranks(sql)}, s.own)
          limit 1) o)
      limit ${portion}
      on conflict do nothing
      returning 1`;
    joined = rows.length;
  }
}

/**
 * Deliveries of an alert that are due and wait: the changes of incidents that they were written with are committed, so
 * that a state that is read afterwards has them. Acknowledgements, and reopenings, which begin the alert anew, decide
 * for themselves.
 */
export async function selectWaiting(sql: Db, channelId: string, key: string, at: Date): Promise<string[]> {
  return await columnOf<string>(sql`
    select d.id from deliveries d
    join channel_alert_incidents m on m.incident_id = d.incident_id and m.channel_id = d.channel_id
    where ${waitsAt(sql, channelId, at)} and d.reason not in ('acknowledged', 'reopened') and m.key = ${key}
    order by d.next_attempt_at, d.id limit ${portion}`);
}

/** Lets deliveries that {@link selectWaiting} returned wait until `due`. */
export async function postponeWaiting(sql: Db, ids: readonly string[], due: Date): Promise<void> {
  if (ids.length === 0) return;
  await sql`
    update deliveries set next_attempt_at = ${due}
    where id = any(${[...ids]}::uuid[]) and state = 'pending' and message_id is null and leased_until is null`;
}
