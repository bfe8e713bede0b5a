import { AppError } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import { mask } from "@statusmesh/shared/secrets";
import { differences, record } from "../../access/audit/service.ts";
import {
  afterCommit,
  type ActorCtx,
  type Ctx,
  inTransaction,
  requireScope,
  type System,
} from "../../platform/context.ts";
import { refuseMovedSecrets } from "../../platform/crypto/kept-secrets.ts";
import type { Mail } from "../../platform/email/mail.ts";
import { unlessTaken } from "../../platform/db/client/sql.ts";
import { type Page, pageOf } from "../../platform/http/wire.ts";
import { takeOne } from "../../access/plans/service.ts";
import { checkConfig } from "./config/rules.ts";
import { findChannel } from "./find.ts";
import { checkedHours } from "./hours.ts";
import { type ChannelConfig, completed, kindOf } from "./kinds/index.ts";
import { DeliveryError } from "./kinds/kind.ts";
import { secretFields } from "./kinds/secrets.ts";
import { present } from "./config/presenting.ts";
import * as queries from "./queries.ts";
import { checkedRoute } from "./routes/routes.ts";
import { openConfigPartly, sealConfig } from "./config/sealing.ts";
import { mailThrough } from "./sending/sending.ts";
import type { Channel, ChannelCreate, ChannelListQuery, ChannelPatch } from "./schema.ts";
import { beginVerification, sendVerificationMail, type VerificationMail } from "./verification/verification.ts";
export { checkedHours, isWithin, nextBegin } from "./hours.ts";
export { severityOrder } from "./severity-queries.ts";
export { keepDefaults as keepDefaultChannels } from "./queries.ts";

/**
 * Creates a channel; an email channel sends its verification mail. Throws CHANNEL_NAME_TAKEN, CHANNEL_QUOTA_EXCEEDED,
 * CHANNEL_VERIFICATION_LIMIT, and the errors of {@link checkConfig}.
 */
export async function createChannel(ctx: Ctx, input: ChannelCreate, id = newId()): Promise<Channel> {
  requireScope(ctx, "channels:write");
  checkConfig(ctx, input.config);
  const { channel, mail } = await inTransaction(ctx, async (tx) => insertNew(tx, input, id));
  if (mail !== null) await afterCommit(ctx, (system) => sendVerificationMail(system, mail));
  return channel;
}

/** A channel that a link code creates. `config` is checked by {@link checkConfig} unless its kind is managed. */
export interface Connected {
  name: string;
  config: ChannelConfig;
}

/**
 * Creates a channel in the transaction of a link code, which authorizes it; a taken name gets a number. Returns it
 * with the verification mail to send after the commit. Throws CHANNEL_QUOTA_EXCEEDED and the errors of
 * {@link createChannel}.
 */
export async function connectChannel(
  tx: ActorCtx,
  { name, config }: Connected,
): Promise<{ channel: Channel; mail: VerificationMail | null }> {
  if (kindOf(config).managed !== true) checkConfig(tx, config);
  const start = [...name].slice(0, 95).join("");
  const taken = new Set(await queries.selectNames(tx.sql, tx.orgId, start));
  let free = taken.has(name) ? `${start} 2` : name;
  for (let number = 3; taken.has(free); number++) free = `${start} ${number}`;
  return await insertNew(tx, { name: free, config });
}

async function insertNew(
  tx: ActorCtx,
  input: Omit<ChannelCreate, "write_source" | "managed_by">,
  id = newId(),
): Promise<{ channel: Channel; mail: VerificationMail | null }> {
  const at = new Date(tx.clock.now());
  const config = completed(input.config);
  const row = {
    id,
    org_id: tx.orgId,
    name: input.name,
    kind: config.type,
    config: sealConfig(tx, tx.orgId, id, config),
    enabled: input.enabled ?? true,
    is_default: input.is_default ?? false,
    active_hours: checkedHours(input.active_hours ?? null),
    route: checkedRoute(input.route ?? null),
    min_severity: input.min_severity ?? "minor",
    rounds: input.rounds ?? null,
    write_source: tx.writeSource,
    created_at: at,
    updated_at: at,
  };
  await takeOne(tx, "max_notification_channels", () => queries.countChannels(tx.sql, tx.orgId));
  const mail = await beginVerification(tx, row, config);
  const channel = present(tx, await unlessTaken(queries.insertChannel(tx.sql, row), nameTaken));
  await record(tx, { resourceId: id, after: channel });
  return { channel, mail };
}

/** A page of the organisation's channels and own devices, oldest first, secrets masked. */
export async function listChannels(ctx: Ctx, paging: ChannelListQuery): Promise<Page<Channel>> {
  requireScope(ctx, "channels:read");
  const reach = { userId: ctx.userId, everyDevice: false };
  return pageOf(await queries.selectChannels(ctx.sql, ctx.orgId, reach, paging), paging, (row) => present(ctx, row));
}

/** Ladders that use the channels of the organisation, by their id. */
export async function laddersOfChannels(ctx: Ctx): Promise<Map<string, queries.LadderUse>> {
  requireScope(ctx, "channels:read");
  return new Map((await queries.selectLadderUse(ctx.sql, ctx.orgId)).map((use) => [use.id, use]));
}

export interface ChannelChoice extends Pick<queries.ChannelRow, "id" | "name" | "is_default"> {
  /** Kind, and what an operator should know before relying on it. */
  note: string;
}

/**
 * Every channel that the caller may bind, for the forms that choose among them; of the devices of others those that are
 * `kept`, as they are bound already. An owner is shown whose each device is.
 */
export async function channelChoices(ctx: Ctx, kept: readonly string[] = []): Promise<ChannelChoice[]> {
  requireScope(ctx, "channels:read");
  const isOwner = ctx.role === "owner";
  const reach = { userId: ctx.userId, everyDevice: isOwner, kept };
  const { rows } = await queries.selectChannels(ctx.sql, ctx.orgId, reach, { limit: 1000, offset: 0 });
  return rows.map((row) => {
    const { id, name: shown, is_default, config, person, ...state } = present(ctx, row);
    const isForeign = person !== null && person.user_id !== ctx.userId;
    const name = !isForeign ? shown : isOwner ? `${shown} (${person.email})` : row.name;
    const warning = !state.enabled
      ? "disabled"
      : state.failing_since !== null
        ? "failing"
        : state.tested_at === null && state.last_delivery === null
          ? "never tested"
          : "";
    return { id, name, is_default, note: [kindOf(config).label, warning].filter(Boolean).join(", ") };
  });
}

/**
 * Sends a mail that is no notification through a mail channel. Throws DeliveryError, permanent for a channel that is
 * gone. Without a scope check.
 */
export async function mailChannel(system: System, orgId: string, id: string, mail: Omit<Mail, "to">): Promise<void> {
  const row = await queries.selectChannel(system.sql, orgId, id);
  if (row === null) throw new DeliveryError("the channel was deleted", { permanent: true });
  await mailThrough(system, row, mail);
}

/** The channels and own devices with every word in name or kind, and how many; `words` are in lower case. */
export async function searchChannels(ctx: Ctx, words: readonly string[], limit: number) {
  requireScope(ctx, "channels:read");
  const rows = await queries.searchChannels(ctx.sql, ctx.orgId, words, { userId: ctx.userId, limit });
  return { items: rows, total: rows[0]?.total ?? 0 };
}

/** One channel, secrets masked. Throws CHANNEL_NOT_FOUND. */
export async function getChannel(ctx: Ctx, id: string): Promise<Channel> {
  requireScope(ctx, "channels:read");
  return present(ctx, await findChannel(ctx, id));
}

/**
 * Changes the given fields; a config replaces the stored one as a whole, and its address must be confirmed again.
 * Enabling clears `disabled_reason`. Throws CREDENTIALS_REQUIRED for a config with another address and a masked secret,
 * and, unless it `dropsSecrets`, for one that leaves out a stored secret.
 */
export async function updateChannel(
  ctx: Ctx,
  id: string,
  { config: sent, ...rest }: ChannelPatch,
  { dropsSecrets = false }: { dropsSecrets?: boolean } = {},
): Promise<Channel> {
  requireScope(ctx, "channels:write");
  const patch = { ...rest, config: sent === undefined ? undefined : completed(sent) };
  const { channel, mail } = await inTransaction(ctx, async (tx) => {
    const row = await findChannel(tx, id, { lock: true });
    if (patch.config !== undefined) {
      if (row.owner_id !== null)
        throw new AppError(
          "INVALID_CHANNEL_CONFIG",
          "A device is changed in its own browser: register it again there.",
          {
            field: "/config",
          },
        );
      if (!dropsSecrets) refuseDroppedSecrets(row, sent!);
      refuseKeptSecrets(tx, row, patch.config);
      checkConfig(tx, patch.config);
    }
    const isDevice = row.owner_id !== null;
    const changed = {
      ...row,
      name: isDevice ? row.name : (patch.name ?? row.name),
      device_name: isDevice ? (patch.name ?? row.device_name) : null,
      enabled: patch.enabled ?? row.enabled,
      disabled_reason: patch.enabled === true ? null : row.disabled_reason,
      kind: patch.config?.type ?? row.kind,
      config: patch.config === undefined ? row.config : sealConfig(tx, tx.orgId, id, patch.config),
      is_default: patch.is_default ?? row.is_default,
      active_hours: patch.active_hours === undefined ? row.active_hours : checkedHours(patch.active_hours),
      route: patch.route === undefined ? row.route : checkedRoute(patch.route),
      min_severity: patch.min_severity ?? row.min_severity,
      rounds: patch.rounds === undefined ? row.rounds : patch.rounds,
      verified_at: patch.config === undefined ? row.verified_at : null,
      tested_at: patch.config === undefined ? row.tested_at : null,
      write_source: tx.writeSource,
      updated_at: new Date(tx.clock.now()),
    };
    if (patch.config !== undefined) await queries.resetHealth(tx.sql, id);
    if (changed.rounds !== row.rounds || changed.kind !== row.kind)
      await queries.endRounds(tx.sql, id, changed.updated_at);
    if (patch.active_hours !== undefined) await queries.lookAtHeld(tx.sql, id, changed.updated_at);
    const verification = patch.config === undefined ? null : await beginVerification(tx, changed, patch.config);
    const before = present(tx, row);
    const after = present(tx, await unlessTaken(queries.updateChannel(tx.sql, changed), nameTaken));
    const real = patch.config && {
      before: { ...before, config: openConfigPartly(tx, row) },
      after: { ...after, config: patch.config },
    };
    await record(tx, { resourceId: id, ...differences({ before, after }, real) });
    return { channel: after, mail: verification };
  });
  if (mail !== null) await afterCommit(ctx, (system) => sendVerificationMail(system, mail));
  return channel;
}

/** Deletes a channel and its bindings. Its pending deliveries end as dead. */
export async function deleteChannel(ctx: Ctx, id: string): Promise<void> {
  requireScope(ctx, "channels:write");
  await inTransaction(ctx, async (tx) => {
    // A device of another person is absent.
    await findChannel(tx, id);
    // Targets before channels, as edits of targets lock them.
    await queries.leaveLadders(tx.sql, tx.orgId, id);
    const row = await findChannel(tx, id, { lock: true });
    await queries.deleteChannel(tx.sql, tx.orgId, id);
    await record(tx, { resourceId: id, before: present(tx, row) });
  });
}

/**
 * The channels among `ids` that the caller may bind: of devices own ones, to an owner all, and those that are `kept` as
 * they are bound already. Invalid ids are ignored. For the transaction that binds them: they are not deleted before it
 * ends. Without a scope check, for other services.
 */
export async function existingChannelIds(
  ctx: Pick<ActorCtx, "sql" | "userId"> & Partial<Pick<Ctx, "role">>,
  orgId: string,
  ids: readonly string[],
  kept: readonly string[] = [],
): Promise<Set<string>> {
  const asked = [...new Set(ids)].filter(isId);
  const reach = { userId: ctx.userId, everyDevice: ctx.role === "owner", kept: kept.filter(isId) };
  return new Set(asked.length === 0 ? [] : await queries.keepChannels(ctx.sql, orgId, asked, reach));
}

/** Throws CREDENTIALS_REQUIRED for a stored secret that the new config of the same kind does not name. */
function refuseDroppedSecrets(row: queries.ChannelRow, sent: ChannelConfig): void {
  if (row.kind !== sent.type) return;
  const [before, after] = [new Map(Object.entries(row.config)), new Map<string, unknown>(Object.entries(sent))];
  for (const name of secretFields(kindOf(sent).schema))
    if (!after.has(name) && (before.get(name) ?? null) !== null)
      throw new AppError(
        "CREDENTIALS_REQUIRED",
        `The stored ${name} would be dropped. Send its value again, or null to remove it.`,
        { field: `/config/${name}` },
      );
}

/** Throws CREDENTIALS_REQUIRED. A config of another kind keeps nothing. */
function refuseKeptSecrets(system: System, row: queries.ChannelRow, after: ChannelConfig): void {
  if (row.kind !== after.type) return;
  refuseMovedSecrets(kindOf(after), {
    before: openConfigPartly(system, row),
    after,
    isSent: (_pointer, secret) => !secret.startsWith(mask),
    base: "/config",
  });
}

const nameTaken = (cause: unknown) =>
  new AppError("CHANNEL_NAME_TAKEN", "Another channel of this organisation has this name.", { field: null, cause });
