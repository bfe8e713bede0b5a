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
  /** Where the control plane is; may have a path. */
  url: string;
  token: string;
  /** The token as it stands now where it may be replaced, asked for when it is refused; null when there is none. */
  newToken?: () => string | null;
  clock: CorrectedClock;
  version: string;
  allowPrivateTargets: boolean;
  /** Folder for what outlives a restart; null keeps it in memory. */
  stateDir: string | null;
  /** Where the list of RDAP registries is; IANA's without one. */
  rdapBootstrapUrl: string | undefined;
  /** Where results wait; closed by {@link Agent.stop}. */
  spool: Spool;
  /** Places that always answer, to tell an outage of this machine's network by; see {@link NetworkGuard}. */
  canaries: readonly Place[];
  /** Size of what the spool has on disk, bytes; null keeps nothing there. */
  spoolBytes: (() => Promise<number>) | null;
  /** Runs that may be under way at once. */
  maxConcurrency: number;
  /** What the process may take before it starts no more runs, and what to do when that does not help. */
  memory: { limitBytes: number; collect: () => void; hopeless: () => void } | null;
  /** Who is told of every run; null for nobody. */
  metrics: AgentMetrics | null;
  /** How often the agent's numbers are logged, ms. */
  statsMs: number;
  log: Log;
}

/** On-demand runs that may go on at once. */
const onDemandCapacity = 100;
/** Of the 4 s that a stop may take, what running checks get to end by themselves; the rest is for reporting. */
const graceMs = 1500;
const drainMs = 2000;

/** A clock that is off by more was not set by anything: certificates are judged by it, and log lines bear its time. */
const clockToleranceMs = 30_000;

export interface Agent {
  /** Starts nothing more, lets what runs end or gives it up, reports what there is, and resolves within 4 s. */
  stop(): Promise<void>;
}

/** Puts the parts together: pull → schedule → run → spool → report. */
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
  const reporter = new Reporter({ api, spool, clock, log, stats, contact: contacts.report });
  const running = new Set<{ done: Promise<unknown>; abandon(): void }>();
  let onDemand = 0;
  /** A control plane of an earlier release refuses the answer `busy`, and says so itself to a caller that had none in time. */
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
  const schedule = new Schedule(clock, stats, (assigned, slot) => {
    const run = watched(runner.run(assigned.org_id, assigned.check));
    void run.done.then((outcome) => {
      if (outcome === null) return;
      // A skipped run is no evidence, so it changes nothing.
      const routine = outcome.skip || repetition.notes(assigned, outcome.measurement.status);
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
  /** Checks go by the control plane's clock, so that a wrong one here changes nothing about them; but it should not stay unnoticed. */
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
    // A control plane of an earlier release does not say.
    rdap.line.max = reply.rdap_max_inflight ?? 1;
    schedule.apply(reply);
    for (const asked of reply.runs) runOnDemand(asked);
  };
  const puller = new Puller({
    api,
    clock,
    log,
    version,
    // Runs that wait for a place take up nothing but a caller's time; {@link Runner} bounds them.
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
    // Counted back, because the control plane's time is not known at the start.
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
      // Nothing more is started here, so the next slots are the others' from now on, while what runs here still ends.
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

/** Only a certificate or a registration has details: all other results are as long as before. */
const wire = ({ details, ...measured }: Measurement): Omit<Measurement, "details"> & Pick<AgentResult, "details"> =>
  details === null ? measured : { ...measured, details };

const said = ({ succeededAt, failure }: Contact): AgentStatus["pull"] => ({ succeeded_at: succeededAt, failure });

/** Where a URL leads. */
export function placeOf(url: string): Place {
  const { protocol, hostname, port } = new URL(url);
  return {
    host: hostname.replace(/^\[|\]$/g, ""),
    port: port === "" ? (protocol === "https:" ? 443 : 80) : Number(port),
  };
}
