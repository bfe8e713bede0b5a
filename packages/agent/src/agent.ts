import {
  type AgentResult,
  busyFeature,
  features,
  type OnDemandRun,
  type PullReply,
} from "@statusmesh/shared/agent-protocol";
import type { Measurement } from "@statusmesh/shared/result";
import { dial } from "@statusmesh/shared/net/dial";
import { connectApi } from "./api.ts";
import type { CorrectedClock } from "./clock.ts";
import { Contact } from "./contact.ts";
import type { Log } from "./log.ts";
import { MemoryLimit } from "./memory.ts";
import type { AgentMetrics } from "./metrics/metrics.ts";
import { NetworkGuard, type Place } from "./network.ts";
import { Puller } from "./pull.ts";
import { rdapCache } from "./rdap/cache.ts";
import { RdapLookups } from "./rdap/lookups.ts";
import { Repetition } from "./repetition.ts";
import { Reporter } from "./report.ts";
import { type Outcome, Runner } from "./run.ts";
import { Schedule } from "./schedule.ts";
import type { Spool } from "./spool.ts";
import { Stats } from "./stats.ts";
import { type AgentStatus, keepStatus } from "./status-file.ts";

export interface AgentSettings {
  /** URL of the control plane; may have a path. */
  url: string;
  token: string;
  /** Reads the current token after a refusal; null when there is none. */
  newToken?: () => string | null;
  clock: CorrectedClock;
  version: string;
  allowPrivateTargets: boolean;
  /** Folder for data that survives a restart; null keeps it in memory. */
  stateDir: string | null;
  /** URL of the list of RDAP registries; IANA's by default. */
  rdapBootstrapUrl: string | undefined;
  /** The spool of results; closed by {@link Agent.stop}. */
  spool: Spool;
  /** Canaries: addresses that always answer; see {@link NetworkGuard}. */
  canaries: readonly Place[];
  /** Size of the spool on disk, bytes; null without one. */
  spoolBytes: (() => Promise<number>) | null;
  /** Maximum number of concurrent runs. */
  maxConcurrency: number;
  /** Memory limit above which no run starts, and what to do when that does not help. */
  memory: { limitBytes: number; collect: () => void; hopeless: () => void } | null;
  /** Called for every run; null for none. */
  metrics: AgentMetrics | null;
  /** Interval of the statistics in the log, ms. */
  statsMs: number;
  log: Log;
}

/** Maximum number of concurrent on-demand runs. */
const onDemandCapacity = 100;
/** Share of the 4 s of a stop for running checks to finish; the rest is for reporting. */
const graceMs = 1500;
const drainMs = 2000;

/** Clock difference that is logged: certificates are judged by this clock, and log lines bear its time. */
const clockToleranceMs = 30_000;

export interface Agent {
  /** Starts no more runs, waits for or abandons running ones, reports what is left, and resolves within 4 s. */
  stop(): Promise<void>;
}

/** Connects the parts: pull → schedule → run → spool → report. */
export function startAgent(settings: AgentSettings): Agent {
  const { log, version, clock, spool } = settings;
  const contacts = { pull: new Contact(), report: new Contact() };
  const userAgent = `StatusMesh/${version}`;
  const stats = new Stats();
  stats.watch = settings.metrics;
  const memory =
    settings.memory === null
      ? null
      : new MemoryLimit({ ...settings.memory, clock, log, rss: () => process.memoryUsage.rss() });
  const api = connectApi(settings.url, settings.token, userAgent);
  const cache = rdapCache(settings.stateDir, { clock, log });
  const rdap = new RdapLookups({
    cache,
    clock,
    log,
    userAgent,
    allowPrivate: settings.allowPrivateTargets,
    registriesUrl: settings.rdapBootstrapUrl,
  });
  const network = new NetworkGuard({
    clock,
    log,
    controlPlane: placeOf(settings.url),
    canaries: settings.canaries,
    connect: async ({ host, port }, named, signal) => {
      const { socket, address } = await dial({
        host,
        port,
        allowPrivate: named || settings.allowPrivateTargets,
        signal,
      });
      socket.destroy();
      return address;
    },
    changed: () => puller.askAgain(),
  });
  const runner = new Runner({
    clock,
    log,
    stats,
    allowPrivate: settings.allowPrivateTargets,
    userAgent,
    rdap,
    network,
    maxInflight: settings.maxConcurrency,
    mayNot: () => (memory?.over === true ? "the agent is over its memory limit" : null),
  });
  const reporter = new Reporter({
    api,
    spool,
    clock,
    log,
    stats,
    contact: contacts.report,
    onReceipt: (targetIds, rechecks) => {
      for (const id of targetIds) if (!rechecks.has(id)) schedule.settled(id);
      for (const id of rechecks) schedule.recheck(id);
    },
  });
  const running = new Set<{ done: Promise<unknown>; abandon(): void }>();
  let onDemand = 0;
  /** A control plane of an earlier release refuses the reply `busy`, and tells its caller about the timeout itself. */
  let saysBusy = false;

  const watched = <T extends { done: Promise<unknown>; abandon(): void }>(run: T): T => {
    running.add(run);
    void run.done.then(() => running.delete(run));
    return run;
  };
  const repetition = new Repetition();
  const record = (
    targetId: string,
    slot: number,
    { measurement, timestamp, skip, cause }: Outcome,
    routine: boolean,
  ): void => {
    const result = { target_id: targetId, scheduled_at: slot, timestamp, skip, ...wire(measurement) };
    reporter.add({ result: cause === null ? result : { ...result, cause } }, routine);
  };
  const schedule = new Schedule(clock, stats, (assigned, slot, isRecheck) => {
    const { org_id: orgId, check } = assigned;
    const started = isRecheck ? runner.recheck(orgId, check) : runner.run(orgId, check);
    if (started === null) return null;
    const run = watched(started);
    void run.done.then((outcome) => {
      if (outcome === null) return;
      // A skipped run is no evidence, so it changes nothing.
      const repeats = outcome.skip || repetition.notes(assigned, outcome.measurement.status);
      const routine = repeats && !isRecheck;
      record(assigned.target_id, slot, outcome, routine);
    });
    return run;
  });
  const runOnDemand = (asked: OnDemandRun): void => {
    onDemand++;
    const run = watched(runner.run(asked.org_id, asked.check, true));
    void run.done.then((outcome) => {
      onDemand--;
      if (outcome === null) return;
      const { measurement, timestamp, warnings, throttled } = outcome;
      if (throttled === true && !saysBusy) return;
      if (asked.target_id !== null && throttled !== true) record(asked.target_id, asked.scheduled_at, outcome, false);
      reporter.add({
        run: {
          run_id: asked.run_id,
          timestamp,
          matched_expectations: measurement.status === "up",
          warnings: warnings.slice(0, 20),
          ...wire(measurement),
          ...(throttled === true ? { busy: true as const } : {}),
        },
      });
    });
  };
  let region = "";
  let clockWarned = false;
  /** Checks follow the control plane's clock, so a wrong local clock does not affect them, but it is logged. */
  const judgeClock = (): void => {
    const offset = clock.offsetMs();
    if (clockWarned || Math.abs(offset) <= clockToleranceMs) return;
    clockWarned = true;
    const by = `${Math.round(Math.abs(offset) / 1000)} s ${offset < 0 ? "ahead of" : "behind"}`;
    log("warn", `this machine's clock is ${by} the control plane's; checks follow that one. Set one of the two right`, {
      clock_offset_ms: Math.round(offset),
    });
  };
  const apply = (reply: PullReply): void => {
    if (reply.region !== region)
      log("info", "serving a region", { region: reply.region, clock_offset_ms: Math.round(clock.offsetMs()) });
    region = reply.region;
    judgeClock();
    reporter.takes = new Set(features.filter((feature) => reply.features?.includes(feature) === true));
    saysBusy = reply.features?.includes(busyFeature) === true;
    reporter.serve(region);
    runner.cap.max = reply.per_host_max_inflight;
    // A control plane of an earlier release does not send it.
    rdap.line.max = reply.rdap_max_inflight ?? 1;
    schedule.apply(reply);
    for (const id of reply.rechecks ?? []) schedule.recheck(id);
    for (const asked of reply.runs) runOnDemand(asked);
  };
  const puller = new Puller({
    api,
    clock,
    log,
    version,
    // Queued runs cost only their caller's time; {@link Runner} bounds them.
    capacity: () => (memory?.over === true ? 0 : Math.max(0, onDemandCapacity - (onDemand - runner.waiting))),
    apply,
    refused: () => schedule.clear(),
    ...(settings.newToken === undefined ? {} : { newToken: settings.newToken }),
    renewed: (token) => {
      api.useToken(token);
      reporter.resume();
    },
    impairedSince: () => network.impairedSince,
    contact: contacts.pull,
  });

  const logStats = (): void =>
    log("info", "numbers", {
      ...stats.take(),
      assigned: schedule.size,
      spool_waiting: spool.waiting,
      spool_backlog: spool.backlog,
      spool_dropped: spool.dropped,
      breakers_open: runner.breakers.open(clock.monotonic()),
      rss_mb: Math.round(process.memoryUsage.rss() / 1e6),
    });
  settings.metrics?.watch(async () => ({
    version,
    totals: stats.totals(),
    inFlight: stats.inFlight,
    assigned: schedule.size,
    spoolWaiting: spool.waiting,
    spoolBacklog: spool.backlog,
    spoolDropped: spool.dropped,
    spoolBytes: (await settings.spoolBytes?.()) ?? null,
    breakersOpen: runner.breakers.open(clock.monotonic()),
    pullFailures: puller.failed,
    pulledAt: contacts.pull.succeededAt,
    reportedAt: contacts.report.succeededAt,
    clockOffsetMs: clock.offsetMs(),
    impaired: network.impairedSince !== null,
    overMemory: memory?.over === true,
  }));
  let stoppedAt: number | null = null;
  const startedAt = clock.monotonic();
  const status = (): AgentStatus => ({
    format: 1,
    version,
    control_plane: new URL(settings.url).origin,
    region: region === "" ? null : region,
    pid: process.pid,
    // Counted back, because the control plane's time is unknown at the start.
    started_at: Math.round(clock.now() - (clock.monotonic() - startedAt)),
    seen_at: Math.round(clock.now()),
    stopped_at: stoppedAt,
    clock_offset_ms: Math.round(clock.offsetMs()),
    impaired_since: network.impairedSince,
    assigned: schedule.size,
    in_flight: stats.inFlight,
    lag_p99_ms: stats.lagP99Ms,
    breakers_open: runner.breakers.open(clock.monotonic()),
    spool: { waiting: spool.waiting, backlog: spool.backlog, dropped: spool.dropped },
    pull: said(contacts.pull),
    report: said(contacts.report),
  });
  const endStatus = settings.stateDir === null ? null : keepStatus(settings.stateDir, status, log);
  const ticker = setInterval(logStats, settings.statsMs);
  const pulling = puller.run();

  return {
    async stop() {
      clearInterval(ticker);
      memory?.stop();
      schedule.stop();
      puller.stop();
      network.stop();
      await pulling;
      // No run starts here any more, so other agents take the next slots while running checks finish.
      const leaving = puller.leave();
      await Promise.race([
        Promise.all([...running].map((run) => run.done)),
        new Promise<void>((settle) => clock.after(graceMs, settle)),
      ]);
      for (const run of running) run.abandon();
      await Promise.all([reporter.drain(drainMs), cache.close(), leaving]);
      await spool.close();
      stoppedAt = Math.round(clock.now());
      await endStatus?.();
      await api.close();
      logStats();
    },
  };
}

/** Only results of certificates and registrations have details; others do not grow. */
const wire = ({ details, ...measured }: Measurement): Omit<Measurement, "details"> & Pick<AgentResult, "details"> =>
  details === null ? measured : { ...measured, details };

const said = ({ succeededAt, failure }: Contact): AgentStatus["pull"] => ({ succeeded_at: succeededAt, failure });

/** Host and port of a URL. */
export function placeOf(url: string): Place {
  const { protocol, hostname, port } = new URL(url);
  return {
    host: hostname.replace(/^\[|\]$/g, ""),
    port: port === "" ? (protocol === "https:" ? 443 : 80) : Number(port),
  };
}
