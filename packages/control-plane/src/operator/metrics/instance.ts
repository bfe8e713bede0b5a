import { setTimeout as sleep } from "node:timers/promises";
import { agentLiveMs, agentProblems } from "../../monitoring/agents/service.ts";
import { packState } from "../../monitoring/results/service.ts";
import type { System } from "../../platform/context.ts";
import { ping } from "../../platform/db/sql.ts";
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
  const regionsWithoutAgent = problems.regions.length;
  return {
    at,
    pingMs: at - began,
    outbox,
    failing,
    open,
    enabled,
    agents,
    regionsWithoutAgent,
    notices,
    packing,
    connections,
  };
}

function readingGauges(make: MetricFactory): { forget(): void; set(reading: Reading): void } {
  const ping = make.gauge("database_ping_seconds", "Duration of the shortest query, with the wait for a connection");
  const connections = make.gauge(
    "database_connections",
    "Connections to the database, of all replicas, by state",
    "state",
  );
  const outbox = outboxGauges(make);
  const failing = make.gauge("channels_failing", "Enabled notification channels whose last delivery attempt failed");
  const incidents = make.gauge("incidents_open", "Open incidents by severity", "severity");
  const targets = make.gauge("targets_enabled", "Enabled monitors");
  const agents = make.gauge(
    "agents",
    "Agents: live, impaired (their own network is down), or silent (not seen for 25 seconds)",
    "state",
  );
  const silent = make.gauge("regions_without_agent", "Regions with monitors and without a working agent");
  const notices = make.gauge("operator_notices_open", "Ongoing problems that the operator has had a mail about");
  const unpacked = make.gauge("packing_days_waiting", "Ended days of results that are to be packed by now");
  const overdue = make.gauge("packing_overdue_seconds", "Time for which the oldest of them has been due");
  const mismatches = make.gauge(
    "packing_mismatches",
    "Times in a row that the oldest of them was packed and did not match its results",
  );
  const late = make.gauge("packing_late_results", "Late results of packed days to be merged, counted to 100,000");
  return {
    forget() {
      // Without labels a reset means 0; only removal makes a metric absent.
      for (const single of [ping, failing, targets, silent, notices, unpacked, overdue, mismatches, late])
        single.remove();
      for (const labelled of [connections, incidents, agents]) labelled.reset();
      outbox.forget();
    },
    set(reading) {
      ping.set(Math.max(0, reading.pingMs) / 1000);
      for (const { state, count } of reading.connections) connections.set({ state }, count);
      outbox.set(reading);
      for (const severity of severities)
        incidents.set({ severity }, reading.open.find((row) => row.severity === severity)?.count ?? 0);
      failing.set(reading.failing);
      targets.set(reading.enabled);
      for (const state of ["live", "impaired", "silent"] as const) agents.set({ state }, reading.agents[state]);
      silent.set(reading.regionsWithoutAgent);
      notices.set(reading.notices);
      const { packing, at } = reading;
      unpacked.set(packing.waiting);
      overdue.set(packing.dueSince === null ? 0 : (at - packing.dueSince) / 1000);
      mismatches.set(packing.mismatches);
      late.set(packing.late);
    },
  };
}

function outboxGauges(make: MetricFactory): { forget(): void; set(reading: Reading): void } {
  const pending = make.gauge("outbox_pending", "Pending deliveries by channel kind", "kind");
  const oldest = make.gauge(
    "outbox_oldest_age_seconds",
    "Age of the oldest pending delivery; a receiver that refuses is tried for a day",
    "kind",
  );
  const overdue = make.gauge(
    "outbox_overdue_seconds",
    "Time for which the next attempt of a delivery has been due; more than seconds means that no replica sends",
  );
  return {
    forget() {
      overdue.remove();
      for (const labelled of [pending, oldest]) labelled.reset();
    },
    set({ outbox, at }) {
      const ageSecs = (since: Date | null): number => (since === null ? 0 : Math.max(0, at - since.getTime()) / 1000);
      for (const { kind, pending: waiting, oldest_at } of outbox) {
        pending.set({ kind }, waiting);
        oldest.set({ kind }, ageSecs(oldest_at));
      }
      overdue.set(Math.max(0, ...outbox.map(({ due_since }) => ageSecs(due_since))));
    },
  };
}
