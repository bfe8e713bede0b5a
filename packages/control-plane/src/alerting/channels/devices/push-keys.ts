import { newId } from "@statusmesh/shared/ids";
import { inTransaction, type System } from "../../../platform/context.ts";
import { countUnreadable, type ReadBatch } from "../../../platform/crypto/opening.ts";
import { resealer } from "../../../platform/crypto/reseal.ts";
import { type Sealer, UnreadableSecret } from "../../../platform/crypto/seal.ts";
import { newVapidKeys, type VapidKeys } from "../../../platform/crypto/vapid.ts";
import { DeliveryError } from "../kinds/kind.ts";
import * as queries from "./push-key-queries.ts";

/*
 * The key pair by which push services know this installation (VAPID, RFC 8292). A subscription is bound to the public
 * key that it was made with, so each device keeps it: a new pair is made only where none can be opened, and devices of
 * the old one work again once its sealing key is configured.
 */

const placeOf = ({ public_key }: Pick<queries.PushKeyRow, "public_key">): string => `push_keys/${public_key}`;

/** Opened keys of a process; a pair never changes. */
const known = new WeakMap<Sealer, Map<string, VapidKeys>>();

/** Throws {@link UnreadableSecret}. */
function open(sealer: Sealer, row: queries.PushKeyRow): VapidKeys {
  return { publicKey: row.public_key, privateKey: sealer.open(row.private_key, placeOf(row)) };
}

/** The key pair that a device was registered with. Throws DeliveryError where it cannot be opened. */
export async function pushKeysOf({ sql, sealer }: System, publicKey: string): Promise<VapidKeys> {
  const opened = known.get(sealer) ?? new Map<string, VapidKeys>();
  known.set(sealer, opened);
  const before = opened.get(publicKey);
  if (before !== undefined) return before;
  const row = await queries.selectPushKey(sql, publicKey);
  if (row === null) throw new DeliveryError("the push key of this device is no longer stored: register it anew");
  try {
    const keys = open(sealer, row);
    opened.set(publicKey, keys);
    return keys;
  } catch (cause) {
    if (!(cause instanceof UnreadableSecret)) throw cause;
    throw new DeliveryError("the push key of this device was sealed under a key that is not configured here", {
      cause,
    });
  }
}

/** The newest public key whose private key can be opened; makes the pair at the first call. */
export async function currentPushKey(system: System): Promise<string> {
  const found = await newestReadable(system);
  if (found !== null) return found;
  return await inTransaction(system, async (tx) => {
    await queries.lockPushKeys(tx.sql);
    const meanwhile = await newestReadable(tx);
    if (meanwhile !== null) return meanwhile;
    const keys = newVapidKeys();
    const row = { id: newId(), public_key: keys.publicKey, created_at: new Date(tx.clock.now()) };
    await queries.insertPushKey(tx.sql, { ...row, private_key: tx.sealer.seal(keys.privateKey, placeOf(row)) });
    return keys.publicKey;
  });
}

async function newestReadable({ sql, sealer }: System): Promise<string | null> {
  for (const row of await queries.selectPushKeys(sql)) {
    try {
      return open(sealer, row).publicKey;
    } catch (error) {
      if (!(error instanceof UnreadableSecret)) throw error;
    }
  }
  return null;
}

/**
 * Contact of the sender for push services (RFC 8292 section 2.1): the operator's address, else the https address of the
 * installation.
 */
export function contactOf({ config }: Pick<System, "config">): string {
  const { operator, bootstrap, server, email } = config;
  // Some push services refuse addresses at localhost, which the defaults have.
  const address = [operator.email, bootstrap.email].find((one) => one !== "" && !one.endsWith("@localhost"));
  if (address !== undefined) return `mailto:${address}`;
  if (server.public_url.startsWith("https:")) return server.public_url;
  return `mailto:${/<([^<>]*)>/.exec(email.from)?.[1] ?? email.from}`;
}

/** Counts the unreadable keys among up to `limit` after `after`. For the doctor. */
export async function unreadablePushKeys(
  { sql, sealer }: System,
  after: string | null,
  limit: number,
): Promise<ReadBatch> {
  return countUnreadable(await queries.selectSealedKeys(sql, after, limit), limit, (row) => open(sealer, row));
}

/** Seals push keys under the current key. */
export const resealPushKeys = resealer<queries.PushKeyRow, string>({
  rows: (sql, after, limit) => queries.selectSealedKeys(sql, after, limit, { lock: true }),
  map: (row, change) => change(row.private_key, placeOf(row)),
  store: queries.storePrivateKey,
});
