import { isId } from "@statusmesh/shared/ids";
import type { Ctx } from "../../platform/context.ts";
import * as queries from "./queries.ts";
import { AppError } from "@statusmesh/shared/errors";

/** The page with that id. STATUS_PAGE_NOT_FOUND for an absent or foreign id. */
export const findPage = async (ctx: Ctx, id: string): Promise<queries.StatusPageRow> =>
  await find(ctx, id, queries.selectPage);

/** {@link findPage}, locked against concurrent edits of it and its components. */
export const lockedPage = async (ctx: Ctx, id: string): Promise<queries.StatusPageRow> =>
  await find(ctx, id, (sql, orgId, known) => queries.lockPage(sql, orgId, known, null));

/** {@link lockedPage} for a change of its components or logos. */
export const changingPage = async (ctx: Ctx, id: string): Promise<queries.StatusPageRow> =>
  await find(ctx, id, (sql, orgId, known) => queries.lockPage(sql, orgId, known, new Date(ctx.clock.now())));

async function find(ctx: Ctx, id: string, select: typeof queries.selectPage): Promise<queries.StatusPageRow> {
  const row = isId(id) ? await select(ctx.sql, ctx.orgId, id) : null;
  if (row === null) throw notFound();
  return row;
}

const notFound = () => new AppError("STATUS_PAGE_NOT_FOUND", "Status page not found.");
