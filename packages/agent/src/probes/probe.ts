import type { ResultDetails } from "@statusmesh/shared/checks";
import type { CheckStatus } from "@statusmesh/shared/result";
import type { DialTrace } from "@statusmesh/shared/net/dial";
import type { Lookup } from "@statusmesh/shared/net/resolve";
import type { RdapLookups } from "../rdap/lookups.ts";

/** What a probe has measured so far. It is read at the deadline as it stands then. */
export interface Trace extends DialTrace {
  ttfb_ms: number | null;
  http_status: number | null;
  response_size: number | null;
  /** Where a redirect led, as an origin: what happens from there on is not the fault of the check's own host. */
  redirectedTo: string | null;
  /** What is certain already, although the probe is not done: a deadline or a broken connection does not take it back. */
  verdict: Verdict | null;
}

export interface Verdict {
  status: CheckStatus;
  /** In an operator's words; null when nothing is wrong. */
  error: string | null;
  /** What the kind read beside the measurement, whatever the status. */
  details?: ResultDetails | null;
  /** True when the run says nothing about the target. */
  skip?: boolean;
  /** True when this agent held the run back: one that somebody waits for is answered as busy. Implies `skip`. */
  throttled?: boolean;
  /** True when the destination could not be talked to: this is what opens a circuit breaker. */
  transportFailed?: boolean;
}

export interface ProbeContext {
  /** The one deadline over everything. When it aborts, the probe frees what it holds at once; nobody waits for its answer. */
  signal: AbortSignal;
  trace: Trace;
  allowPrivate: boolean;
  /** `StatusMesh/1.2.3` */
  userAgent: string;
  /** Notes what is not wrong but worth knowing. Absent where nobody would read it. */
  warn?: ((text: string) => void) | undefined;
  /** Unix ms. */
  now: () => number;
  lookup?: Lookup | undefined;
  /** Where registrations are looked up; one for the whole agent. */
  rdap: RdapLookups;
}

/**
 * The agent's half of a check kind: one function in one file. The caller owns the deadline and the total time. A
 * DialError that it throws becomes the verdict that fits; anything else it throws is a defect of the agent.
 */
export interface Probe<Spec> {
  /** What a run that reached the deadline found: `down` where silence is the target's fault. */
  timeoutStatus: "down" | "error";
  /** True where the destination answers for others, as a name server does: its silence about one thing is no reason to stop asking it about the rest, so it opens no circuit breaker. */
  answersForOthers?: true;
  run(spec: Spec, context: ProbeContext): Promise<Verdict>;
}
