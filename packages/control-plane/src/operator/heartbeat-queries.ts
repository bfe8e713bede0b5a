import { isDue, isNext } from "../alerting/deliveries/engine.ts";
import { affectsRow, type Db, rowOf, valueOf } from "../platform/db/client/sql.ts";

export interface Liveness {
  /** Time of the newest result of an enabled target, and of the oldest such target. Null without targets. */
  newest_result_at: Date | null;
  oldest_target_at: Date | null;
  /** Shortest check interval, seconds. */
  shortest_secs: number | null;
  /** Due time of the oldest delivery that no process has taken; null for none. */
  stuck_since: Date | null;
}

/** Deliveries to channels that fail or pause are left out: the receiver fails. */
export async function readLiveness(sql: Db, now: Date): Promise<Liveness> {
  return await rowOf(sql<Liveness[]>`
    select targets.*, (
      select min(d.next_attempt_at)
      from deliveries d
      join orgs o on o.id = d.org_id and o.deleted_at is null
      left join channel_health h on h.channel_id = d.channel_id
      where ${isDue(sql, now)} and ${isNext(sql)}
        and h.failing_since is null and coalesce(h.paused_until <= ${now}, true)
    ) as stuck_since
    from (select max(s.last_result_at) as newest_result_at, min(t.created_at) as oldest_target_at,
                 min(t.interval_secs) as shortest_secs
          from targets t
          join orgs o on o.id = t.org_id and o.deleted_at is null
          left join target_states s on s.target_id = t.id
          where t.enabled) targets`);
}

/** Takes the next heartbeat: true for one replica in `everySecs`. */
export async function takeHeartbeat(sql: Db, now: Date, everySecs: number): Promise<boolean> {
  // A mark in the future was set by a clock that was wrong.
  return await affectsRow(sql`
    insert into heartbeat as h (sent_at) values (${now})
    on conflict (only_row) do update set sent_at = excluded.sent_at
    where abs(extract(epoch from excluded.sent_at - h.sent_at)) >= ${everySecs}`);
}

/** Lets any replica send the heartbeat again that could not be sent. */
export async function returnHeartbeat(sql: Db): Promise<void> {
  await sql`update heartbeat set sent_at = to_timestamp(0)`;
}

/** When the heartbeat was last sent; null for never. */
export async function lastHeartbeat(sql: Db): Promise<Date | null> {
  return await valueOf<Date | null>(sql`select sent_at from heartbeat where sent_at > to_timestamp(0)`);
}
