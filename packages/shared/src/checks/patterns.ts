import { createRequire } from "node:module";
import type * as re2js from "re2js";
import { messageOf } from "../thrown.ts";

/*
 * Patterns of tenants: RE2 syntax, linear in time. re2js and not re2-wasm: it is released every month (the other had
 * its last release in 2024), has 46 kB gzipped (307), and its DFA searches a MiB in 0.4 to 110 ms (40 to 200), with
 * `^(a?){500}a{500}$` in 0.5 s (3.7).
 */

// Loaded on first use: it takes 30 ms, and most checks have no pattern.
let library: typeof re2js | undefined;
const re2 = (): typeof re2js => (library ??= createRequire(import.meta.url)("re2js") as typeof re2js);

/** Instructions of a program. A repetition multiplies them: compiling 80,000 takes 0.2 s. */
const maxProgram = 3000;
/** Memory of the automaton that a pattern keeps between two searches, bytes. Hostile texts fill 8 MB. */
const maxKept = 256 * 1024;

/** A pattern that cannot be compiled, in words. */
export class PatternError extends Error {
  override readonly name = "PatternError";
}

/** A compiled pattern. */
export interface Pattern {
  /** Instructions of its program: the cost of a search is at most this times the length of the text. */
  readonly size: number;
  /** True when it matches anywhere in the text. */
  test(text: string): boolean;
  /** True when it matches the whole text. */
  matchesAll(text: string): boolean;
}

/** Compiled texts that are kept: many checks expect the same, and compiling takes 0.1 to 20 ms. */
const maxCompiled = 1000;

/** Memoises a compiler by its text. */
export function compiledOnce<T>(compile: (text: string) => T): (text: string) => T {
  const known = new Map<string, T>();
  return (text) => {
    let compiled = known.get(text);
    if (compiled === undefined) {
      compiled = compile(text);
      if (known.size >= maxCompiled) known.clear();
      known.set(text, compiled);
    }
    return compiled;
  };
}

/** Compiles a pattern. Throws {@link PatternError} with the position. */
export const compilePattern = compiledOnce(compile);

function compile(text: string): Pattern {
  if (expanded(text) > maxProgram) throw new PatternError("it is too large: repetitions multiply it");
  let pattern: re2js.RE2JS;
  try {
    pattern = re2().RE2JS.compile(text);
  } catch (error) {
    throw new PatternError(wordsOf(messageOf(error), text), { cause: error });
  }
  const size = pattern.programSize();
  if (size > maxProgram) throw new PatternError("it is too large: repetitions multiply it");
  const bounded = (found: boolean): boolean => {
    const compiled = pattern.re2();
    const dfa = compiled.lazyDFA as typeof compiled.lazyDFA | null;
    if (dfa !== null && dfa.maxMem - dfa.memBudget > maxKept) pattern.reset();
    return found;
  };
  return {
    size,
    test: (subject) => bounded(pattern.test(subject)),
    matchesAll: (subject) => bounded(pattern.testExact(subject)),
  };
}

/** `error parsing regexp: missing closing ): `(a`` as `missing closing ), at character 1: (a`. */
function wordsOf(message: string, text: string): string {
  const [, words = message, part = ""] = /^error parsing regexp: (.*?)(?:: `(.*)`)?$/s.exec(message) ?? [];
  if (words === "invalid or unsupported Perl syntax" || words === "invalid named capture")
    return `RE2 has no ${part.slice(0, 20)} (at character ${text.indexOf(part) + 1}): look-around is not supported`;
  return part === "" ? words : `${words}, at character ${text.indexOf(part) + 1}: ${part.slice(0, 40)}`;
}

/** Upper bound of the characters and classes of a pattern with its repetitions written out; cheap, before it is. */
function expanded(text: string): number {
  const outer: number[] = [];
  let total = 0;
  let last = 0;
  for (const [part] of text.matchAll(/\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|\{\d+(?:,\d*)?\}|./gsu)) {
    if (part === "(") {
      outer.push(total);
      total = last = 0;
    } else if (part === ")" && outer.length > 0) {
      last = total;
      total += outer.pop()!;
    } else if (/^\{\d/.test(part)) {
      const [least = 0, most = 0] = part.slice(1, -1).split(",").map(Number);
      total += last * (Math.max(least, most, 1) - 1);
      last *= Math.max(least, most, 1);
    } else {
      total += 1;
      last = 1;
    }
    if (total > 1e6) return total;
  }
  return outer.reduce((sum, one) => sum + one, total);
}
