import type { Static } from "typebox";
import { errorInWords } from "@statusmesh/shared/checks";
import { diagnosisLine, diagnosisOf } from "@statusmesh/shared/protocol/diagnosis";
import { AppError } from "@statusmesh/shared/errors";
import { isId } from "@statusmesh/shared/ids";
import type { Ctx } from "../../platform/context.ts";
import { tool, type Tool } from "../../platform/http/tool.ts";
import { clipped, clippedOrNull, consoleUrl, fitting, quoted, quotedWhole } from "../../platform/http/tool-texts.ts";
import { iso, isoOrNull } from "../../platform/http/wire.ts";
import { outageSecs, peakSeverity } from "./reports/outages.ts";
import type { PageIncidentRow } from "./reports/report-queries.ts";
import { acknowledgeWithUpdate, incidentMetrics, incidentReport, incidentsOnPages } from "./reports/service.ts";
import { explainIncident } from "./explanation/service.ts";
import { getIncident, listIncidents } from "./service.ts";
import * as schema from "./tool-schema.ts";

const explanationBytes = 6_000;
/** Channels of an explanation. */
const explainedChannels = 50;
/** Longest name in a list, characters. */
const shortText = 200;

const rowOf = (row: PageIncidentRow) => ({
  incident_id: row.id,
  monitor_id: row.target_id,
  monitor_name: clipped(row.monitor_name, shortText),
  severity: row.severity,
  started_at: iso(row.started_at),
  latest_phase: row.latest_phase,
});

/** What these tools read of monitors, handed over where the app is put together. */
interface MonitorReads {
  /** Cause that a monitor shares with others, by its id. */
  causesOf(ctx: Ctx, ids: readonly string[]): Promise<ReadonlyMap<string, { key: string; count: number }>>;
  monitorStates(ctx: Ctx, ids: readonly string[]): Promise<ReadonlyMap<string, string>>;
}

/** The incident of the arguments. Throws INVALID_BODY, and TARGET_NOT_FOUND for the monitor. */
async function incidentIdOf(
  ctx: Ctx,
  { id, monitor_id }: Static<typeof schema.ExplainInput>,
  { monitorStates }: MonitorReads,
): Promise<string> {
  if ((id === undefined) === (monitor_id === undefined))
    throw new AppError("INVALID_BODY", "Send id or monitor_id, one of them.");
  if (id !== undefined) return id;
  const open = { state: "open", target_id: monitor_id!, limit: 1, offset: 0 } as const;
  const [incident] = (await listIncidents(ctx, open)).items;
  if (incident !== undefined) return incident.id;
  const isKnown = isId(monitor_id!) && (await monitorStates(ctx, [monitor_id!])).size > 0;
  if (!isKnown) throw new AppError("TARGET_NOT_FOUND", "Monitor not found.");
  throw new AppError(
    "INVALID_BODY",
    "The monitor has no open incident: it is up, or its failure is not confirmed yet. See get_monitor.",
  );
}

const wholeOrNull = (secs: number | null): number | null => (secs === null ? null : Math.round(secs));

export const incidentTools = (monitors: MonitorReads): Tool[] => [
  tool({
    name: "list_incidents",
    title: "List open incidents",
    description: "Incidents that are open on the status pages of the organisation, the most severe first.",
    scope: "incidents:read",
    input: schema.ListInput,
    output: schema.ListOutput,
    async handle({ ctx, args: { limit }, cursor }) {
      const [severity, id = ""] = cursor.after?.split(" ") ?? [];
      const after = severity === undefined ? null : { severity: severity as PageIncidentRow["severity"], id };
      const found = await incidentsOnPages(ctx, { after, limit: limit + 1 });
      const page = found.slice(0, limit);
      const { rows, leftOut } = fitting(page.map(rowOf));
      const last = rows.at(-1);
      const more = leftOut > 0 || found.length > limit;
      return {
        incidents: rows,
        left_out: leftOut,
        next_cursor: more && last !== undefined ? cursor.next(`${last.severity} ${last.incident_id}`) : null,
        console_url: consoleUrl(ctx, "/incidents"),
      };
    },
  }),
  tool({
    name: "get_incident",
    title: "One incident",
    description: "One incident: times, error, updates of operators.",
    scope: "incidents:read",
    input: schema.GetInput,
    output: schema.GetOutput,
    async handle({ ctx, args: { id } }) {
      const { incident, updates } = await incidentReport(ctx, id);
      const diagnosis = diagnosisOf(incident.diagnosis, incident.diagnosed_from);
      const newestFirst = updates.map(({ created_at, phase, message }) => ({
        at: iso(created_at),
        phase,
        message: clipped(message, 2_000),
      }));
      const { rows, leftOut } = fitting(newestFirst);
      return {
        ...rowOf({ ...incident, latest_phase: updates[0]?.phase ?? null }),
        state: incident.ended_at === null ? ("open" as const) : ("closed" as const),
        opened_at: iso(incident.opened_at),
        acknowledged_at: isoOrNull(incident.acknowledged_at),
        resolved_at: isoOrNull(incident.ended_at),
        peak_severity: peakSeverity(incident, incident.down_severity),
        outage_since: isoOrNull(incident.outage_since),
        past_outage_secs: outageSecs(incident),
        error_sample: clippedOrNull(incident.error_sample),
        diagnosis: diagnosis === null ? null : diagnosisLine(diagnosis),
        updates: rows.toReversed(),
        left_out: leftOut,
        console_url: consoleUrl(ctx, `/incidents/${incident.id}`),
      };
    },
  }),
  tool({
    name: "explain_incident",
    title: "Why an incident is open",
    description:
      "Why an incident opened and what happened since: votes by region, quorum, maintenance; " +
      "channels notified, next, and why not; its shared cause.",
    scope: "incidents:read",
    input: schema.ExplainInput,
    output: schema.ExplainOutput,
    async handle({ ctx, args }) {
      const incident = await getIncident(ctx, await incidentIdOf(ctx, args, monitors));
      const isOpen = incident.ended_at === null;
      const [{ in_words, channels }, causes] = await Promise.all([
        explainIncident(ctx, incident.id),
        isOpen ? monitors.causesOf(ctx, [incident.target_id]) : null,
      ]);
      const cause = causes?.get(incident.target_id);
      const { rows, leftOut } = fitting(
        in_words.map((sentence) => clipped(sentence)),
        explanationBytes,
      );
      return {
        incident_id: incident.id,
        monitor_id: incident.target_id,
        monitor_name: clipped(incident.monitor_name, shortText),
        state: incident.state,
        severity: incident.severity,
        started_at: incident.started_at,
        resolved_at: incident.ended_at,
        error: incident.error_sample === null ? null : clipped(errorInWords(incident.error_sample)),
        cause: cause?.key ?? null,
        monitors_with_cause: cause?.count ?? null,
        explanation: rows,
        left_out: leftOut,
        channels: channels
          .slice(0, explainedChannels)
          .map(({ channel_name: _name, channel_type: _type, route: _route, ...one }) => ({
            ...one,
            reason: one.reason === null ? null : clipped(one.reason, shortText),
          })),
        console_url: consoleUrl(ctx, `/incidents/${incident.id}`),
      };
    },
  }),
  tool({
    name: "get_incident_metrics",
    title: "Incident metrics",
    description: "Incidents over a trailing window: number, mean times to acknowledge and resolve, noisiest monitors.",
    scope: "incidents:read",
    input: schema.MetricsInput,
    output: schema.MetricsOutput,
    async handle({ ctx, args: { window_days } }) {
      const { minor, major, critical, open, closed, noisiest, ...row } = await incidentMetrics(ctx, window_days);
      return {
        window_days,
        total: row.total,
        mtta_secs: wholeOrNull(row.mtta_secs),
        mttr_secs: wholeOrNull(row.mttr_secs),
        by_severity: { minor, major, critical },
        by_state: { open, closed },
        auto_resolved: row.auto_resolved,
        human_resolved: row.human_resolved,
        noisiest: noisiest.map(({ target_id, name, count }) => ({
          monitor_id: target_id,
          name: clipped(name, shortText),
          incidents: count,
        })),
      };
    },
  }),
  tool({
    name: "acknowledge_incident",
    title: "Acknowledge an incident",
    description:
      "Acknowledges an open incident and posts a public update; of a closed one it only posts the update. The user " +
      "confirms it.",
    scope: "incidents:write",
    input: schema.AcknowledgeInput,
    output: schema.AcknowledgeOutput,
    confirm: {
      async ask({ ctx, args: { id, message, phase, notify } }) {
        const { monitor_name, ended_at, published } = await getIncident(ctx, id);
        const incident = `the incident of the monitor ${quoted(monitor_name)}`;
        const action =
          ended_at === null
            ? `Acknowledge ${incident} and post a public update on the status pages?`
            : `Post a public update about ${incident} on the status pages? The incident ended at ${ended_at} and can ` +
              "no longer be acknowledged.";
        return (
          `${action} ${published ? "" : "The incident is not published: visitors do not see the update. "}` +
          `Phase: ${phase}. Subscribers are ${notify ? "notified" : "not notified"}. ` +
          `Message: ${quotedWhole(message, "message")}`
        );
      },
      idempotent: false,
      destructive: false,
      openWorld: true,
      action: "POST /api/v1/incidents/{id}/acknowledge",
    },
    async handle({ ctx, args: { id, message, phase, notify } }) {
      const incident = await acknowledgeWithUpdate(ctx, id, { message, phase, notify });
      return {
        incident_id: incident.id,
        state: incident.state,
        acknowledged_at: incident.acknowledged_at,
        phase,
        notified: notify,
      };
    },
  }),
];
