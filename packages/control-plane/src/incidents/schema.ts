import Type, { type Static } from "typebox";
import { Id, nullable, PageOf, Timestamp } from "../http/wire.ts";

export const severities = ["minor", "major", "critical"] as const;
export const Severity = Type.Enum([...severities]);
export type Severity = (typeof severities)[number];

/** How much of the mesh sees the trouble. */
export type Impact = "degraded" | "partial_outage" | "major_outage";

export const reasons = ["opened", "reminder", "escalated", "reopened", "resolved"] as const;
export type Reason = (typeof reasons)[number];

/** What a channel is told. Stored with the delivery as it was when it happened; every channel kind renders from this. */
export interface Notice {
  incident_id: string;
  target_id: string;
  monitor_name: string;
  reason: Reason;
  severity: Severity;
  /** High for major and critical. */
  urgency: "high" | "low";
  /** RFC 3339. */
  started_at: string;
  ended_at: string | null;
  /** In words, for people. */
  error_sample: string | null;
  regions_down: string[];
  regions_up: string[];
  /** The incident in the console. */
  url: string;
}

export const Incident = Type.Object(
  {
    id: Id,
    target_id: Id,
    monitor_name: Type.String(),
    state: Type.Enum(["open", "closed"]),
    severity: Severity,
    started_at: Timestamp,
    ended_at: nullable(Timestamp),
    duration_secs: nullable(Type.Integer({ description: "Null while open" })),
    acknowledged_at: nullable(Timestamp),
    closed_by: nullable(Type.Enum(["engine", "person", "pause"])),
    reopened_count: Type.Integer(),
    error_sample: nullable(Type.String()),
    regions_down: Type.Array(Type.String()),
    regions_up: Type.Array(Type.String()),
    public_title: nullable(Type.String()),
    public_description: nullable(Type.String()),
    created_at: Timestamp,
    updated_at: Timestamp,
  },
  { additionalProperties: false, title: "Incident" },
);
export type Incident = Static<typeof Incident>;

export const IncidentPage = PageOf(Incident);

const Attempt = Type.Object({ at: Timestamp, ok: Type.Boolean(), status: nullable(Type.Integer()), error: nullable(Type.String()) });

export const Delivery = Type.Object(
  {
    id: Id,
    channel_id: nullable(Id),
    channel_name: Type.String(),
    channel_type: Type.String(),
    reason: Type.Enum([...reasons]),
    state: Type.Enum(["pending", "delivered", "dead"]),
    attempts: Type.Array(Attempt),
    next_attempt_at: nullable(Timestamp),
    created_at: Timestamp,
    delivered_at: nullable(Timestamp),
  },
  { additionalProperties: false, title: "Delivery" },
);
export type Delivery = Static<typeof Delivery>;

export const DeliveryPage = PageOf(Delivery);

const RegionVote = Type.Object({
  region: Type.String(),
  vote: Type.Enum(["failing", "passing", "none"], { description: "Confirmed by alert_confirmations runs in a row" }),
  live: Type.Boolean({ description: "False when the region has not reported lately" }),
  consecutive: Type.Integer(),
  consecutive_kind: Type.Enum(["passing", "failing"]),
  last_slot: Timestamp,
  last_status: nullable(Type.Enum(["up", "down", "degraded", "error"])),
  last_error: nullable(Type.String()),
});

export const Explanation = Type.Object(
  {
    incident_id: Id,
    opened_at: Timestamp,
    region_policy: Type.Unknown(),
    alert_confirmations: Type.Integer(),
    regions_live: Type.Integer(),
    regions_failing: Type.Integer(),
    regions_needed: Type.Integer({ description: "How many of the live regions must fail" }),
    regions: Type.Array(RegionVote),
  },
  { additionalProperties: false, title: "Explanation" },
);
export type Explanation = Static<typeof Explanation>;
