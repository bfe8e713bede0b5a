import type { ResultDetails } from "@statusmesh/shared/checks";
import type { ReportedComponents } from "@statusmesh/shared/checks/status-page";
import type { FailureSnapshot } from "@statusmesh/shared/protocol/failure-snapshot";
import type { CheckStatus } from "@statusmesh/shared/protocol/result";
import type { CancelSignal } from "@statusmesh/shared/net/cancellation";
import type { DialTrace } from "@statusmesh/shared/net/dial";
import type { Lookup } from "@statusmesh/shared/net/resolve";
import type { ReceivedResponse } from "../diagnosis/response.ts";
import type { CheckCertificates } from "./tls/certificates.ts";
import type { Place } from "../http/docker-socket.ts";
import type { Commands } from "./exec/commands.ts";
import type { RdapLookups } from "../rdap/lookups.ts";

/** Measurements so far; the deadline reads them at that moment. */
export interface Trace extends DialTrace {
  ttfb_ms: number | null;
  http_status: number | null;
  response_size: number | null;
  /** Origin of a redirect: failures there are not the fault of the check's own host. */
  redirectedTo: string | null;
  /** End of validity of the certificate that expires first on the way, Unix ms; null where none was seen. */
  certificateNotAfter: number | null;
  /** Makes the snapshot of the last response, as far as it was read; null before one, and where the check has none. */
  snapshot: (() => FailureSnapshot) | null;
  /** The last response, as far as it was read; null before one. */
  received: ReceivedResponse | null;
  /** Judges a body that still arrives at the deadline; null before one, and for a verdict that needs more of it. */
  atDeadline: (() => Promise<Verdict | null> | null) | null;
  /** A verdict that is certain before the probe is done: a deadline or broken connection does not change it. */
  verdict: Verdict | null;
}

export interface Verdict {
  status: CheckStatus;
  /** In words for operators; null when nothing is wrong. */
  error: string | null;
  /** Details of the kind, for every status. */
  details?: ResultDetails | null;
  /** Replaces the time of the run, ms: a ping takes its interval, and its answer less. */
  totalMs?: number;
  /** What kept the run from its destination, where the connection says it; of a response the trace has it. */
  diagnosis?: string | null;
  /** True when the run is no evidence. */
  skip?: boolean;
  /** True when this agent did not run the check: an on-demand caller gets "busy". Implies `skip`. */
  throttled?: boolean;
  /** True for a transport failure, which needs the proof that the agent's own network works. */
  transportFailed?: boolean;
  /** True for the silence of a destination without connections, which opens no circuit breaker. */
  silent?: boolean;
  /** True for a transport failure of a resolver that was late. */
  unresolved?: boolean;
}

export const up: Verdict = { status: "up", error: null };
export const down = (error: string): Verdict => ({ status: "down", error });

export interface ProbeContext {
  /** The deadline of the whole run. When it aborts, the probe releases its resources at once. */
  signal: CancelSignal;
  trace: Trace;
  allowPrivate: boolean;
  /** `StatusMesh/1.2.3` */
  userAgent: string;
  /**
   * Records a warning: what a person should mend although it does not change the status. It stands in the replies of
   * `/test` and `sm-agent check`, and with the target until its next run. The same text counts once.
   */
  warn: (text: string) => void;
  /** Records a remark that needs no action, for the person who started the run. Absent for a scheduled run. */
  note?: ((text: string) => void) | undefined;
  /** Lists the components of a status page, for the person who started the run. Absent for a scheduled run. */
  listComponents?: ((components: ReportedComponents) => void) | undefined;
  /** The organisation: what runs share is shared fairly between them. */
  owner: string;
  /** Unix ms. */
  now: () => number;
  lookup?: Lookup | undefined;
  /** The stored certificates of this check. */
  certificates: CheckCertificates;
  /** Domain lookups, shared by the whole agent. */
  rdap: RdapLookups;
  /** The commands of exec checks; null for an agent without a file of them. */
  commands: Commands | null;
  /** The engine of container checks; null for an agent without one. */
  docker: Place | null;
}

/**
 * The agent's half of a check kind: one function in one file. The caller owns the deadline and the total time. A
 * DialError becomes the fitting verdict; any other error is a defect of the agent.
 */
export interface Probe<Spec> {
  /** Status at the deadline: `down` where silence is the target's fault. */
  timeoutStatus: "down" | "error";
  /**
   * True for a destination that answers for others, such as a name server: its silence about one name opens no circuit
   * breaker.
   */
  answersForOthers?: true;
  /** The transport below the check; TCP unless said. A port that refuses one may serve the other. */
  transport?: "udp" | "icmp";
  run(spec: Spec, context: ProbeContext): Promise<Verdict>;
}

/** Memoises a function per object: a check object stays the same between runs. Exceptions are not cached. */
export function oncePer<K extends object, V extends NonNullable<unknown>>(work: (key: K) => V): (key: K) => V {
  const known = new WeakMap<K, V>();
  return (key) => {
    let value = known.get(key);
    if (value === undefined) {
      value = work(key);
      known.set(key, value);
    }
    return value;
  };
}
