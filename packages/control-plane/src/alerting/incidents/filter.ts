import { AppError } from "@statusmesh/shared/errors";
import { isId } from "@statusmesh/shared/ids";
import { readCause } from "../../platform/db/causes.ts";
import { parseTime } from "../../platform/http/query.ts";
import type { IncidentFilter } from "./queries.ts";
import type { IncidentQuery } from "./schema.ts";

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
