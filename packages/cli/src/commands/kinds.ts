import { Argument, InvalidArgumentError } from "commander";
import type { Json } from "@statusmesh/shared/json";

/** What `list` and `get` know: the list of the API, and the columns of a row. */
export interface Kind {
  readonly path: string;
  readonly columns: Readonly<Record<string, (item: Json) => unknown>>;
}

const field =
  (name: string) =>
  (item: Json): unknown =>
    item[name];

const id = field("id");
const name = field("name");

export const kinds: Readonly<Record<string, Kind>> = {
  monitors: {
    path: "/api/v1/targets",
    columns: {
      status: (item) => (item["enabled"] === false ? "paused" : item["status"]),
      name,
      kind: (item) => (item["check"] as Json)["type"],
      tags: field("tags"),
      id,
    },
  },
  channels: {
    path: "/api/v1/notification-channels",
    columns: { name, kind: (item) => (item["config"] as Json | undefined)?.["type"], enabled: field("enabled"), id },
  },
  pages: { path: "/api/v1/status-pages", columns: { name, slug: field("slug"), id } },
  maintenance: {
    path: "/api/v1/maintenance",
    columns: {
      state: field("state"),
      title: field("title"),
      starts: field("starts_at"),
      ends: field("ends_at"),
      id,
    },
  },
  incidents: {
    path: "/api/v1/incidents",
    columns: {
      state: field("state"),
      severity: field("severity"),
      monitor: field("monitor_name"),
      started: field("started_at"),
      ended: field("ended_at"),
      acknowledged: field("acknowledged_at"),
      id,
    },
  },
};

/** A kind by its name, also in the singular: `monitor`. */
export const kindArgument = (text: string): Argument => {
  const names = Object.keys(kinds);
  return new Argument(text, "what").choices(names).argParser((wanted: string) => {
    const found = names.find((name) => name === wanted || name === `${wanted}s`);
    if (found === undefined) throw new InvalidArgumentError(`Allowed choices are ${names.join(", ")}.`);
    return found;
  });
};
