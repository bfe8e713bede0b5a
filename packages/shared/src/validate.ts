import type { Static, TSchema } from "typebox";
import { Compile, type Validator } from "typebox/compile";
import { Default } from "typebox/value";
import { AppError, type ErrorCode, isErrorCode } from "./errors.ts";
import { cleanTexts } from "./text.ts";

/** A schema node as JSON Schema has it, with our own keywords: `errorCode`, `sizeCodes` (of an array with too few items, and with too many), `discriminator` (a union's tag) and `cap` (a silent maximum of a query parameter). */
export interface SchemaNode {
  type?: string;
  const?: unknown;
  enum?: unknown[];
  anyOf?: SchemaNode[];
  discriminator?: string;
  errorCode?: string;
  sizeCodes?: [few: string, many: string];
  cap?: number;
  default?: unknown;
  properties?: Record<string, SchemaNode>;
  patternProperties?: Record<string, SchemaNode>;
  required?: string[];
  additionalProperties?: boolean | SchemaNode;
  minProperties?: number;
  maxProperties?: number;
  items?: SchemaNode | SchemaNode[];
  minItems?: number;
  maxItems?: number;
}

interface Problem {
  pointer: string;
  message: string;
  code: ErrorCode;
}

type Json = Record<string, unknown>;

const validators = new WeakMap<object, Validator>();

function validatorOf(schema: object): Validator {
  let validator = validators.get(schema);
  if (validator === undefined) {
    validator = Compile(schema as TSchema);
    validators.set(schema, validator);
  }
  return validator;
}

/**
 * Checks `value` against `schema`, fills in the defaults of omitted fields and cleans its texts (in place), and returns it typed.
 * Throws an AppError whose field is a JSON pointer and whose code is the nearest `errorCode` of the schema.
 */
export function validate<S extends TSchema>(schema: S, value: unknown, base = ""): Static<S> {
  const filled = hasDefaults(schema) ? Default(schema, value) : value;
  if (validatorOf(schema).Check(filled)) return cleanTexts(schema, filled as Static<S>, base);
  const problem = explain(schema as SchemaNode, filled, base, "INVALID_BODY") ?? {
    pointer: base,
    message: "The value does not fit.",
    code: "INVALID_BODY" as const,
  };
  throw new AppError(problem.code, problem.message, { field: problem.pointer });
}

const withDefaults = new WeakMap<object, boolean>();

/** Filling in defaults walks the whole value, which a batch of a thousand results without any would pay for. */
function hasDefaults(schema: object): boolean {
  let found = withDefaults.get(schema);
  if (found === undefined) {
    found = JSON.stringify(schema).includes('"default":');
    withDefaults.set(schema, found);
  }
  return found;
}

/** True when `value` fits; for replies and for values of our own. */
export function fits(schema: TSchema, value: unknown): boolean {
  return validatorOf(schema).Check(value);
}

/** The first thing wrong with the value, found the way a person would read it: outside in, and only in the branch that was meant. */
function explain(node: SchemaNode, value: unknown, pointer: string, outer: ErrorCode): Problem | null {
  const code = isErrorCode(node.errorCode) ? node.errorCode : outer;
  if (node.anyOf !== undefined) return explainUnion(node, node.anyOf, value, pointer, code);
  if (node.type === "object") return explainObject(node, value, pointer, code);
  if (node.type === "array") return explainArray(node, value, pointer, code);
  const [error] = validatorOf(node).Errors(value);
  if (error === undefined) return null;
  return { pointer, code, message: `${name(pointer)} ${leafMessage(node, error.message)}.` };
}

function leafMessage(node: SchemaNode, message: string): string {
  if (node.const !== undefined) return `must be ${JSON.stringify(node.const)}`;
  if (node.enum !== undefined) return `must be one of ${node.enum.join(", ")}`;
  return message;
}

function explainUnion(
  node: SchemaNode,
  branches: SchemaNode[],
  value: unknown,
  pointer: string,
  code: ErrorCode,
): Problem | null {
  if (validatorOf(node).Check(value)) return null;
  const tag = node.discriminator;
  if (tag !== undefined && isObject(value)) {
    const tags = branches.map((branch) => branch.properties?.[tag]?.const);
    const at = tags.indexOf(value[tag]);
    if (at >= 0) return explain(branches[at]!, value, pointer, code);
    return {
      pointer: `${pointer}/${tag}`,
      code,
      message: `${name(`${pointer}/${tag}`)} must be one of ${tags.join(", ")}.`,
    };
  }
  const real = branches.filter((branch) => branch.type !== "null");
  const sameType = real.filter((branch) => typeOf(value) === branch.type);
  const meant = sameType.length === 1 ? sameType[0] : real.length === 1 ? real[0] : undefined;
  if (meant !== undefined) return explain(meant, value, pointer, code);
  const kinds = branches.map((branch) => (branch.const === undefined ? branch.type : JSON.stringify(branch.const)));
  return { pointer, code, message: `${name(pointer)} must be ${kinds.join(" or ")}.` };
}

function explainObject(node: SchemaNode, value: unknown, pointer: string, code: ErrorCode): Problem | null {
  if (!isObject(value)) return { pointer, code, message: `${name(pointer)} must be an object.` };
  const properties = node.properties ?? {};
  const keys = Object.keys(value);
  if (node.additionalProperties === false) {
    const unknown = keys.find((key) => !Object.hasOwn(properties, key));
    if (unknown !== undefined) {
      return {
        pointer: join(pointer, unknown),
        code: "UNKNOWN_FIELD",
        message: `There is no field "${unknown}" here.${suggestion(unknown, Object.keys(properties))}`,
      };
    }
  }
  for (const key of node.required ?? []) {
    // A union fills in defaults only in a branch that fits, so what has one may still be missing here and is not what is wrong.
    const { errorCode: own, default: fallback } = properties[key] ?? {};
    if (fallback === undefined && !Object.hasOwn(value, key))
      return {
        pointer: join(pointer, key),
        code: isErrorCode(own) ? own : code,
        message: `${name(join(pointer, key))} is required.`,
      };
  }
  if (node.minProperties !== undefined && keys.length < node.minProperties)
    return {
      pointer,
      code,
      message: `${name(pointer)} must have at least ${node.minProperties} field${node.minProperties === 1 ? "" : "s"}.`,
    };
  if (node.maxProperties !== undefined && keys.length > node.maxProperties)
    return { pointer, code, message: `${name(pointer)} must have at most ${node.maxProperties} fields.` };
  const any = Object.values(node.patternProperties ?? {})[0];
  for (const key of keys) {
    const child = Object.hasOwn(properties, key) ? properties[key] : any;
    const problem = child === undefined ? null : explain(child, value[key], join(pointer, key), code);
    if (problem !== null) return problem;
  }
  return null;
}

function explainArray(node: SchemaNode, value: unknown, pointer: string, code: ErrorCode): Problem | null {
  if (!Array.isArray(value)) return { pointer, code, message: `${name(pointer)} must be an array.` };
  const { minItems = 0, maxItems = Array.isArray(node.items) ? node.items.length : Infinity } = node;
  if (value.length < minItems || value.length > maxItems) {
    const own = node.sizeCodes?.[value.length < minItems ? 0 : 1];
    const wanted =
      minItems === maxItems
        ? `exactly ${minItems}`
        : value.length < minItems
          ? `at least ${minItems}`
          : `at most ${maxItems}`;
    return {
      pointer,
      code: isErrorCode(own) ? own : code,
      message: `${name(pointer)} must have ${wanted} item${wanted.endsWith(" 1") ? "" : "s"}.`,
    };
  }
  for (const [at, item] of value.entries()) {
    const child = Array.isArray(node.items) ? node.items[at] : node.items;
    const problem = child === undefined ? null : explain(child, item, join(pointer, String(at)), code);
    if (problem !== null) return problem;
  }
  const [error] = validatorOf(node).Errors(value);
  return error === undefined ? null : { pointer, code, message: `${name(pointer)} ${error.message}.` };
}

const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const typeOf = (value: unknown): string =>
  value === null ? "null" : Array.isArray(value) ? "array" : Number.isInteger(value) ? "integer" : typeof value;
const join = (pointer: string, key: string): string => `${pointer}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;

/** How a person would call the place: `check.timeout`, or "The body". */
function name(pointer: string): string {
  const path = pointer
    .replace(/^\/query/, "")
    .slice(1)
    .replaceAll("/", ".")
    .replaceAll("~1", "/")
    .replaceAll("~0", "~");
  return path === "" ? "The body" : path;
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
