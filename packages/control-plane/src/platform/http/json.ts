import { AppError } from "@statusmesh/shared/errors";
import { messageOf } from "@statusmesh/shared/thrown";

const maxDepth = 32;

/** Structural characters of JSON. */
export const [quote, comma, colon, openBracket, backslash, closeBracket, openBrace, closeBrace] = [
  0x22, 0x2c, 0x3a, 0x5b, 0x5c, 0x5d, 0x7b, 0x7d,
] as const;

/**
 * Parses JSON. Throws INVALID_JSON, or INVALID_BODY for values that cannot be stored: NUL, lone surrogates, numbers
 * outside the safe range, nesting over 32 levels. For a part of a larger text, `base` is its pointer and `depth` the
 * number of levels around it.
 */
export function parseJson(text: string, base = "", depth = 0): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    const place = base === "" ? "" : ` at ${base}`;
    throw new AppError("INVALID_JSON", `The body is not JSON${place}: ${messageOf(cause)}.`, { cause });
  }
  if (suspicious.test(text) || isDeep(text, maxDepth - depth)) {
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

/** Every value that cannot be stored has one of these in its text: an escape, a long or scaled number, __proto__. */
const suspicious = /\\u|[0-9]{16}|[0-9][eE]|__proto__/;

/** True for a text that nests deeper than `most` levels. Costs a fifth of a walk through the parsed value. */
function isDeep(text: string, most: number): boolean {
  let depth = 0;
  let inText = false;
  for (let at = 0; at < text.length; at++) {
    const character = text.charCodeAt(at);
    if (inText) {
      if (character === backslash) at++;
      else if (character === quote) inText = false;
    } else if (character === quote) inText = true;
    else if (character === openBrace || character === openBracket) {
      if (++depth > most) return true;
    } else if (character === closeBrace || character === closeBracket) depth--;
  }
  return false;
}

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
