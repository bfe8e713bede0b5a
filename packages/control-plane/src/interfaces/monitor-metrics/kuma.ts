import { detailsOf, isCheckType } from "@statusmesh/shared/checks";
import { dayMs } from "@statusmesh/shared/time";
import { takeTurns } from "../../platform/process/turns.ts";
import { escaped, type MeasuredMonitor } from "./exposition.ts";

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
}

/** Kuma's names of kinds that it knows by another name. */
const types = new Map([
  ["tcp", "port"],
  ["heartbeat", "push"],
  ["grpc", "grpc-keyword"],
  ["websocket", "websocket-upgrade"],
]);

/** An address without user and query, which may have secrets. */
function plainUrl(url: string | null): string {
  if (url === null || !URL.canParse(url)) return "null";
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${host}${pathname}`;
}

function labelsOf({ number, name, kind, url, host, port }: KumaMonitor): string {
  const own = {
    monitor_id: String(number),
    monitor_name: name,
    monitor_type: types.get(kind) ?? kind,
    monitor_url: plainUrl(url),
    monitor_hostname: host ?? "null",
    monitor_port: port ?? "null",
  };
  return Object.entries(own)
    .map(([label, value]) => `${label}="${escaped(value)}"`)
    .join(",");
}

/** Kuma's numbers: 1 up, 0 down, 2 pending, 3 maintenance. */
function statusOf({ state, maintained }: KumaMonitor): number {
  if (maintained) return 3;
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

const families: readonly { name: string; help: string; value(monitor: KumaMonitor, now: number): number | null }[] = [
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
  const chunks: Buffer[] = [];
  for (const { name, help, value } of families) {
    let text = `# HELP ${name} ${help}\n# TYPE ${name} gauge\n`;
    for (const [labels, monitor] of shown) {
      if (turns.over()) await turns.next();
      const sample = value(monitor, now);
      if (sample !== null) text += `${name}{${labels}} ${Math.round(sample * 1000) / 1000}\n`;
    }
    chunks.push(Buffer.from(text));
  }
  return chunks;
}
