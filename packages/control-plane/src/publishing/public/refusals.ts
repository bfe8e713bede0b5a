import type { Context } from "koa";
import type { AppError } from "@statusmesh/shared/errors";
import { envelope, type ErrorBody, traceOf } from "../../platform/http/exchange.ts";
import { privateBadge } from "./feeds/badges.ts";
import { isScript, noScript } from "./embed.ts";

/**
 * The reply to a visitor without access to a private page, by what was requested: an image, a script or data. Null for
 * another error; pages show a form.
 */
export async function refusedReply(error: AppError, http: Context): Promise<ErrorBody | null> {
  if (error.code !== "PAGE_ACCESS") return null;
  if (isScript(http)) return noScript;
  return http.state["mediaType"] === "image/svg+xml"
    ? { type: "image/svg+xml; charset=utf-8", body: await privateBadge() }
    : { type: "application/json; charset=utf-8", body: JSON.stringify(envelope(error, traceOf(http))) };
}
