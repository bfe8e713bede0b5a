import { createRequire } from "node:module";
import type * as re2js from "re2js";
import { messageOf } from "../thrown.ts";
import { CompiledCache } from "./compiled.ts";

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
/** Memory of all programs of a thread, bytes; one takes at most a fiftieth of it. */
const maxPrograms = 32 * 1024 * 1024;
const maxProgramBytes = maxPrograms / 50;
/** Classes such as \pL in a pattern: each has 700 ranges, and compiling 500 takes 60 ms. */
const maxClasses = 100;
/** Measured: 211 bytes an instruction, 4.3 a bound of a character class. */
const [instructionBytes, boundBytes] = [216, 5];

/** A pattern that cannot be compiled, in words. */
export class PatternError extends Error {
  override readonly name = "PatternError";
}

/** A pattern that has been compiled once. Its program is compiled again where it was evicted. */
export interface Pattern {
  /** Instructions of its program: the cost of a search is at most this times the length of the text. */
  readonly size: number;
  /** True when it matches anywhere in the text. */
  test(text: string): boolean;
  /** True when it matches the whole text. */
  matchesAll(text: string): boolean;
}

const programs = new CompiledCache<re2js.RE2JS>(maxPrograms, (text) => {
  const value = compile(text);
  return { value, bytes: bytesOf(value) };
});

/** Memory of the programs that this thread keeps, bytes. */
export const programBytes = (): number => programs.bytes;

/** Compiles the patterns of one check, to see whether they can be used. Keeps no program. */
export class PatternCheck {
  #left = maxProgramBytes;

  /** Throws {@link PatternError} with the position, or where the patterns so far are too large together. */
  check(text: string): void {
    if (this.#left >= 0) this.#left -= bytesOf(compile(text));
    if (this.#left < 0) throw new PatternError(`the patterns of the check are too large together. ${tooLarge}`);
  }
}

/** Compiles a pattern, or takes its program from the cache. Throws {@link PatternError} with the position. */
export function compilePattern(text: string): Pattern {
  const search = (how: (program: re2js.RE2JS) => boolean): boolean => {
    const program = programs.get(text);
    const found = how(program);
    if (automatonBytes(program) > maxKept) program.reset();
    programs.weigh(text, bytesOf(program));
    return found;
  };
  return {
    size: programs.get(text).programSize(),
    test: (subject) => search((program) => program.test(subject)),
    matchesAll: (subject) => search((program) => program.testExact(subject)),
  };
}

function compile(text: string): re2js.RE2JS {
  if (expanded(text) > maxProgram || text.split(/\\[pP]/).length > maxClasses) throw new PatternError(tooLarge);
  let program: re2js.RE2JS;
  try {
    program = re2().RE2JS.compile(text);
  } catch (error) {
    throw new PatternError(wordsOf(messageOf(error), text), { cause: error });
  }
  if (program.programSize() > maxProgram || bytesOf(program) > maxProgramBytes) throw new PatternError(tooLarge);
  return program;
}

const tooLarge =
  `it is too large: repetitions such as {100} and classes such as \\pL multiply it. Compiled it may have ` +
  `${maxProgram} steps and ${maxProgramBytes / 1024} KiB`;

/** Memory of a program, with the automaton that it has built so far. */
function bytesOf(program: re2js.RE2JS): number {
  let bytes = automatonBytes(program);
  for (const { runes } of program.re2().prog.inst as { runes: ArrayLike<number> }[])
    bytes += instructionBytes + boundBytes * runes.length;
  return bytes;
}

function automatonBytes(program: re2js.RE2JS): number {
  const automaton = program.re2().lazyDFA as { maxMem: number; memBudget: number } | null;
  return automaton === null ? 0 : automaton.maxMem - automaton.memBudget;
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
