import { setTimeout as sleep } from "node:timers/promises";
import { Gauge, type Registry } from "prom-client";
import { agentLiveMs, agentTroubles } from "../agents/service.ts";
import type { System } from "../context.ts";
import { ping as pingDatabase } from "../db/server.ts";
import * as queries from "./queries.ts";

/** Scrapes within this time share one query. */
const freshMs = 5_000;
/** Below the default scrape timeout of 10 s, so that the other metrics are served while the database hangs. */
const patienceMs = 2_000;

const severities = ["minor", "major", "critical"];

/**
 * Metrics of the whole instance, from the database. Every replica reports the same values: aggregate with max, not sum.
 * Returns a function that refreshes them. While the database is away `statusmesh_database_up` is 0 and the others are
 * absent, because an old value or 0 would be wrong.
 */
export function instanceGauges(registry: Registry, system: System): () => Promise<void> {
  const { sql, clock } = system;
  const registers = [registry];
  const up = new Gauge({
    registers,
    name: "statusmesh_database_up",
    help: "1 when the database answered within 2 seconds",
  });
  const gauge = (name: string, help: string, ...labelNames: string[]) =>
    new Gauge({ registers, name: `statusmesh_${name}`, help, labelNames });
  const ping = gauge("database_ping_seconds", "How long the shortest query takes, with the wait for a connection");
  const connections = gauge("database_connections", "Connections to the database, of all replicas, by state", "state");
  const pending = gauge("outbox_pending", "Notices that are still to be delivered, by kind of channel", "kind");
  const oldest = gauge(
    "outbox_oldest_age_seconds",
    "Age of the oldest notice that is still to be delivered; receivers that refuse are tried for a day",
    "kind",
  );
  const overdue = gauge(
    "outbox_overdue_seconds",
    "How long the next attempt of a notice has been due; more than seconds means that nobody sends",
  );
  const failing = gauge("channels_failing", "Enabled notification channels whose last delivery attempt failed");
  const incidents = gauge("incidents_open", "Open incidents by severity", "severity");
  const targets = gauge("targets_enabled", "Monitors that are switched on");
  const agents = gauge(
    "agents",
    "Agents: live, impaired (their own network is down), or silent (not heard of for 25 seconds)",
    "state",
  );
  const silent = gauge("regions_without_agent", "Regions that have something to check and no agent that could");
  const notices = gauge(
    "operator_notices_open",
    "Troubles that the operator was told of by mail and that are not over",
  );
  const forget = () => {
    // Without labels a reset means 0; only removal makes a metric absent.
    for (const single of [ping, overdue, failing, targets, silent, notices]) single.remove();
    for (const labelled of [connections, pending, oldest, incidents, agents]) labelled.reset();
  };

  async function read(): Promise<void> {
    const began = clock.now();
    await pingDatabase(sql);
    const answered = clock.now();
    const at = new Date(answered);
    const [outbox, failingCount, open, enabled, counts, troubles, told, connected] = await Promise.all([
      queries.outbox(sql, at),
      queries.failingChannels(sql),
      queries.openIncidents(sql),
      queries.enabledTargets(sql),
      queries.agentCounts(sql, new Date(answered - agentLiveMs)),
      agentTroubles(system),
      queries.openOperatorNotices(sql),
      queries.connections(sql),
    ]);
    forget();
    up.set(1);
    ping.set(Math.max(0, answered - began) / 1000);
    for (const { state, count } of connected) connections.set({ state }, count);
    for (const { kind, pending: waiting, oldest_at } of outbox) {
      pending.set({ kind }, waiting);
      oldest.set({ kind }, Math.max(0, answered - oldest_at.getTime()) / 1000);
    }
    overdue.set(
      Math.max(0, ...outbox.map(({ due_since }) => (due_since === null ? 0 : answered - due_since.getTime()))) / 1000,
    );
    for (const severity of severities)
      incidents.set({ severity }, open.find((row) => row.severity === severity)?.count ?? 0);
    failing.set(failingCount);
    targets.set(enabled);
    for (const state of ["live", "impaired", "silent"] as const) agents.set({ state }, counts[state]);
    silent.set(troubles.regions.length);
    notices.set(told);
  }

  let readAt = Number.NEGATIVE_INFINITY;
  let reading: Promise<boolean> | null = null;
  return async () => {
    if (clock.now() - readAt < freshMs && clock.now() >= readAt) return;
    reading ??= read()
      .then(
        () => {
          readAt = clock.now();
          return true;
        },
        () => false,
      )
      .finally(() => (reading = null));
    const timer = new AbortController();
    const late = sleep(patienceMs, false, { signal: timer.signal }).catch(() => false);
    const answered = await Promise.race([reading, late]);
    timer.abort();
    if (answered) return;
    readAt = Number.NEGATIVE_INFINITY;
    forget();
    up.set(0);
  };
}
