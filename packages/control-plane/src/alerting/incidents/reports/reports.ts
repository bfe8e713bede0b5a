import { dayMs } from "@statusmesh/shared/time";
import { type Ctx, inTransaction, requireScope, type System } from "../../../platform/context.ts";
import { findIncident } from "../find.ts";
import { acknowledgeIncident } from "../lifecycle/lifecycle.ts";
import { selectUpdates, type UpdateRow } from "../lifecycle/lifecycle-queries.ts";
import { postUpdate } from "../timeline/narration.ts";
import type { NewUpdate } from "../timeline/narration-schema.ts";
import type { IncidentRow } from "../queries.ts";
import * as queries from "./report-queries.ts";
import type { Incident } from "../schema.ts";

export type { IncidentSpan, IncidentTotals } from "./report-queries.ts";

const noisiestMonitors = 10;
const maxUpdates = 100;
const updateAction = "POST /api/v1/incidents/{id}/updates";

/** Open incidents of monitors that are on a status page: by severity, then the newest; those behind `after`. */
export async function incidentsOnPages(
  ctx: Ctx,
  { after, limit }: { after: Pick<IncidentRow, "severity" | "id"> | null; limit: number },
): Promise<queries.PageIncidentRow[]> {
  requireScope(ctx, "incidents:read");
  return await queries.selectOnPages(ctx.sql, ctx.orgId, after, limit);
}

/** An incident with its newest public updates, newest first. Throws INCIDENT_NOT_FOUND. */
export async function incidentReport(ctx: Ctx, id: string): Promise<{ incident: IncidentRow; updates: UpdateRow[] }> {
  requireScope(ctx, "incidents:read");
  const incident = await findIncident(ctx, id);
  const { rows } = await selectUpdates(ctx.sql, ctx.orgId, id, { limit: maxUpdates, offset: 0 });
  return { incident, updates: rows };
}

/** Incidents of a monitor that overlap a range, newest first. For its history, so that `targets:read` is enough. */
export async function incidentSpans(
  ctx: Ctx,
  targetId: string,
  range: { from: Date; to: Date },
): Promise<queries.IncidentSpan[]> {
  requireScope(ctx, "targets:read");
  return await queries.selectSpans(ctx.sql, ctx.orgId, targetId, range);
}

/** Incidents that began in a range, by monitor; those without one are left out. Without a scope check. */
export async function incidentTotals(
  { sql }: System,
  orgId: string,
  targetIds: readonly string[],
  range: { from: Date; to: Date },
): Promise<Map<string, queries.IncidentTotals>> {
  const rows = await queries.selectIncidentTotals(sql, orgId, targetIds, range);
  return new Map(rows.map((row) => [row.target_id, row]));
}

export interface IncidentMetrics extends queries.MetricsRow {
  /** Monitors with the most incidents, most first. */
  noisiest: { target_id: string; name: string; count: number }[];
}

/**
 * Incidents of the last `days` days in numbers. `mtta_secs` is the mean time from the opening to the acknowledgement,
 * `mttr_secs` the mean time of outage of closed ones without those that a pause closed; null without any.
 */
export async function incidentMetrics(ctx: Ctx, days: number): Promise<IncidentMetrics> {
  requireScope(ctx, "incidents:read");
  const since = new Date(ctx.clock.now() - days * dayMs);
  const [row, noisiest] = await Promise.all([
    queries.selectMetrics(ctx.sql, ctx.orgId, since),
    queries.selectNoisiest(ctx.sql, ctx.orgId, since, noisiestMonitors),
  ]);
  return { ...row, noisiest };
}

/** Acknowledges an incident and posts a public update, both or none. */
export async function acknowledgeWithUpdate(
  ctx: Ctx,
  id: string,
  { notify, ...update }: NewUpdate & { notify: boolean },
): Promise<Incident> {
  return await inTransaction(ctx, async (tx) => {
    const incident = await acknowledgeIncident(tx, id);
    // The audit log names the second change by its own route.
    const trail = tx.trail === undefined ? {} : { trail: { ...tx.trail, action: updateAction } };
    await postUpdate({ ...tx, ...trail }, id, update, { notify });
    return incident;
  });
}
