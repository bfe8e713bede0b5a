import { AppError, type ErrorCode } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import { dayMs, minuteMs } from "@statusmesh/shared/time";
import { record } from "../../access/audit/service.ts";
import type { ChannelConfig } from "../channels/schema.ts";
import { connectChannel } from "../channels/service.ts";
import { delegableKinds } from "../channels/kinds/service.ts";
import { sendVerificationMail } from "../channels/verification/service.ts";
import type { Config } from "../../config/config.ts";
import { asSystem, type Ctx, inTransaction, requireScope, type System, type Trail } from "../../platform/context.ts";
import { hashToken, newToken } from "../../platform/crypto/token.ts";
import type { Paging } from "../../platform/db/client/sql.ts";
import { iso, type Page, pageOf } from "../../platform/http/wire.ts";
import * as queries from "./queries.ts";
import type { CodeCreate, DelegateCreate, DelegationLink } from "./schema.ts";

/** Per purpose: lifetime, pending codes of an organisation, and the codes of refusals. */
export const purposes = {
  telegram: { lifetimeMs: 15 * minuteMs, most: 20, limit: "TELEGRAM_LINK_LIMIT", absent: "TELEGRAM_LINK_NOT_FOUND" },
  whatsapp: { lifetimeMs: 15 * minuteMs, most: 20, limit: "WHATSAPP_LINK_LIMIT", absent: "WHATSAPP_LINK_NOT_FOUND" },
  delegation: { lifetimeMs: 7 * dayMs, most: 50, limit: "DELEGATE_LINK_LIMIT", absent: "DELEGATE_LINK_NOT_FOUND" },
} as const satisfies Record<queries.Purpose, { lifetimeMs: number; most: number; limit: ErrorCode; absent: ErrorCode }>;

/** A purpose for which the installation has an account of its own. */
export type Messenger = Exclude<queries.Purpose, "delegation">;

/** True when the installation has a bot or number for this kind. */
export const isOn = ({ channels }: Config, purpose: Messenger): boolean =>
  purpose === "telegram" ? channels.telegram.bot_token !== "" : channels.whatsapp.access_token !== "";

async function issue(
  ctx: Ctx,
  purpose: queries.Purpose,
  { name, kind }: { name?: string | undefined; kind?: string | undefined },
) {
  requireScope(ctx, "channels:write");
  const { lifetimeMs, most, limit } = purposes[purpose];
  const now = ctx.clock.now();
  const code = newToken("");
  const row: queries.LinkRow = {
    id: newId(),
    org_id: ctx.orgId,
    purpose,
    name: name ?? null,
    channel_kind: kind ?? null,
    created_by: ctx.userId,
    created_at: new Date(now),
    expires_at: new Date(now + lifetimeMs),
    revoked_at: null,
    consumed_at: null,
    channel_id: null,
  };
  await inTransaction(ctx, async (tx) => {
    await queries.deleteOldCodes(tx.sql, tx.orgId, new Date(now - dayMs));
    if (!(await queries.insertLink(tx.sql, { ...row, code_hash: hashToken(code) }, most)))
      throw new AppError(limit, `${most} codes are pending. Use or revoke one, or wait until one expires.`, {
        details: { limit: most },
      });
    await record(tx, { resourceId: row.id, after: { name: row.name, kind: row.channel_kind, purpose } });
  });
  return { row, code };
}

const dates = ({ created_at, expires_at }: queries.LinkRow) => ({
  created_at: iso(created_at),
  expires_at: iso(expires_at),
});

function requireOn(ctx: Ctx, purpose: Messenger): void {
  if (!isOn(ctx.config, purpose))
    throw new AppError(
      purposes[purpose].absent,
      `This installation has no ${purpose === "telegram" ? "Telegram bot" : "WhatsApp number"}.`,
    );
}

/** Links that hand a code to the bot. */
export function telegramLinks({ channels }: Config, code: string) {
  const bot = `https://t.me/${channels.telegram.bot_username}`;
  return { deep_link: `${bot}?start=${code}`, group_deep_link: `${bot}?startgroup=${code}` };
}

/** Link that hands a code to the number. */
export const whatsappLinks = ({ channels }: Config, code: string) => ({
  deep_link: `https://wa.me/${channels.whatsapp.number.replace("+", "")}?text=${encodeURIComponent(`connect ${code}`)}`,
});

/** Issues a code for a chat or a phone. Throws `absent` of its purpose without a bot or number, and `limit`. */
export async function createCode(ctx: Ctx, purpose: Messenger, input: CodeCreate = {}) {
  requireScope(ctx, "channels:write");
  requireOn(ctx, purpose);
  const { row, code } = await issue(ctx, purpose, input);
  const links = purpose === "telegram" ? telegramLinks(ctx.config, code) : whatsappLinks(ctx.config, code);
  return { id: row.id, code, ...links, ...dates(row) };
}

function stateOf(row: queries.LinkRow, now: number): "pending" | "consumed" | "expired" {
  if (row.consumed_at !== null) return "consumed";
  return row.revoked_at !== null || row.expires_at.getTime() <= now ? "expired" : "pending";
}

/** State of a link code. Throws TELEGRAM_LINK_NOT_FOUND or WHATSAPP_LINK_NOT_FOUND. */
export async function codeState(ctx: Ctx, purpose: Messenger, id: string) {
  requireScope(ctx, "channels:read");
  requireOn(ctx, purpose);
  const row = isId(id) ? await queries.selectLink(ctx.sql, ctx.orgId, purpose, id) : null;
  if (row === null) throw new AppError(purposes[purpose].absent, "Code not found.");
  return { id: row.id, state: stateOf(row, ctx.clock.now()), channel_id: row.channel_id, ...dates(row) };
}

/** True for the code of this link; the page of a code has the code in its path. */
export const isCodeOf = async (ctx: Ctx, id: string, code: string): Promise<boolean> =>
  isId(id) && (await queries.hasCode(ctx.sql, ctx.orgId, id, hashToken(code)));

/** Issues a delegation link. Throws DELEGATE_KIND_INVALID, DELEGATE_LINK_LIMIT. */
export async function createDelegation(ctx: Ctx, input: DelegateCreate = {}) {
  requireScope(ctx, "channels:write");
  if (input.kind !== undefined && !delegableKinds(ctx.config.channels).includes(input.kind))
    throw new AppError(
      "DELEGATE_KIND_INVALID",
      `A link cannot connect this kind. Use one of: ${delegableKinds(ctx.config.channels).join(", ")}.`,
      { field: "/kind" },
    );
  const { row, code } = await issue(ctx, "delegation", input);
  return { ...present(row, ctx.clock.now()), url: `${ctx.config.server.public_url}/c/${code}` };
}

/** Delegation links, newest first. */
export async function listDelegations(ctx: Ctx, page: Paging): Promise<Page<DelegationLink>> {
  requireScope(ctx, "channels:read");
  const listed = await queries.selectDelegations(ctx.sql, ctx.orgId, page);
  return pageOf(listed, page, (row) => present(row, ctx.clock.now()));
}

/** Revokes a pending delegation link. Throws DELEGATE_LINK_NOT_FOUND. */
export async function revokeDelegation(ctx: Ctx, id: string): Promise<void> {
  requireScope(ctx, "channels:write");
  await inTransaction(ctx, async (tx) => {
    const now = new Date(tx.clock.now());
    const row = isId(id) ? await queries.revokeDelegation(tx.sql, tx.orgId, id, now) : null;
    if (row === null) throw new AppError("DELEGATE_LINK_NOT_FOUND", "Delegation link not found.");
    await record(tx, { resourceId: id, before: { name: row.name, kind: row.channel_kind } });
  });
}

const present = (row: queries.LinkRow, now: number): DelegationLink => ({
  id: row.id,
  name: row.name,
  kind: row.channel_kind,
  state: stateOf(row, now),
  channel_id: row.channel_id,
  ...dates(row),
});

/** Data of the public page of a delegation link; null unless it is pending. Reveals nothing about the organisation. */
export async function pendingDelegation(
  system: System,
  code: string,
): Promise<{ name: string | null; kind: string | null } | null> {
  const row = await queries.selectPending(system.sql, hashToken(code), new Date(system.clock.now()));
  return row?.purpose === "delegation" ? { name: row.name, kind: row.channel_kind } : null;
}

/** How a code is used: with a config, by an action of the audit log. */
export interface Use {
  config: ChannelConfig;
  /** Of the channel where the code has none. */
  name: string;
  action: string;
  by?: Partial<Omit<Trail, "action">>;
}

/** True where a code allows a kind. */
function allows(config: Config, { purpose, channel_kind: only }: queries.LinkRow, type: string): boolean {
  if (purpose !== "delegation") return type === `${purpose}_app`;
  return only === null ? delegableKinds(config.channels).includes(type) : only === type;
}

/**
 * Redeems a code: creates one channel in the organisation that issued it. Null for a code that is unknown, used,
 * revoked or expired, or that allows another kind. Throws CHANNEL_QUOTA_EXCEEDED and the refusals
 * of a config; the code stays pending then.
 */
export async function useCode(system: System, code: string, { config, name, action, by }: Use): Promise<string | null> {
  const done = await inTransaction(system, async (tx) => {
    const now = new Date(tx.clock.now());
    const row = await queries.selectPending(tx.sql, hashToken(code), now, { lock: true });
    if (row === null || !allows(tx.config, row, config.type)) return null;
    const actor = asSystem(tx, row.org_id, action, { userId: row.created_by, ...by });
    const connected = await connectChannel(actor, { name: row.name ?? name, config });
    await queries.consumeLink(tx.sql, row.org_id, row.id, connected.channel.id, now);
    return connected;
  });
  if (done === null) return null;
  if (done.mail !== null) await sendVerificationMail(system, done.mail);
  return done.channel.name;
}

/** Creates the channel of a delegation link for a visitor. Throws CHANNEL_LINK_INVALID and the refusals of a config. */
export async function connectDelegated(
  system: System,
  code: string,
  { name, config }: { name?: string | undefined; config: ChannelConfig },
  by: Partial<Omit<Trail, "action">>,
): Promise<void> {
  const use = { config, name: name ?? config.type, action: "POST /c/{code}", by };
  if ((await useCode(system, code, use)) === null)
    throw new AppError("CHANNEL_LINK_INVALID", "This link is unknown, used, revoked or expired. Ask for a new one.");
}
