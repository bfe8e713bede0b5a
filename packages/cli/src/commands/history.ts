import * as fs from "node:fs";
import type { Command } from "commander";
import { tame } from "@statusmesh/shared/shell/terminal";
import { dayMs } from "@statusmesh/shared/time";
import { codeOrMessage } from "@statusmesh/shared/thrown";
import type { HistoryFile } from "../import/history.ts";
import { isRow, row, rows, text } from "@statusmesh/shared/foreign/values";
import type { Json } from "@statusmesh/shared/json";
import type { Api } from "../shell/api.ts";
import { connectionOf, connects, type ConnectionOptions } from "../shell/connection.ts";
import { counted, Failure, printJson, progressLines, tell } from "../shell/output.ts";
import { jsonOption } from "../shell/options.ts";

interface Options extends ConnectionOptions {
  json?: boolean;
}

type Item = HistoryFile["items"][number];

const maxFileBytes = 512 * 1_048_576;
/** Bounds of a request: the server takes 10,000 days and incidents, 10,000 subscribers and 4 MiB. */
const maxEntries = 10_000;
const maxSubscribers = 5000;
const maxBytes = 3 * 1_048_576;
/** Oldest day that the server takes. */
const mostDays = 400;

export function define(command: Command): void {
  connects(command)
    .description(
      "Send the history that import --history wrote, after the apply: sums of days, and outages, from before the " +
        "monitors were added. They count in uptime and are marked as imported; nobody is notified. Subscribers " +
        "become those of the imported page, and confirm nothing again.",
    )
    .argument("<file>", "what import --history wrote")
    .addOption(jsonOption())
    .action(sendHistory);
}

async function sendHistory(path: string, options: Options): Promise<void> {
  const history = readHistory(path);
  const api = await connectionOf(options);
  const sums = { monitors: 0, days: 0, incidents: 0, left_out: 0, unknown: [] as string[] };
  await sendPast(api, history, sums);
  const subscribers = await sendSubscribers(api, history, sums.unknown);
  if (options.json === true) printJson({ ...sums, ...(history.subscribers === undefined ? {} : { subscribers }) });
  else {
    if (history.items.length > 0) tell(pastText(sums));
    if (history.subscribers !== undefined) tell(subscribersText(subscribers));
  }
  const { unknown } = sums;
  if (unknown.length > 0)
    throw new Failure(
      `the server has no ${unknown.slice(0, 10).join(", ")}${unknown.length > 10 ? ", …" : ""} ` +
        `in project ${history.project}: apply the file first.`,
    );
}

interface Sums {
  monitors: number;
  days: number;
  incidents: number;
  left_out: number;
  /** Keys of monitors and pages that the server does not have. */
  unknown: string[];
}

const pastText = ({ monitors, days, incidents, left_out: leftOut }: Sums): string =>
  `${counted(days, "day")} and ${counted(incidents, "outage")} of ${counted(monitors, "monitor")} stored.` +
  (leftOut === 0 ? "" : ` ${leftOut} left out: not from before the monitor was here, or older than ${mostDays} days.`);

async function sendPast(api: Api, { project, items }: HistoryFile, sums: Sums): Promise<void> {
  const stored = items.length === 0 ? new Map() : await monitorsOf(api, project);
  const sent = items.flatMap((item) => {
    const monitor = stored.get(item.monitor);
    if (monitor === undefined) {
      sums.unknown.push(item.monitor);
      return [];
    }
    const { days, incidents } = before(item, monitor.createdAt, api.now());
    sums.left_out += item.days.length + item.incidents.length - days.length - incidents.length;
    if (days.length + incidents.length === 0) return [];
    sums.monitors++;
    sums.days += days.length;
    sums.incidents += incidents.length;
    return [{ target_id: monitor.id, incidents, days }];
  });
  const entriesOf = ({ days, incidents }: (typeof sent)[number]): number => days.length + incidents.length;
  await inRequests(sent, { most: maxEntries, entriesOf }, async (some) => {
    await api.post("/api/v1/import/history", { items: some });
  });
}

/** Sends items in requests that the server takes: of at most `most` entries. No item has more. */
async function inRequests<T>(
  items: readonly T[],
  { most, entriesOf = () => 1 }: { most: number; entriesOf?: (item: T) => number },
  send: (some: T[]) => Promise<void>,
): Promise<void> {
  const progress = progressLines("sending");
  let some: T[] = [];
  let bytes = 0;
  let entries = 0;
  for (const [at, item] of items.entries()) {
    const size = Buffer.byteLength(JSON.stringify(item));
    const own = entriesOf(item);
    if (some.length > 0 && (entries + own > most || bytes + size > maxBytes)) {
      await send(some);
      progress.step("history", at, items.length);
      some = [];
      bytes = 0;
      entries = 0;
    }
    some.push(item);
    bytes += size;
    entries += own;
  }
  if (some.length > 0) await send(some);
}

/** Subscribers that were added, and how many were not for each reason. */
interface SubscriberSums {
  imported: number;
  skipped: Record<string, number>;
}

function subscribersText({ imported, skipped }: SubscriberSums): string {
  const reasons = Object.entries(skipped).map(([reason, count]) => `${count} skipped: ${tame(reason)}.`);
  return [`${counted(imported, "subscriber")} added.`, ...reasons].join(" ");
}

async function sendSubscribers(api: Api, history: HistoryFile, unknown: string[]): Promise<SubscriberSums> {
  const sums: SubscriberSums = { imported: 0, skipped: {} };
  const skip = (reason: string): void => void (sums.skipped[reason] = (sums.skipped[reason] ?? 0) + 1);
  const { subscribers = [], project } = history;
  const pages = subscribers.length === 0 ? [] : await api.all("/api/v1/status-pages");
  for (const { page, source, items } of subscribers) {
    const id = pages.find(({ managed_by: by }) => row(by)["project"] === project && row(by)["key"] === page)?.["id"];
    if (id === undefined) {
      unknown.push(page);
      continue;
    }
    const base = `/api/v1/status-pages/${text(id)}`;
    const known = new Map(
      (await api.all(`${base}/components`)).map((one) => [
        placeKey(one["public_name"], one["public_group"]),
        one["id"],
      ]),
    );
    const sent = items.flatMap(({ components, ...address }): Json[] => {
      if (components === null) return [address];
      const ids = components.flatMap(({ name, group }) => known.get(placeKey(name, group)) ?? []);
      // Without component_ids the subscription would cover all components.
      if (ids.length > 0) return [{ ...address, component_ids: ids }];
      skip("the page has none of its components");
      return [];
    });
    await inRequests(sent, { most: maxSubscribers }, async (some) => {
      const reply = await api.post(`${base}/subscribers/import`, { items: some, confirmed: true, source });
      sums.imported += reply["imported"] as number;
      for (const { reason } of reply["skipped"] as { reason: string }[]) skip(reason);
    });
  }
  return sums;
}

const placeKey = (name: unknown, group: unknown): string => JSON.stringify([text(name), text(group)]);

/** What ends before the monitor was made here: its own results begin later. */
function before({ days, incidents }: Item, createdAt: number, now: number): Pick<Item, "days" | "incidents"> {
  const oldest = now - mostDays * dayMs;
  return {
    days: days.filter(({ date }) => Date.parse(date) + dayMs <= createdAt && Date.parse(date) > oldest),
    incidents: incidents.filter(({ ended_at }) => Date.parse(ended_at) <= createdAt && Date.parse(ended_at) > oldest),
  };
}

/** The monitors of a project by key. */
async function monitorsOf(api: Api, project: string): Promise<Map<string, { id: string; createdAt: number }>> {
  const found = new Map<string, { id: string; createdAt: number }>();
  for (const target of await api.all("/api/v1/targets")) {
    const managed = row(target["managed_by"]);
    if (managed["project"] === project)
      found.set(text(managed["key"]), { id: text(target["id"]), createdAt: Date.parse(text(target["created_at"])) });
  }
  return found;
}

function readHistory(path: string): HistoryFile {
  try {
    if (fs.statSync(path).size > maxFileBytes) throw new Failure(`${path} has more than 512 MiB.`);
    const value: unknown = JSON.parse(fs.readFileSync(path, "utf8"));
    if (
      !isRow(value) ||
      value["version"] !== 1 ||
      typeof value["project"] !== "string" ||
      !Array.isArray(value["items"])
    )
      throw new Failure(`${path} is not what smctl import --history writes.`);
    const items = rows(value["items"]).map((item) => ({
      monitor: text(item["monitor"]),
      days: rows(item["days"]),
      incidents: rows(item["incidents"]),
    }));
    const subscribers = rows(value["subscribers"]).map((one) => ({ ...one, items: rows(one["items"]) }));
    return { ...value, items, ...(subscribers.length === 0 ? {} : { subscribers }) } as unknown as HistoryFile;
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw new Failure(`${path} cannot be read (${codeOrMessage(error)}).`);
  }
}
