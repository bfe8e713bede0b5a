import { v7 } from "uuid";

/** A new UUIDv7 (RFC 9562): sorts by creation time. Made here because PostgreSQL has `uuidv7()` only since 18. */
export function newId(): string {
  return v7();
}

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** True for a UUID in its canonical lower-case form, the only one that the API takes. */
export function isId(value: string): boolean {
  return uuid.test(value);
}

/** The pattern of {@link isId} as JSON Schema wants it. */
export const idPattern = uuid.source;
