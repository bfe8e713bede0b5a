import { budgetMs, kindOf } from "@statusmesh/shared/checks";
import type { CheckStatus } from "@statusmesh/shared/protocol/result";
import { isId } from "@statusmesh/shared/ids";
import { type Ctx, type OrgReader, requireScope } from "../../../platform/context.ts";
import { type Cause, type CauseLine, causeLine } from "../../../alerting/causes/service.ts";
import { linePage } from "../../../platform/db/lines.ts";
import type { Page } from "../../../platform/http/wire.ts";
import { explainVotes } from "../../../alerting/incidents/explanation/service.ts";
import type { MemberCounts } from "../../../alerting/incidents/groups/service.ts";
import { disabledRegionIds } from "../../regions/service.ts";
import { type MonitorCauseRow, ranks, selectMonitorCauses } from "./cause-queries.ts";
import { everything, filterOf } from "./filter-queries.ts";
import * as queries from "./list-queries.ts";
import type { MonitorOrder, MonitorSort } from "./list-schema.ts";
import { countUngrouped } from "./pin-queries.ts";
import { pinnedTargets } from "./pins.ts";
import { selectRegionsOf } from "../queries.ts";
import { notFound, present } from "../write/rules.ts";
import type { MonitorState, Target } from "../schema.ts";
import { withFindings } from "../write/unable.ts";

/** A target as the console lists it: with how it reads now. */
export interface MonitorRow extends queries.MonitorStatusRow {
  target: Target;
  paused: boolean;
  /** Of a group that has been judged: the members that count. */
  members: MemberCounts | null;
  open_incident: {
    id: string;
    outage_since: Date;
    acknowledged_at: Date | null;
    severity: string;
    error_sample: string | null;
    regions_down: string[];
    regions_up: string[];
  } | null;
}

function presentMonitor(row: queries.MonitorDbRow): MonitorRow {
  return {
    target: present(row),
    status: row.status,
    paused: !row.enabled,
    notified: row.notified,
    probed: row.probed,
    status_since: row.status_since,
    last_result_at: row.last_result_at,
    last_error: row.last_error,
    details: row.details,
    expires_at: row.expires_at,
    members: row.members,
    open_incident:
      row.incident_id === null
        ? null
        : {
            id: row.incident_id,
            outage_since: row.outage_since!,
            acknowledged_at: row.acknowledged_at,
            severity: row.incident_severity!,
            error_sample: row.incident_error,
            regions_down: row.incident_regions_down!,
            regions_up: row.incident_regions_up!,
          },
  };
}

/** Where a monitor stands in the grouped list. */
export function rankOf({
  paused,
  status,
  open_incident: open,
}: Pick<MonitorRow, "paused" | "status" | "open_incident">) {
  const fails = !paused && (failingStates as readonly string[]).includes(status);
  const taken = open !== null && open.acknowledged_at !== null;
  if (fails && open?.severity === "critical" && !taken) return ranks.critical;
  if (!fails || status === "degraded") return ranks.rest;
  return taken ? ranks.acknowledged : ranks.failing;
}

/** The states of a failing monitor, worst first. */
export const failingStates = ["down", "error", "degraded"] as const;
type FailingState = (typeof failingStates)[number];

/** Failing monitors that share a cause, as one line of the list. */
export interface MonitorCause extends CauseLine {
  /** True where every open incident of the members is acknowledged. */
  acknowledged: boolean;
  critical: boolean;
  rank: number;
  /** Worst state of the members. */
  state: FailingState;
  /** Members in each failing state. */
  states: Record<FailingState, number>;
  /** Begin of the oldest failure in the worst state. */
  since: Date | null;
}

export const presentCause = (row: MonitorCauseRow): MonitorCause => ({
  ...causeLine(row),
  acknowledged: row.rank === ranks.acknowledged,
  critical: row.critical,
  rank: row.rank,
  state: failingStates.find((state) => row[state] > 0) ?? "degraded",
  states: { down: row.down, error: row.error, degraded: row.degraded },
  since: row.since,
});

export interface MonitorList extends Page<MonitorRow> {
  /** The monitors that the caller has pinned, where they were asked for; they are not among the items. */
  pinned: MonitorRow[];
  /** The lines of failing monitors that share a cause; their members are not among the items. */
  causes: MonitorCause[];
  /** Causes of all pages, and their monitors. */
  grouped: { causes: number; monitors: number };
  /** Lines of all pages: causes, and monitors that are not behind one. */
  lines: number;
  /** Of all that match, whatever `state` says. */
  counts: Record<MonitorState, number>;
  /** Those of them that no enabled channel is notified of. */
  silent: number;
  last_check_at: Date | null;
}

function countsOf(tallies: readonly queries.MonitorCounts[]): Record<MonitorState, number> {
  const counts: Record<MonitorState, number> = { up: 0, degraded: 0, down: 0, error: 0, unknown: 0, paused: 0 };
  for (const { state, count } of tallies) counts[state as MonitorState] = count;
  return counts;
}

export interface MonitorsInput {
  q?: string;
  tag?: string;
  kind?: string;
  state?: MonitorState;
  cause?: Cause;
  /** Only monitors without a tag below this prefix. */
  lacksPrefix?: string;
  notified?: boolean;
  sort?: MonitorSort;
  order?: MonitorOrder;
  /** True: failing monitors that share a cause are one line, and acknowledged failures stand behind the others. */
  grouped?: boolean;
  /** True: the monitors that the caller has pinned stand apart. */
  pins?: boolean;
  limit: number;
  offset: number;
}

/** The console's list of monitors, worst first unless `sort` says otherwise. `limit` and `offset` count lines. */
export async function listMonitors(ctx: Ctx, input: MonitorsInput): Promise<MonitorList> {
  requireScope(ctx, "targets:read");
  const { sort = "state", order = null, grouped = false, pins = false, limit, offset, ...narrowing } = input;
  const now = new Date(ctx.clock.now());
  const filter = filterOf(narrowing);
  const { sql, orgId } = ctx;
  // The first row carries the totals, so it is read on every page.
  const [first, tallies, except, silent] = await Promise.all([
    grouped ? selectMonitorCauses(sql, orgId, now, filter, { limit: Math.max(limit, 1), offset: 0 }) : [],
    queries.countMonitors(sql, orgId, now, { ...filter, state: null }),
    pins ? pinnedTargets(ctx) : [],
    queries.countTargets(sql, orgId, now, { ...filter, state: null, notified: false }),
  ]);
  const { causes: causeCount = 0, monitors: inCauses = 0 } = first[0] ?? {};
  const page =
    causeCount === 0
      ? { causes: { limit: 0, offset: 0 }, members: { limit, offset } }
      : linePage(first[0]!.ranks, await queries.countAlone(sql, orgId, now, filter, except), { limit, offset });
  const causes =
    page.causes.limit > 0 && page.causes.offset > 0
      ? await selectMonitorCauses(sql, orgId, now, filter, page.causes)
      : first.slice(0, page.causes.limit);
  const sorting = { sort, order };
  const [rows, pinned, apart] = await Promise.all([
    queries.selectMonitors(sql, orgId, now, filter, {
      sorting,
      grouped: causeCount > 0,
      inSections: grouped,
      except,
      ...page.members,
    }),
    except.length === 0
      ? []
      : queries.selectMonitors(sql, orgId, now, filter, {
          sorting,
          grouped: false,
          only: except,
          limit: except.length,
          offset: 0,
        }),
    except.length === 0 ? 0 : countUngrouped(sql, orgId, now, filter, except),
  ]);
  const counts = countsOf(tallies);
  const total = input.state === undefined ? sumOf(Object.values(counts)) : counts[input.state];
  return {
    items: rows.map(presentMonitor),
    pinned: pinned.map(presentMonitor),
    causes: causes.map(presentCause),
    grouped: { causes: causeCount, monitors: inCauses },
    lines: total - inCauses + causeCount - apart,
    total,
    limit,
    offset,
    counts,
    silent,
    last_check_at: lastCheckOf(tallies),
  };
}

/** Rows that the sentence on top of the list is made from. */
const overviewRows = 6;

/** Input of the sentence on top of the list: counts of all monitors, causes of failures, the first rows. */
export type MonitorsOverview = Pick<MonitorList, "items" | "causes" | "grouped" | "counts" | "last_check_at">;

/** All monitors in short. Rows are read only where something fails: sorting 10,000 monitors takes 20 ms. */
export async function monitorsOverview(ctx: Ctx): Promise<MonitorsOverview> {
  requireScope(ctx, "targets:read");
  const now = new Date(ctx.clock.now());
  const { sql, orgId } = ctx;
  const [causes, tallies] = await Promise.all([
    selectMonitorCauses(sql, orgId, now, everything, { limit: overviewRows, offset: 0 }),
    queries.countMonitors(sql, orgId, now, everything),
  ]);
  const counts = countsOf(tallies);
  const grouped = causes.length > 0;
  const worst = (["down", "error", "degraded", "unknown"] as const).find((state) => counts[state] > 0);
  const filter = { ...everything, state: grouped ? null : (worst ?? null) };
  const page = { sorting: { sort: "state", order: null }, grouped, limit: overviewRows, offset: 0 } as const;
  const rows = worst === undefined ? [] : await queries.selectMonitors(sql, orgId, now, filter, page);
  return {
    items: rows.map(presentMonitor),
    causes: causes.map(presentCause),
    grouped: { causes: causes[0]?.causes ?? 0, monitors: causes[0]?.monitors ?? 0 },
    counts,
    last_check_at: lastCheckOf(tallies),
  };
}

/** When any monitor was checked last. */
function lastCheckOf(tallies: readonly queries.MonitorCounts[]): Date | null {
  const times = tallies.flatMap(({ last_check_at: at }) => (at === null ? [] : [at.getTime()]));
  return times.length === 0 ? null : new Date(Math.max(...times));
}

const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, one) => sum + one, 0);

export interface MonitorRegion {
  region: string;
  /** False: the operator has disabled the region. */
  enabled: boolean;
  vote: "failing" | "passing" | "none";
  live: boolean;
  status: CheckStatus | null;
  error: string | null;
  last_slot: Date | null;
}

/** One monitor with the vote of each of its regions. */
export async function getMonitor(ctx: Ctx, id: string): Promise<MonitorRow & { regions: MonitorRegion[] }> {
  requireScope(ctx, "targets:read");
  return await readMonitor(ctx, id);
}

/** {@link getMonitor} without a scope check. */
export async function readMonitor(reader: OrgReader, id: string): Promise<MonitorRow & { regions: MonitorRegion[] }> {
  const now = reader.clock.now();
  const row = isId(id) ? await queries.selectMonitor(reader.sql, reader.orgId, new Date(now), id) : null;
  if (row === null) throw notFound();
  const [own, disabled] = await Promise.all([selectRegionsOf(reader.sql, id), disabledRegionIds(reader)]);
  const votes = explainVotes({ ...row, timeout: budgetMs(row.spec) }, row, disabled, now).regions;
  const regions = own.map((region): MonitorRegion => {
    const vote = votes.find((it) => it.region === region);
    return {
      region,
      enabled: !disabled.has(region),
      vote: vote?.vote ?? "none",
      live: vote?.live ?? false,
      status: vote?.last_status ?? null,
      error: vote?.last_error ?? null,
      last_slot: vote === undefined ? null : new Date(vote.last_slot),
    };
  });
  const monitor = presentMonitor(row);
  const [target] = await withFindings(reader, [monitor.target]);
  return { ...monitor, target: target!, regions };
}

/** How many targets of the organisation read how, and how many are paused. For the dashboard. */
export async function monitorCounts(ctx: Ctx): Promise<Record<MonitorState, number>> {
  requireScope(ctx, "targets:read");
  return countsOf(await queries.countMonitors(ctx.sql, ctx.orgId, new Date(ctx.clock.now()), everything));
}

/**
 * Destinations (host and port) of enabled targets that an agent's circuit breaker keeps from being checked. Read from
 * the last runs: agents report no breakers. For the dashboard.
 */
export async function openCircuits(ctx: Ctx): Promise<number> {
  requireScope(ctx, "targets:read");
  const specs = await queries.selectCircuitOpenSpecs(ctx.sql, ctx.orgId, new Date(ctx.clock.now()));
  return new Set(
    specs.flatMap((spec) => {
      const destination = kindOf(spec).destination(spec);
      return destination === null ? [] : [`${destination.host} ${destination.port}`];
    }),
  ).size;
}
