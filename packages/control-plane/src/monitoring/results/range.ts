import Type from "typebox";
import { AppError } from "@statusmesh/shared/errors";
import { dayMs } from "@statusmesh/shared/time";
import { parseTime } from "../../platform/http/query.ts";
import { described, Timestamp } from "../../platform/http/wire.ts";

export const rangeQuery = {
  from: Type.Optional(
    described(Timestamp, "Start, inclusive. RFC 3339; default: 24 hours before `to`", "2026-11-19T09:30:00.000Z"),
  ),
  to: Type.Optional(described(Timestamp, "End, exclusive. RFC 3339; default: now", "2026-11-20T09:30:00.000Z")),
};

/** A half-open time range: includes `from`, excludes `to`. */
export interface Range {
  from: Date;
  to: Date;
}

/**
 * The requested range; by default the 24 hours before `to` or before `now` (Unix ms). Throws INVALID_QUERY for a time
 * that no result can have, BAD_TIME_RANGE unless `to` is after `from`.
 */
export function parseRange(asked: { from?: string | undefined; to?: string | undefined }, now: number): Range {
  const to = asked.to === undefined ? new Date(now) : parseTime(asked.to, "/query/to");
  const from = asked.from === undefined ? new Date(to.getTime() - dayMs) : parseTime(asked.from, "/query/from");
  if (to.getTime() <= from.getTime()) {
    throw new AppError(
      "BAD_TIME_RANGE",
      `The range ends at ${to.toISOString()}, which is not after its start at ${from.toISOString()}.`,
      {
        field: asked.to === undefined ? "/query/from" : "/query/to",
      },
    );
  }
  return { from, to };
}
