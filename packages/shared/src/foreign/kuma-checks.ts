import type { Json } from "../json.ts";
import { hostAndPort } from "../url.ts";
import { type Check, headersIn, heartbeat, Secret } from "./check.ts";
import { containing, httpCheck, jsonOperators, timeoutOf } from "./http-check.ts";
import type { Item } from "./item.ts";
import { clamp, flag, jsonIn, number, type Row, rows, text, texts } from "./values.ts";

type Mapped = {
  check: Check;
  paused?: boolean;
  addresses?: { kind: string; value: Secret }[];
  /** Server whose certificate is a monitor of its own. */
  certificateOf?: { host: string; port: number };
  /** The host of whose domain it warns. */
  domainOf?: string;
} | null;

const mebibyte = 1_048_576;

/** The check of a monitor, or null with the reason in the item. */
export function checkOf(item: Item, monitor: Row): Mapped {
  const type = text(monitor["type"]);
  if (flag(monitor["upside_down"])) return item.refuse("upside down: a check that must fail does not exist here");
  return Object.hasOwn(kinds, type) ? kinds[type]!(item, monitor) : item.refuseKind(type);
}

const host = (monitor: Row): string => text(monitor["hostname"]).trim();

const kinds: Readonly<Record<string, (item: Item, monitor: Row) => Mapped>> = {
  http: (item, monitor) => http(item, monitor, {}),
  keyword: (item, monitor) => {
    const keyword = text(monitor["keyword"]);
    if (keyword.length > mebibyte) return item.refuse("its keyword is longer than 1 MiB");
    return http(item, monitor, containing(item, keyword, flag(monitor["invert_keyword"])));
  },
  "json-query": (item, monitor) => http(item, monitor, jsonExpectation(item, monitor)),
  port: (_item, monitor) => ({ check: { type: "tcp", host: host(monitor), port: number(monitor["port"], 0) } }),
  ping: (item, monitor) => {
    const packets = number(monitor["ping_count"], 1);
    if (number(monitor["packet_size"], 56) !== 56) item.note("its packets have the usual size", "detail");
    return { check: { type: "ping", host: host(monitor), packets: packets > 1 ? clamp(packets, 1, 10) : undefined } };
  },
  docker: (item, monitor) => {
    item.note("runs on agents that are started with --docker: choose the region of its Docker host");
    return { check: { type: "container", name: text(monitor["docker_container"]).trim() } };
  },
  dns,
  push,
  smtp: (item, monitor) => {
    item.note("connects and, where asked, starts TLS: no mail is sent", "detail");
    const security = text(monitor["smtp_security"]);
    const tls = security === "secure" ? "tls" : security === "starttls" ? "starttls_smtp" : "none";
    const greeting = tls === "starttls_smtp" ? undefined : "220";
    return { check: { type: "tcp", host: host(monitor), port: number(monitor["port"], 25), tls, greeting } };
  },
  "websocket-upgrade": (item, monitor) => {
    const offered = text(monitor["ws_subprotocol"])
      .split(",")
      .map((one) => one.trim());
    const subprotocols = offered.filter((one) => one !== "");
    if (subprotocols.length > 5) item.note("offers more than five subprotocols: the first five", "silent");
    const isUnverified = flag(monitor["ignore_tls"]);
    return {
      check: {
        type: "websocket",
        url: text(monitor["url"]),
        verify_tls: isUnverified ? false : undefined,
        subprotocols: subprotocols.length === 0 ? undefined : subprotocols.slice(0, 5),
      },
    };
  },
  "grpc-keyword": (item, monitor) => {
    const isHealth = /^(?:grpc\.health\.v1\.)?Health$/.test(text(monitor["grpc_service_name"]));
    const [, name, port] = /^([^:/\s]+|\[[^\]]+\]):(\d{1,5})$/.exec(text(monitor["grpc_url"])) ?? [];
    if (!isHealth || name === undefined || flag(monitor["invert_keyword"]))
      return item.refuse("calls a method of its own: gRPC checks ask the standard health service (grpc.health.v1)");
    item.note("asks the standard health service of gRPC", "detail");
    const tls = flag(monitor["grpc_enable_tls"]);
    return { check: { type: "grpc", host: name, port: Number(port), tls: tls ? undefined : false } };
  },
};

function http(item: Item, monitor: Row, more: Json): Mapped {
  const method = text(monitor["auth_method"]);
  if (["ntlm", "oauth2-cc"].includes(method)) return item.refuse(`signs in with ${method}, which HTTP checks cannot`);
  const isPaused = noteCertificates(item, monitor, method);
  const headers = headersIn(jsonIn(monitor["headers"]));
  const body = text(monitor["body"]);
  const encodings: Readonly<Record<string, string>> = {
    json: "application/json",
    form: "application/x-www-form-urlencoded",
    xml: "text/xml; charset=utf-8",
  };
  const encoding = text(monitor["http_body_encoding"]) || "json";
  const hasType = headers.some(([name]) => name.toLowerCase() === "content-type");
  const typed = body !== "" && !hasType && Object.hasOwn(encodings, encoding) ? encodings[encoding]! : "";
  const isProxied = number(monitor["proxy_id"], 0) > 0;
  if (isProxied) item.note("goes through a proxy, which checks do not: it is paused", "silent");
  if (flag(monitor["cache_bust"])) item.note("adds no random parameter to its URL", "detail");
  // Without a timeout it is 0.8 times the interval.
  const timeout = number(monitor["timeout"], 0);
  const seconds = timeout > 0 ? timeout : number(monitor["interval"], 60) * 0.8;
  const codes = jsonIn(monitor["accepted_statuscodes_json"]);
  const check = httpCheck(item, {
    url: text(monitor["url"]),
    method: text(monitor["method"]),
    headers: typed === "" ? headers : [...headers, ["Content-Type", typed]],
    body,
    basicAuth:
      method === "basic" && text(monitor["basic_auth_user"]) !== ""
        ? [text(monitor["basic_auth_user"]), text(monitor["basic_auth_pass"])]
        : null,
    bearer: method === "bearer" ? text(monitor["bearer_token"]) : "",
    timeoutMs: timeoutOf(item, seconds * 1000),
    verifyTls: !flag(monitor["ignore_tls"]),
    followRedirects: number(monitor["maxredirects"], 10) > 0,
    maxRedirects: number(monitor["maxredirects"], 10),
    statuses: texts(codes),
    more: { ...more, ...ipOf(monitor) },
  });
  const url = text(monitor["url"]);
  const { hostname, port, protocol } = URL.canParse(url) ? new URL(url) : { hostname: "", port: "", protocol: "" };
  const server = { host: hostname.replaceAll(/[[\]]/g, ""), port: Number(port) || 443 };
  return {
    check,
    paused: isProxied || isPaused,
    ...(flag(monitor["expiry_notification"]) && protocol === "https:" ? { certificateOf: server } : {}),
    ...(flag(monitor["domain_expiry_notification"]) ? { domainOf: server.host } : {}),
  };
}

/** Files hold no private keys; a check without its certificate would be down. True where it is paused. */
function noteCertificates(item: Item, monitor: Row, method: string): boolean {
  if (method !== "mtls") return false;
  const names = [
    ["tls_cert", "tlsCert"],
    ["tls_key", "tlsKey"],
    ["tls_ca", "tlsCa"],
  ] as const;
  const given = names.filter(([column, field]) => text(monitor[column] ?? monitor[field]) !== "");
  const parts = given.map(([, field]) => field).join(", ");
  const ca = given.some(([, field]) => field === "tlsCa") ? " and certificates.ca_id" : "";
  item.note(
    `shows a client certificate (${parts === "" ? "mtls" : parts}), which files do not hold: store it in ` +
      `Certificates, name it in the check (certificates.client_id${ca}) and resume the monitor: it is paused`,
    "silent",
  );
  return true;
}

const ipOf = (monitor: Row): { ip_version?: string } => {
  const [, version] = /^ipv([46])$/i.exec(text(monitor["ip_family"])) ?? [];
  return version === undefined ? {} : { ip_version: version };
};

/** A path of JSONata that is one of JSONPath too, and its operator. */
function jsonExpectation(item: Item, monitor: Row): Json {
  const path = text(monitor["json_path"]).trim();
  const wanted = text(monitor["expected_value"]);
  const operator = text(monitor["json_path_operator"]) || "==";
  const op = operator === "contains" ? operator : (jsonOperators.get(operator) ?? null);
  const isPath = /^(?:\$|(?:\$\.)?[A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[\d{1,6}\])*)$/.test(path);
  const scalar: unknown = /^(?:-?\d{1,15}(?:\.\d{1,15})?|true|false)$/.test(wanted) ? JSON.parse(wanted) : wanted;
  const ordered = op !== null && ["lt", "le", "gt", "ge"].includes(op);
  if (
    op === null ||
    !isPath ||
    path.length > 400 ||
    wanted.length > 1000 ||
    (ordered && typeof scalar !== "number") ||
    (op === "contains" && wanted === "")
  ) {
    item.note(
      "its JSON query is not a simple path: only the status code is checked. Write it as JSONPath in expected_json",
      "silent",
    );
    return {};
  }
  if (typeof scalar !== "string" && !ordered && op !== "contains")
    item.note(
      "its expected value is a number or a boolean here: write it in quotation marks where the JSON has text",
      "detail",
    );
  const jsonPath = path.startsWith("$") ? path : `$.${path}`;
  return { expected_json: [{ path: jsonPath, op, value: op === "contains" ? wanted : scalar }] };
}

function dns(item: Item, monitor: Row): Mapped {
  const servers = text(monitor["dns_resolve_server"])
    .split(",")
    .map((one) => one.trim())
    .filter((one) => one !== "");
  if (servers.length > 1) item.note("asks the first of its resolvers only");
  const [server = ""] = servers;
  const port = number(monitor["port"], 53);
  const resolver = server === "" ? null : port === 53 ? server : hostAndPort(server, port);
  const conditions = rows(jsonIn(monitor["conditions"]));
  const [only] = conditions;
  const isContains =
    conditions.length === 1 && only!["type"] === "expression" && /^(?:contains|equals)$/.test(text(only!["operator"]));
  if (conditions.length > 0 && !isContains)
    item.note("its conditions are more than one “contains”: any answer counts as up", "silent");
  const wanted = isContains ? text(only!["value"]) : "";
  return {
    check: {
      type: "dns",
      domain: host(monitor),
      record_type: text(monitor["dns_resolve_type"]) || "A",
      resolver: resolver ?? undefined,
      expected_contains: wanted || undefined,
    },
  };
}

/** Down one second after the interval, and retries later. */
function push(item: Item, monitor: Row): Mapped {
  const interval = number(monitor["interval"], 60);
  const retries = Math.max(0, number(monitor["maxretries"], 0));
  const retry = number(monitor["retry_interval"], 0) || interval;
  const check = heartbeat(interval * 1000, (retries * retry + 1) * 1000);
  if (check.period !== interval * 1000) item.note("expected every 10 s to 90 days", "behaviour");
  const token = text(monitor["push_token"]);
  const isUsable = /^[\w-]{8,100}$/.test(token);
  if (!isUsable) item.note("its push token is too short to be taken over: give the job its new ping URL", "silent");
  item.note("its first window begins with the first ping: a job that never reports is not down", "behaviour");
  return {
    check,
    addresses: isUsable ? [{ kind: "kuma", value: new Secret(token) }] : [],
  };
}
