import { AppError } from "@statusmesh/shared/errors";
import { daysLeft } from "@statusmesh/shared/checks/expiry";
import {
  type DomainExpiryCheck,
  expiresOn,
  lookedUpDomain,
  type RegistrationDetails,
  type RegistrationDocument,
  servedStale,
  setByHand,
  setExpiresOn,
} from "@statusmesh/shared/checks/domain-expiry";
import { abortSignalOf } from "@statusmesh/shared/net/cancellation";
import { dayMs, utcDay } from "@statusmesh/shared/time";
import type { RegistrableDomain } from "@statusmesh/shared/net/registrable-domain";
import type { Stage } from "../rdap/lookups.ts";
import type { LookupFailure, Registration } from "../rdap/query.ts";
import type { Probe, ProbeContext, Verdict } from "./probe.ts";

/** How long a cached answer replaces a failed lookup, ms. */
const staleMs = 7 * dayMs;

/** Time until a registration expires, from its registry. After a failed lookup a cached answer counts for a week. */
export const domainExpiry: Probe<DomainExpiryCheck> = {
  timeoutStatus: "error",
  async run(spec, context) {
    const { signal, trace, rdap, now, warn } = context;
    const name = nameOf(spec);
    // Stored before the rule that refuses it.
    if (name instanceof AppError) return { status: "error", error: name.message };
    // The deadline uses this verdict, which is certain at that moment.
    const onAbort = (): void => {
      trace.verdict = withoutAnswer(
        spec,
        name.domain,
        unanswered(rdap.stage(name.domain), name.suffix, spec.timeout),
        rdap.known(name.domain),
        now(),
      );
    };
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      const answer = await rdap.lookup(name, abortSignalOf(signal));
      if ("failure" in answer) {
        if (answer.undated === true) return undated(spec, name.domain, answer, rdap.known(name.domain), context);
        warn(`${capital(answer.failure)}.`);
        return withoutAnswer(spec, name.domain, answer, rdap.known(name.domain), now());
      }
      for (const concern of answer.concerns) warn(`The registry lists ${name.domain} as: ${concern}.`);
      if (answer.plain)
        warn(`The registry of .${name.suffix} answers over plain http only: anybody on the way can change its answer.`);
      return judge(spec, name.domain, answer.registration, now());
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  },
};

function nameOf(spec: DomainExpiryCheck): RegistrableDomain | AppError {
  try {
    return lookedUpDomain(spec);
  } catch (error) {
    if (error instanceof AppError) return error;
    throw error;
  }
}

/**
 * The verdict where the registry answers and says no date: that of `expires_on`, or of a date that it published within
 * the last week. Else the run is no evidence.
 */
function undated(
  spec: DomainExpiryCheck,
  domain: string,
  failure: LookupFailure,
  known: Registration | null,
  { now, warn, note }: ProbeContext,
): Verdict {
  const byHand = expiresOn(spec);
  const says = capital(failure.failure);
  if (byHand !== null) {
    note?.(`${says}: expires_on counts.`);
    return judge(spec, domain, { expiresAt: byHand, registrar: null, lookedUpAt: now(), source: setByHand }, now());
  }
  warn(`${says}: ${setExpiresOn}.`);
  if (known !== null && Math.abs(now() - known.lookedUpAt) <= staleMs)
    return withoutAnswer(spec, domain, failure, known, now());
  return { status: "error", error: failure.failure, skip: true };
}

/** The verdict on a registration as of `now`, including past dates. `stale` is why the lookup failed now. */
export function judge(
  spec: Pick<DomainExpiryCheck, "warn_days" | "critical_days">,
  domain: string,
  registration: Registration & Pick<RegistrationDetails, "source">,
  now: number,
  stale: string | null = null,
): Verdict {
  const daysRemaining = daysLeft(registration.expiresAt, now);
  const details: RegistrationDetails = {
    domain,
    days_remaining: daysRemaining,
    expiration_date: new Date(registration.expiresAt).toISOString(),
    registrar: registration.registrar,
    ...(registration.source === undefined ? {} : { source: registration.source }),
  };
  if (daysRemaining >= spec.warn_days) return { status: "up", error: null, details };
  const document: RegistrationDocument = {
    domain,
    days_remaining: daysRemaining,
    expiration_date: details.expiration_date,
    ...(registration.registrar === null ? {} : { registrar: registration.registrar }),
    ...(registration.source === undefined ? {} : { source: registration.source }),
    ...(stale === null ? {} : { looked_up_at: new Date(registration.lookedUpAt).toISOString(), lookup_error: stale }),
  };
  const error = JSON.stringify(document);
  return {
    status: daysRemaining < spec.critical_days ? "down" : "degraded",
    error: stale === null ? error : `${servedStale} ${error}`,
    details,
  };
}

/**
 * The verdict after a failed lookup. A cached answer of up to a week is compared with the present time: a date that
 * has passed since is down. Without one, a lookup that this agent held back is no evidence, and any other failure is
 * an error. An answer older than a week is always an error.
 */
function withoutAnswer(
  spec: DomainExpiryCheck,
  domain: string,
  { failure, evidence, heldBack = false }: LookupFailure,
  known: Registration | null,
  now: number,
): Verdict {
  if (known === null) return { status: "error", error: failure, skip: !evidence, throttled: heldBack };
  // An answer from the future was stored with a wrong clock.
  if (Math.abs(now - known.lookedUpAt) <= staleMs) return judge(spec, domain, known, now, failure);
  return {
    status: "error",
    error: `${failure}; the last answer is of ${utcDay(known.lookedUpAt)}, too old to go by`,
  };
}

function unanswered(stage: Stage, suffix: string, timeoutMs: number): LookupFailure {
  const within = `within ${timeoutMs / 1000} s`;
  if (stage === "list") return { failure: `the list of registries could not be read ${within}`, evidence: true };
  if (stage === "registry") return { failure: `the registry of .${suffix} did not answer ${within}`, evidence: true };
  return {
    failure: `other lookups at the registry of .${suffix} were queued before this one, and it was not asked ${within}`,
    evidence: false,
    heldBack: true,
  };
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
