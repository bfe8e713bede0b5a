import type { Readable } from "node:stream";
import { AppError } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import { hourMs, minuteMs, dayMs } from "@statusmesh/shared/time";
import { record } from "../../access/audit/service.ts";
import { checkWebhookUrl } from "../../alerting/channels/config/service.ts";
import {
  type Ctx,
  inTransaction,
  requireOwner,
  requireScope,
  type PageVisit,
  type System,
} from "../../platform/context.ts";
import { newToken } from "../../platform/crypto/token.ts";
import { countEvent } from "../../platform/db/counters.ts";
import { addressKey } from "../../platform/http/limits/per-ip.ts";
import { type Cell, streamedCsv } from "../../platform/http/reply/csv.ts";
import { rateLimited } from "../../platform/http/limits/throttle.ts";
import { iso, isoOrNull, type Page } from "../../platform/http/wire.ts";
import { zoneName } from "@statusmesh/shared/zoned";
import { getPage } from "../status-pages/service.ts";
import { visitedPage } from "../status-pages/visits/service.ts";
import { perPage } from "./import.ts";
import * as queries from "./queries.ts";
import { sealSecret } from "./sealing.ts";
import type { Subscriber, SubscriberQuery, SubscriptionChange, SubscriptionRequest } from "./schema.ts";
import { giveUp, selectReach } from "./delivery-queries.ts";

export { importSubscribers } from "./import.ts";
export { resealSubscribers, unreadableSubscribers } from "./sealing.ts";

/** Requests of a visitor within an hour. */
const perVisitor = 10;
/** Confirmations of one subscription that is not confirmed. */
const perSubscription = 3;
/** Requests for an address within a day, for all pages together. */
const perAddress = 5;
/** Rows that an export reads at a time. */
const exportRows = 1000;
/** Minimum time between two confirmation mails. */
const againMs = 10 * minuteMs;

const invalid = (message: string, field: string) => new AppError("INVALID_BODY", message, { field });

/**
 * Queues the confirmation of a subscription to the served page. Known and new addresses get the same reply. Throws
 * STATUS_PAGE_NOT_FOUND, NOT_FOUND where the page has no subscriptions, INVALID_BODY, INVALID_COMPONENT_ID,
 * INVALID_TIME_ZONE, the refusals of a webhook URL, and RATE_LIMITED for too many requests of a visitor.
 */
export async function subscribe(visit: PageVisit, input: SubscriptionRequest, ip: string): Promise<void> {
  const page = await subscribablePage(visit);
  if ((input.email === undefined) === (input.webhook_url === undefined))
    throw invalid("Send either email or webhook_url.", "/email");
  if (input.webhook_url !== undefined) checkWebhookUrl(visit, input.webhook_url, "/webhook_url");
  refuseUnknown(input.component_ids, page.components);
  const zone = input.time_zone === undefined ? null : zoneName(input.time_zone);
  if (input.time_zone !== undefined && zone === null)
    throw new AppError("INVALID_TIME_ZONE", "This is no IANA time zone. Use a name like Europe/Berlin or UTC.", {
      field: "/time_zone",
    });
  const address = input.email?.toLowerCase() ?? input.webhook_url!;
  const now = visit.clock.now();
  const perHour = { scope: "per_ip_subscriptions", key: addressKey(ip), limit: perVisitor, windowMs: hourMs };
  const exceeded = await countEvent(visit.sql, [perHour], now);
  if (exceeded !== null) throw rateLimited(perHour.scope, exceeded.leftMs, { limit: perVisitor });
  const row = { id: newId(), org_id: page.org_id };
  const secret = input.webhook_url === undefined ? null : sealSecret(visit, row, newToken(""));
  // Without an error: the reply does not reveal whether the address is known.
  const perDay = { scope: "per_address_subscriptions", key: address, limit: perAddress, windowMs: 24 * hourMs };
  if ((await countEvent(visit.sql, [perDay], now)) !== null) return;
  if (await queries.isFull(visit.sql, page.id, perPage)) return;
  await queries.upsertPending(
    visit.sql,
    {
      ...row,
      page_id: page.id,
      kind: input.email === undefined ? "webhook" : "email",
      address,
      host: input.webhook_url === undefined ? "" : new URL(input.webhook_url).hostname,
      token: newToken(""),
      secret,
      time_zone: zone,
      language: input.language ?? null,
      component_ids: input.component_ids ?? null,
      asked_at: new Date(now),
    },
    { askedBefore: new Date(now - againMs), maxAsked: perSubscription },
  );
}

/** Throws INVALID_COMPONENT_ID unless every component that is asked for is on the page. */
function refuseUnknown(asked: readonly string[] | null | undefined, components: readonly { id: string }[]): void {
  const known = new Set(components.map(({ id }) => id));
  const wrong = (asked ?? []).findIndex((id) => !known.has(id));
  if (wrong >= 0)
    throw new AppError("INVALID_COMPONENT_ID", "This is not a component of the page.", {
      field: `/component_ids/${wrong}`,
    });
}

/** The served page and its components, for the form. Throws like {@link subscribe}. */
export async function subscribablePage(visit: PageVisit) {
  const page = visitedPage(visit);
  if (!page.subscriptions_enabled) throw new AppError("NOT_FOUND", "This page has no subscriptions.");
  return { ...page, components: await queries.selectComponentsOf(visit.sql, page.id) };
}

/**
 * A subscription to the page by the token of its mails, with the components of the page; null for an unknown or ended
 * one, and for one to another page, which this visitor may not be able to read.
 */
export async function subscriptionOf(visit: PageVisit, token: string) {
  const row = await queries.selectByToken(visit.sql, token);
  if (row === null || row.page_id !== visit.page.id) return null;
  return {
    kind: row.kind,
    address: row.address,
    state: row.state,
    componentIds: row.component_ids,
    components: await queries.selectComponentsOf(visit.sql, row.page_id),
  };
}

/** Confirms a subscription or changes its components. Throws SUBSCRIPTION_NOT_FOUND and INVALID_COMPONENT_ID. */
export async function changeSubscription(visit: PageVisit, token: string, change: SubscriptionChange): Promise<void> {
  const found = await subscriptionOf(visit, token);
  if (found === null)
    throw new AppError("SUBSCRIPTION_NOT_FOUND", "This link is not valid, or the subscription ended.");
  refuseUnknown(change.component_ids, found.components);
  await queries.updateSubscription(visit.sql, token, {
    confirmAt: change.confirm === true ? new Date(visit.clock.now()) : null,
    componentIds: change.component_ids,
  });
}

/** Ends a subscription and deletes its address (RFC 8058). Does nothing for an ended subscription. */
export async function unsubscribe(system: System, token: string): Promise<void> {
  await queries.deleteByToken(system.sql, token);
}

/** Ends the subscriptions of an address that bounces or complains. Returns how many. */
export async function endSubscriptions(system: System, email: string): Promise<number> {
  return await queries.deleteByAddress(system.sql, email.toLowerCase());
}

/** Subscribers of a page, newest first, with masked addresses. For owners. */
export async function listSubscribers(
  ctx: Ctx,
  pageId: string,
  { limit, offset }: SubscriberQuery,
): Promise<Page<Subscriber>> {
  await requirePage(ctx, "status_page:read", pageId);
  const [rows, { total }] = await Promise.all([
    queries.selectSubscribers(ctx.sql, ctx.orgId, pageId, limit, offset),
    queries.countSubscribers(ctx.sql, ctx.orgId, pageId),
  ]);
  return { items: rows.map(present), total, limit, offset };
}

/** How many subscribers a page has, and how many confirmed ones subscribed while it was public. For owners. */
export async function subscriberCounts(
  ctx: Ctx,
  pageId: string,
): Promise<{ total: number; active: number; outside: number }> {
  await requirePage(ctx, "status_page:read", pageId);
  return await queries.countSubscribers(ctx.sql, ctx.orgId, pageId);
}

/** How many subscribers an update of an incident of a monitor reaches, by page. */
export async function subscribersReached(ctx: Ctx, targetId: string): Promise<ReadonlyMap<string, number>> {
  requireScope(ctx, "incidents:read");
  return await selectReach(ctx.sql, ctx.orgId, targetId);
}

/** Confirmed subscribers by kind and address, with full addresses, as CSV (RFC 4180). For owners. */
export async function exportSubscribers(ctx: Ctx, pageId: string): Promise<Readable> {
  await requirePage(ctx, "status_page:read", pageId);
  async function* pages(): AsyncGenerator<Cell[][], void> {
    for (let after: queries.ConfirmedRow | null = null; ;) {
      const rows: queries.ConfirmedRow[] = await queries.selectConfirmed(ctx.sql, ctx.orgId, pageId, after, exportRows);
      yield rows.map((row) => [row.kind, row.address, iso(row.created_at), isoOrNull(row.confirmed_at)]);
      if (rows.length < exportRows) return;
      after = rows.at(-1)!;
    }
  }
  return await streamedCsv(["kind", "address", "created_at", "confirmed_at"], pages());
}

/** Removes a subscriber. Throws SUBSCRIBER_NOT_FOUND. For owners. */
export async function removeSubscriber(ctx: Ctx, pageId: string, id: string): Promise<void> {
  await requirePage(ctx, "status_page:write", pageId);
  await inTransaction(ctx, async (tx) => {
    const row = isId(id) ? await queries.deleteSubscriber(tx.sql, tx.orgId, pageId, id) : null;
    if (row === null) throw new AppError("SUBSCRIBER_NOT_FOUND", "Subscriber not found.");
    await record(tx, { resourceId: id, before: present(row) });
  });
}

async function requirePage(ctx: Ctx, scope: "status_page:read" | "status_page:write", pageId: string): Promise<void> {
  requireOwner(ctx, scope);
  await getPage(ctx, pageId);
}

/** `a…@example.org`, and the origin of a webhook. */
const masked = ({ kind, address }: queries.SubscriberRow): string =>
  kind === "webhook" ? `${new URL(address).origin}/…` : address.replace(/^(.).*@/u, "$1…@");

const present = (row: queries.SubscriberRow): Subscriber => ({
  id: row.id,
  kind: row.kind,
  address: masked(row),
  state: row.state,
  component_ids: row.component_ids,
  created_at: iso(row.created_at),
  confirmed_at: isoOrNull(row.confirmed_at),
});

const keepMessagesMs = 30 * dayMs;
const keepPendingMs = 2 * dayMs;
/** Later messages would mislead. */
const keepTryingMs = dayMs;

/** Removes subscriptions that were not confirmed and old messages, and gives up deliveries that wait for a day. */
export async function sweepSubscribers(system: System): Promise<void> {
  const now = system.clock.now();
  await queries.purge(system.sql, {
    pendingBefore: new Date(now - keepPendingMs),
    messagesBefore: new Date(now - keepMessagesMs),
  });
  await giveUp(system.sql, new Date(now - keepTryingMs));
}
