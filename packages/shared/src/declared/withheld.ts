import { isObject, type Json } from "../json.ts";
import { pointerSegment } from "../secrets.ts";
import { sections } from "./files.ts";
import type { Position } from "./position.ts";

/*
 * Values that variables gave are shown nowhere. The field decides: a message can quote a value in part, in other
 * letters or decoded, which no search finds.
 */

/** The fields of a document that have variables. */
export interface VariableFields {
  /** Names of the variables in the value at a pointer, in defaults of monitors too; empty for none. */
  namesAt(pointer: string): readonly string[];
  /**
   * The document as a server gets it: each object and the defaults have `variables`, the pointers of their fields with
   * variables, of those in a list the pointer of the list. A plan does not show the values of these fields.
   */
  marked(document: Json): Json;
}

/** Segments of the pointer of a field: `/monitors/<key>/name`, `/monitors/<key>/check/url`, `/defaults/tags`. */
function fieldDepth(segments: readonly string[]): number {
  const above = segments[0] === "defaults" ? 1 : 2;
  return above + (segments[above] === "check" ? 2 : 1);
}

/** `filled` has names of variables by pointer of the text that has them. */
export function variableFields(filled: ReadonlyMap<string, readonly string[]>, position: Position): VariableFields {
  const below = new Map<string, Set<string>>();
  for (const [pointer, names] of filled)
    for (let at = pointer; at !== ""; at = at.slice(0, at.lastIndexOf("/"))) {
      const known = below.get(at) ?? new Set();
      for (const name of names) known.add(name);
      below.set(at, known);
    }

  /** The pointer, or what leads to it as far as the files go; null where they do not have the field. */
  const inFiles = (segments: readonly string[]): string | null => {
    let here = position;
    for (const [depth, segment] of segments.entries()) {
      const next = here.children.get(segment);
      if (next === undefined) return depth >= fieldDepth(segments) ? pointerOf(segments.slice(0, depth)) : null;
      here = next;
    }
    return pointerOf(segments);
  };
  const names = (segments: readonly string[]): readonly string[] => {
    const at = inFiles(segments);
    return at === null ? [] : [...(below.get(at) ?? [])];
  };
  return {
    namesAt(pointer) {
      if (filled.size === 0) return [];
      const segments = segmentsOf(pointer);
      const [top, , ...field] = segments;
      const own = names(segments);
      if (top !== "monitors" || field.length === 0) return own;
      const isOwn = inFiles(segments) !== null && !(field.length === 1 && field[0] === "check");
      return isOwn ? own : [...new Set([...own, ...names(["defaults", ...field])])];
    },
    marked: (document) => marked(document, filled.keys()),
  };
}

function marked(document: Json, filled: Iterable<string>): Json {
  const fieldsOf = new Map<string, string[][]>();
  for (const pointer of filled) {
    const segments = segmentsOf(pointer);
    const above = segments[0] === "defaults" ? 1 : 2;
    const object = pointerOf(segments.slice(0, above));
    fieldsOf.set(object, [...(fieldsOf.get(object) ?? []), segments.slice(above)]);
  }
  const mark = (value: unknown, pointer: string): unknown => {
    const fields = fieldsOf.get(pointer);
    return fields === undefined || !isObject(value)
      ? value
      : { ...value, variables: [...new Set(fields.map((field) => outsideOfLists(value, field)))] };
  };
  const whole = (name: string, value: unknown): unknown => {
    if (name === "defaults") return mark(value, "/defaults");
    if (!(sections as readonly string[]).includes(name) || !isObject(value)) return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, object]) => [key, mark(object, `/${name}/${pointerSegment(key)}`)]),
    );
  };
  return Object.fromEntries(Object.entries(document).map(([name, value]) => [name, whole(name, value)]));
}

/** The pointer of a field, or of the outermost list that it is in. */
function outsideOfLists(object: Json, field: readonly string[]): string {
  let here: unknown = object;
  const outside = field.filter((segment) => {
    if (!isObject(here)) return false;
    here = here[segment];
    return true;
  });
  return pointerOf(outside);
}

const segmentsOf = (pointer: string): string[] =>
  pointer
    .split("/")
    .slice(1)
    .map((segment) => segment.replaceAll("~1", "/").replaceAll("~0", "~"));

const pointerOf = (segments: readonly string[]): string =>
  segments.map((segment) => `/${pointerSegment(segment)}`).join("");

const wholes = new RegExp(`^(?:/(?:defaults|(?:moved|${sections.join("|")})(?:/[^/]*)?))?$`);

/** True for the pointer of the document, a section or an object: messages about those speak of its fields by name. */
export const isWhole = (pointer: string): boolean => wholes.test(pointer);

export const variablesText = (names: readonly string[]): string =>
  [...names]
    .slice(0, 3)
    .map((name) => `\${${name.length > 60 ? `${name.slice(0, 60)}…` : name}}`)
    .join(", ")
    .concat(names.length > 3 ? ", …" : "");
