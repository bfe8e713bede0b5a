import { createHmac } from "node:crypto";
import type { System } from "../../../platform/context.ts";
import { sameSecret } from "../../../platform/crypto/token.ts";
import { signingKey } from "../../../platform/db/signing-keys.ts";
import type { Db } from "../../../platform/db/client/sql.ts";
import { minuteIn } from "../../../platform/zoned.ts";
import { kindLabel } from "../../channels/config/service.ts";
import type { Notice, Reason } from "../../channels/schema.ts";
import { type LinkedChannel, selectLinkedChannel, selectRegionNames } from "./acknowledge-queries.ts";
import type { Acknowledgement, ClaimedDelivery } from "../sending/claim-queries.ts";

/** Bytes of the proof in a token: 128 bits. */
const proofBytes = 16;

const uuidBytes = (id: string): Buffer => Buffer.from(id.replaceAll("-", ""), "hex");
const uuidOf = (bytes: Buffer): string =>
  bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");

/** The proof that this installation has sent the delivery. */
async function proofOf(sql: Db, deliveryId: string): Promise<string> {
  const key = await signingKey(sql, "acknowledge");
  return createHmac("sha256", key).update(deliveryId).digest().subarray(0, proofBytes).toString("base64url");
}

/**
 * Capability to acknowledge the incident of a delivery from its channel: 43 characters, the id of the delivery and a
 * proof. It is in the message only, and not stored.
 */
async function tokenOf(sql: Db, deliveryId: string): Promise<string> {
  const proof = Buffer.from(await proofOf(sql, deliveryId), "base64url");
  return Buffer.concat([uuidBytes(deliveryId), proof]).toString("base64url");
}

/** The address of the page that acknowledges; null for the notice of a recovery. */
export async function acknowledgeUrl(
  { sql, config }: Pick<System, "sql" | "config">,
  deliveryId: string,
  reason: Reason,
): Promise<string | null> {
  return reason === "resolved" ? null : `${config.server.public_url}/a/${await tokenOf(sql, deliveryId)}`;
}

/** The notice of a delivery with what is known when it is sent. */
export async function noticeToSend(
  system: Pick<System, "sql" | "config">,
  { id, notice, acknowledged }: Pick<ClaimedDelivery, "id" | "notice" | "acknowledged">,
  zone: string,
): Promise<Notice> {
  const regions = [...notice.regions_down, ...notice.regions_up];
  return {
    ...notice,
    region_names: await selectRegionNames(system.sql, regions),
    acknowledge_url: await acknowledgeUrl(system, id, notice.reason),
    acknowledged_by: acknowledged === null ? null : inWords(acknowledged, zone),
  };
}

/** `from Slack #ops by olga, 2026-11-22 14:05 UTC` */
function inWords({ at, actor_type, name, channel_type, person }: Acknowledgement, zone: string): string {
  const by = actor_type === "channel" ? person : (name ?? "a deleted user");
  const from = actor_type === "channel" ? `from ${kindLabel(channel_type ?? "")} ${name ?? ""}`.trim() : null;
  const who = [from, by === null ? null : `by ${by}`].filter(Boolean).join(" ");
  return `${who}, ${minuteIn(at, zone)}`;
}

/**
 * The incident and the channel of a token; null for a forged one, and where the channel was disabled or deleted. A
 * forged token costs one hash and no query.
 */
export async function linkedChannel({ sql }: Pick<System, "sql">, token: string): Promise<LinkedChannel | null> {
  if (!/^[\w-]{43}$/.test(token)) return null;
  const bytes = Buffer.from(token, "base64url");
  const deliveryId = uuidOf(bytes.subarray(0, -proofBytes));
  const proof = bytes.subarray(-proofBytes).toString("base64url");
  if (!sameSecret(proof, await proofOf(sql, deliveryId))) return null;
  return await selectLinkedChannel(sql, deliveryId);
}
