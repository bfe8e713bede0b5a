import { isId, newId } from "@statusmesh/shared/ids";
import { type ActorCtx, type Ctx, type OrgReader, requireScope, type System } from "../../platform/context.ts";
import { type CauseLine, causeLine } from "../causes/service.ts";
import { linePage } from "../../platform/db/lines.ts";
import { type Page, pageOf } from "../../platform/http/wire.ts";
import { severities } from "@statusmesh/shared/severity";
import { portionsOf } from "../../platform/process/turns.ts";
import { type IncidentCauseRow, selectIncidentCauses } from "./cause-queries.ts";
import { selectFlapping } from "./evidence/flapping-queries.ts";
import { filterOf, findIncident, presentIncident } from "./find.ts";
import { selectMembers } from "./groups/queries.ts";
import * as queries from "./queries.ts";
import type { Incident, IncidentQuery } from "./schema.ts";
import { insertPast, type PastIncident, selectFull } from "./lifecycle/past-queries.ts";
export { incidentsCsv } from "./export.ts";
export { budgetOf, countIncidentsSince } from "./queries.ts";
export { searchIncidents } from "./find.ts";

/** The ids among these whose monitor has an open incident. */
export async function failingTargetIds({ sql, orgId }: OrgReader, ids: readonly string[]): Promise<Set<string>> {
  return new Set(ids.length === 0 ? [] : await queries.selectFailing(sql, orgId, ids));
}

/** Members of a group with what they are for it, at most `limit` of each state. Without a scope check. */
export async function memberStates({ sql, orgId, clock }: OrgReader, groupId: string, limit: number) {
  return await selectMembers(sql, orgId, groupId, new Date(clock.now()), limit);
}

/** The incidents of the organisation: open ones first, acknowledged ones behind them, by severity, then the newest. */
export async function listIncidents(ctx: Ctx, query: IncidentQuery): Promise<Page<Incident>> {
  requireScope(ctx, "incidents:read");
  const filter = filterOf(query);
  if (filter === null) return { items: [], total: 0, limit: query.limit, offset: query.offset };
  return pageOf(await queries.selectIncidents(ctx.sql, ctx.orgId, filter, query), query, (row) =>
    presentIncident(row, ctx),
  );
}

/** Open incidents of monitors that share a cause, as one line of the list. */
export interface IncidentCause extends CauseLine {
  /** `degraded` where all of them are minor. */
  state: "down" | "degraded";
  critical: boolean;
  rank: number;
  since: Date;
}

const presentCause = (row: IncidentCauseRow): IncidentCause => ({
  ...causeLine(row),
  state: row.minor === row.count ? "degraded" : "down",
  critical: row.critical > 0,
  rank: row.rank,
  since: row.since,
});

/**
 * {@link listIncidents} with open incidents of a common cause as one line. `limit`, `offset` and `total` count lines.
 */
export async function listIncidentLines(
  ctx: Ctx,
  query: IncidentQuery,
): Promise<Page<Incident> & { causes: IncidentCause[] }> {
  requireScope(ctx, "incidents:read");
  const { limit, offset } = query;
  const filter = filterOf(query);
  if (filter === null) return { items: [], causes: [], total: 0, limit, offset };
  // The first row carries the totals, so it is read on every page.
  const first = await selectIncidentCauses(ctx.sql, ctx.orgId, filter, { limit: Math.max(limit, 1), offset: 0 });
  const { causes: causeCount = 0, incidents: inCauses = 0 } = first[0] ?? {};
  const page =
    causeCount === 0
      ? { causes: { limit: 0, offset: 0 }, members: { limit, offset } }
      : linePage(first[0]!.ranks, await queries.countAlone(ctx.sql, ctx.orgId, filter), { limit, offset });
  const causes =
    page.causes.limit > 0 && page.causes.offset > 0
      ? await selectIncidentCauses(ctx.sql, ctx.orgId, filter, page.causes)
      : first.slice(0, page.causes.limit);
  const { rows, total } = await queries.selectIncidents(ctx.sql, ctx.orgId, filter, {
    grouped: causeCount > 0,
    ...page.members,
  });
  return {
    items: rows.map((row) => presentIncident(row, ctx)),
    causes: causes.map(presentCause),
    total: total - inCauses + causeCount,
    limit,
    offset,
  };
}

/** Rank of an incident among the lines of {@link listIncidentLines}, as in {@link queries.rankOf}. */
export const rankOf = ({ state, severity, acknowledged_at: at }: Incident): number =>
  state === "closed"
    ? queries.ranks - 1
    : severities.length - 1 - severities.indexOf(severity) + (at === null ? 0 : severities.length);

/** How many incidents are open, from how many causes, and how many of both wait for an acknowledgement. */
export async function openCounts(ctx: Ctx): Promise<queries.OpenCounts> {
  requireScope(ctx, "incidents:read");
  return await queries.countOpen(ctx.sql, ctx.orgId);
}

/** One incident. Throws INCIDENT_NOT_FOUND for an absent or foreign id. */
export async function getIncident(ctx: Ctx, id: string): Promise<Incident> {
  requireScope(ctx, "incidents:read");
  return presentIncident(await findIncident(ctx, id), ctx);
}

/** One incident, where a link in a notification decided about access. Throws INCIDENT_NOT_FOUND. */
export const incidentOf = async (reader: OrgReader, id: string): Promise<Incident> =>
  presentIncident(await findIncident(reader, id), reader);

/** Those of the targets that flap, with the changes that say so. Without a scope check. */
export async function flapping(
  { sql, orgId }: Pick<OrgReader, "sql" | "orgId">,
  targetIds: readonly string[],
): Promise<Map<string, { since: string; changes: number }>> {
  const found = targetIds.length === 0 ? new Map() : await selectFlapping(sql, orgId, [...new Set(targetIds)]);
  return new Map([...found].map(([id, { since, changes }]) => [id, { since, changes }]));
}

/** Answers the name of a region; a region that is gone has its id. Regions belong to the installation. */
export async function regionNamer({ sql }: System): Promise<(id: string) => string> {
  const names = await queries.selectRegionNames(sql);
  return (id) => names.get(id) ?? id;
}

/** Id and name of a monitor of the organisation; null for any other id. */
export async function namedMonitor(ctx: Ctx, id: string) {
  requireScope(ctx, "incidents:read");
  return isId(id) ? await queries.selectNamedMonitor(ctx.sql, ctx.orgId, id) : null;
}

/** The first 500 monitors that have had an incident, by name, for a filter. */
export async function monitorsWithIncidents(ctx: Ctx): Promise<{ id: string; name: string }[]> {
  requireScope(ctx, "incidents:read");
  return await queries.selectMonitorsWithIncidents(ctx.sql, ctx.orgId, 500);
}

/** Imported incidents of one statement: 50,000 hold the event loop for 0.3 s and take 90 MB. */
const pastAtOnce = 2_000;

/**
 * Stores incidents from before the first own results of targets: closed, without a notice, no evidence. Call it in a
 * transaction, with targets of the organisation. Returns the first target that has more than `most`; null for none.
 */
export async function importIncidents(
  tx: ActorCtx,
  incidents: readonly Omit<PastIncident, "id">[],
  most: number,
): Promise<string | null> {
  if (incidents.length === 0) return null;
  const now = new Date(tx.clock.now());
  for (const some of portionsOf(incidents, pastAtOnce)) {
    const rows = some.map((one) => ({ ...one, id: newId() }));
    await insertPast(tx.sql, tx.orgId, rows, { severity: "major", imported: true }, now);
  }
  return await selectFull(tx.sql, [...new Set(incidents.map(({ targetId }) => targetId))], most);
}
