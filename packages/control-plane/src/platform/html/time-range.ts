import { dayMs, minuteMs } from "@statusmesh/shared/time";

/** Longest range that a page shows: results are kept no longer. */
const longestMs = 400 * dayMs;

/** A chosen range of time, Unix ms. */
export interface TimeRange {
  from: number;
  to: number;
}

/** A time of a query as Unix ms: RFC 3339, or what a form without scripts sends (`2026-11-20T14:02`), read as UTC. */
function timeOf(text: string | undefined): number | null {
  if (text === undefined || !/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}/.test(text)) return null;
  const at = Date.parse(/(?:Z|[+-]\d{2}:\d{2})$/.test(text) ? text : `${text}Z`);
  return Number.isNaN(at) ? null : at;
}

/** `from` and `to` of a query, at least a minute apart and not after `now`; null where they are no such range. */
export function readTimeRange(query: Readonly<Record<string, string>>, now: number): TimeRange | null {
  const from = timeOf(query["from"]);
  const end = timeOf(query["to"]);
  if (from === null || end === null) return null;
  const to = Math.min(end, now);
  return to - from < minuteMs || to - from > longestMs ? null : { from, to };
}
