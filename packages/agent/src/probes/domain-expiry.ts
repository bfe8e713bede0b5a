import { daysLeft } from "@statusmesh/shared/checks/details";
import {
  type DomainExpiryCheck,
  lookedUpDomain,
  type RegistrationDetails,
  type RegistrationDocument,
  servedStale,
} from "@statusmesh/shared/checks/domain-expiry";
import type { Stage } from "../rdap/lookups.ts";
import type { LookupFailure, Registration } from "../rdap/registration.ts";
import type { Probe, Verdict } from "./probe.ts";

const dayMs = 86_400_000;
/** For how long the last answer stands in for one that does not come. */
const staleMs = 7 * dayMs;

/** How long a registration still runs, as the registry says. A lookup that fails leaves the last answer standing for a week. */
export const domainExpiry: Probe<DomainExpiryCheck> = {
  timeoutStatus: "error",
  async run(spec, context) {
    const { signal, trace, rdap, now, warn } = context;
    const name = lookedUpDomain(spec);
    // The deadline takes the verdict that it finds, which is then known as it stands at that moment.
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
      const answer = await rdap.lookup(name, signal);
      if ("failure" in answer) {
        warn?.(`${capital(answer.failure)}.`);
        return withoutAnswer(spec, name.domain, answer, rdap.known(name.domain), now());
      }
      for (const concern of answer.concerns) warn?.(`The registry lists ${name.domain} as: ${concern}.`);
      return judge(spec, name.domain, answer.registration, now());
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  },
};

/** The verdict on a registration as of `now`, past dates included: neither threshold is below 0. `stale` says why the registry could not be asked now. */
export function judge(
  spec: Pick<DomainExpiryCheck, "warn_days" | "critical_days">,
  domain: string,
  registration: Registration,
  now: number,
  stale: string | null = null,
): Verdict {
  const daysRemaining = daysLeft(registration.expiresAt, now);
  const details: RegistrationDetails = {
    domain,
    days_remaining: daysRemaining,
    expiration_date: new Date(registration.expiresAt).toISOString(),
    registrar: registration.registrar,
  };
  if (daysRemaining >= spec.warn_days) return { status: "up", error: null, details };
  const document: RegistrationDocument = {
    domain,
    days_remaining: daysRemaining,
    expiration_date: details.expiration_date,
    ...(registration.registrar === null ? {} : { registrar: registration.registrar }),
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
 * The verdict when the lookup failed. The last answer, up to a week old, is held against the present: a date that has passed
 * since is not up any more. Without one, a question that this agent held back is no evidence, and any other failure is an
 * error; an answer older than a week is an error whatever the reason.
 */
function withoutAnswer(
  spec: DomainExpiryCheck,
  domain: string,
  { failure, evidence, heldBack = false }: LookupFailure,
  known: Registration | null,
  now: number,
): Verdict {
  if (known === null) return { status: "error", error: failure, skip: !evidence, throttled: heldBack };
  // One from the future was noted by a clock that was wrong.
  if (Math.abs(now - known.lookedUpAt) <= staleMs) return judge(spec, domain, known, now, failure);
  return {
    status: "error",
    error: `${failure}; the last answer is of ${new Date(known.lookedUpAt).toISOString().slice(0, 10)}, too old to go by`,
  };
}

function unanswered(stage: Stage, suffix: string, timeoutMs: number): LookupFailure {
  const within = `within ${timeoutMs / 1000} s`;
  switch (stage) {
    case "list":
      return { failure: `the list of registries could not be read ${within}`, evidence: true };
    case "line":
      return {
        failure: `other lookups at the registry of .${suffix} were in line before this one, and it was not asked ${within}`,
        evidence: false,
        heldBack: true,
      };
    case "registry":
      return { failure: `the registry of .${suffix} did not answer ${within}`, evidence: true };
  }
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
