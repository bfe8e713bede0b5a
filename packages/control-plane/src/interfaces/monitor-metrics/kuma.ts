import { detailsOf, isCheckType } from "@statusmesh/shared/checks";
import { dayMs } from "@statusmesh/shared/time";
import type { YearOf } from "../../monitoring/results/history/service.ts";
import { version } from "../../platform/program.ts";
import { takeTurns } from "../../platform/process/turns.ts";
import { escaped, type MeasuredMonitor, mostTags } from "./exposition.ts";

/*
 * Metrics in the words of Uptime Kuma (server/prometheus.js there), for clients that read nothing else.
 */

/** A monitor with what Kuma's labels say. */
export interface KumaMonitor extends MeasuredMonitor {
  number: number;
  url: string | null;
  host: string | null;
  port: string | null;
  maintained: boolean;
  /** Null before the first summed hour. */
  year: YearOf | null;
}

/** Kuma's names of kinds that it knows by another name. */
const types = new Map([
  ["tcp", "port"],
  ["heartbeat", "push"],
  ["container", "docker"],
  ["grpc", "grpc-keyword"],
  ["websocket", "websocket-upgrade"],
]);

/** An address without user and query, which may have secrets. */
function plainUrl(url: string | null): string {
  if (url === null || !URL.canParse(url)) return "null";
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}

/** Labels that are no tags. */
const ownLabels: ReadonlySet<string> = new Set([
  "monitor_id",
  "monitor_name",
  "monitor_type",
  "monitor_url",
  "monitor_hostname",
  "monitor_port",
  "window",
]);

/**
 * Tags as labels. As in Kuma a tag `name:value` is the label `name` without the characters that labels cannot have, and
 * a tag without a value is an empty one.
 */
function tagsOf(tags: readonly string[]): [label: string, value: string][] {
  const values = new Map<string, string[]>();
  for (const tag of tags.toSorted()) {
    const [, name, value = ""] = /^([^:]*):?(.*)$/s.exec(tag)!;
    const label = name!.replaceAll(/\W/g, "").replace(/^(?:\d|__)+/, "");
    if (label === "" || ownLabels.has(label)) continue;
    const known = values.get(label);
    if (known !== undefined) known.push(value);
    else if (values.size < mostTags) values.set(label, [value]);
  }
  return [...values].map(([label, of]): [string, string] => [label, of.sort().join()]).sort();
}

function labelsOf({ number, name, kind, url, host, port, tags }: KumaMonitor): string {
  const own = {
    monitor_id: String(number),
    monitor_name: name,
    monitor_type: types.get(kind) ?? kind,
    monitor_url: plainUrl(url),
    monitor_hostname: host ?? "null",
    monitor_port: port ?? "null",
  };
  return [...tagsOf(tags), ...Object.entries(own)].map(([label, value]) => `${label}="${escaped(value)}"`).join(",");
}

/** Kuma's numbers: 1 up, 0 down, 2 pending, 3 maintenance. */
function statusOf({ state, maintained, has_incident: isOpen }: KumaMonitor): number {
  if (maintained) return 3;
  if (isOpen) return 0;
  if (state === "up" || state === "degraded") return 1;
  return state === "unknown" ? 2 : 0;
}

/** Duration of the newest run, ms; null without one. */
const responseTime = ({ runs }: KumaMonitor): number | null =>
  runs.toSorted((a, b) => b.timestamp.getTime() - a.timestamp.getTime())[0]?.total_ms ?? null;

/** Ms until the certificate expires; null without one. */
function certMs({ kind, expires_at: expires }: KumaMonitor, now: number): number | null {
  const what = isCheckType(kind) ? (detailsOf(kind)?.expires ?? "certificate") : null;
  return expires === null || what !== "certificate" ? null : expires.getTime() - now;
}

interface Family {
  name: string;
  help: string;
  /** The value, or one by window. */
  value(monitor: KumaMonitor, now: number): number | null | Readonly<Record<string, number | null>>;
}

const families: readonly Family[] = [
  {
    name: "monitor_cert_days_remaining",
    help: "The number of days remaining until the certificate expires",
    value: (monitor, now) => {
      const left = certMs(monitor, now);
      return left === null ? null : Math.floor(left / dayMs);
    },
  },
  {
    name: "monitor_cert_is_valid",
    help: "Is the certificate still valid? (1 = Yes, 0= No)",
    value: (monitor, now) => {
      const left = certMs(monitor, now);
      return left === null ? null : Number(left > 0);
    },
  },
  {
    name: "monitor_uptime_ratio",
    help: "Uptime ratio calculated over sliding window specified by the 'window' label. (0.0 - 1.0)",
    value: ({ uptime, year }) => ({
      "1d": uptime?.["24h"] ?? null,
      "30d": uptime?.["30d"] ?? null,
      "365d": year?.uptime ?? uptime?.["30d"] ?? null,
    }),
  },
  {
    name: "monitor_response_time_seconds",
    help: "Average response time in seconds calculated over sliding window specified by the 'window' label",
    value: ({ year }) => year?.responseSecs ?? null,
  },
  { name: "monitor_response_time", help: "Monitor Response Time (ms)", value: responseTime },
  {
    name: "monitor_status",
    help: "Monitor Status (1 = UP, 0= DOWN, 2= PENDING, 3= MAINTENANCE)",
    value: statusOf,
  },
];

/** The text of all monitors but paused ones, written in slices of the event loop. `now` is Unix ms. */
export async function kumaExposition(monitors: readonly KumaMonitor[], now: number): Promise<Buffer[]> {
  const turns = await takeTurns();
  const shown: (readonly [labels: string, monitor: KumaMonitor])[] = [];
  for (const monitor of monitors) {
    if (turns.over()) await turns.next();
    if (monitor.state !== "paused") shown.push([labelsOf(monitor), monitor]);
  }
  const chunks = [Buffer.from(appVersion())];
  for (const { name, help, value } of families) {
    let text = `# HELP ${name} ${help}\n# TYPE ${name} gauge\n`;
    for (const [labels, monitor] of shown) {
      if (turns.over()) await turns.next();
      const found = value(monitor, now);
      const samples = typeof found === "object" && found !== null ? Object.entries(found) : [["", found] as const];
      for (const [window, sample] of samples)
        if (sample !== null) text += `${name}{${labels}${window && `,window="${window}"`}} ${rounded(sample)}\n`;
    }
    chunks.push(Buffer.from(text));
  }
  return chunks;
}

const rounded = (value: number): number => Math.round(value * 1e6) / 1e6;

/** That of StatusMesh. */
function appVersion(): string {
  const [major = "", minor = "", patch = ""] = version.split(".");
  const labels = Object.entries({ version, major, minor, patch }).map(([label, value]) => `${label}="${value}"`);
  return `# HELP app_version The service version by package.json\n# TYPE app_version gauge\napp_version{${labels}} 1\n`;
}
