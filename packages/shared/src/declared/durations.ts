import { dayMs, hourMs, minuteMs } from "../time.ts";

const lengthsMs = { ms: 1, s: 1000, m: minuteMs, h: hourMs, d: dayMs } as const;
type Unit = keyof typeof lengthsMs;

/** The unit of a field of the API by its name; null for a field that is no duration. */
export function unitOf(field: string): Unit | null {
  if (/_ms$|^(?:timeout|period|grace|max_runtime)$/.test(field)) return "ms";
  if (/_secs$|^interval$/.test(field)) return "s";
  if (field === "after_minutes") return "m";
  return field.endsWith("_days") ? "d" : null;
}

/** A duration such as `500ms`, `30s`, `5m`, `2h` and `1d` has this form. */
export const durationPattern = "^\\d{1,12}(?:ms|s|m|h|d)$";

/** `5m` in a unit; null for a text that is no duration or does not come out whole. */
export function durationIn(unit: Unit, text: string): number | null {
  const [, count, of] = /^(\d{1,12})(ms|s|m|h|d)$/.exec(text) ?? [];
  if (count === undefined) return null;
  const value = (Number(count) * lengthsMs[of as Unit]) / lengthsMs[unit];
  return Number.isSafeInteger(value) ? value : null;
}
