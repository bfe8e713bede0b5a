import { kindOf, type ResultDetails } from "@statusmesh/shared/checks";
import type { CheckStatus } from "@statusmesh/shared/result";
import { isId } from "@statusmesh/shared/ids";
import { type Ctx, type OrgReader, requireScope } from "../context.ts";
import type { Page } from "../http/wire.ts";
import { explainVotes } from "../incidents/service.ts";
import { disabledRegionIds } from "../regions/service.ts";
import * as queries from "./list-queries.ts";
import { selectRegionsOf } from "./queries.ts";
import { notFound, present } from "./rules.ts";
import type { MonitorStatus, Target } from "./schema.ts";

/** A target as the console lists it: with how it reads now. */
export interface MonitorRow {
  target: Target;
  status: MonitorStatus;
  paused: boolean;
  /** False while none of its regions is enabled: nothing checks it, and it reads as unknown. */
  probed: boolean;
  status_since: Date | null;
  last_result_at: Date | null;
  last_error: string | null;
  /** The newest details that a run read; its check has not been pointed elsewhere since. */
  details: ResultDetails | null;
  open_incident: {
    id: string;
    started_at: Date;
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
    probed: row.probed,
    status_since: row.status_since,
    last_result_at: row.last_result_at,
    last_error: row.last_error,
    details: row.details,
    open_incident:
      row.incident_id === null
        ? null
        : {
            id: row.incident_id,
            started_at: row.incident_started_at!,
            severity: row.incident_severity!,
            error_sample: row.incident_error,
            regions_down: row.incident_regions_down!,
            regions_up: row.incident_regions_up!,
          },
  };
}

export type MonitorState = MonitorStatus | "paused";

export interface MonitorList extends Page<MonitorRow> {
  /** Of all that match, whatever `state` says. */
  counts: Record<MonitorState, number>;
  last_check_at: Date | null;
}

function countsOf(tallies: readonly queries.MonitorCounts[]): Record<MonitorState, number> {
  const counts: Record<MonitorState, number> = { up: 0, degraded: 0, down: 0, error: 0, unknown: 0, paused: 0 };
  for (const { state, count } of tallies) counts[state as MonitorState] = count;
  return counts;
}

/** The console's list of monitors, worst first unless `sort` says otherwise. */
export async function listMonitors(
  ctx: Ctx,
  input: {
    q?: string;
    tag?: string;
    state?: MonitorState;
    sort?: queries.MonitorSort;
    limit: number;
    offset: number;
  },
): Promise<MonitorList> {
  requireScope(ctx, "targets:read");
  const now = new Date(ctx.clock.now());
  const filter = { ...queries.textFilter(input), enabled: null };
  const [rows, tallies] = await Promise.all([
    queries.selectMonitors(
      ctx.sql,
      ctx.orgId,
      now,
      filter,
      input.state ?? null,
      input.sort ?? "state",
      input.limit,
      input.offset,
    ),
    queries.countMonitors(ctx.sql, ctx.orgId, now, filter),
  ]);
  const counts = countsOf(tallies);
  let last: Date | null = null;
  for (const tally of tallies) {
    if (tally.last_check_at !== null && (last === null || tally.last_check_at > last)) last = tally.last_check_at;
  }
  const total =
    input.state === undefined ? Object.values(counts).reduce((sum, count) => sum + count, 0) : counts[input.state];
  return {
    items: rows.map(presentMonitor),
    total,
    limit: input.limit,
    offset: input.offset,
    counts,
    last_check_at: last,
  };
}

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
  const votes = explainVotes({ ...row, timeout: row.spec.timeout }, row, disabled, now).regions;
  const regions = own.map((region): MonitorRegion => {
    const enabled = !disabled.has(region);
    const vote = votes.find((it) => it.region === region);
    if (vote === undefined)
      return { region, enabled, vote: "none", live: false, status: null, error: null, last_slot: null };
    return {
      region,
      enabled,
      vote: vote.vote,
      live: vote.live,
      status: vote.last_status,
      error: vote.last_error,
      last_slot: new Date(vote.last_slot),
    };
  });
  return { ...presentMonitor(row), regions };
}

/** How many targets of the organisation read how, and how many are paused. For the dashboard. */
export async function monitorCounts(ctx: Ctx): Promise<Record<MonitorState, number>> {
  requireScope(ctx, "targets:read");
  return countsOf(
    await queries.countMonitors(ctx.sql, ctx.orgId, new Date(ctx.clock.now()), { q: null, tag: null, enabled: null }),
  );
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
