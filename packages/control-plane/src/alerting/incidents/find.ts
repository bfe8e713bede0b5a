import { AppError } from "@statusmesh/shared/errors";
import { diagnosisOf } from "@statusmesh/shared/protocol/diagnosis";
import { isId } from "@statusmesh/shared/ids";
import { mask } from "@statusmesh/shared/secrets";
import { type Ctx, type OrgReader, requireScope } from "../../platform/context.ts";
import { iso, isoOrNull } from "../../platform/http/wire.ts";
import { outageSecs, peakSeverity } from "./reports/outages.ts";
import * as queries from "./queries.ts";
import type { Incident, IncidentQuery } from "./schema.ts";
import { dayMs } from "@statusmesh/shared/time";
import { readCause } from "../causes/service.ts";
import { parseTime } from "../../platform/http/query.ts";
import type { IncidentFilter } from "./queries.ts";

export const incidentNotFound = (): AppError => new AppError("INCIDENT_NOT_FOUND", "Incident not found.");

/** The row of an incident of the organisation. Throws INCIDENT_NOT_FOUND, also for a foreign or a retracted one. */
export async function findIncident(ctx: OrgReader, id: string): Promise<queries.IncidentRow> {
  const row = isId(id) ? await queries.selectIncident(ctx.sql, ctx.orgId, id) : null;
  if (row === null) throw incidentNotFound();
  return row;
}

/** What an incident says without its pages, its acknowledgement's author and its flapping. */
export function presentStored(row: queries.StoredIncident) {
  return {
    id: row.id,
    target_id: row.target_id,
    monitor_name: row.monitor_name,
    state: row.ended_at === null ? "open" : "closed",
    severity: row.severity,
    severity_pinned: row.severity_pinned,
    peak_severity: peakSeverity(row, row.down_severity),
    started_at: iso(row.started_at),
    ended_at: isoOrNull(row.ended_at),
    duration_secs: row.ended_at === null ? null : outageSecs(row),
    outage_since: isoOrNull(row.outage_since),
    past_outage_secs: outageSecs(row),
    acknowledged_at: isoOrNull(row.acknowledged_at),
    opened_by: row.opened_by,
    closed_by: row.closed_by,
    reopened_count: row.reopened_count,
    error_sample: row.error_sample,
    diagnosis: diagnosisOf(row.diagnosis, row.diagnosed_from),
    regions_down: row.regions_down,
    regions_up: row.regions_up,
    public_title: row.public_title,
    public_description: row.public_description,
    visibility: row.visibility,
    created_at: iso(row.created_at),
    updated_at: iso(row.updated_at),
    ...(row.members === null ? {} : { members: row.members }),
    ...(row.imported ? { imported: true as const } : {}),
  } satisfies Partial<Incident>;
}

/** The incident as `reader` sees it: names of private and disabled pages need `status_page:read`. */
export function presentIncident(row: queries.IncidentRow, reader: Ctx | OrgReader): Incident {
  const readsPages = "scopes" in reader && reader.scopes.has("status_page:read");
  return {
    ...presentStored(row),
    acknowledged_by: row.acknowledged_by,
    published: row.publications.some((page) => page.published_at !== null),
    publications: row.publications.map(({ page_id, page_name, is_open, published_at: at }) => ({
      page_id,
      page_name: readsPages || is_open ? page_name : mask,
      published_at: at === null ? null : new Date(at).toISOString(),
    })),
    flapping: row.flapping === null ? null : { since: row.flapping.since, changes: row.flapping.changes },
  };
}

/** Closed incidents older than this are not searched, days. */
const searchedDays = 90;

/** Open incidents, and those of the last 90 days, with every word in monitor, title or error; and how many. */
export async function searchIncidents(
  ctx: Ctx,
  words: readonly string[],
  limit: number,
): Promise<{ items: queries.FoundIncident[]; total: number }> {
  requireScope(ctx, "incidents:read");
  const from = new Date(ctx.clock.now() - searchedDays * dayMs);
  const items = await queries.searchIncidents(ctx.sql, ctx.orgId, words, from, limit);
  return { items, total: items[0]?.total ?? 0 };
}

/** The filter of a query; null where it names a target that cannot exist. */
export function filterOf(query: Omit<IncidentQuery, "limit" | "offset">): IncidentFilter | null {
  const { state, target_id: targetId = null, severity = null, cause, acknowledged = null } = query;
  const range = parseIncidentRange(query);
  if (targetId !== null && !isId(targetId)) return null;
  return { state, targetId, severity, acknowledged, cause: cause === undefined ? null : readCause(cause), ...range };
}

/** The range of a list of incidents; null where a side is open. Throws BAD_TIME_RANGE unless `to` is after `from`. */
function parseIncidentRange(asked: { from?: string; to?: string }): { from: Date | null; to: Date | null } {
  const from = asked.from === undefined ? null : parseTime(asked.from, "/query/from");
  const to = asked.to === undefined ? null : parseTime(asked.to, "/query/to");
  if (from !== null && to !== null && to <= from)
    throw new AppError("BAD_TIME_RANGE", "The range must end after its start: to is not after from.", {
      field: "/query/to",
    });
  return { from, to };
}
