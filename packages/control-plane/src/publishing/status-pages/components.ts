import { AppError } from "@statusmesh/shared/errors";
import { isId } from "@statusmesh/shared/ids";
import { differences, record } from "../../access/audit/service.ts";
import { type Ctx, inTransaction, requireOwner, requireScope } from "../../platform/context.ts";
import type { Page } from "../../platform/http/wire.ts";
import { takeQuota } from "../../access/plans/service.ts";
import { findPage, lockedPage } from "./find.ts";
import * as queries from "./queries.ts";
import type { Component, ComponentBulk, ComponentCreate, ComponentPatch } from "./schema.ts";

/** The monitors of a page, in page order. */
export async function listComponents(
  ctx: Ctx,
  pageId: string,
  { limit, offset }: { limit: number; offset: number },
): Promise<Page<Component>> {
  requireScope(ctx, "status_page:read");
  await findPage(ctx, pageId);
  const [rows, total] = await Promise.all([
    queries.selectComponents(ctx.sql, ctx.orgId, pageId, limit, offset),
    queries.countComponents(ctx.sql, ctx.orgId, pageId),
  ]);
  return { items: rows.map(presentRow), total, limit, offset };
}

/**
 * Adds a monitor at the end of a page. Throws TARGET_NOT_FOUND, COMPONENT_ALREADY_ON_PAGE, and QUOTA_EXCEEDED for
 * more components than a page may have, and for a new public monitor over the plan's limit; a monitor that is already
 * on another page costs nothing there.
 */
export async function addComponent(ctx: Ctx, pageId: string, input: ComponentCreate): Promise<Component> {
  requireScope(ctx, "status_page:write");
  requireOwner(ctx);
  return await inTransaction(ctx, async (own) => {
    await lockedPage(own, pageId);
    if ((await queries.selectComponent(own.sql, ctx.orgId, pageId, input.target_id)) !== null) {
      throw new AppError("COMPONENT_ALREADY_ON_PAGE", "This monitor is on the page already.", { field: "/target_id" });
    }
    const binding = {
      target_id: input.target_id,
      public_name: input.public_name ?? null,
      public_description: input.public_description ?? null,
      public_group: input.public_group ?? null,
    };
    if (!(await queries.insertComponent(own.sql, ctx.orgId, pageId, binding)))
      throw new AppError("TARGET_NOT_FOUND", "Monitor not found.", { field: "/target_id" });
    // After the insert, so that an absent monitor is reported first.
    await takeQuota(own, "max_components_per_page", async () => ({
      current: (await queries.countComponents(own.sql, ctx.orgId, pageId)) - 1,
      adding: 1,
    }));
    await takeQuota(own, "max_public_components", async () => {
      const { others, elsewhere } = await queries.countOtherPublicTargets(own.sql, ctx.orgId, pageId, input.target_id);
      return elsewhere ? { current: others + 1, adding: 0 } : { current: others, adding: 1 };
    });
    const made = await find(own, pageId, input.target_id);
    await record(own, { resourceId: input.target_id, after: auditable(pageId, made) });
    return made;
  });
}

/**
 * Adds monitors at the end of a page, all or none; those on it already stay as they are. Throws TARGET_NOT_FOUND and
 * QUOTA_EXCEEDED.
 */
export async function addComponents(ctx: Ctx, pageId: string, input: ComponentBulk): Promise<Page<Component>> {
  requireScope(ctx, "status_page:write");
  requireOwner(ctx);
  return await inTransaction(ctx, async (own) => {
    await lockedPage(own, pageId);
    const ids = [...new Set(input.target_ids)];
    const known = await queries.keepTargets(own.sql, ctx.orgId, ids);
    const absent = input.target_ids.findIndex((id) => !known.has(id));
    if (absent >= 0)
      throw new AppError("TARGET_NOT_FOUND", `Monitor ${input.target_ids[absent]} not found.`, {
        field: `/target_ids/${absent}`,
      });
    await takeQuota(own, "max_components_per_page", () => queries.countOnPage(own.sql, ctx.orgId, pageId, ids));
    await takeQuota(own, "max_public_components", () => queries.countPublicTargets(own.sql, ctx.orgId, ids));
    await queries.insertComponents(own.sql, ctx.orgId, pageId, ids, input.public_group ?? null);
    await record(own, { resourceId: pageId, after: { target_ids: ids, public_group: input.public_group ?? null } });
    const rows = await allComponents(own, pageId);
    return { items: rows.map(presentRow), total: rows.length, limit: rows.length, offset: 0 };
  });
}

/** Changes the given fields; null restores the default. */
export async function updateComponent(
  ctx: Ctx,
  pageId: string,
  targetId: string,
  patch: ComponentPatch,
): Promise<Component> {
  requireScope(ctx, "status_page:write");
  requireOwner(ctx);
  return await inTransaction(ctx, async (own) => {
    await lockedPage(own, pageId);
    const before = await find(own, pageId, targetId);
    await queries.updateComponent(own.sql, ctx.orgId, pageId, { ...before, ...patch });
    const after = await find(own, pageId, targetId);
    const { before: was, after: is } = differences({ before, after });
    await record(own, { resourceId: targetId, before: { page_id: pageId, ...was }, after: { page_id: pageId, ...is } });
    return after;
  });
}

/** Removes a monitor from a page. */
export async function removeComponent(ctx: Ctx, pageId: string, targetId: string): Promise<void> {
  requireScope(ctx, "status_page:write");
  requireOwner(ctx);
  await inTransaction(ctx, async (own) => {
    await lockedPage(own, pageId);
    const before = await find(own, pageId, targetId);
    await queries.deleteComponent(own.sql, ctx.orgId, pageId, targetId);
    await record(own, { resourceId: targetId, before: auditable(pageId, before) });
  });
}

/** Sets the order of components; `targetIds` lists each of them once, otherwise INVALID_COMPONENT_ID. */
export async function reorderComponents(
  ctx: Ctx,
  pageId: string,
  targetIds: readonly string[],
): Promise<Page<Component>> {
  requireScope(ctx, "status_page:write");
  requireOwner(ctx);
  return await inTransaction(ctx, async (own) => {
    await lockedPage(own, pageId);
    const before = (await allComponents(own, pageId)).map((row) => row.target_id);
    const present = new Set(before);
    const seen = new Set<string>();
    const stray = targetIds.findIndex((id) => !present.has(id) || seen.size === seen.add(id).size);
    if (stray >= 0)
      throw new AppError("INVALID_COMPONENT_ID", "List each component of this page exactly once.", {
        field: `/target_ids/${stray}`,
      });
    if (targetIds.length !== present.size) {
      throw new AppError(
        "INVALID_COMPONENT_ID",
        `The page has ${present.size} components, and the list names ${targetIds.length} of them: name every one.`,
        {
          field: "/target_ids",
        },
      );
    }
    await queries.orderComponents(own.sql, ctx.orgId, pageId, targetIds);
    await record(own, { resourceId: pageId, before: { target_ids: before }, after: { target_ids: targetIds } });
    const rows = await allComponents(own, pageId);
    return { items: rows.map(presentRow), total: rows.length, limit: rows.length, offset: 0 };
  });
}

/**
 * Has the page show exactly these monitors, in this order. The caller has locked the page. Throws TARGET_NOT_FOUND and
 * QUOTA_EXCEEDED.
 */
export async function replaceComponents(
  ctx: Ctx,
  pageId: string,
  components: readonly Omit<queries.ComponentRow, "monitor_name" | "sort_order">[],
): Promise<void> {
  requireScope(ctx, "status_page:write");
  requireOwner(ctx);
  await inTransaction(ctx, async (own) => {
    const ids = components.map((component) => component.target_id);
    const known = await queries.keepTargets(own.sql, ctx.orgId, ids);
    if (known.size < ids.length) throw new AppError("TARGET_NOT_FOUND", "A monitor of the page was not found.");
    await queries.deleteComponentsBut(own.sql, ctx.orgId, pageId, ids);
    await takeQuota(own, "max_components_per_page", () => queries.countOnPage(own.sql, ctx.orgId, pageId, ids));
    await takeQuota(own, "max_public_components", () => queries.countPublicTargets(own.sql, ctx.orgId, ids));
    await queries.upsertComponents(own.sql, ctx.orgId, pageId, components);
    await record(own, { resourceId: pageId, after: { target_ids: ids } });
  });
}

const allComponents = (ctx: Ctx, pageId: string) => queries.selectComponents(ctx.sql, ctx.orgId, pageId, 1_000_000, 0);

const componentNotFound = () => new AppError("COMPONENT_NOT_FOUND", "This monitor is not on the page.");

async function find(ctx: Ctx, pageId: string, targetId: string): Promise<queries.ComponentRow> {
  const row = isId(targetId) ? await queries.selectComponent(ctx.sql, ctx.orgId, pageId, targetId) : null;
  if (row === null) throw componentNotFound();
  return row;
}

/** A component is identified by its monitor, which may be on several pages. */
const auditable = (pageId: string, row: queries.ComponentRow) => ({ page_id: pageId, ...presentRow(row) });

const presentRow = (row: queries.ComponentRow): Component => ({
  target_id: row.target_id,
  monitor_name: row.monitor_name,
  public_name: row.public_name,
  public_description: row.public_description,
  public_group: row.public_group,
  sort_order: row.sort_order,
});
