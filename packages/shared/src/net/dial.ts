import { connect, type Socket } from "node:net";
import { codeOf } from "../thrown.ts";
import { blockedRange } from "./address.ts";
import type { CancelSignal } from "./cancellation.ts";
import { abortError, DialError, overdue, wordsFor } from "./dial-error.ts";
import { blocked, resolveGuarded, type ResolveOptions, type ResolveTrace } from "./resolve-guarded.ts";

/**
 * The current phase of a connection and the durations of the finished ones, ms; updated while it runs, so that an
 * aborted check can name the phase. Phases of several connections add up.
 */
export interface DialTrace extends ResolveTrace {
  /** Failed attempts at other addresses included. */
  connect_ms: number | null;
  tls_ms: number | null;
  /** The address of the first connection: the one that answered, or until then the one to try first. */
  address?: string;
}

export interface DialOptions extends ResolveOptions {
  port: number;
  trace?: DialTrace | undefined;
}

export interface Dialled {
  /** Connected. It has an error listener already, so that a late error does not end the process. */
  socket: Socket;
  address: string;
}

/** Delay before the next address is tried in parallel (RFC 8305 section 5). */
const staggerMs = 250;
/** A name with more addresses than this is tried at the first ones only; the guard still looks at all. */
const maxAttempts = 6;

const noop = (): void => undefined;

/**
 * Connects to a host, past the guard of {@link resolveGuarded}: only addresses that it returned are dialled.
 *
 * Rejects with {@link DialError}, or with the signal's reason when that is not a timeout.
 */
export async function dial(options: DialOptions): Promise<Dialled> {
  const { port, allowPrivate, signal, trace } = options;
  const addresses = await resolveGuarded(options);
  // Also for an abort while this function waited: the attempts below see later ones only.
  if (signal.aborted) throw abortError(signal, "connect");
  const first = trace?.connect_ms === null;
  if (trace !== undefined) trace.overdue = `${overdue.connect} after`;
  if (trace !== undefined && first) trace.address = addresses[0]!;
  const started = performance.now();
  const { socket, address } = await connectFirst(addresses.slice(0, maxAttempts), port, signal);
  if (trace !== undefined) trace.connect_ms = (trace.connect_ms ?? 0) + (performance.now() - started);
  if (trace !== undefined && first) trace.address = address;
  // What was dialled has been checked; this holds even where a proxy or a changed library would dial something else.
  if (!allowPrivate) {
    const range = blockedRange(socket.remoteAddress ?? "");
    if (range !== null) {
      socket.destroy();
      throw blocked(socket.remoteAddress ?? address, range);
    }
  }
  return { socket, address };
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
