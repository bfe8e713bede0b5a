import Type, { type Static } from "typebox";
import { described, Id, nullable, OneOf, PageOf, Shape, Text, Timestamp } from "../../../platform/http/wire.ts";

const actorTypes = ["engine", "user", "token", "mcp", "channel"] as const;

/** The cause of a transition: the evaluation of results, a person, a program with a token, or a notification. */
export const Actor = Shape("IncidentActor", "Cause of the event", {
  type: OneOf(
    actorTypes,
    "engine: StatusMesh itself; user: a person in the console; token: an API token; mcp: an MCP client; channel: " +
      "the link, button or answer of a notification",
    "user",
  ),
  id: nullable(described(Id, "Id of the user, API token or channel; null for the engine")),
  name: nullable(Text("Name of the user, API token or channel at that time; null for the engine", "Olga")),
});
export type Actor = Static<typeof Actor>;

export const engineActor: Actor = { type: "engine", id: null, name: null };

export const eventKinds = [
  "opened",
  "escalated",
  "reopened",
  "acknowledged",
  "unacknowledged",
  "resolved",
  "retracted",
  "updated",
  "severity_changed",
  "maintenance_started",
  "maintenance_ended",
  "child_held",
  "notification_retried",
  "noted",
  "flapping_started",
  "flapping_ended",
] as const;
export type EventKind = (typeof eventKinds)[number];

export const IncidentEvent = Shape("IncidentEvent", "One transition of an incident", {
  id: Id,
  at: Timestamp,
  kind: OneOf(
    eventKinds,
    "unacknowledged: the acknowledgement was undone; retracted: late results showed that there was no " +
      "outage; updated: title, description or a posted update; maintenance_started: notifications are held " +
      "from then on; child_held: the opening is held, a monitor that this one depends on is down; " +
      "notification_retried: a person had a failed one sent again; " +
      "noted: an internal note, which only members see; flapping_started: changes are held from then on; " +
      "flapping_ended: it stayed down or up",
    "opened",
  ),
  actor: Actor,
  detail: Type.Record(Type.String(), Type.Unknown(), {
    description: "Facts of the event, by kind",
    examples: [{ severity: "major", regions_down: ["frankfurt"] }],
  }),
});
export type IncidentEvent = Static<typeof IncidentEvent>;

export const IncidentEventPage = PageOf(IncidentEvent);
