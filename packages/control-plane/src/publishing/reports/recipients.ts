import postgres from "postgres";
import { AppError } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import { record } from "../../access/audit/service.ts";
import { getChannel } from "../../alerting/channels/service.ts";
import { type Ctx, inTransaction, requireScope } from "../../platform/context.ts";
import { iso, type Page } from "../../platform/http/wire.ts";
import { getPage } from "../status-pages/service.ts";
import * as queries from "./recipient-queries.ts";
import type { Recipient, RecipientCreate, RecipientQuery } from "./recipient-schema.ts";

/** Of an organisation: each is a mail a month. */
const maxRecipients = 100;

const invalid = (message: string, field: string) => new AppError("INVALID_REPORT_RECIPIENT", message, { field });

/** The channels that get a report monthly, oldest first. */
export async function listRecipients(ctx: Ctx, { limit, offset }: RecipientQuery): Promise<Page<Recipient>> {
  requireScope(ctx, "channels:read");
  const { rows, total } = await queries.selectRecipients(ctx.sql, ctx.orgId, { limit, offset });
  return { items: rows.map(present), total, limit, offset };
}

/** Has a mail channel get a report monthly. Throws INVALID_REPORT_RECIPIENT. */
export async function addRecipient(ctx: Ctx, { channel_id, page_id, tag = null }: RecipientCreate): Promise<Recipient> {
  requireScope(ctx, "channels:write");
  // The mail has what these scopes let the caller read.
  requireScope(ctx, "targets:read");
  const pageId = page_id?.toLowerCase() ?? null;
  if (pageId !== null) requireScope(ctx, "status_page:read");
  if (pageId !== null && tag !== null)
    throw invalid("A report is about a status page or a tag, not both. Add two recipients.", "/tag");
  return await inTransaction(ctx, async (tx) => {
    const channelId = channel_id.toLowerCase();
    const channel = await found(() => getChannel(tx, channelId), "Channel not found.", "/channel_id");
    if (channel.config.type !== "email")
      throw invalid(`Reports are sent by mail: ${channel.name} is not an email channel.`, "/channel_id");
    if (channel.verified !== true)
      throw invalid(
        `The address of ${channel.name} is not confirmed. Follow the link in its mail first.`,
        "/channel_id",
      );
    if (pageId !== null) await found(() => getPage(tx, pageId), "Status page not found.", "/page_id");
    await queries.lockRecipients(tx.sql, tx.orgId);
    if ((await queries.countRecipients(tx.sql, tx.orgId)) >= maxRecipients)
      throw invalid(`The limit of ${maxRecipients} recipients is reached: remove one first.`, "/channel_id");
    const id = newId();
    const created_at = new Date(tx.clock.now());
    const row = { id, org_id: tx.orgId, channel_id: channelId, page_id: pageId, tag, created_at };
    const inserted = await queries.insertRecipient(tx.sql, row).catch(deletedMeanwhile);
    if (inserted === null) throw invalid(`${channel.name} already receives this report.`, "/channel_id");
    await record(tx, { resourceId: id, after: auditable(inserted) });
    return present(inserted);
  });
}

/** Throws REPORT_RECIPIENT_NOT_FOUND. */
export async function removeRecipient(ctx: Ctx, id: string): Promise<void> {
  requireScope(ctx, "channels:write");
  await inTransaction(ctx, async (tx) => {
    const row = isId(id) ? await queries.deleteRecipient(tx.sql, tx.orgId, id) : null;
    if (row === null) throw new AppError("REPORT_RECIPIENT_NOT_FOUND", "Recipient not found.");
    await record(tx, { resourceId: id, before: auditable(row) });
  });
}

/** What a field names; INVALID_REPORT_RECIPIENT where the organisation has none. */
async function found<T>(read: () => Promise<T>, message: string, field: string): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof AppError && error.code.endsWith("_NOT_FOUND")) throw invalid(message, field);
    throw error;
  }
}

/** A channel or page that was deleted since it was read. */
function deletedMeanwhile(error: unknown): never {
  if (!(error instanceof postgres.PostgresError) || error.code !== "23503") throw error;
  if (error.constraint_name?.includes("page") === true) throw invalid("Status page not found.", "/page_id");
  throw invalid("Channel not found.", "/channel_id");
}

const auditable = ({ channel_id, page_id, tag }: queries.RecipientRow) => ({ channel_id, page_id, tag });

const present = (row: queries.RecipientRow): Recipient => ({
  id: row.id,
  ...auditable(row),
  last_mail:
    row.month === null ? null : { month: row.month, state: row.state!, at: iso(row.attempted_at!), error: row.error },
  created_at: iso(row.created_at),
});
