import { AppError } from "@statusmesh/shared/errors";
import { isId } from "@statusmesh/shared/ids";
import type { Ctx } from "../../platform/context.ts";
import * as queries from "./queries.ts";

/** The stored channel that `select` finds by an id of a request. Throws CHANNEL_NOT_FOUND. */
export async function findChannel(
  { sql, orgId }: Ctx,
  id: string,
  select: typeof queries.selectChannel = queries.selectChannel,
): Promise<queries.ChannelRow> {
  const row = isId(id) ? await select(sql, orgId, id) : null;
  if (row === null) throw new AppError("CHANNEL_NOT_FOUND", "Channel not found.");
  return row;
}
