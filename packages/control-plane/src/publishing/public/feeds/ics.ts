import { dayMs, minuteMs } from "@statusmesh/shared/time";
import { localOf } from "@statusmesh/shared/zoned";
import { type CalendarWindow, calendarOf } from "../../../alerting/maintenance/calendar/service.ts";
import { getOrMake } from "../../../platform/caches.ts";
import type { System } from "../../../platform/context.ts";
import { textsOf } from "../../languages/service.ts";
import type { ServedStatus } from "../page/compute.ts";
import { componentsOf } from "../service.ts";

/** Days of the past and of the future with windows. */
const [pastDays, aheadDays] = [90, 365];
/** Components that an event names. */
const mostNames = 50;
/** A rule goes on after the last day for which clock changes are listed: readers ask again long before. */
const zoneDays = 2 * 366;

const calendars = new WeakMap<ServedStatus, Promise<string>>();

/** The maintenance of a page as iCalendar (RFC 5545), read once per computation of the page. */
export async function maintenanceCalendar(system: System, served: ServedStatus, pageUrl: string): Promise<string> {
  return await getOrMake(calendars, served, async () => {
    const names = new Map(componentsOf(served.status).map(({ id, name }) => [id, name]));
    const now = system.clock.now();
    const range = { from: new Date(now - pastDays * dayMs), to: new Date(now + aheadDays * dayMs) };
    const windows = await calendarOf(system, served.orgId, [...names.keys()], range);
    return calendarText(windows, {
      now,
      names,
      url: pageUrl,
      title: textsOf(served.language).page.statusOf(served.status.page.name),
    });
  });
}

interface Surroundings {
  now: number;
  names: ReadonlyMap<string, string>;
  url: string;
  title: string;
}

/** Windows as iCalendar. */
function calendarText(windows: readonly CalendarWindow[], { now, names, url, title }: Surroundings): string {
  const zones = new Map<string, number>();
  for (const { series, starts_at: start } of windows)
    if (series !== null && series.zone !== "UTC")
      zones.set(series.zone, Math.min(start.getTime(), zones.get(series.zone) ?? Infinity));
  return [
    "BEGIN:VCALENDAR",
    "VERSION:2.0",
    "PRODID:-//StatusMesh//Status page//EN",
    "CALSCALE:GREGORIAN",
    "METHOD:PUBLISH",
    `X-WR-CALNAME:${escaped(title)}`,
    "REFRESH-INTERVAL;VALUE=DURATION:PT1H",
    "X-PUBLISHED-TTL:PT1H",
    ...[...zones].flatMap(([zone, from]) => zoneLines(zone, from, now + zoneDays * dayMs)),
    ...windows.flatMap((window) => eventLines(window, names, url)),
    "END:VCALENDAR",
    "",
  ]
    .map(folded)
    .join("\r\n");
}

function eventLines(window: CalendarWindow, names: ReadonlyMap<string, string>, url: string): string[] {
  const { id, series, sequence, cancelled, title, description, updated_at: updated } = window;
  const affected = window.target_ids.flatMap((target) => names.get(target) ?? []).slice(0, mostNames);
  const zone = series?.zone ?? "UTC";
  const common = [
    `UID:${id}`,
    `DTSTAMP:${timeIn(updated.getTime(), "UTC")}`,
    `LAST-MODIFIED:${timeIn(updated.getTime(), "UTC")}`,
    `SEQUENCE:${sequence}`,
    `SUMMARY:${escaped(title)}`,
    `DESCRIPTION:${escaped([description ?? "", affected.join(", ")].filter((text) => text !== "").join("\n\n"))}`,
    `URL:${url}`,
    `STATUS:${cancelled ? "CANCELLED" : "CONFIRMED"}`,
    "TRANSP:TRANSPARENT",
  ];
  const event = (start: Date, end: Date, more: string[]) => [
    "BEGIN:VEVENT",
    ...common,
    timeLine("DTSTART", zone, [start]),
    timeLine("DTEND", zone, [end]),
    ...more,
    "END:VEVENT",
  ];
  const skipped = window.skipped.map((at) => new Date(at));
  const repeats =
    series === null
      ? []
      : [`RRULE:${series.rule}`, ...(skipped.length === 0 ? [] : [timeLine("EXDATE", zone, skipped)])];
  return [
    ...event(window.starts_at, window.ends_at, repeats),
    ...window.changed.flatMap(({ starts_at: start, ends_at: end }) =>
      event(new Date(start), new Date(end), [timeLine("RECURRENCE-ID", zone, [new Date(start)])]),
    ),
  ];
}

const timeLine = (name: string, zone: string, times: readonly Date[]): string =>
  `${name}${zone === "UTC" ? "" : `;TZID=${zone}`}:${times.map((at) => timeIn(at.getTime(), zone)).join()}`;

/** `20261120T220000Z`, or the local time of a zone without the Z. */
function timeIn(at: number, zone: string): string {
  const digits = new Date(localOf(at, zone)).toISOString().replaceAll(/[-:]|\.\d{3}/g, "");
  return zone === "UTC" ? digits : digits.slice(0, -1);
}

/** A zone with its clock changes in the range (section 3.6.5). */
function zoneLines(zone: string, from: number, to: number): string[] {
  const offsetAt = (at: number): number => localOf(at, zone) - at;
  const observance = (start: string, before: number, after: number) => {
    const name = after > before ? "DAYLIGHT" : "STANDARD";
    return [
      `BEGIN:${name}`,
      `DTSTART:${start}`,
      `TZOFFSETFROM:${offsetText(before)}`,
      `TZOFFSETTO:${offsetText(after)}`,
      `END:${name}`,
    ];
  };
  // Whole minutes: a start may have milliseconds.
  const begin = Math.floor(from / dayMs) * dayMs - dayMs;
  let offset = offsetAt(begin);
  const lines = observance("19700101T000000", offset, offset);
  const step = 7 * dayMs;
  for (let at = begin; at < to; at += step) {
    const next = offsetAt(at + step);
    if (next === offset) continue;
    let [low, high] = [at, at + step];
    while (high - low > minuteMs) {
      const middle = low + Math.floor((high - low) / 2 / minuteMs) * minuteMs;
      if (offsetAt(middle) === offset) low = middle;
      else high = middle;
    }
    // The local time before the change.
    lines.push(...observance(timeIn(high + offset, "UTC").slice(0, -1), offset, next));
    offset = next;
  }
  return ["BEGIN:VTIMEZONE", `TZID:${zone}`, ...lines, "END:VTIMEZONE"];
}

function offsetText(offset: number): string {
  const seconds = Math.round(Math.abs(offset) / 1000);
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const text = (seconds % 60 === 0 ? parts.slice(0, 2) : parts).map((part) => String(part).padStart(2, "0")).join("");
  return `${offset < 0 ? "-" : "+"}${text}`;
}

/** Text (section 3.3.11), without control characters. */
const escaped = (text: string): string =>
  text
    .toWellFormed()
    .replaceAll(/[^\n\P{Cc}]/gu, "")
    .replaceAll("\\", "\\\\")
    .replaceAll(";", "\\;")
    .replaceAll(",", "\\,")
    .replaceAll("\n", "\\n");

/** Lines of at most 75 bytes; further ones begin with a space (section 3.1). */
function folded(line: string): string {
  if (Buffer.byteLength(line) <= 75) return line;
  const parts: string[] = [];
  let [part, bytes] = ["", 0];
  for (const character of line) {
    const own = Buffer.byteLength(character);
    if (bytes + own > (parts.length === 0 ? 75 : 74)) {
      parts.push(part);
      [part, bytes] = ["", 0];
    }
    part += character;
    bytes += own;
  }
  return [...parts, part].join("\r\n ");
}
