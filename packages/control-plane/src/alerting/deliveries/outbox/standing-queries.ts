import type { Db } from "../../../platform/db/client/sql.ts";
import type { Reason } from "../../channels/schema.ts";
import { criticalSecs, graceSecs, inRounds, type RoundRules } from "../sending/claim-queries.ts";
import type { HeldBy } from "./outbox-queries.ts";

/** What became of the notices of an incident for a channel. */
export interface Standing {
  channel_id: string;
  /** The first message that named the incident, and how many incidents it named. Null: none was delivered. */
  told_at: Date | null;
  message_id: string | null;
  incidents: number | null;
  /** The oldest notice that waits. */
  waits: Waiting | null;
  /** How the newest notice ended. */
  last_state: "delivered" | "dead" | "dropped" | "pending" | "held";
  last_held_by: HeldBy | null;
  /** Of the last attempt. */
  last_error: string | null;
}

/** A notice that waits. Times are RFC 3339. */
interface Waiting {
  state: "pending" | "held";
  reason: Reason;
  held_by: HeldBy | null;
  /** Attempts of its message so far. */
  attempts: number;
  is_sending: boolean;
  /** The next attempt, the next look at what is held, or the end of a pause of the receiver; null: now. */
  until: string | null;
  /** The round that takes it along: its number in the series; null where it waits for none. */
  round: number | null;
  /** The receiver has asked for a pause. */
  is_paused: boolean;
}

/**
 * {@link Standing} of every channel that has notices of the incident, as the next claim decides: what waits for a round
 * leaves with the most urgent notice of its channel, or at the end of the round.
 */
export async function selectStandings(
  sql: Db,
  { orgId, incidentId, at, rounds }: { orgId: string; incidentId: string; at: Date; rounds: RoundRules },
): Promise<Standing[]> {
  return await sql<Standing[]>`
    select c.id as channel_id, told.at as told_at, told.message_id, told.incidents, waits.waits,
      last.state as last_state, last.held_by as last_held_by, last.error as last_error
    from channels c
    join lateral (
      select d.state, d.held_by, (select a.error from delivery_attempts a where a.delivery_id in (d.id, d.message_id)
        order by a.at desc, a.number desc limit 1) as error
      from deliveries d where d.incident_id = ${incidentId} and d.channel_id = c.id
      order by d.created_at desc, d.id desc limit 1) last on true
    left join lateral (
      select d.delivered_at as at, coalesce(d.message_id, d.id) as message_id,
        greatest(1, (select count(distinct m.incident_id) from deliveries m where m.message_id = d.message_id))::int
          as incidents
      from deliveries d where d.incident_id = ${incidentId} and d.channel_id = c.id and d.state = 'delivered'
      order by d.delivered_at, d.created_at, d.id limit 1) told on true
    left join lateral (
      select jsonb_build_object('state', d.state, 'reason', d.reason, 'held_by', d.held_by,
        'attempts', m.attempt_count - m.attempts_before, 'is_sending', coalesce(m.leased_until > ${at}, false),
        'until', greatest(w.until, p.until), 'round', w.round,
        'is_paused', coalesce(p.until > w.until, p.until is not null)) as waits
      from deliveries d
      join deliveries m on m.id = coalesce(d.message_id, d.id)
      left join channel_rounds r on r.channel_id = c.id
      left join channel_health h on h.channel_id = c.id
      cross join lateral (
        select d.state = 'pending' and d.message_id is null and not d.alone and ${rounds.secs > 0}
            and ${inRounds(sql, rounds.kinds)} as for_round,
          (select max(q.urgency) from deliveries q
           where q.channel_id = c.id and q.state = 'pending' and q.message_id is null and not q.alone) as urgency) u
      cross join lateral (
        select case when r.due_at is null or r.due_at <= ${at} or u.urgency > r.severity then ${at}
            when u.urgency = 0 then r.due_at
            else least(r.due_at, r.last_left_at + make_interval(secs => ${rounds.secs}),
              case when u.urgency = 3 then r.critical_at + make_interval(secs => ${criticalSecs}) end) end as leaves) l
      cross join lateral (
        select case when d.state = 'pending' then nullif(greatest(h.paused_until, ${at}), ${at}) end as until) p
      cross join lateral (
        select nullif(greatest(case when u.for_round then l.leaves else m.next_attempt_at end, ${at}), ${at}) as until,
          case when u.for_round then
            case when r.due_at is null or l.leaves > r.due_at + make_interval(secs => ${graceSecs}) then 1
              else r.round + 1 end end as round) w
      where d.incident_id = ${incidentId} and d.channel_id = c.id and d.state in ('pending', 'held')
      order by d.created_at, d.id limit 1) waits on true
    where c.org_id = ${orgId}
      and c.id in (select d.channel_id from deliveries d where d.incident_id = ${incidentId})`;
}
