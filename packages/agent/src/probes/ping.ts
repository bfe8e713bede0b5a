import { canonicalHost } from "@statusmesh/shared/checks/host";
import { type PingCheck, type PingDetails, ping as kind } from "@statusmesh/shared/checks/ping";
import { abortSignalOf } from "@statusmesh/shared/net/cancellation";
import { DialError } from "@statusmesh/shared/net/dial-error";
import { resolveGuarded } from "@statusmesh/shared/net/resolve-guarded";
import { Semaphore } from "@statusmesh/shared/semaphore";
import { codeOf } from "@statusmesh/shared/thrown";
import { oncePer, type Probe, type Verdict } from "./probe.ts";
import { type Ended, runProgram } from "./program.ts";

const hostOf = oncePer(({ host }: PingCheck) => canonicalHost(host));

/** Processes at once. */
const maxPings = 32;
const places = new Semaphore(maxPings);
const busy: Verdict = { status: "error", error: `${maxPings} pings were running`, skip: true, throttled: true };

/** Why echo requests cannot be sent: a name of `causes` of the kind. */
export type PingCause = "ping_missing" | "ping_not_executable" | "ping_socket_refused";

const usualPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** Runs the system's `ping` on an address. Throws {@link CannotPing}. */
async function pingAddress(
  address: string,
  { packets, intervalMs, waitSecs }: { packets: number; intervalMs: number; waitSecs: number },
  signal: Parameters<typeof runProgram>[1],
  onOutput: (soFar: string) => void,
): Promise<Ended> {
  const argv: [string, ...string[]] = ["ping", "-n", "-c", String(packets), "-i", (intervalMs / 1000).toFixed(3)];
  const env = { PATH: process.env["PATH"] || usualPath, LC_ALL: "C" };
  const ended = await runProgram(
    { argv: [...argv, "-W", String(waitSecs), address], env, maxOutput: 16_384, onOutput },
    signal,
  ).catch((error: unknown) => {
    const cause = causes.get(codeOf(error));
    throw cause === undefined ? error : new CannotPing(cause);
  });
  // iputils: `ping: socket: Operation not permitted`, busybox: `ping: permission denied (are you root?)`.
  if (/socket: (?:Operation not permitted|Permission denied)|permission denied \(are you root/i.test(ended.stderr))
    throw new CannotPing("ping_socket_refused");
  return ended;
}

const causes: ReadonlyMap<string, PingCause> = new Map([
  ["ENOENT", "ping_missing"],
  ["EACCES", "ping_not_executable"],
  ["EPERM", "ping_not_executable"],
]);

/** Echo requests cannot be sent from this machine. */
class CannotPing extends Error {
  readonly reason: PingCause;

  constructor(reason: PingCause) {
    super(kind.causes![reason]);
    this.reason = reason;
  }
}

/** Why this machine cannot send echo requests, found with one to itself; null where it can. */
export async function pingCause(): Promise<PingCause | null> {
  try {
    await pingAddress("127.0.0.1", { packets: 1, intervalMs: 200, waitSecs: 1 }, AbortSignal.timeout(3000), () => {});
    return null;
  } catch (error) {
    return error instanceof CannotPing ? error.reason : null;
  }
}

/** Answered packets in the output of iputils and busybox: round trips by sequence number, ms; duplicates once. */
export function answersIn(output: string): Map<number, number> {
  const times = new Map<number, number>();
  for (const [, seq, ms] of output.matchAll(
    /^\d+ bytes from [^\n]*?(?:icmp_seq|seq)=(\d+) [^\n]*?time[=<]([\d.]+) ?ms(?: \(DUP!\))?$/gm,
  ))
    if (!times.has(Number(seq))) times.set(Number(seq), Number(ms));
  return times;
}

/** Echo requests to one address that the guarded resolution returned. */
export const ping: Probe<PingCheck> = {
  timeoutStatus: "down",
  async run(spec, { signal, trace, allowPrivate, lookup }) {
    const { packets, timeout } = spec;
    const started = performance.now();
    const addresses = await resolveGuarded({ host: hostOf(spec), allowPrivate, signal, lookup, trace });
    trace.verdict = busy;
    const resolvedAt = performance.now();
    const leave = await places.enter("", abortSignalOf(signal));
    try {
      // Silence would be no evidence after a long wait: the answers had no time to come.
      if (performance.now() - resolvedAt > timeout / 2) return busy;
      const left = timeout - (performance.now() - started);
      const intervalMs = Math.max(2, Math.min(200, Math.floor(left / (packets + 1))));
      const settings = { packets, intervalMs, waitSecs: Math.ceil(left / 1000) };
      let unreachable: DialError | null = null;
      for (const address of addresses) {
        trace.address = address;
        trace.verdict = verdictOf(spec, "");
        const ended = await pingAddress(address, settings, signal, (soFar) => (trace.verdict = verdictOf(spec, soFar)));
        unreachable = noRoute(ended);
        if (unreachable === null) return finalVerdict(spec, ended);
      }
      trace.verdict = null;
      throw unreachable ?? new DialError("dns", "name has no address", "ENODATA");
    } catch (error) {
      if (!(error instanceof CannotPing)) throw error;
      return { status: "error", error: error.message, skip: true };
    } finally {
      leave();
    }
  },
};

/** An address of a family that this machine has no network for: another one is tried. */
function noRoute({ stdout, stderr }: Ended): DialError | null {
  if (answersIn(stdout).size > 0) return null;
  if (/network is unreachable/i.test(stderr)) return new DialError("connect", "network unreachable", "ENETUNREACH");
  if (/address family not supported/i.test(stderr))
    return new DialError("connect", "the agent's machine has no network of this address family", "EAFNOSUPPORT");
  return null;
}

function finalVerdict(spec: PingCheck, { code, signal, stdout, stderr }: Ended): Verdict {
  const [, sent] = /^(\d+) packets transmitted, /m.exec(stdout) ?? [];
  if (sent !== undefined) return verdictOf(spec, stdout, Math.min(spec.packets, Number(sent)));
  const why = stderr.trim().split("\n")[0] || (signal === null ? `exit code ${code}` : `ended by ${signal}`);
  return { status: "error", error: `ping failed: ${why.slice(0, 200)}`, skip: true };
}

function verdictOf({ packets, max_loss_pct: allowed }: PingCheck, output: string, sent = packets): Verdict {
  const times = [...answersIn(output).values()];
  const received = Math.min(sent, times.length);
  const lossPct = sent === 0 ? 100 : Math.round((1000 * (sent - received)) / sent) / 10;
  const details: PingDetails = {
    sent,
    received,
    loss_pct: lossPct,
    min_ms: received === 0 ? null : Math.min(...times),
    max_ms: received === 0 ? null : Math.max(...times),
  };
  if (received === 0) {
    // `From 192.0.2.1 icmp_seq=1 Destination Host Unreachable`
    const [, why] = /^From \S+ icmp_seq=\d+ ([^\n]+)$/m.exec(output) ?? [];
    const error = `no answer to ${sent} ${sent === 1 ? "packet" : "packets"}${why === undefined ? "" : ` (${why})`}`;
    return { status: "down", error, details, transportFailed: true };
  }
  const totalMs = times.reduce((sum, ms) => sum + ms, 0) / times.length;
  if (lossPct > allowed)
    return { status: "degraded", error: `${lossPct} % packet loss, limit ${allowed} %`, details, totalMs };
  return { status: "up", error: null, details, totalMs };
}
