import { isCheckType, type ResultDetails } from "@statusmesh/shared/checks";
import { areDetailsOf } from "@statusmesh/shared/checks/own-details";
import { DialError, overdue } from "@statusmesh/shared/net/dial-error";
import type { Measurement } from "@statusmesh/shared/protocol/result";
import { connectionDiagnosis, overdueDiagnosis } from "../diagnosis/connection.ts";
import { responseDiagnosis } from "../diagnosis/response.ts";
import type { Probe, Trace, Verdict } from "../probes/probe.ts";

/** A trace before anything was measured. */
export function newTrace(): Trace {
  return {
    overdue: "",
    dns_ms: null,
    connect_ms: null,
    tls_ms: null,
    ttfb_ms: null,
    http_status: null,
    response_size: null,
    redirectedTo: null,
    certificateNotAfter: null,
    snapshot: null,
    received: null,
    atDeadline: null,
    verdict: null,
  };
}

/** The verdict in place of a failure that the agent's own network explains. */
export const ownNetworkDown = (found: Verdict): Verdict => ({
  status: "error",
  error: `the agent's own network is down (${found.error ?? "no answer"})`,
  skip: true,
});

/** The verdict of a run whose deadline fired `lateMs` too late. */
export const stalled = (lateMs: number): Verdict => ({
  status: "error",
  error: `the agent was suspended for ${Math.round(lateMs / 1000)} s`,
  skip: true,
});

/** The verdict of a run that reached its deadline in the phase that the trace names. */
export function timedOut(probe: Probe<unknown>, timeoutMs: number, trace: Trace): Verdict {
  const seconds = timeoutMs < 1000 ? (timeoutMs / 1000).toFixed(2).replace(/0$/, "") : (timeoutMs / 1000).toFixed(1);
  const error = `${trace.overdue === "" ? "timed out after" : trace.overdue} ${seconds} s`;
  const diagnosis = overdueDiagnosis(trace.overdue);
  if (trace.redirectedTo !== null)
    return { status: probe.timeoutStatus, error: `redirected to ${trace.redirectedTo}: ${error}`, diagnosis };
  const unresolved = trace.overdue.startsWith(overdue.dns);
  const transportFailed = probe.answersForOthers !== true;
  return { status: probe.timeoutStatus, error, transportFailed, unresolved, diagnosis };
}

/** The verdict of a run that found nothing wrong and was slower than its check allows. */
export function slowVerdict(check: Record<string, unknown>, verdict: Verdict, elapsedMs: number): Verdict {
  if (verdict.status !== "up") return verdict;
  const totalMs = verdict.totalMs ?? elapsedMs;
  const exceeds = (limit: unknown): limit is number => typeof limit === "number" && totalMs > limit;
  const { down_above_ms: down, degraded_above_ms: degraded } = check;
  const words = (limit: number): string => `slow: ${Math.ceil(totalMs)} ms, limit ${limit} ms`;
  if (exceeds(down)) return { ...verdict, status: "down", error: words(down) };
  return exceeds(degraded) ? { ...verdict, status: "degraded", error: words(degraded) } : verdict;
}

/** The verdict of a thrown error; skipped for a failure of this machine. */
export function verdictOf(error: unknown): Verdict {
  if (!(error instanceof DialError))
    return { status: "error", error: "the agent failed to run the check; its log says why", skip: true };
  if (error.phase === "guard") return { status: "error", error: error.message };
  if (error.local) return { status: "error", error: error.message, skip: true };
  return {
    status: "down",
    error: error.message,
    transportFailed: error.transport,
    unresolved: error.unresolved,
    diagnosis: connectionDiagnosis(error),
  };
}

/** What kept a failed run from its destination; null for one that is up or no evidence, and where nothing says it. */
export function diagnosisOfRun({ status, skip, diagnosis = null }: Verdict, { received }: Trace): string | null {
  if (status === "up" || skip === true) return null;
  return diagnosis ?? (received === null ? null : responseDiagnosis(received));
}

const micro = (ms: number | null): number | null => (ms === null ? null : Math.round(ms * 1000) / 1000);

/** Verdict and trace in the form that is reported. */
export function measurementOf(kind: string, verdict: Verdict, trace: Trace, totalMs: number): Measurement {
  return {
    status: verdict.status,
    error: verdict.error === null ? null : clean(verdict.error, 2000),
    http_status: trace.http_status,
    response_size: trace.response_size,
    dns_ms: micro(trace.dns_ms),
    connect_ms: micro(trace.connect_ms),
    tls_ms: micro(trace.tls_ms),
    ttfb_ms: micro(trace.ttfb_ms),
    total_ms: micro(verdict.totalMs ?? totalMs),
    details: detailsIn(kind, verdict),
  };
}

/** A date that no calendar has would invalidate the whole result, which is sent without it. */
function detailsIn(kind: string, { details = null }: Verdict): ResultDetails | null {
  return details !== null && isCheckType(kind) && areDetailsOf(kind, details) && isStorable(details) ? details : null;
}

/** False for values that the control plane cannot store, for which it would refuse the whole result. */
function isStorable(value: unknown): boolean {
  if (typeof value === "string") return value.isWellFormed() && !value.includes("\0");
  if (typeof value === "number") return Math.abs(value) <= Number.MAX_SAFE_INTEGER;
  return typeof value !== "object" || value === null || Object.values(value).every(isStorable);
}

/** Messages may contain foreign text: no control or direction characters, no lone surrogates, bounded length. */
export function clean(text: string, maxLength: number): string {
  return text
    .slice(0, maxLength)
    .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/gu, " ")
    .replaceAll(/\p{Cs}/gu, "\ufffd");
}
