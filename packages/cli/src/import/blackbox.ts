import { isIP } from "node:net";
import type { Json } from "@statusmesh/shared/json";
import { headersIn } from "@statusmesh/shared/foreign/check";
import { type Check } from "@statusmesh/shared/foreign/check";
import { dnsOf } from "./blackbox-dns.ts";
import { Draft, type Imported } from "./draft.ts";
import { httpCheck } from "@statusmesh/shared/foreign/http-check";
import type { Item } from "@statusmesh/shared/foreign/item";
import { duration, flag, list, type Row, row, rows, text, texts } from "@statusmesh/shared/foreign/values";

/** A target of a job that probes through blackbox_exporter. */
export interface ProbeTarget {
  readonly job: string;
  readonly module: string;
  readonly target: string;
  readonly labels: Row;
  readonly interval: string;
  /** What of the job cannot be carried over. */
  readonly notes: readonly string[];
}

export interface BlackboxData {
  readonly modules: Row;
  readonly targets: readonly ProbeTarget[];
  /** Jobs that are listed for a reason: other service discovery, or no prober. */
  readonly otherJobs: readonly { name: string; reason: string }[];
}

/** Modules of blackbox_exporter with the targets of Prometheus. */
export function importBlackbox({ modules, targets, otherJobs }: BlackboxData, project: string): Imported {
  const draft = new Draft("blackbox_exporter", project);
  const used = new Set<string>();
  for (const { job, module, target, labels, interval, notes } of targets) {
    const item = draft.item("monitor", target);
    for (const note of notes) item.note(note);
    used.add(module);
    const of = row(Object.hasOwn(modules, module) ? modules[module] : undefined);
    if (of["prober"] === undefined) {
      item.refuse(`its module ${module.slice(0, 60)} is not in the file`);
      continue;
    }
    const check = checkOf(item, of, target);
    if (check === null) continue;
    const added = Object.entries(labels)
      .filter(([name]) => !name.startsWith("__"))
      .map(([name, value]) => `${name}:${text(value)}`);
    const key = draft.monitor(item, {
      name: item.name,
      check,
      interval: duration(interval, 60_000) / 1000,
      tags: [`job:${job}`, ...added],
    });
    if (key !== null) item.note("alerts are rules of Prometheus: it notifies the default channels", "silent");
  }
  for (const name of Object.keys(modules))
    if (!used.has(name)) draft.item("module", name).refuse("no target of Prometheus uses it", "detail");
  for (const { name, reason } of otherJobs) draft.item("job", name).refuse(reason);
  return draft.finish();
}

function checkOf(item: Item, module: Row, target: string): Check | null {
  const prober = text(module["prober"]);
  const timeout = Math.min(60_000, Math.max(100, duration(module["timeout"], 10_000)));
  const of = row(module[prober]);
  const [host] = addressOf(target);
  if (of["source_ip_address"] !== undefined) item.note("the agent chooses its own address", "detail");
  const isStrict = of["ip_protocol_fallback"] !== undefined && !flag(of["ip_protocol_fallback"]);
  if (of["preferred_ip_protocol"] !== undefined && !isStrict)
    item.note("the agent chooses between IPv4 and IPv6: set ip_version for one of them", "detail");
  const check = checkByProber(item, { prober, of, target, timeout });
  const family = isIP(host);
  const version = text(of["preferred_ip_protocol"]) === "ip4" ? "4" : "6";
  return check !== null && isStrict && (family === 0 || String(family) === version)
    ? { ...check, ip_version: version }
    : check;
}

interface Probed {
  prober: string;
  of: Row;
  target: string;
  timeout: number;
}

function checkByProber(item: Item, { prober, of, target, timeout }: Probed): Check | null {
  const [host, port] = addressOf(target);
  switch (prober) {
    case "http":
      return httpOf(item, of, target, timeout);
    case "tcp":
      return tcpOf(item, of, { host, port, timeout });
    case "icmp":
      return { type: "ping", host: target, timeout };
    case "dns":
      return dnsOf(item, of, { host, port, timeout });
    case "grpc": {
      const isPlain = !flag(of["tls"]);
      const service = text(of["service"]);
      return {
        type: "grpc",
        host,
        port,
        timeout,
        tls: isPlain ? false : undefined,
        service: service || undefined,
      };
    }
    case "websocket": {
      item.note("sends no message: write it as send, and what comes back as expect", "silent");
      const config = row(of["http_config"]);
      return { type: "websocket", url: target, timeout, verify_tls: isUnverified(config) ? false : undefined };
    }
    default:
      return item.refuse(`no check for the prober ${prober.slice(0, 40)}`);
  }
}

const isUnverified = (of: Row): boolean => flag(row(of["tls_config"])["insecure_skip_verify"]);

/** Host and port of `host:port`, `[v6]:port` and URLs. */
function addressOf(target: string): [host: string, port: number] {
  const bare = target.replace(/^[a-z]+:\/\//i, "");
  const [, host = bare, port = "0"] = /^(\[[^\]]+\]|[^:/]+):(\d{1,5})/.exec(bare) ?? [];
  return [host.replaceAll(/[[\]]/g, ""), Number(port)];
}

function httpOf(item: Item, of: Row, target: string, timeout: number): Check | null {
  if (of["proxy_url"] !== undefined || flag(of["proxy_from_environment"]))
    return item.refuse("goes through a proxy, which checks do not");
  if (of["oauth2"] !== undefined) return item.refuse("signs in with oauth2, which HTTP checks cannot");
  if (of["body_file"] !== undefined || row(of["tls_config"])["cert_file"] !== undefined)
    return item.refuse("needs a file of the exporter's machine");
  if (row(of["tls_config"])["ca_file"] !== undefined)
    item.note("trusts a private authority: it is down until the agents trust it", "silent");
  const lists = Object.entries(row(of["http_headers"])).map(([name, one]) => {
    const { values, secrets, files } = row(one);
    if (files !== undefined) item.note("a header comes from a file of the exporter's machine: set it", "silent");
    return [name, texts(values)[0] ?? texts(secrets)[0] ?? ""] as const;
  });
  const absent = texts(of["fail_if_body_matches_regexp"]);
  const present = texts(of["fail_if_body_not_matches_regexp"]);
  if (absent.length > 1 || present.length > 1) item.note("one pattern of each kind: the first of them", "silent");
  const expectedHeaders = [
    ...rows(of["fail_if_header_not_matches"]).map((one) => headerRule(one, "matches")),
    ...rows(of["fail_if_header_matches"]).flatMap((one) => {
      if (text(one["regexp"]) === ".*") return [{ name: text(one["header"]), op: "absent" }];
      item.note("a header that must not match is left out", "silent");
      return [];
    }),
  ];
  for (const name of ["fail_if_body_json_matches_cel", "fail_if_body_json_not_matches_cel"])
    if (of[name] !== undefined) item.note("its CEL expression is left out: write it as expected_json", "silent");
  if (of["valid_http_versions"] !== undefined) item.note("any version of HTTP is up", "detail");
  if (flag(of["fail_if_ssl"]) || flag(of["fail_if_not_ssl"]))
    item.note("the scheme of its URL decides about TLS", "detail");
  const basic = row(of["basic_auth"]);
  const authorization = row(of["authorization"]);
  const bearer = text(authorization["credentials"]) || text(of["bearer_token"]);
  for (const name of ["password_file", "credentials_file", "bearer_token_file"])
    if (basic[name] !== undefined || authorization[name] !== undefined || of[name] !== undefined)
      item.note("its credentials are in a file of the exporter's machine: set them", "silent");
  const more: Json = {
    expected_body_not_matches: absent[0],
    expected_body_matches: present[0],
    expected_headers: expectedHeaders.length === 0 ? undefined : expectedHeaders.slice(0, 10),
  };
  return httpCheck(item, {
    url: /^https?:\/\//i.test(target) ? target : `http://${target}`,
    method: text(of["method"]),
    headers: [...headersIn(of["headers"]), ...lists],
    body: text(of["body"]),
    basicAuth: text(basic["username"]) === "" ? null : [text(basic["username"]), text(basic["password"])],
    bearer,
    timeoutMs: timeout,
    verifyTls: !isUnverified(of),
    followRedirects: flag(of["follow_redirects"], true),
    statuses: list(of["valid_status_codes"]).map(text),
    more,
  });
}

const headerRule = (one: Row, op: string): Json => ({ name: text(one["header"]), op, value: text(one["regexp"]) });

interface Server {
  host: string;
  port: number;
  timeout: number;
}

/** What a conversation says before STARTTLS, by the protocol. */
const startTlsWords: readonly (readonly [RegExp, string])[] = [
  [/EHLO|HELO/, "starttls_smtp"],
  [/\bSTLS\b/, "starttls_pop3"],
  [/AUTH TLS/, "starttls_ftp"],
  [/<STARTTLS\b/, "starttls_xmpp"],
  [/^\S+ STARTTLS/m, "starttls_imap"],
  [/^STARTTLS/m, "starttls_sieve"],
];

/** A conversation in several steps is not one of ours: a greeting, what is sent, one answer; or STARTTLS. */
function tcpOf(item: Item, of: Row, server: Server): Check {
  const steps = rows(of["query_response"]);
  const starts = steps.some((step) => flag(step["starttls"]));
  const words = steps.map((step) => text(step["send"]).toUpperCase()).join("\n");
  // The answer of PostgreSQL to an SSLRequest, which is no text.
  const isPostgres = steps.some((step) => text(step["expect_bytes"]) === "S");
  const protocol = isPostgres
    ? "starttls_postgres"
    : (startTlsWords.find(([pattern]) => pattern.test(words))?.[1] ?? null);
  const tls = flag(of["tls"]) ? "tls" : starts && protocol !== null ? protocol : "none";
  if (starts && protocol === null) item.note("its start of TLS is of an unknown protocol: it only connects", "silent");
  else if (starts) item.note("its conversation ends with the handshake of TLS");
  return {
    type: "tcp",
    ...server,
    tls: tls === "none" ? undefined : tls,
    verify_tls: isUnverified(of) && tls !== "none" ? false : undefined,
    ...(starts ? {} : conversationOf(item, steps)),
  };
}

/** `send` of blackbox_exporter ends its line; `${1}` is a part of the text before. */
function conversationOf(item: Item, steps: readonly Row[]): Json {
  const turns = steps.flatMap((step) =>
    (["expect", "send"] as const).flatMap((kind) =>
      text(step[kind]) === "" ? [] : [{ kind, text: text(step[kind]) }],
    ),
  );
  const isAt = (at: number, kind: string): boolean => turns[at]?.kind === kind;
  let at = 0;
  const greeting = isAt(0, "expect") && isAt(1, "send") ? literalOf(turns[at++]!.text) : null;
  let send = "";
  while (isAt(at, "send") && !/\$\{\d\}/.test(turns[at]!.text)) send += `${turns[at++]!.text}\n`;
  const expect = isAt(at, "expect") ? literalOf(turns[at++]!.text) : null;
  const patterns = turns.slice(0, at).filter(({ kind }) => kind === "expect").length;
  const kept = [greeting, expect].filter((one) => one !== null).length;
  if (at < turns.length || kept < patterns)
    item.note("its conversation is reduced to its beginning: what the server says first, a text, one answer");
  const escaped = send.replaceAll("\\", "\\\\").replaceAll("\r", "\\r").replaceAll("\n", "\\n");
  return { greeting: greeting ?? undefined, send: send === "" ? undefined : escaped, expect: expect ?? undefined };
}

/** The longest plain part of a pattern: what the text must contain; null where there is none. */
function literalOf(pattern: string): string | null {
  const parts = pattern.split(/\\.|[\^$]|\([^)]*\)[*+?]?|\[[^\]]*\][*+?]?|.[*?]|[.+|{}]/s);
  const longest = parts.reduce((best, part) => (part.length > best.length ? part : best), "");
  return longest.length >= 2 && !/[()[\]]/.test(longest) ? longest : null;
}
