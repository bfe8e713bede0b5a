import Type, { type Static } from "typebox";
import { severities } from "../incidents/schema.ts";
import { Id, nullable, PageOf, Timestamp } from "../http/wire.ts";
import { componentStates } from "./states.ts";

/*
 * What anybody may see. Every type here lists its fields one by one: what a monitor checks, and with which credentials,
 * has no field to slip through.
 */

const ComponentStateSchema = Type.Enum([...componentStates]);

const exact = { additionalProperties: false };

const DayCell = Type.Object(
  {
    date: Type.String({ description: "UTC day, 2026-11-20" }),
    state: ComponentStateSchema,
    downtime_secs: Type.Integer({ description: "Seconds inside incidents that were more than minor" }),
  },
  exact,
);

export const PublicComponent = Type.Object(
  {
    id: Id,
    name: Type.String(),
    description: nullable(Type.String()),
    status: ComponentStateSchema,
    uptime_pct: nullable(Type.Number({ description: "Share of the runs of the days shown that found it up or degraded, percent; null without any run" })),
    history: Type.Array(DayCell, { description: "90 UTC days, oldest first" }),
  },
  exact,
);
export type PublicComponent = Static<typeof PublicComponent>;

const PublicUpdate = Type.Object(
  { phase: Type.Enum(["investigating", "identified", "monitoring", "resolved", "postmortem"]), message: Type.String(), created_at: Timestamp },
  exact,
);

export const PublicIncident = Type.Object(
  {
    id: Id,
    title: Type.String({ description: "As the operators wrote it, or the component and what happened to it" }),
    description: nullable(Type.String()),
    state: Type.Enum(["open", "closed"]),
    status: Type.Enum(["degraded", "partial_outage", "major_outage"], { description: "How the component reads because of it now; at its worst once it has ended" }),
    severity: Type.Enum([...severities]),
    component: Type.Object({ id: Id, name: Type.String() }, exact),
    started_at: Timestamp,
    ended_at: nullable(Timestamp),
    duration_secs: nullable(Type.Integer({ description: "Null while it lasts" })),
    updates: Type.Array(PublicUpdate, { description: "Newest first" }),
  },
  { ...exact, title: "PublicIncident" },
);
export type PublicIncident = Static<typeof PublicIncident>;

export const PublicIncidentPage = PageOf(PublicIncident);

/** Planned work, as visitors see it. */
const PublicMaintenance = Type.Object(
  {
    id: Id,
    title: Type.String(),
    description: nullable(Type.String()),
    starts_at: Timestamp,
    ends_at: Timestamp,
    components: Type.Array(Type.Object({ id: Id, name: Type.String() }, exact)),
  },
  exact,
);

export const PublicStatus = Type.Object(
  {
    overall: Type.Object({ state: ComponentStateSchema, label: Type.String() }, exact),
    generated_at: Timestamp,
    page: Type.Object({ name: Type.String(), about: nullable(Type.String({ description: "Markdown" })), logo_url: nullable(Type.String()) }, exact),
    groups: Type.Array(
      Type.Object({ name: nullable(Type.String({ description: "Null for the components without a group, which come last" })), components: Type.Array(PublicComponent) }, exact),
    ),
    active_incidents: Type.Array(PublicIncident),
    recent_incidents: Type.Array(PublicIncident, { description: "Ended within the last 30 days, newest first" }),
    active_maintenance: Type.Array(PublicMaintenance),
    upcoming_maintenance: Type.Array(PublicMaintenance),
  },
  { ...exact, title: "PublicStatus" },
);
export type PublicStatus = Static<typeof PublicStatus>;

export const ComponentHistory = Type.Object(
  {
    id: Id,
    name: Type.String(),
    status: ComponentStateSchema,
    days: Type.Integer(),
    uptime_pct: nullable(Type.Number()),
    history: Type.Array(DayCell, { description: "Oldest first" }),
  },
  { ...exact, title: "ComponentHistory" },
);
export type ComponentHistory = Static<typeof ComponentHistory>;
