import { utcDay } from "@statusmesh/shared/time";
const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const pad = (value: number): string => String(value).padStart(2, "0");

/** A sentence with a capital at its start; a host name there stays as it is. */
export const capital = (text: string): string =>
  text.replace(/^[a-z](?=[a-z-]*[,.:;]?(?: |$))/, (letter) => letter.toUpperCase());

/** Shown in place of a missing value. */
export const none = "—";

/** Days, hours, minutes, seconds. */
const unitNames = ["d", "h", "min", "s"] as const;

/**
 * `45 s`, `38 min`, `2 h 5 min`, `3 d 4 h`: the two largest units that say something. Seconds in; `units` are the
 * names of days, hours, minutes and seconds.
 */
export function duration(seconds: number, units: readonly string[] = unitNames): string {
  const [d, h, min, s] = units;
  const secs = Math.max(0, Math.floor(seconds));
  if (secs < 60) return `${secs} ${s}`;
  const minutes = Math.floor(secs / 60);
  if (minutes < 60) return `${minutes} ${min}`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 === 0 ? `${hours} ${h}` : `${hours} ${h} ${minutes % 60} ${min}`;
  const days = Math.floor(hours / 24);
  return hours % 24 === 0 ? `${days} ${d}` : `${days} ${d} ${hours % 24} ${h}`;
}

/** Seconds for which an incident has failed until `now` (Unix ms), without healthy time before a reopening. */
export function outageSecs(one: { past_outage_secs: number; outage_since: string | null }, now: number): number {
  return one.past_outage_secs + (one.outage_since === null ? 0 : (now - Date.parse(one.outage_since)) / 1000);
}

/** The larger unit of {@link duration} alone, where there is no room for two: `2 h`. */
export function brief(seconds: number): string {
  return /^\d+ \w+/.exec(duration(seconds))![0];
}

/** `3 s ago`, and `in 20 s` for a time in the future; one unit only. Unix ms in. */
export function ago(at: number, now: number): string {
  const secs = Math.round(Math.abs(now - at) / 1000);
  if (secs === 0) return "now";
  const text = brief(secs);
  return at <= now ? `${text} ago` : `in ${text}`;
}

/** `in 20 s`, and `due now` for what should have happened already. Unix ms in. */
export const due = (at: number, now: number): string => (at > now ? ago(at, now) : "due now");

/** How often something happens: `every 30 s`, `every 5 min`, `every day`. */
export function every(seconds: number): string {
  if (seconds === 86_400) return "every day";
  if (seconds === 3600) return "every hour";
  if (seconds === 60) return "every minute";
  // 90 s is clearer than 1 min, which would drop half of it.
  return `every ${seconds % 60 === 0 ? duration(seconds) : `${seconds} s`}`;
}

/** `412 ms`, `3.4 ms`, `0.25 ms`, `1.24 s`. */
export function ms(value: number | null | undefined): string {
  if (value === null || value === undefined) return none;
  if (value >= 10_000) return `${(value / 1000).toFixed(1)} s`;
  if (value >= 1000) return `${(value / 1000).toFixed(2)} s`;
  if (value >= 10) return `${Math.round(value)} ms`;
  return `${Number(value.toFixed(value < 1 ? 2 : 1))} ms`;
}

/** `8,604`. */
export function number(value: number | null | undefined): string {
  if (value === null || value === undefined) return none;
  const [whole, fraction] = String(value).split(".");
  const grouped = whole!.replace(/\B(?=(\d{3})+$)/g, ",");
  return fraction === undefined ? grouped : `${grouped}.${fraction}`;
}

/** `99.81`. Never rounds up to a 100 that was not reached. */
export function percent(value: number | null | undefined): string {
  if (value === null || value === undefined) return none;
  const rounded = Math.floor(value * 100 + 1e-6) / 100;
  return String(rounded);
}

/** `1.2 kB`. */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return none;
  if (value < 1000) return `${value} B`;
  if (value < 1_000_000) return `${Number((value / 1000).toFixed(1))} kB`;
  return `${Number((value / 1_000_000).toFixed(1))} MB`;
}

/** `1 monitor`, `3 monitors`. */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${number(count)} ${count === 1 ? one : many}`;
}

/** `(3) Monitors`: a title with how many need attention, and without a number where none does. */
export const numbered = (title: string, count: number): string => (count > 0 ? `(${count}) ${title}` : title);

/** A path with the parameters that have a value. @public */
export function address(path: string, values: Readonly<Record<string, string | number | null | undefined>>): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) if (value) params.set(name, String(value));
  return params.size === 0 ? path : `${path}?${params}`;
}

/** `a`, `a and b`, `a, b and c`. */
export function list(items: readonly string[]): string {
  return items.length < 2 ? (items[0] ?? "") : `${items.slice(0, -1).join(", ")} and ${items.at(-1)!}`;
}

/** ` by Ann`, and ` from #alerts` for what was done in a channel; empty without a name. @public */
export const byWhom = (who: { type: string; name: string | null } | null | undefined): string =>
  who?.name ? ` ${who.type === "channel" ? "from" : "by"} ${who.name}` : "";

const browsers = [
  [/Edg\//, "Edge"],
  [/Firefox\//, "Firefox"],
  [/Chrome\//, "Chrome"],
  [/Safari\//, "Safari"],
] as const;
const systems = [
  [/Android/, "Android"],
  [/iPhone|iPad/, "iOS"],
  [/Windows/, "Windows"],
  [/Mac OS/, "macOS"],
  [/Linux/, "Linux"],
] as const;

/**
 * `Firefox on Linux`, from a User-Agent. The first match decides: each later browser and system claims to be an earlier
 * one.
 */
export function device(agent: string | null): string {
  if (agent === null || agent === "") return "Unknown device";
  const browser = browsers.find(([pattern]) => pattern.test(agent))?.[1] ?? agent.slice(0, 60);
  const system = systems.find(([pattern]) => pattern.test(agent))?.[1];
  return system === undefined ? browser : `${browser} on ${system}`;
}

/**
 * `14:02`, with the day in front when that is not today. In UTC; the reader's browser rewrites it for the reader's
 * zone.
 */
export function clock(at: Date, now: number): string {
  const time = `${pad(at.getUTCHours())}:${pad(at.getUTCMinutes())}`;
  return utcDay(now) === utcDay(at.getTime()) ? time : `${at.getUTCDate()} ${months[at.getUTCMonth()]!} ${time}`;
}

/** `20 Nov 2026`. */
export function day(at: Date): string {
  return `${at.getUTCDate()} ${months[at.getUTCMonth()]!} ${at.getUTCFullYear()}`;
}

/** `Nov 2026`. */
export const month = (at: Date): string => `${months[at.getUTCMonth()]!} ${at.getUTCFullYear()}`;

/** `2026-11-20 14:02:31 UTC`. */
export function absolute(at: Date): string {
  return `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** The word of each state that a monitor, a region or a result has. The icon of the same name is in icons.ts. */
export const stateWords = {
  down: "Down",
  error: "Error",
  degraded: "Degraded",
  unknown: "No data",
  up: "Up",
  paused: "Paused",
} as const;

export type StateName = keyof typeof stateWords;
