import Type from "typebox";
import { IdText } from "@statusmesh/shared/text";
import { absent, ConsoleUrl, customerLabel, customerText } from "../../platform/http/tool-texts.ts";
import { Closed, described, Flag, Integer, Text, Timestamp } from "../../platform/http/wire.ts";
import { NewUpdate } from "./timeline/narration-schema.ts";
import { phases } from "../update-templates/schema.ts";
import { channelStateNames, severities } from "./schema.ts";

const IncidentId = IdText({ maxLength: 100, description: "Id of an incident" });
const Phase = Type.Enum([...phases], { type: "string", description: "Progress that operators have posted" });
const LatestPhase = absent(Phase);
const Severity = Type.Enum([...severities], {
  type: "string",
  description: "Of what fails now; minor: degraded, not down",
});

const row = {
  incident_id: Type.String(),
  monitor_id: Type.String(),
  monitor_name: customerText("name of the monitor"),
  severity: Severity,
  started_at: described(Timestamp, "First failing check"),
  latest_phase: LatestPhase,
};

export const ListInput = Closed({
  limit: Type.Integer({ minimum: 1, maximum: 100, default: 20, description: "Rows per page" }),
  cursor: Type.Optional(Type.String({ maxLength: 500, description: "next_cursor of the page before" })),
});
export const ListOutput = Closed({
  incidents: Type.Array(Closed(row)),
  left_out: Integer("Rows that did not fit; next_cursor begins with them"),
  next_cursor: absent(Text("For the next page")),
  console_url: ConsoleUrl,
});

export const GetInput = Closed({ id: IncidentId });
export const GetOutput = Closed({
  ...row,
  state: Type.Enum(["open", "closed"], { type: "string", description: "Open while the outage lasts" }),
  opened_at: described(Timestamp, "When enough regions agreed on the failure"),
  acknowledged_at: absent(described(Timestamp, "Acknowledgement, which stops reminders")),
  resolved_at: absent(described(Timestamp, "End")),
  peak_severity: Severity,
  outage_since: absent(described(Timestamp, "Start of the current outage")),
  past_outage_secs: Integer("Seconds of outages that are over"),
  error_sample: absent(customerText("error of a failing check")),
  diagnosis: absent(Text("What kept the check out, and a remedy")),
  updates: Type.Array(
    Closed({
      at: described(Timestamp, "Time of the update"),
      phase: Phase,
      message: customerText("public text of the update"),
    }),
    { description: "Updates of operators on the status pages, oldest first" },
  ),
  left_out: Integer("Older updates that did not fit"),
  console_url: ConsoleUrl,
});

export const ExplainInput = Closed({
  id: Type.Optional(IncidentId),
  monitor_id: Type.Optional(IdText({ maxLength: 100, description: "Instead of id: a monitor, for its open incident" })),
});
export const ExplainOutput = Closed({
  incident_id: Type.String(),
  monitor_id: Type.String(),
  monitor_name: customerText("name of the monitor"),
  state: Type.Enum(["open", "closed"], { type: "string" }),
  severity: Severity,
  started_at: described(Timestamp, "First failing check"),
  resolved_at: absent(described(Timestamp, "End")),
  error: absent(customerText("error of a failing check")),
  cause: absent(customerText("what it shares with other failing monitors; list_monitors takes it as cause")),
  monitors_with_cause: absent(Integer("Failing monitors with this cause")),
  explanation: Type.Array(customerText("a sentence"), {
    description: "In words",
  }),
  left_out: Integer("Sentences that did not fit"),
  channels: Type.Array(
    Closed(
      {
        channel_id: Type.String(),
        state: Type.Enum([...channelStateNames], { type: "string" }),
        at: absent(described(Timestamp, "First message")),
        until: absent(described(Timestamp, "Next message, or end of the hold")),
        message_id: absent(Type.String()),
        round: absent(Integer("Round that it waits for")),
        reason: absent(customerText("why")),
      },
      {
        brief: true,
        description: `${customerLabel}: channel_id, state (${channelStateNames.join()}), at, until, reason`,
      },
    ),
  ),
  console_url: ConsoleUrl,
});

export const MetricsInput = Closed({
  window_days: Type.Integer({ minimum: 1, maximum: 365, default: 30, description: "Days back from now" }),
});
export const MetricsOutput = Closed({
  window_days: Type.Integer(),
  total: Integer("Incidents that began in the window"),
  mtta_secs: absent(Integer("Mean time to acknowledge")),
  mttr_secs: absent(Integer("Mean time of outage of resolved ones")),
  by_severity: Closed({ minor: Type.Integer(), major: Type.Integer(), critical: Type.Integer() }),
  by_state: Closed({ open: Type.Integer(), closed: Type.Integer() }),
  auto_resolved: Integer("Closed by passing checks"),
  human_resolved: Integer("Closed by a person"),
  noisiest: Type.Array(
    Closed({
      monitor_id: Type.String(),
      name: customerText("name of the monitor"),
      incidents: Type.Integer(),
    }),
    { description: "Monitors with the most incidents, at most 10" },
  ),
});

export const AcknowledgeInput = Closed({
  id: IncidentId,
  message: described(NewUpdate.properties.message, "Public text, at most 2000 characters"),
  phase: Type.Enum([...phases], {
    type: "string",
    default: "investigating",
    description: "resolved does not close the incident: passing checks do",
  }),
  notify: Flag("True: subscribers get the update. Ask the user"),
});
export const AcknowledgeOutput = Closed({
  incident_id: Type.String(),
  state: Type.Enum(["open", "closed"], {
    type: "string",
    description: "closed: the incident had ended, so that only the update was posted",
  }),
  acknowledged_at: absent(described(Timestamp, "Acknowledgement")),
  phase: Phase,
  notified: Flag("Subscribers get the update"),
});
