import type { Readable } from "node:stream";
import { diagnosisLine } from "@statusmesh/shared/protocol/diagnosis";
import { type Ctx, requireScope } from "../../platform/context.ts";
import { type Cell, streamedCsv } from "../../platform/http/reply/csv.ts";
import { filterOf, presentStored } from "./find.ts";
import * as queries from "./queries.ts";
import type { IncidentQuery } from "./schema.ts";

const pageRows = 1000;
const mostRows = 100_000;

const head = [
  "id",
  "target_id",
  "monitor_name",
  "state",
  "severity",
  "peak_severity",
  "started_at",
  "ended_at",
  "duration_secs",
  "acknowledged_at",
  "closed_by",
  "reopened_count",
  "error_sample",
  "diagnosis",
  "regions_down",
  "public_title",
] as const;

function cellOf(incident: ReturnType<typeof presentStored>, name: (typeof head)[number]): Cell {
  if (name === "regions_down") return incident.regions_down.join(" ");
  if (name === "diagnosis") return incident.diagnosis === null ? null : diagnosisLine(incident.diagnosis);
  return incident[name];
}

/** The incidents of the list as CSV. Throws BAD_TIME_RANGE. */
export async function incidentsCsv(ctx: Ctx, query: Omit<IncidentQuery, "limit" | "offset">): Promise<Readable> {
  requireScope(ctx, "incidents:read");
  const filter = filterOf(query);
  const ids = filter === null ? [] : await queries.selectIncidentIds(ctx.sql, ctx.orgId, filter, mostRows);

  // Read by id: an offset would sort all rows again for each page.
  async function* pages(): AsyncGenerator<Cell[][], void> {
    for (let at = 0; at < ids.length; at += pageRows) {
      const rows = await queries.selectStoredIncidents(ctx.sql, ctx.orgId, ids.slice(at, at + pageRows));
      yield rows.map(presentStored).map((one) => head.map((name) => cellOf(one, name)));
    }
  }
  return await streamedCsv(head, pages());
}
