import { dayMs, minuteMs } from "@statusmesh/shared/time";
import { Secret } from "@statusmesh/shared/foreign/check";
import { checksOf } from "@statusmesh/shared/foreign/gatus-checks";
import { Draft, type Imported } from "./draft.ts";
import { channelsOf } from "./gatus-channels.ts";
import type { Item } from "@statusmesh/shared/foreign/item";
import {
  clamp,
  duration,
  isRow,
  number,
  type Row,
  row,
  rows,
  text,
  texts,
  yamlFlag,
} from "@statusmesh/shared/foreign/values";
import { instantOf, zoneName } from "@statusmesh/shared/zoned";
import { firstDay, wallTime, weekdayOf } from "./zones.ts";

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
        enabled: yamlFlag(endpoint["enabled"], true),
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
      enabled: yamlFlag(endpoint["enabled"], true),
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
    if (!yamlFlag(window["enabled"], true)) return void item.refuse("it was switched off", "detail");
    const zone = text(window["timezone"]) || "UTC";
    const [, hours, minutes] = /^(\d{1,2}):(\d\d)$/.exec(text(window["start"])) ?? [];
    const length = duration(window["duration"], 0);
    if (zoneName(zone) === null || hours === undefined || length <= 0)
      return void item.refuse("it has no start, duration or time zone");
    const names = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
    const days = texts(window["every"])
      .map((day) => names.indexOf(day.toLowerCase()))
      .filter((day) => day >= 0);
    const first = firstDay(wallTime("2026-01-01"), (day) => days.length === 0 || days.includes(day.getUTCDay()))!;
    const startsAt = instantOf(first + (Number(hours) * 60 + Number(minutes)) * minuteMs, zone);
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
      return yamlFlag(whole["enabled"], true) ? [whole] : [];
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
      notifyRecovery: alerts.length === 0 || alerts.some((alert) => yamlFlag(alert["send-on-resolved"])),
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
