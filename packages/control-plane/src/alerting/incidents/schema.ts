import Type, { type Static } from "typebox";
import { Diagnosis } from "@statusmesh/shared/protocol/diagnosis";
import { FailureSnapshot } from "@statusmesh/shared/protocol/failure-snapshot";
import { IdText, SearchText } from "@statusmesh/shared/text";
import { causePattern } from "../causes/service.ts";
import {
  Closed,
  described,
  Flag,
  Id,
  Integer,
  nullable,
  OneOf,
  PageOf,
  paging,
  Shape,
  Text,
  Timestamp,
} from "../../platform/http/wire.ts";
import { severities } from "../channels/schema.ts";
import { Delivery } from "../deliveries/schema.ts";
import { Actor } from "./timeline/event-schema.ts";

export { severities } from "../channels/schema.ts";
export { Actor } from "./timeline/event-schema.ts";

export const Severity = OneOf(
  severities,
  "Severity of what fails now, and of the worst once closed; minor means degraded, not down",
  "major",
);
export type Severity = Static<typeof Severity>;

/** How many of the regions see the outage. */
export type Impact = "degraded" | "partial_outage" | "major_outage";

/** How a target flaps. */
export const Flapping = Closed(
  {
    since: described(Timestamp, "Scheduled time of the run since which it flaps", "2026-11-20T09:30:00.000Z"),
    changes: Integer("Openings and closings, those that made it flap included", 5),
  },
  {
    description: "Changes are held while a target flaps: from its third failure within an hour. Null while it does not",
  },
);

/** Members of a group while its incident was open, and as they were last. */
export const GroupMembers = Closed(
  {
    down: Integer("Members that were down", 2),
    degraded: Integer("Members that were degraded", 0),
    known: Integer("Members that counted: not paused, under maintenance or unknown", 5),
    first: Type.Array(
      Closed({
        target_id: Text("Id of the member", "01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e90"),
        monitor_name: Text("Its name", "api-1"),
      }),
      { description: "The first five that were down" },
    ),
  },
  { description: "Of a group" },
);
export type GroupMembers = Static<typeof GroupMembers>;

const Publication = Closed({
  page_id: Text("Id of the status page", "01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e90"),
  page_name: Text("Its name; `***` for a private or disabled page without the scope status_page:read", "Acme"),
  published_at: nullable(described(Timestamp, "Since when the page shows it; null: it does not", null)),
});

export const Incident = Shape("Incident", "An outage of a target", {
  id: Id,
  target_id: Id,
  monitor_name: Text("Name of the target", "Shop"),
  state: OneOf(["open", "closed"], "Open while the outage lasts", "closed"),
  severity: Severity,
  severity_pinned: Flag("True when a person has set the severity: check results no longer change it", false),
  peak_severity: OneOf(
    severities,
    "Highest severity so far; the same as severity once closed, and where it is pinned",
    "major",
  ),
  started_at: Timestamp,
  ended_at: nullable(described(Timestamp, "Null while open", "2026-11-20T09:41:30.000Z")),
  duration_secs: nullable(
    Integer("Seconds of outage, without the time between an end and a reopening; null while open", 690),
  ),
  outage_since: nullable(
    described(
      Timestamp,
      "Start of the current outage: later than started_at once it has reopened; null when closed",
      null,
    ),
  ),
  past_outage_secs: Integer("Seconds of its outages that are over", 690),
  acknowledged_at: nullable(
    described(
      Timestamp,
      "Time of the acknowledgement, which stops reminders; null without one",
      "2026-11-20T09:32:10.000Z",
    ),
  ),
  acknowledged_by: nullable(Actor),
  opened_by: OneOf(
    ["engine", "person"],
    "engine: failing runs; person: reported manually, not closed by check results",
    "engine",
  ),
  closed_by: nullable(
    OneOf(
      ["engine", "person", "pause"],
      "engine: passing runs; person: resolved manually; pause: the target was paused. Null while open",
    ),
  ),
  reopened_count: Integer("Number of times that it reopened soon after its end", 0),
  error_sample: nullable(Text("Error of a failing run", "connection refused")),
  diagnosis: nullable(Diagnosis),
  regions_down: Type.Array(Type.String({ examples: ["frankfurt"] }), { description: "Regions that see it failing" }),
  regions_up: Type.Array(Type.String({ examples: ["virginia"] }), { description: "Regions that see it passing" }),
  public_title: nullable(Text("Public title; null: derived from the component", "Checkout unavailable")),
  public_description: nullable(Text("Public description", "We are looking into failing payments.")),
  visibility: OneOf(
    ["automatic", "public", "internal"],
    "automatic: as each page publishes; public: on all; internal: on none. Where one page was chosen, that decides",
    "automatic",
  ),
  published: Flag("Whether a status page shows it"),
  publications: Type.Array(Publication, { description: "The status pages of the target" }),
  created_at: Timestamp,
  updated_at: Timestamp,
  flapping: nullable(Flapping),
  members: Type.Optional(GroupMembers),
  imported: Type.Optional(
    Type.Literal(true, {
      description: "Taken over from the product that watched the target before. Absent for incidents from here",
    }),
  ),
});
export type Incident = Static<typeof Incident>;

export const IncidentPage = PageOf(Incident);

export const IncidentList = Shape("IncidentList", "Incidents that were reported together", {
  items: Type.Array(Incident, { description: "One of each target, in the order sent" }),
});

const RegionVote = Type.Object({
  region: Text("Id of the region", "frankfurt"),
  vote: OneOf(["failing", "passing", "none"], "Confirmed by alert_confirmations runs in a row"),
  enabled: Flag("False: the operator has disabled the region, and nothing is probed from it", true),
  live: Flag("False when the region has not reported lately"),
  consecutive: Integer("Runs in a row of one kind", 4),
  consecutive_kind: OneOf(["passing", "failing"], "Which kind", "failing"),
  consecutive_since: described(Timestamp, "Scheduled time of the first of them"),
  last_slot: Timestamp,
  last_status: nullable(OneOf(["up", "down", "degraded", "error"], "Status of the last run", "down")),
  last_error: nullable(Text("Error of the last run", "connection refused")),
});

export const channelStateNames = ["told", "waiting", "held", "gated", "over"] as const;

export const ChannelState = Shape("ChannelState", "When a channel was notified of an incident, or why it was not", {
  channel_id: Id,
  channel_name: Text("Name of the channel", "On call"),
  channel_type: Text("Kind of the channel", "slack"),
  route: nullable(Text("By which tags the target notifies it; null: it, or its ladder, lists the channel", null)),
  state: OneOf(
    channelStateNames,
    "told: it was notified; waiting: it is notified at until, with what else waits for the round; held: something " +
      "holds the notice; gated: the incident is not severe enough; over: it is not notified any more",
    "told",
  ),
  at: nullable(
    described(Timestamp, "When the first message about the incident was accepted", "2026-11-20T09:30:00.400Z"),
  ),
  until: nullable(
    described(Timestamp, "When the next message is due, or the hold ends; null: now, or nobody knows", null),
  ),
  message_id: nullable(described(Id, "First message about the incident, as in the deliveries", null)),
  round: nullable(Integer("Number of the round that it waits for", 2)),
  reason: nullable(Text("Why, in words", "the opening waits for round 2")),
});
export type ChannelState = Static<typeof ChannelState>;

export const Explanation = Shape(
  "Explanation",
  "Why the incident is open: the votes, the number that they must reach, and the notices",
  {
    incident_id: Id,
    opened_at: Timestamp,
    region_policy: Type.Unknown({ description: "As the target has it", examples: ["majority"] }),
    alert_confirmations: Integer("As the target has it", 2),
    regions_live: Integer("Regions that have reported lately", 3),
    regions_failing: Integer("Live regions that vote failing", 2),
    regions_failing_silent: Integer(
      "Regions that voted failing and have fallen silent: they open no incident and keep an open one open",
      0,
    ),
    regions_needed: Integer("Number of live regions that must fail", 2),
    regions: Type.Array(RegionVote, { description: "Every region of the target" }),
    publications: Type.Array(Publication, { description: "The status pages of the target" }),
    maintenance: nullable(
      Type.Object(
        {
          id: Id,
          title: Text("Title of the window", "Database upgrade"),
          ends_at: Timestamp,
        },
        { description: "Active maintenance window of the target: notifications are held until it ends" },
      ),
    ),
    held: Type.Array(
      Closed({
        by: OneOf(
          ["maintenance", "snooze", "dependency", "recheck", "flapping"],
          "What holds them. dependency: a monitor that this one depends on has an open incident; recheck: a " +
            "check that decides is awaited. These two hold openings only. flapping: changes, reminders and the " +
            "ladder wait until the target is stable or stays down",
          "snooze",
        ),
        id: described(Id, "Id of the window, the snooze, the incident that holds, or the one that flaps"),
        reason: nullable(
          Text("Title of the window, reason of the snooze, name or report of the monitor, or what is awaited"),
        ),
        until: nullable(described(Timestamp, "Null where nobody knows")),
      }),
      { description: "Everything that holds notifications of the incident now. They leave when nothing does" },
    ),
    channels: Type.Array(ChannelState, {
      description: "Channels of the target and of its ladder: those that were notified, then those that are next",
    }),
    deliveries: Type.Array(Delivery, {
      description:
        "The first 100 notifications, oldest first; the complete list: GET /api/v1/incidents/{id}/notifications",
    }),
    deliveries_total: Integer("Number of all notices", 1),
    in_words: Type.Array(Type.String({ examples: ["2 of 3 live regions fail; the policy (majority) needs 2."] }), {
      description: "The same as sentences: opening, votes, quorum, maintenance, deliveries. Times are UTC",
    }),
  },
);
export type Explanation = Static<typeof Explanation>;

/** Filter of a list by a cause; `which` is what it leaves. */
export const causeFilter = (which: string) =>
  Type.Optional(
    SearchText({
      pattern: causePattern,
      expects: "Use host:, tag:, error: or region: and its value, like host:db-1.example.org",
      maxLength: 300,
      description:
        `Only ${which} this cause: \`host:\` and the destination host, \`tag:\` and a tag, ` +
        "`error:` and a class of errors, or `region:` and the id of a region",
      examples: ["host:db-1.example.org"],
    }),
  );

export const IncidentQuery = Closed({
  state: Type.Enum(["open", "closed", "all"], { default: "all", description: "Open or closed incidents only" }),
  target_id: Type.Optional(
    IdText({ description: "Incidents of this target only", examples: ["01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e90"] }),
  ),
  severity: Type.Optional(OneOf(severities, "Incidents of this severity only", "major")),
  from: Type.Optional(
    described(Timestamp, "Incidents that were not over before this time", "2026-11-19T09:30:00.000Z"),
  ),
  to: Type.Optional(described(Timestamp, "Incidents that began before this time", "2026-11-20T09:30:00.000Z")),
  cause: causeFilter("open incidents whose targets share"),
  acknowledged: Type.Optional(Flag("Incidents with an acknowledgement, or those without one", false)),
  ...paging(100, 1000),
});
export type IncidentQuery = Static<typeof IncidentQuery>;

/** The filters of the list: an export has no pages. */
export const IncidentCsvQuery = Type.Omit(IncidentQuery, ["limit", "offset"], { additionalProperties: false });

export const BulkIncidentAction = Shape("BulkIncidentAction", "Incidents and the action", {
  ids: Type.Array(IdText({ maxLength: 200, examples: ["01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e90"] }), {
    minItems: 1,
    maxItems: 10_000,
    sizeCodes: ["BULK_EMPTY", "BULK_TOO_LARGE"],
    description: "Ids of incidents",
  }),
  action: Closed(
    { type: Type.Literal("acknowledge", { description: "Acknowledges open incidents" }) },
    { description: "The action, tagged by type" },
  ),
});
export type BulkIncidentAction = Static<typeof BulkIncidentAction>;

export const BulkIncidentOutcome = Shape("BulkIncidentOutcome", "Every id that was sent, in one of two lists", {
  succeeded: Type.Array(Id, { description: "Ids of the incidents that are acknowledged or closed now" }),
  failed: Type.Array(
    Closed({
      id: Text("As it was sent", "01931f2e-7c1a-7d30-9b5e-000000000000"),
      code: Text("Error code", "INCIDENT_NOT_FOUND"),
      message: Text("Error of the attempt", "Incident not found."),
    }),
    { description: "Ids without an incident, with the reason" },
  ),
});
export type BulkIncidentOutcome = Static<typeof BulkIncidentOutcome>;

const IncidentSnapshot = Shape("FailureSnapshot", "Response of a failed HTTP run", {
  region: Text("Region of the run", "frankfurt"),
  scheduled_at: described(Timestamp, "Slot of the run, RFC 3339, UTC"),
  ...FailureSnapshot.properties,
});
export type IncidentSnapshot = Static<typeof IncidentSnapshot>;

export const IncidentSnapshotPage = PageOf(IncidentSnapshot);
