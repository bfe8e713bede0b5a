import { isId } from "@statusmesh/shared/ids";
import { type Ctx, requireScope, type System } from "../../../platform/context.ts";
import { type OutageRow, selectOutages, selectOutagesOf } from "./outage-queries.ts";
import type { Impact, Incident, Severity } from "../schema.ts";

/** The part of an incident row that says how long it failed. */
export interface OutageTimes {
  /** Length of the outages that are over, ms. */
  past_outage_ms: number;
  /** Start of the current outage; null when closed. */
  outage_since: Date | null;
}

/** Seconds of the outages of an incident that are over: of all of them once it is closed. */
export const outageSecs = ({ past_outage_ms: past }: Pick<OutageTimes, "past_outage_ms">): number =>
  Math.round(past / 1000);

/**
 * State of what an incident affects. `impact` is what fails, now or at another time. `pinned` is the severity that a
 * person has set for the whole incident; null: the impact decides.
 */
export function outageState(pinned: Severity | null, impact: Impact): Impact {
  if (pinned === null) return impact;
  if (pinned === "minor") return "degraded";
  return pinned === "critical" || impact === "major_outage" ? "major_outage" : "partial_outage";
}

/** Highest severity of an incident so far, of a target where down means `downSeverity`. */
export function peakSeverity(
  { severity, ...row }: Pick<Incident, "severity" | "severity_pinned"> & { peak_impact: Impact; ended_at: Date | null },
  downSeverity: Severity,
): Severity {
  if (row.severity_pinned || row.ended_at !== null) return severity;
  return row.peak_impact === "degraded" ? "minor" : downSeverity;
}

export interface Outage extends Pick<OutageRow, "incident_id" | "started_at" | "ended_at" | "error_sample"> {
  state: Impact;
}

/**
 * Outages of targets that overlap a range, without those of imported incidents: imported days have their time. Without
 * a scope check.
 */
export async function outagesOf(
  { sql }: System,
  orgId: string,
  targetIds: readonly string[],
  range: { from: Date; to: Date },
): Promise<{ target_id: string; starts_at: Date; ends_at: Date | null; state: Impact }[]> {
  const rows = await selectOutagesOf(sql, orgId, targetIds, range);
  return rows.map(({ pinned_severity: pinned, impact, ...times }) => ({
    ...times,
    state: outageState(pinned, impact),
  }));
}

/** Outages of an incident or of a target, newest first, at most `limit`; those that touch the range, RFC 3339. */
export async function listOutages(
  ctx: Ctx,
  asked: { incidentId: string } | { targetId: string; from: string; to: string },
  limit = 500,
): Promise<Outage[]> {
  requireScope(ctx, "incidents:read");
  if (!isId("incidentId" in asked ? asked.incidentId : asked.targetId)) return [];
  const rows = await selectOutages(ctx.sql, ctx.orgId, asked, limit);
  return rows.map(({ pinned_severity: pinned, impact, ...row }) => ({ ...row, state: outageState(pinned, impact) }));
}
