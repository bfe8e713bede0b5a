import { causeError, errorClass } from "../../causes/service.ts";
import { arrayOf, type Db } from "../../../platform/db/client/sql.ts";
import type { Severity } from "@statusmesh/shared/severity";
import type { ActiveHours, Notice, Reason } from "../../channels/schema.ts";
import { isRouted } from "../../channels/routes/service.ts";

/** NOTIFY channel that wakes the deliverers, sent with every commit that wrote deliveries. */
export const deliveriesChannel = "sm_deliveries";

/** What holds a delivery: the number of failures of its binding, or the hours of its channel; over ends it. */
export type HeldBy = "failures" | "hours" | "over";

/** A notice for the channels of its target. */
export interface OutboxNotice {
  orgId: string;
  /** Sequence number of this notice among those of the same reason and incident, from 0. */
  seq: number;
  notice: Notice;
  /** The channels in place of those of the target. */
  channelIds?: readonly string[];
  /** True where a person raised the severity. */
  raised?: true;
}

/** A channel that a notice is for. */
export interface Recipient {
  /** Index of the notice. */
  at: number;
  channel_id: string;
  channel_name: string;
  channel_kind: string;
  /** `rounds` of the channel; null: as usual for its kind. */
  channel_rounds: boolean | null;
  /** Failing slots that the channel waits for; null when the confirmations of the target are enough. */
  after_failures: number | null;
  /** Gates of the binding and of the channel; null: none. */
  binding_severity: Severity | null;
  channel_severity: Severity;
  notify_recovery: boolean;
  active_hours: ActiveHours | null;
  /** True when the channel was notified of the opening, and of no recovery since. */
  notified: boolean;
  /** True when the channel was ever notified of an opening. */
  ever_notified: boolean;
  /** The delivery that waits. */
  held: { id: string; reason: Reason; seq: number; notice: Notice; heldBy: HeldBy } | null;
  last_created_at: Date | null;
}

export interface NewDelivery {
  id: string;
  orgId: string;
  channelId: string;
  channelName: string;
  channelKind: string;
  reason: Reason;
  seq: number;
  notice: Notice;
  state: "pending" | "held" | "dropped";
  heldBy: HeldBy | null;
  /** When to send it, or to look whether it may leave, Unix ms. */
  nextAt: number;
  createdAt: number;
}

/**
 * Reasons of notices that say that an incident is open. A recovery is for channels that got one of them, and for pagers
 * with an alert of it. A channel whose gate kept back the opening is notified by an escalation.
 */
const saysOpen = (sql: Db) =>
  sql`d.reason in ('opened', 'reopened', 'unacknowledged', 'escalated') and d.state in ('pending', 'delivered')`;

/**
 * The enabled channels of each notice's target, listed or by its tags, or the given ones; for a recovery also those
 * that were notified before, of the ladder or by a tag that has gone. They are
 * locked until the transaction ends: one deleted between the two statements would fail the foreign key, and the whole
 * batch with it.
 */
export async function selectRecipients(sql: Db, notices: readonly OutboxNotice[]): Promise<Recipient[]> {
  const chosen = notices.flatMap(({ channelIds = [] }, at) =>
    channelIds.map((id, place) => ({ at: at + 1, id, place })),
  );
  return await sql<Recipient[]>`
    with chosen as materialized (
      select * from unnest(${arrayOf(chosen.map(({ at }) => at))}::bigint[],
        ${arrayOf(chosen.map(({ id }) => id))}::uuid[], ${arrayOf(chosen.map(({ place }) => place))}::integer[])
        as c (at, channel_id, position)
    )
    select n.at::integer - 1 as at, c.id as channel_id, c.name as channel_name, c.kind as channel_kind,
      c.rounds as channel_rounds, c.active_hours, a.min_severity as binding_severity,
      c.min_severity as channel_severity,
      coalesce(a.notify_recovery, t.notify_recovery) as notify_recovery,
      case when i.opened_by = 'engine' and a.after_failures > t.alert_confirmations then a.after_failures end
        as after_failures,
      opening.notified as ever_notified,
      opening.notified and (select d.reason from deliveries d
        where d.incident_id = n.incident_id and d.channel_id = c.id and d.state not in ('held', 'dropped')
        order by d.created_at desc, d.id desc limit 1) <> 'resolved' as notified,
      (select max(d.created_at) from deliveries d where d.incident_id = n.incident_id and d.channel_id = c.id)
        as last_created_at,
      (select jsonb_build_object('id', d.id, 'reason', d.reason, 'seq', d.seq, 'notice', d.notice,
          'heldBy', d.held_by)
       from deliveries d where d.incident_id = n.incident_id and d.channel_id = c.id and d.state = 'held') as held
    from unnest(${arrayOf(notices.map(({ orgId }) => orgId))}::uuid[],
                ${arrayOf(notices.map(({ notice }) => notice.incident_id))}::uuid[],
                ${arrayOf(notices.map(({ notice }) => notice.target_id))}::uuid[],
                ${arrayOf(notices.map(({ notice }) => notice.reason))}::text[],
                ${arrayOf(notices.map(({ channelIds }) => channelIds !== undefined))}::boolean[])
      with ordinality as n (org_id, incident_id, target_id, reason, is_chosen, at)
    join targets t on t.id = n.target_id
    join incidents i on i.id = n.incident_id
    cross join lateral (
      select b.channel_id, b.position, b.after_failures, b.notify_recovery, b.min_severity from target_alerts b
      where b.target_id = n.target_id and not n.is_chosen
      union all
      select chosen.channel_id, chosen.position, null, null, null from chosen where chosen.at = n.at
      union all
      select c.id, 500, null, null, null from channels c where ${isRouted(sql)} and not n.is_chosen
      union all
      select distinct d.channel_id, 1000, null::integer, null::boolean, null::text
      from deliveries d join channels c on c.id = d.channel_id
      where n.reason = 'resolved' and d.incident_id = n.incident_id and ${saysOpen(sql)}
        and not exists (select from target_alerts b where b.target_id = n.target_id and b.channel_id = d.channel_id)
        and not (${isRouted(sql)})
    ) a
    join channels c on c.id = a.channel_id and c.org_id = n.org_id and c.enabled
    cross join lateral (select exists (select from deliveries d
      where d.incident_id = n.incident_id and d.channel_id = c.id and ${saysOpen(sql)})
      or exists (select from channel_alert_incidents m
        join channel_alerts a on a.channel_id = m.channel_id and a.key = m.key
        where m.incident_id = n.incident_id and m.channel_id = c.id and a.triggered_at is not null
          and a.ended_at is null) as notified) opening
    order by n.at, a.position, c.id
    for key share of c`;
}

/** Writes what notices change of held deliveries. */
export async function changeHeld(sql: Db, rows: readonly NewDelivery[]): Promise<void> {
  await sql`
    update deliveries d set state = n.state, reason = n.reason, seq = n.seq, notice = n.notice::jsonb,
      held_by = n.held_by,
      next_attempt_at = case when n.state = 'dropped' then null when n.held_by = d.held_by then d.next_attempt_at
                             else n.next_at end
    from unnest(${arrayOf(rows.map(({ id }) => id))}::uuid[], ${arrayOf(rows.map(({ state }) => state))}::text[],
      ${arrayOf(rows.map(({ reason }) => reason))}::text[], ${arrayOf(rows.map(({ seq }) => seq))}::integer[],
      ${rows.map(({ notice }) => JSON.stringify(notice))}::text[], ${arrayOf(rows.map(({ heldBy }) => heldBy))}::text[],
      ${arrayOf(rows.map(({ nextAt }) => new Date(nextAt).toISOString()))}::timestamptz[])
      as n (id, state, reason, seq, notice, held_by, next_at)
    where d.id = n.id and d.state = 'held'`;
}

/** The class of the error of incident `i`, as causes have it. */
const classOf = (sql: Db) => errorClass(sql, causeError(sql, sql`i.error_sample`, sql`i.diagnosis`));

/**
 * Writes deliveries. In a running series of rounds, openings of causes that the channel was told of wait for the next
 * round, as everything that is not urgent does, unless they are critical; `next_attempt_at` says when they leave at
 * the latest.
 */
export async function insertDeliveries(sql: Db, rows: readonly NewDelivery[]): Promise<number> {
  const created = rows.map(({ createdAt }) => new Date(createdAt).toISOString());
  const [done] = await sql<{ written: number }[]>`
    with given as (
      select n.*, n.content::jsonb as notice
      from unnest(${rows.map(({ id }) => id)}::uuid[],
                  ${rows.map(({ orgId }) => orgId)}::uuid[],
                  ${rows.map(({ notice }) => notice.incident_id)}::uuid[],
                  ${rows.map(({ channelId }) => channelId)}::uuid[],
                  ${rows.map(({ channelName }) => channelName)}::text[],
                  ${rows.map(({ channelKind }) => channelKind)}::text[],
                  ${rows.map(({ reason }) => reason)}::text[],
                  ${rows.map(({ seq }) => seq)}::integer[],
                  ${rows.map(({ notice }) => JSON.stringify(notice))}::text[],
                  ${created}::timestamptz[], ${arrayOf(rows.map(({ state }) => state))}::text[],
                  ${arrayOf(rows.map(({ heldBy }) => heldBy))}::text[],
                  ${arrayOf(rows.map(({ nextAt }) => new Date(nextAt).toISOString()))}::timestamptz[])
        as n (id, org_id, incident_id, channel_id, channel_name, channel_kind, reason, seq, content, created_at, state,
              held_by, next_at)
    ), judged as (
      select g.*, case
          when g.reason = 'unacknowledged' then s.severity
          when g.reason = 'escalated' then case when s.severity > coalesce(r.severity, 0) then s.severity else 0 end
          when g.reason not in ('opened', 'reopened') then 0
          when s.severity > r.severity or s.severity = 3 or r.channel_id is null then s.severity
          when r.causes && (array['host:' || t.host, 'error:' || ${classOf(sql)}]
                            || array(select 'tag:' || tag from unnest(t.tags) tag)
                            || array(select 'region:' || region from unnest(i.regions_down) region)) then 0
          else s.severity end as urgency
      from given g
      left join incidents i on i.id = g.incident_id
      left join targets t on t.id = i.target_id
      left join channel_rounds r on r.channel_id = g.channel_id
      cross join lateral (
        select array_position(array['minor', 'major', 'critical'], g.notice ->> 'severity')::smallint as severity) s
    ), written as (
      insert into deliveries
        (id, org_id, incident_id, channel_id, channel_name, channel_kind, reason, seq, notice, state,
        held_by, next_attempt_at, created_at, urgency)
      select j.id, j.org_id, j.incident_id, j.channel_id, j.channel_name, j.channel_kind, j.reason, j.seq,
        j.notice, j.state, j.held_by,
        case when j.state = 'pending' and j.urgency = 0 then greatest(j.next_at, r.due_at)
             when j.state <> 'dropped' then j.next_at end, j.created_at, j.urgency
      from judged j left join channel_rounds r on r.channel_id = j.channel_id
      on conflict (incident_id, channel_id, reason, seq) do nothing
      returning state
    )
    select count(*) filter (where state = 'pending')::integer as written, pg_notify(${deliveriesChannel}, '')
    from written`;
  return done?.written ?? 0;
}
