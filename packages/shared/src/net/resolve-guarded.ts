import { isIP } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { blockedHost, blockedRange } from "./address.ts";
import type { CancelSignal } from "./cancellation.ts";
import { abortError, DialError, overdue } from "./dial-error.ts";
import { type IpVersion, type Lookup, resolve } from "./resolve.ts";

/** The current phase, and the duration of finished lookups; updated while it runs. */
export interface ResolveTrace {
  /** What a deadline makes of the phase, up to the time: "TLS handshake timed out after", "no response within". */
  overdue: string;
  dns_ms: number | null;
}

export interface ResolveOptions {
  /** A name or an IP address in canonical form, without brackets. */
  host: string;
  /** True switches the guard off. */
  allowPrivate: boolean;
  /** The address family to use; the guard still looks at both. Any unless said. */
  ipVersion?: IpVersion | undefined;
  /** Ends everything at once: the promise rejects. */
  signal: CancelSignal;
  lookup?: Lookup | undefined;
  trace?: ResolveTrace | undefined;
}

/** No such name, and a name without an address. */
const absent = new Set(["ENOTFOUND", "ENODATA"]);
/**
 * The same error for an absent name and for one with a private address: different errors or response times would
 * reveal the names of this network. Refusals are delayed to whole steps of the time below.
 */
const noPublicAddress =
  "the name has no public address: it does not exist, or it leads to a network that is not public";
const quietMs = 100;

/**
 * The addresses of a host, past the guard: for every kind of packet that is sent to it. The name is resolved once; if
 * any of its addresses is blocked, it has none, because a name with a private address among public ones is how
 * rebinding looks from here. Such a name is answered like one that does not exist.
 *
 * Rejects with {@link DialError}, or with the signal's reason when that is not a timeout.
 */
export async function resolveGuarded(options: ResolveOptions): Promise<string[]> {
  const { host, allowPrivate, signal, trace, ipVersion = "any" } = options;
  const range = allowPrivate ? null : blockedHost(host);
  if (range !== null) throw blocked(host, range);
  if (isIP(host) !== 0) return ofFamily([host], ipVersion);
  if (signal.aborted) throw abortError(signal, "dns");
  if (trace !== undefined) trace.overdue = `${overdue.dns} after`;
  const started = performance.now();
  const found = await unlessAborted(addressesOf(host, options.lookup ?? resolve, ipVersion), signal);
  if (!allowPrivate && (found instanceof DialError || found.some((it) => blockedRange(it) !== null))) {
    await unlessAborted(sleep(quietMs - ((performance.now() - started) % quietMs)), signal);
    throw new DialError("dns", noPublicAddress, "NO_PUBLIC_ADDRESS");
  }
  if (found instanceof DialError) throw found;
  if (trace !== undefined) trace.dns_ms = (trace.dns_ms ?? 0) + (performance.now() - started);
  return ofFamily(found, ipVersion);
}

/** The addresses of one family. Throws DialError where there are none. */
function ofFamily(addresses: string[], version: IpVersion): string[] {
  if (version === "any") return addresses;
  const found = addresses.filter((address) => String(isIP(address)) === version);
  if (found.length === 0) throw new DialError("dns", `no IPv${version} address`, "ENODATA");
  return found;
}

/** The refusal of an address in a blocked range. */
export const blocked = (address: string, range: string): DialError =>
  new DialError("guard", `address ${address} is blocked (${range})`, "BLOCKED");

/** The addresses of a name, or the error of one that has none. Rejects with what else went wrong. */
async function addressesOf(name: string, lookup: Lookup, wanted: IpVersion): Promise<string[] | DialError> {
  try {
    const addresses = await lookup(name, "", wanted);
    return addresses.length === 0 ? new DialError("dns", "name has no address", "ENODATA") : addresses;
  } catch (error) {
    if (error instanceof DialError && absent.has(error.code)) return error;
    throw error;
  }
}

function unlessAborted<T>(work: Promise<T>, signal: CancelSignal): Promise<T> {
  return new Promise((settle, reject) => {
    const onAbort = (): void => reject(abortError(signal, "dns"));
    signal.addEventListener("abort", onAbort, { once: true });
    work.then(settle, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
