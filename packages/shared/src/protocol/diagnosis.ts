import Type, { type Static } from "typebox";
import { Closed, nullable, OneOf, Text } from "../schema/shapes.ts";

/** What kept a failed run from its destination. */
export const diagnosisKinds = [
  "blocked",
  "challenge",
  "origin_unreachable",
  "rate_limited",
  "path",
  "tls",
  "dns",
] as const;
export type DiagnosisKind = (typeof diagnosisKinds)[number];

/** Products whose own answers are recognised, by the name that a diagnosis carries. */
export const providers = {
  akamai: "Akamai",
  apache: "Apache httpd",
  "aws-elb": "AWS load balancer",
  "aws-waf": "AWS WAF",
  "azure-app-gateway": "Azure Application Gateway",
  "azure-front-door": "Azure Front Door",
  barracuda: "Barracuda WAF",
  cloudflare: "Cloudflare",
  cloudfront: "Amazon CloudFront",
  datadome: "DataDome",
  "ddos-guard": "DDoS-Guard",
  envoy: "Envoy",
  f5: "F5 BIG-IP",
  fastly: "Fastly",
  fortiweb: "FortiWeb",
  google: "Google Cloud load balancer",
  haproxy: "HAProxy",
  heroku: "Heroku",
  imperva: "Imperva",
  kasada: "Kasada",
  modsecurity: "ModSecurity",
  netlify: "Netlify",
  nginx: "nginx",
  perimeterx: "HUMAN (PerimeterX)",
  radware: "Radware",
  railway: "Railway",
  sucuri: "Sucuri",
  varnish: "Varnish",
  vercel: "Vercel",
  wordfence: "Wordfence",
} as const;
export type Provider = keyof typeof providers;

/**
 * A diagnosis as agents report it and tables store it: `kind:provider:detail`, the last two may be empty. It has no
 * text of a server, so whatever is shown of it is ours.
 */
export const diagnosisPattern = `^(?:${diagnosisKinds.join("|")}):[a-z0-9-]{0,30}:[a-z0-9-]{0,30}$`;
export const DiagnosisCode = Type.String({
  pattern: diagnosisPattern,
  description: "Kind, provider and detail of what kept the run from its destination",
  examples: ["challenge:cloudflare:"],
});

/** What kept a failed run from its destination, with a remedy; in the API. */
export const Diagnosis = Closed(
  {
    kind: OneOf(diagnosisKinds, "What happened to the request", "challenge"),
    provider: nullable(Text("Product that answered in place of the origin; null where none is known", "Cloudflare")),
    words: Text("The diagnosis as a sentence", "Cloudflare answered with a challenge"),
    remedy: Text("What helps", "allow the addresses of region frankfurt there, or let requests with a header pass"),
  },
  { description: "What kept the run from its destination, and what helps" },
);
export type Diagnosis = Static<typeof Diagnosis>;

/** Error codes of Cloudflare that refuse a client (developers.cloudflare.com/support/troubleshooting). */
const cloudflareBlocks: Readonly<Record<string, string>> = {
  1005: "the network (ASN) of the agent is banned",
  1006: "the address of the agent is banned",
  1007: "the address of the agent is banned",
  1008: "the address of the agent is banned",
  1009: "the country of the agent is banned",
  1010: "the signature of the client is banned",
  1012: "access is denied",
  1020: "a firewall rule",
};

/** Error codes of Cloudflare about the way to the origin. */
const cloudflareOrigins: Readonly<Record<string, string>> = {
  502: "the origin is not available",
  504: "the origin did not answer in time",
  520: "the origin answered with something unexpected",
  521: "the origin refused the connection",
  522: "the connection timed out",
  523: "no route leads to the origin",
  524: "the origin did not answer in time",
  1000: "the DNS record points to an address that is not allowed",
  1001: "the name is not resolved",
  1016: "the DNS record of the origin is missing",
  1033: "no connector of the tunnel is online",
};

const originDetails: Readonly<Record<string, string>> = {
  refused: "the connection failed",
  timeout: "the origin did not answer in time",
  invalid: "the origin sent an invalid answer",
  dns: "the name of the origin is not resolved",
  none: "no origin is available",
};

interface Said {
  words: string;
  remedy: string;
}

const tlsSteps: Readonly<Record<string, Said>> = {
  expired: { words: "the certificate has expired", remedy: "renew it, and reload the server" },
  "chain-expired": {
    words: "a certificate of the chain has expired",
    remedy: "install the present chain of the authority on the server",
  },
  early: { words: "the certificate is not valid yet", remedy: "check the clock of the server and of the agent" },
  name: {
    words: "the certificate is for other names",
    remedy: "issue it for the name of the check, or serve the right one by SNI",
  },
  "self-signed": {
    words: "the certificate is self-signed",
    remedy: "name its authority in the check (certificates.ca_id), or trust it on the agent (--ca-file)",
  },
  authority: {
    words: "the authority of the certificate is not trusted here",
    remedy: "name it in the check (certificates.ca_id), or trust it on the agent (--ca-file)",
  },
  incomplete: {
    words: "the issuer of the certificate is not known here",
    remedy: "have the server send its intermediate certificates, or name the authority (certificates.ca_id)",
  },
  revoked: { words: "the certificate is revoked", remedy: "issue a new one" },
  "client-required": {
    words: "the server requires a client certificate",
    remedy: "name one in the check (certificates.client_id)",
  },
  "client-refused": {
    words: "the server refused the client certificate",
    remedy: "renew it, or trust its authority on the server",
  },
  version: {
    words: "the server offers no TLS version of today",
    remedy: "enable TLS 1.2 or later on the server",
  },
  plain: { words: "the port does not speak TLS", remedy: "use the right port, or a check without TLS" },
  protocol: {
    words: "the server does not offer the protocol of the check over TLS",
    remedy: "enable it, or use another kind of check",
  },
  closed: {
    words: "the server closed the connection during the TLS handshake",
    remedy: "check its TLS settings, and whether a firewall ends connections of the agent",
  },
  timeout: {
    words: "the TLS handshake was not answered",
    remedy: "check the load of the server, and firewalls that inspect TLS",
  },
  alert: { words: "the server ended the TLS handshake", remedy: "read its log, which has the reason" },
};

const dnsAnswers: Readonly<Record<string, Said>> = {
  nxdomain: {
    words: "the resolver said that the name does not exist (NXDOMAIN)",
    remedy: "check the spelling, the zone and whether the domain has expired",
  },
  nodata: {
    words: "the resolver said that the name has no record of this type",
    remedy: "add the record to the zone",
  },
  servfail: {
    words: "the resolver could not resolve the name (SERVFAIL)",
    remedy: "check that the name servers of the zone answer, and its DNSSEC signatures",
  },
  refused: {
    words: "the resolver refused the question (REFUSED)",
    remedy: "allow the agent there, or use another resolver",
  },
  malformed: { words: "the resolver sent a malformed answer", remedy: "check the name server" },
  timeout: { words: "the resolver did not answer", remedy: "check the resolver of the agent" },
};

const paths: Readonly<Record<string, Said>> = {
  "no-route": {
    words: "a router or the host itself reports that the host cannot be reached",
    remedy: "check that the host is up, and the firewalls before it",
  },
  "no-network": {
    words: "no route leads to the network of the host",
    remedy: "check the route, and whether the agent has this address family (ip_version)",
  },
  timeout: {
    words: "nothing answered the connection",
    remedy: "check that the host is up and that no firewall drops packets of the agent",
  },
  firewall: { words: "a local firewall forbids the connection", remedy: "allow it on the machine of the agent" },
};

/** A value of a record by a text of anybody. */
const own = <V>(record: Readonly<Record<string, V>>, key: string): V | undefined =>
  Object.hasOwn(record, key) ? record[key] : undefined;

/** The addresses that a firewall has to allow, in words. */
function addressesOf(regions: readonly string[]): string {
  if (regions.length === 0) return "the addresses of the agent";
  const some = regions.length > 3 ? [...regions.slice(0, 3), "others"] : regions;
  return `the addresses of ${some.length === 1 ? "region" : "regions"} ${some.join(", ")}`;
}

function originWords(provider: Provider, detail: string): Said {
  const isCloudflare = provider === "cloudflare";
  const reason = own(isCloudflare ? cloudflareOrigins : originDetails, detail);
  const why = reason === undefined || !isCloudflare ? reason : `${reason} (error ${detail})`;
  return {
    words: `${providers[provider]} could not reach the origin${why === undefined ? "" : `: ${why}`}`,
    remedy:
      detail === "1033" || detail === "none"
        ? "start the origin, and check its health checks"
        : "check that the origin is up and lets the proxy in",
  };
}

function tlsWords(provider: Provider | null, detail: string): Said | undefined {
  if (provider === null) return own(tlsSteps, detail);
  const why = detail === "certificate" ? "its certificate is not valid" : "the TLS handshake failed";
  const error = provider === "cloudflare" ? ` (error ${detail === "certificate" ? 526 : 525})` : "";
  return {
    words: `${providers[provider]} could not reach the origin: ${why}${error}`,
    remedy: "renew or repair the certificate of the origin",
  };
}

function rateWords(provider: Provider | null, detail: string, regions: readonly string[]): Said {
  const who = provider === null ? "The server" : providers[provider];
  const wait = /^[0-9]{1,7}$/.test(detail) ? `, for ${Number(detail)} s by its Retry-After` : "";
  return {
    words: `${who} limits the rate of requests${wait}`,
    remedy: `use a longer interval, or exempt ${addressesOf(regions)} from the limit`,
  };
}

function said(kind: DiagnosisKind, provider: Provider | null, detail: string, regions: readonly string[]) {
  const name = provider === null ? "A firewall" : providers[provider];
  const allow = `allow ${addressesOf(regions)} there, or let requests with a header of the check pass`;
  switch (kind) {
    case "challenge":
      return { words: `${name} answered with a challenge`, remedy: allow };
    case "blocked": {
      const why = provider === "cloudflare" ? own(cloudflareBlocks, detail) : undefined;
      return {
        words: `${name} blocked the check${why === undefined ? "" : `: ${why} (error ${detail})`}`,
        remedy: allow,
      };
    }
    case "origin_unreachable":
      return provider === null ? undefined : originWords(provider, detail);
    case "rate_limited":
      return rateWords(provider, detail, regions);
    case "path":
      return own(paths, detail);
    case "tls":
      return tlsWords(provider, detail);
    case "dns":
      return own(dnsAnswers, detail);
  }
}

const isProvider = (text: string): text is Provider => Object.hasOwn(providers, text);

/**
 * What a reported diagnosis says; `regions`: names of the regions whose agents saw it. Null for none, and for one that
 * this version does not know.
 */
export function diagnosisOf(code: string | null | undefined, regions: readonly string[] = []): Diagnosis | null {
  if (code == null) return null;
  const [kindText, providerText = "", detail = ""] = code.split(":");
  const kind = diagnosisKinds.find((known) => known === kindText);
  if (kind === undefined || (providerText !== "" && !isProvider(providerText))) return null;
  const provider = isProvider(providerText) ? providerText : null;
  const found = said(kind, provider, detail, regions);
  if (found === undefined) return null;
  return { kind, provider: provider === null ? null : providers[provider], ...found };
}

const classes: Readonly<Record<string, (provider: string) => string>> = {
  blocked: (provider) => `block by ${provider}`,
  challenge: (provider) => `challenge by ${provider}`,
  origin_unreachable: (provider) => `origin unreachable behind ${provider}`,
  rate_limited: (provider) => `rate limit of ${provider}`,
  tls: (provider) => `TLS failure behind ${provider}`,
};

/** What failing monitors have in common, of `kind:provider` as causes name it; null for another text. */
export function diagnosisClass(text: string): string | null {
  const at = text.indexOf(":");
  const [kind, provider] = [text.slice(0, at), text.slice(at + 1)];
  return Object.hasOwn(classes, kind) && isProvider(provider) ? classes[kind]!(providers[provider]) : null;
}

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** A diagnosis in one line: `Cloudflare answered with a challenge: allow the addresses of …`. */
export const diagnosisLine = ({ words, remedy }: Pick<Diagnosis, "words" | "remedy">): string =>
  `${capital(words)}: ${remedy}`;
