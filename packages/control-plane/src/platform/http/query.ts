import type { Static, TSchema } from "typebox";
import { AppError } from "@statusmesh/shared/errors";
import { suggestion } from "@statusmesh/shared/text";
import { type SchemaNode, validate } from "@statusmesh/shared/schema/validate";
import type { Context } from "koa";
import { normaliseId } from "@statusmesh/shared/ids";
import { dayMs, minuteMs } from "@statusmesh/shared/time";

/** Parses and validates a query string of integers, booleans and strings. `cap` silently lowers a larger integer. */
export function validateQuery<S extends TSchema>(schema: S, query: URLSearchParams): Static<S> {
  const properties = (schema as SchemaNode).properties ?? {};
  const value: Record<string, unknown> = {};
  for (const [name, text] of query) {
    const node = Object.hasOwn(properties, name) ? properties[name] : undefined;
    const field = `/query/${name}`;
    if (node === undefined)
      throw new AppError(
        "UNKNOWN_FIELD",
        `There is no query parameter "${name}" here.${suggestion(name, Object.keys(properties))}`,
        { field },
      );
    if (Object.hasOwn(value, name))
      throw new AppError("INVALID_QUERY", `The query parameter "${name}" is repeated.`, { field });
    if (text.includes("\0"))
      throw new AppError("INVALID_QUERY", `The query parameter "${name}" contains the character NUL.`, { field });
    value[name] = fromText(node, text);
  }
  try {
    return validate(schema, value, "/query");
  } catch (error) {
    if (error instanceof AppError && error.code === "INVALID_BODY")
      throw new AppError("INVALID_QUERY", error.message, { field: error.field });
    throw error;
  }
}

function fromText(node: SchemaNode, text: string): unknown {
  if (node.type === "integer" && node.cap !== undefined && /^[0-9]+$/.test(text))
    return Math.min(Number(text), node.cap);
  if (node.type === "integer" && /^-?[0-9]{1,15}$/.test(text)) return Number(text);
  if (node.type === "boolean" && (text === "true" || text === "false")) return text === "true";
  return text;
}

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

/**
 * Path parameters of the matched route, ids in lower case. Throws NOT_FOUND for a bad percent escape, which the router
 * passes raw, and for NUL, which the database refuses: no resource has such an id.
 */
export function readParams(http: Context): Record<string, string> {
  const params = Object.entries((http["params"] ?? {}) as Record<string, string>);
  if (params.some(([, value]) => value.includes("\0") || value.includes("%") || !value.isWellFormed()))
    throw new AppError("NOT_FOUND", `There is nothing at ${http.path}.`);
  return Object.fromEntries(params.map(([name, value]) => [name, normaliseId(value)]));
}

/** Longest range that a page shows: results are kept no longer. */
const longestMs = 400 * dayMs;

/** A chosen range of time, Unix ms. */
export interface TimeRange {
  from: number;
  to: number;
}

/** A time of a query as Unix ms: RFC 3339, or what a form without scripts sends (`2026-11-20T14:02`), read as UTC. */
function timeOf(text: string | undefined): number | null {
  if (text === undefined || !/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}/.test(text)) return null;
  const at = Date.parse(/(?:Z|[+-]\d{2}:\d{2})$/.test(text) ? text : `${text}Z`);
  return Number.isNaN(at) ? null : at;
}

/** `from` and `to` of a query, at least a minute apart and not after `now`; null for any other. */
export function readTimeRange(query: Readonly<Record<string, string>>, now: number): TimeRange | null {
  const from = timeOf(query["from"]);
  const end = timeOf(query["to"]);
  if (from === null || end === null) return null;
  const to = Math.min(end, now);
  return to - from < minuteMs || to - from > longestMs ? null : { from, to };
}
