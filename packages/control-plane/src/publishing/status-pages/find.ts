import { isId } from "@statusmesh/shared/ids";
import { type Ctx, inTransaction, requireOwner } from "../../platform/context.ts";
import * as queries from "./queries.ts";
import { AppError } from "@statusmesh/shared/errors";

/** The page with that id. STATUS_PAGE_NOT_FOUND for an absent or foreign id. */
export const findPage = async (ctx: Ctx, id: string): Promise<queries.StatusPageRow> =>
  await find(ctx, id, queries.selectPage);

/** {@link findPage}, locked against concurrent edits of it and its components. */
export const lockedPage = async (ctx: Ctx, id: string): Promise<queries.StatusPageRow> =>
  await find(ctx, id, (sql, orgId, known) => queries.lockPage(sql, orgId, known, null));

/** Changes the components or logos of a page, for owners: in a transaction in which it is locked. */
export async function changePage<T>(
  ctx: Ctx,
  id: string,
  work: (own: Ctx, page: queries.StatusPageRow) => Promise<T>,
): Promise<T> {
  requireOwner(ctx, "status_page:write");
  const now = new Date(ctx.clock.now());
  return await inTransaction(ctx, async (own) => {
    const page = await find(own, id, (sql, orgId, known) => queries.lockPage(sql, orgId, known, now));
    return await work(own, page);
  });
}

async function find(ctx: Ctx, id: string, select: typeof queries.selectPage): Promise<queries.StatusPageRow> {
  const row = isId(id) ? await select(ctx.sql, ctx.orgId, id) : null;
  if (row === null) throw new AppError("STATUS_PAGE_NOT_FOUND", "Status page not found.");
  return row;
}
