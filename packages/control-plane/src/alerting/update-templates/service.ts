import { AppError } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import { differences, record } from "../../access/audit/service.ts";
import { takeOne } from "../../access/plans/service.ts";
import { type Ctx, inTransaction, requireScope } from "../../platform/context.ts";
import { unlessTaken } from "../../platform/db/client/sql.ts";
import { isoTimes, type Page, pageOf } from "../../platform/http/wire.ts";
import * as queries from "./queries.ts";
import type { UpdateTemplate, UpdateTemplateCreate, UpdateTemplatePatch, UpdateTemplateQuery } from "./schema.ts";

/** Texts that an organisation saves for updates of incidents and for maintenance. Members write them, as updates. */

/** The templates by kind and name. */
export async function listTemplates(ctx: Ctx, { kind, ...page }: UpdateTemplateQuery): Promise<Page<UpdateTemplate>> {
  requireScope(ctx, "incidents:read");
  return pageOf(await queries.selectTemplates(ctx.sql, ctx.orgId, kind ?? null, page), page, present);
}

export async function templatesFor(ctx: Ctx, kind: UpdateTemplate["kind"]): Promise<UpdateTemplate[]> {
  return (await listTemplates(ctx, { kind, limit: 100, offset: 0 })).items;
}

/** One template. Throws UPDATE_TEMPLATE_NOT_FOUND. */
export async function getTemplate(ctx: Ctx, id: string): Promise<UpdateTemplate> {
  requireScope(ctx, "incidents:read");
  return present(await find(ctx, id));
}

/** Creates a template. Throws UPDATE_TEMPLATE_NAME_TAKEN, and QUOTA_EXCEEDED at the plan's limit. */
export async function createTemplate(ctx: Ctx, input: UpdateTemplateCreate): Promise<UpdateTemplate> {
  requireScope(ctx, "incidents:write");
  const now = new Date(ctx.clock.now());
  const row: queries.TemplateRow = {
    id: newId(),
    org_id: ctx.orgId,
    phase: null,
    title: null,
    ...input,
    created_at: now,
    updated_at: now,
  };
  return await inTransaction(ctx, async (tx) => {
    await takeOne(tx, "max_update_templates", () => queries.countTemplates(tx.sql, ctx.orgId));
    if (!(await queries.insertTemplate(tx.sql, row))) throw nameTaken(row.name);
    await record(tx, { resourceId: row.id, after: auditable(row) });
    return present(row);
  });
}

/** Changes the given fields. Throws UPDATE_TEMPLATE_NOT_FOUND and UPDATE_TEMPLATE_NAME_TAKEN. */
export async function changeTemplate(ctx: Ctx, id: string, patch: UpdateTemplatePatch): Promise<UpdateTemplate> {
  requireScope(ctx, "incidents:write");
  return await inTransaction(ctx, async (tx) => {
    const before = await find(tx, id, true);
    const after = { ...before, ...patch, updated_at: new Date(ctx.clock.now()) };
    await unlessTaken(queries.updateTemplate(tx.sql, after), (cause) => nameTaken(after.name, cause));
    await record(tx, { resourceId: id, ...differences({ before: auditable(before), after: auditable(after) }) });
    return present(after);
  });
}

/** Deletes a template; updates that were written with it stay. Throws UPDATE_TEMPLATE_NOT_FOUND. */
export async function removeTemplate(ctx: Ctx, id: string): Promise<void> {
  requireScope(ctx, "incidents:write");
  await inTransaction(ctx, async (tx) => {
    const row = isId(id) ? await queries.deleteTemplate(tx.sql, ctx.orgId, id) : null;
    if (row === null) throw notFound();
    await record(tx, { resourceId: id, before: auditable(row) });
  });
}

async function find(ctx: Ctx, id: string, lock = false): Promise<queries.TemplateRow> {
  const row = isId(id) ? await queries.selectTemplate(ctx.sql, ctx.orgId, id, lock) : null;
  if (row === null) throw notFound();
  return row;
}

const notFound = () => new AppError("UPDATE_TEMPLATE_NOT_FOUND", "Template not found.");

const nameTaken = (name: string, cause?: unknown) =>
  new AppError("UPDATE_TEMPLATE_NAME_TAKEN", `There is a template ${name} already. Choose a different name.`, {
    field: "/name",
    cause,
  });

const auditable = ({ kind, name, phase, title, body }: queries.TemplateRow) => ({ kind, name, phase, title, body });

const present = ({ org_id: _, ...row }: queries.TemplateRow): UpdateTemplate => isoTimes(row);
