import { AppError } from "@statusmesh/shared/errors";
import { isId } from "@statusmesh/shared/ids";
import { dayMs } from "@statusmesh/shared/time";
import { record } from "../../access/audit/service.ts";
import { type Ctx, inBatches, inTransaction, requireScope, type System } from "../../platform/context.ts";
import { iso, type Page, pageOf } from "../../platform/http/wire.ts";
import * as queries from "./occurrence-queries.ts";
import { lockWindow, selectWindow, type WindowRow } from "./queries.ts";
import { checkStart, lastStart, parseRule, type Series, starts } from "./recurrence.ts";
import { checkDuration, notFound, stateOf } from "./rules.ts";
import type { Occurrence, OccurrenceListQuery, OccurrencePatch } from "./schema.ts";

/** Occurrences are stored this far ahead, so that a month without the job loses none. */
const aheadMs = 62 * dayMs;
/** The job extends windows whose stored occurrences end earlier than this. */
const shortMs = 31 * dayMs;
/** Search range for the next occurrence of a sparse rule. */
const sparseMs = 10 * 366 * dayMs;
/** Windows of one transaction of the job. */
const batch = 100;

/** The series of a recurring window. */
const seriesOf = (row: Pick<WindowRow, "starts_at" | "recurrence_rule" | "recurrence_time_zone">): Series | null =>
  row.recurrence_rule === null || row.recurrence_time_zone === null
    ? null
    : { start: row.starts_at.getTime(), rule: parseRule(row.recurrence_rule), zone: row.recurrence_time_zone };

/**
 * Sets the end of the last occurrence. Throws INVALID_RECURRENCE for a rule without its own start, and INVALID_DURATION
 * for occurrences that overlap.
 */
export function planOccurrences(row: WindowRow, now: Date): void {
  const series = seriesOf(row);
  const length = row.ends_at.getTime() - row.starts_at.getTime();
  if (series === null) {
    row.over_at = row.ends_at;
    row.generated_until = null;
    return;
  }
  checkStart(series);
  const first = starts(series, { from: series.start, to: series.start + sparseMs, limit: 60 });
  checkDuration(length, Math.min(...first.slice(1).map((at, index) => at - first[index]!)));
  const last = lastStart(series, now.getTime());
  row.over_at = last === null ? null : new Date(last + length);
  row.generated_until = new Date(series.start - 1);
}

/** Starts after `from` to store now, and the time up to which the list is complete. */
function ahead(series: Series, from: number, now: number): { found: number[]; until: number } {
  const until = Math.max(now, series.start) + aheadMs;
  const found = starts(series, { from: from + 1, to: until });
  if (found.some((at) => at > now)) return { found, until };
  const next = starts(series, { from: until + 1, to: until + sparseMs, limit: 1 });
  return { found: [...found, ...next], until: next[0] ?? until + sparseMs };
}

/**
 * Writes the occurrences of a new window, or after a change the ones that have not started. Call it in the
 * transaction that wrote the window.
 */
export async function writeOccurrences(tx: Ctx, row: WindowRow, isNew: boolean, now: Date): Promise<void> {
  const series = seriesOf(row);
  if (!isNew) await queries.deleteUpcoming(tx.sql, tx.orgId, row.id, now);
  if (series === null) return await queries.writeOnlyOccurrence(tx.sql, row);
  const length = row.ends_at.getTime() - row.starts_at.getTime();
  const { found, until } = ahead(
    series,
    // A new window has rows from now on, also of the occurrence in progress.
    Math.max(series.start - 1, isNew ? now.getTime() - length : now.getTime()),
    now.getTime(),
  );
  await queries.addOccurrences(tx.sql, row, spansOf(found, length));
  await queries.updateGenerated(tx.sql, tx.orgId, row.id, new Date(until));
}

const spansOf = (found: readonly number[], length: number) =>
  found.map((at) => ({ starts_at: new Date(at), ends_at: new Date(at + length) }));

/**
 * Stores the occurrences of recurring windows ahead of time. Returns how many windows it extended. Any number of
 * replicas may run it at once.
 */
export async function generateOccurrences(system: System): Promise<number> {
  return await inBatches(system, batch, async (tx) => {
    const now = tx.clock.now();
    const rows = await queries.lockShortWindows(tx.sql, new Date(now), new Date(now + shortMs), batch);
    for (const row of rows) {
      const length = row.ends_at.getTime() - row.starts_at.getTime();
      const { found, until } = ahead(seriesOf(row)!, row.generated_until!.getTime(), now);
      await queries.addOccurrences(tx.sql, row, spansOf(found, length));
      await queries.updateGenerated(tx.sql, row.org_id, row.id, new Date(until));
    }
    return { taken: rows.length, done: rows.length };
  });
}

/** Current and future occurrences of a window, by start; of a recurring window, the next two months. */
export async function listOccurrences(
  ctx: Ctx,
  windowId: string,
  page: OccurrenceListQuery,
): Promise<Page<Occurrence>> {
  requireScope(ctx, "maintenance:read");
  const now = new Date(ctx.clock.now());
  if (!isId(windowId) || (await selectWindow(ctx.sql, ctx.orgId, windowId, now)) === null) throw notFound();
  const listed = await queries.selectOccurrences(ctx.sql, ctx.orgId, windowId, { after: now, ...page });
  return pageOf(listed, page, (row) => present(row, now));
}

/**
 * Changes one occurrence: extends, ends, skips or restores it. Throws OCCURRENCE_NOT_FOUND, MAINTENANCE_COMPLETED for
 * a past occurrence, INVALID_TIME_RANGE, INVALID_DURATION, and INVALID_RECURRENCE for skipping an occurrence that has
 * started or is the only one.
 */
export async function updateOccurrence(
  ctx: Ctx,
  windowId: string,
  id: string,
  patch: OccurrencePatch,
): Promise<Occurrence> {
  requireScope(ctx, "maintenance:write");
  return await inTransaction(ctx, async (tx) => {
    const now = new Date(tx.clock.now());
    const window = isId(windowId) ? await lockWindow(tx.sql, tx.orgId, windowId) : null;
    if (window === null) throw notFound();
    const row = isId(id) ? await queries.selectOccurrence(tx.sql, tx.orgId, windowId, id) : null;
    if (row === null) throw new AppError("OCCURRENCE_NOT_FOUND", "Occurrence not found.");
    if (row.ends_at <= now)
      throw new AppError("MAINTENANCE_COMPLETED", "This occurrence has ended and can no longer be changed.");
    const changed = { ...row };
    if (patch.cancelled !== undefined && patch.cancelled !== row.cancelled) {
      if (window.recurrence_rule === null) throw cannotSkip("This window happens once: delete it instead.");
      if (row.starts_at <= now) throw cannotSkip("This occurrence has started: end it now instead.");
      changed.cancelled = patch.cancelled;
    }
    if (patch.ends_at !== undefined) changed.ends_at = newEnd(row, new Date(patch.ends_at), now);
    await queries.updateOccurrence(tx.sql, tx.orgId, changed, now);
    await followEnd(tx, window, { was: row.ends_at, is: changed.ends_at });
    const after = present(changed, now);
    await record(tx, {
      resourceId: windowId,
      before: { title: window.title, ...present(row, now) },
      after: { title: window.title, ...after },
    });
    return after;
  });
}

/** Sets the end of the window to the end of its only or last occurrence. */
async function followEnd(tx: Ctx, window: WindowRow, { was, is }: { was: Date; is: Date }): Promise<void> {
  const last = window.over_at !== null && (window.over_at.getTime() === was.getTime() || window.over_at < is);
  if (window.recurrence_rule === null)
    await queries.updateEnd(tx.sql, tx.orgId, window.id, { ends_at: is, over_at: is });
  else if (last) await queries.updateEnd(tx.sql, tx.orgId, window.id, { ends_at: window.ends_at, over_at: is });
}

const cannotSkip = (message: string): AppError => new AppError("INVALID_RECURRENCE", message, { field: "/cancelled" });

/** A running occurrence ends now at the earliest; its past is history. */
function newEnd(row: queries.OccurrenceRow, end: Date, now: Date): Date {
  if (row.starts_at > now && end <= row.starts_at)
    throw new AppError("INVALID_TIME_RANGE", "The end must be after the start.", { field: "/ends_at" });
  checkDuration(end.getTime() - row.starts_at.getTime());
  return end < now ? now : end;
}

const present = (row: queries.OccurrenceRow, now: Date): Occurrence => ({
  id: row.id,
  starts_at: iso(row.starts_at),
  ends_at: iso(row.ends_at),
  state: stateOf(row, now),
  cancelled: row.cancelled,
});
