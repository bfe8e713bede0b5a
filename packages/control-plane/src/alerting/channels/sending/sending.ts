import { AppError } from "@statusmesh/shared/errors";
import { newId } from "@statusmesh/shared/ids";
import { messageOf } from "@statusmesh/shared/thrown";
import type { System } from "../../../platform/context.ts";
import { encryptPush } from "../../../platform/crypto/push-message.ts";
import { vapidAuthorization } from "../../../platform/crypto/vapid.ts";
import { deliverMail, type Mail } from "../../../platform/email/mail.ts";
import {
  createOutbound,
  type Outbound,
  type OutboundOptions,
  type OutboundRequest,
} from "../../../platform/outbound/client.ts";
import { allowsHttp, refuseDeniedUrls } from "../config/rules.ts";
import { type ChannelConfig, channelKinds, isChannelType, kindOf } from "../kinds/index.ts";
import { deliver } from "../kinds/deliver.ts";
import { type ChannelKind, type ChannelMessage, DeliveryError, type PushMessage } from "../kinds/kind.ts";
import { disableChannel } from "./disabling.ts";
import { contactOf, pushKeysOf } from "../devices/push-keys.ts";
import { acknowledgeTokenIn } from "./message-text.ts";
import { messageText } from "./message.ts";
import { secretMask } from "../config/presenting.ts";
import { openConfig } from "../config/sealing.ts";
import { addressToConfirm, confirmedMailHeaders } from "../verification/verification.ts";
import { type ChannelRow, selectAnyChannel } from "../queries.ts";

/** A channel for the deliverer: the secrets of its config are sealed. */
export type StoredChannel = Pick<ChannelRow, "id" | "org_id" | "kind" | "config">;

/** HTTP client for receivers, as configured. */
export function channelOutbound(
  { config, clock, authorities }: System,
  more: Pick<OutboundOptions, "ca" | "signal" | "deadlineMs"> = {},
): Outbound {
  return createOutbound({
    allowPrivate: config.security.allow_private_targets,
    allowHttp: allowsHttp(config),
    context: authorities,
    clock,
    ...more,
  });
}

/**
 * Sends one message through a stored channel. Returns the HTTP status (null for another protocol). Throws
 * DeliveryError, whose message holds no secret of the channel.
 */
export async function sendThrough(
  system: System,
  channel: StoredChannel,
  message: ChannelMessage,
  transport: Outbound,
): Promise<number | null> {
  const config = opened(system, channel);
  try {
    refuseDeniedUrls(system, config, null);
  } catch (cause) {
    if (!(cause instanceof AppError)) throw cause;
    // A domain may be listed after the channel was saved.
    throw new DeliveryError(cause.message.replace(/\.$/, ""), { permanent: true, cause });
  }
  const headers = await mailHeaders(system, channel.id, config);
  return await disablingEnded(system, channel, () => send(system, config, message, transport, headers));
}

/** Runs a send of a channel; where its receiver has ended for good, disables the channel with the reason. */
export async function disablingEnded<T>(
  system: System,
  { id, org_id: orgId }: Pick<StoredChannel, "id" | "org_id">,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof DeliveryError && error.disables !== null)
      await disableChannel(system, orgId, id, error.disables);
    throw error;
  }
}

/** Headers of a mail to a stored channel, none for other kinds. Throws DeliveryError for an unconfirmed address. */
export async function mailHeaders(system: System, id: string, config: ChannelConfig): Promise<Record<string, string>> {
  const address = addressToConfirm(config);
  const headers = address === null ? {} : await confirmedMailHeaders(system, id, address);
  // Not permanent: waiting messages are sent once the address is confirmed.
  if (headers === null) throw new DeliveryError("email address not verified");
  return headers;
}

/** Host of a stored channel. Null for a config that cannot be opened. */
export function hostOf(system: System, channel: StoredChannel): string | null {
  try {
    const config = opened(system, channel);
    return kindOf(config).host(config);
  } catch {
    return null;
  }
}

/**
 * Kinds whose channels may have rounds, those that have them unless the channel says otherwise, and those whose
 * incidents share alerts.
 */
export function roundKinds(): { possible: string[]; usual: string[]; alerts: string[] } {
  const of = (chosen: (kind: ChannelKind) => boolean) =>
    Object.values<ChannelKind>(channelKinds as never)
      .filter(chosen)
      .map(({ type }) => type);
  return {
    possible: of(({ rounds }) => rounds !== "never"),
    usual: of(({ rounds }) => rounds === "usual"),
    alerts: of(({ shares }) => shares === "alert"),
  };
}

/** How incidents of one cause share a key at the receivers of a kind; null: not at all. */
export const sharesOf = (kind: string): "alert" | "group" | null =>
  isChannelType(kind) ? ((channelKinds[kind] as ChannelKind).shares ?? null) : null;

/** True for kinds that people read, false for those of machines. */
export const isForPeople = (kind: string): boolean => isChannelType(kind) && channelKinds[kind].rounds === "usual";

/** True for kinds that wake people or charge by message: what is over by then is not sent to them. */
export const isForPhones = (kind: string): boolean =>
  isChannelType(kind) && (channelKinds[kind] as ChannelKind).phone === true;

/**
 * True where changes of a target that flaps are sent as well: to machines that count them. A channel with rounds is
 * read by people, and a round does not say that a monitor flaps.
 */
export const takesEveryChange = (kind: string, rounds: boolean | null): boolean =>
  rounds !== true && isChannelType(kind) && channelKinds[kind].everyChange;

/** The config with opened secrets; throws DeliveryError where they cannot be opened. */
export function opened(system: System, channel: StoredChannel): ChannelConfig {
  if (!isChannelType(channel.kind))
    throw new DeliveryError(`this version of StatusMesh has no channels of kind ${channel.kind}`);
  try {
    return openConfig(system, channel);
  } catch (cause) {
    throw new DeliveryError("the secrets of the channel were sealed under a key that is not configured here", {
      cause,
    });
  }
}

/** Sends one message with a config. Returns and throws like {@link sendThrough}. */
export async function send(
  system: System,
  config: ChannelConfig,
  message: ChannelMessage,
  transport: Outbound,
  headers: Record<string, string> = {},
): Promise<number | null> {
  let status: number | null = null;
  // A person who may read attempts may not be allowed to acknowledge.
  const token = acknowledgeTokenIn(messageText(message.content));
  const more = token === null ? [] : [token];
  const endpoint = system.config.channels.endpoints[kindOf(config).endpoint(config)] || undefined;
  const noting: Outbound = {
    async send(request) {
      const reply = await transport.send({ ...request, endpoint });
      status = reply.status;
      // Replies are stored and shown. Masking comes before shortening: a cut secret would no longer match.
      return { ...reply, text: secretMask(config, { request, more })(reply.text) };
    },
  };
  try {
    await kindOf(config).send(config, message, {
      http: noting,
      central: system.config.channels,
      mail: (mail) => mailTo(system, { ...mail, headers: { ...mail.headers, ...headers } }),
      push: (push) => sendPush(system, noting, push),
    });
    return status;
  } catch (error) {
    if (!(error instanceof DeliveryError)) throw error;
    throw new DeliveryError(secretMask(config, { more })(error.message), {
      permanent: error.permanent,
      status: error.status,
      retryAfterSecs: error.retryAfterSecs,
      disables: error.disables,
      cause: error,
    });
  }
}

/** Encrypts and signs a push message, and sends it: RFC 8030 section 5. */
async function sendPush(system: System, http: Outbound, push: PushMessage): Promise<void> {
  const keys = await pushKeysOf(system, push.serverKey);
  const { endpoint, topic, urgency } = push;
  await deliver(http, {
    method: "POST",
    url: endpoint,
    headers: {
      authorization: vapidAuthorization(keys, { endpoint, subject: contactOf(system), now: system.clock.now() }),
      "content-type": "application/octet-stream",
      "content-encoding": "aes128gcm",
      ttl: String(push.ttlSecs),
      urgency,
      topic,
    },
    body: encryptPush(Buffer.from(push.content), push.keys),
  });
}

/** Answers a message of a person through a stored channel, once: a reply that is lost is not sent again. */
export async function replyThrough(system: System, channelId: string, text: string): Promise<void> {
  try {
    const channel = await selectAnyChannel(system.sql, channelId);
    if (channel === null) return;
    const message = { deliveryId: newId(), content: { kind: "reply", text } as const, sentAt: system.clock.now() };
    await sendThrough(system, channel, message, channelOutbound(system, { deadlineMs: tellDeadlineMs }));
  } catch (error) {
    system.log.debug({ channel: channelId, reason: messageOf(error) }, "a reply could not be sent");
  }
}

/** How long a hook of a vendor waits for {@link tellVendor}, ms. */
const tellDeadlineMs = 2_000;

/**
 * Sends a request to a vendor beside deliveries, once: what it shows is known otherwise too. `endpoint` is the key of
 * `channels.endpoints`.
 */
export async function tellVendor(system: System, endpoint: string, request: OutboundRequest): Promise<void> {
  try {
    await channelOutbound(system, { deadlineMs: tellDeadlineMs }).send({
      ...request,
      endpoint: system.config.channels.endpoints[endpoint] || undefined,
    });
  } catch (error) {
    system.log.debug({ endpoint, reason: messageOf(error) }, "a vendor could not be notified of an acknowledgement");
  }
}

/**
 * Sends a mail that is no notification to a stored mail channel, with the link to unsubscribe. Returns when the mail
 * server has accepted it; throws DeliveryError, also for an address that is not confirmed.
 */
export async function mailThrough(system: System, channel: StoredChannel, mail: Omit<Mail, "to">): Promise<void> {
  const config = opened(system, channel);
  const to = addressToConfirm(config);
  if (to === null) throw new DeliveryError("the channel is no email channel any more", { permanent: true });
  const headers = await mailHeaders(system, channel.id, config);
  await mailTo(system, { ...mail, to, headers: { ...mail.headers, ...headers } });
}

async function mailTo({ config }: System, mail: Mail): Promise<void> {
  try {
    await deliverMail(config.email, mail);
  } catch (cause) {
    const { code, responseCode = 0 } = cause as { code?: string; responseCode?: number };
    throw new DeliveryError(cause instanceof Error ? cause.message : "the mail server did not accept the mail", {
      // RFC 5321 section 4.2.1: 5yz is a permanent refusal. A refused login is not: the operator can repair it.
      permanent: responseCode >= 500 && (code === "EENVELOPE" || code === "EMESSAGE"),
      cause,
    });
  }
}
