import { reservedRegions } from "@statusmesh/shared/checks";
import { getOrMake } from "../../../platform/caches.ts";
import type { IncidentEvent } from "./event-schema.ts";
import { parentInWords, reasonWords } from "../explanation/words.ts";
import type { Delivery } from "../../deliveries/schema.ts";
import { kindLabel } from "../../channels/config/service.ts";
import { list, plural } from "../../../platform/html/format.ts";
import type { Icon } from "../../../platform/html/icons.ts";

export interface TimelineEntry {
  /** RFC 3339. `since` is that of the oldest of `flips`, else the same. */
  at: string;
  since: string;
  tone: "up" | "degraded" | "down" | "maintenance" | "unknown";
  title: string;
  /** Whether members alone see it. */
  internal: boolean;
  /** Name of the person or the program; null for StatusMesh itself. */
  by: string | null;
  /** The kind of channel where `by` is one; else null. */
  from: string | null;
  text: string | null;
  /** True for a text with Markdown. */
  isMarkdown: boolean;
  icon: Icon;
  /** Changes between failing and passing that this entry stands for, newest first; none for an entry of its own. */
  flips: readonly TimelineEntry[];
}

type Words = Pick<TimelineEntry, "tone" | "title" | "text"> & { isMarkdown?: boolean };
/** Icons of entries that are no change of state. */
const icons: Partial<Record<IncidentEvent["kind"], Icon>> = {
  acknowledged: "done",
  noted: "note",
  updated: "pages",
  severity_changed: "edit",
  notification_retried: "channels",
};
/** Entries of a flapping monitor that one line stands for, at least. */
const leastFlips = 4;
type Detail = Readonly<Record<string, unknown>>;

const textOf = (value: unknown): string | null => (typeof value === "string" && value !== "" ? value : null);
export const textsOf = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : []);

/** Without the regions that stand for heartbeats and groups, which no agent probes from. */
const probed = (regions: readonly string[]): string[] => regions.filter((id) => !reservedRegions.includes(id));

const closings: Readonly<Record<string, string>> = {
  engine: "Closed by passing checks",
  person: "Closed manually",
  pause: "Closed by pausing the monitor",
};

const phases: Readonly<Record<string, string>> = {
  investigating: "Investigating",
  identified: "Identified",
  monitoring: "Monitoring",
  resolved: "Resolved",
  postmortem: "Post-mortem",
};

/** `detail` has the names of regions. */
function outage(title: string, detail: Detail): Words {
  const regions = textsOf(detail["regions_down"]);
  return {
    tone: detail["severity"] === "minor" ? "degraded" : "down",
    title: regions.length === 0 ? title : `${title} in ${list(regions)}`,
    text: textOf(detail["error"]),
  };
}

const plain = (title: string, text: string | null = null): Words => ({ tone: "unknown", title, text });

const words: Readonly<Record<IncidentEvent["kind"], (detail: Detail) => Words>> = {
  opened: (detail) => outage("Opened", detail),
  reopened: (detail) => outage("Reopened", detail),
  escalated: (detail) => outage(`Escalated to ${String(detail["severity"])}`, detail),
  acknowledged: (detail) => plain("Acknowledged", textOf(detail["person"])),
  unacknowledged: () => plain("Acknowledgement undone"),
  resolved: (detail) => ({ tone: "up", title: closings[String(detail["closed_by"])] ?? "Closed", text: null }),
  noted: (detail) => plain("Internal note", textOf(detail["message"])),
  notification_retried: (detail) => plain("Notification sent again", textOf(detail["channel_name"])),
  child_held: ({ monitor_name: name, reason = name }) =>
    plain(`Opening held: ${parentInWords(String(reason))}, which it depends on`),
  retracted: () => plain("Retracted: late results showed no outage"),
  updated: (detail) =>
    textOf(detail["phase"]) === null
      ? plain("Public text changed", textOf(detail["public_title"]))
      : { ...plain(`Public update: ${phases[String(detail["phase"])]}`, textOf(detail["message"])), isMarkdown: true },
  severity_changed: ({ after, pinned }) =>
    plain(pinned === true ? `Severity set to ${String(after)}` : `Severity follows checks again: ${String(after)}`),
  maintenance_started: ({ title }) => ({
    tone: "maintenance",
    title: `Maintenance started: ${String(title)}`,
    text: "Notifications are held until it ends.",
  }),
  flapping_started: ({ changes }) => ({
    tone: "degraded",
    title: `Flapping: ${String(changes)} changes`,
    text: "Changes are held until it is stable or stays down.",
  }),
  flapping_ended: ({ outcome }) =>
    outcome === "up"
      ? { tone: "up", title: "Stable: up", text: null }
      : { tone: "down", title: "Stays down, was flapping", text: null },
  maintenance_ended: () => ({ tone: "maintenance", title: "Maintenance ended", text: null }),
};

const states = {
  delivered: "delivered",
  dead: "failed",
  pending: "pending",
  held: "held",
  dropped: "not sent",
} as const;

/** Events and deliveries as one list, newest first. Deliveries of one notice are one entry. */
export function timelineOf(
  events: readonly IncidentEvent[],
  deliveries: readonly Delivery[],
  regionName: (id: string) => string,
): TimelineEntry[] {
  const entries: (Omit<TimelineEntry, "icon"> & { icon?: Icon; isFlip: boolean })[] = events.map(
    ({ at, kind, actor, detail }) => ({
      at,
      since: at,
      internal: kind === "noted",
      isMarkdown: false,
      by: actor.type === "engine" ? null : (actor.name ?? "a deleted user"),
      from: actor.type === "channel" ? kindLabel(String((detail as Detail)["channel_type"])) : null,
      flips: [],
      isFlip: kind === "reopened" || (kind === "resolved" && actor.type === "engine"),
      ...(icons[kind] === undefined ? {} : { icon: icons[kind] }),
      ...words[kind]({ ...detail, regions_down: probed(textsOf((detail as Detail)["regions_down"])).map(regionName) }),
    }),
  );
  const notices = new Map<string, { at: string; reason: Delivery["reason"]; sent: string[] }>();
  for (const { created_at, reason, channel_name, state } of deliveries) {
    const key = `${reason} ${created_at.slice(0, 19)}`;
    const { sent } = getOrMake(notices, key, () => ({ at: created_at, reason, sent: [] }));
    sent.push(`${channel_name}: ${states[state]}`);
  }
  for (const { at, reason, sent } of notices.values())
    entries.push({
      at,
      since: at,
      internal: false,
      isMarkdown: false,
      by: null,
      from: null,
      flips: [],
      isFlip: reason === "reopened" || reason === "resolved",
      icon: "channels",
      ...plain(`Notification of the ${reasonWords[reason]}`, sent.join(" · ")),
    });
  // Stable: of the same time, the notification follows its event.
  const sorted = entries.sort((a, b) => Date.parse(a.at) - Date.parse(b.at)).reverse();
  return folded(
    sorted.map((entry) => ({ ...entry, icon: entry.icon ?? (entry.tone === "unknown" ? "clock" : entry.tone) })),
  );
}

/** The entries with changes that follow each other as one. */
function folded(entries: readonly (TimelineEntry & { isFlip: boolean })[]): TimelineEntry[] {
  const found: TimelineEntry[] = [];
  for (let from = 0, to: number; from < entries.length; from = to) {
    for (to = from; entries[to]?.isFlip === true; to++);
    const flips = entries.slice(from, to).map(({ isFlip: _, ...entry }) => entry);
    if (flips.length < leastFlips) {
      to = Math.max(to, from + 1);
      found.push(...entries.slice(from, to).map(({ isFlip: _, ...entry }) => entry));
      continue;
    }
    const [newest, oldest] = [flips[0]!, flips.at(-1)!];
    const changes = flips.filter(({ icon }) => icon !== "channels").length;
    found.push({
      ...newest,
      since: oldest.at,
      tone: "degraded",
      title: `${plural(changes, "change")} of state`,
      text: null,
      icon: "swap",
      flips,
    });
  }
  return found;
}
