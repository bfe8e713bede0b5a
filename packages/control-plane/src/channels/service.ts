import postgres from "postgres";
import { AppError } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import { blockedHost } from "@statusmesh/shared/net/address";
import { mask } from "@statusmesh/shared/secrets";
import { refuseDeniedHost } from "../abuse/service.ts";
import { differences, record } from "../audit/service.ts";
import type { Config } from "../config.ts";
import { type Ctx, inTransaction, requireScope, type System } from "../context.ts";
import { refuseMovedSecrets } from "../crypto/kept-secrets.ts";
import { deliverMail, type Mail } from "../email/mail.ts";
import { createOutbound, type Outbound, type OutboundOptions } from "../outbound/client.ts";
import type { Page } from "../http/wire.ts";
import { takeQuota } from "../plans/service.ts";
import { type ChannelConfig, channelKinds, isChannelType, kindOf } from "./kinds/index.ts";
import { type ChannelMessage, DeliveryError } from "./kinds/kind.ts";
import { secretMask } from "./masking.ts";
import { present } from "./presenting.ts";
import * as queries from "./queries.ts";
import { openConfig, openConfigPartly, sealConfig } from "./sealing.ts";
import type { Channel, ChannelCreate, ChannelListQuery, ChannelPatch, ChannelTest } from "./schema.ts";
import { addressToConfirm, beginVerification, confirmedMailHeaders, sendVerificationMail } from "./verification.ts";

export { DeliveryError } from "./kinds/kind.ts";
export { resealChannels, unreadableChannels } from "./sealing.ts";
export {
  confirmAddress,
  pendingVerification,
  resendVerification,
  subscribedAddress,
  unsubscribe,
} from "./verification.ts";

/**
 * Creates a channel; an email channel sends its verification mail. Throws CHANNEL_NAME_TAKEN, CHANNEL_QUOTA_EXCEEDED,
 * CHANNEL_VERIFICATION_LIMIT, and the errors of {@link checkConfig}.
 */
export async function createChannel(ctx: Ctx, input: ChannelCreate): Promise<Channel> {
  requireScope(ctx, "channels:write");
  checkConfig(ctx, input.config);
  const id = newId();
  const at = new Date(ctx.clock.now());
  const row = {
    id,
    org_id: ctx.orgId,
    name: input.name,
    kind: input.config.type,
    config: sealConfig(ctx, ctx.orgId, id, input.config),
    enabled: input.enabled ?? true,
    disabled_reason: null,
    verified_at: null,
    write_source: ctx.writeSource,
    created_at: at,
    updated_at: at,
  };
  const { made, mail } = await inTransaction(ctx, async (tx) => {
    await takeQuota(tx, "max_notification_channels", async () => ({
      current: await queries.countChannels(tx.sql, ctx.orgId),
      adding: 1,
    }));
    const verification = await beginVerification(tx, row, input.config);
    const channel = present(await nameTaken(() => queries.insertChannel(tx.sql, row)));
    await record(tx, { resourceId: id, after: channel });
    return { made: channel, mail: verification };
  });
  if (mail !== null) await sendVerificationMail(ctx, mail);
  return made;
}

/** A page of the organisation's channels, oldest first, secrets masked. */
export async function listChannels(ctx: Ctx, { limit, offset }: ChannelListQuery): Promise<Page<Channel>> {
  requireScope(ctx, "channels:read");
  const [rows, total] = await Promise.all([
    queries.selectChannels(ctx.sql, ctx.orgId, limit, offset),
    queries.countChannels(ctx.sql, ctx.orgId),
  ]);
  return { items: rows.map(present), total, limit, offset };
}

/** One channel, secrets masked. Throws CHANNEL_NOT_FOUND. */
export async function getChannel(ctx: Ctx, id: string): Promise<Channel> {
  requireScope(ctx, "channels:read");
  return present(await stored(ctx, id));
}

/**
 * Changes the given fields; a config replaces the stored one as a whole, and its address has to confirm anew. Enabling
 * clears `disabled_reason`. Throws CREDENTIALS_REQUIRED for a config with another address and a masked secret.
 */
export async function updateChannel(ctx: Ctx, id: string, patch: ChannelPatch): Promise<Channel> {
  requireScope(ctx, "channels:write");
  const { channel, mail } = await inTransaction(ctx, async (tx) => {
    const row = isId(id) ? await queries.lockChannel(tx.sql, tx.orgId, id) : undefined;
    if (row === undefined) throw notFound();
    if (patch.config !== undefined) {
      refuseKeptSecrets(tx, row, patch.config);
      checkConfig(tx, patch.config);
    }
    const changed = {
      ...row,
      name: patch.name ?? row.name,
      enabled: patch.enabled ?? row.enabled,
      disabled_reason: patch.enabled === true ? null : row.disabled_reason,
      kind: patch.config?.type ?? row.kind,
      config: patch.config === undefined ? row.config : sealConfig(tx, tx.orgId, id, patch.config),
      verified_at: patch.config === undefined ? row.verified_at : null,
      write_source: tx.writeSource,
      updated_at: new Date(tx.clock.now()),
    };
    if (patch.config !== undefined) await queries.resetHealth(tx.sql, id);
    const verification = patch.config === undefined ? null : await beginVerification(tx, changed, patch.config);
    const [before, after] = [present(row), present(await nameTaken(() => queries.updateChannel(tx.sql, changed)))];
    const real = patch.config && {
      before: { ...before, config: known(tx, row) },
      after: { ...after, config: patch.config },
    };
    await record(tx, { resourceId: id, ...differences({ before, after }, real) });
    return { channel: after, mail: verification };
  });
  if (mail !== null) await sendVerificationMail(ctx, mail);
  return channel;
}

/** Deletes a channel and its bindings. Its pending deliveries end as dead. */
export async function deleteChannel(ctx: Ctx, id: string): Promise<void> {
  requireScope(ctx, "channels:write");
  await inTransaction(ctx, async (tx) => {
    const row = isId(id) ? await queries.lockChannel(tx.sql, tx.orgId, id) : undefined;
    if (row === undefined) throw notFound();
    await queries.deleteChannel(tx.sql, tx.orgId, id);
    await record(tx, { resourceId: id, before: present(row) });
  });
}

/** Sends a test message with an unsaved config. Throws CHANNEL_TEST_FAILED with the reply of the receiver. */
export async function testConfig(
  ctx: Ctx,
  { config }: ChannelTest,
  transport: Outbound = channelOutbound(ctx),
): Promise<void> {
  requireScope(ctx, "channels:write");
  checkConfig(ctx, config);
  if (addressToConfirm(config) !== null) throw unverified();
  await sendTest(ctx, () => send(ctx, config, testMessage(ctx), transport));
}

/**
 * Sends a test message with the stored config, also of a disabled channel. Throws CHANNEL_TEST_FAILED,
 * DOMAIN_DENYLISTED.
 */
export async function testChannel(ctx: Ctx, id: string, transport: Outbound = channelOutbound(ctx)): Promise<void> {
  requireScope(ctx, "channels:write");
  const row = await stored(ctx, id);
  if (isChannelType(row.kind) && addressToConfirm(row.config) !== null && row.verified_at === null) throw unverified();
  await sendTest(ctx, async () => {
    const config = opened(ctx, row);
    refuseDeniedUrls(ctx, config, null);
    await send(ctx, config, testMessage(ctx), transport, await mailHeaders(ctx, id, config));
  });
}

/**
 * The organisation's channels among `ids`; invalid ids are ignored. For the transaction that binds them: they are not
 * deleted before it ends. Without a scope check, for other services.
 */
export async function existingChannelIds(system: System, orgId: string, ids: readonly string[]): Promise<Set<string>> {
  const asked = [...new Set(ids)].filter(isId);
  return new Set(asked.length === 0 ? [] : await queries.keepChannels(system.sql, orgId, asked));
}

/** A channel for the deliverer: the secrets of its config are sealed. */
export interface StoredChannel {
  id: string;
  org_id: string;
  kind: string;
  config: ChannelConfig;
}

/** HTTP client for receivers, as configured. */
export function channelOutbound(
  { config, clock, authorities }: System,
  more: Pick<OutboundOptions, "ca" | "signal"> = {},
): Outbound {
  return createOutbound({
    allowPrivate: config.security.allow_private_targets,
    allowHttp: allowsHttp(config),
    context: authorities,
    clock,
    ...more,
  });
}

/** Plain http reveals outages to the whole network, so it is for private networks only. */
const allowsHttp = ({ channels, security }: Config): boolean => channels.allow_http && security.allow_private_targets;

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
  return await send(system, config, message, transport, await mailHeaders(system, channel.id, config));
}

/** Headers of a mail to a stored channel, none for other kinds. Throws DeliveryError for an unconfirmed address. */
async function mailHeaders(system: System, id: string, config: ChannelConfig): Promise<Record<string, string>> {
  const address = addressToConfirm(config);
  const headers = address === null ? {} : await confirmedMailHeaders(system, id, address);
  // Not permanent: what waits is sent once the address is confirmed.
  if (headers === null) throw new DeliveryError("email address not verified");
  return headers;
}

/** Host that a stored channel sends to, and whether it takes digests. Null where its config cannot be opened. */
export function receiverOf(system: System, channel: StoredChannel): { host: string; digests: boolean } | null {
  try {
    const config = opened(system, channel);
    const kind = kindOf(config);
    return { host: kind.host(config), digests: kind.digests };
  } catch {
    return null;
  }
}

/** Kinds whose channels take a digest of many incidents. */
export const digestingKinds = (): string[] =>
  Object.values(channelKinds)
    .filter(({ digests }) => digests)
    .map(({ type }) => type);

/** The config with opened secrets; throws DeliveryError where they cannot be opened. */
function opened(system: System, channel: StoredChannel): ChannelConfig {
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

async function send(
  system: System,
  config: ChannelConfig,
  message: ChannelMessage,
  transport: Outbound,
  headers: Record<string, string> = {},
): Promise<number | null> {
  let status: number | null = null;
  const endpoint = system.config.channels.endpoints[kindOf(config).endpoint(config)] || undefined;
  const noting: Outbound = {
    async send(request) {
      const reply = await transport.send({ ...request, endpoint });
      status = reply.status;
      // A reply is stored and shown. It is masked before a kind shortens it, or the rest of a secret would stay.
      return { ...reply, text: secretMask(config, request)(reply.text) };
    },
  };
  try {
    await kindOf(config).send(config, message, {
      http: noting,
      mail: (mail) => mailTo(system, { ...mail, headers: { ...mail.headers, ...headers } }),
    });
    return status;
  } catch (error) {
    if (!(error instanceof DeliveryError)) throw error;
    throw new DeliveryError(secretMask(config)(error.message), {
      permanent: error.permanent,
      status: error.status,
      retryAfterSecs: error.retryAfterSecs,
      cause: error,
    });
  }
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

async function sendTest(ctx: Ctx, work: () => unknown): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof DeliveryError)) throw error;
    ctx.log.debug({ reason: error.message }, "a channel test failed");
    throw new AppError("CHANNEL_TEST_FAILED", `The test message was not delivered: ${error.message}.`, {
      details: { status: error.status, reason: error.message },
      cause: error,
    });
  }
}

function testMessage(ctx: Ctx): ChannelMessage {
  const now = ctx.clock.now();
  return {
    deliveryId: newId(),
    sentAt: now,
    content: {
      kind: "test",
      notice: {
        incident_id: newId(),
        target_id: newId(),
        monitor_name: "Test monitor",
        reason: "opened",
        severity: "minor",
        urgency: "low",
        started_at: new Date(now).toISOString(),
        ended_at: null,
        error_sample: "This is a test message. Nothing is wrong.",
        regions_down: [],
        regions_up: [],
        url: ctx.config.server.public_url,
      },
    },
  };
}

async function stored(ctx: Ctx, id: string): Promise<queries.ChannelRow> {
  const row = isId(id) ? await queries.selectChannel(ctx.sql, ctx.orgId, id) : undefined;
  if (row === undefined) throw notFound();
  return row;
}

/** Throws CREDENTIALS_REQUIRED. A config of another kind keeps nothing. */
function refuseKeptSecrets(system: System, row: queries.ChannelRow, after: ChannelConfig): void {
  if (row.kind !== after.type) return;
  refuseMovedSecrets(kindOf(after), {
    before: known(system, row),
    after,
    isSent: (_pointer, secret) => secret !== mask,
    base: "/config",
  });
}

/** The stored config with the secrets that open, to compute the changes of an edit. */
const known = (system: System, row: queries.ChannelRow): ChannelConfig => openConfigPartly(system, row).value;

const notFound = () => new AppError("CHANNEL_NOT_FOUND", "Channel not found.");

const unverified = () =>
  new AppError(
    "CHANNEL_UNVERIFIED",
    "email address not verified: open the link in the mail that creating the channel has sent.",
  );

/**
 * Throws REDACTION_SENTINEL, INVALID_CHANNEL_CONFIG or SSRF_BLOCKED; the field points into a body with the config at
 * `config`.
 */
function checkConfig(ctx: Ctx, config: ChannelConfig): void {
  const kind = kindOf(config);
  kind.mapSecrets(config, (secret, pointer) => {
    if (secret === mask)
      throw new AppError(
        "REDACTION_SENTINEL",
        `${mask} is how a secret reads, not what it is. Send the secret itself, or leave config out to keep what is stored.`,
        {
          field: `/config${pointer}`,
        },
      );
    return secret;
  });
  try {
    kind.rules(config, { http: allowsHttp(ctx.config) });
  } catch (error) {
    if (!(error instanceof AppError) || error.field === null) throw error;
    throw new AppError(error.code, error.message, {
      field: `/config${error.field}`,
      details: error.details,
      cause: error,
    });
  }
  refuseDeniedUrls(ctx, config, "/config");
  if (ctx.config.security.allow_private_targets) return;
  for (const { url, pointer } of kind.urls(config)) {
    const range = blockedHost(hostOf(url));
    if (range !== null)
      throw new AppError(
        "SSRF_BLOCKED",
        "The URL leads to a private or reserved address. Use one that is reachable from the internet.",
        {
          field: `/config${pointer}`,
          details: { range },
        },
      );
  }
}

/** Throws DOMAIN_DENYLISTED; `base` is the pointer of the config in the body, or null. */
function refuseDeniedUrls(ctx: Pick<System, "abuse">, config: ChannelConfig, base: string | null): void {
  for (const { url, pointer } of kindOf(config).urls(config))
    refuseDeniedHost(ctx, hostOf(url), base === null ? null : base + pointer);
}

const hostOf = (url: string): string => new URL(url).hostname.replace(/^\[|\]$/g, "");

async function nameTaken<T>(write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    if (!(error instanceof postgres.PostgresError) || error.constraint_name !== "channels_org_id_name_key") throw error;
    throw new AppError("CHANNEL_NAME_TAKEN", "Another channel of this organisation has this name.", {
      field: null,
      cause: error,
    });
  }
}
