import { isIP } from "node:net";
import { domainToASCII } from "node:url";
import Type, { type Static } from "typebox";
import { AppError } from "../errors.ts";
import { checkAll } from "../faults.ts";
import type { FieldForm } from "../form.ts";
import { groupsOfV6 } from "../net/address.ts";
import { type CheckKind, degradedAbove, nullableText, thresholdRules, timeout } from "./kind.ts";
import { refuseInvisible } from "./host.ts";
import { durationOption } from "./shell.ts";
import { Closed } from "../shapes.ts";

export const recordTypes = ["A", "AAAA", "CNAME", "MX", "NS", "TXT", "SOA", "PTR", "CAA", "SRV"] as const;
export type RecordType = (typeof recordTypes)[number];

const errorCode = "INVALID_DNS_PARAMS";
const nullable = (maxLength: number, description: string, form: FieldForm) =>
  nullableText(maxLength, description, form, errorCode);
/** Title of the collapsed part of the form. */
const section = "Advanced DNS options";

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
    resolver: nullable(60, "Resolver: ip, ip:port or [ipv6]:port; null uses the system resolver of the agent", {
      section,
      label: "Name server",
      placeholder: "9.9.9.9",
      hint: "IP address, with a port unless it is 53. Empty uses the agent's resolver.",
    }),
    expected_contains: nullable(
      1000,
      "Text that one of the answers must contain; the case of letters counts in TXT only",
      { label: "Response must contain", hint: "An address, a name or part of a TXT record. Empty accepts any answer." },
    ),
    timeout: timeout({ section, beside: true, hint: "Includes retries of lost packets." }),
    degraded_above_ms: Type.Optional(degradedAbove({ section })),
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

/** The resolver of a check, without brackets; null for the system resolver. Throws AppError for an invalid address. */
export function nameServer({ resolver }: Pick<DnsCheck, "resolver">): { address: string; port: number } | null {
  if (resolver === null) return null;
  if (isIP(resolver) !== 0) return { address: resolver, port: 53 };
  const [, v6, v4, digits] = /^(?:\[([^\]]+)\]|([\d.]+))(?::(\d{1,5}))?$/.exec(resolver) ?? [];
  const address = v6 ?? v4 ?? "";
  const port = digits === undefined ? 53 : Number(digits);
  if (isIP(address) !== (v6 === undefined ? 4 : 6)) {
    throw refuse(
      `"${resolver}" is not the address of a name server. Write an IP address, with a port where it is not 53: ` +
        "9.9.9.9, 9.9.9.9:5353 or [2620:fe::fe]:53.",
      "/resolver",
    );
  }
  if (port < 1 || port > 65_535) throw refuse(`Port ${port} cannot be asked. Use 1 to 65535.`, "/resolver");
  return { address, port };
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
      () => nameServer(spec),
      () => thresholdRules(spec),
    );
  },

  destination(spec) {
    const server = nameServer(spec);
    return server === null ? null : { host: server.address, port: server.port, pointer: "/resolver" };
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
      degraded_above_ms: durationOption("degraded-above"),
    },
  },
  summary: (spec) => `${spec.record_type} of ${spec.domain}${spec.resolver === null ? "" : ` at ${spec.resolver}`}`,
  searchText: (spec) => spec.domain,
};
