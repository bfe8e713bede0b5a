import { isId } from "@statusmesh/shared/ids";
import { type Ctx, requireScope, type System } from "../context.ts";
import type { Page } from "../http/wire.ts";
import { findIncident, presentIncident } from "./find.ts";
import * as queries from "./queries.ts";
import { parseIncidentRange } from "./range.ts";
import type { Incident, IncidentQuery } from "./schema.ts";

export { dropHeldNotices, listDeliveries, retryDelivery } from "./deliveries.ts";
export { closeSilently, reevaluate, rescheduleReminders } from "./evidence-decisions.ts";
export { listEvents } from "./events.ts";
export { explainIncident, explainVotes } from "./explain.ts";
export { acknowledgeIncident, bulkIncidentAction, resolveIncident, unacknowledgeIncident } from "./lifecycle.ts";
export { acknowledgeWithUpdate, incidentMetrics, incidentReport, incidentsOnPages } from "./reports.ts";
export { listUpdates, narrateIncident, postUpdate } from "./narration.ts";

/** The incidents of the organisation: open ones first, then by start, newest first. */
export async function listIncidents(ctx: Ctx, query: IncidentQuery): Promise<Page<Incident>> {
  requireScope(ctx, "incidents:read");
  const { state, target_id: targetId = null, severity = null, limit, offset } = query;
  const range = parseIncidentRange(query);
  if (targetId !== null && !isId(targetId)) return { items: [], total: 0, limit, offset };
  const filter = { state, targetId, severity, ...range };
  const [rows, total] = await Promise.all([
    queries.selectIncidents(ctx.sql, ctx.orgId, filter, limit, offset),
    queries.countIncidents(ctx.sql, ctx.orgId, filter),
  ]);
  return { items: rows.map(presentIncident), total, limit, offset };
}

/** One incident. Throws INCIDENT_NOT_FOUND for an absent or foreign id. */
export async function getIncident(ctx: Ctx, id: string): Promise<Incident> {
  requireScope(ctx, "incidents:read");
  return presentIncident(await findIncident(ctx, id));
}

/** Number of incidents that began at `since` or later. For the dashboard, which asks for its own scope. */
export async function incidentsSince(system: System, orgId: string, since: Date): Promise<number> {
  return await queries.countIncidentsSince(system.sql, orgId, since);
}

/** The first 500 monitors that have had an incident, by name, for a filter. */
export async function monitorsWithIncidents(ctx: Ctx): Promise<{ id: string; name: string }[]> {
  requireScope(ctx, "incidents:read");
  return await queries.selectMonitorsWithIncidents(ctx.sql, ctx.orgId, 500);
}
