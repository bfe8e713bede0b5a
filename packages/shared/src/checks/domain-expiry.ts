import Type, { type Static } from "typebox";
import { messageOf } from "../thrown.ts";
import { AppError } from "../errors.ts";
import { checkAll } from "../faults.ts";
import { asObject, parsedJson } from "../json.ts";
import { type RegistrableDomain, registrableDomain } from "../net/registrable-domain.ts";
import { DaysRemaining, Expiry, expiryFields, expiryInWords, expiryRule, expiryShort } from "./expiry.ts";
import { type CheckKind, timeout } from "./kind.ts";
import { canonicalHost, refuseInvisible } from "./host.ts";
import { Closed, described, nullable, Shape } from "../shapes.ts";

const errorCode = "INVALID_DOMAIN_PARAMS";

export const DomainExpiryCheck = Closed(
  {
    type: Type.Literal("domain_expiry"),
    domain: Type.String({
      minLength: 1,
      maxLength: 253,
      errorCode,
      description: "Domain name, or a name below it",
      examples: ["example.org"],
      form: { hint: "The registered domain. Looked up over RDAP, which some country-code registries do not offer." },
    }),
    ...expiryFields(30, "registration", errorCode),
    // Includes waiting for the registry queue, so it is longer than for other kinds.
    timeout: timeout(
      { section: "Advanced domain options", hint: "Includes waiting for the registry's rate limit." },
      30_000,
    ),
  },
  { title: "DomainExpiryCheck" },
);
export type DomainExpiryCheck = Static<typeof DomainExpiryCheck>;

/** Prefix of an error from a cached answer. A {@link RegistrationDocument} follows. */
export const servedStale = "served_stale:";

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
  try {
    return registrableDomain(host);
  } catch (cause) {
    return refuse(messageOf(cause), cause);
  }
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
    );
  },

  // Registries are public and come from IANA's list: guard, per-host cap and breaker do not apply.
  destination: () => null,
  subject: (spec) => ({ name: canonicalHost(spec.domain), pointer: "/domain" }),
  mapSecrets: (spec) => spec,
  secretsGoTo: () => null,
  shell: { subject: "<domain>", read: (subject) => ({ domain: subject }) },
  summary: (spec) => `registration of ${spec.domain}`,
  searchText: (spec) => spec.domain,

  details: {
    schema: RegistrationDetails,
    expiresAt: ({ expiration_date }) => Date.parse(expiration_date),
    expires: "domain",
    inWords: ({ expiration_date, registrar }, now) =>
      expiryInWords(Date.parse(expiration_date), now) + (registrar === null ? "" : `, registrar ${registrar}`),
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
    } = asObject(parsedJson(stale ? error.slice(servedStale.length) : error));
    if (typeof domain !== "string" || typeof left !== "number" || typeof expiration_date !== "string") return null;
    const expires = expiryShort(domain, left, expiration_date);
    const sold = typeof registrar === "string" ? ` (registrar ${registrar})` : "";
    return stale && typeof looked_up_at === "string" && typeof lookup_error === "string"
      ? `${expires}${sold}, as the registry said on ${looked_up_at.slice(0, 10)}; now ${lookup_error}`
      : expires + sold;
  },
};
