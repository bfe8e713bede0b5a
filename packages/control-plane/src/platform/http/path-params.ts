import type { Context } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import { normaliseId } from "@statusmesh/shared/ids";

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
