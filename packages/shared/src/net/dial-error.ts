import { codeOf, messageOf } from "../thrown.ts";
import type { CancelSignal } from "./cancellation.ts";

/**
 * Where a connection failed. `guard` means that it was refused here; `certificate`, that the server answered with one
 * that does not hold.
 */
export type DialPhase = "dns" | "guard" | "connect" | "tls" | "certificate";

/** A failed connection. The message is for an operator: no codes, no stack, no capital letter. */
export class DialError extends Error {
  override readonly name = "DialError";
  readonly phase: DialPhase;
  /** The code that Node gave (`ECONNREFUSED`), for programs. */
  readonly code: string;

  constructor(phase: DialPhase, message: string, code: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.phase = phase;
    this.code = code;
  }

  /** True for an exhausted resource of this machine, which is no evidence about the target. */
  get local(): boolean {
    return localCodes.has(this.code);
  }

  /** True when the resolver was late, which may be the agent's fault. */
  get unresolved(): boolean {
    return this.phase === "dns" && lateCodes.has(this.code);
  }

  /** True when the other side could not be talked to. A refusal by the guard or a bad certificate is not that. */
  get transport(): boolean {
    return this.phase !== "guard" && this.phase !== "certificate" && !this.local;
  }
}

/** Codes of a resolver that did not answer in time. */
const lateCodes = new Set(["ETIMEOUT", "ETIMEDOUT", "EAI_AGAIN"]);
const localCodes = new Set(["EMFILE", "ENFILE", "ENOBUFS", "ENOMEM", "EADDRNOTAVAIL", "ELOOKUPBUSY"]);

const words: Record<string, string> = {
  ECONNREFUSED: "connection refused",
  ECONNRESET: "connection reset by peer",
  ECONNABORTED: "connection aborted",
  EPIPE: "connection closed by peer",
  EHOSTUNREACH: "no route to host",
  EHOSTDOWN: "host is down",
  ENETUNREACH: "network unreachable",
  ETIMEDOUT: "connection timed out",
  EACCES: "connection forbidden by a local firewall",
  EPERM: "connection forbidden by a local firewall",
  EMFILE: "the agent has too many open files",
  ENFILE: "the agent's machine has too many open files",
  ENOBUFS: "the agent's machine has no buffer space left",
  ENOMEM: "the agent's machine has no memory left",
  EADDRNOTAVAIL: "the agent's machine has no free local port",
  ENOTFOUND: "name not found",
  ENODATA: "name has no address",
  EAI_AGAIN: "the name server did not answer",
  ETIMEOUT: "the name server did not answer",
  ESERVFAIL: "the name server failed to resolve the name",
  EREFUSED: "the name server refused to resolve the name",
  EBADNAME: "not a valid name",
  EBADRESP: "the name server sent a malformed answer",
  EFORMERR: "the name server reported a format error (FORMERR)",
};

/** A system or resolver error in an operator's words; what has none keeps its own message. */
export function wordsFor(error: unknown): string {
  const alert = alertIn(error);
  return words[codeOf(error)] ?? (alert === null ? messageOf(error) : `the server sent the TLS alert "${alert}"`);
}

/** The TLS alert of the server that ended a connection, `certificate required`; null for another error. */
export function alertIn(error: unknown): string | null {
  const reason = error instanceof Error && "reason" in error && typeof error.reason === "string" ? error.reason : "";
  // OpenSSL names each alert after the SSL version that introduced it, not after the version of this connection.
  return /^(?:ssl\/tls|sslv3|tlsv1|tlsv13) (?:alert )?(.+)$/.exec(reason)?.[1] ?? null;
}

/** What a deadline makes of each phase. */
export const overdue: Record<DialPhase, string> = {
  dns: "name resolution timed out",
  guard: "timed out",
  connect: "connection timed out",
  tls: "TLS handshake timed out",
  certificate: "TLS handshake timed out",
};

/** What an aborted phase rejects with: words for a deadline, the caller's own reason for anything else. */
export function abortError(signal: CancelSignal, phase: DialPhase): unknown {
  const reason: unknown = signal.reason;
  return reason instanceof Error && reason.name === "TimeoutError"
    ? new DialError(phase, overdue[phase], "ETIMEDOUT", reason)
    : reason;
}
