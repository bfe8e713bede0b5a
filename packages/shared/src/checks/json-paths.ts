import { createRequire } from "node:module";
import type * as library from "json-p3";
import type { JSONPathEnvironment, JSONPathNode, JSONPathQuery, JSONValue } from "json-p3";
import { messageOf } from "../thrown.ts";
import { CompiledCache } from "./compiled.ts";
import { compilePattern, type Pattern } from "./patterns.ts";

/* JSONPath (RFC 9535). The functions match() and search() run on the linear engine of {@link compilePattern}. */

/** Nesting of a document that is read. */
export const maxDepth = 200;
/** Nodes that a path visits. */
const maxVisited = 100_000;

/** A path that selects or visits more than is evaluated. */
export class PathTooLarge extends Error {
  override readonly name = "PathTooLarge";
}

/** A path that cannot be compiled, in words. */
export class PathError extends Error {
  override readonly name = "PathError";
}

/** A path that has been compiled once. It is compiled again where it was evicted. */
export interface JsonPath {
  /** True for names and indices only: evaluating it costs next to nothing. */
  readonly isSingular: boolean;
  /** The selected values, each with its place. Throws {@link PathTooLarge}. */
  select(document: unknown): Selected[];
}

/** A value of a document, and the names and indices that lead to it. */
export interface Selected {
  value: unknown;
  location: readonly (string | number)[];
}

interface Compiled {
  readonly query: JSONPathQuery;
  /** Literal patterns of match() and search(). An invalid one matches nothing (RFC 9535 sections 2.4.6 and 2.4.7). */
  readonly patterns: readonly string[];
}

/** Memory of all paths of a thread, bytes. Measured: 120 bytes a character. */
const maxPaths = 8 * 1024 * 1024;
const characterBytes = 160;

let budget = 0;
const spend = (nodes: number): void => {
  budget -= nodes;
  if (budget < 0) throw new PathTooLarge("the path selects too much");
};

/** A pattern of match() or search(), which may come from the document; an invalid one matches nothing. */
function patternOf(text: string): Pattern | null {
  try {
    return compilePattern(withNarrowDots(text));
  } catch {
    return null;
  }
}

/** The dot of I-Regexp (RFC 9485 section 5) matches no line feed and no carriage return, that of RE2 no line feed. */
function withNarrowDots(pattern: string): string {
  const parts: string[] = [];
  let inClass = false;
  for (let at = 0; at < pattern.length; at++) {
    const character = pattern[at]!;
    if (character === "[") inClass = true;
    else if (character === "]") inClass = false;
    const escaped = character === "\\" ? (pattern[++at] ?? "") : "";
    parts.push(character === "." && !inClass ? "[^\\n\\r]" : character + escaped);
  }
  return parts.join("");
}

// Loaded on first use: it takes 12 ms, and most checks have no path.
let environment: JSONPathEnvironment | undefined;
function makeEnvironment(): JSONPathEnvironment {
  const { JSONPathEnvironment: Environment, FunctionExpressionType } = createRequire(import.meta.url)(
    "json-p3",
  ) as typeof library;
  const made = new Environment({ maxRecursionDepth: maxDepth + 10 });
  const { ValueType, LogicalType } = FunctionExpressionType;
  const matching = (test: (pattern: Pattern, text: string) => boolean) => ({
    argTypes: [ValueType, ValueType],
    returnType: LogicalType,
    call(text: unknown, pattern: unknown): boolean {
      const compiled = typeof text === "string" && typeof pattern === "string" ? patternOf(pattern) : null;
      return compiled !== null && test(compiled, text as string);
    },
  });
  made.functionRegister.set(
    "match",
    matching((pattern, text) => pattern.matchesAll(text)),
  );
  made.functionRegister.set(
    "search",
    matching((pattern, text) => pattern.test(text)),
  );
  return made;
}

const paths = new CompiledCache<Compiled>(maxPaths, (text) => ({
  value: compile(text),
  bytes: 1024 + characterBytes * text.length,
}));

/** The patterns of a path. Throws {@link PathError} with the position. Keeps nothing. */
export const checkPath = (text: string): readonly string[] => compile(text).patterns;

/** Compiles a path, or takes it from the cache. Throws {@link PathError} with the position. */
export function compilePath(text: string): JsonPath {
  return {
    isSingular: paths.get(text).query.singularQuery(),
    select(document) {
      budget = maxVisited;
      try {
        return [...paths.get(text).query.lazyQuery(document as JSONValue)];
      } catch (error) {
        // The library spreads lists into arguments; a very long one overflows the stack.
        if (error instanceof RangeError) throw new PathTooLarge("the path selects too much");
        throw error;
      }
    },
  };
}

function compile(text: string): Compiled {
  let query: JSONPathQuery;
  try {
    environment ??= makeEnvironment();
    query = environment.compile(text);
  } catch (error) {
    const at = error instanceof Error && "token" in error ? (error.token as { index?: number }).index : undefined;
    const found = messageOf(error).replace(/ \('.*$/s, "");
    const words = found === "can't backup beyond start" ? "unexpected end" : found;
    throw new PathError(at === undefined ? words : `${words}, at character ${at + 1}`, { cause: error });
  }
  const patterns: string[] = [];
  count(query.segments, patterns);
  return { query, patterns };
}

interface Countable {
  visit?(node: JSONPathNode, depth?: number): Iterable<JSONPathNode>;
  resolve?(node: JSONPathNode): JSONPathNode[];
  selectors?: unknown;
  /** Of a function. */
  name?: unknown;
  args?: { value?: unknown }[];
}

/**
 * Makes every selector and descent of a compiled path, those of its filters too, spend the nodes that it visits. Adds
 * its literal patterns to `patterns`.
 */
function count(part: unknown, patterns: string[]): void {
  if (typeof part !== "object" || part === null) return;
  if (Array.isArray(part)) return part.forEach((one) => count(one, patterns));
  const one = part as Countable;
  const literal = one.args !== undefined && (one.name === "match" || one.name === "search") && one.args[1]?.value;
  if (typeof literal === "string") patterns.push(literal);
  const { visit, resolve } = one;
  if (visit !== undefined)
    one.visit = function (node, depth) {
      spend(1);
      return visit.call(this, node, depth);
    };
  else if (resolve !== undefined && one.selectors === undefined)
    one.resolve = function (node) {
      const { value } = node;
      spend(1 + (Array.isArray(value) ? value.length : 0));
      const found = resolve.call(this, node);
      spend(found.length);
      return found;
    };
  for (const [name, inner] of Object.entries(part))
    if (name !== "environment" && name !== "token") count(inner, patterns);
}
