import { AppError } from "@statusmesh/shared/errors";
import { parseTime } from "../../platform/http/query-time.ts";

/** The range of a list of incidents; null where a side is open. Throws BAD_TIME_RANGE unless `to` is after `from`. */
export function parseIncidentRange(asked: { from?: string; to?: string }): { from: Date | null; to: Date | null } {
  const from = asked.from === undefined ? null : parseTime(asked.from, "/query/from");
  const to = asked.to === undefined ? null : parseTime(asked.to, "/query/to");
  if (from !== null && to !== null && to <= from)
    throw new AppError("BAD_TIME_RANGE", "The range must end after its start: to is not after from.", {
      field: "/query/to",
    });
  return { from, to };
}
