import * as fs from "node:fs";
import type { Command } from "commander";
import { dayMs } from "@statusmesh/shared/time";
import { codeOrMessage } from "@statusmesh/shared/thrown";
import type { HistoryFile } from "../import/history.ts";
import { isRow, row, rows, text } from "../import/values.ts";
import type { Api, Json } from "../shell/api.ts";
import { connectionOf, connects, type ConnectionOptions } from "../shell/connection.ts";
import { Failure } from "../shell/failure.ts";
import { counted, jsonOption, printJson, tell } from "../shell/print.ts";
import { progressLines } from "../shell/progress.ts";

interface Options extends ConnectionOptions {
  json?: boolean;
}

type Item = HistoryFile["items"][number];

const maxFileBytes = 512 * 1_048_576;
/** Bounds of a request: the server takes 1,000 monitors and 4 MiB. */
const maxTargets = 200;
const maxBytes = 3 * 1_048_576;
/** Oldest day that the server takes. */
const mostDays = 400;

export function define(command: Command): void {
  connects(command)
    .description(
      "Send the history that import --history wrote, after the apply: sums of days, and outages, from before the " +
        "monitors were added. They count in uptime and are marked as imported; nobody is notified.",
    )
    .argument("<file>", "what import --history wrote")
    .addOption(jsonOption())
    .action(sendHistory);
}

async function sendHistory(path: string, options: Options): Promise<void> {
  const history = readHistory(path);
  const api = await connectionOf(options);
  const stored = await monitorsOf(api, history.project);
  const sums = { monitors: 0, days: 0, incidents: 0, left_out: 0, unknown: [] as string[] };
  let batch: Json[] = [];
  let bytes = 0;
  const progress = progressLines("sending");
  const send = async (at: number): Promise<void> => {
    if (batch.length > 0) await api.post("/api/v1/import/history", { items: batch });
    progress.step("history", at, history.items.length);
    batch = [];
    bytes = 0;
  };
  for (const [at, item] of history.items.entries()) {
    const monitor = stored.get(item.monitor);
    if (monitor === undefined) {
      sums.unknown.push(item.monitor);
      continue;
    }
    const { days, incidents } = before(item, monitor.createdAt, api.now());
    sums.left_out += item.days.length + item.incidents.length - days.length - incidents.length;
    if (days.length + incidents.length === 0) continue;
    const next = { target_id: monitor.id, incidents, days };
    const size = Buffer.byteLength(JSON.stringify(next));
    if (batch.length >= maxTargets || bytes + size > maxBytes) await send(at);
    batch.push(next);
    bytes += size;
    sums.monitors++;
    sums.days += days.length;
    sums.incidents += incidents.length;
  }
  await send(history.items.length);
  if (options.json === true) printJson(sums);
  else
    tell(
      `${counted(sums.days, "day")} and ${counted(sums.incidents, "outage")} of ` +
        `${counted(sums.monitors, "monitor")} stored.` +
        (sums.left_out === 0
          ? ""
          : ` ${sums.left_out} left out: not from before the monitor was here, or older than ${mostDays} days.`),
    );
  if (sums.unknown.length > 0)
    throw new Failure(
      `the server has no ${sums.unknown.slice(0, 10).join(", ")}${sums.unknown.length > 10 ? ", …" : ""} ` +
        `in project ${history.project}: apply the file first.`,
    );
}

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
    return { ...value, items } as unknown as HistoryFile;
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw new Failure(`${path} cannot be read (${codeOrMessage(error)}).`);
  }
}
