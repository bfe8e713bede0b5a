// Local times of a time zone, as the server computes them (platform/zoned.ts).

const formats = new Map();
const dayMs = 86_400_000;

/** Local time of an instant, as Unix ms of the same digits in UTC; seconds are dropped. */
export function localOf(instant, zone) {
  let format = formats.get(zone);
  if (!format) {
    const part = "numeric";
    const options = { timeZone: zone, hourCycle: "h23", year: part, month: part, day: part, hour: part, minute: part };
    format = new Intl.DateTimeFormat("en-US-u-ca-iso8601-nu-latn", options);
    formats.set(zone, format);
  }
  const parts = {};
  for (const { type, value } of format.formatToParts(instant)) parts[type] = Number(value);
  return Date.UTC(parts.year, parts.month - 1, parts.day, parts.hour, parts.minute);
}

/** Instant of a local time. One that clocks skip moves forward; of one that occurs twice, the first. */
export function instantOf(local, zone) {
  const offsetAt = (instant) => localOf(instant, zone) - Math.floor(instant / 60_000) * 60_000;
  const before = local - offsetAt(local - dayMs);
  const after = local - offsetAt(local + dayMs);
  const fitting = [before, after].filter((instant) => localOf(instant, zone) === local);
  return fitting.length === 0 ? before : Math.min(...fitting);
}

/** The value of a `datetime-local` control. */
export const showLocal = (local) => new Date(local).toISOString().slice(0, 16);
export const readLocal = (text) => Date.parse(`${text.slice(0, 16)}:00Z`);
