import { warningLimits } from "@statusmesh/shared/protocol/agent-protocol";
import type { ReportedComponents } from "@statusmesh/shared/checks/status-page";
import type { Cause, Measurement } from "@statusmesh/shared/protocol/result";
import { Cancellation } from "@statusmesh/shared/net/cancellation";
import { DialError } from "@statusmesh/shared/net/dial-error";
import { type IpVersion, type Lookup, resolve } from "@statusmesh/shared/net/resolve";
import { stackOf } from "@statusmesh/shared/thrown";
import type { Clock } from "../clock.ts";
import type { CheckCertificates } from "../probes/tls/certificates.ts";
import type { Place } from "../http/docker-socket.ts";
import type { Commands } from "../probes/exec/commands.ts";
import type { Log } from "../telemetry/log.ts";
import type { NetworkGuard } from "./network.ts";
import type { Probe, Trace, Verdict } from "../probes/probe.ts";
import type { RdapLookups } from "../rdap/lookups.ts";
import type { Stats } from "../telemetry/stats.ts";
import {
  clean,
  diagnosisOfRun,
  measurementOf,
  newTrace,
  ownNetworkDown,
  slowVerdict,
  stalled,
  timedOut,
  verdictOf,
} from "./verdicts.ts";

/** A deadline that fires this much too late means that the agent itself was suspended, ms. */
const stallMs = 1000;

const none: readonly string[] = [];

/** A check from the control plane: the kind is known by name only. */
export type WireCheck = { type: string } & Record<string, unknown>;

export interface Outcome {
  measurement: Measurement;
  /** Unix ms on the control plane's clock. */
  timestamp: number;
  skip: boolean;
  /** True when this agent did not run the check; `measurement.error` says why. */
  throttled?: boolean;
  warnings: readonly string[];
  /** Of a run on demand: the components of a status page. */
  components?: ReportedComponents;
  /** For a run refused by an open circuit breaker: the last failure at its destination. */
  cause: Cause | null;
  /** End of validity of the certificate of an HTTP run, Unix ms; null where none was seen. */
  certificateNotAfter: number | null;
  /** What kept a failed run from its destination; see DiagnosisCode. Null where nothing says it. */
  diagnosis: string | null;
  /** Makes the snapshot of a failed response; null where there is none. */
  snapshot: Trace["snapshot"];
}

export interface Run {
  /** Null when the run was abandoned. Never rejects. */
  done: Promise<Outcome | null>;
  abandon(): void;
}

/** A check that can run. */
export interface Prepared {
  kind: string;
  probe: Probe<unknown>;
  certificates: CheckCertificates;
  timeoutMs: number;
  /** Null for a check without a destination: no limit applies. */
  destination: { host: string; port?: number } | null;
  /** Transport and address family: a destination has a circuit breaker for each. */
  dial: string;
}

export interface ProbingOptions {
  clock: Clock;
  log: Log;
  stats: Stats;
  allowPrivate: boolean;
  userAgent: string;
  lookup?: Lookup;
  rdap: RdapLookups;
  /** The commands of exec checks as they are now; absent: none. */
  commands?: (() => Commands | null) | undefined;
  /** The engine of container checks; absent: none. */
  docker?: Place | null | undefined;
  /** Distinguishes target failures from network failures; absent: every failure is evidence. */
  network?: NetworkGuard;
}

/**
 * What a run says about the way to its destination: the connection stood, whatever came after it, or the dial failed
 * after a wait, ms (Infinity where no longer wait would have helped). Null: neither is known.
 */
export type Dialled = "connected" | { waitedMs: number } | null;

/** What the caller of {@link Probing} does with a run. */
export interface RunHooks {
  /** The organisation: names are looked up fairly between them. */
  owner: string;
  /** An on-demand run collects warnings. */
  onDemand: boolean;
  /** Called once, when the run holds its place no longer. */
  ended(): void;
  /** Called with the final verdict and its dial at a monotonic time, ms; not for an abandoned run. */
  concluded(final: Verdict, dialled: Dialled, now: number): void;
}

/** Runs the probe of a check under one deadline, until it ends, the deadline passes or the run is abandoned. */
export class Probing implements Run {
  readonly done: Promise<Outcome | null>;
  readonly #options: ProbingOptions;
  readonly #prepared: Prepared;
  readonly #hooks: RunHooks;
  readonly #cancellation = new Cancellation();
  readonly #trace: Trace = newTrace();
  #warnings: readonly string[] = none;
  #components: ReportedComponents | null = null;
  readonly #timestamp: number;
  readonly #started: number;
  readonly #cancelDeadline: () => void;
  #settle: (outcome: Outcome | null) => void = () => undefined;
  #ended = false;
  #isLate = false;
  /** True while what arrived until the deadline is judged: the probe's own end is none then. */
  #isJudging = false;

  constructor(options: ProbingOptions, check: WireCheck, prepared: Prepared, hooks: RunHooks) {
    const { clock } = options;
    this.#options = options;
    this.#prepared = prepared;
    this.#hooks = hooks;
    this.#timestamp = clock.now();
    this.#started = clock.monotonic();
    this.done = new Promise((settle) => (this.#settle = settle));
    this.#cancelDeadline = clock.after(prepared.timeoutMs, () => this.#deadline());
    this.#probe(check);
  }

  abandon(): void {
    this.#cancellation.abort(new Error("abandoned"));
    this.#end();
    // A run that has ended may still wait for the verdict on the network.
    this.#settle(null);
  }

  #probe(check: WireCheck): void {
    const { log, allowPrivate, userAgent, lookup = resolve, rdap, clock } = this.#options;
    const { kind, probe, certificates } = this.#prepared;
    const { owner } = this.#hooks;
    const warn = (text: string): void => this.#warn(text);
    const context = {
      signal: this.#cancellation,
      trace: this.#trace,
      allowPrivate,
      userAgent,
      owner,
      now: () => clock.now(),
      lookup: (name: string, _owner?: string, wanted?: IpVersion) => lookup(name, owner, wanted),
      certificates,
      rdap,
      commands: this.#options.commands?.() ?? null,
      docker: this.#options.docker ?? null,
      warn,
      note: this.#hooks.onDemand ? warn : undefined,
      listComponents: this.#hooks.onDemand
        ? (found: ReportedComponents): void => void (this.#components = found)
        : undefined,
    };
    probe.run(check, context).then(
      (verdict) => this.#finish(slowVerdict(check, verdict, clock.monotonic() - this.#started)),
      (error: unknown) => {
        if (this.#isJudging) return;
        if (!(error instanceof DialError) && !this.#cancellation.aborted)
          log("error", "a probe failed unexpectedly", {
            kind,
            error: stackOf(error),
          });
        this.#finish(verdictOf(error));
      },
    );
  }

  #warn(text: string): void {
    const warning = clean(text, warningLimits.length);
    if (this.#warnings.length < warningLimits.count && !this.#warnings.includes(warning))
      this.#warnings = [...this.#warnings, warning];
  }

  #deadline(): void {
    const { probe, timeoutMs } = this.#prepared;
    const late = this.#options.clock.monotonic() - this.#started - timeoutMs;
    const judged = late > stallMs ? null : (this.#trace.atDeadline?.() ?? null);
    this.#isJudging = judged !== null;
    this.#isLate = true;
    this.#cancellation.abort(new DOMException("deadline", "TimeoutError"));
    const silent = (): Verdict =>
      late > stallMs ? stalled(late) : (this.#trace.verdict ?? timedOut(probe, timeoutMs, this.#trace));
    if (judged === null) return this.#finish(silent());
    const finish = (verdict: Verdict | null): void => this.#finish({ ...(verdict ?? silent()), totalMs: timeoutMs });
    judged.then(finish, (error: unknown) => this.#finish(verdictOf(error)));
  }

  /** Releases the place. False when it is released already. */
  #end(): boolean {
    if (this.#ended) return false;
    this.#ended = true;
    this.#cancelDeadline();
    this.#hooks.ended();
    return true;
  }

  #finish(verdict: Verdict): void {
    if (!this.#end()) return;
    const { network } = this.#options;
    const { destination } = this.#prepared;
    const endedAt = this.#options.clock.monotonic();
    const { address, connect_ms: connectMs } = this.#trace;
    const { host, port = 0 } = destination ?? { host: "" };
    if (verdict.transportFailed !== true) {
      if (destination !== null && address !== undefined && connectMs !== null)
        network?.reached({ host, port }, address);
      return this.#conclude(verdict, endedAt);
    }
    if (network === undefined) return this.#conclude(verdict, endedAt);
    const unresolved = verdict.unresolved === true;
    const failure = { host, port, address: address ?? null, began: this.#started, unresolved };
    void network
      .isEvidence(failure)
      .then((believed) => this.#conclude(believed ? verdict : ownNetworkDown(verdict), endedAt));
  }

  #dialled(final: Verdict, elapsed: number): Dialled {
    if (this.#trace.connect_ms !== null) return "connected";
    if (final.transportFailed !== true) return final.status !== "error" && final.skip !== true ? "connected" : null;
    // Echo requests left this machine: no way to the host is missing.
    if (final.silent === true) return "connected";
    return { waitedMs: this.#isLate ? this.#prepared.timeoutMs : final.unresolved === true ? elapsed : Infinity };
  }

  #conclude(final: Verdict, endedAt: number): void {
    const { kind } = this.#prepared;
    const elapsed = endedAt - this.#started;
    this.#hooks.concluded(final, this.#dialled(final, elapsed), endedAt);
    this.#options.stats.ran(kind, final.status, elapsed);
    this.#settle({
      measurement: measurementOf(kind, final, this.#trace, elapsed),
      timestamp: this.#timestamp,
      skip: final.skip === true,
      throttled: final.throttled === true,
      warnings: this.#warnings,
      ...(this.#components === null ? {} : { components: this.#components }),
      cause: null,
      certificateNotAfter: this.#trace.certificateNotAfter,
      diagnosis: diagnosisOfRun(final, this.#trace),
      snapshot: final.status === "up" ? null : this.#trace.snapshot,
    });
  }
}
