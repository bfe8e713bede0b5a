import { dayMs, hourMs, minuteMs, secondMs } from "@statusmesh/shared/time";
import type { Json } from "../shell/api.ts";
import * as channels from "./channels.ts";
import { Draft, type Imported, Secret } from "./draft.ts";
import { type HttpInput, httpCheck, timeoutOf } from "./http-check.ts";
import type { Item } from "./report.ts";
import { clamp, flag, isRow, number, type Row, row, rows, text, texts } from "./values.ts";
import { firstDay, instantIn, isZone, wallTime, weekdayOf } from "./zones.ts";

type Check = Parameters<Draft["monitor"]>[1]["check"];

/** The configuration of Gatus, one file or its folder put together. */
export function importGatus(config: Row, project: string): Imported {
  const draft = new Draft("Gatus", project);
  const gatus = new Gatus(config, draft);
  for (const endpoint of rows(config["endpoints"])) gatus.addEndpoint(endpoint);
  for (const endpoint of rows(config["external-endpoints"])) gatus.addExternal(endpoint);
  for (const suite of rows(config["suites"]))
    draft.item("suite", suite["name"]).refuse("several requests that pass values on: use an exec check");
  for (const message of rows(config["announcements"]))
    draft
      .item("announcement", message["message"])
      .refuse("announcements are not carried over: post an incident", "detail");
  for (const name of ["connectivity", "tunneling", "remote"])
    if (isRow(config[name])) draft.item("setting", name).refuse("there is no such setting", "detail");
  gatus.addMaintenance(row(config["maintenance"]));
  return draft.finish();
}

/** What the alerts of an endpoint say together. */
interface Alerting {
  keys: string[];
  confirmations: number | null;
  renotify: number;
  notifyRecovery: boolean;
}

class Gatus {
  readonly #draft: Draft;
  readonly #alerting: Row;
  /** Keys of channels by provider, group and override. */
  readonly #channels = new Map<string, string[]>();
  readonly #monitors: string[] = [];

  constructor(config: Row, draft: Draft) {
    this.#draft = draft;
    this.#alerting = row(config["alerting"]);
    for (const [type, provider] of Object.entries(this.#alerting)) {
      if (!isRow(provider)) continue;
      this.#addChannel(type, type, provider);
      for (const override of rows(provider["overrides"])) {
        const group = text(override["group"]);
        this.#addChannel(`${type} group ${group}`, type, { ...provider, ...override });
      }
    }
  }

  addEndpoint(endpoint: Row): void {
    const item = this.#draft.item("monitor", nameOf(endpoint));
    const checks = checksOf(item, endpoint);
    const alerts = this.#alertsOf(item, endpoint);
    const interval = duration(endpoint["interval"], minuteMs) / 1000;
    const keys = checks.flatMap(({ name, check, everySecs }) => {
      const key = this.#draft.monitor(item, {
        name,
        check,
        interval: everySecs ?? interval,
        enabled: endpoint["enabled"] === undefined || flag(endpoint["enabled"]),
        tags: tagsOf(endpoint),
        alerts: alerts.keys,
        confirmations: everySecs === undefined ? alerts.confirmations : 1,
        renotify: alerts.renotify,
        notifyRecovery: alerts.notifyRecovery,
      });
      return key === null ? [] : [key];
    });
    this.#monitors.push(...keys);
    for (const window of rows(endpoint["maintenance-windows"]))
      this.#addWindow(window, `Maintenance of ${item.name}`, keys);
  }

  addExternal(endpoint: Row): void {
    const item = this.#draft.item("monitor", nameOf(endpoint));
    const wanted = duration(row(endpoint["heartbeat"])["interval"], 0);
    if (wanted === 0) item.note("nothing says how often it reports: a report is expected every 30 days", "silent");
    const token = text(endpoint["token"]);
    const value = `${keyOf(endpoint)}:${token}`;
    const isUsable = /^[^:/\s]{1,150}:\S{8,100}$/.test(value);
    if (!isUsable) item.note("its token has less than 8 characters: give the job its new ping URL", "silent");
    const alerts = this.#alertsOf(item, endpoint);
    const key = this.#draft.monitor(item, {
      name: item.name,
      check: { type: "heartbeat", period: clamp(wanted || 30 * dayMs, 10_000, 90 * dayMs) },
      enabled: endpoint["enabled"] === undefined || flag(endpoint["enabled"]),
      tags: tagsOf(endpoint),
      alerts: alerts.keys,
      renotify: alerts.renotify,
      notifyRecovery: alerts.notifyRecovery,
      addresses: isUsable ? [{ kind: "gatus", value: new Secret(value) }] : [],
    });
    if (key !== null) this.#monitors.push(key);
  }

  addMaintenance(maintenance: Row): void {
    if (Object.keys(maintenance).length > 0) this.#addWindow(maintenance, "Maintenance", this.#monitors);
  }

  #addWindow(window: Row, title: string, monitors: readonly string[]): void {
    const item = this.#draft.item("maintenance", title);
    if (window["enabled"] !== undefined && !flag(window["enabled"]))
      return item.refuse("it was switched off", "detail");
    const zone = text(window["timezone"]) || "UTC";
    const [, hours, minutes] = /^(\d{1,2}):(\d\d)$/.exec(text(window["start"])) ?? [];
    const length = duration(window["duration"], 0);
    if (!isZone(zone) || hours === undefined || length <= 0)
      return item.refuse("it has no start, duration or time zone");
    const names = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
    const days = texts(window["every"])
      .map((day) => names.indexOf(day.toLowerCase()))
      .filter((day) => day >= 0);
    const first = firstDay(wallTime("2026-01-01"), (day) => days.length === 0 || days.includes(day.getUTCDay()))!;
    const startsAt = instantIn(zone, first + (Number(hours) * 60 + Number(minutes)) * minuteMs);
    const rule =
      days.length === 0 ? "FREQ=DAILY" : `FREQ=WEEKLY;BYDAY=${[...new Set(days)].sort().map(weekdayOf).join(",")}`;
    this.#draft.window(item, {
      title,
      startsAt,
      endsAt: startsAt + length,
      recurrence: { rule, time_zone: zone },
      monitors,
    });
  }

  #addChannel(id: string, type: string, config: Row): string[] {
    const item = this.#draft.item("channel", id);
    const configs = channelsOf(item, type, config);
    const keys = configs.flatMap((one) => {
      const name = configs.length > 1 ? `${id} ${text(one["to"])}` : id;
      return this.#draft.channel(item, { name, config: one }) ?? [];
    });
    this.#channels.set(id, keys);
    return keys;
  }

  #alertsOf(item: Item, endpoint: Row): Alerting {
    const alerts = rows(endpoint["alerts"]).flatMap((alert): Row[] => {
      const provider = row(this.#alerting[text(alert["type"])]);
      const whole: Row = { ...row(provider["default-alert"]), ...alert };
      return whole["enabled"] === undefined || flag(whole["enabled"]) ? [whole] : [];
    });
    const keys = alerts.flatMap((alert) => this.#keysOf(alert, text(endpoint["group"])));
    if (alerts.length > 0 && keys.length === 0)
      item.note("none of its channels is carried over: it notifies nobody", "silent");
    const failures = alerts.map((alert) => number(alert["failure-threshold"], 3));
    if (new Set(failures).size > 1) item.note("its alerts have different thresholds: the largest counts for all");
    const most = failures.length === 0 ? null : Math.max(...failures);
    if (alerts.some((alert) => number(alert["success-threshold"], 2) !== most))
      item.note("as many passing runs close an incident as failing ones open it", "detail");
    if (alerts.some((alert) => text(alert["description"]) !== ""))
      item.note("the descriptions of its alerts are left out", "detail");
    const reminders = alerts.map((alert) => duration(alert["minimum-reminder-interval"], 0)).filter((one) => one > 0);
    return {
      keys,
      confirmations: most,
      renotify: reminders.length === 0 ? 0 : Math.min(...reminders) / 1000,
      notifyRecovery: alerts.length === 0 || alerts.some((alert) => flag(alert["send-on-resolved"])),
    };
  }

  #keysOf(alert: Row, group: string): string[] {
    const type = text(alert["type"]);
    const override = row(alert["provider-override"]);
    if (Object.keys(override).length > 0) {
      const id = `${type} ${JSON.stringify(override)}`;
      const known = this.#channels.get(id);
      if (known !== undefined) return known;
      const keys = this.#addChannel(`${type} override`, type, { ...row(this.#alerting[type]), ...override });
      this.#channels.set(id, keys);
      return keys;
    }
    return this.#channels.get(`${type} group ${group}`) ?? this.#channels.get(type) ?? [];
  }
}

const nameOf = (endpoint: Row): string => text(endpoint["name"]);

/** Key of an endpoint in URLs (config/key/key.go). */
const keyOf = (endpoint: Row): string =>
  [endpoint["group"], endpoint["name"]]
    .map((part) =>
      text(part)
        .trim()
        .toLowerCase()
        .replaceAll(/[/_.,#+& ]/g, "-"),
    )
    .join("_");

function tagsOf(endpoint: Row): string[] {
  const labels = Object.entries(row(endpoint["extra-labels"])).map(([name, value]) => `${name}:${text(value)}`);
  const group = text(endpoint["group"]);
  return group === "" ? labels : [`group/${group}`, ...labels];
}

/** Go's `1h30m` in ms. */
export function duration(value: unknown, fallback: number): number {
  const units: Readonly<Record<string, number>> = { ms: 1, s: secondMs, m: minuteMs, h: hourMs, d: dayMs };
  const written = text(value).trim();
  if (!/^(?:\d{1,12}(?:\.\d{1,6})?(?:ms|s|m|h|d))+$/.test(written)) return fallback;
  const parts = written.matchAll(/([\d.]+)(ms|s|m|h|d)/g);
  return Math.round([...parts].reduce((sum, [, count, unit]) => sum + Number(count) * units[unit!]!, 0));
}

interface Part {
  name: string;
  check: Check;
  /** For a monitor with an interval of its own. */
  everySecs?: number;
}

/** The monitors that an endpoint becomes; none with the reason in the item. */
function checksOf(item: Item, endpoint: Row): Part[] {
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
  const own: Part[] = [];
  if (expected.certificateDays !== null && host !== "")
    own.push({
      name: `${item.name} certificate`,
      check: {
        type: "tls_cert",
        host: host.replaceAll(/[[\]]/g, ""),
        port: Number(port) || 443,
        warn_days: clamp(expected.certificateDays + 7, 1, 3650),
        critical_days: clamp(expected.certificateDays, 0, 3640),
      },
      everySecs: 86_400,
    });
  if (expected.domainDays !== null && host !== "")
    own.push({
      name: `${item.name} domain`,
      check: {
        type: "domain_expiry",
        domain: host,
        warn_days: clamp(expected.domainDays + 7, 1, 3650),
        critical_days: clamp(expected.domainDays, 0, 3640),
      },
      everySecs: 86_400,
    });
  if (item.isRefused || check === null) return [];
  if (own.length === 0) return [{ name: item.name, check }];
  item.note("the days of its certificate or domain are a monitor of their own, once a day", "detail");
  return expected.isOnlyExpiry ? own : [{ name: item.name, check }, ...own];
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
  const refuse = (reason: string): null => {
    item.refuse(reason);
    return null;
  };
  const [, host = "", port = ""] = /^[a-z]+:\/\/(\[[^\]]+\]|[^:/?#]+)(?::(\d{1,5}))?/i.exec(url) ?? [];
  const server = { host: host.replaceAll(/[[\]]/g, ""), port: Number(port) };
  const isUnverified = flag(client["insecure"]);
  const slow =
    expected.downAboveMs === null || expected.downAboveMs >= timeout ? {} : { degraded_above_ms: expected.downAboveMs };
  if (scheme !== "http" && scheme !== "https") {
    expected.noteBody();
    if (expected.downAboveMs !== null) item.note("slower than its limit is degraded, not down");
  }
  switch (scheme) {
    case "http":
    case "https": {
      const isGraph = flag(endpoint["graphql"]);
      const body = text(endpoint["body"]);
      const headers = Object.entries(row(endpoint["headers"])).map(([name, value]) => [name, text(value)] as const);
      const hasType = headers.some(([name]) => name.toLowerCase() === "content-type");
      if (flag(client["store-cookies"])) item.note("cookies are not kept between redirects");
      const request: HttpInput = {
        url,
        method: text(endpoint["method"]),
        headers: isGraph && !hasType ? [...headers, ["Content-Type", "application/json"]] : headers,
        body: isGraph ? JSON.stringify({ query: body }) : body,
        timeoutMs: timeout,
        verifyTls: !isUnverified,
        followRedirects: !flag(client["ignore-redirect"]),
        more: expected.ofHttp(timeout),
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
        ...(resolver === "" ? {} : { resolver }),
        ...(expected.contains === null ? {} : { expected_contains: expected.contains }),
        timeout,
        ...slow,
      };
    }
    case "icmp":
      return { type: "ping", host: server.host, timeout, ...slow };
    case "tcp":
      return { type: "tcp", ...server, timeout, ...slow };
    case "tls":
    case "starttls": {
      const tls = scheme === "tls" ? "tls" : "starttls_smtp";
      return { type: "tcp", ...server, tls, timeout, ...(isUnverified ? { verify_tls: false } : {}), ...slow };
    }
    case "ssh":
      item.note("waits for the greeting of SSH, and does not sign in");
      return { type: "tcp", host: server.host, port: server.port || 22, expect: "SSH-", timeout, ...slow };
    case "ws":
    case "wss":
      if (text(endpoint["body"]) !== "") item.note("sends no message: write it as send, and what comes back as expect");
      return { type: "websocket", url, timeout, ...(isUnverified ? { verify_tls: false } : {}) };
    case "grpc":
    case "grpcs":
      return { type: "grpc", ...server, timeout, ...(scheme === "grpc" ? { tls: false } : {}), ...slow };
    default:
      return refuse(`no check for ${scheme === "" ? "an address without a scheme" : `${scheme}://`}`);
  }
}

/** The conditions of an endpoint, as expectations. What cannot be said is noted. */
class Expected {
  readonly #item: Item;
  #codes: number[] | null = null;
  readonly #json: Json[] = [];
  #matches: string | null = null;
  #notMatches: string | null = null;
  #others = 0;
  contains: string | null = null;
  downAboveMs: number | null = null;
  certificateDays: number | null = null;
  domainDays: number | null = null;

  constructor(item: Item, conditions: readonly string[]) {
    this.#item = item;
    for (const condition of conditions) if (!this.#read(condition)) this.#leaveOut(condition);
  }

  /** True where nothing but days left is asked for. */
  get isOnlyExpiry(): boolean {
    return this.#others === 0;
  }

  /** Any status is up without a condition. */
  ofHttp(timeout: number): Json {
    const codes = this.#codes;
    if (codes?.length === 0) this.#item.refuse("its conditions of [STATUS] exclude each other");
    const first = codes?.[0] ?? 100;
    const last = codes?.at(-1) ?? 599;
    const isRange = codes === null || last - first + 1 === codes.length;
    const json = this.#json.slice(0, 10);
    if (this.#json.length > 10) this.#item.note("has more than ten conditions of its body: the first ten", "silent");
    return {
      expected_status: !isRange
        ? { kind: "one_of", value: codes }
        : first === last
          ? { kind: "exact", value: first }
          : { kind: "range", value: { min: first, max: last } },
      ...(this.contains === null ? {} : { expected_body_contains: this.contains }),
      ...(this.#matches === null ? {} : { expected_body_matches: this.#matches }),
      ...(this.#notMatches === null ? {} : { expected_body_not_matches: this.#notMatches }),
      ...(json.length === 0 ? {} : { expected_json: json }),
      ...(this.downAboveMs === null || this.downAboveMs > timeout ? {} : { down_above_ms: this.downAboveMs }),
    };
  }

  /** For a kind without a body. */
  noteBody(): void {
    if (this.#json.length > 0 || this.#matches !== null || this.#notMatches !== null || this.#codes !== null)
      this.#item.note("its conditions of [BODY] and [STATUS] are left out: the check has none", "silent");
  }

  #leaveOut(condition: string): void {
    this.#others++;
    this.#item.note(`the condition ${condition.slice(0, 100)} is left out`, "silent");
  }

  #read(condition: string): boolean {
    const [, left = "", op = "", right = ""] = /^(.*?) (==|!=|<=|>=|>|<) (.*)$/s.exec(condition.trim()) ?? [];
    const days = Math.floor(duration(right, NaN) / dayMs);
    if (left === "[CERTIFICATE_EXPIRATION]" || left === "[DOMAIN_EXPIRATION]") {
      if (!/^>=?$/.test(op) || Number.isNaN(days)) return false;
      if (left === "[DOMAIN_EXPIRATION]") this.domainDays = Math.max(this.domainDays ?? 0, days);
      else this.certificateDays = Math.max(this.certificateDays ?? 0, days);
      return true;
    }
    const isRead = this.#readOther(left, op, right.trim());
    if (isRead) this.#others++;
    return isRead;
  }

  #readOther(left: string, op: string, right: string): boolean {
    if (left === "[CONNECTED]") return op === "==" && right === "true";
    if (left === "[DNS_RCODE]") return op === "==" && right === "NOERROR";
    if (left === "[STATUS]") return this.#readStatus(op, right);
    if (left === "[RESPONSE_TIME]") {
      const limit = Number(right);
      if (!/^<=?$/.test(op) || !(limit >= 1 && limit <= 60_000)) return false;
      this.downAboveMs = Math.min(this.downAboveMs ?? Infinity, Math.floor(limit));
      return true;
    }
    if (left === "[BODY]") return this.#readBody(op, right);
    const [, path] = /^\[BODY\]((?:\.[\w-]+|\[\d{1,6}\])+)$/.exec(left) ?? [];
    if (path !== undefined) return this.#readJson(path, op, right);
    const [, has] = /^has\(\[BODY\]((?:\.[\w-]+|\[\d{1,6}\])+)\)$/.exec(left) ?? [];
    if (has === undefined || op !== "==" || !/^(?:true|false)$/.test(right)) return false;
    this.#json.push({ path: jsonPath(has), op: right === "true" ? "exists" : "absent" });
    return true;
  }

  #readStatus(op: string, right: string): boolean {
    const listed = /^any\((.*)\)$/
      .exec(right)?.[1]
      ?.split(",")
      .map((one) => Number(one.trim())) ?? [Number(right)];
    if (listed.some((code) => !Number.isInteger(code)) || (listed.length > 1 && op !== "==" && op !== "!="))
      return false;
    const [value] = listed;
    const fits: Readonly<Record<string, (code: number) => boolean>> = {
      "==": (code) => listed.includes(code),
      "!=": (code) => !listed.includes(code),
      "<": (code) => code < value!,
      "<=": (code) => code <= value!,
      ">": (code) => code > value!,
      ">=": (code) => code >= value!,
    };
    this.#codes = (this.#codes ?? Array.from({ length: 500 }, (_, at) => at + 100)).filter(fits[op]!);
    return true;
  }

  #readBody(op: string, right: string): boolean {
    const glob = /^pat\((.*)\)$/s.exec(right)?.[1];
    const inside = glob === undefined ? undefined : /^\*([^*?[\]\\]+)\*$/s.exec(glob)?.[1];
    if (op === "==" && inside !== undefined && this.contains === null && inside.length <= 1000) {
      this.contains = inside;
      return true;
    }
    const listed = /^any\((.*)\)$/s
      .exec(right)?.[1]
      ?.split(",")
      .map((one) => one.trim());
    const pattern = glob === undefined ? anyOf(listed ?? [right]) : globPattern(glob);
    if (pattern.length > 500) return false;
    if (op === "==" && this.#matches === null) this.#matches = pattern;
    else if (op === "!=" && this.#notMatches === null) this.#notMatches = pattern;
    else return false;
    return true;
  }

  #readJson(path: string, op: string, right: string): boolean {
    const names: Readonly<Record<string, string>> = {
      "==": "eq",
      "!=": "ne",
      "<": "lt",
      "<=": "le",
      ">": "gt",
      ">=": "ge",
    };
    const glob = /^pat\((.*)\)$/s.exec(right)?.[1];
    const listed = /^any\((.*)\)$/s
      .exec(right)?.[1]
      ?.split(",")
      .map((one) => one.trim());
    if (glob !== undefined || listed !== undefined) {
      const pattern = glob === undefined ? anyOf(listed!) : globPattern(glob);
      if (op !== "==" || pattern.length > 500) return false;
      this.#json.push({ path: jsonPath(path), op: "matches", value: pattern });
      return true;
    }
    if (right.length > 1000 || right.startsWith("[")) return false;
    const scalar: unknown = /^(?:-?\d{1,15}(?:\.\d{1,15})?|true|false|null)$/.test(right) ? JSON.parse(right) : right;
    if (!/^[!=]=$/.test(op) && typeof scalar !== "number") return false;
    if (typeof scalar !== "string" && /^[!=]=$/.test(op))
      this.#item.note(
        "a number or boolean of its conditions is none in quotation marks: change it where the JSON has text",
        "detail",
      );
    this.#json.push({ path: jsonPath(path), op: names[op]!, value: scalar });
    return true;
  }
}

/** `.data[0].my-id` as JSONPath. */
const jsonPath = (path: string): string =>
  `$${path.replaceAll(/\.([\w-]+)/g, (_, name: string) => (/^[A-Za-z_]\w*$/.test(name) ? `.${name}` : `['${name}']`))}`;

const quoted = (literal: string): string => literal.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&");
const anyOf = (literals: readonly string[]): string => `^(?:${literals.map(quoted).join("|")})$`;

/** A glob of Gatus (`*`, `?`) as a pattern of the whole text. */
const globPattern = (glob: string): string =>
  `(?s)^${glob.replaceAll(/[*?]|[^*?]+/g, (part) => (part === "*" ? ".*" : part === "?" ? "." : quoted(part)))}$`;

/** The channels that a provider becomes; none with the reason in the item. */
function channelsOf(item: Item, type: string, config: Row): Json[] {
  const of = (name: string): string => text(config[name]).trim();
  const one = (made: Json | null): Json[] => (made === null ? [] : [made]);
  switch (type) {
    case "slack":
    case "rocketchat":
      return one(channels.slack(item, of("webhook-url")));
    case "mattermost":
      return one(channels.mattermost(item, of("webhook-url")));
    case "gotify":
      return one(channels.gotify(item, of("server-url"), of("token")));
    case "matrix":
      return one(
        channels.matrix(
          item,
          of("server-url") || "https://matrix-client.matrix.org",
          of("access-token"),
          of("internal-room-id"),
        ),
      );
    case "opsgenie":
      return one(channels.opsgenie(item, of("api-key"), ""));
    case "signal":
      return one(channels.signal(item, of("api-url"), of("number"), of("recipients")));
    case "discord":
      return one(channels.discord(item, of("webhook-url")));
    case "teams":
    case "teams-workflows":
      return one(channels.teams(item, of("webhook-url")));
    case "googlechat":
      return one(channels.googleChat(item, of("webhook-url")));
    case "telegram":
      if (of("topic-id") !== "") item.note("posts to the chat, not to the topic");
      return one(channels.telegram(item, of("token"), of("id")));
    case "ntfy":
      return one(channels.ntfy(item, of("url"), of("topic"), of("token")));
    case "pushover":
      return one(channels.pushover(item, of("application-token"), of("user-key"), of("device")));
    case "pagerduty":
      return one(channels.pagerduty(item, of("integration-key")));
    case "email":
      return channels.emails(item, of("to"));
    case "twilio":
      return one(channels.twilio(item, { sid: of("sid"), token: of("token"), from: of("from"), to: of("to") }));
    case "custom": {
      const headers = Object.entries(row(config["headers"])).map(([name, value]) => [name, text(value)] as const);
      return one(channels.webhook(item, of("url"), headers));
    }
    default:
      item.refuse(`no kind of channel for ${type.slice(0, 40)}: a webhook may do`, "silent");
      return [];
  }
}
