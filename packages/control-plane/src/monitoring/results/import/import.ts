import { AppError } from "@statusmesh/shared/errors";
import { isId } from "@statusmesh/shared/ids";
import { dayMs } from "@statusmesh/shared/time";
import { record } from "../../../access/audit/service.ts";
import { importIncidents } from "../../../alerting/incidents/service.ts";
import { type Ctx, inTransaction, requireOwner } from "../../../platform/context.ts";
import { portionsOf, takeTurns } from "../../../platform/process/turns.ts";
import { iso } from "../../../platform/http/wire.ts";
import type { ImportedDay } from "../../history/schema.ts";
import { upsertDays } from "../../history/service.ts";
import { selectFirstResults } from "./queries.ts";
import { type HistoryImport, mostDays, mostEntries, mostIncidents } from "./schema.ts";

/** Days of one statement: 50,000 hold the event loop for 0.3 s and take 90 MB. */
const daysAtOnce = 2_000;

type TargetHistory = HistoryImport["items"][number];
type PastIncident = Parameters<typeof importIncidents>[1][number];

/** What the history of a target must fit. Unix ms. */
interface Limits {
  now: number;
  /** First own result; null without any. */
  first: number | null;
}

/**
 * Stores what another product recorded of targets, all or nothing. Each day and each incident ends before the first own
 * result of its target; the same one again replaces it. For owners. Throws BULK_TOO_LARGE, TARGET_NOT_FOUND,
 * HISTORY_OVERLAP, INVALID_TIME_RANGE and INVALID_BODY.
 */
export async function importHistory(ctx: Ctx, { items }: HistoryImport) {
  requireOwner(ctx, "targets:write");
  requireFewEntries(items);
  const known = await firstResults(ctx, items);
  const turns = await takeTurns();
  const days: ImportedDay[] = [];
  const incidents: PastIncident[] = [];
  for (const [at, item] of items.entries()) {
    const limits = { now: ctx.clock.now(), first: known.get(item.target_id)! };
    days.push(...daysOf(item, limits, `/items/${at}/days`));
    incidents.push(...incidentsOf(item, limits, `/items/${at}/incidents`));
    if (turns.over()) await turns.next();
  }
  const stored = { targets: items.length, days: days.length, incidents: incidents.length };
  await inTransaction(ctx, async (tx) => {
    for (const some of portionsOf(days, daysAtOnce)) await upsertDays(tx.sql, some);
    const full = await importIncidents(tx, incidents, mostIncidents);
    if (full !== null)
      throw new AppError("INVALID_BODY", `A target has at most ${mostIncidents} imported incidents.`, {
        field: `/items/${items.findIndex((one) => one.target_id === full)}/incidents`,
      });
    await record(tx, { resourceId: null, after: { ...stored, ids: items.map((one) => one.target_id) } });
  });
  return stored;
}

function requireFewEntries(items: readonly TargetHistory[]): void {
  const entries = items.reduce((sum, { days, incidents }) => sum + days.length + incidents.length, 0);
  if (entries > mostEntries)
    throw new AppError(
      "BULK_TOO_LARGE",
      `A request has at most ${mostEntries} days and incidents, this one has ${entries}: send several requests.`,
      { field: "/items" },
    );
}

/** The first own result of each target, Unix ms; null for none. Throws TARGET_NOT_FOUND, and for one that is twice. */
async function firstResults(ctx: Ctx, items: readonly TargetHistory[]): Promise<Map<string, number | null>> {
  const ids = items.map((one) => one.target_id);
  const twice = ids.findIndex((id, at) => ids.indexOf(id) < at);
  if (twice !== -1)
    throw new AppError("INVALID_BODY", "The target is there twice: put its days and incidents into one item.", {
      field: `/items/${twice}/target_id`,
    });
  const rows = await selectFirstResults(ctx.sql, ctx.orgId, ids.filter(isId), new Date(ctx.clock.now()));
  const known = new Map(rows.map(({ id, first }) => [id, first?.getTime() ?? null]));
  const missing = ids.findIndex((id) => !known.has(id));
  if (missing !== -1)
    throw new AppError("TARGET_NOT_FOUND", "Monitor not found.", {
      details: { pointer: `/items/${missing}/target_id` },
    });
  return known;
}

function daysOf({ target_id, days }: TargetHistory, { now, first }: Limits, pointer: string): ImportedDay[] {
  const seen = new Set<string>();
  return days.map(({ date, avg_ms = null, ...counts }, at) => {
    const field = `${pointer}/${at}/date`;
    const start = Date.parse(date);
    if (seen.has(date)) throw new AppError("INVALID_BODY", `The day ${date} is there twice.`, { field });
    seen.add(date);
    if (start > now || start <= now - (mostDays + 1) * dayMs)
      throw new AppError("INVALID_BODY", `${date} is not one of the last ${mostDays} UTC days.`, { field });
    // The day of the first result counts its own runs.
    if (first !== null && start + dayMs > first) throw overlap(first, field);
    return { target_id, day: date, ...counts, avg_ms };
  });
}

function incidentsOf({ target_id, incidents }: TargetHistory, { now, first }: Limits, pointer: string): PastIncident[] {
  const seen = new Set<number>();
  return incidents.map(({ started_at, ended_at, title = null }, at) => {
    const [startedAt, endedAt] = [new Date(started_at), new Date(ended_at)];
    const field = `${pointer}/${at}`;
    if (seen.has(startedAt.getTime()))
      throw new AppError("INVALID_BODY", "Two incidents of the target begin at this time.", {
        field: `${field}/started_at`,
      });
    seen.add(startedAt.getTime());
    if (endedAt <= startedAt || endedAt.getTime() > now)
      throw new AppError("INVALID_TIME_RANGE", "An incident ends after its start, and not in the future.", {
        field: `${field}/ended_at`,
      });
    if (first !== null && endedAt.getTime() > first) throw overlap(first, `${field}/ended_at`);
    return { targetId: target_id, startedAt, endedAt, title };
  });
}

const overlap = (first: number, field: string): AppError =>
  new AppError(
    "HISTORY_OVERLAP",
    `The target has results of its own since ${iso(new Date(first))}: history ends before that, days before its day.`,
    { field },
  );
