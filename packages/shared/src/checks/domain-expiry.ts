import Type, { type Static } from "typebox";
import { messageOf } from "../thrown.ts";
import { AppError } from "../errors.ts";
import { checkAll } from "../schema/faults.ts";
import { asObject, parsedJson } from "../json.ts";
import { sellerOf } from "../net/private-registries.ts";
import { privateSuffix, type RegistrableDomain, registrableDomain } from "../net/registrable-domain.ts";
import { DaysRemaining, Expiry, expiryFields, expiryInWords, expiryRule, expiryShort } from "./expiry.ts";
import { type CheckKind, nullableText, timeout } from "./kind.ts";
import { canonicalHost, refuseInvisible } from "./host.ts";
import { utcDay } from "../time.ts";
import { Closed, described, nullable, Shape } from "../schema/shapes.ts";

const errorCode = "INVALID_DOMAIN_PARAMS";
/** Title of the collapsed part of the form. */
const section = "Advanced domain options";

export const DomainExpiryCheck = Closed(
  {
    type: Type.Literal("domain_expiry"),
    domain: Type.String({
      minLength: 1,
      maxLength: 253,
      errorCode,
      description: "Domain name, or a name below it",
      examples: ["example.org"],
      form: { hint: "The registered domain. Some country-code registries publish no date: set one below." },
    }),
    ...expiryFields(30, "registration", errorCode),
    // Includes waiting for the registry queue, so it is longer than for other kinds.
    timeout: timeout({ section, hint: "Includes waiting for the registry's rate limit." }, 30_000),
    expires_on: Type.Optional(
      nullableText(
        10,
        "Day on which the registration ends, YYYY-MM-DD, used where the registry publishes no date or offers no " +
          "RDAP; null: such a domain is not judged",
        {
          section,
          label: "Expiry date",
          placeholder: "2027-02-04",
          hint: "YYYY-MM-DD. Used only where the registry publishes none (.de, .fi).",
          beside: true,
        },
        errorCode,
      ),
    ),
  },
  { title: "DomainExpiryCheck" },
);
export type DomainExpiryCheck = Static<typeof DomainExpiryCheck>;

/** Prefix of an error from a cached answer. A {@link RegistrationDocument} follows. */
export const servedStale = "served_stale:";

/** Source of a date that the registry does not publish. */
export const setByHand = "set by hand";

/** The registry's data on the domain at the time of the run. */
export const RegistrationDetails = Shape("RegistrationDetails", "The registration of a domain_expiry check", {
  domain: described(Type.String({ maxLength: 253 }), "The registrable domain, in ASCII", "example.org"),
  days_remaining: DaysRemaining,
  expiration_date: Expiry("End of the registration, RFC 3339, UTC"),
  registrar: described(
    nullable(Type.String({ maxLength: 200 })),
    "Registrar of the domain; null where the registry names none",
    "Example Registrar Ltd",
  ),
  source: Type.Optional(
    Type.Literal(setByHand, {
      description: "Present where the date is expires_on of the check: the registry says none",
    }),
  ),
});
export type RegistrationDetails = Static<typeof RegistrationDetails>;

/** JSON error of a result that is not up. */
export interface RegistrationDocument {
  /** The registrable domain, in ASCII. */
  domain: string;
  /** Whole days, rounded down: -1 on the first day after the expiry. */
  days_remaining: number;
  /** RFC 3339, UTC. */
  expiration_date: string;
  /** Absent when the registry names none. */
  registrar?: string;
  /** Present where the date is `expires_on` of the check. */
  source?: typeof setByHand;
  /** Time of the cached answer; only after {@link servedStale}. */
  looked_up_at?: string;
  /** Why the lookup failed now; only after {@link servedStale}. */
  lookup_error?: string;
}

/** The name to look up. Throws AppError for a name that no registry registers. */
export function lookedUpDomain({ domain }: Pick<DomainExpiryCheck, "domain">): RegistrableDomain {
  const refuse = (what: string, cause: unknown): never => {
    throw new AppError(errorCode, `${what}. Write a registered domain with its dot, for example example.org.`, {
      field: "/domain",
      cause,
    });
  };
  let host: string;
  try {
    if (/[\s/@?#\\:[\]]/.test(domain)) throw new TypeError("not a bare name");
    host = canonicalHost(domain);
  } catch (cause) {
    return refuse(`"${domain}" is not a domain name`, cause);
  }
  let found: RegistrableDomain;
  try {
    found = registrableDomain(host);
  } catch (cause) {
    return refuse(messageOf(cause), cause);
  }
  const suffix = privateSuffix(host, found);
  if (suffix !== null) throw new AppError(errorCode, otherDomain(host, suffix, found.domain), { field: "/domain" });
  return found;
}

/** Why a name below a private suffix is not judged by the domain that the registry of its top-level domain knows. */
function otherDomain(host: string, suffix: string, domain: string): string {
  const found = sellerOf(suffix);
  return found === null
    ? `${host} is not registered separately: ${suffix} belongs to a service that gives out the names below it. ` +
        "Write a registered domain, for example example.org."
    : `Names below ${found.below} are registered with ${found.seller}, whose registry is not in IANA's list of RDAP ` +
        `servers, so nobody can be asked when ${host} expires. The registration of ${domain} is another one.`;
}

/** `expires_on` as Unix ms: the first moment of the day, UTC; null without it. Throws AppError for no date. */
export function expiresOn({ expires_on: day = null }: Pick<DomainExpiryCheck, "expires_on">): number | null {
  if (day === null) return null;
  const at = /^[0-9]{4}-[0-9]{2}-[0-9]{2}$/.test(day) ? Date.parse(`${day}T00:00:00Z`) : NaN;
  // Date.parse reads 2027-02-30 as a day of March.
  if (at >= 0 && utcDay(at) === day) return at;
  throw new AppError(errorCode, `"${day}" is not a date. Write it as YYYY-MM-DD, for example 2027-02-04.`, {
    field: "/expires_on",
  });
}

/**
 * Top-level domains whose registry publishes no date, or offers no RDAP, as of 2026: for a warning when a check is
 * saved. A run finds out by itself.
 */
const withoutDate: ReadonlySet<string> = new Set(["au", "co", "de", "eu", "fi", "io", "no", "ru"]);

/** To follow what the registry lacks, for a check without `expires_on`. */
export const setExpiresOn = "set expires_on, or the check finds nothing";

function savedWarnings(spec: DomainExpiryCheck): string[] {
  const { suffix } = lookedUpDomain(spec);
  const registry = `The registry of .${suffix}`;
  const isKnown = withoutDate.has(suffix.slice(suffix.lastIndexOf(".") + 1));
  if ((spec.expires_on ?? null) !== null)
    return [`${registry} is asked first: expires_on counts only where it says no date.`];
  return isKnown ? [`${registry} publishes no expiry date over RDAP: ${setExpiresOn}.`] : [];
}

export const domainExpiry: CheckKind<typeof DomainExpiryCheck, RegistrationDetails> = {
  type: "domain_expiry",
  label: "Domain expiry",
  purpose: "Days until renewal",
  icon: "tag",
  schema: DomainExpiryCheck,
  minIntervalSecs: 3600,
  defaultIntervalSecs: 86_400,
  // Registries limit requests per client, some to a few an hour.
  minRecheckSecs: 600,

  rules(spec) {
    checkAll(
      () => refuseInvisible(spec.domain, errorCode, "/domain"),
      () => lookedUpDomain(spec),
      expiryRule(spec, "domain", errorCode),
      () => expiresOn(spec),
    );
  },

  // Registries are public and come from IANA's list: guard, per-host cap and breaker do not apply.
  destination: () => null,
  subject: (spec) => ({ name: canonicalHost(spec.domain), pointer: "/domain" }),
  mapSecrets: (spec) => spec,
  secretsGoTo: () => null,
  shell: { subject: "<domain>", read: (subject) => ({ domain: subject }) },
  savedWarnings,
  summary: (spec) => `registration of ${spec.domain}`,
  searchText: (spec) => spec.domain,

  details: {
    schema: RegistrationDetails,
    expiresAt: ({ expiration_date }) => Date.parse(expiration_date),
    expires: "domain",
    inWords: ({ expiration_date, registrar, source }, now) =>
      expiryInWords(Date.parse(expiration_date), now) +
      (source === undefined ? "" : `, ${source}`) +
      (registrar === null ? "" : `, registrar ${registrar}`),
  },

  errorInWords(error) {
    const stale = error.startsWith(servedStale);
    const {
      domain,
      days_remaining: left,
      expiration_date,
      registrar,
      looked_up_at,
      lookup_error,
      source,
    } = asObject(parsedJson(stale ? error.slice(servedStale.length) : error));
    if (typeof domain !== "string" || typeof left !== "number" || typeof expiration_date !== "string") return null;
    const expires = expiryShort(domain, left, expiration_date) + (source === setByHand ? ` (${setByHand})` : "");
    const sold = typeof registrar === "string" ? ` (registrar ${registrar})` : "";
    return stale && typeof looked_up_at === "string" && typeof lookup_error === "string"
      ? `${expires}${sold}, as the registry said on ${looked_up_at.slice(0, 10)}; now ${lookup_error}`
      : expires + sold;
  },
};
