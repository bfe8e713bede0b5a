import { isObject, parsedJson } from "../json.ts";
import { dayMs, hourMs, minuteMs, secondMs } from "../time.ts";

/*
 * Values of foreign systems: anything may be absent, of another type, huge or hostile. Each reader returns a value of
 * the wanted type.
 */

export type Row = Readonly<Record<string, unknown>>;

export const isRow = (value: unknown): value is Row => isObject(value);

/** A text; a number as text; empty for anything else. */
export function text(value: unknown): string {
  if (typeof value === "string") return value;
  return typeof value === "number" || typeof value === "bigint" ? String(value) : "";
}

/** A finite number, also of a text; the fallback for anything else. */
export function number(value: unknown, fallback: number): number {
  const read = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  return typeof read === "number" && Number.isFinite(read) ? read : fallback;
}

/** A flag, as databases and JSON write it: 1, true, "1", "true"; the fallback for none. */
export const flag = (value: unknown, fallback = false): boolean =>
  value === undefined ? fallback : value === true || value === 1 || value === "1" || value === "true";

/**
 * A flag of a YAML file that Go reads: `yes`, `on`, and texts that a variable stood in; the fallback for an empty one
 * and for null.
 */
export function yamlFlag(value: unknown, fallback = false): boolean {
  const word = typeof value === "boolean" ? String(value) : text(value).trim().toLowerCase();
  return /^(?:true|yes|y|on|1)$/.test(word) ? true : /^(?:false|no|n|off|0)$/.test(word) ? false : fallback;
}

/** The list in a value, empty for anything else. */
export const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

export const rows = (value: unknown): Row[] => list(value).filter(isRow);

export const texts = (value: unknown): string[] =>
  list(value)
    .map(text)
    .filter((one) => one !== "");

/** The map in a value, empty for anything else. */
export const row = (value: unknown): Row => (isRow(value) ? value : {});

/** The value in a JSON text; a value that is no text as it is; undefined for a text that is no JSON. */
export const jsonIn = (value: unknown): unknown => (typeof value === "string" ? parsedJson(value) : value);

/** Within bounds, whole. */
export const clamp = (value: number, least: number, most: number): number =>
  Math.min(most, Math.max(least, Math.round(value)));

/** `web-shop-2` of any text: what keys and addresses are made of. Empty where nothing is left. */
export const slug = (value: string): string =>
  value
    .normalize("NFKD")
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-+|-+$/g, "");

/** A text as one line of at most `most` characters, without controls; empty where nothing visible is left. */
export function line(value: unknown, most: number): string {
  const clean = text(value)
    .normalize("NFC")
    .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]+/gu, " ")
    .replaceAll(/[\p{Cs}\u00ad\u180e\u200b\u2060\ufeff]/gu, "")
    .trim();
  if (!/[^\p{Cc}\p{Cf}\p{Z}\p{M}\p{Default_Ignorable_Code_Point}\u2800]/u.test(clean)) return "";
  return clean.length <= most ? clean : [...clean].slice(0, most).join("").trim();
}

/** A text of several lines, as {@link line}. */
export const lines = (value: unknown, most: number): string =>
  [
    ...text(value)
      .split(/\r?\n/)
      .map((one) => line(one, most))
      .join("\n")
      .trim(),
  ]
    .slice(0, most)
    .join("");

/** Go's `1h30m` in ms. */
export function duration(value: unknown, fallback: number): number {
  const units: Readonly<Record<string, number>> = { ms: 1, s: secondMs, m: minuteMs, h: hourMs, d: dayMs };
  const written = text(value).trim();
  if (!/^(?:\d{1,12}(?:\.\d{1,6})?(?:ms|s|m|h|d))+$/.test(written)) return fallback;
  const parts = written.matchAll(/([\d.]+)(ms|s|m|h|d)/g);
  return Math.round([...parts].reduce((sum, [, count, unit]) => sum + Number(count) * units[unit!]!, 0));
}
