import { randomInt } from "node:crypto";
import { AppError } from "@statusmesh/shared/errors";
import { messageOf } from "@statusmesh/shared/thrown";

const maxDepth = 32;

/** Structural characters of JSON. */
export const [quote, comma, colon, openBracket, backslash, closeBracket, openBrace, closeBrace] = [
  0x22, 0x2c, 0x3a, 0x5b, 0x5c, 0x5d, 0x7b, 0x7d,
] as const;

/**
 * Parses JSON. Throws INVALID_JSON, or INVALID_BODY for values that cannot be stored (NUL, lone surrogates, numbers
 * outside the safe range, nesting over 32 levels) and for texts that take long to parse. For a part of a larger text,
 * `base` is its pointer and `depth` the number of levels around it.
 */
export function parseJson(text: string, base = "", depth = 0): unknown {
  const structure = structureOf(text);
  fieldsRule(text, structure, base);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    const place = base === "" ? "" : ` at ${base}`;
    throw new AppError("INVALID_JSON", `The body is not JSON${place}: ${messageOf(cause)}.`, { cause });
  }
  if (structure.isLarge || structure.depth > maxDepth - depth || text.includes("\\u") || text.includes("__proto__")) {
    const fault = findUnstorable(value, depth);
    if (fault !== null)
      throw new AppError("INVALID_BODY", fault.message, {
        field: base + fault.path.toReversed().map(escaped).join(""),
      });
  }
  return value;
}

/** The text without a leading byte order mark (RFC 8259, section 8.1). */
export const withoutMark = (text: string): string => (text.startsWith("\ufeff") ? text.slice(1) : text);

/** Fields that differ in their names or the order of names: 20,000 take up to 40 ms of V8, 90,000 up to 300 ms. */
const manyFields = 20_000;
/** Objects and lists: 340,000 empty objects take 60 ms. */
const manyValues = 100_000;
/** Of {@link nameHash}: random, so that no text has names of one hash on purpose. */
const hashFactor = randomInt(0x1000_0000, 0x7fff_ffff) | 1;

/**
 * Throws for a text with too many objects or different fields. V8 makes a hidden class for each name after the names
 * before it: these are counted, so that a list of like objects may have any number.
 */
function fieldsRule(text: string, { fields, values }: Structure, base: string): void {
  const at = base === "" ? {} : { field: base };
  if (values > manyValues)
    throw new AppError("INVALID_BODY", `The body has more than ${manyValues} objects and lists.`, at);
  if (fields > manyFields && differentFields(text) > manyFields)
    throw new AppError(
      "INVALID_BODY",
      `The body has more than ${manyFields} fields of different names, or the same ones in different orders.`,
      at,
    );
}

/** What one walk over a text tells: a third of the time of parsing it. */
interface Structure {
  fields: number;
  /** Objects and lists, and how deep they are nested. */
  values: number;
  depth: number;
  /** True where a number may be outside of the safe range: it has 16 digits in a row, or an exponent. */
  isLarge: boolean;
}

function structureOf(text: string): Structure {
  let [fields, values, open, depth, digits] = [0, 0, 0, 0, 0];
  let isLarge = false;
  for (let at = 0; at < text.length; at++) {
    const character = text.charCodeAt(at);
    if (character >= zero && character <= nine) {
      if (++digits === 16) isLarge = true;
      continue;
    }
    if (digits > 0 && (character === smallE || character === largeE)) isLarge = true;
    digits = 0;
    if (character === quote) at = endOfText(text, at + 1);
    else if (character === colon) fields++;
    else if (character === openBrace || character === openBracket) {
      values++;
      if (++open > depth) depth = open;
    } else if (character === closeBrace || character === closeBracket) open--;
  }
  return { fields, values, depth, isLarge };
}

const [zero, nine, smallE, largeE] = [0x30, 0x39, 0x65, 0x45] as const;

/** Position of the quotation mark that ends a text. */
function endOfText(text: string, from: number): number {
  let at = from;
  for (; at < text.length; at++) {
    const character = text.charCodeAt(at);
    if (character === quote) break;
    if (character === backslash) at++;
  }
  return at;
}

/** Number of fields that differ in their name or in the names before it, up to one above {@link manyFields}. */
function differentFields(text: string): number {
  const found = new Set<number>();
  /** Hash of the names of each open object. */
  const open = [0];
  let hash = 0;
  let inText = false;
  for (let at = 0; at < text.length; at++) {
    const character = text.charCodeAt(at);
    if (inText) {
      if (character === quote) inText = false;
      else {
        hash = nameHash(hash, character);
        if (character === backslash) hash = nameHash(hash, text.charCodeAt(++at));
      }
    } else if (character === quote) {
      inText = true;
      hash = 0;
    } else if (character === colon) {
      const names = nameHash(nameHash(open.pop() ?? 0, hash), colon);
      open.push(names);
      if (found.size <= manyFields) found.add(names);
    } else if (character === openBrace || character === openBracket) open.push(0);
    else if (character === closeBrace || character === closeBracket) open.pop();
  }
  return found.size;
}

const nameHash = (hash: number, value: number): number => {
  const mixed = Math.imul(hash ^ value, hashFactor);
  return mixed ^ (mixed >>> 15);
};

/** A value that cannot be stored; `path` has its keys, innermost first. */
interface Unstorable {
  message: string;
  path: string[];
}

const unstorable = (message: string, ...path: string[]): Unstorable => ({ message, path });

function findUnstorable(value: unknown, depth: number): Unstorable | null {
  if (typeof value === "string") return findInText(value);
  if (typeof value === "number")
    return Math.abs(value) > Number.MAX_SAFE_INTEGER ? unstorable("A number is too large to be stored exactly.") : null;
  if (typeof value !== "object" || value === null) return null;
  if (depth >= maxDepth) return unstorable(`The body is nested over ${maxDepth} levels deep.`);
  if (Array.isArray(value)) {
    for (const [at, item] of value.entries()) {
      const fault = findUnstorable(item, depth + 1);
      if (fault !== null) return below(String(at), fault);
    }
    return null;
  }
  for (const key in value) {
    if (key === "__proto__") return unstorable("A field must not be named __proto__.", key);
    const fault = findInText(key) ?? below(key, findUnstorable((value as Record<string, unknown>)[key], depth + 1));
    if (fault !== null) return fault;
  }
  return null;
}

function below(key: string, fault: Unstorable | null): Unstorable | null {
  fault?.path.push(key);
  return fault;
}

function findInText(text: string): Unstorable | null {
  if (text.includes("\0")) return unstorable("A text contains the character NUL, which cannot be stored.");
  return text.isWellFormed() ? null : unstorable("A text contains half of a surrogate pair, which cannot be stored.");
}

const escaped = (key: string): string => `/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
