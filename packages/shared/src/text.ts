import Type, { type TSchemaOptions } from "typebox";
import { AppError, type ErrorCode, isErrorCode } from "./errors.ts";
import type { Faults } from "./schema/faults.ts";
import { normaliseId } from "./ids.ts";
import type { SchemaNode } from "./schema/schema-node.ts";

/** A text that people read: `line` is a name, tag, group or label; `lines` may have line breaks and tabs. */
type TextForm = "line" | "lines";
/** Every text that `validate` brings into its stored form. An `id` is a UUID in either case, or any other text. */
type Form = NonNullable<SchemaNode["text"]>;

interface TextOptions extends TSchemaOptions {
  /** Longest text, in code points. */
  maxLength: number;
  description: string;
  /** Code of every refusal; INVALID_BODY unless the schema around it says otherwise. */
  errorCode?: ErrorCode;
  /** Code of a text without a visible character, where it is another one. */
  emptyCode?: ErrorCode;
  /** Code of a text that is too long, where it is another one. */
  longCode?: ErrorCode;
  /** True where a text without a visible character is null. */
  emptyIsNull?: boolean;
}

/**
 * Schema of a one-line text for people: `validate` trims it, brings it to NFC and refuses control characters and texts
 * without a visible one.
 */
export const Line = (options: TextOptions) => Type.String({ ...options, text: "line" satisfies TextForm });

/** Like {@link Line}, with line breaks. */
export const Lines = (options: TextOptions) => Type.String({ ...options, text: "lines" satisfies TextForm });

/**
 * Schema of a text that is looked for in texts of {@link Line}: `validate` brings it into the same form, and refuses
 * nothing.
 */
export const SearchText = (options: TSchemaOptions) => Type.String({ ...options, text: "search" satisfies Form });

/** Schema of a text that may be an id: `validate` brings a UUID to lower case. */
export const IdText = (options: TSchemaOptions) => Type.String({ ...options, text: "id" satisfies Form });

type Fault = { kind: "control" | "empty" | "long"; message: string };

/** Printable ASCII without white space at its ends needs no cleaning. */
const plain = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;
/**
 * Zero-width space, word joiner, byte order mark, soft hyphen, Mongolian vowel separator: invisible, and without a
 * meaning in a name.
 */
const zeroWidth = /[\u00ad\u180e\u200b\u2060\ufeff]/gu;
/**
 * Unicode categories Cc, Zl and Zp, and the controls that turn the direction of the text around a name (UAX #9, section
 * 2).
 */
const controls = /[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u;
const controlsButBreaks = /(?![\n\t])[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u;
/** Combining marks alone are invisible; U+2800 is the braille pattern without dots. */
const visible = /[^\p{Cc}\p{Cf}\p{Z}\p{M}\p{Default_Ignorable_Code_Point}\u2800]/u;

/** The text as it is stored: NFC, trimmed, without zero-width characters. */
export function normaliseText(text: string): string {
  return plain.test(text) ? text : text.replaceAll(zeroWidth, "").normalize("NFC").trim();
}

/**
 * The text of a name as it is stored, or what is wrong with it: no visible character, a control character, more than
 * `maxLength` code points.
 */
function cleanText(text: string, form: TextForm, maxLength: number): string | Fault {
  const clean = normaliseText(form === "line" ? text : text.replaceAll("\r\n", "\n"));
  const control = (form === "line" ? controls : controlsButBreaks).exec(clean)?.[0];
  if (control !== undefined)
    return { kind: "control", message: `contains the control character ${codePoint(control)}` };
  if (!visible.test(clean)) return { kind: "empty", message: "has no visible character" };
  if (isLonger(clean, maxLength)) return { kind: "long", message: `must have at most ${maxLength} characters` };
  return clean;
}

/** True for more than `most` code points. Only short texts are counted: those of a MiB take 30 ms. */
export const isLonger = (text: string, most: number): boolean =>
  text.length > most && (text.length > 2 * most || [...text].length > most);

const codePoint = (character: string): string =>
  `U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}`;

/** Cleans the texts of a value and returns it; objects and arrays are changed in place. Stops when `faults` is full. */
type Cleaner = (value: unknown, pointer: string, faults: Faults) => unknown;

const cleaners = new WeakMap<object, Cleaner | null>();

/**
 * Cleans every text of `value` that its schema declares with {@link Line}, {@link Lines} or {@link IdText}. Adds a
 * fault for each text with a control character, without a visible character, or too long. A value that does not fit the
 * schema is cleaned as far as it fits.
 */
export function cleanTexts<T>(schema: object, value: T, base: string, faults: Faults): T {
  let cleaner = cleaners.get(schema);
  if (cleaner === undefined) {
    cleaner = cleanerOf(schema, "INVALID_BODY");
    cleaners.set(schema, cleaner);
  }
  return cleaner === null ? value : (cleaner(value, base, faults) as T);
}

/** Null where the schema has no texts, so that a batch of results costs nothing. */
function cleanerOf(node: SchemaNode, outer: ErrorCode): Cleaner | null {
  const code = isErrorCode(node.errorCode) ? node.errorCode : outer;
  if (node.text !== undefined) return textCleaner(node.text, node, code);
  if (node.anyOf !== undefined) return unionCleaner(node.anyOf, node.discriminator, code);
  if (node.properties !== undefined) return objectCleaner(node.properties, code);
  if (node.items !== undefined && !Array.isArray(node.items)) return arrayCleaner(node.items, code);
  return null;
}

function textCleaner(form: Form, node: SchemaNode, code: ErrorCode): Cleaner {
  if (form === "search") return (value) => (typeof value === "string" ? normaliseText(value) : value);
  if (form === "id") return (value) => (typeof value === "string" ? normaliseId(value) : value);
  const { maxLength = Infinity, emptyCode, longCode } = node;
  return (value, pointer, faults) => {
    if (typeof value !== "string" || faults.has(pointer)) return value;
    const clean = cleanText(value, form, maxLength);
    if (typeof clean === "string") return clean;
    if (clean.kind === "empty" && node.emptyIsNull === true) return null;
    const place = pointer
      .replace(/^\/query/, "")
      .slice(1)
      .replaceAll("/", ".");
    const own = clean.kind === "empty" ? emptyCode : clean.kind === "long" ? longCode : undefined;
    faults.add(new AppError(isErrorCode(own) ? own : code, `${place} ${clean.message}.`, { field: pointer }));
    return value;
  };
}

function unionCleaner(branches: SchemaNode[], tag: string | undefined, code: ErrorCode): Cleaner | null {
  const each = branches.map((branch) => ({ branch, clean: cleanerOf(branch, code) }));
  if (each.every(({ clean }) => clean === null)) return null;
  return (value, pointer, faults) => {
    const type = value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
    const meant = each.find(({ branch }) =>
      tag === undefined
        ? branch.type === type
        : branch.properties?.[tag]?.const === (value as Record<string, unknown> | null)?.[tag],
    );
    return meant?.clean == null ? value : meant.clean(value, pointer, faults);
  };
}

function objectCleaner(properties: Record<string, SchemaNode>, code: ErrorCode): Cleaner | null {
  const cleaned = Object.entries(properties).flatMap(([key, node]): [string, Cleaner][] => {
    const clean = cleanerOf(node, code);
    return clean === null ? [] : [[key, clean]];
  });
  if (cleaned.length === 0) return null;
  return (value, pointer, faults) => {
    if (typeof value !== "object" || value === null) return value;
    const fields = value as Record<string, unknown>;
    for (const [key, clean] of cleaned)
      if (Object.hasOwn(fields, key)) fields[key] = clean(fields[key], `${pointer}/${key}`, faults);
    return value;
  };
}

function arrayCleaner(items: SchemaNode, code: ErrorCode): Cleaner | null {
  const clean = cleanerOf(items, code);
  if (clean === null) return null;
  return (value, pointer, faults) => {
    if (!Array.isArray(value)) return value;
    for (const [at, item] of value.entries()) {
      if (faults.isFull) break;
      value[at] = clean(item, `${pointer}/${at}`, faults);
    }
    return value;
  };
}

/** ` Did you mean "url"?` when a known name is one slip away. */
export function suggestion(wrong: string, known: readonly string[]): string {
  const near = known.find(
    (key) =>
      key.toLowerCase().replaceAll(/[_-]/g, "") === wrong.toLowerCase().replaceAll(/[_-]/g, "") || oneSlip(wrong, key),
  );
  return near === undefined ? "" : ` Did you mean "${near}"?`;
}

function oneSlip(a: string, b: string): boolean {
  if (Math.abs(a.length - b.length) > 1 || Math.min(a.length, b.length) < 3) return false;
  let start = 0;
  while (start < a.length && a[start] === b[start]) start++;
  return (
    a.slice(start + 1) === b.slice(start + 1) ||
    a.slice(start + 1) === b.slice(start) ||
    a.slice(start) === b.slice(start + 1)
  );
}
