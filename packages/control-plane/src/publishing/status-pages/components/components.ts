import { AppError } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import { dayMs } from "@statusmesh/shared/time";
import { differences, record } from "../../../access/audit/service.ts";
import { type Ctx, inTransaction, requireOwner, requireScope } from "../../../platform/context.ts";
import type { Paging } from "../../../platform/db/client/sql.ts";
import { type Page, pageOf } from "../../../platform/http/wire.ts";
import { takeQuota } from "../../../access/plans/service.ts";
import { changePage, findPage } from "../find.ts";
import * as queries from "./queries.ts";
import { beginStates, changeState } from "./state-queries.ts";
import type { Component, ComponentBulk, ComponentCreate, ComponentPatch, Show } from "../schema.ts";

/** The components of a page, in page order. */
export async function listComponents(ctx: Ctx, pageId: string, paging: Paging): Promise<Page<Component>> {
  requireScope(ctx, "status_page:read");
  await findPage(ctx, pageId);
  return pageOf(await queries.selectComponents(ctx.sql, ctx.orgId, pageId, paging), paging, presentRow);
}

/**
 * Adds a monitor, or a component without one, at its `sort_order`, else at the end of a page. Throws INVALID_BODY,
 * TARGET_NOT_FOUND, COMPONENT_ALREADY_ON_PAGE, and QUOTA_EXCEEDED for more components than a page may have, and for a
 * new public component over the plan's limit; a monitor that is already on another page costs nothing there.
 */
export async function addComponent(ctx: Ctx, pageId: string, input: ComponentCreate): Promise<Component> {
  requireOwner(ctx, "status_page:write");
  const component = writtenComponent(input);
  const { id, target_id: targetId } = component;
  return await changePage(ctx, pageId, async (own) => {
    if (targetId !== null) {
      if ((await queries.selectComponent(own.sql, ctx.orgId, pageId, id)) !== null)
        throw new AppError("COMPONENT_ALREADY_ON_PAGE", "This monitor is on the page already.", {
          field: "/target_id",
        });
      if ((await queries.keepTargets(own.sql, ctx.orgId, [targetId])).size === 0)
        throw new AppError("TARGET_NOT_FOUND", "Monitor not found.", { field: "/target_id" });
    }
    await takePlaces(own, pageId, [id]);
    await write(own, pageId, [component], "last");
    const written = await find(own, pageId, id);
    const made = { ...written, sort_order: input.sort_order ?? written.sort_order };
    if (input.sort_order !== undefined) await queries.updateComponent(own.sql, ctx.orgId, pageId, made);
    await record(own, { resourceId: id, after: auditable(pageId, made) });
    return presentRow(made);
  });
}

/** Takes the quotas of a page and of the organisation for components that the page is to have. */
async function takePlaces(tx: Ctx, pageId: string, ids: readonly string[]): Promise<void> {
  await takeQuota(tx, "max_components_per_page", () => queries.countOnPage(tx.sql, tx.orgId, pageId, ids));
  await takeQuota(tx, "max_public_components", () => queries.countPublic(tx.sql, tx.orgId, ids));
}

/** Writes components behind those of the page, or as its first ones; those without a monitor begin their state. */
async function write(
  tx: Ctx,
  pageId: string,
  components: readonly queries.WrittenComponent[],
  place: "first" | "last",
): Promise<void> {
  const now = new Date(tx.clock.now());
  await queries.upsertComponents(tx.sql, tx.orgId, pageId, components, { place, now });
  const manual = components.filter((component) => component.target_id === null);
  const first = manual.map((component) => ({ id: newId(), componentId: component.id }));
  if (first.length > 0) await beginStates(tx.sql, tx.orgId, first, now);
}

/**
 * The component that a request describes: of a monitor, or without one, with a new id. Throws INVALID_BODY, with
 * pointers below `base`.
 */
export function writtenComponent(input: ComponentCreate, base = ""): queries.WrittenComponent {
  const { target_id: targetId = null, manual, state = "operational", public_name: name = null } = input;
  const texts = {
    public_name: name,
    public_description: input.public_description ?? null,
    public_group: input.public_group ?? null,
    show: completeShow(input.show),
  };
  if (manual === undefined) {
    if (targetId === null)
      throw invalid("Name a monitor, or send manual: true for a component without one.", `${base}/target_id`);
    if (state !== "operational") throw invalid(stateOfMonitor, `${base}/state`);
    return { id: targetId, target_id: targetId, ...texts, state: null };
  }
  if (targetId !== null) throw invalid("A component without a monitor names none.", `${base}/target_id`);
  if (name === null) throw invalid(needsName, `${base}/public_name`);
  return { id: newId(), target_id: null, ...texts, state };
}

/** The figures of a component whose request names none. */
const usualShow: Show = { uptime: true, latency: false, certificate: false };
const completeShow = (input: Partial<Show> = {}): Show => ({ ...usualShow, ...input });

/** Figures that differ from those of a new component, for files; undefined where none does. */
export function unusualShow(show: Show): Partial<Show> | undefined {
  const names = (["uptime", "latency", "certificate"] as const).filter((name) => show[name] !== usualShow[name]);
  return names.length === 0 ? undefined : Object.fromEntries(names.map((name) => [name, show[name]]));
}

const invalid = (message: string, field: string) => new AppError("INVALID_BODY", message, { field });
const stateOfMonitor = "The state of a monitor follows from its checks. Only a component without one has a state here.";
const needsName = "A component without a monitor needs a public_name.";

/**
 * Adds monitors at the end of a page, all or none; those on it already stay as they are. Throws TARGET_NOT_FOUND and
 * QUOTA_EXCEEDED.
 */
export async function addComponents(ctx: Ctx, pageId: string, input: ComponentBulk): Promise<Page<Component>> {
  return await changePage(ctx, pageId, async (own) => {
    const ids = [...new Set(input.target_ids)];
    const known = await queries.keepTargets(own.sql, ctx.orgId, ids);
    const absent = input.target_ids.findIndex((id) => !known.has(id));
    if (absent >= 0)
      throw new AppError("TARGET_NOT_FOUND", `Monitor ${input.target_ids[absent]} not found.`, {
        field: `/target_ids/${absent}`,
      });
    await takePlaces(own, pageId, ids);
    await queries.insertComponents(own.sql, ctx.orgId, pageId, ids, input.public_group ?? null);
    await record(own, { resourceId: pageId, after: { target_ids: ids, public_group: input.public_group ?? null } });
    return await wholeList(own, pageId);
  });
}

/** States are kept for this long: more than pages show. */
const keptStatesMs = 400 * dayMs;

/**
 * Changes the given fields; null restores the default. A component without a monitor keeps a name, and a new state
 * begins now. Throws INVALID_BODY and COMPONENT_NOT_FOUND.
 */
export async function updateComponent(
  ctx: Ctx,
  pageId: string,
  id: string,
  { state, show, ...fields }: ComponentPatch,
): Promise<Component> {
  return await changePage(ctx, pageId, async (own) => {
    const before = await find(own, pageId, id);
    if (before.target_id !== null && state !== undefined) throw invalid(stateOfMonitor, "/state");
    if (before.target_id === null && fields.public_name === null) throw invalid(needsName, "/public_name");
    await queries.updateComponent(own.sql, ctx.orgId, pageId, {
      ...before,
      ...fields,
      ...(show === undefined ? {} : { show: completeShow(show) }),
    });
    if (state !== undefined && state !== before.state) {
      const now = new Date(own.clock.now());
      const keepSince = new Date(now.getTime() - keptStatesMs);
      await changeState(own.sql, ctx.orgId, { id: newId(), componentId: before.id, state, now, keepSince });
    }
    const after = await find(own, pageId, id);
    const { before: was, after: is } = differences({ before: presentRow(before), after: presentRow(after) });
    await record(own, { resourceId: id, before: { page_id: pageId, ...was }, after: { page_id: pageId, ...is } });
    return presentRow(after);
  });
}

/** Removes a component from a page; the history of one without a monitor is lost. */
export async function removeComponent(ctx: Ctx, pageId: string, id: string): Promise<void> {
  await changePage(ctx, pageId, async (own) => {
    const before = await find(own, pageId, id);
    await queries.deleteComponent(own.sql, ctx.orgId, pageId, id);
    await record(own, { resourceId: id, before: auditable(pageId, before) });
  });
}

/** Sets the order of components; `ids` lists each of them once, otherwise INVALID_COMPONENT_ID. */
export async function reorderComponents(ctx: Ctx, pageId: string, ids: readonly string[]): Promise<Page<Component>> {
  return await changePage(ctx, pageId, async (own) => {
    const before = (await allComponents(own, pageId)).rows.map((row) => row.id);
    const present = new Set(before);
    const seen = new Set<string>();
    const stray = ids.findIndex((id) => !present.has(id) || seen.size === seen.add(id).size);
    if (stray >= 0)
      throw new AppError("INVALID_COMPONENT_ID", "List each component of this page exactly once.", {
        field: `/target_ids/${stray}`,
      });
    if (ids.length !== present.size) {
      throw new AppError(
        "INVALID_COMPONENT_ID",
        `The page has ${present.size} components, and the list names ${ids.length} of them: name every one.`,
        { field: "/target_ids" },
      );
    }
    await queries.orderComponents(own.sql, ctx.orgId, pageId, ids);
    await record(own, { resourceId: pageId, before: { target_ids: before }, after: { target_ids: ids } });
    return await wholeList(own, pageId);
  });
}

/**
 * Has the page show exactly these components, in this order. A stored component without a monitor keeps its state. The
 * caller has locked the page. Throws TARGET_NOT_FOUND and QUOTA_EXCEEDED.
 */
export async function replaceComponents(
  ctx: Ctx,
  pageId: string,
  components: readonly queries.WrittenComponent[],
): Promise<void> {
  requireOwner(ctx, "status_page:write");
  await inTransaction(ctx, async (own) => {
    const ids = components.map((component) => component.id);
    const targetIds = components.flatMap((component) => component.target_id ?? []);
    const known = await queries.keepTargets(own.sql, ctx.orgId, targetIds);
    if (known.size < targetIds.length) throw new AppError("TARGET_NOT_FOUND", "A monitor of the page was not found.");
    await queries.deleteComponentsBut(own.sql, ctx.orgId, pageId, ids);
    await takePlaces(own, pageId, ids);
    await write(own, pageId, components, "first");
    await record(own, { resourceId: pageId, after: { component_ids: ids } });
  });
}

const allComponents = (ctx: Ctx, pageId: string) =>
  queries.selectComponents(ctx.sql, ctx.orgId, pageId, { limit: 1_000_000, offset: 0 });

/** Every component of a page, as a list that has no further part. */
async function wholeList(ctx: Ctx, pageId: string): Promise<Page<Component>> {
  const found = await allComponents(ctx, pageId);
  return pageOf(found, { limit: found.total, offset: 0 }, presentRow);
}

async function find(ctx: Ctx, pageId: string, id: string): Promise<queries.ComponentRow> {
  const row = isId(id) ? await queries.selectComponent(ctx.sql, ctx.orgId, pageId, id) : null;
  if (row === null) throw new AppError("COMPONENT_NOT_FOUND", "This component is not on the page.");
  return row;
}

/** A monitor may be on several pages. */
const auditable = (pageId: string, row: queries.ComponentRow) => ({ page_id: pageId, ...presentRow(row) });

const presentRow = ({ state, ...row }: queries.ComponentRow): Component => ({
  ...row,
  ...(state === null ? {} : { manual: true as const, state }),
});

/**
 * Components as visitors see them: each group at the place of its first component, ungrouped components between the
 * groups where they stand.
 */
export function inGroups<T>(
  items: readonly T[],
  groupOf: (item: T) => string | null,
): { name: string | null; items: T[] }[] {
  const groups: { name: string | null; items: T[] }[] = [];
  const named = new Map<string, T[]>();
  for (const item of items) {
    const name = groupOf(item);
    const last = groups.at(-1);
    const own = name !== null ? named.get(name) : last?.name === null ? last.items : undefined;
    if (own !== undefined) {
      own.push(item);
      continue;
    }
    const made = [item];
    groups.push({ name, items: made });
    if (name !== null) named.set(name, made);
  }
  return groups;
}
