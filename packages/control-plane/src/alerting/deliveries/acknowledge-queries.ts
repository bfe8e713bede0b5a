import { arrayOf, type Db, firstOf } from "../../platform/db/sql.ts";

/** The incident and the channel of a delivery. */
export interface LinkedChannel {
  org_id: string;
  incident_id: string;
  /** `person`: of a device, how its person is called. */
  channel: { id: string; name: string; kind: string; person: string | null };
}

const columns = (sql: Db) => sql`
  d.org_id, d.incident_id, jsonb_build_object('id', c.id, 'name', c.name, 'kind', c.kind, 'person',
    (select coalesce(u.name, u.email) from users u where u.id = c.owner_id)) as channel`;

/** A viewer, who changes nothing in the console, does not from a device either. */
const mayAcknowledge = (sql: Db) => sql`
  (c.owner_id is null or exists (select from memberships m
    where m.org_id = c.org_id and m.user_id = c.owner_id and m.role <> 'viewer'))`;

/** Null where the channel was disabled or deleted or is the device of a viewer, and for an incident that was none. */
export async function selectLinkedChannel(sql: Db, deliveryId: string): Promise<LinkedChannel | null> {
  return await firstOf(sql<LinkedChannel[]>`
    select ${columns(sql)}
    from deliveries d
    join channels c on c.id = d.channel_id and c.org_id = d.org_id and c.enabled
    join orgs o on o.id = d.org_id and o.deleted_at is null
    join incidents i on i.id = d.incident_id and not i.retracted
    where d.id = ${deliveryId} and ${mayAcknowledge(sql)}`);
}

/** Open incidents that nobody has acknowledged and that a channel was notified of: once each, at most 1,000. */
export async function selectWaiting(sql: Db, channelIds: readonly string[]): Promise<LinkedChannel[]> {
  return await sql<LinkedChannel[]>`
    select distinct on (i.id) ${columns(sql)}
    from channels c
    join orgs o on o.id = c.org_id and o.deleted_at is null
    join incidents i on i.org_id = c.org_id and i.ended_at is null and i.acknowledged_at is null and not i.retracted
    join deliveries d on d.incident_id = i.id and d.channel_id = c.id and d.state = 'delivered'
    where c.id = any(${arrayOf(channelIds)}::uuid[]) and c.enabled
    order by i.id, c.id limit 1000`;
}
