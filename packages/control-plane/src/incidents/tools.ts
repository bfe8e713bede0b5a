import { tool, type Tool } from "../http/tool.ts";
import { clipped, clippedOrNull, fitting, quoted, quotedWhole } from "../http/tool-texts.ts";
import { iso, isoOrNull } from "../http/wire.ts";
import type { PageIncidentRow } from "./report-queries.ts";
import { acknowledgeWithUpdate, getIncident, incidentMetrics, incidentReport, incidentsOnPages } from "./service.ts";
import * as schema from "./tool-schema.ts";

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

const wholeOrNull = (secs: number | null): number | null => (secs === null ? null : Math.round(secs));

export const incidentTools: Tool[] = [
  tool({
    name: "list_incidents",
    title: "List open incidents",
    description:
      "The incidents that are open now on the status pages of the organisation, newest first. Use it to find the id " +
      "of an incident. Monitors that are on no status page are in get_org_health only.",
    scope: "incidents:read",
    input: schema.ListInput,
    output: schema.ListOutput,
    async handle({ ctx, args: { limit }, cursor }) {
      const found = await incidentsOnPages(ctx, { after: cursor.after, limit: limit + 1 });
      const page = found.slice(0, limit);
      const { rows, leftOut } = fitting(page.map(rowOf));
      const last = rows.at(-1);
      const more = leftOut > 0 || found.length > limit;
      return {
        incidents: rows,
        left_out: leftOut,
        next_cursor: more && last !== undefined ? cursor.next(last.incident_id) : null,
      };
    },
  }),
  tool({
    name: "get_incident",
    title: "One incident",
    description:
      "One incident with its times, error and all updates of operators. Use it to explain what happened, and before " +
      "you acknowledge it.",
    scope: "incidents:read",
    input: schema.GetInput,
    output: schema.GetOutput,
    async handle({ ctx, args: { id } }) {
      const { incident, updates } = await incidentReport(ctx, id);
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
        error_sample: clippedOrNull(incident.error_sample),
        updates: rows.toReversed(),
        left_out: leftOut,
      };
    },
  }),
  tool({
    name: "get_incident_metrics",
    title: "Incident metrics",
    description:
      "Number of incidents over a trailing window, mean times to acknowledge and to resolve, and the noisiest " +
      "monitors. Use it for reports and for questions about reliability over time.",
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
      "Acknowledges an open incident, which stops its reminders, and posts a public update on the status pages; of a " +
      "closed one it only posts the update. The user confirms it. Use it only when the user asks for it.",
    scope: "incidents:write",
    input: schema.AcknowledgeInput,
    output: schema.AcknowledgeOutput,
    confirm: {
      async ask({ ctx, args: { id, message, phase, notify } }) {
        const { monitor_name, ended_at } = await getIncident(ctx, id);
        const incident = `the incident of the monitor ${quoted(monitor_name)}`;
        const action =
          ended_at === null
            ? `Acknowledge ${incident} and post a public update on the status pages?`
            : `Post a public update about ${incident} on the status pages? The incident ended at ${ended_at} and can ` +
              "no longer be acknowledged.";
        return (
          `${action} Phase: ${phase}. Subscribers are ${notify ? "notified" : "not notified"}. ` +
          `Message: ${quotedWhole(message, "message")}`
        );
      },
      idempotent: false,
      destructive: false,
      openWorld: true,
      action: "POST /api/v1/incidents/{id}/acknowledge",
    },
    async handle({ ctx, args: { id, message, phase, notify } }) {
      const { incident } = await acknowledgeWithUpdate(ctx, id, { message, phase, notify });
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
