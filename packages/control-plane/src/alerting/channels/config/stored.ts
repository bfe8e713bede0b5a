import { type Ctx, requireScope } from "../../../platform/context.ts";
import { type ManagedChange, writeManaged } from "../../../platform/db/managed-queries.ts";
import * as queries from "../queries.ts";

/*
 * Channels for configuration as code, which compares what is stored with what its files declare.
 */

/** A stored channel; secrets sealed. */
export type StoredChannel = queries.ChannelRow;

/**
 * Every channel of the organisation, oldest first, without devices, which no file declares. Without a scope check:
 * monitors of any caller name channels.
 */
export async function storedChannels(ctx: Ctx): Promise<StoredChannel[]> {
  return await queries.selectShared(ctx.sql, ctx.orgId);
}

/** Locks channels against other edits until the transaction ends. */
export async function keepChannels(tx: Ctx, ids: readonly string[]): Promise<void> {
  requireScope(tx, "channels:write");
  for (const id of [...ids].sort()) await queries.selectChannel(tx.sql, tx.orgId, id, { lock: true });
}

/** Writes who declares channels. */
export async function manageChannels(tx: Ctx, changes: readonly ManagedChange[]): Promise<void> {
  requireScope(tx, "channels:write");
  await writeManaged(tx.sql, "channels", tx.orgId, changes);
}
