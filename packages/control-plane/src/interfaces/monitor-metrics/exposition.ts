import { detailsOf, isCheckType } from "@statusmesh/shared/checks";
import { type NewestRun, type UptimeWindow, uptimeWindows } from "../../monitoring/results/history/service.ts";
import { takeTurns } from "../../platform/process/turns.ts";

/*
 * Metrics of monitors in the text formats of Prometheus 0.0.4 and OpenMetrics 1.0: both write gauges alike.
 */

/** A monitor with all that its metrics say. */
export interface MeasuredMonitor {
  id: string;
  name: string;
  kind: string;
  tags: readonly string[];
  state: string;
  has_incident: boolean;
  flaps: boolean;
  expires_at: Date | null;
  /** The newest run in each region. */
  runs: readonly NewestRun[];
  /** Shares from 0 to 1; null without a run. */
  uptime: Readonly<Record<UptimeWindow, number | null>> | null;
}

/** Labels beside those of the monitor, and the value. */
type Sample = readonly [labels: string, value: number];

interface Family {
  name: string;
  help: string;
  samples(monitor: MeasuredMonitor): Sample[];
}

const states = ["up", "degraded", "down", "error", "unknown", "paused"] as const;
const phases = ["dns", "connect", "tls", "ttfb", "total"] as const;

const expiry = ({ kind, expires_at }: MeasuredMonitor, what: "certificate" | "domain"): Sample[] => {
  const expires = (isCheckType(kind) ? detailsOf(kind)?.expires : undefined) ?? "certificate";
  return expires_at === null || expires !== what ? [] : [["", expires_at.getTime() / 1000]];
};

const families: readonly Family[] = [
  {
    name: "up",
    help:
      "1 while the monitor is up or degraded, 0 while it is down or an incident is open; absent while it is unknown " +
      "or paused",
    samples: ({ state, has_incident: isOpen }) =>
      state === "paused" || (state === "unknown" && !isOpen)
        ? []
        : [["", !isOpen && (state === "up" || state === "degraded") ? 1 : 0]],
  },
  {
    name: "status",
    help: "1 for the state of the monitor, 0 for the others",
    samples: ({ state }) => states.map((one) => [`status="${one}"`, one === state ? 1 : 0]),
  },
  {
    name: "latency_seconds",
    help: "Duration of the newest run in each region, in total and by phase",
    samples: ({ runs }) =>
      runs.flatMap((run) =>
        phases.flatMap((phase): Sample[] => {
          const ms = run[`${phase}_ms`];
          return ms === null ? [] : [[`region="${escaped(run.region)}",phase="${phase}"`, seconds(ms)]];
        }),
      ),
  },
  {
    name: "uptime_ratio",
    help: "Share of the runs that were up or degraded, by summed hours; of heartbeats the share of the time",
    samples: ({ uptime }) =>
      uptimeWindows.flatMap((window): Sample[] => {
        const share = uptime?.[window] ?? null;
        return share === null ? [] : [[`window="${window}"`, share]];
      }),
  },
  {
    name: "cert_expiry_timestamp_seconds",
    help: "When the certificate that was seen last expires",
    samples: (monitor) => expiry(monitor, "certificate"),
  },
  {
    name: "domain_expiry_timestamp_seconds",
    help: "When the registration of the domain ends",
    samples: (monitor) => expiry(monitor, "domain"),
  },
  {
    name: "incident_open",
    help: "1 while the monitor has an open incident",
    samples: ({ has_incident: open }) => [["", open ? 1 : 0]],
  },
  {
    name: "flapping",
    help: "1 while the monitor flaps",
    samples: ({ flaps }) => [["", flaps ? 1 : 0]],
  },
  {
    name: "last_check_timestamp_seconds",
    help: "When the newest run in each region began",
    samples: ({ runs }) =>
      runs.map(({ region, timestamp }) => [`region="${escaped(region)}"`, timestamp.getTime() / 1000]),
  },
];

/** Milliseconds have six decimals at most: without rounding single precision shows. */
const seconds = (ms: number): number => Math.round(ms * 1000) / 1_000_000;

export const escaped = (text: string): string =>
  text.replace(/[\\"\n]/g, (char) => (char === "\n" ? "\\n" : `\\${char}`));

/** Labels of tags at most: each adds to every sample. */
export const mostTags = 20;

/**
 * Labels of a monitor. A tag `name:value` is the label `tag_name`; the values of tags whose names become the same label
 * are joined by commas.
 */
export function labelsOf({ id, name, kind, tags }: Pick<MeasuredMonitor, "id" | "name" | "kind" | "tags">): string {
  const values = new Map<string, string[]>();
  for (const tag of tags.toSorted()) {
    const [, key, value] = /^([^:]+):(.+)$/s.exec(tag) ?? [];
    if (key === undefined || value === undefined) continue;
    const label = `tag_${key.replaceAll(/[^a-zA-Z0-9_]/g, "_")}`;
    const own = values.get(label);
    if (own !== undefined) own.push(value);
    else if (values.size < mostTags) values.set(label, [value]);
  }
  const own = [["id", id], ["name", name], ["kind", kind], ...[...values].map(([label, of]) => [label, of.join()])];
  return own.map(([label, value]) => `${label}="${escaped(value!)}"`).join(",");
}

/** Characters of a chunk. */
const chunkLength = 65_536;

/** The text without its end, in chunks, written in slices of the event loop. */
export async function exposition(monitors: readonly MeasuredMonitor[]): Promise<Buffer[]> {
  const turns = await takeTurns();
  const labels: string[] = [];
  for (const monitor of monitors) {
    if (turns.over()) await turns.next();
    labels.push(labelsOf(monitor));
  }
  const chunks: Buffer[] = [];
  let text = "";
  for (const { name, help, samples } of families) {
    text += `# HELP statusmesh_monitor_${name} ${help}\n# TYPE statusmesh_monitor_${name} gauge\n`;
    for (const [at, monitor] of monitors.entries()) {
      if (turns.over()) await turns.next();
      for (const [more, value] of samples(monitor))
        text += `statusmesh_monitor_${name}{${labels[at]!}${more === "" ? "" : ","}${more}} ${value}\n`;
      if (text.length < chunkLength) continue;
      chunks.push(Buffer.from(text));
      text = "";
    }
  }
  chunks.push(Buffer.from(text));
  return chunks;
}
