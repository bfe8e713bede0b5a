import Type, { type Static } from "typebox";
import { Closed, Shape } from "../../platform/http/wire.ts";

const count = (description: string, example = 0) => Type.Integer({ description, examples: [example] });

export const DashboardSummary = Shape("DashboardSummary", "The organisation in numbers", {
  targets: Closed(
    {
      total: count("All of them", 12),
      enabled: count("Those that are checked", 11),
      disabled: count("Those that are paused", 1),
    },
    { description: "How many there are" },
  ),
  current_status: Closed(
    {
      up: count("Found up", 10),
      down: count("Found down", 1),
      degraded: count("Found degraded"),
      error: count("Could not be checked"),
      unknown: count("Without a region that has reported lately"),
    },
    { description: "How the enabled targets read now; paused ones are in none of these" },
  ),
  last_24h: Closed(
    {
      checks_total: count("Runs of the monitors that exist, without those that were skipped", 15_840),
      checks_up: count("Runs that found their target up or degraded", 15_828),
      uptime_pct: Type.Number({
        description: "100 × (up + degraded) / total runs: 100 × checks_up / checks_total; 100 without any run",
        examples: [99.92],
      }),
      incidents: count("Incidents of the monitors that exist that began in these 24 hours", 1),
    },
    { description: "The 24 hours before the request, to the second" },
  ),
  system: Closed(
    {
      in_flight_checks: count(
        "Runs on demand of the organisation that no agent has answered yet. Scheduled runs are not counted: " +
          "agents report results, not runs in flight",
      ),
      result_queue_depth: count("Results of the whole instance that have come in here and are not stored yet"),
      dropped_results_last_5m: count(
        "Results of the whole instance that were not taken here: of a time that cannot be, off the schedule " +
          "of their target, or of a target that the region does not probe (any more)",
      ),
      circuit_breakers_open: count(
        "Hosts (with port) of enabled targets whose last run was not made because the circuit breaker is open",
      ),
    },
    { description: "State of StatusMesh itself" },
  ),
});
export type DashboardSummary = Static<typeof DashboardSummary>;
