/**
 * An array literal of values that need no quotes in one: ids, numbers, booleans, ISO times, words. For large arrays on hot
 * paths: the client's own serializer looks at every character of every value.
 */
export function arrayOf(values: readonly (string | number | boolean | null)[]): string {
  return `{${values.map((value) => value ?? "NULL").join()}}`;
}
