/**
 * Returns an array literal of values that need no quotes: ids, numbers, booleans, ISO times, words. For large arrays on
 * hot paths, because the client's serializer scans every character.
 */
export function arrayOf(values: readonly (string | number | boolean | null)[]): string {
  return `{${values.map((value) => value ?? "NULL").join()}}`;
}
