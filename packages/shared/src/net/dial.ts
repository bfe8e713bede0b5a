import { connect, isIP, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { blockedHost, blockedRange } from "./address.ts";
import type { CancelSignal } from "./cancellation.ts";
import { abortError, codeOf, DialError, overdue, wordsFor } from "./dial-error.ts";
import { type Lookup, resolve } from "./resolve.ts";

/**
 * The current phase of a connection and the durations of the finished ones, ms; updated while it runs, so that an
 * aborted check can name the phase. Phases of several connections add up.
 */
export interface DialTrace {
  /** What a deadline makes of the phase, up to the time: "TLS handshake timed out after", "no response within". */
  overdue: string;
  dns_ms: number | null;
  connect_ms: number | null;
  tls_ms: number | null;
  /** The address of the first connection: the one that answered, or until then the one to try first. */
  address?: string;
}

export interface DialOptions {
  /** A name or an IP address in canonical form, without brackets. */
  host: string;
  port: number;
  /** True switches the guard off. */
  allowPrivate: boolean;
  /** Ends everything at once: the promise rejects and no socket stays behind. */
  signal: CancelSignal;
  lookup?: Lookup | undefined;
  trace?: DialTrace | undefined;
}

export interface Dialled {
  /** Connected. It has an error listener already, so that a late error does not end the process. */
  socket: Socket;
  address: string;
  /** Null when the host is an address. */
  dnsMs: number | null;
  /** From the first attempt to the connection, failed attempts at other addresses included. */
  connectMs: number;
}

/** Delay before the next address is tried in parallel (RFC 8305 section 5). */
const staggerMs = 250;
/** A name with more addresses than this is tried at the first ones only; the guard still looks at all. */
const maxAttempts = 6;

/** No such name, and a name without an address. */
const absent = new Set(["ENOTFOUND", "ENODATA"]);
/**
 * The same error for an absent name and for one with a private address: different errors or response times would
 * reveal the names of this network. Refusals are delayed to whole steps of the time below.
 */
const noPublicAddress =
  "the name has no public address: it does not exist, or it leads to a network that is not public";
const quietMs = 100;

const noop = (): void => undefined;

/**
 * Connects to a host, past the guard. The name is resolved once; if any of its addresses is blocked, nothing is
 * dialled, because a name with a private address among public ones is how rebinding looks from here. Such a name is
 * answered like one that does not exist.
 *
 * Rejects with {@link DialError}, or with the signal's reason when that is not a timeout.
 */
export async function dial(options: DialOptions): Promise<Dialled> {
  const { host, port, allowPrivate, signal, trace } = options;
  if (signal.aborted) throw abortError(signal, "connect");
  let addresses = [host];
  let dnsMs: number | null = null;
  if (!allowPrivate) refuse(host, blockedHost(host));
  if (isIP(host) === 0) {
    if (trace !== undefined) trace.overdue = `${overdue.dns} after`;
    const started = performance.now();
    const found = await unlessAborted(addressesOf(host, options.lookup ?? resolve), signal);
    const blocked = !allowPrivate && (found instanceof DialError || found.some((it) => blockedRange(it) !== null));
    if (blocked) {
      await unlessAborted(sleep(quietMs - ((performance.now() - started) % quietMs)), signal);
      throw new DialError("dns", noPublicAddress, "NO_PUBLIC_ADDRESS");
    }
    if (found instanceof DialError) throw found;
    addresses = found;
    dnsMs = performance.now() - started;
    if (trace !== undefined) trace.dns_ms = (trace.dns_ms ?? 0) + dnsMs;
  }
  const first = trace?.connect_ms === null;
  if (trace !== undefined) trace.overdue = `${overdue.connect} after`;
  if (trace !== undefined && first) trace.address = addresses[0]!;
  const started = performance.now();
  const { socket, address } = await connectFirst(addresses.slice(0, maxAttempts), port, signal);
  const connectMs = performance.now() - started;
  if (trace !== undefined) trace.connect_ms = (trace.connect_ms ?? 0) + connectMs;
  if (trace !== undefined && first) trace.address = address;
  // What was dialled has been checked; this holds even where a proxy or a changed library would dial something else.
  if (!allowPrivate) {
    const range = blockedRange(socket.remoteAddress ?? "");
    if (range !== null) {
      socket.destroy();
      refuse(socket.remoteAddress ?? address, range);
    }
  }
  return { socket, address, dnsMs, connectMs };
}

/** The addresses of a name, or the error of one that has none. Rejects with what else went wrong. */
async function addressesOf(name: string, lookup: Lookup): Promise<string[] | DialError> {
  try {
    const addresses = await lookup(name);
    return addresses.length === 0 ? new DialError("dns", "name has no address", "ENODATA") : addresses;
  } catch (error) {
    if (error instanceof DialError && absent.has(error.code)) return error;
    throw error;
  }
}

function refuse(address: string, range: string | null): void {
  if (range !== null) throw new DialError("guard", `address ${address} is blocked (${range})`, "BLOCKED");
}

function connectFirst(
  addresses: readonly string[],
  port: number,
  signal: CancelSignal,
): Promise<{ socket: Socket; address: string }> {
  return new Promise((settle, reject) => {
    const attempts = new Set<Socket>();
    let next = 0;
    let firstError: DialError | null = null;
    let stagger: NodeJS.Timeout | undefined;

    const finish = (): void => {
      clearTimeout(stagger);
      signal.removeEventListener("abort", onAbort);
      for (const socket of attempts) socket.destroy();
    };
    const onAbort = (): void => {
      finish();
      reject(abortError(signal, "connect"));
    };
    const attempt = (): void => {
      clearTimeout(stagger);
      const address = addresses[next++] as string;
      // Both families are in the list already, and the address is the one that was checked: nothing is left to select.
      const socket = connect({ host: address, port, autoSelectFamily: false });
      attempts.add(socket);
      socket.once("connect", () => {
        attempts.delete(socket);
        socket.off("error", onError).on("error", noop);
        finish();
        settle({ socket, address });
      });
      const onError = (error: Error): void => {
        attempts.delete(socket);
        firstError ??= new DialError("connect", wordsFor(error), codeOf(error), error);
        if (next < addresses.length) return attempt();
        if (attempts.size > 0) return;
        finish();
        reject(firstError);
      };
      socket.on("error", onError);
      if (next < addresses.length) stagger = setTimeout(attempt, staggerMs);
    };

    signal.addEventListener("abort", onAbort, { once: true });
    attempt();
  });
}

function unlessAborted<T>(work: Promise<T>, signal: CancelSignal): Promise<T> {
  return new Promise((settle, reject) => {
    const onAbort = (): void => reject(abortError(signal, "dns"));
    signal.addEventListener("abort", onAbort, { once: true });
    work.then(settle, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
