import { AppError } from "@statusmesh/shared/errors";
import type { Faults } from "@statusmesh/shared/schema/faults";
import { isObject, type Json } from "@statusmesh/shared/json";
import { pointerSegment } from "@statusmesh/shared/secrets";
import { changedSecret, type FieldChange } from "../plan/compare.ts";

/*
 * `variables` of an object: pointers of its fields whose values came from variables. They are stored with the object,
 * so that a plan shows no value of a variable, also after the files have a text in its place.
 */

const maxPointers = 1_000;
/** Characters that are stored of an object; with more of them no field of it is shown. */
const maxStored = 1_000;
const wholeObject: readonly string[] = [""];
const none: readonly string[] = [];

/** Reads `variables` of an object or of the defaults. Adds a fault for another value. */
export function readVariables(value: unknown, pointer: string, faults: Faults): readonly string[] {
  if (value === undefined || value === null) return none;
  const isPointer = (item: unknown): boolean => typeof item === "string" && (item === "" || item.startsWith("/"));
  if (!Array.isArray(value) || value.length > maxPointers || !value.every(isPointer)) {
    const message = `variables must be a list of at most ${maxPointers} JSON pointers into the object.`;
    faults.add(new AppError("INVALID_BODY", message, { field: `${pointer}/variables` }));
    return none;
  }
  return bounded(value as string[]);
}

/** The pointers of an object with those of the defaults that it takes. */
export const withInherited = (own: readonly string[], defaults: readonly string[], object: Json): readonly string[] =>
  defaults.length === 0 ? own : bounded([...own, ...defaults.filter((pointer) => !hasField(object, pointer))]);

function bounded(pointers: readonly string[]): readonly string[] {
  const sorted = [...new Set(pointers)].sort();
  return sorted.reduce((sum, { length }) => sum + length + 4, 0) > maxStored ? wholeObject : sorted;
}

/** True where the object itself has the field, or the field of its check. */
function hasField(object: Json, pointer: string): boolean {
  const [, name = "", ofCheck = ""] = pointer.split("/", 3);
  if (name !== "check") return Object.hasOwn(object, name);
  return isObject(object["check"]) && Object.hasOwn(object["check"], ofCheck);
}

/** The change without values of the variables that the document has, and of those that the old value came from. */
export function withoutValues(
  { path, old, new: next }: FieldChange,
  { declared, stored }: { declared: readonly string[]; stored: readonly string[] },
): FieldChange {
  return { path, old: shown(old, path, [...declared, ...stored]), new: shown(next, path, declared) };
}

function shown(value: unknown, pointer: string, hidden: readonly string[]): unknown {
  if (value === null || !hidden.some((one) => isWithin(one, pointer) || isWithin(pointer, one))) return value;
  if (!isObject(value) || hidden.some((one) => isWithin(pointer, one))) return changedSecret;
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [name, shown(item, `${pointer}/${pointerSegment(name)}`, hidden)]),
  );
}

/** True for the pointer `outer`, and for what is below it. */
const isWithin = (pointer: string, outer: string): boolean => pointer === outer || pointer.startsWith(`${outer}/`);
