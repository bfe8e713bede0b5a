import Type, { type Static } from "typebox";

const count = (description: string) => Type.Integer({ description });

export const DashboardSummary = Type.Object(
  {
    targets: Type.Object({ total: Type.Integer(), enabled: Type.Integer(), disabled: Type.Integer() }, { additionalProperties: false }),
    current_status: Type.Object(
      {
        up: Type.Integer(),
        down: Type.Integer(),
        degraded: Type.Integer(),
        error: Type.Integer(),
        unknown: count("Without a region that has reported lately"),
      },
      { additionalProperties: false, description: "How the enabled targets read now; paused ones are in none of these" },
    ),
    last_24h: Type.Object(
      {
        checks_total: count("Runs that were evidence, counted by the hour: the begun hour 24 hours ago is counted whole"),
        checks_up: count("Runs that found their target up, not degraded"),
        uptime_pct: Type.Number({ description: "Share of runs that found the target up or degraded, percent; 100 without any run" }),
        incidents: count("Incidents that began in the last 24 hours"),
      },
      { additionalProperties: false },
    ),
    system: Type.Object(
      {
        in_flight_checks: count(
          "Runs on demand of the organisation that no agent has answered yet. Scheduled runs are not counted: agents report what they found, not what they are at",
        ),
        result_queue_depth: count("Results of the whole instance that have come in here and are not stored yet"),
        dropped_results_last_5m: count(
          "Results of the whole instance that were not taken here: of a time that cannot be, or of a target that the region does not probe (any more)",
        ),
        circuit_breakers_open: count("Hosts (with port) of enabled targets whose last run was not made because the circuit breaker is open"),
      },
      { additionalProperties: false },
    ),
  },
  { additionalProperties: false, title: "DashboardSummary" },
);
export type DashboardSummary = Static<typeof DashboardSummary>;
