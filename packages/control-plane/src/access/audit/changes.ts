import { isObject, type Json } from "@statusmesh/shared/json";

/** Fields that every write changes; the row has its own time and actor. */
const stamps = new Set(["updated_at", "write_source"]);

interface Sides {
  before: Json;
  after: Json;
}

/**
 * The changed fields of a resource, before and after; of nested objects only the changed fields. `shown` has secrets
 * masked. `real` has the secrets themselves and decides what changed: a replaced secret is `***` on both sides.
 */
export function differences(
  shown: { before: object; after: object },
  real: { before: object; after: object } = shown,
): { before: object; after: object } {
  return compare(shown as Sides, real as Sides, stamps);
}

/** Adds to both sides what names the resource at this time: the entry says it when the resource has changed or gone. */
export const named = <T extends object>(sides: { before: object; after: object }, name: T) => ({
  before: { ...sides.before, ...name },
  after: { ...sides.after, ...name },
});

function compare(shown: Sides, real: Sides, ignored: ReadonlySet<string>): Sides {
  const [before, after]: [Json, Json] = [{}, {}];
  for (const key of new Set([...Object.keys(real.before), ...Object.keys(real.after)])) {
    const [was, is] = [real.before[key], real.after[key]];
    if (ignored.has(key) || same(was, is)) continue;
    const [old, fresh] = [shown.before[key], shown.after[key]];
    if (isObject(was) && isObject(is) && isObject(old) && isObject(fresh)) {
      const inside = compare({ before: old, after: fresh }, { before: was, after: is }, new Set());
      [before[key], after[key]] = [inside.before, inside.after];
    } else {
      if (old !== undefined) before[key] = old;
      if (fresh !== undefined) after[key] = fresh;
    }
  }
  return { before, after };
}

/** Equality as JSON, independent of key order: the database stores its own order. */
export function same(a: unknown, b: unknown): boolean {
  if (isObject(a) && isObject(b))
    return [...new Set([...Object.keys(a), ...Object.keys(b)])].every((key) => same(a[key], b[key]));
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((value, at) => same(value, b[at]));
  return a === b;
}
