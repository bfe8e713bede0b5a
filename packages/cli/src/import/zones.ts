import { dayMs } from "@statusmesh/shared/time";

/** True for the name of an IANA time zone. */
export function isZone(name: string): boolean {
  if (!/^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/.test(name)) return false;
  try {
    return new Intl.DateTimeFormat("en", { timeZone: name }).resolvedOptions().timeZone !== "";
  } catch {
    return false;
  }
}

/** Wall time in a zone, as ms of the same reading in UTC, as an instant. A skipped time moves forward. */
export function instantIn(zone: string, wall: number): number {
  const format = new Intl.DateTimeFormat("en-US", {
    timeZone: zone,
    hourCycle: "h23",
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
    second: "numeric",
  });
  const offsetAt = (at: number): number => {
    const part = Object.fromEntries(format.formatToParts(at).map(({ type, value }) => [type, Number(value)]));
    return (
      Date.UTC(part["year"]!, part["month"]! - 1, part["day"], part["hour"], part["minute"], part["second"]) -
      Math.floor(at / 1000) * 1000
    );
  };
  // The offsets before and after any change of the clock near it; the earlier instant of a repeated time counts.
  const [before, after] = [offsetAt(wall - dayMs), offsetAt(wall + dayMs)];
  const fits = [wall - before, wall - after].filter((at) => at + offsetAt(at) === wall);
  return fits.length > 0 ? Math.min(...fits) : wall - before;
}

/** `2026-12-05 22:00:00`, `2026-12-05T22:00` or `2026-12-05` read as UTC, ms; NaN for another text. */
export function wallTime(text: string): number {
  const [, date, hour = "0", minute = "0", second = "0"] =
    /^(\d{4}-\d\d-\d\d)(?:[T ](\d{1,2}):(\d\d)(?::(\d\d))?)?/.exec(text) ?? [];
  if (date === undefined) return NaN;
  return Date.parse(`${date}T00:00:00Z`) + ((Number(hour) * 60 + Number(minute)) * 60 + Number(second)) * 1000;
}

const weekdays = ["SU", "MO", "TU", "WE", "TH", "FR", "SA"] as const;

/** The name of a weekday in recurrence rules; 0 is Sunday. */
export const weekdayOf = (day: number): string => weekdays[((day % 7) + 7) % 7]!;

/** The first day from `start` (ms, midnight) on that fits; null when none does within 400 days. */
export function firstDay(start: number, fits: (day: Date) => boolean): number | null {
  for (let at = start, count = 0; count < 400; at += dayMs, count++) if (fits(new Date(at))) return at;
  return null;
}
