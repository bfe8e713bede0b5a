import { arrayOf, type Db } from "../../platform/db/sql.ts";

/** The incident and the channel of a delivery. */
export interface LinkedChannel {
  orgId: string;
  incidentId: string;
  channel: { id: string; name: string; kind: string };
}

/** Null where the channel was disabled or deleted, and for an incident that was none. */
export async function selectLinkedChannel(sql: Db, deliveryId: string): Promise<LinkedChannel | null> {
  const [row] = await sql<LinkedRow[]>`
    select d.org_id, d.incident_id, c.id, c.name, c.kind
    from deliveries d
    join channels c on c.id = d.channel_id and c.org_id = d.org_id and c.enabled
    join orgs o on o.id = d.org_id and o.deleted_at is null
    join incidents i on i.id = d.incident_id and not i.retracted
    where d.id = ${deliveryId}`;
  return row === undefined ? null : present(row);
}

/** Open incidents without an acknowledgement that a message of the channels was about, at most 1,000. */
export async function selectWaiting(sql: Db, channelIds: readonly string[]): Promise<LinkedChannel[]> {
  const rows = await sql<LinkedRow[]>`
    select distinct on (i.id) d.org_id, d.incident_id, c.id, c.name, c.kind
    from channels c
    join orgs o on o.id = c.org_id and o.deleted_at is null
    join incidents i on i.org_id = c.org_id and i.ended_at is null and i.acknowledged_at is null and not i.retracted
    join deliveries d on d.incident_id = i.id and d.channel_id = c.id and d.state = 'delivered'
    where c.id = any(${arrayOf(channelIds)}::uuid[]) and c.enabled
    order by i.id, c.id limit 1000`;
  return rows.map(present);
}

interface LinkedRow {
  org_id: string;
  incident_id: string;
  id: string;
  name: string;
  kind: string;
}

const present = ({ org_id: orgId, incident_id: incidentId, ...channel }: LinkedRow): LinkedChannel => ({
  orgId,
  incidentId,
  channel,
});
