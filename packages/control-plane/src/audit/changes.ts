import type { Change } from "./service.ts";

/** What every write restamps; the row itself says when and by what. */
const stamps = new Set(["updated_at", "write_source"]);

type Fields = Record<string, unknown>;

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * The fields in which a resource differs before and after, on both sides; of an object within it only the fields that
 * differ. `shown` is what may be read: secrets masked. `real` is the same with the secrets themselves, and decides what
 * differs: a secret that was replaced stands on both sides as `***`.
 */
export function differences(
  shown: { before: object; after: object },
  real: { before: object; after: object } = shown,
): Required<Pick<Change, "before" | "after">> {
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

/** Equal as JSON, in whatever order the keys come: the database keeps its own. */
function same(a: unknown, b: unknown): boolean {
  if (isFields(a) && isFields(b))
    return [...new Set([...Object.keys(a), ...Object.keys(b)])].every((key) => same(a[key], b[key]));
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((value, at) => same(value, b[at]));
  return a === b;
}
