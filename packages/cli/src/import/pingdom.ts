import { greetings } from "@statusmesh/shared/checks/tcp";
import type { Json } from "@statusmesh/shared/json";
import { utcDay } from "@statusmesh/shared/time";
import { headersIn } from "@statusmesh/shared/foreign/check";
import { type Check } from "@statusmesh/shared/foreign/check";
import { Draft, type Imported } from "./draft.ts";
import { containing, httpCheck } from "@statusmesh/shared/foreign/http-check";
import type { Item } from "@statusmesh/shared/foreign/item";
import { clamp, flag, list, number, type Row, row, rows, text } from "@statusmesh/shared/foreign/values";

export interface PingdomData {
  /** In detail: `type` is {http: {…}}, {tcp: {…}} and so on. */
  readonly checks: readonly Row[];
  readonly maintenance: readonly Row[];
}

/** Checks and maintenance windows of Pingdom, as API 3.1 gives them. */
export function importPingdom({ checks, maintenance }: PingdomData, project: string): Imported {
  const draft = new Draft("Pingdom", project);
  const keys = new Map<string, string>();
  for (const detail of checks) {
    const item = draft.item("monitor", detail["name"]);
    const check = checkOf(item, detail);
    if (check === null) continue;
    const notifies = ["integrationids", "userids", "teams", "team_ids"].some((name) => list(detail[name]).length > 0);
    if (notifies)
      item.note("its people and integrations are not carried over: it notifies the default channels", "silent");
    if (list(detail["probe_filters"]).length > 0)
      item.note("is checked from the regions of this installation", "detail");
    const every = number(detail["resolution"], 1);
    const again = number(detail["notifyagainevery"], 0);
    const key = draft.monitor(item, {
      name: item.name,
      check,
      interval: every * 60,
      enabled: !flag(detail["paused"]) && detail["status"] !== "paused",
      tags: rows(detail["tags"]).map((tag) => text(tag["name"])),
      confirmations: Math.ceil(number(detail["sendnotificationwhendown"], 2)),
      renotify: again * every * 60,
      notifyRecovery: flag(detail["notifywhenbackup"], true),
    });
    if (key !== null) keys.set(text(detail["id"]), key);
  }
  for (const window of maintenance) {
    const item = draft.item("maintenance", window["description"]);
    const [from, to] = [number(window["from"], NaN) * 1000, number(window["to"], NaN) * 1000];
    const every = clamp(number(window["repeatevery"], 1), 1, 99);
    const frequencies: Readonly<Record<string, string>> = { day: "DAILY", week: "WEEKLY", month: "MONTHLY" };
    const type = text(window["recurrencetype"]) || "none";
    const frequency = Object.hasOwn(frequencies, type) ? frequencies[type]! : null;
    if (!isTime(from) || !isTime(to) || (frequency === null && type !== "none")) {
      item.refuse("how it repeats, or when it is, is unknown");
      continue;
    }
    const until = number(window["effectiveto"], NaN) * 1000;
    const end = isTime(until) ? `;UNTIL=${utcDay(until).replaceAll("-", "")}` : "";
    const ids = row(window["checks"])["uptime"];
    draft.window(item, {
      title: window["description"],
      startsAt: from,
      endsAt: to,
      recurrence:
        frequency === null
          ? null
          : { rule: `FREQ=${frequency}${every === 1 ? "" : `;INTERVAL=${every}`}${end}`, time_zone: "UTC" },
      monitors: list(ids).flatMap((id) => keys.get(text(id)) ?? []),
    });
  }
  return draft.finish();
}

const isTime = (ms: number): boolean => ms > 0 && ms < 4_102_444_800_000;

function checkOf(item: Item, detail: Row): Check | null {
  const types = Object.entries(row(detail["type"]));
  const [type, of] =
    typeof detail["type"] === "string" ? [detail["type"], {}] : [types[0]?.[0] ?? "", row(types[0]?.[1])];
  const host = text(detail["hostname"]);
  const limit = number(detail["responsetime_threshold"], 0);
  const slow: Json = limit >= 1 && limit <= 10_000 ? { degraded_above_ms: Math.round(limit) } : {};
  switch (type) {
    case "http":
    case "httpcustom":
      return httpOf(item, { host, of, slow });
    case "tcp": {
      const [send, expect] = [text(of["stringtosend"]), text(of["stringtoexpect"])];
      const port = number(of["port"], 0);
      if (send !== "") item.note("what it sends ends without a line break: add \\r\\n where the server waits for one");
      return {
        type: "tcp",
        host,
        port,
        greeting: send === "" ? undefined : greetings.get(port),
        send: send === "" ? undefined : send.replaceAll("\\", "\\\\"),
        expect: expect === "" ? undefined : expect.slice(0, 1000),
        ...slow,
      };
    }
    case "smtp":
    case "pop3":
    case "imap": {
      const isEncrypted = flag(of["encryption"]);
      const usual = { smtp: [25, 465], pop3: [110, 995], imap: [143, 993] }[type]!;
      if (text(of["username"]) !== "") item.note("does not sign in: it waits for the greeting");
      return {
        type: "tcp",
        host,
        port: number(of["port"], usual[isEncrypted ? 1 : 0]!),
        tls: isEncrypted ? "tls" : "none",
        greeting: { smtp: "220", pop3: "+OK", imap: "* OK" }[type],
        ...slow,
      };
    }
    case "ping":
      return { type: "ping", host, ...slow };
    case "dns": {
      const server = text(of["nameserver"]);
      const wanted = text(of["expectedip"]);
      return {
        type: "dns",
        domain: host,
        resolver: server || undefined,
        expected_contains: wanted || undefined,
        ...slow,
      };
    }
    default:
      return item.refuseKind(type);
  }
}

function httpOf(item: Item, { host, of, slow }: { host: string; of: Row; slow: Json }): Check {
  const isEncrypted = flag(of["encryption"]);
  const port = number(of["port"], isEncrypted ? 443 : 80);
  const usual = port === (isEncrypted ? 443 : 80) ? "" : `:${port}`;
  const path = text(of["url"]) || "/";
  // Pingdom's own is left out.
  const headers = headersIn(of["requestheaders"]).filter(
    ([name, value]) => !(name.toLowerCase() === "user-agent" && /pingdom/i.test(value)),
  );
  const user = text(of["username"]);
  const body = text(of["postdata"]);
  const [wanted, unwanted] = [text(of["shouldcontain"]), text(of["shouldnotcontain"])];
  if (number(of["ssl_down_days_before"], 0) > 0)
    item.note("was down days before its certificate expired: add a tls_cert monitor");
  return httpCheck(item, {
    url: `${isEncrypted ? "https" : "http"}://${host}${usual}${path.startsWith("/") ? path : `/${path}`}`,
    method: body === "" ? "GET" : "POST",
    headers,
    body,
    basicAuth: user === "" ? null : [user, text(of["password"])],
    verifyTls: flag(of["verify_certificate"], true),
    more: { ...containing(item, wanted, false), ...containing(item, unwanted, true), ...slow },
  });
}
