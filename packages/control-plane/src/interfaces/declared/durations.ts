import { dayMs, hourMs, minuteMs } from "@statusmesh/shared/time";

const lengthsMs = { ms: 1, s: 1000, m: minuteMs, h: hourMs, d: dayMs } as const;

/** The unit of a field of the API by its name; null for a field that is no duration. */
export function unitOf(field: string): keyof typeof lengthsMs | null {
  if (/_ms$|^(?:timeout|period|grace|max_runtime)$/.test(field)) return "ms";
  if (/_secs$|^interval$/.test(field)) return "s";
  return field.endsWith("_days") ? "d" : null;
}

/** A duration such as `500ms`, `30s`, `5m`, `2h` and `1d` has this form. */
export const durationPattern = "^\\d{1,12}(?:ms|s|m|h|d)$";

/** `5m` in a unit; null for a text that is no duration or does not come out whole. */
export function durationIn(unit: keyof typeof lengthsMs, text: string): number | null {
  const [, count, of] = /^(\d{1,12})(ms|s|m|h|d)$/.exec(text) ?? [];
  if (count === undefined) return null;
  const value = (Number(count) * lengthsMs[of as keyof typeof lengthsMs]) / lengthsMs[unit];
  return Number.isSafeInteger(value) ? value : null;
}
