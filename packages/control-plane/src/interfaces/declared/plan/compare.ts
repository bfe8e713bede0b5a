import { sameJson } from "../../../access/audit/service.ts";
import { isObject, type Json } from "@statusmesh/shared/json";
import { pointerSegment } from "@statusmesh/shared/secrets";

/** A value that an apply changes. Secrets are masked on both sides. */
export interface FieldChange {
  /** Pointer into the object. */
  readonly path: string;
  readonly old: unknown;
  readonly new: unknown;
}

/** The differences of two objects, of nested ones only the differing fields; absent reads as null. */
export function changesBetween(old: Json, fresh: Json, base = ""): FieldChange[] {
  return [...new Set([...Object.keys(old), ...Object.keys(fresh)])].flatMap((name) => {
    const [was, is] = [old[name] ?? null, fresh[name] ?? null];
    if (sameJson(was, is)) return [];
    const path = `${base}/${pointerSegment(name)}`;
    return isObject(was) && isObject(is) ? changesBetween(was, is, path) : [{ path, old: was, new: is }];
  });
}

/** The fields of an object that have one of these names. */
export const only = <T extends object>(fields: T, names: ReadonlySet<string>): Partial<T> =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => names.has(name))) as Partial<T>;

/** What a secret that changes reads as; one that stays is masked. */
export const changedSecret = "changed";

/** The values of a set in one order. */
export const sorted = (values: readonly string[]): string[] => [...new Set(values)].sort();

/** The first segments of the paths: the fields of the object that change. */
export const fieldsOf = (changes: readonly FieldChange[]): Set<string> =>
  new Set(changes.map(({ path }) => path.split("/", 2)[1]!));
