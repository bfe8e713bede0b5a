import { type Check, headersIn } from "./check.ts";
import { Expected } from "./gatus-conditions.ts";
import { type HttpInput, httpCheck, timeoutOf } from "./http-check.ts";
import type { Item } from "./item.ts";
import { clamp, duration, isRow, type Row, row, text, texts, yamlFlag } from "./values.ts";

interface Part {
  name: string;
  check: Check;
  /** For a monitor with an interval of its own. */
  everySecs?: number;
}

/** The monitors that an endpoint becomes; none with the reason in the item. */
export function checksOf(item: Item, endpoint: Row): Part[] {
  const url = text(endpoint["url"]).trim();
  const expected = new Expected(item, texts(endpoint["conditions"]));
  const client = row(endpoint["client"]);
  for (const name of ["proxy-url", "oauth2", "identity-aware-proxy", "tls", "tunnel"])
    if (client[name] !== undefined) {
      item.refuse(`uses client.${name}, which checks do not have`);
      return [];
    }
  if (client["dns-resolver"] !== undefined) item.note("names are resolved by the agent's resolver");
  const scheme = isRow(endpoint["dns"]) ? "dns" : (/^([a-z]+):\/\//i.exec(url)?.[1]?.toLowerCase() ?? "");
  const timeout = timeoutOf(item, duration(client["timeout"], 10_000));
  const check = checkOf(item, { scheme, url, endpoint, timeout, client, expected });
  const [, host = "", port = ""] = /^[a-z]+:\/\/(?:[^/@]*@)?(\[[^\]]+\]|[^:/?#]+)(?::(\d{1,5}))?/i.exec(url) ?? [];
  const ip = ipOf(client);
  const own: Part[] = [];
  const addExpiry = (what: string, days: number | null, of: Check): void => {
    if (days === null || host === "") return;
    const limits = { warn_days: clamp(days + 7, 1, 3650), critical_days: clamp(days, 0, 3640) };
    own.push({ name: `${item.name} ${what}`, check: { ...of, ...limits }, everySecs: 86_400 });
  };
  const server = { host: host.replaceAll(/[[\]]/g, ""), port: Number(port) || 443 };
  addExpiry("certificate", expected.certificateDays, {
    type: "tls_cert",
    ...server,
    starttls: scheme === "starttls" ? "smtp" : undefined,
    ...ip,
  });
  addExpiry("domain", expected.domainDays, { type: "domain_expiry", domain: host });
  if (item.isRefused || check === null) return [];
  if (own.length === 0) return [{ name: item.name, check }];
  item.note("the days of its certificate or domain are a monitor of their own, once a day", "detail");
  return expected.isOnlyExpiry ? own : [{ name: item.name, check }, ...own];
}

/** `client.network` is ip, ip4 or ip6. */
function ipOf(client: Row): { ip_version?: string } {
  const [, version] = /^ip([46])$/.exec(text(client["network"])) ?? [];
  return version === undefined ? {} : { ip_version: version };
}

interface Given {
  scheme: string;
  url: string;
  endpoint: Row;
  timeout: number;
  client: Row;
  expected: Expected;
}

function checkOf(item: Item, given: Given): Check | null {
  const { scheme, url, endpoint, timeout, client, expected } = given;
  const [, host = "", port = ""] = /^[a-z]+:\/\/(\[[^\]]+\]|[^:/?#]+)(?::(\d{1,5}))?/i.exec(url) ?? [];
  const server = { host: host.replaceAll(/[[\]]/g, ""), port: Number(port) };
  const isUnverified = yamlFlag(client["insecure"]);
  const slow =
    expected.downAboveMs === null || expected.downAboveMs >= timeout ? {} : { degraded_above_ms: expected.downAboveMs };
  const ip = ipOf(client);
  // What it sends, and what must come back.
  const talk = {
    send: text(endpoint["body"]) === "" ? undefined : text(endpoint["body"]).slice(0, 1000),
    expect: expected.contains ?? undefined,
  };
  if (scheme !== "http" && scheme !== "https") {
    if (scheme !== "dns") expected.noteBody({ hasContains: /^(?:tcp|tls|wss?)$/.test(scheme) });
    if (expected.downAboveMs !== null) item.note("slower than its limit is degraded, not down");
  }
  switch (scheme) {
    case "http":
    case "https": {
      const isGraph = yamlFlag(endpoint["graphql"]);
      const body = text(endpoint["body"]);
      const headers = headersIn(endpoint["headers"]);
      const hasType = headers.some(([name]) => name.toLowerCase() === "content-type");
      if (yamlFlag(client["store-cookies"])) item.note("cookies are not kept between redirects");
      const request: HttpInput = {
        url,
        method: text(endpoint["method"]),
        headers: isGraph && !hasType ? [...headers, ["Content-Type", "application/json"]] : headers,
        body: isGraph ? JSON.stringify({ query: body }) : body,
        timeoutMs: timeout,
        verifyTls: !isUnverified,
        followRedirects: !yamlFlag(client["ignore-redirect"]),
        more: { ...expected.ofHttp(timeout), ...ip },
      };
      return httpCheck(item, request);
    }
    case "dns": {
      const query = row(endpoint["dns"]);
      const resolver = url.replace(/^[a-z]+:\/\//i, "").replace(/:53$/, "");
      return {
        type: "dns",
        domain: text(query["query-name"]),
        record_type: text(query["query-type"]) || "A",
        resolver: resolver || undefined,
        ...expected.ofDns(),
        timeout,
        ...slow,
      };
    }
    case "icmp":
      return { type: "ping", host: server.host, timeout, ...slow, ...ip };
    case "tcp":
      return { type: "tcp", ...server, ...talk, timeout, ...slow, ...ip };
    case "tls":
    case "starttls": {
      const tls = scheme === "tls" ? "tls" : "starttls_smtp";
      if (scheme === "starttls" && talk.send !== undefined) item.note("sends nothing after STARTTLS", "silent");
      return {
        type: "tcp",
        ...server,
        ...(scheme === "tls" ? talk : {}),
        tls,
        timeout,
        verify_tls: isUnverified ? false : undefined,
        ...slow,
        ...ip,
      };
    }
    case "ssh":
      item.note("waits for the greeting of SSH, and does not sign in");
      if (talk.send !== undefined) item.note("its command is not run: use an exec check", "silent");
      return { type: "tcp", host: server.host, port: server.port || 22, expect: "SSH-", timeout, ...slow, ...ip };
    case "ws":
    case "wss":
      return { type: "websocket", url, ...talk, timeout, verify_tls: isUnverified ? false : undefined, ...ip };
    case "grpc":
    case "grpcs":
      if (talk.send !== undefined) item.note("asks the standard health service of gRPC", "silent");
      return { type: "grpc", ...server, timeout, tls: scheme === "grpc" ? false : undefined, ...slow, ...ip };
    default:
      return item.refuse(`no check for ${scheme === "" ? "an address without a scheme" : `${scheme}://`}`);
  }
}
