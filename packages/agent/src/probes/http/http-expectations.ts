import type { HttpCheck } from "@statusmesh/shared/checks/http";
import type { Expectation } from "@statusmesh/shared/checks/expectations";
import {
  compilePath,
  type JsonPath,
  maxDepth,
  PathTooLarge,
  type Selected,
} from "@statusmesh/shared/checks/json-paths";
import { compilePattern, type Pattern } from "@statusmesh/shared/checks/patterns";
import { isMarkup, jsonTextOf, textOf } from "../../http/charset.ts";
import { parsedJson } from "@statusmesh/shared/json";
import type { CheckStatus } from "@statusmesh/shared/protocol/result";

const expectationFields = [
  "expected_headers",
  "expected_body_contains",
  "expected_body_absent",
  "body_case_insensitive",
  "expected_body_matches",
  "expected_body_not_matches",
  "expected_json",
] as const;

/** What a check expects of headers and body beside the status: data that can be sent to a thread. */
export type HttpExpectations = Pick<HttpCheck, (typeof expectationFields)[number]>;

/** Those of a check: without the request, which may have secrets. */
export const expectationsOf = (spec: HttpCheck): HttpExpectations =>
  Object.fromEntries(expectationFields.map((name) => [name, spec[name]])) as HttpExpectations;

/** A response as far as expectations read it. */
export interface Received {
  /** Values of the expected headers, in the order of the check. */
  headers: readonly (readonly string[])[];
  /** Without content codings. */
  body: Uint8Array;
  /** The charset that Content-Type names, in lower case. */
  charset: string | null;
  /** True when the body is longer than what was read. */
  cut: boolean;
  /** Content-Type of the response. */
  contentType: string;
}

/** The first expectation that is not met. */
export interface Unmet {
  status: CheckStatus;
  /** The message; `got` stands between the two parts. */
  before: string;
  /** A part of the response, not masked or cut yet; null where the message has none. */
  got: string | null;
  after: string;
  /** Name of the header that `got` is the value of. */
  header?: string;
  /** True for what must be absent and is there: nothing that follows could mend it. */
  isPresent?: true;
}

/** Longest text of a response in a message before it is masked and cut, characters. */
const maxQuoted = 4096;

const unmet = (before: string): Unmet => ({ status: "down", before, got: null, after: "" });

/** Expectations that are compiled. */
export interface Judge {
  /** The first unmet expectation; null when all are met. `onJson` is called before the slow part of it. */
  judge(received: Received, onJson?: () => void): Unmet | null;
  /** Whether it reads the body, and whether as text: JSON has a charset of its own. */
  readonly needsBody: boolean;
  readonly needsText: boolean;
  /** Upper bound of the steps that judging a response takes; Infinity where only running it tells. */
  cost(received: Received): number;
}

/** Compiles the expectations of a check, which the control plane has validated. */
export function compileExpectations(spec: HttpExpectations): Judge {
  const matches = spec.expected_body_matches === null ? null : compilePattern(spec.expected_body_matches);
  const notMatches = spec.expected_body_not_matches === null ? null : compilePattern(spec.expected_body_not_matches);
  const headers = spec.expected_headers.map((one) => ({
    ...one,
    holds: comparison(one, typeof one.value === "number"),
  }));
  const json = spec.expected_json.map((one) => ({
    ...one,
    holds: comparison(one, false),
    query: compilePath(one.path),
  }));
  const caseless = spec.body_case_insensitive;
  const [contains, absent] = [spec.expected_body_contains, spec.expected_body_absent].map((text) =>
    text !== null && caseless ? fold(text) : text,
  ) as [string | null, string | null];
  const needsText = [contains, absent, matches, notMatches].some((one) => one !== null);
  const needsBody = needsText || json.length > 0;
  const patterns = [matches, notMatches, ...json.map(({ holds }) => holds.pattern)];
  const sizeOf = (all: readonly (Pattern | null)[]): number => all.reduce((sum, one) => sum + (one?.size ?? 0), 0);
  // A search for a text compares up to its length at each place.
  const bodySteps = sizeOf(patterns) + json.length + (contains?.length ?? 0) / 8 + (absent?.length ?? 0) / 8 + 20;
  const isBounded = json.every(({ query }) => query.isSingular);
  const unmetText = (bytes: Buffer, received: Received): Unmet | null => {
    const { charset: label, contentType, cut } = received;
    const text = textOf(bytes, { label, markup: isMarkup(contentType), cut });
    const searched = caseless && (contains !== null || absent !== null) ? fold(text) : text;
    const what = (shown: string): string => `${bodyIn(received)} ${shown}`;
    if (contains !== null && !searched.includes(contains)) return missingText(spec.expected_body_contains!, received);
    if (absent !== null && searched.includes(absent))
      return { ...unmet(what(`contains ${quoted(spec.expected_body_absent!)}`)), isPresent: true };
    if (matches?.test(text) === false) return unmet(what(`does not match ${quoted(spec.expected_body_matches!)}`));
    if (notMatches?.test(text) === true)
      return { ...unmet(what(`matches ${quoted(spec.expected_body_not_matches!)}`)), isPresent: true };
    return null;
  };

  return {
    needsBody,
    needsText,
    judge(received, onJson) {
      for (const [at, one] of headers.entries()) {
        const found = unmetHeader(one, received.headers[at]!);
        if (found !== null) return found;
      }
      if (!needsBody) return null;
      const bytes = Buffer.from(received.body.buffer, received.body.byteOffset, received.body.length);
      const found = needsText ? unmetText(bytes, received) : null;
      if (found !== null) return found;
      if (json.length === 0) return null;
      onJson?.();
      return unmetJson(json, bytes, received);
    },
    cost(received) {
      if (!isBounded && received.body.length > 0) return Infinity;
      const ofHeaders = headers.reduce(
        (sum, { holds }, at) => sum + sizeOf([holds.pattern]) * received.headers[at]!.join("").length,
        0,
      );
      return ofHeaders + (needsBody ? bodySteps * received.body.length : 0);
    },
  };
}

const bodyIn = ({ cut }: Pick<Received, "cut">): string => (cut ? "the first MiB of the body" : "the body");

/** The verdict on a body without the expected text. */
export const missingText = (text: string, received: Pick<Received, "cut">): Unmet =>
  unmet(`${bodyIn(received)} does not contain ${quoted(text)}`);

interface Comparison {
  (value: unknown): boolean;
  pattern: Pattern | null;
}

/** Compares one value of a response. `asNumber`: a header is read as a number. */
function comparison({ op, value: wanted }: Expectation, asNumber: boolean): Comparison {
  const pattern = op === "matches" ? compilePattern(wanted as string) : null;
  const number = (value: unknown): number | bigint =>
    typeof value === "number" || typeof value === "bigint"
      ? value
      : typeof value === "string" && value.trim() !== ""
        ? Number(value)
        : NaN;
  const equals = (value: unknown): boolean =>
    typeof value === "bigint" ? String(value) === String(wanted) : (asNumber ? number(value) : value) === wanted;
  const tests: Record<Expectation["op"], (value: unknown) => boolean> = {
    eq: equals,
    ne: (value) => !equals(value),
    lt: (value) => number(value) < (wanted as number),
    le: (value) => number(value) <= (wanted as number),
    gt: (value) => number(value) > (wanted as number),
    ge: (value) => number(value) >= (wanted as number),
    contains: (value) =>
      typeof value === "string"
        ? typeof wanted === "string" && value.includes(wanted)
        : Array.isArray(value) && value.includes(wanted),
    matches: (value) => typeof value === "string" && pattern!.test(value),
    exists: () => true,
    absent: () => false,
  };
  return Object.assign(tests[op], { pattern });
}

/** ` expected "ok"`, after what came. */
function expected({ op, value }: Expectation): string {
  const shown = typeof value === "string" ? quoted(value) : String(value);
  const words: Record<Expectation["op"], string> = {
    eq: shown,
    ne: `another value`,
    lt: `less than ${shown}`,
    le: `at most ${shown}`,
    gt: `more than ${shown}`,
    ge: `at least ${shown}`,
    contains: `one that contains ${shown}`,
    matches: `one that matches ${shown}`,
    exists: "a value",
    absent: "none",
  };
  return `, expected ${words[op]}`;
}

/** Null when one of the values holds; the message shows the first one. */
function unmetOf(
  one: Expectation & { holds: Comparison },
  subject: string,
  values: readonly unknown[],
  nothing: string,
  shown = (value: unknown): string => shownOf(value),
): Unmet | null {
  if (one.op === "absent" ? values.length === 0 : values.some((value) => one.holds(value))) return null;
  const others = values.length > 1 ? ` and ${values.length - 1} more` : "";
  return values.length === 0
    ? unmet(`${subject} ${nothing}${expected(one)}`)
    : { status: "down", before: `${subject} is `, got: shown(values[0]), after: `${others}${expected(one)}` };
}

function unmetHeader(
  one: HttpExpectations["expected_headers"][number] & { holds: Comparison },
  values: readonly string[],
): Unmet | null {
  const found = unmetOf(one, `header ${one.name}`, values, "is absent");
  return found === null || found.got === null ? found : { ...found, header: one.name };
}

function unmetJson(
  json: readonly (HttpExpectations["expected_json"][number] & { holds: Comparison; query: JsonPath })[],
  bytes: Buffer,
  { cut, contentType }: Received,
): Unmet | null {
  if (cut)
    return {
      ...unmet("the body is larger than 1 MiB, expected_json reads the first 1 MiB"),
      status: "error",
    };
  const text = jsonTextOf(bytes);
  if (isTooDeep(text)) return unmet("the body is nested too deeply");
  const document = parsedJson(text);
  if (document === undefined) return unmet(`the body is not JSON (${mediaType(contentType)})`);
  for (const one of json) {
    try {
      const selected = one.query.select(document);
      const values = selected.map((node) =>
        isLossy(node.value) ? exactOf(node.value, numberIn(text, node)) : node.value,
      );
      const shown = (value: unknown): string =>
        typeof value === "number" ? numberIn(text, selected[0]!).slice(0, maxQuoted) : shownOf(value);
      const found = unmetOf(one, one.path, values, "selects nothing", shown);
      if (found !== null) return found;
    } catch (error) {
      if (error instanceof PathTooLarge) return { ...unmet(`${one.path}: ${error.message}`), status: "error" };
      throw error;
    }
  }
  return null;
}

/** True for integers of which a number keeps the first digits only. */
const isLossy = (value: unknown): value is number => Number.isInteger(value) && !Number.isSafeInteger(value);

const exactOf = (value: number, written: string): number | bigint =>
  /^-?\d+$/.test(written) ? BigInt(written) : value;

/** A number of a JSON text as it is written there. */
function numberIn(text: string, { value, location }: Selected): string {
  const quotedNumbers = text.replaceAll(/"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/gs, (part) =>
    part.startsWith('"') ? part : `"${part}"`,
  );
  let found: unknown = JSON.parse(quotedNumbers);
  for (const step of location) found = (found as Record<string | number, unknown>)[step];
  return typeof found === "string" ? found : String(value);
}

const mediaType = (contentType: string): string => contentType.split(";")[0]!.trim().slice(0, 100) || "no content type";

/** True when brackets outside of strings are nested deeper than a document that is read. */
function isTooDeep(text: string): boolean {
  let depth = 0;
  let inString = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (inString) {
      if (code === 0x5c) at++;
      else if (code === 0x22) inString = false;
    } else if (code === 0x22) inString = true;
    else if (code === 0x5b || code === 0x7b) {
      if (++depth > maxDepth) return true;
    } else if (code === 0x5d || code === 0x7d) depth--;
  }
  return false;
}

/** A value of a response as JSON, cut before it is turned into text where it is long. */
function shownOf(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.slice(0, maxQuoted));
  if (Array.isArray(value)) return `an array of ${value.length}`;
  return typeof value === "object" && value !== null ? "an object" : String(value);
}

/** A text in quotation marks: at most 200 characters, control characters escaped. */
const quoted = (text: string): string => shortened(JSON.stringify(text.slice(0, 201)));

/** At most 200 characters of a text in a message, with control and invisible characters escaped. */
export function shortened(text: string): string {
  const escaped = text.replaceAll(
    /[\p{Cc}\p{Cf}\u2028\u2029]/gu,
    (character) => `\\u${character.codePointAt(0)!.toString(16).padStart(4, "0")}`,
  );
  return escaped.length > 202 ? `${escaped.slice(0, 200)}…${text.startsWith('"') ? '"' : ""}` : escaped;
}

const folded = new Map<string, string>();

/** Simple case folding (Unicode CaseFolding.txt, status C and S): one character becomes one character. */
export function fold(text: string): string {
  // Most texts have ASCII letters only.
  if (!/[^\0-\x7f]/.test(text)) return text.toLowerCase();
  return text.replaceAll(/[A-Z]+|[^\0-\x7f]/gu, (part) => {
    if (part < "\x80") return part.toLowerCase();
    let known = folded.get(part);
    if (known === undefined) {
      const upper = sameLength(part, part.toUpperCase());
      known = sameLength(upper, upper.toLowerCase());
      if (folded.size < 10_000) folded.set(part, known);
    }
    return known;
  });
}

const sameLength = (from: string, to: string): string => (to.length === from.length ? to : from);
