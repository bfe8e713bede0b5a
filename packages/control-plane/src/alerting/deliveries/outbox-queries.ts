import type { Db } from "../../platform/db/sql.ts";
import type { OutboxNotice } from "./outbox.ts";
import type { Notice, Reason } from "../incidents/schema.ts";

/** NOTIFY channel that wakes the deliverers, sent with every commit that wrote deliveries. */
export const deliveriesChannel = "sm_deliveries";

/** A channel that a notice is for. */
export interface Recipient {
  /** Index of the notice. */
  at: number;
  channel_id: string;
  channel_name: string;
  channel_kind: string;
  /** True when the channel was notified of the opening, and of no recovery since. */
  notified: boolean;
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
  createdAt: number;
}

/**
 * The enabled channels of each notice's target. They are locked until the transaction ends: one deleted between the two
 * statements would fail the foreign key, and the whole batch with it.
 */
export async function selectRecipients(sql: Db, notices: readonly OutboxNotice[]): Promise<Recipient[]> {
  return await sql<Recipient[]>`
    select n.at::integer - 1 as at, c.id as channel_id, c.name as channel_name, c.kind as channel_kind,
      exists (select from deliveries d where d.incident_id = n.incident_id and d.channel_id = c.id
                and d.reason in ('opened', 'reopened') and d.state <> 'dead')
        and (select d.reason from deliveries d where d.incident_id = n.incident_id and d.channel_id = c.id
             order by d.created_at desc, d.id desc limit 1) <> 'resolved' as notified,
      (select max(d.created_at) from deliveries d where d.incident_id = n.incident_id and d.channel_id = c.id)
        as last_created_at
    from unnest(${notices.map(({ orgId }) => orgId)}::uuid[],
                ${notices.map(({ notice }) => notice.incident_id)}::uuid[],
                ${notices.map(({ notice }) => notice.target_id)}::uuid[])
      with ordinality as n (org_id, incident_id, target_id, at)
    join target_alerts a on a.target_id = n.target_id
    join channels c on c.id = a.channel_id and c.org_id = n.org_id and c.enabled
    order by n.at, a.position
    for key share of c`;
}

export async function insertDeliveries(sql: Db, now: number, rows: readonly NewDelivery[]): Promise<number> {
  const created = rows.map(({ createdAt }) => new Date(createdAt).toISOString());
  const [done] = await sql<{ written: number }[]>`
    with written as (
      insert into deliveries
        (id, org_id, incident_id, channel_id, channel_name, channel_kind, reason, seq, notice, state,
        next_attempt_at, created_at)
      select n.id, n.org_id, n.incident_id, n.channel_id, n.channel_name, n.channel_kind, n.reason, n.seq,
        n.notice::jsonb, 'pending', ${new Date(now)}, n.created_at
      from unnest(${rows.map(({ id }) => id)}::uuid[],
                  ${rows.map(({ orgId }) => orgId)}::uuid[],
                  ${rows.map(({ notice }) => notice.incident_id)}::uuid[],
                  ${rows.map(({ channelId }) => channelId)}::uuid[],
                  ${rows.map(({ channelName }) => channelName)}::text[],
                  ${rows.map(({ channelKind }) => channelKind)}::text[],
                  ${rows.map(({ reason }) => reason)}::text[],
                  ${rows.map(({ seq }) => seq)}::integer[],
                  ${rows.map(({ notice }) => JSON.stringify(notice))}::text[],
                  ${created}::timestamptz[])
        as n (id, org_id, incident_id, channel_id, channel_name, channel_kind, reason, seq, notice, created_at)
      on conflict (incident_id, channel_id, reason, seq) do nothing
      returning 1
    )
    select count(*)::integer as written, pg_notify(${deliveriesChannel}, '') from written`;
  return done?.written ?? 0;
}
