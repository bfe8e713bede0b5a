import { AppError } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import { differences, record } from "../audit/service.ts";
import { type Ctx, inTransaction, requireScope, type System } from "../context.ts";
import { iso, type Page } from "../http/wire.ts";
import { takeQuota } from "../plans/service.ts";
import * as queries from "./queries.ts";
import {
  type Maintenance,
  type MaintenanceCreate,
  type MaintenanceListQuery,
  type MaintenancePatch,
  maxDays,
  type WindowState,
} from "./schema.ts";

export type { PageWindowRow } from "./queries.ts";

/**
 * Creates a maintenance window. Throws INVALID_TIME_RANGE, INVALID_DURATION, INVALID_COMPONENT_ID, and QUOTA_EXCEEDED
 * for windows that have not ended.
 */
export async function createWindow(ctx: Ctx, input: MaintenanceCreate): Promise<Maintenance> {
  requireScope(ctx, "maintenance:write");
  const now = new Date(ctx.clock.now());
  const row: queries.WindowRow = {
    id: newId(),
    org_id: ctx.orgId,
    title: input.title,
    description: input.description ?? null,
    starts_at: new Date(input.starts_at),
    ends_at: new Date(input.ends_at),
    write_source: ctx.writeSource,
    created_at: now,
    updated_at: now,
    target_ids: input.component_ids,
  };
  checkTimes(row);
  return await inTransaction(ctx, async (tx) => {
    await checkTargets(tx, row.target_ids);
    if (row.ends_at > now)
      await takeQuota(tx, "max_maintenance_windows", async () => ({
        current: await queries.countUnfinished(tx.sql, ctx.orgId, now),
        adding: 1,
      }));
    await queries.insertWindow(tx.sql, row);
    const made = present(row, now);
    await record(tx, { resourceId: row.id, after: made });
    return made;
  });
}

/** Windows of the organisation, newest start first. */
export async function listWindows(
  ctx: Ctx,
  { status, limit, offset }: MaintenanceListQuery,
): Promise<Page<Maintenance>> {
  requireScope(ctx, "maintenance:read");
  const now = new Date(ctx.clock.now());
  const [rows, total] = await Promise.all([
    queries.selectWindows(ctx.sql, ctx.orgId, { status, now, limit, offset }),
    queries.countWindows(ctx.sql, ctx.orgId, status, now),
  ]);
  return { items: rows.map((row) => present(row, now)), total, limit, offset };
}

/** One window. Throws MAINTENANCE_NOT_FOUND. */
export async function getWindow(ctx: Ctx, id: string): Promise<Maintenance> {
  requireScope(ctx, "maintenance:read");
  const row = isId(id) ? await queries.selectWindow(ctx.sql, ctx.orgId, id) : null;
  if (row === null) throw notFound();
  return present(row, new Date(ctx.clock.now()));
}

/**
 * Changes the given fields. An active window keeps its start and its components, and may end now; a past one throws
 * MAINTENANCE_COMPLETED. Otherwise throws like {@link createWindow}.
 */
export async function updateWindow(ctx: Ctx, id: string, patch: MaintenancePatch): Promise<Maintenance> {
  requireScope(ctx, "maintenance:write");
  return await inTransaction(ctx, async (tx) => {
    const now = new Date(tx.clock.now());
    const row = isId(id) ? await queries.lockWindow(tx.sql, ctx.orgId, id) : null;
    if (row === null) throw notFound();
    const state = stateOf(row, now);
    if (state === "past")
      throw new AppError("MAINTENANCE_COMPLETED", "This maintenance window has ended and can no longer be changed.");
    const changed: queries.WindowRow = {
      ...row,
      title: patch.title ?? row.title,
      description: patch.description === undefined ? row.description : patch.description,
      starts_at: patch.starts_at === undefined ? row.starts_at : new Date(patch.starts_at),
      ends_at: patch.ends_at === undefined ? row.ends_at : new Date(patch.ends_at),
      target_ids: patch.component_ids ?? row.target_ids,
      write_source: tx.writeSource,
      updated_at: now,
    };
    if (state === "active") {
      keepRunning(row, changed);
      // The past of a running window stays: it ends now at the earliest.
      if (changed.ends_at < now) changed.ends_at = now;
    }
    checkTimes(changed);
    await checkTargets(tx, changed.target_ids);
    await queries.updateWindow(tx.sql, changed);
    const after = present(changed, now);
    await record(tx, { resourceId: id, ...differences({ before: present(row, now), after }) });
    return after;
  });
}

/** Cancels a window; held notices of incidents that are still open go out. Throws MAINTENANCE_NOT_FOUND. */
export async function deleteWindow(ctx: Ctx, id: string): Promise<void> {
  requireScope(ctx, "maintenance:write");
  await inTransaction(ctx, async (tx) => {
    const row = isId(id) ? await queries.lockWindow(tx.sql, ctx.orgId, id) : null;
    if (row === null) throw notFound();
    await queries.deleteWindow(tx.sql, ctx.orgId, id);
    await record(tx, { resourceId: id, before: present(row, new Date(tx.clock.now())) });
  });
}

/** Windows of the targets of a status page that overlap a time range, by start. Without a scope check. */
export async function windowsOf(
  system: System,
  orgId: string,
  targetIds: readonly string[],
  range: { from: Date; to: Date },
): Promise<queries.PageWindowRow[]> {
  if (targetIds.length === 0) return [];
  return await queries.selectWindowsOf(system.sql, orgId, targetIds, range.from, range.to);
}

function stateOf({ starts_at, ends_at }: Pick<queries.WindowRow, "starts_at" | "ends_at">, now: Date): WindowState {
  if (ends_at <= now) return "past";
  return starts_at <= now ? "active" : "upcoming";
}

function checkTimes({ starts_at, ends_at }: queries.WindowRow): void {
  if (ends_at <= starts_at)
    throw new AppError("INVALID_TIME_RANGE", "The end must be after the start.", { field: "/ends_at" });
  if (ends_at.getTime() - starts_at.getTime() > maxDays * 86_400_000)
    throw new AppError("INVALID_DURATION", `A maintenance window lasts at most ${maxDays} days.`, {
      field: "/ends_at",
    });
}

function keepRunning(row: queries.WindowRow, changed: queries.WindowRow): void {
  if (changed.starts_at.getTime() !== row.starts_at.getTime())
    throw new AppError("INVALID_TIME_RANGE", "This window has started: its start can no longer be changed.", {
      field: "/starts_at",
    });
  if (changed.target_ids.join() !== row.target_ids.join())
    throw new AppError("INVALID_COMPONENT_ID", "This window has started: its components can no longer be changed.", {
      field: "/component_ids",
    });
}

async function checkTargets(tx: Ctx, ids: readonly string[]): Promise<void> {
  const known = await queries.keepTargets(tx.sql, tx.orgId, ids);
  const wrong = ids.findIndex((id, at) => !known.has(id) || ids.indexOf(id) !== at);
  if (wrong < 0) return;
  const words = known.has(ids[wrong]!) ? "is listed twice" : "is not a target of this organisation";
  throw new AppError("INVALID_COMPONENT_ID", `${ids[wrong]} ${words}.`, { field: `/component_ids/${wrong}` });
}

const notFound = () => new AppError("MAINTENANCE_NOT_FOUND", "Maintenance window not found.");

const present = (row: queries.WindowRow, now: Date): Maintenance => ({
  id: row.id,
  title: row.title,
  description: row.description,
  starts_at: iso(row.starts_at),
  ends_at: iso(row.ends_at),
  component_ids: row.target_ids,
  state: stateOf(row, now),
  write_source: row.write_source,
  created_at: iso(row.created_at),
  updated_at: iso(row.updated_at),
});
