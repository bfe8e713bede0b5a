import { AppError } from "@statusmesh/shared/errors";
import { isId, newId } from "@statusmesh/shared/ids";
import { differences, record } from "../../access/audit/service.ts";
import { type Ctx, inTransaction, requireScope, type System } from "../../platform/context.ts";
import { type ManagedChange, writeManaged } from "../../platform/db/managed-queries.ts";
import { iso, isoTimes, managedBy, type Page } from "../../platform/http/wire.ts";
import { takeOne } from "../../access/plans/service.ts";
import { type PageWindowRow, selectMonitorNames, selectWindowsOf } from "./occurrence-queries.ts";
import { planOccurrences, writeOccurrences } from "./occurrences.ts";
import * as queries from "./queries.ts";
import { formatRule, parseRule, parseZone } from "./recurrence.ts";
import { checkTimes, keepRunning, notFound, stateOf } from "./rules.ts";
import type { Maintenance, MaintenanceCreate, MaintenanceListQuery, MaintenancePatch, WindowState } from "./schema.ts";

export type { PageWindowRow } from "./occurrence-queries.ts";
export { listOccurrences, updateOccurrence } from "./occurrences.ts";

/**
 * Creates a maintenance window. Throws INVALID_TIME_RANGE, INVALID_DURATION, INVALID_RECURRENCE, INVALID_COMPONENT_ID,
 * MAINTENANCE_ENDED for a rule without an occurrence from now on, and QUOTA_EXCEEDED for windows that have not ended.
 */
export async function createWindow(ctx: Ctx, input: MaintenanceCreate, id = newId()): Promise<Maintenance> {
  requireScope(ctx, "maintenance:write");
  const now = new Date(ctx.clock.now());
  const row = newRow(ctx, input, id);
  if (row.recurrence_rule !== null && row.over_at !== null && row.over_at <= now)
    throw new AppError("MAINTENANCE_ENDED", `The last occurrence of this rule ended at ${iso(row.over_at)}.`, {
      field: "/recurrence/rule",
    });
  return await inTransaction(ctx, async (tx) => {
    await checkTargets(tx, row.target_ids);
    if (row.over_at === null || row.over_at > now)
      await takeOne(tx, "max_maintenance_windows", () => queries.countUnfinished(tx.sql, ctx.orgId, now));
    await queries.insertWindow(tx.sql, row);
    await writeOccurrences(tx, row, true, now);
    const made = await readWindow(tx, row.id, now);
    await record(tx, { resourceId: row.id, after: made });
    return made;
  });
}

/** The row of a new window. Throws the faults of its times and its recurrence. */
function newRow(ctx: Ctx, input: MaintenanceCreate, id: string): queries.WindowRow {
  const now = new Date(ctx.clock.now());
  const row: queries.WindowRow = {
    id,
    org_id: ctx.orgId,
    ...inputColumns(input),
    over_at: null,
    generated_until: null,
    write_source: ctx.writeSource,
    created_at: now,
    updated_at: now,
    managed: null,
  };
  checkTimes(row);
  planOccurrences(row, now);
  return row;
}

const inputColumns = (input: MaintenanceCreate) => ({
  title: input.title,
  description: input.description ?? null,
  starts_at: new Date(input.starts_at),
  ends_at: new Date(input.ends_at),
  ...recurrenceColumns(input.recurrence ?? null),
  target_ids: input.component_ids,
});

/** A window as configuration as code compares it. */
export interface StoredWindow extends queries.WindowRow {
  readonly state: WindowState;
}

/** Every window of the organisation. */
export async function storedWindows(ctx: Ctx): Promise<StoredWindow[]> {
  requireScope(ctx, "maintenance:read");
  const now = new Date(ctx.clock.now());
  const page = { state: "all", now, order: "newest", limit: 1_000_000, offset: 0 } as const;
  const rows = await queries.selectWindows(ctx.sql, ctx.orgId, page);
  return rows.map((row) => ({ ...row, state: present(row, now).state }));
}

/**
 * The row that an input asks for, over a stored window or as a new one. Throws what {@link createWindow} and
 * {@link updateWindow} throw for its times, its recurrence and the components of a running window.
 */
export function windowRules(ctx: Ctx, input: MaintenanceCreate, stored: StoredWindow | null): queries.WindowRow {
  const now = new Date(ctx.clock.now());
  if (stored === null) return newRow(ctx, input, "");
  const row: queries.WindowRow = { ...stored, ...inputColumns(input) };
  if (stored.state === "active") keepRunning(stored, row);
  checkTimes(row);
  if (timesOf(row) !== timesOf(stored)) planOccurrences(row, now);
  return row;
}

/** Locks windows against other edits until the transaction ends. */
export async function keepWindows(tx: Ctx, ids: readonly string[]): Promise<void> {
  requireScope(tx, "maintenance:write");
  for (const id of [...ids].sort()) await queries.lockWindow(tx.sql, tx.orgId, id);
}

/** Writes who declares windows. */
export async function manageWindows(tx: Ctx, changes: readonly ManagedChange[]): Promise<void> {
  requireScope(tx, "maintenance:write");
  await writeManaged(tx.sql, "maintenance_windows", tx.orgId, changes);
}

/** Windows of the organisation by the start of their current, next or last occurrence. Throws INVALID_QUERY. */
export async function listWindows(
  ctx: Ctx,
  { state, status, limit, offset }: MaintenanceListQuery,
  order: queries.WindowOrder = "newest",
): Promise<Page<Maintenance>> {
  requireScope(ctx, "maintenance:read");
  if (state !== undefined && status !== undefined && state !== status)
    throw new AppError("INVALID_QUERY", "state and status are the same filter: send one of them.", {
      field: "/query/status",
    });
  const now = new Date(ctx.clock.now());
  const wanted = state ?? status ?? "all";
  const [rows, total] = await Promise.all([
    queries.selectWindows(ctx.sql, ctx.orgId, { state: wanted, now, order, limit, offset }),
    queries.countWindows(ctx.sql, ctx.orgId, wanted, now),
  ]);
  return { items: rows.map((row) => present(row, now)), total, limit, offset };
}

/**
 * Windows with the names of their first 10 monitors, those in progress and then the next ones, or those of one state;
 * past ones newest first. Monitors are what they are about, so that `targets:read` is enough.
 */
export async function plannedWindows(
  ctx: Ctx,
  { state, limit }: { state?: WindowState; limit: number },
): Promise<{ items: { window: Maintenance; monitors: string[] }[]; total: number }> {
  requireScope(ctx, "targets:read");
  const now = new Date(ctx.clock.now());
  const windows: Maintenance[] = [];
  let total = 0;
  for (const status of state === undefined ? (["active", "upcoming"] as const) : [state]) {
    const order = status === "past" ? "newest" : "soonest";
    const page = { state: status, now, order, limit: limit - windows.length, offset: 0 } as const;
    windows.push(...(await queries.selectWindows(ctx.sql, ctx.orgId, page)).map((row) => present(row, now)));
    total += await queries.countWindows(ctx.sql, ctx.orgId, status, now);
  }
  const names = await selectMonitorNames(
    ctx.sql,
    ctx.orgId,
    windows.map(({ id }) => id),
  );
  return { items: windows.map((window) => ({ window, monitors: names.get(window.id) ?? [] })), total };
}

/** One window. Throws MAINTENANCE_NOT_FOUND. */
export async function getWindow(ctx: Ctx, id: string): Promise<Maintenance> {
  requireScope(ctx, "maintenance:read");
  return await readWindow(ctx, id, new Date(ctx.clock.now()));
}

async function readWindow(ctx: Ctx, id: string, now: Date): Promise<Maintenance> {
  const row = isId(id) ? await queries.selectWindow(ctx.sql, ctx.orgId, id, now) : null;
  if (row === null) throw notFound();
  return present(row, now);
}

/**
 * Changes the given fields. During an occurrence, start and components cannot change. A single window may end now; a
 * recurring window ends by its occurrence. A past window throws MAINTENANCE_COMPLETED. Otherwise
 * throws like {@link createWindow}. Changes of times and recurrence apply to occurrences that have not started.
 */
export async function updateWindow(ctx: Ctx, id: string, patch: MaintenancePatch): Promise<Maintenance> {
  requireScope(ctx, "maintenance:write");
  return await inTransaction(ctx, async (tx) => {
    const now = new Date(tx.clock.now());
    const row = isId(id) ? await queries.lockWindow(tx.sql, ctx.orgId, id) : null;
    if (row === null) throw notFound();
    const before = await readWindow(tx, id, now);
    if (before.state === "past")
      throw new AppError("MAINTENANCE_COMPLETED", "This maintenance window has ended and can no longer be changed.");
    const changed: queries.WindowRow = {
      ...row,
      title: patch.title ?? row.title,
      description: patch.description === undefined ? row.description : patch.description,
      starts_at: patch.starts_at === undefined ? row.starts_at : new Date(patch.starts_at),
      ends_at: patch.ends_at === undefined ? row.ends_at : new Date(patch.ends_at),
      ...(patch.recurrence === undefined ? {} : recurrenceColumns(patch.recurrence)),
      target_ids: patch.component_ids ?? row.target_ids,
      write_source: tx.writeSource,
      updated_at: now,
    };
    if (before.state === "active") {
      keepRunning(row, changed);
      // A running window ends now at the earliest; its past is history.
      if (changed.recurrence_rule === null && changed.ends_at < now) changed.ends_at = now;
    }
    checkTimes(changed);
    await checkTargets(tx, changed.target_ids);
    const planned = timesOf(changed) !== timesOf(row);
    if (planned) planOccurrences(changed, now);
    await queries.updateWindow(tx.sql, changed);
    if (planned) await writeOccurrences(tx, changed, false, now);
    const after = await readWindow(tx, id, now);
    await record(tx, { resourceId: id, ...differences({ before, after }) });
    return after;
  });
}

const timesOf = (row: queries.WindowRow): string =>
  [row.starts_at.getTime(), row.ends_at.getTime(), row.recurrence_rule, row.recurrence_time_zone].join();

/** Cancels a window; held notifications of open incidents are sent. Throws MAINTENANCE_NOT_FOUND. */
export async function deleteWindow(ctx: Ctx, id: string): Promise<void> {
  requireScope(ctx, "maintenance:write");
  await inTransaction(ctx, async (tx) => {
    const row = isId(id) ? await queries.lockWindow(tx.sql, ctx.orgId, id) : null;
    if (row === null) throw notFound();
    const now = new Date(tx.clock.now());
    const before = await readWindow(tx, id, now);
    await queries.deleteWindow(tx.sql, ctx.orgId, id, now);
    await record(tx, { resourceId: id, before });
  });
}

/**
 * Occurrences of windows of the targets of a status page that overlap a time range, by start. Without a scope check.
 */
export async function windowsOf(
  system: System,
  orgId: string,
  targetIds: readonly string[],
  range: { from: Date; to: Date },
): Promise<PageWindowRow[]> {
  if (targetIds.length === 0) return [];
  return await selectWindowsOf(system.sql, orgId, targetIds, range.from, range.to);
}

function recurrenceColumns(
  recurrence: Maintenance["recurrence"],
): Pick<queries.WindowRow, "recurrence_rule" | "recurrence_time_zone"> {
  if (recurrence === null) return { recurrence_rule: null, recurrence_time_zone: null };
  return {
    recurrence_rule: formatRule(parseRule(recurrence.rule)),
    recurrence_time_zone: parseZone(recurrence.time_zone),
  };
}

async function checkTargets(tx: Ctx, ids: readonly string[]): Promise<void> {
  const known = await queries.keepTargets(tx.sql, tx.orgId, ids);
  const seen = new Set<string>();
  const wrong = ids.findIndex((id) => !known.has(id) || seen.size === seen.add(id).size);
  if (wrong < 0) return;
  const words = known.has(ids[wrong]!) ? "is listed twice" : "is not a target of this organisation";
  throw new AppError("INVALID_COMPONENT_ID", `${ids[wrong]} ${words}.`, { field: `/component_ids/${wrong}` });
}

function present(row: queries.WindowView, now: Date): Maintenance {
  const { recurrence_rule: rule, recurrence_time_zone: zone } = row;
  const occurrence =
    row.occurrence_id === null
      ? null
      : { id: row.occurrence_id, starts_at: row.occurrence_starts_at!, ends_at: row.occurrence_ends_at! };
  const active = occurrence !== null && stateOf(occurrence, now) === "active";
  const over = row.over_at !== null && row.over_at <= now;
  return {
    id: row.id,
    title: row.title,
    description: row.description,
    starts_at: iso(row.starts_at),
    ends_at: iso(row.ends_at),
    recurrence: rule === null || zone === null ? null : { rule, time_zone: zone },
    occurrence: occurrence === null ? null : isoTimes(occurrence),
    component_ids: row.target_ids,
    state: over ? "past" : active ? "active" : "upcoming",
    managed_by: managedBy(row.managed),
    write_source: row.write_source,
    created_at: iso(row.created_at),
    updated_at: iso(row.updated_at),
  };
}
