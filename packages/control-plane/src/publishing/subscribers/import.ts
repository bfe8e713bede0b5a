import { AppError } from "@statusmesh/shared/errors";
import { newId } from "@statusmesh/shared/ids";
import { record } from "../../access/audit/service.ts";
import { checkWebhookUrl } from "../../alerting/channels/config/service.ts";
import { type Ctx, inTransaction, requireOwner } from "../../platform/context.ts";
import { newToken } from "../../platform/crypto/token.ts";
import { mapInTurns } from "../../platform/process/turns.ts";
import { getPage } from "../status-pages/service.ts";
import * as queries from "./queries.ts";
import { isEmail, type SubscriberImport, type SubscribersImported } from "./schema.ts";
import { sealSecret } from "./sealing.ts";

/** Subscribers of a page, confirmed or not. */
export const perPage = 50_000;

type Item = SubscriberImport["items"][number];
type Read = queries.ImportedSubscriber | { index: number; reason: string };

/**
 * Adds subscribers who have confirmed their subscription with another product. None is sent a confirmation; the first
 * message to each says where the address comes from. Who has unsubscribed from this page stays so. An item that cannot
 * be added does not affect the others. For owners. Throws STATUS_PAGE_NOT_FOUND.
 */
export async function importSubscribers(
  ctx: Ctx,
  pageId: string,
  { items, source }: SubscriberImport,
): Promise<SubscribersImported> {
  requireOwner(ctx, "status_page:write");
  const page = await getPage(ctx, pageId);
  const known = new Set((await queries.selectComponentsOf(ctx.sql, page.id)).map(({ id }) => id));
  const seen = new Set<string>();
  const read = await mapInTurns(items, (item, index) => readItem(ctx, { item, index, known, seen }));
  return await inTransaction(ctx, async (tx) => {
    const { total } = await queries.countSubscribers(tx.sql, tx.orgId, page.id);
    const good = read.filter((one) => "kind" in one);
    const fitting = good.slice(0, Math.max(0, perPage - total));
    const target = { orgId: tx.orgId, pageId: page.id, source, now: new Date(tx.clock.now()) };
    const left = fitting.length === 0 ? [] : await queries.insertImported(tx.sql, target, fitting);
    const skipped = [
      ...read.filter((one) => "reason" in one),
      ...good.slice(fitting.length).map(({ index }) => ({ index, reason: `the page has ${perPage} subscribers` })),
      ...left.map(({ index, departed }) => ({
        index,
        reason: departed ? "has unsubscribed from this page" : "is already subscribed",
      })),
    ].sort((a, b) => a.index - b.index);
    const imported = fitting.length - left.length;
    await record(tx, { resourceId: page.id, after: { imported, skipped: skipped.length, source } });
    return { imported, skipped };
  });
}

function readItem(
  ctx: Ctx,
  { item, index, known, seen }: { item: Item; index: number; known: ReadonlySet<string>; seen: Set<string> },
): Read {
  const skipped = (reason: string) => ({ index, reason });
  const { email, webhook_url: url, component_ids: componentIds = null } = item;
  if ((email === undefined) === (url === undefined)) return skipped("has not exactly one of email and webhook_url");
  const address = email?.trim().toLowerCase() ?? url!;
  if (email !== undefined && !isEmail(address)) return skipped("is no email address");
  if (url !== undefined)
    try {
      checkWebhookUrl(ctx, url, "/webhook_url");
    } catch (error) {
      if (error instanceof AppError) return skipped(error.message);
      throw error;
    }
  if (componentIds?.some((id) => !known.has(id))) return skipped("names a component that is not on the page");
  const key = `${email === undefined ? "webhook" : "email"} ${address}`;
  if (seen.has(key)) return skipped("is in the list twice");
  seen.add(key);
  const row = { id: newId(), org_id: ctx.orgId };
  return {
    index,
    id: row.id,
    kind: email === undefined ? "webhook" : "email",
    address,
    host: url === undefined ? "" : new URL(url).hostname,
    token: newToken(""),
    secret: url === undefined ? null : sealSecret(ctx, row, newToken("")),
    componentIds,
  };
}
