import Type, { type Static } from "typebox";
import { checkStatuses } from "@statusmesh/shared/result";
import { nullable, Timestamp } from "../../platform/http/wire.ts";

const when = (description: string) => nullable(Type.String({ format: "date-time", description }));

/** A shared monitor as it is now. */
export const SharedStatus = Type.Object(
  {
    name: Type.String({ description: "Name of the monitor", examples: ["Checkout API"] }),
    type: Type.String({ description: "Kind of the check", examples: ["http"] }),
    state: Type.Enum(["up", "down", "degraded", "error", "unknown", "paused"], {
      description: "State of the monitor",
      examples: ["up"],
    }),
    since: when("Start of this state; null without one"),
    last_checked_at: when("Time of the last result; null without one"),
    interval: Type.Integer({ description: "Check interval, seconds", examples: [60] }),
    reason: nullable(Type.String({ description: "Why it is not up, without names of hosts", examples: [null] })),
    uptime_24h_pct: nullable(Type.Number({ description: "Uptime of 24 hours; null without results", examples: [100] })),
    uptime_30d_pct: nullable(
      Type.Number({ description: "Uptime of 30 days; null without results", examples: [99.98] }),
    ),
    regions: Type.Array(
      Type.Object({
        region: Type.String({ description: "Id of the region", examples: ["frankfurt"] }),
        status: nullable(Type.Enum([...checkStatuses], { description: "Status of its last run; null without one" })),
        last_checked_at: nullable(Timestamp),
      }),
      { description: "The regions that check it" },
    ),
  },
  { additionalProperties: false, title: "SharedStatus", description: "A shared monitor as it is now" },
);
export type SharedStatus = Static<typeof SharedStatus>;
