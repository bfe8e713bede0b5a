import { isIP } from "node:net";
import { canonicalHost } from "@statusmesh/shared/checks/host";
import { type PingCheck, type PingDetails, ping as kind } from "@statusmesh/shared/checks/ping";
import { abortSignalOf } from "@statusmesh/shared/net/cancellation";
import { DialError } from "@statusmesh/shared/net/dial-error";
import { resolveGuarded } from "@statusmesh/shared/net/resolve-guarded";
import { Semaphore } from "@statusmesh/shared/semaphore";
import { codeOf } from "@statusmesh/shared/thrown";
import { oncePer, type Probe, type Trace, type Verdict } from "./probe.ts";
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

/** Echo requests to one address of each family that the guarded resolution returned; the first that answers counts. */
export const ping: Probe<PingCheck> = {
  timeoutStatus: "down",
  transport: "icmp",
  async run(spec, { signal, trace, allowPrivate, lookup }) {
    const deadline = performance.now() + spec.timeout;
    const { ip_version: ipVersion } = spec;
    const found = await resolveGuarded({ host: hostOf(spec), allowPrivate, ipVersion, signal, lookup, trace });
    const families = new Map(found.toReversed().map((address) => [isIP(address), address]));
    trace.verdict = busy;
    const resolvedAt = performance.now();
    const leave = await places.enter("", abortSignalOf(signal));
    try {
      // Silence would be no evidence after a long wait: the answers had no time to come.
      if (performance.now() - resolvedAt > spec.timeout / 2) return busy;
      const addresses = found.filter((address) => families.get(isIP(address)) === address);
      return await pingFirst(spec, addresses, deadline, { signal: abortSignalOf(signal), trace });
    } catch (error) {
      if (!(error instanceof CannotPing)) throw error;
      return { status: "error", error: error.message, skip: true };
    } finally {
      leave();
    }
  },
};

/** Time without an answer after which the address of the other family is tried in parallel, ms. */
const staggerMs = 1000;

/**
 * Pings addresses until one answers: the next one as soon as one cannot be reached, or is silent for a while. Without
 * any answer the first address to which packets were sent decides.
 */
function pingFirst(
  spec: PingCheck,
  addresses: readonly string[],
  deadline: number,
  { signal, trace }: { signal: AbortSignal; trace: Trace },
): Promise<Verdict> {
  const { packets } = spec;
  const others = addresses.map(() => new AbortController());
  const ends: Ended[] = [];
  let next = 0;
  let winner: number | null = null;
  let stagger: NodeJS.Timeout | undefined;
  trace.verdict = verdictOf(spec, "");
  return new Promise<Verdict>((settle, reject) => {
    const start = (): void => {
      clearTimeout(stagger);
      const at = next++;
      const address = addresses[at]!;
      const left = Math.max(0, deadline - performance.now());
      const intervalMs = Math.max(2, Math.min(200, Math.floor(left / (packets + 1))));
      const onOutput = (soFar: string): void => {
        if (winner === null && answersIn(soFar).size > 0) {
          winner = at;
          clearTimeout(stagger);
          trace.address = address;
          for (const other of others) if (other !== others[at]) other.abort();
        }
        if (at === (winner ?? 0)) trace.verdict = verdictOf(spec, soFar);
      };
      if (at === 0) trace.address = address;
      const settings = { packets, intervalMs, waitSecs: Math.max(1, Math.ceil(left / 1000)) };
      pingAddress(address, settings, AbortSignal.any([signal, others[at]!.signal]), onOutput).then(
        (ended) => {
          if (winner === at) return settle(finalVerdict(spec, ended));
          ends.push(ended);
          if (winner !== null) return undefined;
          if (next < addresses.length) return start();
          if (ends.length < addresses.length) return undefined;
          trace.verdict = null;
          const sent = ends.find(({ stdout }) => sentIn(stdout) !== null) ?? ends[0]!;
          const unreachable = noRoute(sent);
          return unreachable === null ? settle(finalVerdict(spec, sent)) : reject(unreachable);
        },
        (error: unknown) => {
          if (others[at]!.signal.aborted) return;
          reject(error as Error);
        },
      );
      if (next < addresses.length && winner === null) stagger = setTimeout(start, Math.min(staggerMs, left / 3));
    };
    start();
  }).finally(() => {
    clearTimeout(stagger);
    for (const other of others) other.abort();
  });
}

/** Packets sent, as the last lines say; null where ping failed before. */
function sentIn(output: string): number | null {
  const [, sent] = /^(\d+) packets transmitted, /m.exec(output) ?? [];
  return sent === undefined ? null : Number(sent);
}

/** An address of a family that this machine has no network for. */
function noRoute({ stdout, stderr }: Ended): DialError | null {
  if (answersIn(stdout).size > 0) return null;
  if (/network is unreachable/i.test(stderr)) return new DialError("connect", "network unreachable", "ENETUNREACH");
  if (/no route to host/i.test(stderr)) return new DialError("connect", "no route to host", "EHOSTUNREACH");
  if (/address family not supported|cannot assign requested address/i.test(stderr))
    return new DialError("connect", "the agent's machine has no network of this address family", "EAFNOSUPPORT");
  return null;
}

function finalVerdict(spec: PingCheck, { code, signal, stdout, stderr }: Ended): Verdict {
  const sent = sentIn(stdout);
  if (sent !== null) return verdictOf(spec, stdout, Math.min(spec.packets, sent));
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
    return { status: "down", error, details, transportFailed: true, silent: true };
  }
  const totalMs = times.reduce((sum, ms) => sum + ms, 0) / times.length;
  if (lossPct > allowed)
    return { status: "degraded", error: `${lossPct} % packet loss, limit ${allowed} %`, details, totalMs };
  return { status: "up", error: null, details, totalMs };
}
