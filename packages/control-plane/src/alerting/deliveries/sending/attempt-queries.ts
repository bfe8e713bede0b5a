import { columnOf, type Db } from "../../../platform/db/client/sql.ts";
import type { ClaimedDelivery } from "./claim-queries.ts";
import { maxAttempts } from "./retry.ts";

/** One attempt and what follows from it. Times are Unix ms. */
export interface AttemptRow {
  delivery: Pick<ClaimedDelivery, "id" | "leased_until">;
  at: number;
  ok: boolean;
  status: number | null;
  error: string | null;
  state: "pending" | "delivered" | "dead";
  nextAttemptAt: number | null;
  /** The receiver wants no request before; null without such a wish. */
  pausedUntil: number | null;
  /** False when nothing was sent: the attempt does not change the health of the channel. */
  sent: boolean;
  /** True for a message that has failed permanently: each of its deliveries is sent once by itself. */
  dissolves: boolean;
}

/**
 * Records attempts, ends their leases and updates the health of the channels, in one statement, and what a pager has
 * accepted. Of a message it writes
 * the first delivery: {@link settleMembers} writes the others. Returns the ids of the written ones: an attempt whose
 * lease was lost writes nothing.
 *
 * Locks are taken in the order channels, deliveries, channel_health, which is also that of a channel's deletion.
 */
export async function recordAttempts(sql: Db, attempts: readonly AttemptRow[]): Promise<Set<string>> {
  const time = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString());
  const held = await columnOf<string>(sql`
    with given as (
      select * from unnest(
        ${attempts.map(({ delivery }) => delivery.id)}::uuid[],
        ${attempts.map(({ delivery }) => delivery.leased_until.toISOString())}::timestamptz[],
        ${attempts.map(({ at }) => time(at))}::timestamptz[],
        ${`{${attempts.map(({ ok }) => ok).join()}}`}::boolean[],
        ${attempts.map(({ status }) => status)}::integer[],
        ${attempts.map(({ error }) => error)}::text[],
        ${attempts.map(({ state }) => state)}::text[],
        ${attempts.map(({ nextAttemptAt }) => time(nextAttemptAt))}::timestamptz[],
        ${attempts.map(({ pausedUntil }) => time(pausedUntil))}::timestamptz[],
        ${`{${attempts.map(({ sent }) => sent).join()}}`}::boolean[],
        ${`{${attempts.map(({ dissolves }) => dissolves).join()}}`}::boolean[]
      ) with ordinality
        as g (id, leased_until, at, ok, status, error, state, next_attempt_at, paused_until, sent, dissolves, position)
    ), kept_channels as (
      select c.id from channels c
      where c.id in (select d.channel_id from deliveries d join given g on g.id = d.id)
      order by c.id for key share
    ), held as (
      select g.*, d.channel_id from given g join deliveries d on d.id = g.id
      where d.state = 'pending' and d.leased_until = g.leased_until and (select count(*) from kept_channels) >= 0
      order by d.id
      for update of d
    ), written as (
      update deliveries d
      set state = case when held.dissolves then 'pending' else held.state end, attempt_count = d.attempt_count + 1,
          leased_until = null, next_attempt_at = case when held.dissolves then held.at else held.next_attempt_at end,
          delivered_at = case when held.ok then held.at end, alone = d.alone or held.dissolves,
          message_id = case when held.dissolves then null else d.message_id end,
          attempts_before = case when held.dissolves then d.attempt_count + 1 - ${maxAttempts - 1}
                                 else d.attempts_before end
      from held
      where d.id = held.id and d.state = 'pending'
      returning d.id, d.attempt_count, held.at, held.ok, held.status, held.error
    ), logged as (
      insert into delivery_attempts (delivery_id, number, at, ok, status, error)
      select id, attempt_count, at, ok, status, error from written
      returning 1
    ), alerted as (
      update channel_alerts a set
        triggered_at = case when 'trigger' = any(a.events) then written.at else a.triggered_at end,
        acknowledged_at = case when 'acknowledge' = any(a.events) then written.at
                               when 'trigger' = any(a.events) then null else a.acknowledged_at end,
        ended_at = case when 'resolve' = any(a.events) then written.at
                        when 'trigger' = any(a.events) then null else a.ended_at end
      from written where a.delivery_id = written.id and written.ok
    ), newest as (
      select distinct on (held.channel_id) held.*,
             max(held.paused_until) over (partition by held.channel_id) as longest_pause
      from held join kept_channels on kept_channels.id = held.channel_id
      where held.sent and (select count(*) from logged) >= 0
      order by held.channel_id, held.position desc
    ), health as (
      insert into channel_health as h (channel_id, last_at, last_state, last_error, failing_since, paused_until)
      select channel_id, at, state, error, case when not ok then at end, longest_pause
      from newest order by channel_id
      on conflict (channel_id) do update
      set last_at = excluded.last_at, last_state = excluded.last_state, last_error = excluded.last_error,
          failing_since = case when excluded.failing_since is not null
                               then coalesce(h.failing_since, excluded.failing_since) end,
          failing_mailed_at = case when excluded.failing_since is not null then h.failing_mailed_at end,
          paused_until = coalesce(excluded.paused_until, h.paused_until)
      returning 1
    )
    select held.id from held where (select count(*) from health) >= 0`);
  return new Set(held);
}
