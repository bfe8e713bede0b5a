import { AppError } from "@statusmesh/shared/errors";
import { isId } from "@statusmesh/shared/ids";
import type { Ctx } from "../../platform/context.ts";
import * as queries from "./queries.ts";

/**
 * The stored channel with an id of a request; `lock` locks it until the transaction ends. Throws CHANNEL_NOT_FOUND,
 * also for a device of another person, except to owners.
 */
export async function findChannel(
  { sql, orgId, userId, role }: Ctx,
  id: string,
  options?: { lock: boolean },
): Promise<queries.ChannelRow> {
  const row = isId(id) ? await queries.selectChannel(sql, orgId, id, options) : null;
  const isHidden = row !== null && row.owner_id !== null && row.owner_id !== userId && role !== "owner";
  if (row === null || isHidden) throw new AppError("CHANNEL_NOT_FOUND", "Channel not found.");
  return row;
}
