import Type from "typebox";
import { IdText } from "@statusmesh/shared/text";
import { customerText } from "../http/tool-texts.ts";
import { nullable, Timestamp } from "../http/wire.ts";
import { NewUpdate } from "./narration-schema.ts";
import { severities } from "./schema.ts";

const closed = { additionalProperties: false } as const;
const phases = ["investigating", "identified", "monitoring", "resolved", "postmortem"] as const;

const IncidentId = IdText({ maxLength: 100, description: "Id of the incident, from list_incidents or get_org_health" });
const Phase = Type.Enum([...phases], { type: "string", description: "Progress that operators have posted" });
const LatestPhase = Type.Union([Phase, Type.Null()], { description: "Newest phase; null without an update" });
const Severity = Type.Enum([...severities], {
  type: "string",
  description: "Severity; minor: degraded, not down",
});
const time = (description: string) => Type.Unsafe<string>({ ...Timestamp, description });

const row = {
  incident_id: Type.String({ description: "Id of the incident" }),
  monitor_id: Type.String({ description: "Id of the monitor" }),
  monitor_name: customerText("name of the monitor"),
  severity: Severity,
  started_at: time("First failing check"),
  latest_phase: LatestPhase,
};

export const ListInput = Type.Object(
  {
    limit: Type.Integer({ minimum: 1, maximum: 100, default: 20, description: "Rows per page" }),
    cursor: Type.Optional(Type.String({ maxLength: 500, description: "next_cursor of the page before" })),
  },
  closed,
);
export const ListOutput = Type.Object(
  {
    incidents: Type.Array(Type.Object(row, closed), { description: "Open incidents, newest first" }),
    left_out: Type.Integer({ description: "Rows of this page that did not fit; next_cursor begins with them" }),
    next_cursor: nullable(Type.String({ description: "For the next page; null on the last one" })),
  },
  closed,
);

export const GetInput = Type.Object({ id: IncidentId }, closed);
export const GetOutput = Type.Object(
  {
    ...row,
    state: Type.Enum(["open", "closed"], { type: "string", description: "Open while the outage lasts" }),
    opened_at: time("When enough regions agreed on the failure"),
    acknowledged_at: nullable(time("Acknowledgement, which stops reminders; null without one")),
    resolved_at: nullable(time("End; null while it is open")),
    error_sample: nullable(customerText("error of a failing check")),
    updates: Type.Array(
      Type.Object(
        { at: time("Time of the update"), phase: Phase, message: customerText("public text of the update") },
        closed,
      ),
      { description: "Updates of operators on the status pages, oldest first" },
    ),
    left_out: Type.Integer({ description: "Older updates that did not fit" }),
  },
  closed,
);

export const MetricsInput = Type.Object(
  {
    window_days: Type.Integer({ minimum: 1, maximum: 365, default: 30, description: "Days back from now" }),
  },
  closed,
);
const count = (description: string) => Type.Integer({ description });
export const MetricsOutput = Type.Object(
  {
    window_days: count("As asked"),
    total: count("Incidents that began in the window"),
    mtta_secs: nullable(Type.Integer({ description: "Mean time to acknowledge, seconds; null without one" })),
    mttr_secs: nullable(Type.Integer({ description: "Mean time to resolve, seconds; null without one" })),
    by_severity: Type.Object(
      { minor: count("minor"), major: count("major"), critical: count("critical") },
      { ...closed, description: "Incidents of each severity" },
    ),
    by_state: Type.Object(
      { open: count("open"), closed: count("closed") },
      { ...closed, description: "Incidents in each state" },
    ),
    auto_resolved: count("Closed by passing checks"),
    human_resolved: count("Closed by a person"),
    noisiest: Type.Array(
      Type.Object(
        {
          monitor_id: Type.String({ description: "Id of the monitor" }),
          name: customerText("name of the monitor"),
          incidents: count("Its incidents in the window"),
        },
        closed,
      ),
      { description: "Monitors with the most incidents, at most 10" },
    ),
  },
  closed,
);

export const AcknowledgeInput = Type.Object(
  {
    id: IncidentId,
    message: Type.Unsafe<string>({
      ...NewUpdate.properties.message,
      description: "Public text for visitors of status pages, at most 2000 characters",
    }),
    phase: Type.Enum([...phases], {
      type: "string",
      default: "investigating",
      description: "Progress of the work. resolved does not close the incident: passing checks do",
    }),
    notify: Type.Boolean({ description: "True: subscribers of the status pages get the update. Ask the user" }),
  },
  closed,
);
export const AcknowledgeOutput = Type.Object(
  {
    incident_id: Type.String({ description: "Id of the incident" }),
    state: Type.Enum(["open", "closed"], {
      type: "string",
      description: "closed: the incident had ended, so that only the update was posted",
    }),
    acknowledged_at: nullable(time("Acknowledgement; null for an incident that had ended without one")),
    phase: Phase,
    notified: Type.Boolean({ description: "Whether subscribers of the status pages get the update" }),
  },
  closed,
);
