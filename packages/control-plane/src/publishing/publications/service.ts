import type { Fragment } from "postgres";
import { AppError } from "@statusmesh/shared/errors";
import { differences, record } from "../../access/audit/service.ts";
import type { Incident } from "../../alerting/incidents/schema.ts";
import { getIncident } from "../../alerting/incidents/service.ts";
import { type Ctx, inTransaction, requireScope, type System } from "../../platform/context.ts";
import { keepPage, notifyPages } from "../status-pages/service.ts";
import * as queries from "./queries.ts";
import type { PublicationRequest } from "./schema.ts";

/**
 * Publishes an incident on status pages from now on, or takes it off them: their subscribers who have heard of it are
 * told. Without page ids, on all pages of its target, and its visibility says so. Throws INCIDENT_NOT_FOUND, and
 * STATUS_PAGE_NOT_FOUND for an absent or foreign page.
 */
export async function setPublished(
  ctx: Ctx,
  id: string,
  published: boolean,
  { page_ids: asked }: PublicationRequest,
): Promise<Incident> {
  requireScope(ctx, "incidents:write");
  return await inTransaction(ctx, async (tx) => {
    const before = await getIncident(tx, id);
    const pageIds = await pagesOf(tx, id, asked);
    // Locked in their order; every replica drops what it has of them.
    for (const pageId of pageIds) await keepPage(tx, pageId);
    const change = { orgId: ctx.orgId, incidentId: id, pageIds, now: new Date(ctx.clock.now()) };
    await (published ? queries.publishOn(tx.sql, change) : queries.withdrawFrom(tx.sql, change));
    if (asked === undefined) await queries.setVisibility(tx.sql, ctx.orgId, id, published ? "public" : "internal");
    const after = await getIncident(tx, id);
    const { monitor_name } = after;
    const shown = ({ visibility, publications }: Incident) => ({ monitor_name, visibility, publications });
    const changed = differences({ before: shown(before), after: shown(after) });
    await record(tx, {
      resourceId: id,
      before: { monitor_name, ...changed.before },
      after: { monitor_name, ...changed.after },
    });
    return after;
  });
}

/** The pages that the request means, in the order of their ids. */
async function pagesOf(tx: Ctx, id: string, asked: readonly string[] | undefined): Promise<string[]> {
  if (asked === undefined) return await queries.selectPageIds(tx.sql, tx.orgId, id);
  const wanted = asked.map((one) => one.toLowerCase());
  const own = await queries.selectOwnPages(tx.sql, tx.orgId, wanted);
  const at = wanted.findIndex((one) => !own.includes(one));
  if (at >= 0) throw new AppError("STATUS_PAGE_NOT_FOUND", "Status page not found.", { field: `/page_ids/${at}` });
  return own;
}

/** False when {@link publishDue} would find nothing. */
export const isPublicationDue = ({ sql, clock }: System): Fragment => queries.isAnyDue(sql, new Date(clock.now()));

/** Publishes incidents on pages whose delay is over. Returns how many publications there are. */
export async function publishDue(system: System): Promise<number> {
  return await inTransaction(system, async (tx) => {
    const pages = await queries.publishDue(tx.sql, new Date(tx.clock.now()));
    for (const id of new Set(pages)) await notifyPages(tx.sql, id);
    return pages.length;
  });
}
