import type { AssignedCheck, OnDemandRun, PullReply } from "@statusmesh/shared/protocol/agent-protocol";
import type { FailureSnapshot } from "@statusmesh/shared/protocol/failure-snapshot";
import type { CorrectedClock } from "./clock.ts";
import type { PingJournal } from "./pings/journal.ts";
import type { KnownAddresses } from "./pings/known.ts";
import { PingSender } from "./pings/sender.ts";
import { type Api, connectApi, Contact } from "./protocol/api.ts";
import { Puller } from "./protocol/pull.ts";
import { Repetition } from "./protocol/repetition.ts";
import { Reporter } from "./protocol/report.ts";
import { replyOf, resultOf } from "./protocol/results.ts";
import { type RdapCache, rdapCache } from "./rdap/cache.ts";
import { RdapLookups } from "./rdap/lookups.ts";
import { OwnAbilities } from "./run/abilities.ts";
import { CertificateStore } from "./probes/tls/certificates.ts";
import type { Place as DockerPlace } from "./http/docker-socket.ts";
import type { Commands } from "./probes/exec/commands.ts";
import { MemoryLimit } from "./run/memory.ts";
import type { NetworkGuard, Place } from "./run/network.ts";
import { openNetwork } from "./run/open-network.ts";
import { type Outcome, type Run, Runner } from "./run/run.ts";
import { Schedule, type Started } from "./schedule/schedule.ts";
import type { Spool } from "./spool/spool.ts";
import type { Log } from "./telemetry/log.ts";
import type { AgentMetrics, AgentNumbers } from "./telemetry/metrics.ts";
import { Stats } from "./telemetry/stats.ts";
import { type AgentStatus, keepStatus } from "./telemetry/status-file.ts";

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
  /** The commands of exec checks as they are now; null without a file of them. */
  commands: () => Commands | null;
  /** The engine of container checks; null for an agent without one. */
  docker: DockerPlace | null;
  /** Pings that jobs sent to this agent; null when it takes none. */
  pings: { journal: PingJournal; known: KnownAddresses } | null;
  /** Interval of the statistics in the log, ms. */
  statsMs: number;
  log: Log;
}

/** Maximum number of concurrent on-demand runs. */
const onDemandCapacity = 100;
/** Share of the interval for which a scheduled run may wait for its turn at its host. */
const turnShare = 0.9;
/** Share of the 4 s of a stop for running checks to finish; the rest is for reporting. */
const graceMs = 1500;
const drainMs = 2000;

/** Clock difference that is logged: certificates are judged by this clock, and log lines bear its time. */
const clockToleranceMs = 30_000;

export interface Agent {
  /** Tells the control plane what the agent can run, because its commands changed. */
  commandsChanged(): void;
  /** Starts no more runs, waits for or abandons running ones, reports what is left, and resolves within 4 s. */
  stop(): Promise<void>;
}

/** Connects the parts: pull → schedule → run → spool → report. */
export function startAgent(settings: AgentSettings): Agent {
  return new RunningAgent(settings);
}

class RunningAgent implements Agent {
  readonly #settings: AgentSettings;
  readonly #contacts = { pull: new Contact(), report: new Contact() };
  readonly #stats = new Stats();
  readonly #certificates = new CertificateStore();
  readonly #repetition = new Repetition();
  readonly #api: Api;
  readonly #cache: RdapCache;
  readonly #memory: MemoryLimit | null;
  readonly #network: NetworkGuard;
  readonly #abilities: OwnAbilities;
  readonly #rdap: RdapLookups;
  readonly #runner: Runner;
  readonly #reporter: Reporter;
  readonly #schedule: Schedule;
  readonly #puller: Puller;
  readonly #pings: PingSender | null;
  readonly #running = new Set<Pick<Run, "done" | "abandon">>();
  readonly #startedAt: number;
  /** Running and queued on-demand runs. */
  #onDemand = 0;
  #region = "";
  #clockWarned = false;
  #stoppedAt: number | null = null;
  readonly #endStatus: (() => Promise<void>) | null;
  readonly #ticker: NodeJS.Timeout;
  readonly #pulling: Promise<void>;

  constructor(settings: AgentSettings) {
    const { clock, log, spool, memory, allowPrivateTargets: allowPrivate } = settings;
    const userAgent = `StatusMesh/${settings.version}`;
    const stats = this.#stats;
    this.#settings = settings;
    this.#startedAt = clock.monotonic();
    stats.watch = settings.metrics;
    this.#api = connectApi(settings.url, settings.token, userAgent);
    this.#cache = rdapCache(settings.stateDir, { clock, log });
    this.#rdap = new RdapLookups({
      cache: this.#cache,
      clock,
      log,
      userAgent,
      allowPrivate,
      registriesUrl: settings.rdapBootstrapUrl,
    });
    this.#memory =
      memory === null ? null : new MemoryLimit({ ...memory, clock, log, rss: () => process.memoryUsage.rss() });
    this.#network = openNetwork(settings, () => this.#puller.askAgain());
    this.#abilities = new OwnAbilities({
      clock,
      log,
      commands: settings.commands,
      docker: settings.docker,
      changed: () => this.#puller.askAgain(),
    });
    this.#runner = new Runner({
      clock,
      log,
      stats,
      allowPrivate,
      userAgent,
      rdap: this.#rdap,
      commands: settings.commands,
      docker: settings.docker,
      network: this.#network,
      maxInflight: settings.maxConcurrency,
      refusalReason: () => (this.#memory?.over === true ? "the agent is over its memory limit" : null),
    });
    this.#schedule = new Schedule(clock, stats, (check, slot, isRecheck) => this.#runSlot(check, slot, isRecheck));
    this.#reporter = new Reporter({
      api: this.#api,
      spool,
      clock,
      log,
      stats,
      contact: this.#contacts.report,
      onReceipt: (targetIds, rechecks) => this.#planRechecks(targetIds, rechecks),
    });
    this.#puller = this.#openPuller();
    this.#pings = settings.pings === null ? null : new PingSender({ ...settings.pings, api: this.#api, clock, log });
    settings.metrics?.watch(() => this.#metrics());
    this.#endStatus = settings.stateDir === null ? null : keepStatus(settings.stateDir, () => this.#status(), log);
    this.#ticker = setInterval(() => this.#logStats(), settings.statsMs);
    this.#pulling = this.#abilities.ready.then(() => this.#puller.run());
  }

  commandsChanged(): void {
    this.#puller.askAgain();
  }

  async stop(): Promise<void> {
    clearInterval(this.#ticker);
    this.#memory?.stop();
    this.#schedule.stop();
    this.#puller.stop();
    this.#network.stop();
    this.#abilities.stop();
    await this.#pulling;
    // No run starts here any more, so other agents take the next slots while running checks finish.
    const leaving = this.#puller.leave();
    await Promise.race([
      Promise.all([...this.#running].map((run) => run.done)),
      new Promise<void>((settle) => this.#settings.clock.after(graceMs, settle)),
    ]);
    for (const run of this.#running) run.abandon();
    await Promise.all([this.#reporter.drain(drainMs), this.#pings?.stop(drainMs), this.#cache.close(), leaving]);
    await Promise.all([this.#settings.spool.close(), this.#settings.pings?.journal.close()]);
    this.#stoppedAt = this.#settings.clock.now();
    await this.#endStatus?.();
    await this.#api.close();
    this.#logStats();
  }

  #openPuller(): Puller {
    const { clock, log, version, newToken, spool } = this.#settings;
    return new Puller({
      api: this.#api,
      clock,
      log,
      version,
      kinds: () => this.#abilities.kinds,
      capacity: () => this.#capacity(),
      apply: (reply) => this.#apply(reply),
      refused: () => this.#schedule.clear(),
      ...(newToken === undefined ? {} : { newToken }),
      renewed: (token) => {
        this.#api.useToken(token);
        this.#reporter.resume();
        this.#pings?.resume();
      },
      impairedSince: () => this.#network.impairedSince,
      load: () => ({
        waiting: spool.waiting,
        lag_ms: Math.min(3_600_000, Math.round(this.#stats.lagP99Ms)),
      }),
      contact: this.#contacts.pull,
    });
  }

  /**
   * Number of on-demand runs that can be taken. Queued ones cost only their caller's time; {@link Runner} bounds
   * them.
   */
  #capacity(): number {
    if (this.#memory?.over === true) return 0;
    return Math.max(0, onDemandCapacity - (this.#onDemand - this.#runner.waiting));
  }

  #apply(reply: PullReply): void {
    const { clock, log } = this.#settings;
    if (reply.region !== this.#region)
      log("info", "serving a region", { region: reply.region, clock_offset_ms: Math.round(clock.offsetMs()) });
    this.#region = reply.region;
    this.#warnOfClock();
    this.#reporter.serve(reply.region);
    this.#runner.cap.max = reply.per_host_max_inflight;
    this.#rdap.line.max = reply.rdap_max_inflight;
    this.#certificates.apply(reply);
    this.#schedule.apply(reply);
    for (const id of reply.rechecks) this.#schedule.recheck(id);
    for (const asked of reply.runs) this.#runOnDemand(asked);
  }

  #planRechecks(targetIds: readonly string[], rechecks: ReadonlySet<string>): void {
    for (const id of targetIds) if (!rechecks.has(id)) this.#schedule.settled(id);
    for (const id of rechecks) this.#schedule.recheck(id);
  }

  #runSlot(assigned: AssignedCheck, slot: number, isRecheck: boolean): Started | null {
    const { target_id: id, version, org_id: orgId, check, interval_ms: intervalMs } = assigned;
    if (isRecheck) {
      const run = this.#runner.recheck(orgId, check);
      if (run !== null) this.#follow(run, (outcome) => this.#recordRun(assigned, slot, outcome, true));
      return run;
    }
    const run = this.#runner.runInTurn(orgId, check, {
      slot,
      longestMs: turnShare * intervalMs,
      throttled: (missed, outcome) => this.#record({ id, version }, missed, outcome, true),
    });
    this.#follow(run, (outcome) => this.#recordRun(assigned, run.slot, outcome, false));
    return run;
  }

  #recordRun(assigned: AssignedCheck, slot: number, outcome: Outcome | null, isRecheck: boolean): void {
    if (outcome === null) return;
    // A skipped run is no evidence, so it changes nothing.
    const repeats = outcome.skip || this.#repetition.notes(assigned, outcome.measurement.status);
    const snapshot =
      !outcome.skip && outcome.snapshot !== null && this.#repetition.captures(assigned, slot)
        ? outcome.snapshot()
        : null;
    const { target_id: id, version } = assigned;
    this.#record({ id, version }, slot, outcome, repeats && !isRecheck, snapshot);
  }

  #runOnDemand(asked: OnDemandRun): void {
    this.#onDemand++;
    this.#follow(this.#runner.run(asked.org_id, asked.check, true), (outcome) => {
      this.#onDemand--;
      if (outcome === null) return;
      if (asked.target_id !== null && outcome.throttled !== true)
        this.#record({ id: asked.target_id, version: null }, asked.scheduled_at, outcome, false);
      this.#reporter.add({ run: replyOf(asked.run_id, outcome) });
    });
  }

  /** Keeps the run among the running ones until it ends. */
  #follow(run: Run, ended: (outcome: Outcome | null) => void): void {
    this.#running.add(run);
    void run.done.then((outcome) => {
      this.#running.delete(run);
      ended(outcome);
    });
  }

  #record(
    target: { id: string; version: string | null },
    slot: number,
    outcome: Outcome,
    routine: boolean,
    snapshot: FailureSnapshot | null = null,
  ): void {
    this.#reporter.add({ result: resultOf(target, slot, outcome, snapshot) }, routine);
  }

  /** Checks follow the control plane's clock, so a wrong local clock does not affect them, but it is logged. */
  #warnOfClock(): void {
    const { clock, log } = this.#settings;
    const offset = clock.offsetMs();
    if (this.#clockWarned || Math.abs(offset) <= clockToleranceMs) return;
    this.#clockWarned = true;
    const by = `${Math.round(Math.abs(offset) / 1000)} s ${offset < 0 ? "ahead of" : "behind"}`;
    log("warn", `this machine's clock is ${by} the control plane's; checks follow that one. Set one of the two right`, {
      clock_offset_ms: Math.round(offset),
    });
  }

  get #breakersOpen(): number {
    return this.#runner.breakers.open(this.#settings.clock.monotonic());
  }

  #logStats(): void {
    const { log, spool } = this.#settings;
    log("info", "numbers", {
      ...this.#stats.take(),
      assigned: this.#schedule.size,
      spool_waiting: spool.waiting,
      spool_backlog: spool.backlog,
      spool_dropped: spool.dropped,
      ...(this.#settings.pings === null ? {} : { pings_waiting: this.#settings.pings.journal.waiting }),
      breakers_open: this.#breakersOpen,
      rss_mb: Math.round(process.memoryUsage.rss() / 1e6),
    });
  }

  async #metrics(): Promise<AgentNumbers> {
    const { version, spool, spoolBytes, clock } = this.#settings;
    return {
      version,
      totals: this.#stats.totals(),
      inFlight: this.#stats.inFlight,
      assigned: this.#schedule.size,
      spoolWaiting: spool.waiting,
      spoolBacklog: spool.backlog,
      spoolDropped: spool.dropped,
      spoolBytes: (await spoolBytes?.()) ?? null,
      breakersOpen: this.#breakersOpen,
      pullFailures: this.#puller.failed,
      pulledAt: this.#contacts.pull.succeededAt,
      reportedAt: this.#contacts.report.succeededAt,
      clockOffsetMs: clock.offsetMs(),
      impaired: this.#network.impairedSince !== null,
      overMemory: this.#memory?.over === true,
    };
  }

  #status(): AgentStatus {
    const { version, url, clock, spool } = this.#settings;
    return {
      format: 1,
      version,
      control_plane: new URL(url).origin,
      region: this.#region === "" ? null : this.#region,
      pid: process.pid,
      // Counted back, because the control plane's time is unknown at the start.
      started_at: Math.round(clock.now() - (clock.monotonic() - this.#startedAt)),
      seen_at: clock.now(),
      stopped_at: this.#stoppedAt,
      clock_offset_ms: Math.round(clock.offsetMs()),
      impaired_since: this.#network.impairedSince,
      assigned: this.#schedule.size,
      in_flight: this.#stats.inFlight,
      lag_p99_ms: this.#stats.lagP99Ms,
      breakers_open: this.#breakersOpen,
      pings_waiting: this.#settings.pings?.journal.waiting ?? null,
      spool: { waiting: spool.waiting, backlog: spool.backlog, dropped: spool.dropped },
      pull: said(this.#contacts.pull),
      report: said(this.#contacts.report),
    };
  }
}

const said = ({ succeededAt, failure }: Contact): AgentStatus["pull"] => ({ succeeded_at: succeededAt, failure });
