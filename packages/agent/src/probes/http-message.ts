import { canonicalHost } from "@statusmesh/shared/checks/host";
import type { ExpectedStatus, HttpCheck } from "@statusmesh/shared/checks/http";
import { portOf } from "@statusmesh/shared/url";

/** One request of a check: the first one or that of a redirect. */
export interface Hop {
  secure: boolean;
  /** Without brackets and trailing dot, which neither SNI nor certificates have. */
  host: string;
  port: number;
  /** Scheme, host and port, for messages: path and query may hold secrets. */
  origin: string;
  method: string;
  path: string;
  /** Alternating names and values, as sent. */
  headers: string[];
  body: Buffer | null;
  /** Headers of the check; empty after a redirect to another origin. */
  custom: { name: string; value: string }[];
}

// Cached: the first request of a check is always the same, and deriving it would cost as much as sending it.
const firstHops = new WeakMap<HttpCheck, Hop>();

/** The first request of a check. */
export function firstHop(spec: HttpCheck, userAgent: string): Hop {
  const known = firstHops.get(spec);
  if (known !== undefined) return known;
  const custom = Object.entries(spec.headers).map(([name, value]) => ({ name, value }));
  const authorization =
    spec.basic_auth !== null
      ? `Basic ${Buffer.from(`${spec.basic_auth[0]}:${spec.basic_auth[1]}`, "utf8").toString("base64")}`
      : spec.bearer_token !== null
        ? `Bearer ${spec.bearer_token}`
        : null;
  if (authorization !== null) custom.push({ name: "Authorization", value: authorization });
  const hop = makeHop(
    new URL(spec.url),
    spec.url,
    spec.method,
    spec.body === null ? null : Buffer.from(spec.body, "utf8"),
    custom,
    userAgent,
  );
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

function makeHop(
  url: URL,
  text: string,
  method: string,
  body: Buffer | null,
  custom: Hop["custom"],
  userAgent: string,
): Hop {
  const secure = url.protocol === "https:";
  const given = new Set(custom.map(({ name }) => name.toLowerCase()));
  const headers: string[] = [];
  const add = (name: string, value: string): void => {
    if (!given.has(name.toLowerCase())) headers.push(name, value);
  };
  add("Host", url.host);
  add("User-Agent", userAgent);
  add("Accept", "*/*");
  // Without inflation there are no compression bombs.
  add("Accept-Encoding", "identity");
  for (const { name, value } of custom) headers.push(name, value);
  if (body !== null) add("Content-Type", "text/plain; charset=utf-8");
  if (body !== null || method === "POST" || method === "PUT" || method === "PATCH")
    headers.push("Content-Length", String(body?.length ?? 0));
  headers.push("Connection", "close");
  return {
    secure,
    host: canonicalHost(url.hostname),
    port: portOf(url),
    origin: url.origin,
    method,
    path: url.pathname + queryOf(url, text),
    headers,
    body,
    custom,
  };
}

/** Statuses whose Location is followed (RFC 9110 section 15.4). */
export function isRedirect(status: number): boolean {
  return status === 301 || status === 302 || status === 303 || status === 307 || status === 308;
}

/**
 * The request of a redirect. The method changes as in browsers (Fetch standard, HTTP-redirect fetch). Credentials,
 * custom headers and body are dropped at another origin, and do not return later.
 */
export function nextHop(from: Hop, location: string, status: number, userAgent: string): Hop | { error: string } {
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
  const sameOrigin = url.origin === from.origin;
  const toGet =
    (status === 303 && from.method !== "GET" && from.method !== "HEAD") ||
    ((status === 301 || status === 302) && from.method === "POST");
  const keepBody = sameOrigin && !toGet;
  const custom = sameOrigin
    ? from.custom.filter(({ name }) => keepBody || !name.toLowerCase().startsWith("content-"))
    : [];
  return makeHop(url, location, toGet ? "GET" : from.method, keepBody ? from.body : null, custom, userAgent);
}

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
