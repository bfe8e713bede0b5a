import { createHmac, timingSafeEqual } from "node:crypto";
import { AppError } from "@statusmesh/shared/errors";
import type { Ctx } from "../../../platform/context.ts";
import { signingKey } from "../../../platform/db/signing-keys.ts";
import type { Continuation, Tool } from "../../../platform/http/tool.ts";

const macBytes = 16;

/**
 * Continuation of a list. A cursor is signed with the organisation, the tool and the filters: it continues only this
 * list. Throws INVALID_BODY for any other cursor.
 */
export async function continuationOf(
  ctx: Ctx,
  tool: Tool,
  args: Readonly<Record<string, unknown>>,
): Promise<Continuation> {
  const filters = Object.entries(args).filter(([name]) => name !== "cursor" && name !== "limit");
  const context = JSON.stringify([ctx.orgId, tool.name, filters.toSorted(([a], [b]) => (a < b ? -1 : 1))]);
  const key = await signingKey(ctx.sql, "cursor");
  const macOf = (position: string) =>
    createHmac("sha256", key)
      .update(JSON.stringify([context, position]))
      .digest()
      .subarray(0, macBytes);

  const { cursor } = args;
  const given = typeof cursor === "string" ? Buffer.from(cursor, "base64url") : null;
  const position = given?.subarray(macBytes).toString("utf8") ?? null;
  const mac = given?.subarray(0, macBytes);
  if (position !== null && (mac?.length !== macBytes || !timingSafeEqual(mac, macOf(position))))
    throw new AppError("INVALID_BODY", "cursor is not one of this list: send next_cursor with the same filters.");
  return {
    after: position,
    next: (next) => Buffer.concat([macOf(next), Buffer.from(next, "utf8")]).toString("base64url"),
  };
}
