import { dayMs } from "@statusmesh/shared/time";

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
