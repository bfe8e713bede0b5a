/** An object of JSON. */
export type Json = Record<string, unknown>;

/** Whether a value is an object, and neither null nor a list. */
export const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** A value that is an object; an empty one in place of any other value. */
export const asObject = (value: unknown): Json => (isObject(value) ? value : {});

/** The value of a JSON text; undefined for a text that is no JSON. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
