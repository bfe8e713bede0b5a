import { isIP } from "node:net";
import { minuteMs } from "@statusmesh/shared/time";
import type { Json } from "@statusmesh/shared/json";
import { hostAndPort } from "@statusmesh/shared/url";
import { type Check, headersIn, heartbeat } from "@statusmesh/shared/foreign/check";
import { addDomain, type KnownDomains } from "./expiry.ts";
import { Draft, type Imported } from "./draft.ts";
import { containing, httpCheck, timeoutOf } from "@statusmesh/shared/foreign/http-check";
import { assertionsOf } from "./uptimerobot-assertions.ts";
import type { Item } from "@statusmesh/shared/foreign/item";
import { clamp, flag, isRow, list, number, type Row, row, rows, text, texts } from "@statusmesh/shared/foreign/values";
import { firstDay, wallTime, weekdayOf } from "./zones.ts";

export interface UptimeRobotData {
  readonly monitors: readonly Row[];
  readonly pages: readonly Row[];
  readonly windows: readonly Row[];
}

/** Monitors, status pages and maintenance windows of UptimeRobot, as API v3 lists them. */
export function importUptimeRobot({ monitors, pages, windows }: UptimeRobotData, project: string): Imported {
  const draft = new Draft("UptimeRobot", project);
  const keys = new Map<string, string>();
  const concerned = new Map<string, string[]>();
  const known: KnownDomains = new Set();
  for (const monitor of monitors) {
    const item = draft.item("monitor", monitor["friendlyName"]);
    const check = checkOf(item, monitor);
    if (check === null) continue;
    const contacts = rows(monitor["assignedAlertContacts"]);
    if (contacts.length > 0)
      item.note("its alert contacts are not readable: it notifies the default channels", "silent");
    if (contacts.some((contact) => number(contact["threshold"], 0) > 0))
      item.note("waits for confirmations, not for minutes, before it notifies");
    const recurrence = Math.max(0, ...contacts.map((contact) => number(contact["recurrence"], 0)));
    const config = row(monitor["config"]);
    const key = draft.monitor(item, {
      name: item.name,
      check,
      interval: number(monitor["interval"], 300),
      enabled: !/^paused$/i.test(text(monitor["status"])) && !isHidden(monitor),
      tags: rows(monitor["tags"]).map((tag) => text(tag["name"])),
      confirmations: clamp(number(config["applicationErrorRetries"], 1), 0, 99) + 1,
      renotify: recurrence * 60,
    });
    if (key === null) continue;
    addExpiry(draft, item, monitor, known);
    keys.set(text(monitor["id"]), key);
    for (const window of rows(monitor["maintenanceWindows"])) {
      const id = text(window["id"]);
      concerned.set(id, [...(concerned.get(id) ?? []), key]);
    }
  }
  for (const page of pages) {
    const item = draft.item("status page", page["friendlyName"]);
    if (text(page["customDomain"]) !== "")
      item.note("its domain is not taken over: set custom_domain once its DNS record can be changed");
    if (text(page["logo"]) !== "" || text(page["icon"]) !== "") item.note("its logo is left out: upload it", "detail");
    const ids = list(page["monitorIds"]).map(text);
    const shown = ids.flatMap((id) => keys.get(id) ?? []);
    if (shown.length < ids.length) item.note("shows monitors that are not carried over: they are left out");
    draft.page(item, {
      slug: text(page["urlKey"]).toLowerCase(),
      name: page["friendlyName"],
      components: shown.map((monitor) => ({ monitor })),
    });
  }
  for (const window of windows) addWindow(draft, window, concerned.get(text(window["id"])) ?? []);
  return draft.finish();
}

/** Passwords are masked or left out. */
const isHidden = (monitor: Row): boolean =>
  text(monitor["httpUsername"]) !== "" && /^\**$/.test(text(monitor["httpPassword"]));

/** Reminders of certificates and domains: a monitor of its own for each server and each domain. */
function addExpiry(draft: Draft, item: Item, monitor: Row, known: KnownDomains): void {
  if (monitor["regionalData"] != null || monitor["regionData"] != null)
    item.note("is checked from the regions of this installation", "detail");
  const address = text(monitor["url"]).trim();
  const url = URL.canParse(address) ? new URL(address) : null;
  if (url === null || !/^(?:HTTP|KEYWORD|API)$/i.test(text(monitor["type"]))) return;
  const add = (name: string, check: Check): void => {
    if (known.size < known.add(name).size) draft.monitor(item, { name, check, interval: 86_400, confirmations: 1 });
  };
  if (flag(monitor["sslExpirationReminder"]) && url.protocol === "https:") {
    const days = list(row(monitor["config"])["sslExpirationPeriodDays"])
      .map(Number)
      .filter((day) => day >= 1);
    const [host, port] = [url.hostname.replaceAll(/[[\]]/g, ""), url.port === "" ? 443 : Number(url.port)];
    const [first, last] = days.length === 0 ? [30, 1] : [Math.max(...days), Math.min(...days)];
    item.note("reminded of its certificate too: that is a monitor of its own, once a day", "detail");
    add(`${hostAndPort(host, port)} certificate`, {
      type: "tls_cert",
      host,
      port,
      warn_days: clamp(first, 1, 365),
      critical_days: first === last ? 0 : clamp(last, 0, 364),
    });
  }
  if (flag(monitor["domainExpirationReminder"])) addDomain(draft, item, { host: url.hostname, known });
}

function checkOf(item: Item, monitor: Row): Check | null {
  const type = text(monitor["type"]).toUpperCase();
  const url = text(monitor["url"]).trim();
  const host = url.replace(/^[a-z]+:\/\//i, "").replace(/[/:?#].*$/s, "");
  const timeout = timeoutOf(item, number(monitor["timeout"], 30) * 1000);
  const limit = number(monitor["responseTimeThreshold"], 0);
  const [, family] = /v?([46])/i.exec(text(row(monitor["config"])["ipVersion"])) ?? [];
  const slow = {
    ...(limit >= 1 && limit <= timeout ? { degraded_above_ms: Math.round(limit) } : {}),
    ...(family !== undefined && isIP(host) === 0 ? { ip_version: family } : {}),
  };
  switch (type) {
    case "HTTP":
    case "KEYWORD":
    case "API":
      return httpOf(item, monitor, { type, url, timeout, slow });
    case "PING":
      return { type: "ping", host, timeout, ...slow };
    case "PORT":
      return { type: "tcp", host, port: number(monitor["port"], 0), timeout, ...slow };
    case "HEARTBEAT":
      item.note("gets a new address: change the job to its new ping URL", "silent");
      return heartbeat(number(monitor["interval"], 86_400) * 1000, number(monitor["gracePeriod"], 300) * 1000);
    case "DNS": {
      const records = Object.entries(row(row(monitor["config"])["dnsRecords"])).flatMap(([name, values]) =>
        texts(values).map((value) => [name, value] as const),
      );
      const [first] = records;
      const answers = records.filter(([name]) => name === first?.[0]).map(([, value]) => value.slice(0, 1000));
      if (records.length > answers.length)
        item.note("expects its records of the first type only: add a monitor for each type", "silent");
      return {
        type: "dns",
        domain: host,
        record_type: first?.[0].toUpperCase() ?? "A",
        ...(/^(?:A|AAAA|CNAME|NS|PTR)$/i.test(first?.[0] ?? "")
          ? { expected_exactly: answers.slice(0, 50) }
          : { expected_contains: answers[0] }),
        timeout,
      };
    }
    default:
      return item.refuseKind(type);
  }
}

interface Given {
  type: string;
  url: string;
  timeout: number;
  slow: Json;
}

function httpOf(item: Item, monitor: Row, { type, url, timeout, slow }: Given): Check {
  const isDigest = text(monitor["authType"]).toUpperCase() === "DIGEST";
  const user = text(monitor["httpUsername"]);
  const password = text(monitor["httpPassword"]);
  if (isHidden(monitor)) item.note("its password is not readable: it is paused until you set it", "silent");
  const isKeyword = type === "KEYWORD";
  // Their alert says when it is down: the keyword exists, or does not.
  const isAbsent = text(monitor["keywordType"]).toUpperCase() === "ALERT_EXISTS";
  const keyword = isKeyword ? containing(item, text(monitor["keywordValue"]), isAbsent) : {};
  const isAnyCase = isKeyword && number(monitor["keywordCaseType"], 1) === 1;
  const assertions = type === "API" ? assertionsOf(item, row(row(monitor["config"])["apiAssertions"])) : {};
  const { body, contentType } = bodyOf(monitor);
  const headers = headersIn(monitor["customHttpHeaders"]);
  if (contentType !== null && !headers.some(([name]) => name.toLowerCase() === "content-type"))
    headers.push(["Content-Type", contentType]);
  return httpCheck(item, {
    url,
    method: text(monitor["httpMethodType"]) || "GET",
    headers,
    body,
    basicAuth: user === "" ? null : [user, isHidden(monitor) ? "unknown" : password],
    timeoutMs: timeout,
    verifyTls: flag(monitor["checkSSLErrors"], true),
    followRedirects: flag(monitor["followRedirections"], true),
    statuses: texts(monitor["successHttpResponseCodes"]),
    more: {
      ...keyword,
      body_case_insensitive: isAnyCase || undefined,
      auth_scheme: isDigest && user !== "" ? "digest" : undefined,
      ...assertions,
      ...slow,
    },
  });
}

/** `postValueType` KEY_VALUE is a form, RAW_JSON a document. */
function bodyOf(monitor: Row): { body: string; contentType: string | null } {
  const data = monitor["postValueData"];
  if (data == null || data === "") return { body: "", contentType: null };
  if (text(monitor["postValueType"]).toUpperCase() === "KEY_VALUE" && isRow(data)) {
    const pairs = Object.entries(data).map(([name, value]): [string, string] => [name, text(value)]);
    return { body: new URLSearchParams(pairs).toString(), contentType: "application/x-www-form-urlencoded" };
  }
  const isJson = typeof data !== "string" || text(monitor["postValueType"]).toUpperCase() === "RAW_JSON";
  return {
    body: typeof data === "string" ? data : JSON.stringify(data),
    contentType: isJson ? "application/json" : null,
  };
}

/** `interval` is once, daily, weekly or monthly; `date` and `time` are of UTC; `duration` in minutes. */
function addWindow(draft: Draft, window: Row, monitors: readonly string[]): void {
  const item = draft.item("maintenance", window["name"]);
  const every = text(window["interval"]).toLowerCase();
  const [, hours = "0", minutes = "0"] = /^(\d{1,2}):(\d\d)/.exec(text(window["time"])) ?? [];
  const given = wallTime(text(window["date"]));
  const start = Number.isNaN(given) ? wallTime("2026-01-01") : given;
  const names = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
  const days = list(window["days"]).map((day) =>
    typeof day === "number" ? day : names.indexOf(text(day).slice(0, 3).toLowerCase()),
  );
  const fits = (day: Date): boolean =>
    every === "weekly" ? days.includes(day.getUTCDay()) : every !== "monthly" || days.includes(day.getUTCDate());
  const first = firstDay(start, fits);
  const rules: Readonly<Record<string, string | null>> = {
    once: null,
    daily: "FREQ=DAILY",
    weekly: `FREQ=WEEKLY;BYDAY=${[...new Set(days)].sort().map(weekdayOf).join(",")}`,
    monthly: "FREQ=MONTHLY",
  };
  const rule = Object.hasOwn(rules, every) ? rules[every]! : undefined;
  if (rule === undefined && every !== "once") return void item.refuse("how it repeats is unknown");
  if (first === null || (every === "once" && Number.isNaN(given))) return void item.refuse("it never takes place");
  if (every === "monthly" && days.length > 1) item.note("on the first of its days only: add a window for each");
  const startsAt = first + (Number(hours) * 60 + Number(minutes)) * minuteMs;
  draft.window(item, {
    title: window["name"],
    startsAt,
    endsAt: startsAt + number(window["duration"], 0) * minuteMs,
    recurrence: rule == null ? null : { rule, time_zone: "UTC" },
    monitors,
  });
}
