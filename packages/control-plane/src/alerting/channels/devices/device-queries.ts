import { lockSpaces } from "../../../platform/db/locks.ts";
import { countOf, type Db, listed, type Listed, type Paging, rowOf } from "../../../platform/db/client/sql.ts";
import { type ChannelRow, columns, isReachable, type NewChannelRow, type Reach } from "../queries.ts";

/** One transaction at a time registers a browser. */
export async function lockEndpoint(sql: Db, endpointHash: Buffer): Promise<void> {
  await sql`select pg_advisory_xact_lock(${lockSpaces.devices}, hashtext(${endpointHash.toString("hex")}))`;
}

/** Locks the devices of all organisations at an endpoint, in the order of ids. */
export async function lockDevicesAt(sql: Db, endpointHash: Buffer): Promise<ChannelRow[]> {
  return await sql<ChannelRow[]>`
    select ${columns(sql)} from channels where endpoint_hash = ${endpointHash} order by id for update`;
}

export const countDevices = async (sql: Db, orgId: string, userId: string): Promise<number> =>
  await countOf(sql, sql`from channels where org_id = ${orgId} and owner_id = ${userId}`);

export interface DeviceRow extends NewChannelRow {
  owner_id: string;
  device_name: string;
  endpoint_hash: Buffer;
}

export async function insertDevice(sql: Db, row: DeviceRow): Promise<ChannelRow> {
  const { config, active_hours: _hours, route: _route, ...rest } = row;
  return await rowOf(sql<ChannelRow[]>`
    insert into channels ${sql({ ...rest, config: sql.json(config) as never })} returning ${columns(sql)}`);
}

/** Replaces person, name and subscription of a device, and enables it. */
export async function updateDevice(
  sql: Db,
  row: Pick<DeviceRow, "id" | "org_id" | "owner_id" | "device_name" | "config" | "write_source" | "updated_at">,
): Promise<ChannelRow> {
  return await rowOf(sql<ChannelRow[]>`
    update channels
    set owner_id = ${row.owner_id}, device_name = ${row.device_name}, config = ${sql.json(row.config)},
      enabled = true, disabled_reason = null, tested_at = null, write_source = ${row.write_source},
      updated_at = ${row.updated_at}
    where org_id = ${row.org_id} and id = ${row.id} returning ${columns(sql)}`);
}

/** Unbinds a device from every monitor: what its former person chose ends. */
export async function unbindDevice(sql: Db, channelId: string): Promise<void> {
  await sql`delete from target_alerts where channel_id = ${channelId}`;
  await sql`update channels set is_default = false, active_hours = null, route = null where id = ${channelId}`;
}

/** Devices that a caller may name, oldest first. */
export async function selectDevices(
  sql: Db,
  orgId: string,
  reach: Reach,
  { limit, offset }: Paging,
): Promise<Listed<ChannelRow>> {
  const from = sql`from channels where org_id = ${orgId} and owner_id is not null and ${isReachable(sql, reach)}`;
  const part = sql<ChannelRow[]>`select ${columns(sql)} ${from} order by id limit ${limit} offset ${offset}`;
  return await listed(sql, from, part);
}

/** Names of the devices among `ids` that a caller may name, with the address of their person. */
export async function selectNames(sql: Db, orgId: string, ids: readonly string[], reach: Reach) {
  return await sql<{ id: string; name: string; email: string }[]>`
    select c.id, c.device_name as name, u.email from channels c join users u on u.id = c.owner_id
    where c.org_id = ${orgId} and c.id = any(${[...ids]}::uuid[])
      and (${reach.everyDevice} or c.owner_id = ${reach.userId})`;
}
