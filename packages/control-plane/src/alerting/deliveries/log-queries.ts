import { affectsRow, type Db, firstOf, listed, type Listed, type Paging } from "../../platform/db/client/sql.ts";
import type { StoredRow } from "../../platform/http/wire.ts";
import { deliveriesChannel } from "./outbox/outbox-queries.ts";
import type { Delivery } from "./schema.ts";

export interface DeliveryRow extends StoredRow<Omit<Delivery, "channel_type">> {
  channel_kind: string;
}

const columns = (sql: Db) => sql`
  d.id, d.channel_id, d.channel_name, d.channel_kind, d.reason, d.state, d.held_by, d.created_at, d.delivered_at,
  d.message_id,
  case when d.state = 'pending' and d.message_id is not null
    then (select m.next_attempt_at from deliveries m where m.id = d.message_id) else d.next_attempt_at
  end as next_attempt_at,
  coalesce((select jsonb_agg(jsonb_build_object('at', a.at, 'ok', a.ok, 'status', a.status, 'error', a.error)
                             order by a.at, a.number)
            from delivery_attempts a where a.delivery_id in (d.id, d.message_id)), '[]') as attempts`;

/** Oldest first. */
export async function selectDeliveries(
  sql: Db,
  orgId: string,
  incidentId: string,
  { limit, offset }: Paging,
): Promise<Listed<DeliveryRow>> {
  const from = sql`from deliveries d where d.org_id = ${orgId} and d.incident_id = ${incidentId}`;
  const part = sql<DeliveryRow[]>`
    select ${columns(sql)} ${from} order by d.created_at, d.id limit ${limit} offset ${offset}`;
  return await listed(sql, from, part);
}

/** One delivery of an incident; null for an absent or foreign id. */
export async function selectDelivery(
  sql: Db,
  orgId: string,
  incidentId: string,
  id: string,
): Promise<DeliveryRow | null> {
  return await firstOf(sql<DeliveryRow[]>`
    select ${columns(sql)} from deliveries d
    where d.org_id = ${orgId} and d.incident_id = ${incidentId} and d.id = ${id}`);
}

/** Locks a delivery of an incident until the transaction ends. False for an absent or foreign id. */
export async function lockDelivery(sql: Db, orgId: string, incidentId: string, id: string): Promise<boolean> {
  return await affectsRow(sql`
    select 1 from deliveries where org_id = ${orgId} and incident_id = ${incidentId} and id = ${id} for update`);
}

/**
 * Makes a dead delivery pending again, with its full number of attempts, unless a newer notice of the incident has
 * reached the channel. Wakes the deliverers at the commit. False when nothing was changed.
 */
export async function reviveDelivery(
  sql: Db,
  orgId: string,
  incidentId: string,
  id: string,
  now: Date,
): Promise<boolean> {
  return await affectsRow(sql`
    with revived as (
      update deliveries d
      set state = 'pending', next_attempt_at = ${now}, attempts_before = attempt_count, message_id = null
      where d.org_id = ${orgId} and d.incident_id = ${incidentId} and d.id = ${id} and d.state = 'dead'
        and not exists (select from deliveries newer
                        where newer.incident_id = d.incident_id and newer.channel_id = d.channel_id
                          and newer.state = 'delivered' and (newer.created_at, newer.id) > (d.created_at, d.id))
      returning 1
    )
    select pg_notify(${deliveriesChannel}, '') from revived`);
}

/**
 * Marks unsent deliveries of the organisation as dead, with the reason as their last attempt. Those in flight are left
 * to their deliverer. Returns their number.
 */
export async function dropPendingDeliveries(sql: Db, orgId: string, reason: string, now: Date): Promise<number> {
  const rows = await sql`
    with dropped as (
      update deliveries
      set state = 'dead', next_attempt_at = null, leased_until = null, attempt_count = attempt_count + 1
      where org_id = ${orgId} and state = 'pending' and (leased_until is null or leased_until <= ${now})
      returning id, attempt_count
    )
    insert into delivery_attempts (delivery_id, number, at, ok, error)
    select id, attempt_count, ${now}, false, ${reason} from dropped returning 1`;
  return rows.length;
}
