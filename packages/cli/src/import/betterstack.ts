import { type Check, heartbeat, Secret } from "@statusmesh/shared/foreign/check";
import { Draft, type Imported } from "./draft.ts";
import { containing, httpCheck, timeoutOf } from "@statusmesh/shared/foreign/http-check";
import type { Item } from "@statusmesh/shared/foreign/item";
import { flag, list, number, type Row, row, rows, text } from "@statusmesh/shared/foreign/values";

/** Objects as the JSON API lists them: {id, attributes}. */
export interface BetterStackData {
  readonly monitors: readonly Row[];
  readonly heartbeats: readonly Row[];
  readonly groups: readonly Row[];
  readonly pages: readonly Row[];
  /** Resources by id of their page. */
  readonly resources: ReadonlyMap<string, readonly Row[]>;
}

/** Monitors, heartbeats and status pages of Better Stack. */
export function importBetterStack(data: BetterStackData, project: string): Imported {
  const draft = new Draft("Better Stack", project);
  const groups = new Map(data.groups.map((group) => [text(group["id"]), text(row(group["attributes"])["name"])]));
  const keys = new Map<string, string>();
  for (const monitor of data.monitors) {
    const of = row(monitor["attributes"]);
    const item = draft.item("monitor", text(of["pronounceable_name"]) || text(of["url"]));
    const every = number(of["check_frequency"], 180);
    notePolicy(item, of);
    const group = groups.get(text(of["monitor_group_id"])) ?? "";
    const checks = checksOf(item, of);
    for (const [at, check] of checks.entries()) {
      const key = draft.monitor(item, {
        name: checks.length > 1 ? `${item.name} ${at + 1}` : item.name,
        check,
        interval: every,
        enabled: !flag(of["paused"]) && of["paused_at"] == null,
        tags: group === "" ? [] : [`group/${group}`],
        confirmations: Math.ceil(number(of["confirmation_period"], 0) / Math.max(1, every)) + 1,
      });
      if (key !== null && at === 0) keys.set(`Monitor ${text(monitor["id"])}`, key);
    }
  }
  for (const one of data.heartbeats) {
    const of = row(one["attributes"]);
    const item = draft.item("monitor", of["name"]);
    notePolicy(item, of);
    const token = /\/heartbeat\/([\w-]{8,100})\/?$/.exec(text(of["url"]))?.[1] ?? "";
    if (token === "") item.note("its address is not readable: give the job its new ping URL", "silent");
    const key = draft.monitor(item, {
      name: item.name,
      check: heartbeat(number(of["period"], 86_400) * 1000, number(of["grace"], 300) * 1000),
      enabled: !flag(of["paused"]) && of["paused_at"] == null,
      addresses: token === "" ? [] : [{ kind: "better_stack", value: new Secret(token) }],
    });
    if (key !== null) keys.set(`Heartbeat ${text(one["id"])}`, key);
  }
  for (const page of data.pages) addPage(draft, page, data.resources.get(text(page["id"])) ?? [], keys);
  return draft.finish();
}

function addPage(draft: Draft, page: Row, resources: readonly Row[], keys: ReadonlyMap<string, string>): void {
  const of = row(page["attributes"]);
  const item = draft.item("status page", of["company_name"]);
  if (text(of["custom_domain"]) !== "")
    item.note("its domain is not taken over: set custom_domain once its DNS record can be changed");
  if (text(of["custom_css"]) !== "") item.note("its own CSS is left out", "detail");
  if (text(of["logo_url"]) !== "") item.note("its logo is left out: upload it", "detail");
  if (flag(of["password_enabled"])) item.note("it had a password: pages here are public", "silent");
  const components = resources.flatMap((resource) => {
    const about = row(resource["attributes"]);
    const monitor = keys.get(`${text(about["resource_type"])} ${text(about["resource_id"])}`);
    if (monitor !== undefined)
      return [{ monitor, name: text(about["public_name"]), description: text(about["explanation"]) }];
    item.note("shows resources that are not carried over: they are left out");
    return [];
  });
  draft.page(item, { slug: text(of["subdomain"]), name: of["company_name"], components });
}

function notePolicy(item: Item, of: Row): void {
  if (of["policy_id"] != null || flag(of["call"]) || flag(of["sms"]) || flag(of["email"]) || flag(of["push"]))
    item.note("its people and policies are not carried over: it notifies the default channels", "silent");
  if (number(of["ssl_expiration"], -1) > 0) item.note("warned of its certificate too: add a tls_cert monitor");
  if (number(of["domain_expiration"], -1) > 0) item.note("warned of its domain too: add a domain_expiry monitor");
  if (text(of["maintenance_from"]) !== "") item.note("its daily maintenance is left out: add a maintenance window");
  if (number(of["recovery_period"], 0) > 0)
    item.note("recovers after as many passing runs as failing ones open", "detail");
  if (Array.isArray(of["regions"])) item.note("is checked from the regions of this installation", "detail");
}

const mailPorts: Readonly<Record<string, { port: number; tls: (port: number) => string; greeting: string }>> = {
  smtp: { port: 25, tls: (port) => (port === 465 ? "tls" : "none"), greeting: "220" },
  pop: { port: 110, tls: (port) => (port === 995 ? "tls" : "none"), greeting: "+OK" },
  imap: { port: 143, tls: (port) => (port === 993 ? "tls" : "none"), greeting: "* OK" },
};

/** The checks of a monitor, one for each of its ports; none with the reason in the item. */
function checksOf(item: Item, of: Row): Check[] {
  const type = text(of["monitor_type"]);
  const url = text(of["url"]).trim();
  const host = url.replace(/^[a-z]+:\/\//i, "").replace(/[/?#].*$/s, "");
  const isHttp = ["status", "expected_status_code", "keyword", "keyword_absence"].includes(type);
  // Seconds for HTTP, milliseconds for the others.
  const timeoutMs = timeoutOf(item, number(of["request_timeout"], isHttp ? 30 : 5000) * (isHttp ? 1000 : 1));
  const ports = text(of["port"])
    .split(",")
    .map((one) => Number(one.trim()))
    .filter((port) => port > 0);
  if (ports.length > 1) item.note("one monitor for each of its ports", "detail");
  if (of["proxy_host"] != null && text(of["proxy_host"]) !== "") {
    item.refuse("goes through a proxy, which checks do not");
    return [];
  }
  if (isHttp) {
    const headers = rows(of["request_headers"]).map((header) => [text(header["name"]), text(header["value"])] as const);
    if (flag(of["remember_cookies"])) item.note("cookies are not kept between redirects", "detail");
    const codes = list(of["expected_status_codes"]).map(text);
    const user = text(of["auth_username"]);
    return [
      httpCheck(item, {
        url,
        method: text(of["http_method"]),
        headers,
        body: text(of["request_body"]),
        basicAuth: user === "" ? null : [user, text(of["auth_password"])],
        timeoutMs,
        verifyTls: flag(of["verify_ssl"], true),
        followRedirects: flag(of["follow_redirects"], true),
        statuses: type === "expected_status_code" ? codes : [],
        more: type.startsWith("keyword")
          ? containing(item, text(of["required_keyword"]), type === "keyword_absence")
          : {},
      }),
    ];
  }
  if (type === "ping") return [{ type: "ping", host, timeout: timeoutMs }];
  if (type === "tcp")
    return (ports.length === 0 ? [0] : ports).map((port) => ({ type: "tcp", host, port, timeout: timeoutMs }));
  if (type === "dns")
    return [{ type: "dns", domain: text(of["request_body"]), resolver: host || undefined, timeout: timeoutMs }];
  const mail = Object.hasOwn(mailPorts, type) ? mailPorts[type]! : null;
  if (mail === null) {
    item.refuseKind(type);
    return [];
  }
  return (ports.length === 0 ? [mail.port] : ports).map((port) => ({
    type: "tcp",
    host,
    port,
    tls: mail.tls(port),
    greeting: mail.greeting,
    timeout: timeoutMs,
  }));
}
