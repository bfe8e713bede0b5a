import { dayMs } from "./time.ts";

/** By zone. A format holds about 40 kB, and takes a millisecond to make. */
const formats = new Map<string, Intl.DateTimeFormat>();
const mostFormats = 100;

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
    if (formats.size === mostFormats) formats.clear();
    formats.set(zone, format);
  }
  return format;
}

/** The canonical name of an IANA time zone; null for an unknown name and for an offset like `+02:00`. */
export function zoneName(name: string): string | null {
  if (!/^[A-Za-z]/.test(name)) return null;
  try {
    return formatOf(name).resolvedOptions().timeZone;
  } catch {
    return null;
  }
}

/** Local time of an instant, as Unix ms of the same digits in UTC. Milliseconds are kept. */
export function localOf(instant: number, zone: string): number {
  if (zone === "UTC") return instant;
  const part: Record<string, number> = {};
  for (const { type, value } of formatOf(zone).formatToParts(instant)) part[type] = Number(value);
  const { year, month, day, hour, minute, second } = part;
  return Date.UTC(year!, month! - 1, day, hour, minute, second) + (((instant % 1000) + 1000) % 1000);
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
