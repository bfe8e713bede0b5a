import type { TSchema } from "typebox";
import { Compile, type Validator } from "typebox/compile";
import { type ErrorCode, isErrorCode } from "../errors.ts";
import { isObject } from "../json.ts";
import type { SchemaNode } from "./schema-node.ts";
import { isLonger, suggestion } from "../text.ts";

/*
 * The faults of a value against its schema, in words. Generators: a caller that needs one fault pays for one.
 */

export interface Problem {
  pointer: string;
  message: string;
  code: ErrorCode;
}

type Problems = Generator<Problem, void>;

const validators = new WeakMap<object, Validator>();

/** The compiled validator of a schema. */
export function validatorOf(schema: object): Validator {
  let validator = validators.get(schema);
  if (validator === undefined) {
    validator = Compile(schema as TSchema);
    validators.set(schema, validator);
  }
  return validator;
}

/** The code of a node, or that of the nodes around it. */
export const codeOf = (node: SchemaNode, outer: ErrorCode): ErrorCode =>
  isErrorCode(node.errorCode) ? node.errorCode : outer;

export const firstOf = (problems: Problems): Problem | null => problems.next().value ?? null;

/** A list or object that is none. */
export const notOf = (type: "array" | "object", pointer: string, code: ErrorCode): Problem => ({
  pointer,
  code,
  message: `${name(pointer)} must be an ${type}.`,
});

/** The branch of a union that the value was meant for; undefined where it could be several, or none. */
export function branchFor(node: SchemaNode, branches: SchemaNode[], value: unknown): SchemaNode | undefined {
  const tag = node.discriminator;
  if (tag !== undefined && isObject(value))
    return branches.find((branch) => branch.properties?.[tag]?.const === value[tag]);
  const real = branches.filter((branch) => branch.type !== "null");
  const sameType = real.filter((branch) => typeOf(value) === branch.type);
  return sameType.length === 1 ? sameType[0] : real.length === 1 ? real[0] : undefined;
}

/** The faults of a value from the outside in; in a union those of the branch that was meant. */
export function* problemsOf(node: SchemaNode, value: unknown, pointer: string, outer: ErrorCode): Problems {
  const code = codeOf(node, outer);
  if (node.anyOf !== undefined) yield* unionProblems(node, node.anyOf, value, pointer, code);
  else if (node.type === "object") yield* objectProblems(node, value, pointer, code);
  else if (node.type === "array") yield* arrayProblems(node, value, pointer, code);
  else {
    const problem = leafProblem(node, value, pointer, code);
    if (problem !== null) yield problem;
  }
}

function leafProblem(node: SchemaNode, value: unknown, pointer: string, code: ErrorCode): Problem | null {
  const [error] = validatorOf(node).Errors(value);
  if (error === undefined) return null;
  const fitsType = node.type === undefined || typeFits(node.type, value);
  const long = typeof value === "string" && isLonger(value, node.maxLength ?? Infinity);
  if (node.expects !== undefined && !long && (!fitsType || node.pattern !== undefined))
    return { pointer, code, message: `${node.expects}.` };
  const own = long && isErrorCode(node.longCode) ? node.longCode : code;
  return { pointer, code: own, message: `${name(pointer)} ${leafMessage(node, value, fitsType, error.message)}.` };
}

const typeWords: Readonly<Record<string, string>> = {
  string: "a string",
  integer: "a whole number",
  number: "a number",
  boolean: "true or false",
};

const formatWords: Readonly<Record<string, string>> = {
  uuid: "an id (a UUID)",
  "date-time": "an RFC 3339 time, like 2026-11-20T09:30:00Z",
};

const typeFits = (type: string, value: unknown): boolean =>
  type === "number" ? typeof value === "number" : typeOf(value) === type;

function leafMessage(node: SchemaNode, value: unknown, fitsType: boolean, message: string): string {
  if (node.const !== undefined) return `must be ${JSON.stringify(node.const)}`;
  if (node.enum !== undefined) return `must be one of ${node.enum.join(", ")}`;
  if (!fitsType) return `must be ${typeWords[node.type!] ?? node.type!}`;
  const format = formatWords[node.format ?? ""];
  if (format !== undefined) return `must be ${format}`;
  if (typeof value === "number") {
    if (value < (node.minimum ?? -Infinity)) return `must be at least ${node.minimum}`;
    if (value > (node.maximum ?? Infinity)) return `must be at most ${node.maximum}`;
  }
  if (typeof value === "string") {
    const { minLength = 0, maxLength = Infinity } = node;
    if (!isLonger(value, minLength - 1)) return `must have at least ${minLength} character${plural(minLength)}`;
    if (isLonger(value, maxLength)) return `must have at most ${maxLength} character${plural(maxLength)}`;
  }
  return message;
}

export function* unionProblems(
  node: SchemaNode,
  branches: SchemaNode[],
  value: unknown,
  pointer: string,
  code: ErrorCode,
): Problems {
  if (validatorOf(node).Check(value)) return;
  const meant = branchFor(node, branches, value);
  if (meant !== undefined) {
    yield* problemsOf(meant, value, pointer, code);
    return;
  }
  const tag = node.discriminator;
  if (tag !== undefined && isObject(value)) {
    const tags = branches.map((branch) => branch.properties?.[tag]?.const);
    const at = joinPointer(pointer, tag);
    yield { pointer: at, code, message: `${name(at)} must be one of ${tags.join(", ")}.` };
    return;
  }
  const kinds = branches.map(({ const: only, type = "" }) =>
    only === undefined ? (typeWords[type] ?? type.replace(/^(?=[ao])/, "an ")) : JSON.stringify(only),
  );
  yield { pointer, code, message: `${name(pointer)} must be ${[...new Set(kinds)].join(" or ")}.` };
}

function* objectProblems(node: SchemaNode, value: unknown, pointer: string, code: ErrorCode): Problems {
  if (!isObject(value)) {
    yield notOf("object", pointer, code);
    return;
  }
  const properties = node.properties ?? {};
  const keys = Object.keys(value);
  yield* unknownKeyProblems(node, keys, pointer);
  for (const key of node.required ?? []) {
    // A union fills in defaults only in a branch that fits, so a field with a default may be missing without a fault.
    const { errorCode: own, default: fallback } = properties[key] ?? {};
    if (fallback === undefined && !Object.hasOwn(value, key)) {
      const at = joinPointer(pointer, key);
      yield { pointer: at, code: isErrorCode(own) ? own : code, message: `${name(at)} is required.` };
    }
  }
  const count = keyCountProblem(node, keys.length, pointer, code);
  if (count !== null) {
    yield count;
    return;
  }
  const any = Object.values(node.patternProperties ?? {})[0];
  for (const key of keys) {
    const child = Object.hasOwn(properties, key) ? properties[key] : any;
    if (child !== undefined) yield* mismatchProblems(child, value[key], joinPointer(pointer, key), code);
  }
}

/** {@link problemsOf} for one of many: most fit, and a check is a hundred times cheaper than a search for faults. */
function* mismatchProblems(node: SchemaNode, value: unknown, pointer: string, code: ErrorCode): Problems {
  if (!validatorOf(node).Check(value)) yield* problemsOf(node, value, pointer, code);
}

export function* unknownKeyProblems(node: SchemaNode, keys: readonly string[], pointer: string): Problems {
  if (node.additionalProperties !== false) return;
  const { properties = {} } = node;
  for (const key of keys) {
    if (Object.hasOwn(properties, key)) continue;
    yield {
      pointer: joinPointer(pointer, key),
      code: "UNKNOWN_FIELD",
      message: `There is no field "${key}" here.${suggestion(key, Object.keys(properties))}`,
    };
  }
}

export function keyCountProblem(node: SchemaNode, count: number, pointer: string, code: ErrorCode): Problem | null {
  const wanted = wantedCount(count, node.minProperties ?? 0, node.maxProperties ?? Infinity, "field");
  return wanted === null ? null : { pointer, code, message: `${name(pointer)} must have ${wanted}.` };
}

/** How many there must be, in words; null where `count` is in the bounds. */
function wantedCount(count: number, least: number, most: number, unit: string): string | null {
  if (count >= least && count <= most) return null;
  if (least === most) return `exactly ${least} ${unit}${plural(least)}`;
  return count < least ? `at least ${least} ${unit}${plural(least)}` : `at most ${most} ${unit}${plural(most)}`;
}

const plural = (count: number): string => (count === 1 ? "" : "s");

function* arrayProblems(node: SchemaNode, value: unknown, pointer: string, code: ErrorCode): Problems {
  if (!Array.isArray(value)) {
    yield notOf("array", pointer, code);
    return;
  }
  const length = lengthProblem(node, value.length, pointer, code);
  if (length !== null) {
    yield length;
    return;
  }
  let isFaulty = false;
  for (const [at, item] of value.entries()) {
    const child = Array.isArray(node.items) ? node.items[at] : node.items;
    if (child === undefined) continue;
    for (const problem of mismatchProblems(child, item, joinPointer(pointer, String(at)), code)) {
      isFaulty = true;
      yield problem;
    }
  }
  if (isFaulty) return;
  // Items in a union may lack fields that have a default, as in `objectProblems`: those are no faults.
  const error = validatorOf(node)
    .Errors(value)
    .find(({ instancePath }) => instancePath === "");
  if (error !== undefined) yield { pointer, code, message: `${name(pointer)} ${error.message}.` };
}

/** A list that has fewer or more items than its schema allows. */
export function lengthProblem(node: SchemaNode, length: number, pointer: string, code: ErrorCode): Problem | null {
  const { minItems = 0, maxItems = Array.isArray(node.items) ? node.items.length : Infinity } = node;
  const wanted = wantedCount(length, minItems, maxItems, "item");
  if (wanted === null) return null;
  const own = node.sizeCodes?.[length < minItems ? 0 : 1];
  return { pointer, code: isErrorCode(own) ? own : code, message: `${name(pointer)} must have ${wanted}.` };
}

export const typeOf = (value: unknown): string =>
  value === null ? "null" : Array.isArray(value) ? "array" : Number.isInteger(value) ? "integer" : typeof value;
export const joinPointer = (pointer: string, key: string): string =>
  `${pointer}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;

/** The place in words: `check.timeout`, or "The body". */
function name(pointer: string): string {
  const path = pointer
    .replace(/^\/query/, "")
    .slice(1)
    .replaceAll("/", ".")
    .replaceAll("~1", "/")
    .replaceAll("~0", "~");
  return path === "" ? "The body" : path;
}
