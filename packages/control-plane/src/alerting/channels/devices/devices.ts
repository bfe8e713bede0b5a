import { createHash } from "node:crypto";
import { AppError } from "@statusmesh/shared/errors";
import { newId } from "@statusmesh/shared/ids";
import { differences, record } from "../../../access/audit/service.ts";
import { asSystem, type Ctx, inTransaction, requireScope } from "../../../platform/context.ts";
import { type Page, pageOf } from "../../../platform/http/wire.ts";
import { checkConfig } from "../config/rules.ts";
import * as deviceQueries from "./device-queries.ts";
import { findChannel } from "../find.ts";
import type { ChannelConfig } from "../kinds/index.ts";
import { present } from "../config/presenting.ts";
import { deleteUnusedKeys } from "./push-key-queries.ts";
import { currentPushKey } from "./push-keys.ts";
import * as queries from "../queries.ts";
import type { Channel, ChannelListQuery, DeviceCreate } from "../schema.ts";
import { sealConfig } from "../config/sealing.ts";
import { testStored } from "../sending/test-messages.ts";

/*
 * Devices: channels of kind web_push. One belongs to the person whose browser it is, also to a viewer, and ends with
 * the membership (foreign key). `org:write` is the scope of what concerns the caller's own account.
 */

/** Name of every device in bindings and logs: others read no more. */
const sharedName = "Device of a member";
/** Browsers of one person in an organisation. */
const maxDevices = 20;

/** The key that a browser subscribes with; made at the first call. */
export async function pushKey(ctx: Ctx): Promise<string> {
  requireScope(ctx, "channels:read");
  return await currentPushKey(ctx);
}

/** Own devices; to an owner, those of every member. Oldest first. */
export async function listDevices(ctx: Ctx, paging: ChannelListQuery): Promise<Page<Channel>> {
  requireScope(ctx, "channels:read");
  const reach = { userId: ctx.userId, everyDevice: ctx.role === "owner" };
  return pageOf(await deviceQueries.selectDevices(ctx.sql, ctx.orgId, reach, paging), paging, (row) =>
    present(ctx, row),
  );
}

/**
 * Registers a browser for the caller. The same endpoint again updates its device; one that another person registered
 * is the caller's from then on, without the former bindings, and leaves organisations of the other person. Throws
 * CHANNEL_QUOTA_EXCEEDED and the errors of {@link checkConfig}. `isNew`: a device was added.
 */
export async function registerDevice(ctx: Ctx, input: DeviceCreate): Promise<{ device: Channel; isNew: boolean }> {
  requireScope(ctx, "org:write");
  const { endpoint, keys, expirationTime = null } = input.subscription;
  const config: ChannelConfig = {
    type: "web_push",
    endpoint,
    p256dh: keys.p256dh.replace("=", ""),
    auth: keys.auth.replace("==", ""),
    server_key: await currentPushKey(ctx),
    private: input.private ?? false,
    expires_at: expirationTime === null ? null : new Date(expirationTime).toISOString(),
  };
  checkSubscription(ctx, config);
  const endpointHash = createHash("sha256").update(endpoint).digest();
  return await inTransaction(ctx, async (tx) => {
    await deviceQueries.lockEndpoint(tx.sql, endpointHash);
    const known = await deviceQueries.lockDevicesAt(tx.sql, endpointHash);
    for (const row of known) if (row.org_id !== tx.orgId && row.owner_id !== tx.userId) await leaveOtherOrg(tx, row);
    const before = known.find(({ org_id }) => org_id === tx.orgId);
    const done =
      before === undefined
        ? await added(tx, input.name, config, endpointHash)
        : await updated(tx, before, input.name, config);
    await deleteUnusedKeys(tx.sql, config.server_key);
    return done;
  });
}

/** {@link checkConfig} with the fields of the request. */
function checkSubscription(ctx: Ctx, config: ChannelConfig): void {
  try {
    checkConfig(ctx, config);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const of = error.field?.replace("/config/", "") ?? "endpoint";
    const field = of === "endpoint" ? "/subscription/endpoint" : `/subscription/keys/${of}`;
    throw new AppError(error.code, error.message, { field, details: error.details, cause: error });
  }
}

async function added(tx: Ctx, name: string, config: ChannelConfig, endpointHash: Buffer) {
  if ((await deviceQueries.countDevices(tx.sql, tx.orgId, tx.userId)) >= maxDevices)
    throw new AppError("CHANNEL_QUOTA_EXCEEDED", `A person has at most ${maxDevices} devices. Delete one first.`, {
      details: { limit: maxDevices },
    });
  const id = newId();
  const at = new Date(tx.clock.now());
  const row = await deviceQueries.insertDevice(tx.sql, {
    id,
    org_id: tx.orgId,
    name: sharedName,
    kind: "web_push",
    config: sealConfig(tx, tx.orgId, id, config),
    enabled: true,
    is_default: false,
    active_hours: null,
    route: null,
    min_severity: "minor",
    rounds: null,
    write_source: tx.writeSource,
    created_at: at,
    updated_at: at,
    owner_id: tx.userId,
    device_name: name,
    endpoint_hash: endpointHash,
  });
  const device = present(tx, row);
  await record(tx, { resourceId: id, after: device });
  return { device, isNew: true };
}

async function updated(tx: Ctx, before: queries.ChannelRow, name: string, config: ChannelConfig) {
  const { id } = before;
  const isMoved = before.owner_id !== tx.userId;
  if (isMoved) {
    await deviceQueries.unbindDevice(tx.sql, id);
    await queries.leaveLadders(tx.sql, tx.orgId, id);
  }
  await queries.resetHealth(tx.sql, id);
  const row = await deviceQueries.updateDevice(tx.sql, {
    id,
    org_id: tx.orgId,
    owner_id: tx.userId,
    device_name: name,
    config: sealConfig(tx, tx.orgId, id, config),
    write_source: tx.writeSource,
    updated_at: new Date(tx.clock.now()),
  });
  const device = present(tx, row);
  await record(tx, { resourceId: id, ...differences({ before: present(tx, before), after: device }) });
  return { device, isNew: false };
}

/** Deletes the device of another person in another organisation, whose browser it is no more. */
async function leaveOtherOrg(tx: Ctx, row: queries.ChannelRow): Promise<void> {
  await queries.leaveLadders(tx.sql, row.org_id, row.id);
  await queries.deleteChannel(tx.sql, row.org_id, row.id);
  const trail = asSystem(tx, row.org_id, "registered by another person");
  await record(trail, { resourceId: row.id, before: present(tx, row) });
}

/** The device with an id; CHANNEL_NOT_FOUND for a channel of the organisation too. */
async function findDevice(ctx: Ctx, id: string, options?: { lock: boolean }): Promise<queries.ChannelRow> {
  const row = await findChannel(ctx, id, options);
  if (row.owner_id === null) throw new AppError("CHANNEL_NOT_FOUND", "Device not found.");
  return row;
}

/** Deletes an own device with its bindings; an owner, that of any member. Throws CHANNEL_NOT_FOUND. */
export async function deleteDevice(ctx: Ctx, id: string): Promise<void> {
  requireScope(ctx, "org:write");
  await inTransaction(ctx, async (tx) => {
    await findDevice(tx, id);
    // Targets before channels, as edits of targets lock them.
    await queries.leaveLadders(tx.sql, tx.orgId, id);
    const row = await findDevice(tx, id, { lock: true });
    await queries.deleteChannel(tx.sql, tx.orgId, id);
    await record(tx, { resourceId: id, before: present(tx, row) });
  });
}

/** Sends a test message to an own device. Throws CHANNEL_NOT_FOUND, CHANNEL_TEST_FAILED. */
export async function testDevice(ctx: Ctx, id: string): Promise<void> {
  requireScope(ctx, "org:write");
  await testStored(ctx, await findDevice(ctx, id));
}

/** How a person and owners name devices, by id: `Pixel 9 (olga@example.org)`. Without a scope check. */
export async function deviceNames(ctx: Ctx, ids: readonly string[]): Promise<Map<string, string>> {
  const reach = { userId: ctx.userId, everyDevice: ctx.role === "owner" };
  const rows = ids.length === 0 ? [] : await deviceQueries.selectNames(ctx.sql, ctx.orgId, ids, reach);
  return new Map(rows.map(({ id, name, email }) => [id, `${name} (${email})`]));
}
