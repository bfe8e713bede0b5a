import type { Static, TSchema } from "typebox";
import { AppError } from "@statusmesh/shared/errors";
import { suggestion } from "@statusmesh/shared/text";
import { type SchemaNode, validate } from "@statusmesh/shared/validate";

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
