import type { Static, TSchema } from "typebox";
import { Default } from "typebox/value";
import { AppError, type ErrorCode } from "../errors.ts";
import { Faults } from "./faults.ts";
import { isObject, type Json } from "../json.ts";
import {
  branchFor,
  codeOf,
  firstOf,
  joinPointer,
  keyCountProblem,
  lengthProblem,
  notOf,
  type Problem,
  problemsOf,
  typeOf,
  unionProblems,
  unknownKeyProblems,
  validatorOf,
} from "./problems.ts";
import type { SchemaNode } from "./schema-node.ts";
import { cleanTexts } from "../text.ts";

export type { SchemaNode } from "./schema-node.ts";

/**
 * Checks `value` against `schema`, fills in the defaults of omitted fields and cleans its texts, in place or in a copy,
 * and returns it typed. Throws an AppError whose field is a JSON pointer and whose code is the nearest `errorCode` of
 * the schema; `details.errors` has all faults where there are several, except that a list or object with too many items
 * is reported alone.
 */
export function validate<S extends TSchema>(schema: S, value: unknown, base = ""): Static<S> {
  const faults = new Faults();
  // Sizes first: filling in defaults takes 18 us for each item of a list, however many there are.
  const oversize = sizeProblem(schema as SchemaNode, value, base, "INVALID_BODY");
  if (oversize !== null) throw refusal(oversize);
  const filled = withDefaults(schema, value);
  if (!validatorOf(schema).Check(filled)) {
    addProblems(faults, schema, filled, base);
    if (faults.isEmpty) faults.add(new AppError("INVALID_BODY", "The value does not fit.", { field: base }));
  }
  const clean = cleanTexts(schema, filled as Static<S>, base, faults);
  faults.throwAny();
  return clean;
}

/** Finds no more faults than `faults` takes: the time for a hostile value is that for its first faults. */
function addProblems(faults: Faults, schema: TSchema, value: unknown, base: string): void {
  for (const problem of problemsOf(schema as SchemaNode, value, base, "INVALID_BODY")) {
    faults.add(refusal(problem));
    if (faults.isFull) return;
  }
}

const refusal = ({ code, message, pointer }: Problem): AppError => new AppError(code, message, { field: pointer });

/**
 * Throws what {@link validate} throws for a list of `length` items where `schema`, that of the list, allows fewer or
 * more.
 */
export function refuseLength(schema: TSchema, length: number, base: string): void {
  const problem = lengthProblem(schema as SchemaNode, length, base, codeOf(schema as SchemaNode, "INVALID_BODY"));
  if (problem !== null) throw refusal(problem);
}

/**
 * Fills in the defaults of omitted fields, of few of them in place; in a union those of the branch that the value was
 * meant for. The library tries every branch on a copy, in 180 us for a monitor instead of 8.
 */
function withDefaults(schema: TSchema, value: unknown): unknown {
  const node = schema as SchemaNode;
  const filled = value === undefined && node.default !== undefined ? copyOf(node.default) : value;
  if (typeof filled !== "object" || filled === null || !hasDefaults(node)) return filled;
  const { anyOf, properties = {}, items } = node;
  if (anyOf !== undefined) {
    const branch = branchFor(node, anyOf, filled);
    return branch === undefined ? Default(schema, filled) : withDefaults(branch as TSchema, filled);
  }
  if (node.type === "array") return Array.isArray(filled) ? withItems(schema, items, filled) : filled;
  if (!isObject(filled) || node.patternProperties !== undefined || typeof node.additionalProperties === "object")
    return Default(schema, filled);
  const { fields, template, needed } = fillingOf(node, properties);
  const whole =
    template !== null && needed.every((name) => Object.hasOwn(filled, name))
      ? Object.assign({ ...template }, filled)
      : filled;
  for (const [key, child] of fields) {
    const field = withDefaults(child, Object.hasOwn(filled, key) ? filled[key] : undefined);
    if (field !== undefined) whole[key] = field;
  }
  return whole;
}

/** How the defaults of an object are filled in. */
interface Filling {
  /** Those that have a default, or something in them that has one. */
  readonly fields: readonly [string, TSchema][];
  /** Required ones without a default. */
  readonly needed: readonly string[];
  /** An object with all that is required or has a default; null where these are few. */
  readonly template: Json | null;
}

const fillings = new WeakMap<object, Filling>();

/** V8 makes a hash table of an object to which more fields are added by name: 1.8 KB for a check, of 0.2. */
const mostAdded = 12;

function fillingOf(node: SchemaNode, properties: Record<string, SchemaNode>): Filling {
  let filling = fillings.get(node);
  if (filling === undefined) {
    const fields = (Object.entries(properties) as [string, TSchema][]).filter(([, child]) => hasDefaults(child));
    const names = fields.flatMap(([name, child]) => ((child as SchemaNode).default === undefined ? [] : [name]));
    const needed = (node.required ?? []).filter((name) => !names.includes(name));
    const all = Object.fromEntries([...needed, ...names].map((name) => [name, null]));
    // Of parsed objects the fields are in the object.
    const template = names.length <= mostAdded ? null : (JSON.parse(JSON.stringify(all)) as Json);
    filling = { fields, needed, template };
    fillings.set(node, filling);
  }
  return filling;
}

/** A copy of a default; most are texts and numbers, and the library call takes 5 us. */
function copyOf(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(copyOf);
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, copyOf(item)]));
}

function withItems(schema: TSchema, items: SchemaNode["items"], list: unknown[]): unknown {
  if (items === undefined || Array.isArray(items)) return Default(schema, list);
  for (const [at, item] of list.entries()) list[at] = withDefaults(items as TSchema, item);
  return list;
}

const nodesWithDefaults = new WeakMap<object, boolean>();

/** Filling in defaults walks the whole value, which a batch of a thousand results without any would pay for. */
function hasDefaults(node: object): boolean {
  let found = nodesWithDefaults.get(node);
  if (found === undefined) {
    found = JSON.stringify(node).includes('"default":');
    nodesWithDefaults.set(node, found);
  }
  return found;
}

/** True when `value` fits; for replies and for values of our own. */
export function fits(schema: TSchema, value: unknown): boolean {
  return validatorOf(schema).Check(value);
}

/**
 * The first value that should be a list or an object and is not, or has more entries than its schema allows. Entries
 * beyond the limit are not read.
 */
function sizeProblem(node: SchemaNode, value: unknown, pointer: string, outer: ErrorCode): Problem | null {
  if (typeof value !== "object" || value === null) return null;
  const code = codeOf(node, outer);
  if (node.anyOf !== undefined) {
    const meant = branchFor(node, node.anyOf, value);
    if (meant !== undefined) return sizeProblem(meant, value, pointer, code);
    return node.discriminator === undefined && node.anyOf.some((branch) => mayTake(branch, value))
      ? null
      : firstOf(unionProblems(node, node.anyOf, value, pointer, code));
  }
  if (node.type === "array") return listSizeProblem(node, value, pointer, code);
  if (node.type === "object") return objectSizeProblem(node, value, pointer, code);
  return null;
}

function listSizeProblem(node: SchemaNode, value: object, pointer: string, code: ErrorCode): Problem | null {
  if (!Array.isArray(value)) return notOf("array", pointer, code);
  const problem = lengthProblem(node, value.length, pointer, code);
  const { items } = node;
  if (problem !== null || items === undefined || (!Array.isArray(items) && isLeaf(items))) return problem;
  for (let at = 0; at < value.length; at++) {
    const child = Array.isArray(items) ? items[at] : items;
    const inner = child === undefined ? null : sizeProblem(child, value[at], `${pointer}/${at}`, code);
    if (inner !== null) return inner;
  }
  return null;
}

/** Keys of an object whose unknown ones are found later, with all other faults; no schema of ours has as many. */
const manyKeys = 100;

function objectSizeProblem(node: SchemaNode, value: object, pointer: string, code: ErrorCode): Problem | null {
  if (!isObject(value)) return notOf("object", pointer, code);
  const keys = Object.keys(value);
  const unknown = keys.length > manyKeys ? firstOf(unknownKeyProblems(node, keys, pointer)) : null;
  const problem = unknown ?? keyCountProblem(node, keys.length, pointer, code);
  if (problem !== null) return problem;
  const { properties = {} } = node;
  for (const key of Object.keys(properties)) {
    const field = Object.hasOwn(value, key) ? value[key] : null;
    // Only lists and objects have a size; a batch of results has 20,000 other fields.
    if (typeof field !== "object" || field === null) continue;
    const inner = sizeProblem(properties[key]!, field, joinPointer(pointer, key), code);
    if (inner !== null) return inner;
  }
  return null;
}

/** True for a schema without a type, or of the type of the value. */
const mayTake = ({ type, const: only, enum: some }: SchemaNode, value: object): boolean =>
  type === undefined ? only === undefined && some === undefined : type === typeOf(value);

const isLeaf = (node: SchemaNode): boolean =>
  node.anyOf === undefined && node.type !== "array" && node.type !== "object";
