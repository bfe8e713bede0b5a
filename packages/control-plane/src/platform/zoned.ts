import { LRUCache } from "lru-cache";
import { AppError } from "@statusmesh/shared/errors";
import { dayMs, minuteMs } from "@statusmesh/shared/time";

/** By zone. A format holds about 40 kB. */
const formats = new LRUCache<string, Intl.DateTimeFormat>({ max: 100 });

function formatOf(zone: string): Intl.DateTimeFormat {
  let format = formats.get(zone);
  if (format === undefined) {
    format = new Intl.DateTimeFormat("en-US-u-ca-iso8601-nu-latn", {
      timeZone: zone,
      hourCycle: "h23",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
    formats.set(zone, format);
  }
  return format;
}

/** Names of time zones to choose from. */
export const zoneNames: readonly string[] = ["UTC", ...Intl.supportedValuesOf("timeZone")];

/** Canonical names by those of existing zones: Intl takes a millisecond for each. */
const canonicalNames = new LRUCache<string, string>({ max: 1000 });

/** The canonical name of an IANA time zone; null for an unknown name and for an offset like `+02:00`. */
export function zoneName(name: string): string | null {
  if (!/^[A-Za-z]/.test(name)) return null;
  let canonical = canonicalNames.get(name);
  if (canonical === undefined) {
    try {
      canonical = new Intl.DateTimeFormat("en-US", { timeZone: name }).resolvedOptions().timeZone;
    } catch {
      return null;
    }
    canonicalNames.set(name, canonical);
  }
  return canonical;
}

/** The canonical name of an IANA time zone. Throws INVALID_TIME_ZONE with the field. */
export function checkedZone(name: string, field: string): string {
  const zone = zoneName(name);
  if (zone !== null) return zone;
  throw new AppError("INVALID_TIME_ZONE", `${name} is no IANA time zone. Use a name like Europe/Berlin or UTC.`, {
    field,
  });
}

/** Local time of an instant, as Unix ms of the same digits in UTC. Milliseconds are kept. */
export function localOf(instant: number, zone: string): number {
  if (zone === "UTC") return instant;
  const parts: Record<string, number> = {};
  for (const { type, value } of formatOf(zone).formatToParts(instant)) parts[type] = Number(value);
  const seconds = Date.UTC(
    parts["year"]!,
    parts["month"]! - 1,
    parts["day"]!,
    parts["hour"]!,
    parts["minute"]!,
    parts["second"]!,
  );
  return seconds + (((instant % 1000) + 1000) % 1000);
}

/** `2026-11-22 14:02 UTC` or `2026-11-22 15:02 Europe/Berlin`, for texts that people read outside a browser. */
export const minuteIn = (time: string | Date, zone: string): string =>
  timeIn(Math.floor(new Date(time).getTime() / minuteMs) * minuteMs, zone);

/** The same of Unix ms, with seconds unless they are 0: `2026-11-22 15:02:07 Europe/Berlin`. */
export function timeIn(at: number, zone: string): string {
  const local = new Date(localOf(at, zone)).toISOString();
  return `${local.slice(0, 10)} ${local.slice(11, local.slice(17, 19) === "00" ? 16 : 19)} ${zone}`;
}

/** Offset of a time zone from UTC at an instant, ms. */
const offsetAt = (instant: number, zone: string): number => localOf(instant, zone) - instant;

/**
 * Instant of a local time (Unix ms of the same digits in UTC). Of a repeated time the first
 * counts. A skipped time is read with the offset before the gap: 02:30 becomes 03:30 (RFC 5545, section 3.3.5).
 */
export function instantOf(local: number, zone: string): number {
  // No zone changes its offset twice within two days.
  const before = local - offsetAt(local - dayMs, zone);
  const after = local - offsetAt(local + dayMs, zone);
  if (before === after) return before;
  const fitting = [before, after].filter((instant) => localOf(instant, zone) === local);
  return fitting.length === 0 ? before : Math.min(...fitting);
}
