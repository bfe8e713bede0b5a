import { isId } from "@statusmesh/shared/ids";
import { readCause } from "../../platform/db/causes.ts";
import type { IncidentFilter } from "./queries.ts";
import { parseIncidentRange } from "./range.ts";
import type { IncidentQuery } from "./schema.ts";

/** The filter of a query; null where it names a target that cannot exist. */
export function filterOf(query: Omit<IncidentQuery, "limit" | "offset">): IncidentFilter | null {
  const { state, target_id: targetId = null, severity = null, cause } = query;
  const range = parseIncidentRange(query);
  if (targetId !== null && !isId(targetId)) return null;
  return { state, targetId, severity, cause: cause === undefined ? null : readCause(cause), ...range };
}
