import { AppError } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import { minuteMs } from "@statusmesh/shared/time";
import { record } from "../../../access/audit/service.ts";
import { type Ctx, requireOwner, type System } from "../../../platform/context.ts";
import { hashToken, newToken } from "../../../platform/crypto/token.ts";
import type { Paging } from "../../../platform/db/client/sql.ts";
import { iso, isoOrNull, type Page } from "../../../platform/http/wire.ts";
import { changePage, findPage } from "../find.ts";
import * as queries from "./reader-token-queries.ts";
import type { NewReaderToken, ReaderToken, ReaderTokenCreate } from "./reader-token-schema.ts";

const maxTokens = 20;

/**
 * Creates a token that reads a private page until the mode of its access changes. Throws STATUS_PAGE_NOT_FOUND, and
 * READER_TOKENS_LIMIT for the 21st of a page.
 */
export async function createReaderToken(ctx: Ctx, pageId: string, input: ReaderTokenCreate): Promise<NewReaderToken> {
  const token = newToken("sm_read_");
  const row: queries.ReaderTokenRow = {
    id: newId(),
    org_id: ctx.orgId,
    page_id: pageId,
    name: input.name,
    scope: input.scope ?? "data",
    hint: token.slice(-4),
    created_at: new Date(ctx.clock.now()),
    last_used_at: null,
  };
  return await changePage(ctx, pageId, async (own) => {
    if ((await queries.countReaderTokens(own.sql, ctx.orgId, pageId)) >= maxTokens)
      throw new AppError("READER_TOKENS_LIMIT", `A page has at most ${maxTokens} reader tokens. Revoke one first.`);
    await queries.insertReaderToken(own.sql, row, hashToken(token));
    await record(own, { resourceId: row.id, after: auditable(row) });
    return { ...present(row), token };
  });
}

/** The tokens of a page, oldest first, without their secrets. For owners. */
export async function listReaderTokens(ctx: Ctx, pageId: string, paging: Paging): Promise<Page<ReaderToken>> {
  requireOwner(ctx, "status_page:read");
  await findPage(ctx, pageId);
  const { rows, total } = await queries.selectReaderTokens(ctx.sql, ctx.orgId, pageId, paging);
  return { items: rows.map(present), total, ...paging };
}

/** Ends a token at once, on all replicas. Throws STATUS_PAGE_NOT_FOUND and READER_TOKEN_NOT_FOUND. */
export async function revokeReaderToken(ctx: Ctx, pageId: string, id: string): Promise<void> {
  await changePage(ctx, pageId, async (own) => {
    const row = isId(id) ? await queries.deleteReaderToken(own.sql, ctx.orgId, pageId, id) : null;
    if (row === null) throw new AppError("READER_TOKEN_NOT_FOUND", "Reader token not found.");
    await record(own, { resourceId: id, before: auditable(row) });
  });
}

/** Records the use of a token, to the minute. */
export async function touchReaderToken({ sql, clock }: System, id: string): Promise<void> {
  const now = clock.now();
  await queries.touchReaderToken(sql, id, new Date(now), new Date(now - minuteMs));
}

const present = (row: queries.ReaderTokenRow): ReaderToken => ({
  id: row.id,
  name: row.name,
  scope: row.scope,
  hint: row.hint,
  created_at: iso(row.created_at),
  last_used_at: isoOrNull(row.last_used_at),
});

const auditable = ({ page_id, name, scope }: queries.ReaderTokenRow) => ({ page_id, name, scope });
