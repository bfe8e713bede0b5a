import { v7 } from "uuid";

/** A new UUIDv7 (RFC 9562): sorts by creation time. Made here because PostgreSQL has `uuidv7()` only since 18. */
export function newId(): string {
  return v7();
}

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** True for a UUID in lower case, the form that is stored and compared. */
export function isId(value: string): boolean {
  return uuid.test(value);
}

/** The pattern of {@link isId} as JSON Schema wants it. */
export const idPattern = uuid.source;

const uuidInAnyCase = new RegExp(uuid.source, "i");

/**
 * The text in lower case where it is a UUID, else as it is: RFC 9562 section 4 compares UUIDs without regard to case.
 */
export function normaliseId(value: string): string {
  return uuidInAnyCase.test(value) ? value.toLowerCase() : value;
}

/** {@link idPattern} in either case; JSON Schema has no flag for it. */
export const idPatternInAnyCase = uuid.source.replaceAll("a-f", "a-fA-F");
