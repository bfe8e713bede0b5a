import { setTimeout as sleep } from "node:timers/promises";
import { agentProblems } from "../../monitoring/agents/service.ts";
import { agentLiveMs } from "../../monitoring/agents/registration/service.ts";
import { packState } from "../../monitoring/results/packing/service.ts";
import type { System } from "../../platform/context.ts";
import { ping } from "../../platform/db/client/sql.ts";
import type { MetricFactory } from "./factory.ts";
import * as queries from "./queries.ts";

/** Scrapes within this time share one read. */
const freshMs = 5_000;
/** Below the default scrape timeout of 10 s, so that the other metrics are served while the database hangs. */
const patienceMs = 2_000;

const severities = ["minor", "major", "critical"];

/**
 * Metrics of the whole instance, from the database. Every replica reports the same values: aggregate with max, not sum.
 * Returns a function that refreshes them. While the database is away `statusmesh_database_up` is 0 and the others are
 * absent, because an old value or 0 would be wrong.
 */
export function instanceGauges(make: MetricFactory, system: System): () => Promise<void> {
  const { clock } = system;
  const up = make.gauge("database_up", "1 when the database answered within 2 seconds");
  const gauges = readingGauges(make);
  let readAt = Number.NEGATIVE_INFINITY;
  /** Single-flight. True when the database has answered. */
  let reading: Promise<boolean> | null = null;

  async function refresh(): Promise<boolean> {
    try {
      const read = await readInstance(system);
      gauges.forget();
      gauges.set(read);
      up.set(1);
      readAt = clock.now();
      return true;
    } catch {
      return false;
    }
  }

  return async () => {
    if (clock.now() - readAt < freshMs && clock.now() >= readAt) return;
    reading ??= refresh().finally(() => (reading = null));
    const timer = new AbortController();
    const late = sleep(patienceMs, false, { signal: timer.signal }).catch(() => false);
    const answered = await Promise.race([reading, late]);
    timer.abort();
    if (answered) return;
    readAt = Number.NEGATIVE_INFINITY;
    gauges.forget();
    up.set(0);
  };
}

type Reading = Awaited<ReturnType<typeof readInstance>>;

/** One read of the whole instance. `at` is Unix ms. */
async function readInstance(system: System) {
  const { sql, clock } = system;
  const began = clock.now();
  await ping(sql);
  const at = clock.now();
  const [outbox, failing, open, enabled, agents, problems, notices, packing, connections] = await Promise.all([
    queries.outbox(sql, new Date(at)),
    queries.failingChannels(sql),
    queries.openIncidents(sql),
    queries.enabledTargets(sql),
    queries.agentCounts(sql, new Date(at - agentLiveMs)),
    agentProblems(system),
    queries.openOperatorNotices(sql),
    packState(system),
    queries.connections(sql),
  ]);
  return { at, pingMs: at - began, outbox, failing, open, enabled, agents, problems, notices, packing, connections };
}

function readingGauges(make: MetricFactory) {
  const single = {
    ping: make.gauge("database_ping_seconds", "Duration of the shortest query, with the wait for a connection"),
    outboxOverdue: make.gauge(
      "outbox_overdue_seconds",
      "Time for which the next attempt of a delivery has been due; more than seconds means that no replica sends",
    ),
    failing: make.gauge("channels_failing", "Enabled notification channels whose last delivery attempt failed"),
    targets: make.gauge("targets_enabled", "Enabled monitors"),
    silent: make.gauge("regions_without_agent", "Regions with monitors and without a working agent"),
    notices: make.gauge("operator_notices_open", "Ongoing problems that the operator has had a mail about"),
    unpacked: make.gauge("packing_days_waiting", "Ended days of results that are to be packed by now"),
    overdue: make.gauge("packing_overdue_seconds", "Time for which the oldest of them has been due"),
    mismatches: make.gauge(
      "packing_mismatches",
      "Times in a row that the oldest of them was packed and did not match its results",
    ),
    late: make.gauge("packing_late_results", "Late results of packed days to be merged, counted to 100,000"),
  };
  const labelled = {
    connections: make.gauge("database_connections", "Connections to the database, of all replicas, by state", "state"),
    pending: make.gauge("outbox_pending", "Pending deliveries by channel kind", "kind"),
    oldest: make.gauge(
      "outbox_oldest_age_seconds",
      "Age of the oldest pending delivery; a receiver that refuses is tried for a day",
      "kind",
    ),
    incidents: make.gauge("incidents_open", "Open incidents by severity", "severity"),
    agents: make.gauge(
      "agents",
      "Agents: live, impaired (their own network is down), or silent (not seen for 25 seconds)",
      "state",
    ),
  };
  return {
    forget(): void {
      // Without labels a reset means 0; only removal makes a metric absent.
      for (const gauge of Object.values(single)) gauge.remove();
      for (const gauge of Object.values(labelled)) gauge.reset();
    },
    set({ at, pingMs, outbox, open, agents, packing, ...reading }: Reading): void {
      const ageSecs = (since: Date | null): number => (since === null ? 0 : Math.max(0, at - since.getTime()) / 1000);
      single.ping.set(Math.max(0, pingMs) / 1000);
      for (const { state, count } of reading.connections) labelled.connections.set({ state }, count);
      for (const { kind, pending, oldest_at } of outbox) {
        labelled.pending.set({ kind }, pending);
        labelled.oldest.set({ kind }, ageSecs(oldest_at));
      }
      single.outboxOverdue.set(Math.max(0, ...outbox.map(({ due_since }) => ageSecs(due_since))));
      for (const severity of severities)
        labelled.incidents.set({ severity }, open.find((row) => row.severity === severity)?.count ?? 0);
      for (const [state, count] of Object.entries(agents)) labelled.agents.set({ state }, count);
      single.failing.set(reading.failing);
      single.targets.set(reading.enabled);
      single.silent.set(reading.problems.regions.length);
      single.notices.set(reading.notices);
      single.unpacked.set(packing.waiting);
      single.overdue.set(packing.dueSince === null ? 0 : (at - packing.dueSince) / 1000);
      single.mismatches.set(packing.mismatches);
      single.late.set(packing.late);
    },
  };
}
