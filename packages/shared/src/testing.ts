import type { Test } from "tap";

/** Ends an array of a pattern where the array that was found goes on; matches nothing. */
const end = Symbol("end of the array");

/**
 * Asserts that `found` has what `pattern` has, as `t.match` does, and that its arrays have no more elements than those
 * of the pattern: to `t.match` an array is a prefix, so `[]` matches every array.
 */
export function matchObject(t: Test, found: unknown, pattern: unknown, message = "should match the pattern"): boolean {
  // tap shows the line of the caller.
  t.currentAssert = matchObject;
  return t.match(found, withEnds(found, pattern), message);
}

/** The pattern, with `end` after the last element of each array that is shorter than the one found. */
function withEnds(found: unknown, pattern: unknown): unknown {
  if (Array.isArray(pattern) && Array.isArray(found)) {
    const elements = pattern.map((element, at) => withEnds(found[at], element));
    return found.length > pattern.length ? [...elements, end] : elements;
  }
  if (!isPlainObject(pattern) || typeof found !== "object" || found === null) return pattern;
  const fields = Object.entries(pattern).map(([key, value]) => [key, withEnds(Reflect.get(found, key), value)]);
  return Object.fromEntries(fields);
}

function isPlainObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
