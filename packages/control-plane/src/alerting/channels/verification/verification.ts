import { createHmac } from "node:crypto";
import { AppError } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import { dayMs } from "@statusmesh/shared/time";
import { differences, record } from "../../../access/audit/service.ts";
import { asSystem, type Ctx, inTransaction, requireScope, type System } from "../../../platform/context.ts";
import { hashToken, newToken, sameSecret } from "../../../platform/crypto/token.ts";
import { type Mailed, sendMail } from "../../../platform/email/mail.ts";
import { mailHtml, mailText, nameWithoutUrl } from "../../../platform/email/layout.ts";
import { findChannel } from "../find.ts";
import { type ChannelConfig, kindOf } from "../kinds/index.ts";
import { present } from "../config/presenting.ts";
import * as channels from "../queries.ts";
import * as queries from "./queries.ts";

/** A link is valid for a day. */
const lifetimeMs = dayMs;
/** Mails that are sent again within a day, per channel and per organisation. */
const maxAgain = { channel: 5, org: 20 };
/** Mails for new and replaced configs of an organisation within a day: a loop of creations must not flood mailboxes. */
const maxFirst = 100;

/** A mail to send once its transaction is committed. */
export interface VerificationMail {
  address: string;
  channelName: string;
  orgName: string;
  code: string;
}

type Issuer = Pick<channels.ChannelRow, "id" | "org_id" | "name">;

/** The address that must confirm the config; null for kinds that need no confirmation. */
export const addressToConfirm = (config: ChannelConfig): string | null => kindOf(config).confirms?.(config) ?? null;

/**
 * Starts the verification of a new or replaced config in its transaction; null for kinds that need none. Throws
 * CHANNEL_VERIFICATION_LIMIT.
 */
export async function beginVerification(
  tx: System,
  row: Issuer,
  config: ChannelConfig,
): Promise<VerificationMail | null> {
  await queries.expireVerifications(tx.sql, row.id, new Date(tx.clock.now()));
  const address = addressToConfirm(config);
  return address === null ? null : await issue(tx, row, address, false);
}

async function issue(
  tx: System,
  { id, org_id: orgId, name }: Issuer,
  address: string,
  resent: boolean,
): Promise<VerificationMail> {
  const now = tx.clock.now();
  const orgName = await queries.lockOrg(tx.sql, orgId);
  const sent = await queries.countVerifications(tx.sql, orgId, id, new Date(now - dayMs));
  if (resent && sent.channel >= maxAgain.channel) throw overLimit("channel", maxAgain.channel);
  if (resent && sent.again >= maxAgain.org) throw overLimit("organisation", maxAgain.org);
  if (!resent && sent.first >= maxFirst) throw overLimit("organisation", maxFirst);
  const code = newToken("");
  await queries.insertVerification(tx.sql, {
    id: newId(),
    org_id: orgId,
    channel_id: id,
    address,
    code_hash: hashToken(code),
    resent,
    created_at: new Date(now),
    expires_at: new Date(now + lifetimeMs),
  });
  return { address, channelName: name, orgName, code };
}

function overLimit(scope: "channel" | "organisation", limit: number): AppError {
  return new AppError(
    "CHANNEL_VERIFICATION_LIMIT",
    `This ${scope} has sent ${limit} verification mails within 24 hours. Look for the mail in the junk ` +
      "folder, or try again tomorrow.",
    { details: { scope, limit } },
  );
}

/** Sends the mail with the link. Never throws: the owner can send the mail again. */
export async function sendVerificationMail(
  system: System,
  { address, channelName, orgName, code }: VerificationMail,
): Promise<Mailed> {
  const name = nameWithoutUrl(channelName, "");
  const channel = name === "" ? "" : ` (channel “${name}”)`;
  const words = {
    tone: "plain",
    title: "Confirm this address",
    paragraphs: [
      `${nameWithoutUrl(orgName, "An organisation")} wants to send monitoring notifications to ${address}${channel}.`,
      "Nothing is sent until you confirm. The link works once, for 24 hours.",
    ],
    link: { label: "Confirm address", url: `${system.config.server.public_url}/confirm/${code}` },
    footer: "If you did not expect this mail, ignore it: you will receive nothing else.",
  } as const;
  return await sendMail(system, {
    to: address,
    subject: "Confirm this address for notifications of StatusMesh",
    text: mailText(words),
    html: mailHtml(words),
  });
}

/**
 * Sends the verification mail of a stored channel again. Throws CHANNEL_NOT_FOUND, CHANNEL_NOT_VERIFIABLE,
 * CHANNEL_VERIFICATION_LIMIT.
 */
export async function resendVerification(ctx: Ctx, id: string): Promise<{ mail: Mailed }> {
  requireScope(ctx, "channels:write");
  const mail = await inTransaction(ctx, async (tx) => {
    const row = await findChannel(tx, id, { lock: true });
    const address = addressToConfirm(row.config);
    if (address === null)
      throw new AppError("CHANNEL_NOT_VERIFIABLE", "Only email channels are verified. This channel needs none.");
    if (row.verified_at !== null)
      throw new AppError("CHANNEL_NOT_VERIFIABLE", "The address of this channel is confirmed already.");
    const issued = await issue(tx, row, address, true);
    await record(tx, { resourceId: id, after: { name: row.name, address } });
    return issued;
  });
  return { mail: await sendVerificationMail(ctx, mail) };
}

/** Data of the page of a confirmation link; null for an unknown, used or expired one. */
export async function pendingVerification(
  system: System,
  code: string,
): Promise<{ address: string; org: string } | null> {
  const found = await queries.selectPending(system.sql, hashToken(code), new Date(system.clock.now()));
  return found === null ? null : { address: found.address, org: found.org_name };
}

/** Confirms the address of a link. Throws CHANNEL_LINK_INVALID. */
export async function confirmAddress(system: System, code: string, ip: string): Promise<void> {
  await inTransaction(system, async (tx) => {
    const now = new Date(tx.clock.now());
    const found = await queries.selectPending(tx.sql, hashToken(code), now);
    // The channel first, as everywhere: its config decides whether the link still holds.
    const row = found && (await channels.selectChannel(tx.sql, found.org_id, found.channel_id, { lock: true }));
    const holds = row !== null && addressToConfirm(row.config) === found?.address;
    if (!holds || !(await queries.confirmVerification(tx.sql, found!.id, now)))
      throw new AppError(
        "CHANNEL_LINK_INVALID",
        "This link is unknown, used or older than 24 hours. Ask for a new mail.",
      );
    await channels.setVerified(tx.sql, row.org_id, row.id, now);
    const [before, after] = [present(tx, row), present(tx, { ...row, verified_at: now })];
    await record(asSystem(tx, row.org_id, "POST /confirm/{code}", { ip }), {
      resourceId: row.id,
      ...differences({ before, after }),
    });
  });
}

/** Headers of a mail to a confirmed address, for one-click unsubscription; null while the address is not confirmed. */
export async function confirmedMailHeaders(
  { sql, config }: System,
  channelId: string,
  address: string,
): Promise<Record<string, string> | null> {
  const confirmed = await queries.selectConfirmed(sql, channelId);
  if (confirmed === null || confirmed.address !== address) return null;
  const url = `${config.server.public_url}/unsubscribe/${channelId}/${proofOf(confirmed.code_hash, channelId)}`;
  return {
    "List-Unsubscribe": `<${url}>`,
    // RFC 8058 section 3.1.
    "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
  };
}

/** Deletes mails older than a week with unusable links, for the nightly purge. Returns their number. */
export async function purgeVerifications({ sql, clock }: System): Promise<number> {
  const now = clock.now();
  return await queries.deleteUselessVerifications(sql, new Date(now), new Date(now - 7 * dayMs));
}

/** Capability to unsubscribe: only mails to the confirmed address contain it, and it is not stored. */
const proofOf = (codeHash: Buffer, channelId: string): string =>
  createHmac("sha256", codeHash).update(`unsubscribe ${channelId}`).digest("base64url");

/** The address that a link of a mail unsubscribes; null for an invalid link. */
export async function subscribedAddress(system: System, channelId: string, proof: string): Promise<string | null> {
  const confirmed = isId(channelId) ? await queries.selectConfirmed(system.sql, channelId) : null;
  if (confirmed === null || !sameSecret(proofOf(confirmed.code_hash, channelId), proof)) return null;
  return confirmed.address;
}

/**
 * Stops mails to an address: the channel is disabled, and its address must confirm again. Throws CHANNEL_LINK_INVALID.
 */
export async function unsubscribe(system: System, channelId: string, proof: string, ip: string): Promise<void> {
  await inTransaction(system, async (tx) => {
    const confirmed = isId(channelId) ? await queries.selectConfirmed(tx.sql, channelId) : null;
    const row = confirmed && (await channels.selectChannel(tx.sql, confirmed.org_id, channelId, { lock: true }));
    if (row === null || (await subscribedAddress(tx, channelId, proof)) === null)
      throw new AppError("CHANNEL_LINK_INVALID", "This link is not valid, or the address is unsubscribed already.");
    const after = await channels.disableChannel(tx.sql, row, {
      reason: "the recipient unsubscribed",
      at: new Date(tx.clock.now()),
      verified: false,
    });
    await queries.expireVerifications(tx.sql, channelId, new Date(tx.clock.now()));
    await record(asSystem(tx, row.org_id, "POST /unsubscribe/{id}/{code}", { ip }), {
      resourceId: channelId,
      ...differences({ before: present(tx, row), after: present(tx, after) }),
    });
  });
}
