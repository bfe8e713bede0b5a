import type { Readable } from "node:stream";
import { dayMs } from "@statusmesh/shared/time";
import { timezoneOf } from "../../access/orgs/service.ts";
import { type IncidentTotals, incidentTotals, outagesOf } from "../../alerting/incidents/reports/service.ts";
import { maintenanceReader } from "../../alerting/maintenance/calendar/service.ts";
import { expectedOf } from "../../monitoring/heartbeats/schedule/service.ts";
import { type DayTimes, importedDays, timesOf } from "../../monitoring/history/service.ts";
import { checkedTime } from "../../monitoring/results/history/service.ts";
import { inTurn } from "../../monitoring/results/service.ts";
import { selectNextHour } from "../../monitoring/results/rollups/service.ts";
import type { ReportedRow } from "../../monitoring/targets/health/service.ts";
import { reportedIds, reportedOfTags, reportedTags, reportedTargets } from "../../monitoring/targets/service.ts";
import { targetCount } from "../../monitoring/targets/stored/service.ts";
import { getOrMake } from "../../platform/caches.ts";
import { type Ctx, type OrgReader, requireScope } from "../../platform/context.ts";
import { type Cell, streamedCsv } from "../../platform/http/reply/csv.ts";
import type { Paging } from "../../platform/db/client/sql.ts";
import type { Page } from "../../platform/http/wire.ts";
import { mapInTurns, portionsOf } from "../../platform/process/turns.ts";
import { type Interval, union } from "../../platform/intervals.ts";
import { reportedPages } from "../status-pages/service.ts";
import { addDowntime, type Figures, figuresOf, type Past, shown, sumOf } from "./figures.ts";
import { daysOf, reportRange } from "./range.ts";
import { type Grouping, type UptimeQuery, UptimeRow } from "./schema.ts";

/** Monitors that are read at once: each of a dozen statements answers some rows for a monitor. */
const portion = 1000;
/** Rows of the CSV at most. */
const mostRows = 100_000;

/**
 * Monitors of an organisation from which on its reports end at the last hour with sums: to read the runs of the open
 * hour of 10,000 takes up to 1 s.
 */
const mostUntilNow = 1000;

/** A page of a report, with its range in RFC 3339 and the organisation's zone. */
export interface UptimeReport extends Page<UptimeRow> {
  from: string;
  to: string;
  /** True where it ends earlier than requested, because the organisation has many monitors. */
  isShortened: boolean;
  timezone: string;
}

type Asked = Pick<UptimeQuery, "from" | "to" | "group_by" | "limit" | "offset">;

/** A report with the sums of all its monitors, and the days of the range with their confirmed outages. */
export interface UptimeOverview extends UptimeReport {
  /** Null where the organisation has too many monitors for sums in one request: then rows are in the order of names. */
  overall: (Omit<UptimeRow, "id" | "name"> & { monitors: number }) | null;
  days: { at: number; downtime_secs: number }[];
}

/**
 * Uptime of the organisation in a range, by name; with `only` the row of one tag or status page (its id). Throws
 * INVALID_QUERY and BAD_TIME_RANGE.
 */
export async function uptimeReport(ctx: Ctx, asked: Asked, only: string | null = null): Promise<UptimeReport> {
  requireScopes(ctx, asked.group_by);
  const { limit, offset } = asked;
  const { timezone, range, isShortened } = await rangeOf(ctx, asked);
  const { rows, total } = await readersOf[asked.group_by](ctx, { limit, offset, only });
  const items: UptimeRow[] = [];
  for await (const part of rows(range)) items.push(...part);
  return {
    items,
    total,
    limit,
    offset,
    from: new Date(range.start).toISOString(),
    to: new Date(range.end).toISOString(),
    isShortened,
    timezone,
  };
}

/** Like {@link uptimeReport}, the worst first. */
export async function uptimeOverview(ctx: Ctx, asked: Asked): Promise<UptimeOverview> {
  if ((await targetCount(ctx)) > mostUntilNow) return { ...(await uptimeReport(ctx, asked)), overall: null, days: [] };
  requireScopes(ctx, asked.group_by);
  const { timezone, range, isShortened } = await rangeOf(ctx, asked);
  const days = daysOf(range, timezone).map((day) => ({ ...day, ms: 0 }));
  const monitors: Figures[] = [];
  const seen: Seen = (figures, past) => {
    monitors.push(figures);
    addDowntime(days, range, past);
  };
  const { limit, offset } = asked;
  const whole = { limit: mostUntilNow, offset: 0, only: null };
  const { rows, total } = await readersOf[asked.group_by](ctx, whole, seen);
  if (total > mostUntilNow) return { ...(await uptimeReport(ctx, asked)), overall: null, days: [] };
  const items: UptimeRow[] = [];
  for await (const part of rows(range)) items.push(...part);
  return {
    items: items.toSorted(byUptime).slice(offset, offset + limit),
    total,
    limit,
    offset,
    from: new Date(range.start).toISOString(),
    to: new Date(range.end).toISOString(),
    isShortened,
    timezone,
    overall: { ...shown(range, sumOf(monitors)), monitors: monitors.length },
    days: days.map(({ start, ms }) => ({ at: start, downtime_secs: Math.round(ms / 1000) })),
  };
}

/** The lowest uptime first, of the same the longest outage; without a measurement last. */
const byUptime = (a: UptimeRow, b: UptimeRow): number =>
  (a.uptime_pct ?? Infinity) - (b.uptime_pct ?? Infinity) || (b.downtime_secs ?? 0) - (a.downtime_secs ?? 0) || 0;

/** Columns of the CSV: the fields of a row. */
const head = Object.keys(UptimeRow.properties) as (keyof UptimeRow)[];

/** All rows as CSV, read while they are sent. A gap is an interval of ISO 8601; a space is between two. */
export async function uptimeCsv(ctx: Ctx, asked: Pick<Asked, "from" | "to" | "group_by">): Promise<Readable> {
  requireScopes(ctx, asked.group_by);
  const { range } = await rangeOf(ctx, asked);
  const { rows } = await readersOf[asked.group_by](ctx, { limit: mostRows, offset: 0, only: null });
  async function* pages(): AsyncGenerator<Cell[][], void> {
    for await (const part of rows(range))
      yield part.map((row) =>
        head.map((name) => (name === "gaps" ? row.gaps.map(({ from, to }) => `${from}/${to}`).join(" ") : row[name])),
      );
  }
  return await streamedCsv(head, pages());
}

/** The range of a report, which of many monitors ends with the hours that have sums, and the organisation's zone. */
async function rangeOf(ctx: Ctx, asked: Pick<Asked, "from" | "to">) {
  const timezone = await timezoneOf(ctx, ctx.orgId);
  const range = reportRange(asked, timezone, ctx.clock.now());
  const countedTo = (await targetCount(ctx)) > mostUntilNow ? await selectNextHour(ctx.sql) : null;
  const end = countedTo?.getTime() ?? Infinity;
  const isShortened = end < range.end && end > range.start;
  return { range: isShortened ? { start: range.start, end } : range, isShortened, timezone };
}

function requireScopes(ctx: Ctx, grouping: Grouping): void {
  requireScope(ctx, "targets:read");
  if (grouping === "page") requireScope(ctx, "status_page:read");
}

/** Called with each monitor of a report. */
type Seen = (figures: Figures, past: Past) => void;

/** The rows of a page of the report, in parts, and how many there are in all. */
type Reader = (
  reader: OrgReader,
  /** `only`: a tag, or the id of a status page, and no other row. */
  paging: Paging & { only: string | null },
  seen?: Seen,
) => Promise<{ rows(range: Interval): AsyncGenerator<UptimeRow[], void>; total: number }>;

const readersOf: Record<Grouping, Reader> = {
  async target(reader, paging, seen) {
    const ids = await reportedIds(reader, paging);
    return {
      total: await targetCount(reader),
      async *rows(range) {
        for await (const part of figuresIn(reader, byId(reader, ids), range, seen))
          yield part.map(({ target, figures }) => ({ id: target.id, name: target.name, ...shown(range, figures) }));
      },
    };
  },
  async tag(reader, paging, seen) {
    const { names, total } = await reportedTags(reader, paging);
    return {
      total,
      async *rows(range) {
        const groups = new Map<string, Figures>(names.map((name) => [name, sumOf([])]));
        if (names.length === 0) return;
        const tagged = portionsOf(await reportedOfTags(reader, names), portion);
        for await (const part of figuresIn(reader, tagged, range, seen)) addUp(groups, part, ({ tags }) => tags);
        yield names.map((name) => ({ id: null, name, ...shown(range, groups.get(name)!) }));
      },
    };
  },
  async page(reader, paging, seen) {
    const { pages, total } = await reportedPages(reader, paging);
    return {
      total,
      async *rows(range) {
        const groups = new Map(pages.map(({ id }) => [id, sumOf([])]));
        const pagesOf = new Map<string, string[]>();
        for (const { id, target_ids } of pages)
          for (const target of target_ids) pagesOf.set(target, [...(pagesOf.get(target) ?? []), id]);
        for await (const part of figuresIn(reader, byId(reader, [...pagesOf.keys()]), range, seen))
          addUp(groups, part, ({ id }) => pagesOf.get(id)!);
        yield pages.map(({ id, name }) => ({ id, name, ...shown(range, groups.get(id)!) }));
      },
    };
  },
};

function addUp(
  groups: Map<string, Figures>,
  part: readonly { target: ReportedRow; figures: Figures }[],
  groupsOf: (target: ReportedRow) => readonly string[],
): void {
  const added = new Map<string, Figures[]>();
  for (const { target, figures } of part)
    for (const name of groupsOf(target)) if (groups.has(name)) getOrMake(added, name, () => []).push(figures);
  for (const [name, figures] of added) groups.set(name, sumOf([groups.get(name)!, ...figures]));
}

/** Monitors in the order of the ids, in portions. */
async function* byId(reader: OrgReader, ids: readonly string[]): AsyncGenerator<ReportedRow[], void> {
  for (const part of portionsOf(ids, portion)) yield await reportedTargets(reader, part);
}

/** The figures of portions of monitors in a range. */
async function* figuresIn(
  reader: OrgReader,
  portions: Iterable<readonly ReportedRow[]> | AsyncIterable<readonly ReportedRow[]>,
  range: Interval,
  seen: Seen = () => {},
): AsyncGenerator<{ target: ReportedRow; figures: Figures }[], void> {
  const times = { from: new Date(range.start), to: new Date(range.end) };
  const maintenanceOf = maintenanceReader(reader, reader.orgId, times);
  for await (const targets of portions) {
    const past = await inTurn(reader, async () => {
      const maintenance = await maintenanceOf(targets.map(({ id }) => id));
      const known = await pastOf(reader, targets, times);
      return (id: string): Past => ({ ...known(id), maintenance: maintenance(id) });
    });
    yield await mapInTurns(targets, (target) => {
      const own = past(target.id);
      const figures = figuresOf(range, own);
      seen(figures, own);
      return { target, figures };
    });
  }
}

/** What is known of the monitors around a range, beside their maintenance. */
async function pastOf(
  reader: OrgReader,
  targets: readonly ReportedRow[],
  times: { from: Date; to: Date },
): Promise<(id: string) => Omit<Past, "maintenance">> {
  const { orgId, clock } = reader;
  const now = clock.now();
  const ids = targets.map(({ id }) => id);
  const byId = new Map(targets.map((target) => [target.id, target]));
  const checked = await checkedTime(reader, orgId, ids, times, (id) => {
    const { created_at: created, status, last_result_at: last } = byId.get(id)!;
    return { created: created.getTime(), lastRun: status === "unknown" ? (last?.getTime() ?? 0) : now };
  });
  const expected = await expectedOf(reader, orgId, ids, times);
  const imported = await importedTime(reader, ids, times);
  const outages = await outagesOf(reader, orgId, ids, times);
  const totals = await incidentTotals(reader, orgId, ids, times);
  const down = new Map<string, Interval[]>();
  for (const { target_id, starts_at, ends_at, state } of outages)
    if (state !== "degraded")
      getOrMake(down, target_id, () => []).push({ start: starts_at.getTime(), end: ends_at?.getTime() ?? now });
  return (id) => {
    const days = imported.get(id);
    const { incidents, resolved, outage_ms: outageMs }: Omit<IncidentTotals, "target_id"> = totals.get(id) ?? none;
    const own = checked.get(id)!;
    return {
      probed: union([...(expected.get(id) ?? own.spans), ...(days?.times ?? [])]),
      down: union([...(down.get(id) ?? []), ...(days?.times ?? []).flatMap((day) => day.down ?? [])]),
      checks: own.checks + (days?.checks ?? 0),
      incidents,
      resolved,
      outageMs,
    };
  };
}

const none = { incidents: 0, resolved: 0, outage_ms: 0 };

/** Days of another product by monitor: the times of those that overlap the range, runs of those that begin in it. */
async function importedTime(reader: OrgReader, ids: readonly string[], { from, to }: { from: Date; to: Date }) {
  const around = { from: new Date(from.getTime() - dayMs), to };
  const found = new Map<string, { times: DayTimes[]; checks: number }>();
  for (const [id, days] of await importedDays(reader, reader.orgId, ids, around)) {
    const counted = days.filter(({ day }) => Date.parse(day) >= from.getTime());
    found.set(id, {
      times: days.flatMap((day) => timesOf(day) ?? []),
      checks: counted.reduce((sum, { up, degraded, down, error }) => sum + up + degraded + down + error, 0),
    });
  }
  return found;
}
