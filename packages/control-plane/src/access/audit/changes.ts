/** Fields that every write changes; the row has its own time and actor. */
const stamps = new Set(["updated_at", "write_source"]);

type Fields = Record<string, unknown>;

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * The changed fields of a resource, before and after; of nested objects only the changed fields. `shown` has secrets
 * masked. `real` has the secrets themselves and decides what changed: a replaced secret is `***` on both sides.
 */
export function differences(
  shown: { before: object; after: object },
  real: { before: object; after: object } = shown,
): { before: object; after: object } {
  const [before, after]: [Fields, Fields] = [{}, {}];
  compare(
    shown.before as Fields,
    shown.after as Fields,
    real.before as Fields,
    real.after as Fields,
    before,
    after,
    stamps,
  );
  return { before, after };
}

/** Adds to both sides what names the resource at this time: the entry says it when the resource has changed or gone. */
export const named = <T extends object>(sides: { before: object; after: object }, name: T) => ({
  before: { ...sides.before, ...name },
  after: { ...sides.after, ...name },
});

function compare(
  shownBefore: Fields,
  shownAfter: Fields,
  realBefore: Fields,
  realAfter: Fields,
  before: Fields,
  after: Fields,
  ignored: ReadonlySet<string>,
): void {
  for (const key of new Set([...Object.keys(realBefore), ...Object.keys(realAfter)])) {
    const [was, is] = [realBefore[key], realAfter[key]];
    if (ignored.has(key) || same(was, is)) continue;
    const [old, fresh] = [shownBefore[key], shownAfter[key]];
    if (isFields(was) && isFields(is) && isFields(old) && isFields(fresh)) {
      const [inBefore, inAfter]: [Fields, Fields] = [{}, {}];
      compare(old, fresh, was, is, inBefore, inAfter, new Set());
      [before[key], after[key]] = [inBefore, inAfter];
    } else {
      if (old !== undefined) before[key] = old;
      if (fresh !== undefined) after[key] = fresh;
    }
  }
}

/** Equality as JSON, independent of key order: the database stores its own order. */
export function same(a: unknown, b: unknown): boolean {
  if (isFields(a) && isFields(b))
    return [...new Set([...Object.keys(a), ...Object.keys(b)])].every((key) => same(a[key], b[key]));
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((value, at) => same(value, b[at]));
  return a === b;
}
