import type { CheckType } from "../checks/index.ts";
import { isObject, type Json } from "../json.ts";
import { dayMs } from "../time.ts";
import { clamp, row, text } from "./values.ts";

/** A value that the file names as a variable. */
export class Secret {
  readonly value: string;
  constructor(value: string) {
    this.value = value;
  }
}

/** A heartbeat check within the bounds of its kind. */
export const heartbeat = (periodMs: number, graceMs: number) => ({
  type: "heartbeat" as const,
  period: clamp(periodMs, 10_000, 90 * dayMs),
  grace: clamp(graceMs, 1000, 30 * dayMs),
});

/** A check in the making. Texts of it may be {@link Secret}s; fields that are undefined are not in it. */
export type Check = Json & { type: CheckType };

/** A text as the file has it: `${` stands for a variable there. */
export const escaped = (text: string): string => text.replaceAll("${", () => "$${");

/** A copy of a value with `change` applied to its texts. `pointer` is the place of one. */
export function mapTexts(
  value: unknown,
  change: (text: string | Secret, pointer: string) => string,
  pointer = "",
): unknown {
  if (typeof value === "string" || value instanceof Secret) return change(value, pointer);
  if (Array.isArray(value)) return value.map((one, at) => mapTexts(one, change, `${pointer}/${at}`));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(present(value)).map(([name, one]) => [name, mapTexts(one, change, `${pointer}/${name}`)]),
  );
}

/** The fields that have a value. */
export const present = (fields: Json): Json =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));

/** Headers of a map, in its order. */
export const headersIn = (value: unknown): [name: string, value: string][] =>
  Object.entries(row(value)).map(([name, of]) => [name, text(of)]);
