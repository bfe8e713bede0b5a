import Type, { type Static } from "typebox";
import { checkStatuses } from "@statusmesh/shared/protocol/result";
import { severities } from "../../alerting/incidents/schema.ts";
import {
  Closed,
  described,
  Id,
  Integer,
  nullable,
  OneOf,
  PageOf,
  Shape,
  Text,
  Timestamp,
} from "../../platform/http/wire.ts";
import { componentStates } from "./page/states.ts";

/*
 * Public shapes. Every type lists its fields: addresses and credentials of a check have no field to leak through.
 */

const ComponentStateSchema = OneOf(
  componentStates,
  "Public state; maintenance takes precedence over an outage",
  "operational",
);

const DayCell = Closed({
  date: Text("Day in the page's time zone", "2026-11-20"),
  state: ComponentStateSchema,
  downtime_secs: Integer("Seconds of outage that was more than degraded, outside maintenance windows", 0),
  imported: Type.Optional(
    Type.Literal(true, { description: "Another product has checked it on this day. Absent for other days" }),
  ),
});

export const PublicComponent = Closed({
  id: Id,
  name: Text("As visitors read it", "Checkout"),
  description: nullable(Text("A line below the name", "Cart and payment")),
  status: ComponentStateSchema,
  uptime_pct: nullable(
    described(
      Type.Number(),
      "Share of the checked time of the days shown without a confirmed outage, in percent; degraded time counts " +
        "as up, maintenance windows are left out; null without checks, and where the page does not show it",
      99.98,
    ),
  ),
  history: Type.Array(DayCell, { description: "90 days, oldest first" }),
});
export type PublicComponent = Static<typeof PublicComponent>;

const PublicUpdate = Closed({
  phase: OneOf(["investigating", "identified", "monitoring", "resolved", "postmortem"], "Progress of the work"),
  message: Text("Message of the operators", "We have found the cause."),
  created_at: Timestamp,
});

export const PublicIncident = Closed(
  {
    id: Id,
    title: Text("Title set by the operators, or the component and its state", "Checkout unavailable"),
    description: nullable(Type.String()),
    state: OneOf(["open", "closed"], "Open while the outage lasts"),
    status: OneOf(
      ["degraded", "partial_outage", "major_outage"],
      "Current state of the component because of it; its worst state once it has ended",
    ),
    peak_status: OneOf(["degraded", "partial_outage", "major_outage"], "Its worst state"),
    severity: OneOf(severities, "Severity", "major"),
    component: Closed(
      { id: Id, name: Text("As visitors read it", "Checkout") },
      { description: "The affected component" },
    ),
    started_at: Timestamp,
    ended_at: nullable(Timestamp),
    duration_secs: nullable(Integer("Seconds of outage, without healthy time before a reopening; null while it lasts")),
    outage_since: nullable(described(Timestamp, "Start of the current outage; null once it has ended")),
    past_outage_secs: Integer("Seconds of its outages that are over"),
    updates_total: Integer("How many updates the incident has", 1),
    updates: Type.Array(PublicUpdate, {
      description: "Newest first: all of them where the incident is read by itself, the newest 20 in lists",
    }),
    imported: Type.Optional(
      Type.Literal(true, { description: "Recorded by another product. Absent for incidents from here" }),
    ),
  },
  { title: "PublicIncident" },
);
export type PublicIncident = Static<typeof PublicIncident>;

export const PublicIncidentPage = PageOf(PublicIncident);

const PublicEntry = Closed({
  id: described(Id, "That of the incident which the page showed first: it stays while the entry grows"),
  title: Text("Newest title that the operators have set, or the components and their state", "Checkout unavailable"),
  component_ids: Type.Array(Id, { description: "Affected components" }),
  incident_ids: Type.Array(Id, { description: "Its incidents in the lists, the first in front" }),
  since: described(Timestamp, "Start of the oldest of them"),
  state: OneOf(["open", "closed"], "Open until the last of them has ended"),
});

const MaintenanceTimes = Closed({ starts_at: Timestamp, ends_at: Timestamp });

/** The public view of a maintenance window: one entry, however often it recurs. */
const PublicMaintenance = Closed({
  id: Id,
  title: Text("Title of the planned work", "Database upgrade"),
  description: nullable(Text("More about it", "The shop is read-only.")),
  starts_at: Timestamp,
  ends_at: Timestamp,
  components: Type.Array(Closed({ id: Id, name: Text("As visitors read it", "Checkout") }), {
    description: "Affected components",
  }),
  later: Type.Array(MaintenanceTimes, {
    description: "Further times of a recurring window within the next 7 days, oldest first; empty while it is open",
  }),
});

export type PublicMaintenance = Static<typeof PublicMaintenance>;

export const PublicMaintenanceList = Closed(
  {
    active: Type.Array(PublicMaintenance, { description: "Windows that are open now" }),
    upcoming: Type.Array(PublicMaintenance, { description: "Windows of the next 7 days" }),
  },
  { title: "PublicMaintenanceList" },
);

export const PublicStatus = Shape("PublicStatus", "The whole page as data", {
  overall: Closed(
    {
      state: ComponentStateSchema,
      label: Text("The banner, in the language of the page", "All Systems Operational"),
    },
    { description: "The worst of all components" },
  ),
  generated_at: Timestamp,
  page: Closed(
    {
      name: Text("Heading of the page", "Acme"),
      about: nullable(Text("Markdown", "How **Acme** is doing.")),
      logo_url: nullable(Text("Address of the logo; null without one", null)),
      logo_dark_url: nullable(Text("Address of the logo for dark mode; null shows the logo there too", null)),
    },
    { description: "Publisher of the page" },
  ),
  groups: Type.Array(
    Closed({
      name: nullable(Text("Null for the components without a group, which come last", "Shop")),
      components: Type.Array(PublicComponent, { description: "In their order" }),
    }),
    { description: "In the order of the page" },
  ),
  entries: Type.Array(PublicEntry, {
    description: "The incidents of both lists by their cause: open ones first, then the newest",
  }),
  active_incidents: Type.Array(PublicIncident, { description: "Open incidents, newest first" }),
  recent_incidents: Type.Array(PublicIncident, { description: "Ended within the last 30 days, newest first" }),
  active_maintenance: Type.Array(PublicMaintenance, { description: "Windows that are open now" }),
  upcoming_maintenance: Type.Array(PublicMaintenance, { description: "Windows of the next 7 days" }),
});
export type PublicStatus = Static<typeof PublicStatus>;

export const ComponentHistory = Shape("ComponentHistory", "State of a component by day", {
  id: Id,
  name: Text("As visitors read it", "Checkout"),
  status: ComponentStateSchema,
  days: Integer("How many days the history has", 90),
  uptime_pct: nullable(described(Type.Number(), "As on the page, for these days; null without checks", 99.98)),
  history: Type.Array(DayCell, { description: "Oldest first" }),
});
export type ComponentHistory = Static<typeof ComponentHistory>;

export const PageDomain = Shape("PageDomain", "A domain with a published status page", {
  domain: Text("The domain of the request", "status.acme.example"),
});

const when = (description: string) => nullable(described(Timestamp, description));

/** A shared monitor as it is now. */
export const SharedStatus = Shape("SharedStatus", "A shared monitor as it is now", {
  name: Text("Name of the monitor", "Checkout API"),
  type: Text("Kind of the check", "http"),
  state: OneOf(["up", "down", "degraded", "error", "unknown", "paused"], "State of the monitor", "up"),
  since: when("Start of this state; null without one"),
  last_checked_at: when("Time of the last result; null without one"),
  interval: Integer("Check interval, seconds", 60),
  reason: nullable(Text("Why it is not up, without names of hosts", null)),
  uptime_24h_pct: nullable(Type.Number({ description: "Uptime of 24 hours; null without results", examples: [100] })),
  uptime_30d_pct: nullable(Type.Number({ description: "Uptime of 30 days; null without results", examples: [99.98] })),
  regions: Type.Array(
    Type.Object({
      region: Text("Id of the region", "frankfurt"),
      status: nullable(OneOf(checkStatuses, "Status of its last run; null without one")),
      last_checked_at: nullable(Timestamp),
    }),
    { description: "The regions that check it" },
  ),
});
export type SharedStatus = Static<typeof SharedStatus>;
