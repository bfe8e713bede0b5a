import { dayMs } from "@statusmesh/shared/time";
import { hostAndPort } from "@statusmesh/shared/url";
import type { Json } from "@statusmesh/shared/json";
import { headersIn } from "./channels.ts";
import { type ComponentInput, Draft, type Imported, Secret } from "./draft.ts";
import type { Day, Outage } from "./history.ts";
import { containing, httpCheck, jsonOperators, timeoutOf } from "./http-check.ts";
import { channelsOf } from "./kuma-channels.ts";
import { windowsOf } from "./kuma-windows.ts";
import type { Item } from "./report.ts";
import { clamp, flag, jsonIn, number, type Row, row, rows, text, texts } from "./values.ts";

/** What was read of Uptime Kuma, by the names of its columns. Each table may be empty. */
export interface KumaData {
  readonly monitors: readonly Row[];
  readonly notifications: readonly Row[];
  readonly monitor_notification: readonly Row[];
  /** {monitor_id, name, value} */
  readonly tags: readonly Row[];
  readonly status_pages: readonly Row[];
  readonly status_page_cname: readonly Row[];
  readonly groups: readonly Row[];
  readonly monitor_group: readonly Row[];
  readonly incidents: readonly Row[];
  readonly maintenance: readonly Row[];
  readonly monitor_maintenance: readonly Row[];
  readonly proxies: readonly Row[];
  /** Zone of windows that have that of the server. */
  readonly zone: string;
  readonly days: ReadonlyMap<number, readonly Day[]>;
  /** Changes of the state, in the order of time. */
  readonly changes: ReadonlyMap<number, readonly Change[]>;
}

/** 0 down, 1 up, 2 pending, 3 maintenance. */
export interface Change {
  readonly status: number;
  /** RFC 3339 */
  readonly at: string;
}

/** Uptime Kuma 1.23 and 2.x. The mapping is the same for its database, its backup and its Socket.IO interface. */
export function importKuma(data: KumaData, project: string): Imported {
  const draft = new Draft("Uptime Kuma", project);
  const kuma = new Kuma(data, draft);
  kuma.addChannels();
  kuma.addMonitors();
  kuma.addPages();
  kuma.addWindows();
  for (const incident of data.incidents)
    draft
      .item("page message", incident["title"])
      .refuse("messages of pages are not carried over: post an incident on the page where it still counts", "detail");
  for (const proxy of data.proxies)
    draft.item("proxy", `${text(proxy["host"])}:${text(proxy["port"])}`).refuse("checks use no proxy");
  return draft.finish();
}

type Check = Parameters<Draft["monitor"]>[1]["check"];
type Mapped = { check: Check; paused?: true; addresses?: { kind: string; value: Secret }[] } | null;

const idOf = (value: unknown): number => number(value, NaN);
const mebibyte = 1_048_576;

class Kuma {
  readonly #data: KumaData;
  readonly #draft: Draft;
  readonly #channels = new Map<number, string[]>();
  readonly #monitors = new Map<number, string>();
  /** Monitors that are set manually, which are components without a monitor. */
  readonly #manual = new Map<number, { name: string; state: string; item: Item }>();
  readonly #byId: ReadonlyMap<number, Row>;

  constructor(data: KumaData, draft: Draft) {
    this.#data = data;
    this.#draft = draft;
    this.#byId = new Map(data.monitors.map((monitor) => [idOf(monitor["id"]), monitor]));
  }

  addChannels(): void {
    for (const notification of this.#data.notifications) {
      const item = this.#draft.item("channel", notification["name"]);
      const config = row(jsonIn(notification["config"]));
      const configs = channelsOf(item, config);
      const enabled = notification["active"] === undefined || flag(notification["active"]);
      const keys = configs.flatMap((one) => {
        const name = configs.length > 1 ? `${item.name.slice(0, 60)} ${text(one["to"])}` : item.name;
        return (
          this.#draft.channel(item, { name, config: one, enabled, isDefault: flag(notification["is_default"]) }) ?? []
        );
      });
      this.#channels.set(idOf(notification["id"]), keys);
    }
  }

  addMonitors(): void {
    const tags = groupedBy(this.#data.tags, "monitor_id");
    const notifications = groupedBy(this.#data.monitor_notification, "monitor_id");
    const members = groupedBy(this.#data.monitors, "parent");
    for (const monitor of this.#data.monitors) {
      const id = idOf(monitor["id"]);
      const item = this.#draft.item("monitor", monitor["name"]);
      if (monitor["type"] === "group") {
        item.note(
          `a group: its ${members.get(id)?.length ?? 0} monitors have the tag ${this.#groupTag(monitor)}`,
          "detail",
        );
        if ((notifications.get(id) ?? []).length > 0)
          item.note("the group notified channels itself: its monitors do so one by one", "behaviour");
        continue;
      }
      if (monitor["type"] === "manual") {
        // 0 down, 1 up, 3 maintenance; 1.x has them in the last heartbeat only.
        const state = { 0: "major_outage", 3: "maintenance" }[number(monitor["manual_status"], 1)] ?? "operational";
        this.#manual.set(id, { name: item.name, state, item });
        continue;
      }
      const alerts = (notifications.get(id) ?? []).flatMap(
        (pair) => this.#channels.get(idOf(pair["notification_id"])) ?? [],
      );
      const mapped = checkOf(item, monitor);
      if (mapped === null) continue;
      const interval = number(monitor["interval"], 60);
      const retries = Math.max(0, number(monitor["maxretries"], 0));
      if (retries > 0 && mapped.check.type !== "heartbeat")
        item.note(
          "its retries are confirmations: that many failing runs open an incident, and passing ones close it",
          "detail",
        );
      if ((notifications.get(id) ?? []).length > 0 && alerts.length === 0)
        item.note("none of its channels is carried over: it notifies nobody", "silent");
      const key = this.#draft.monitor(item, {
        name: item.name,
        check: mapped.check,
        interval,
        enabled: mapped.paused !== true && this.#isActive(monitor),
        tags: [...this.#groupTags(monitor), ...(tags.get(id) ?? []).map(tagOf)],
        alerts,
        confirmations: retries + 1,
        renotify: Math.max(0, number(monitor["resend_interval"], 0)) * interval,
        addresses: mapped.addresses ?? [],
      });
      if (key === null) continue;
      this.#monitors.set(id, key);
      this.#draft.past(key, outagesOf(this.#data.changes.get(id) ?? []), this.#data.days.get(id) ?? []);
    }
  }

  addPages(): void {
    const groups = groupedBy(
      this.#data.groups.filter((group) => flag(group["public"])),
      "status_page_id",
    );
    const members = groupedBy(this.#data.monitor_group, "group_id");
    const domains = groupedBy(this.#data.status_page_cname, "status_page_id");
    for (const page of this.#data.status_pages) {
      const item = this.#draft.item("status page", page["title"]);
      const id = idOf(page["id"]);
      const components = byWeight(groups.get(id) ?? []).flatMap((group) =>
        byWeight(members.get(idOf(group["id"])) ?? []).flatMap((pair): ComponentInput[] => {
          const manual = this.#manual.get(idOf(pair["monitor_id"]));
          if (manual !== undefined) {
            const { item: own, ...component } = manual;
            own.note(
              "set manually: a component of its pages without a monitor, whose state you set there",
              "behaviour",
            );
            return [{ ...component, group: text(group["name"]) }];
          }
          const monitor = this.#monitors.get(idOf(pair["monitor_id"]));
          if (monitor === undefined) {
            item.note("shows monitors that are not carried over, or groups: they are left out", "behaviour");
            return [];
          }
          return [{ monitor, group: text(group["name"]) }];
        }),
      );
      notePage(item, page, domains.get(id)?.length ?? 0);
      const theme = text(page["theme"]);
      this.#draft.page(item, {
        slug: text(page["slug"]),
        name: page["title"],
        enabled: page["published"] === undefined || flag(page["published"]),
        about: page["description"],
        style: theme === "light" || theme === "dark" ? theme : "auto",
        components,
      });
    }
    for (const { item } of this.#manual.values())
      if (item.notes.length === 0)
        item.refuse("set manually, and on no page: add it to a page as a component without a monitor");
  }

  addWindows(): void {
    const monitors = groupedBy(this.#data.monitor_maintenance, "maintenance_id");
    for (const maintenance of this.#data.maintenance) {
      const item = this.#draft.item("maintenance", maintenance["title"]);
      const keys = (monitors.get(idOf(maintenance["id"])) ?? []).flatMap(
        (pair) => this.#monitors.get(idOf(pair["monitor_id"])) ?? [],
      );
      for (const window of windowsOf(item, maintenance, this.#data.zone))
        this.#draft.window(item, {
          title: maintenance["title"],
          description: maintenance["description"],
          monitors: keys,
          ...window,
        });
    }
  }

  /** A monitor is paused with any group that it is in. */
  #isActive(monitor: Row): boolean {
    return this.#ancestors(monitor).every(({ active }) => active === undefined || active === null || flag(active));
  }

  /** The monitor and the groups above it. Groups that contain each other end. */
  #ancestors(monitor: Row): Row[] {
    const found: Row[] = [];
    let next: Row | undefined = monitor;
    while (next !== undefined && !found.includes(next) && found.length < 20) {
      found.push(next);
      next = this.#byId.get(idOf(next["parent"]));
    }
    return found;
  }

  #groupTag(group: Row): string {
    const path = this.#ancestors(group).map((one) => text(one["name"]).replaceAll("/", "-"));
    return `group/${path.toReversed().join("/")}`.slice(0, 50).trim();
  }

  #groupTags(monitor: Row): string[] {
    const parent = this.#byId.get(idOf(monitor["parent"]));
    return parent === undefined || parent === monitor ? [] : [this.#groupTag(parent)];
  }
}

function groupedBy(list: readonly Row[], name: string): Map<number, Row[]> {
  const groups = new Map<number, Row[]>();
  for (const one of list) {
    const id = idOf(one[name]);
    groups.set(id, [...(groups.get(id) ?? []), one]);
  }
  return groups;
}

const byWeight = (list: readonly Row[]): Row[] =>
  [...list].sort((a, b) => number(a["weight"], 0) - number(b["weight"], 0) || number(a["id"], 0) - number(b["id"], 0));

const tagOf = (tag: Row): string =>
  text(tag["value"]) === "" ? text(tag["name"]) : `${text(tag["name"])}:${text(tag["value"])}`;

/** The check of a monitor, or null with the reason in the item. */
function checkOf(item: Item, monitor: Row): Mapped {
  const type = text(monitor["type"]);
  const upsideDown = flag(monitor["upside_down"]);
  if (upsideDown) return refused(item, "upside down: a check that must fail does not exist here");
  const map = Object.hasOwn(kinds, type) ? kinds[type]! : null;
  if (map === null)
    return refused(
      item,
      `no check for the kind ${type.slice(0, 40) || "without a name"}: an exec check can run a plugin for it`,
    );
  return map(item, monitor);
}

function refused(item: Item, reason: string): null {
  item.refuse(reason);
  return null;
}

const host = (monitor: Row): string => text(monitor["hostname"]).trim();

const kinds: Readonly<Record<string, (item: Item, monitor: Row) => Mapped>> = {
  http: (item, monitor) => http(item, monitor, {}),
  keyword: (item, monitor) => {
    const keyword = text(monitor["keyword"]);
    if (keyword.length > mebibyte) return refused(item, "its keyword is longer than 1 MiB");
    return http(item, monitor, containing(item, keyword, flag(monitor["invert_keyword"])));
  },
  "json-query": (item, monitor) => http(item, monitor, jsonExpectation(item, monitor)),
  port: (_item, monitor) => ({ check: { type: "tcp", host: host(monitor), port: number(monitor["port"], 0) } }),
  ping: (item, monitor) => {
    const packets = number(monitor["ping_count"], 1);
    if (number(monitor["packet_size"], 56) !== 56) item.note("its packets have the usual size", "detail");
    return { check: { type: "ping", host: host(monitor), ...(packets > 1 ? { packets: clamp(packets, 1, 10) } : {}) } };
  },
  dns: (item, monitor) => dns(item, monitor),
  push: (item, monitor) => push(item, monitor),
  smtp: (item, monitor) => {
    item.note("connects and, where asked, starts TLS: no mail is sent", "detail");
    const security = text(monitor["smtp_security"]);
    const tls = security === "secure" ? "tls" : security === "starttls" ? "starttls_smtp" : "none";
    return { check: { type: "tcp", host: host(monitor), port: number(monitor["port"], 25), tls } };
  },
  "websocket-upgrade": (item, monitor) => {
    if (text(monitor["ws_subprotocol"]) !== "") item.note("its subprotocol is not asked for");
    const isUnverified = flag(monitor["ignore_tls"]);
    return { check: { type: "websocket", url: text(monitor["url"]), ...(isUnverified ? { verify_tls: false } : {}) } };
  },
  "grpc-keyword": (item, monitor) => {
    const isHealth = /^(?:grpc\.health\.v1\.)?Health$/.test(text(monitor["grpc_service_name"]));
    const [, name, port] = /^([^:/\s]+|\[[^\]]+\]):(\d{1,5})$/.exec(text(monitor["grpc_url"])) ?? [];
    if (!isHealth || name === undefined || flag(monitor["invert_keyword"]))
      return refused(item, "calls a method of its own: gRPC checks ask the standard health service (grpc.health.v1)");
    item.note("asks the standard health service of gRPC", "detail");
    const tls = flag(monitor["grpc_enable_tls"]);
    return { check: { type: "grpc", host: name, port: Number(port), ...(tls ? {} : { tls: false }) } };
  },
};

function http(item: Item, monitor: Row, more: Json): Mapped {
  const method = text(monitor["auth_method"]);
  if (["ntlm", "mtls", "oauth2-cc"].includes(method))
    return refused(item, `signs in with ${method}, which HTTP checks cannot`);
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
  if (text(monitor["ip_family"]) !== "") item.note("the agent chooses between IPv4 and IPv6", "detail");
  noteExpiry(item, monitor);
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
    timeoutMs: timeout > 0 ? timeoutOf(item, seconds * 1000) : Math.min(60_000, Math.max(100, seconds * 1000)),
    verifyTls: !flag(monitor["ignore_tls"]),
    followRedirects: number(monitor["maxredirects"], 10) > 0,
    maxRedirects: number(monitor["maxredirects"], 10),
    statuses: texts(codes),
    more,
  });
  return { check, ...(isProxied ? { paused: true } : {}) };
}

function noteExpiry(item: Item, monitor: Row): void {
  if (flag(monitor["expiry_notification"]) && /^https:/i.test(text(monitor["url"])))
    item.note(
      "warned of its certificate too: add a tls_cert monitor for the host (warn_days: 21, critical_days: 7)",
      "behaviour",
    );
  if (flag(monitor["domain_expiry_notification"]))
    item.note("warned of its domain too: add a domain_expiry monitor", "behaviour");
}

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
  if (/[a-z]/i.test(server) && !server.includes(":")) return refused(item, "its resolver is a name: write an address");
  return {
    check: {
      type: "dns",
      domain: host(monitor),
      record_type: text(monitor["dns_resolve_type"]) || "A",
      ...(resolver === null ? {} : { resolver }),
      ...(wanted === "" ? {} : { expected_contains: wanted }),
    },
  };
}

/** Down one second after the interval, and retries later. */
function push(item: Item, monitor: Row): Mapped {
  const interval = number(monitor["interval"], 60);
  const retries = Math.max(0, number(monitor["maxretries"], 0));
  const retry = number(monitor["retry_interval"], 0) || interval;
  const period = clamp(interval * 1000, 10_000, 90 * dayMs);
  if (period !== interval * 1000) item.note("expected every 10 s to 90 days", "behaviour");
  const token = text(monitor["push_token"]);
  const isUsable = /^[\w-]{8,100}$/.test(token);
  if (!isUsable) item.note("its push token is too short to be taken over: give the job its new ping URL", "silent");
  item.note("its first window begins with the first ping: a job that never reports is not down", "behaviour");
  return {
    check: { type: "heartbeat", period, grace: clamp((retries * retry + 1) * 1000, 1000, 30 * dayMs) },
    addresses: isUsable ? [{ kind: "kuma", value: new Secret(token) }] : [],
  };
}

function notePage(item: Item, page: Row, domains: number): void {
  if (domains > 0) item.note("its domains are not taken over: set custom_domain once its DNS record can be changed");
  if (text(page["icon"]).includes("/upload/"))
    item.note("its logo is a file of Kuma's data folder: upload it", "detail");
  const dropped: Readonly<Record<string, string>> = {
    custom_css: "its own CSS is left out",
    footer_text: "its footer is left out",
    analytics_id: "its analytics are left out",
    google_analytics_tag_id: "its analytics are left out",
  };
  for (const [name, words] of Object.entries(dropped)) if (text(page[name]) !== "") item.note(words, "detail");
  if (flag(page["show_tags"])) item.note("tags are not shown on pages", "detail");
  if (text(page["password"]) !== "") item.note("it had a password: pages here are public", "silent");
}

/** Closed outages: from a change to down until the next one to up, or into maintenance. */
function outagesOf(changes: readonly Change[]): Outage[] {
  const found: Outage[] = [];
  let since: string | null = null;
  for (const { status, at } of changes) {
    if (status === 0) since ??= at;
    else if (since !== null && (status === 1 || status === 3)) {
      if (at > since) found.push({ started_at: since, ended_at: at, title: null });
      since = null;
    }
  }
  return found;
}
