import { AppError } from "@statusmesh/shared/errors";

/** Years that PostgreSQL and the ISO format of Date agree on. */
const earliest = Date.UTC(1970, 0, 1);
const latest = Date.UTC(3000, 0, 1);

/** A time of a query string. Throws INVALID_QUERY for one outside 1970 to 3000. */
export function parseTime(text: string, field: string): Date {
  const at = new Date(text);
  // NaN: a leap second matches the format of RFC 3339, but is no Date.
  if (at.getTime() >= earliest && at.getTime() < latest) return at;
  throw new AppError("INVALID_QUERY", `The time ${text} is not one between 1970 and 3000.`, { field });
}
