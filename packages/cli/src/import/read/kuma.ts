import * as fs from "node:fs";
import { codeOrMessage } from "@statusmesh/shared/thrown";
import { Failure, type Progress } from "../../shell/output.ts";
import { dateOf, type Day, dayOf } from "../history.ts";
import type { Change, KumaData } from "../kuma.ts";
import { flag, number, type Row, row, rows, text } from "@statusmesh/shared/foreign/values";
import { zoneName } from "@statusmesh/shared/zoned";
import { SqliteFile } from "./sqlite.ts";

const maxBackupBytes = 256 * 1_048_576;
/** Changes of the state that are kept of a monitor: the newest thousand outages. */
const maxChanges = 2100;

/** Reads `kuma.db` of 1.23 and 2.x, or the JSON backup of 1.x. Throws Failure. */
export function readKuma(path: string, options: { stopped: boolean; history: boolean }, progress: Progress): KumaData {
  return startsAsJson(path) ? readBackup(path) : readDatabase(path, options, progress);
}

function startsAsJson(path: string): boolean {
  try {
    const file = fs.openSync(path, "r");
    const first = Buffer.alloc(64);
    const read = fs.readSync(file, first, 0, 64, 0);
    fs.closeSync(file);
    return /^\ufeff?\s*\{/.test(first.toString("utf8", 0, read));
  } catch (error) {
    throw new Failure(`${path} cannot be read (${codeOrMessage(error)}).`);
  }
}

function readDatabase(path: string, options: { stopped: boolean; history: boolean }, progress: Progress): KumaData {
  const database = new SqliteFile(path, options);
  try {
    if (!database.has("monitor") || !database.columns("monitor").includes("accepted_statuscodes_json"))
      throw new Failure(`${path} has no table of monitors: it is no database of Uptime Kuma 1.23 or 2.x.`);
    const tags = new Map(database.all("tag").map((tag) => [tag["id"], tag["name"]]));
    const settings = new Map(database.all("setting").map((one) => [one["key"], one["value"]]));
    const zone = text(settings.get("serverTimezone")).replaceAll('"', "");
    const past = options.history ? pastOf(database, progress) : { days: new Map(), changes: new Map() };
    const data: KumaData = {
      monitors: database.all("monitor"),
      notifications: database.all("notification"),
      monitor_notification: database.all("monitor_notification"),
      tags: database.all("monitor_tag").map((one) => ({ ...one, name: tags.get(one["tag_id"] ?? null) })),
      status_pages: database.all("status_page"),
      status_page_cname: database.all("status_page_cname"),
      groups: database.all("group"),
      monitor_group: database.all("monitor_group"),
      incidents: database.all("incident"),
      maintenance: database.all("maintenance"),
      monitor_maintenance: database.all("monitor_maintenance"),
      proxies: database.all("proxy"),
      zone: zoneName(zone) !== null ? zone : "UTC",
      ...past,
    };
    database.refuseChanged();
    return data;
  } finally {
    database.close();
  }
}

/** Days of `stat_daily` (2.x), else sums of the heartbeats; changes of the state in both. */
function pastOf(database: SqliteFile, progress: Progress): Pick<KumaData, "days" | "changes"> {
  const days = new Map<number, Day[]>();
  const names = database.columns("stat_daily");
  const [monitor, at, up, down, ping] = ["monitor_id", "timestamp", "up", "down", "ping"].map((name) =>
    names.indexOf(name),
  );
  const addDay = (id: number, day: Day | null): void => {
    if (day === null || !Number.isInteger(id)) return;
    const list = days.get(id) ?? [];
    list.push(day);
    days.set(id, list);
  };
  database.scan("stat_daily", (one) => {
    const sums = { up: one.int(up!), down: one.int(down!), avgMs: one.int(ping!) };
    addDay(one.int(monitor!), dayOf(dateOf(one.int(at!)), sums));
  });
  const beats = new Beats(database.columns("heartbeat"), days.size === 0);
  database.scan(
    "heartbeat",
    (one) => beats.add(one),
    (done, of) => progress.step("heartbeats", done, of),
  );
  progress.end();
  if (days.size === 0) for (const [id, day] of beats.days()) addDay(id, day);
  return { days, changes: beats.changes };
}

type Cursor = Parameters<Parameters<SqliteFile["scan"]>[1]>[0];

/** Sums of a day: up, down, sum of pings, pings. */
const slots = 4;

/** Heartbeats by monitor and day. Fifty million take 23 s of CPU time; nothing grows with them. */
class Beats {
  readonly changes = new Map<number, Change[]>();
  readonly #monitor: number;
  readonly #status: number;
  readonly #time: number;
  readonly #ping: number;
  readonly #important: number;
  readonly #isSummed: boolean;
  readonly #sums = new Map<number, Map<number, Float64Array>>();
  /** The last row's monitor and day, which the next one of the same monitor shares as a rule. */
  readonly #last = new Map<number, { day: number; sums: Float64Array }>();

  constructor(columns: readonly string[], isSummed: boolean) {
    const at = (name: string): number => columns.indexOf(name);
    [this.#monitor, this.#status, this.#time] = [at("monitor_id"), at("status"), at("time")];
    [this.#ping, this.#important] = [at("ping"), at("important")];
    this.#isSummed = isSummed;
  }

  add(one: Cursor): void {
    const status = one.int(this.#status);
    const isChange = one.int(this.#important) === 1;
    if (!isChange && !this.#isSummed) return;
    const monitor = one.int(this.#monitor);
    if (isChange) this.#addChange(monitor, status, one);
    // Maintenance is no evidence; pending counts as down, as in 2.x.
    if (!this.#isSummed || status === 3) return;
    const day = one.day(this.#time);
    if (Number.isNaN(day) || Number.isNaN(monitor)) return;
    const sums = this.#sumsOf(monitor, day);
    if (status === 1) {
      sums[0]!++;
      const ping = one.int(this.#ping);
      if (ping >= 0) {
        sums[2]! += ping;
        sums[3]!++;
      }
    } else sums[1]!++;
  }

  *days(): Generator<[monitor: number, day: Day | null]> {
    for (const [monitor, days] of this.#sums)
      for (const [day, [up = 0, down = 0, pings = 0, pinged = 0]] of days) {
        const date = `${Math.floor(day / 10_000)}-${two(Math.floor(day / 100) % 100)}-${two(day % 100)}`;
        yield [monitor, dayOf(date, { up, down, avgMs: pings / pinged })];
      }
  }

  #sumsOf(monitor: number, day: number): Float64Array {
    const last = this.#last.get(monitor);
    if (last?.day === day) return last.sums;
    let days = this.#sums.get(monitor);
    if (days === undefined) this.#sums.set(monitor, (days = new Map()));
    let sums = days.get(day);
    if (sums === undefined) days.set(day, (sums = new Float64Array(slots)));
    // Four years of days: more is no history.
    if (days.size > 1500) days.delete(days.keys().next().value!);
    this.#last.set(monitor, { day, sums });
    return sums;
  }

  #addChange(monitor: number, status: number, one: Cursor): void {
    const at = timeOf(one.value(this.#time));
    if (at === null || !(status >= 0 && status <= 3)) return;
    const list = this.changes.get(monitor) ?? [];
    list.push({ status, at });
    if (list.length > 2 * maxChanges) list.splice(0, maxChanges);
    this.changes.set(monitor, list);
  }
}

const two = (value: number): string => String(value).padStart(2, "0");

/** `2026-11-23 13:26:38.786` in UTC as RFC 3339. */
export function timeOf(value: unknown): string | null {
  const at = Date.parse(`${text(value).slice(0, 23).replace(" ", "T")}Z`);
  return Number.isNaN(at) ? null : new Date(at).toISOString();
}

function readBackup(path: string): KumaData {
  if (fs.statSync(path).size > maxBackupBytes) throw new Failure(`${path} has more than 256 MiB.`);
  let backup: Row;
  try {
    backup = row(JSON.parse(fs.readFileSync(path, "utf8").replace(/^\ufeff/, "")));
  } catch (error) {
    throw new Failure(`${path} is no JSON (${codeOrMessage(error)}).`);
  }
  if (!Array.isArray(backup["monitorList"]))
    throw new Failure(`${path} has no monitorList: it is no backup of Uptime Kuma.`);
  return { ...kumaLists(rows(backup["monitorList"]), rows(backup["notificationList"])), ...emptyKuma };
}

/** What monitors and notifications alone do not have. */
export const emptyKuma: Omit<KumaData, "monitors" | "notifications" | "monitor_notification" | "tags"> = {
  status_pages: [],
  status_page_cname: [],
  groups: [],
  monitor_group: [],
  incidents: [],
  maintenance: [],
  monitor_maintenance: [],
  proxies: [],
  zone: "UTC",
  days: new Map(),
  changes: new Map(),
};

/** Monitors and notifications as `Monitor.toJSON()` writes them, by the names of columns. */
export function kumaLists(
  monitors: readonly Row[],
  notifications: readonly Row[],
): Pick<KumaData, "monitors" | "notifications" | "monitor_notification" | "tags"> {
  return {
    monitors: monitors.map(byColumns),
    notifications: notifications.map(byColumns),
    monitor_notification: monitors.flatMap((monitor) =>
      Object.entries(row(monitor["notificationIDList"]))
        .filter(([, isOn]) => flag(isOn))
        .map(([id]) => ({ monitor_id: monitor["id"], notification_id: number(id, NaN) })),
    ),
    tags: monitors.flatMap((monitor) => rows(monitor["tags"]).map((tag) => ({ ...tag, monitor_id: monitor["id"] }))),
  };
}

/** `ignoreTls` as `ignore_tls`. */
export function byColumns(object: Row): Row {
  const columns = Object.entries(object).map(([name, value]) => [
    name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    value,
  ]);
  return { ...Object.fromEntries(columns), accepted_statuscodes_json: object["accepted_statuscodes"] };
}
