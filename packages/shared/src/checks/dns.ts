import { isIP } from "node:net";
import { domainToASCII } from "node:url";
import Type, { type Static } from "typebox";
import { AppError } from "../errors.ts";
import { checkAll, rule } from "../schema/faults.ts";
import type { FieldForm } from "../schema/form.ts";
import { groupsOfV6 } from "../net/address.ts";
import {
  type CheckKind,
  degradedAbove,
  ipVersion,
  ipVersionRule,
  nullableText,
  thresholdRules,
  timeout,
} from "./kind.ts";
import { canonicalHost, refuseInvisible } from "./host.ts";
import { durationOption } from "./shell.ts";
import { Closed } from "../schema/shapes.ts";

export const recordTypes = ["A", "AAAA", "CNAME", "MX", "NS", "TXT", "SOA", "PTR", "CAA", "SRV"] as const;
export type RecordType = (typeof recordTypes)[number];

const errorCode = "INVALID_DNS_PARAMS";
const nullable = (maxLength: number, description: string, form: FieldForm) =>
  nullableText(maxLength, description, form, errorCode);
/** Title of the collapsed part of the form. */
const section = "Advanced DNS options";
/** Title of the part of the form with what the answer must be. */
const expectations = "Expectations";

/** What a name server may be expected to answer; NODATA is NOERROR without a record of the type. */
export const expectedCodes = ["NOERROR", "NXDOMAIN", "NODATA", "SERVFAIL", "REFUSED"] as const;

const answerList = (description: string, form: FieldForm) =>
  Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 1000 }), {
      default: [],
      maxItems: 50,
      errorCode,
      description,
      form: { section: expectations, ...form },
    }),
  );

export const DnsCheck = Closed(
  {
    type: Type.Literal("dns"),
    domain: Type.String({
      minLength: 1,
      maxLength: 254,
      errorCode,
      description: "Name to look up, with or without a trailing dot; for PTR also an IP address",
      examples: ["shop.example.org"],
      form: {},
    }),
    record_type: Type.Enum([...recordTypes], {
      default: "A",
      errorCode,
      description: "Record type to look up",
      form: { beside: true },
    }),
    resolver: nullable(
      260,
      "Name server: address or host name, with :port unless it is 53 ([ipv6]:port); null: the system resolver of the " +
        "agent",
      {
        section,
        label: "Name server",
        placeholder: "9.9.9.9",
        hint: "Address or host name, with a port unless it is 53. Empty uses the agent's resolver.",
      },
    ),
    expected_contains: nullable(
      1000,
      "What one of the answers must contain: an address in any spelling, a name in any case and with or without its " +
        "last dot, else a text; the case of letters counts in TXT only",
      { label: "Response must contain", hint: "An address, a name or part of a TXT record. Empty accepts any answer." },
    ),
    expected_exactly: answerList("The answers, in any order: no other one, and none missing. Empty: not compared", {
      label: "Answers, exactly",
      hint: "One per line, in any order. Any other answer is down.",
    }),
    expected_absent: answerList(
      "What no answer may contain, compared as expected_contains is. Without another expectation a name that does " +
        "not exist is up",
      { label: "Answers must not contain", hint: "One per line.", beside: true },
    ),
    expected_rcode: Type.Optional(
      Type.Union([Type.Enum([...expectedCodes]), Type.Null()], {
        default: null,
        errorCode,
        description:
          "Return code that is up, and no other: NXDOMAIN for a name that must not exist; NODATA is NOERROR without " +
          "a record of the type. null: NOERROR with records",
        form: {
          section: expectations,
          label: "Return code",
          hint: "Only this return code is up.",
          options: Object.fromEntries(expectedCodes.map((code) => [code, code])),
        },
      }),
    ),
    timeout: timeout({ section, beside: true, hint: "Includes retries of lost packets." }),
    degraded_above_ms: Type.Optional(degradedAbove({ section })),
    ip_version: ipVersion(section),
  },
  { title: "DnsCheck" },
);
export type DnsCheck = Static<typeof DnsCheck>;

const refuse = (message: string, field: string) => new AppError(errorCode, message, { field });

/**
 * The name to look up, in ASCII and without the trailing dot; for an address its PTR name (RFC 1035 section 3.5, RFC
 * 3596 section 2.5). Throws AppError for an invalid name.
 */
export function askedName({ domain, record_type }: Pick<DnsCheck, "domain" | "record_type">): string {
  if (isIP(domain) !== 0) {
    if (record_type === "PTR" && !domain.includes("%")) return reverseName(domain);
    throw refuse(
      `"${domain}" is an address, and an address has PTR records only. Write a domain name, for example example.org.`,
      "/domain",
    );
  }
  const bare = domain.replace(/\.$/, "");
  const name = /^[\x21-\x7e]*$/.test(bare) ? bare.toLowerCase() : domainToASCII(bare);
  // Underscores are invalid in host names, but names like _dmarc.example.org are looked up every day.
  if (name.length > 253 || !/^(\*\.)?[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*$/.test(name)) {
    throw refuse(
      `"${domain}" is not a domain name. Write it without scheme, port or path, for example example.org.`,
      "/domain",
    );
  }
  return name;
}

function reverseName(address: string): string {
  if (isIP(address) === 4) return `${address.split(".").toReversed().join(".")}.in-addr.arpa`;
  const digits = groupsOfV6(address).map((group) => group.padStart(4, "0"));
  return `${[...digits.join("")].toReversed().join(".")}.ip6.arpa`;
}

/** The name server of a check, without brackets; null for the system resolver. Throws AppError for an invalid one. */
export function nameServer({ resolver }: Pick<DnsCheck, "resolver">): { host: string; port: number } | null {
  if (resolver === null) return null;
  if (isIP(resolver) !== 0) return { host: resolver, port: 53 };
  const [, v6, name, digits] = /^(?:\[([^\]]+)\]|([^\s/@?#\\:[\]]+))(?::(\d{1,5}))?$/.exec(resolver) ?? [];
  const port = digits === undefined ? 53 : Number(digits);
  const host = v6 === undefined ? hostIn(name ?? "") : isIP(v6) === 6 ? v6 : null;
  if (host === null) {
    throw refuse(
      `"${resolver}" is not a name server. Write an address or a host name, with a port where it is not 53: ` +
        "9.9.9.9, 9.9.9.9:5353, [2620:fe::fe]:53 or ns1.example.org.",
      "/resolver",
    );
  }
  if (port < 1 || port > 65_535) throw refuse(`Port ${port} cannot be asked. Use 1 to 65535.`, "/resolver");
  return { host, port };
}

/** A host name or an IPv4 address, in ASCII; null for another text. */
function hostIn(text: string): string | null {
  try {
    const host = canonicalHost(text);
    // 9.9.9 is a typing error here, and not 9.9.0.9.
    if (isIP(host) !== isIP(text)) return null;
    return /^[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*$/.test(host) ? host : null;
  } catch {
    return null;
  }
}

/** Throws for an entry of expected_exactly that no record of the type could be. */
function addressRules({ record_type: type, expected_exactly: exact = [] }: DnsCheck): void {
  const family = { A: 4, AAAA: 6 }[type as string];
  if (family === undefined) return;
  checkAll(
    ...exact.map((one, at) =>
      rule(
        isIP(one.trim()) === family,
        errorCode,
        `"${one}" is not an IPv${family} address, which every ${type} record is.`,
        `/expected_exactly/${at}`,
      ),
    ),
  );
}

export const dns: CheckKind<typeof DnsCheck> = {
  type: "dns",
  label: "DNS",
  purpose: "A record and its value",
  icon: "records",
  schema: DnsCheck,
  minIntervalSecs: 10,
  defaultIntervalSecs: 60,

  rules(spec) {
    checkAll(
      () => refuseInvisible(spec.domain, errorCode, "/domain"),
      () => askedName(spec),
      () => refuseInvisible(spec.resolver ?? "", errorCode, "/resolver"),
      () => nameServer(spec),
      () => ipVersionRule(nameServer(spec)?.host ?? "", spec.ip_version, errorCode),
      rule(
        spec.resolver !== null || (spec.ip_version ?? "any") === "any",
        errorCode,
        "ip_version says how the name server is reached. Set resolver, or ip_version to any.",
        "/ip_version",
      ),
      () => addressRules(spec),
      rule(
        (spec.expected_rcode ?? "NOERROR") === "NOERROR" ||
          (spec.expected_contains === null &&
            (spec.expected_exactly ?? []).length === 0 &&
            (spec.expected_absent ?? []).length === 0),
        errorCode,
        `A ${spec.expected_rcode} answer has no records to compare. Use NOERROR or remove the other expectations.`,
        "/expected_rcode",
      ),
      () => thresholdRules(spec),
    );
  },

  destination(spec) {
    const server = nameServer(spec);
    return server === null ? null : { host: server.host, port: server.port, pointer: "/resolver" };
  },
  subject: (spec) => ({ name: isIP(spec.domain) === 0 ? askedName(spec) : spec.domain, pointer: "/domain" }),
  systemResolverName: (spec) => (spec.resolver === null ? { name: askedName(spec), pointer: "/domain" } : null),
  mapSecrets: (spec) => spec,
  secretsGoTo: () => null,
  shell: {
    subject: "<name>",
    read: (subject) => ({ domain: subject }),
    options: {
      record_type: { name: "type", read: ([text = ""]) => text.toUpperCase() },
      expected_contains: { name: "contains" },
      expected_exactly: { name: "exactly", repeated: true, read: (texts) => [...texts] },
      expected_absent: { name: "absent", repeated: true, read: (texts) => [...texts] },
      expected_rcode: { name: "rcode", read: ([text = ""]) => text.toUpperCase() },
      degraded_above_ms: durationOption("degraded-above"),
    },
  },
  summary: (spec) => `${spec.record_type} of ${spec.domain}${spec.resolver === null ? "" : ` at ${spec.resolver}`}`,
  searchText: (spec) => spec.domain,
};
