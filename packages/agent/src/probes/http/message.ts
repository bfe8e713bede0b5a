import { canonicalHost } from "@statusmesh/shared/checks/host";
import type { ExpectedStatus, HttpCheck } from "@statusmesh/shared/checks/http";
import { isSecretHeader } from "@statusmesh/shared/checks/http-rules";
import { portOf } from "@statusmesh/shared/url";

/** One request of a check: the first one, that of a redirect, or one that answers a challenge. */
export interface Hop {
  url: URL;
  secure: boolean;
  /** Without brackets and trailing dot, which neither SNI nor certificates have. */
  host: string;
  port: number;
  /** Scheme, host and port, for messages: path and query may hold secrets. */
  origin: string;
  method: string;
  path: string;
  /** The whole request, as it is written. */
  request: Buffer;
  body: Buffer | null;
  /** Headers of the check; empty after a redirect to another origin. */
  custom: readonly Header[];
  /** Whether credentials of the check are for this server, and whether a redirect has left any behind. */
  credentials: "own" | "left behind" | "none";
  /** Whether it is the server of the check, which may see its client certificate. */
  isOwn: boolean;
  /** Cookies that this run was given. */
  cookies: string;
}

interface Header {
  name: string;
  value: string;
}

// Cached: the first request of a check is always the same, and deriving it would cost as much as sending it.
const firstHops = new WeakMap<HttpCheck, Hop>();

/** The first request of a check. */
export function firstHop(spec: HttpCheck, userAgent: string): Hop {
  const known = firstHops.get(spec);
  if (known !== undefined) return known;
  const custom = Object.entries(spec.headers).map(([name, value]) => ({ name, value }));
  const authorization =
    spec.basic_auth !== null && spec.auth_scheme !== "digest"
      ? `Basic ${Buffer.from(`${spec.basic_auth[0]}:${spec.basic_auth[1]}`, "utf8").toString("base64")}`
      : spec.bearer_token !== null
        ? `Bearer ${spec.bearer_token}`
        : null;
  if (authorization !== null) custom.push({ name: "Authorization", value: authorization });
  const hasCredentials =
    spec.basic_auth !== null ||
    (spec.certificates?.client_id ?? null) !== null ||
    custom.some(({ name }) => isSecretHeader(name));
  const hop = makeHop({
    url: new URL(spec.url),
    text: spec.url,
    method: spec.method,
    body: spec.body === null ? null : Buffer.from(spec.body, "utf8"),
    custom,
    credentials: hasCredentials ? "own" : "none",
    isOwn: true,
    cookies: "",
    userAgent,
  });
  firstHops.set(spec, hop);
  return hop;
}

/**
 * The query as written: URL would encode some characters differently (`'` as %27), and a server that verifies a
 * signature would refuse. Characters that a request line cannot carry are left to URL.
 */
function queryOf(url: URL, text: string): string {
  const written = /^[^?#]*(\?[^#]*)/.exec(text.trim())?.[1] ?? "";
  return /^[\x21-\x7e]*$/.test(written) && url.search.length > 0 ? written : url.search;
}

type HopOptions = Pick<Hop, "url" | "method" | "body" | "custom" | "credentials" | "isOwn" | "cookies"> & {
  /** The URL as written. */
  text: string;
  userAgent: string;
};

function makeHop({ url, text, userAgent, ...hop }: HopOptions): Hop {
  const { method, body, custom, cookies } = hop;
  const given = new Set(custom.map(({ name }) => name.toLowerCase()));
  const path = url.pathname + queryOf(url, text);
  const lines = [`${method} ${path} HTTP/1.1`];
  const add = (name: string, value: string): void => {
    if (!given.has(name.toLowerCase())) lines.push(`${name}: ${value}`);
  };
  add("Host", url.host);
  add("User-Agent", userAgent);
  add("Accept", "*/*");
  add("Accept-Encoding", "identity");
  const isCookie = ({ name }: Header): boolean => name.toLowerCase() === "cookie";
  for (const one of custom) if (cookies === "" || !isCookie(one)) lines.push(`${one.name}: ${one.value}`);
  if (cookies !== "") {
    const own = custom.filter(isCookie).map(({ value }) => value);
    lines.push(`Cookie: ${[...own, Buffer.from(cookies, "utf8").toString("latin1")].join("; ")}`);
  }
  if (body !== null) add("Content-Type", "text/plain; charset=utf-8");
  if (body !== null || method === "POST" || method === "PUT" || method === "PATCH")
    lines.push(`Content-Length: ${body?.length ?? 0}`);
  lines.push("Connection: close", "", "");
  const head = Buffer.from(lines.join("\r\n"), "latin1");
  return {
    ...hop,
    url,
    secure: url.protocol === "https:",
    host: canonicalHost(url.hostname),
    port: portOf(url),
    origin: url.origin,
    path,
    request: body === null ? head : Buffer.concat([head, body]),
  };
}

/** The same request with other cookies and an answer to a challenge. */
export function answering(hop: Hop, authorization: string, cookies: string, userAgent: string): Hop {
  const custom = hop.custom.filter(({ name }) => name.toLowerCase() !== "authorization");
  const text = hop.origin + hop.path;
  return {
    ...makeHop({
      ...hop,
      text,
      userAgent,
      cookies,
      custom: [...custom, { name: "Authorization", value: authorization }],
    }),
    custom,
  };
}

/** Statuses whose Location is followed (RFC 9110 section 15.4). */
export function isRedirect(status: number): boolean {
  return status === 301 || status === 302 || status === 303 || status === 307 || status === 308;
}

/** What a redirect leads to, apart from the hop before. */
export interface RedirectOptions {
  location: string;
  status: number;
  userAgent: string;
  /** False where any certificate is accepted. */
  verified: boolean;
  cookiesFor(url: URL): string;
}

/**
 * The request of a redirect. The method changes as in browsers (Fetch standard, HTTP-redirect fetch). Credentials,
 * custom headers and body are dropped at another origin, and do not return later; https of the same host is no other.
 */
export function nextHop(from: Hop, { location, status, userAgent, verified, cookiesFor }: RedirectOptions) {
  let url: URL;
  try {
    url = new URL(location, from.origin + from.path);
  } catch {
    return { error: `redirected by ${from.origin} to something that is not a URL` };
  }
  if (url.protocol !== "http:" && url.protocol !== "https:")
    return { error: `redirected to a ${url.protocol.slice(0, -1)} URL, which cannot be followed` };
  if (url.hostname === "" || url.port === "0")
    return { error: `redirected by ${from.origin} to a URL that cannot be connected to` };
  url.username = "";
  url.password = "";
  url.hash = "";
  const isSame = url.origin === from.origin || (verified && isUpgrade(from.url, url));
  const toGet =
    (status === 303 && from.method !== "GET" && from.method !== "HEAD") ||
    ((status === 301 || status === 302) && from.method === "POST");
  const keepBody = isSame && !toGet;
  return makeHop({
    url,
    text: location,
    method: toGet ? "GET" : from.method,
    body: keepBody ? from.body : null,
    custom: isSame ? from.custom.filter(({ name }) => keepBody || !name.toLowerCase().startsWith("content-")) : [],
    credentials: isSame || from.credentials !== "own" ? from.credentials : "left behind",
    isOwn: isSame && from.isOwn,
    cookies: cookiesFor(url),
    userAgent,
  });
}

/** From http to https of one host: both at their default ports, or at the same one. */
const isUpgrade = (from: URL, to: URL): boolean =>
  from.protocol === "http:" && to.protocol === "https:" && from.hostname === to.hostname && from.port === to.port;

/** True when the check accepts this status code. */
export function accepts({ kind, value }: ExpectedStatus, status: number): boolean {
  if (kind === "exact") return status === value;
  return kind === "range" ? status >= value.min && status <= value.max : value.includes(status);
}

/** The accepted codes for a sentence: `200`, `200-299`, `200, 204 or 301`. */
export function expectation({ kind, value }: ExpectedStatus): string {
  if (kind === "exact") return String(value);
  if (kind === "range") return value.min === value.max ? String(value.min) : `${value.min}-${value.max}`;
  const last = value.at(-1);
  return value.length === 1 ? String(last) : `${value.slice(0, -1).join(", ")} or ${last}`;
}
