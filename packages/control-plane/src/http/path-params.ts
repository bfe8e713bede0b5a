import type { Context } from "koa";
import { AppError } from "@statusmesh/shared/errors";
import { normaliseId } from "@statusmesh/shared/ids";

/**
 * The parameters of the path that the router has matched, ids in lower case. Throws NOT_FOUND for a bad percent escape,
 * which the router hands through raw, and for NUL, which the database refuses: both name nothing that exists.
 */
export function readParams(http: Context): Record<string, string> {
  const params = Object.entries((http["params"] ?? {}) as Record<string, string>);
  if (params.some(([, value]) => value.includes("\0") || value.includes("%") || !value.isWellFormed()))
    throw new AppError("NOT_FOUND", `There is nothing at ${http.path}.`);
  return Object.fromEntries(params.map(([name, value]) => [name, normaliseId(value)]));
}
