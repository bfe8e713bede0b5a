import { AppError } from "../errors.ts";
import { checkPath, PathError } from "./json-paths.ts";
import { type PatternCheck, PatternError } from "./patterns.ts";

/** Comparisons of an expectation; `exists` and `absent` have no value. */
export const ops = ["eq", "ne", "lt", "le", "gt", "ge", "contains", "matches", "exists", "absent"] as const;
export type Op = (typeof ops)[number];

export type Scalar = string | number | boolean | null;

/** What a selected value is compared with. */
export interface Expectation {
  op: Op;
  value?: Scalar;
}

const needNumber: ReadonlySet<Op> = new Set<Op>(["lt", "le", "gt", "ge"]);

/** Throws INVALID_EXPECTATION for a value that does not fit the op, INVALID_PATTERN for a pattern. */
export function expectationRule(
  { op, value }: Expectation,
  pointer: string,
  { patterns, isHeader }: { patterns: PatternCheck; isHeader: boolean },
): void {
  const refuse = (message: string) => new AppError("INVALID_EXPECTATION", message, { field: `${pointer}/value` });
  if (op === "exists" || op === "absent") {
    if (value !== undefined) throw refuse(`${op} takes no value. Remove it, or use eq.`);
    return;
  }
  if (value === undefined) throw refuse(`${op} needs a value to compare with.`);
  if (typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value) && !needNumber.has(op))
    throw refuse(
      "Numbers from 2^53 on lose their last digits on the way. Write it in quotation marks: digits are compared.",
    );
  if (needNumber.has(op) && typeof value !== "number")
    throw refuse(`${op} compares numbers, and ${JSON.stringify(value)} is none.`);
  if (isHeader && (value === null || typeof value === "boolean"))
    throw refuse(`A header is text or a number, never ${value}. Write "${value}" in quotation marks.`);
  if ((op === "matches" || (op === "contains" && isHeader)) && typeof value !== "string")
    throw refuse(`${op} takes a text.`);
  if ((op === "matches" || op === "contains") && value === "") throw refuse(`${op} takes a text that is not empty.`);
  if (op === "matches") patternRule(value as string, `${pointer}/value`, patterns);
}

/** Throws INVALID_PATTERN for a pattern that is not RE2 syntax. */
export function patternRule(pattern: string | null, pointer: string, patterns: PatternCheck): void {
  try {
    if (pattern !== null) patterns.check(pattern);
  } catch (cause) {
    if (!(cause instanceof PatternError)) throw cause;
    throw new AppError("INVALID_PATTERN", `The pattern cannot be used: ${cause.message}.`, { field: pointer, cause });
  }
}

/** Throws INVALID_PATTERN for a path that is not JSONPath, or that has a pattern that is not RE2 syntax. */
export function pathRule(path: string, pointer: string, patterns: PatternCheck): void {
  try {
    for (const pattern of checkPath(path)) patternRule(pattern, pointer, patterns);
  } catch (cause) {
    if (!(cause instanceof PathError)) throw cause;
    throw new AppError(
      "INVALID_PATTERN",
      `The path cannot be used: ${cause.message}. Write JSONPath, for example $.status or $.items[0].name.`,
      { field: pointer, cause },
    );
  }
}

/** `$.status eq "ok"`, as forms and the shell show it. */
export const expectationText = ({ subject, op, value }: Expectation & { subject: string }): string =>
  `${subject} ${op}${value === undefined ? "" : ` ${JSON.stringify(value)}`}`;

/** Reads what {@link expectationText} writes; a value that is not JSON is text. Null for another text. */
export function readExpectation(text: string): (Expectation & { subject: string }) | null {
  const line = text.trim();
  const op = [...line.matchAll(/\S+/g)].find(({ 0: word }, at) => at > 0 && (ops as readonly string[]).includes(word));
  if (op === undefined) return null;
  const found = { subject: line.slice(0, op.index).trim(), op: op[0] as Op };
  const rest = line.slice(op.index + op[0].length).trim();
  if (rest === "") return found;
  try {
    const value: unknown = JSON.parse(rest);
    if (typeof value === "number" && /^-?\d+$/.test(rest) && !Number.isSafeInteger(value))
      return { ...found, value: rest };
    return { ...found, value: typeof value === "object" && value !== null ? rest : (value as Scalar) };
  } catch {
    return { ...found, value: rest };
  }
}
