import type { CheckResult, IncidentPeriod } from "../../monitoring/results/schema.ts";

/** Errors that name no host, address or certificate: the whole text has to match. */
const harmless = [
  /^connection (?:refused|reset by the other side|aborted|timed out|closed by the other side)$/,
  /^(?:no route to host|host is down|network unreachable)$/,
  /^(?:name resolution|TLS handshake) timed out$/,
  /^timed out(?: after \d+ ms)?$/,
  /^expected status [\d., -]{1,60}, got \d{3}$/,
  /^rate-limited \d{3}$/,
];

/** The error for a visitor: itself when it names nothing, else that the check failed. Null stays null. */
export const publicError = (error: string | null): string | null =>
  error === null || harmless.some((pattern) => pattern.test(error)) ? error : "check failed";

/** A result for a visitor: no error that names hosts, no names of certificates, domains or registrars. */
export function publicResult(result: CheckResult): CheckResult {
  return { ...result, error: publicError(result.error), details: publicDetails(result.details) };
}

/** A period for a visitor. */
export const publicPeriod = (period: IncidentPeriod): IncidentPeriod => ({
  ...period,
  error_sample: publicError(period.error_sample),
});

function publicDetails(details: CheckResult["details"]): CheckResult["details"] {
  if (details === null || "domain" in details) return null;
  return { ...details, subject_common_name: null, issuer_common_name: null };
}
