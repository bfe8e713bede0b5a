import { LRUCache } from "lru-cache";
import { getOrMake } from "../../../platform/caches.ts";
import type { System } from "../../../platform/context.ts";
import { Coverage, type Interval, union } from "../../../platform/intervals.ts";
import { selectSpans, selectWindowIds } from "../occurrence-queries.ts";

/** Spans of merged maintenance that are kept: most monitors are in the same windows as others. */
const keptSpans = 200_000;

/**
 * Reads the maintenance of monitors within a range, for some monitors after the other: the occurrences of a window are
 * read once, and merged once for monitors in the same windows. Without a scope check.
 */
export function maintenanceReader(
  { sql }: System,
  orgId: string,
  range: { from: Date; to: Date },
): (targetIds: readonly string[]) => Promise<(targetId: string) => Coverage> {
  const spansOf = new Map<string, Buffer>();
  const merged = new LRUCache<string, Coverage>({ maxSize: keptSpans, sizeCalculation: ({ size }) => size + 1 });
  const coverageOf = (windowIds: readonly string[]): Coverage =>
    getOrMake<string, Coverage>(
      merged,
      windowIds.join(),
      () => new Coverage(union(windowIds.flatMap((id) => timesOf(spansOf.get(id)!)))),
    );
  return async (targetIds) => {
    const rows = await selectWindowIds(sql, orgId, targetIds);
    const windowsOf = new Map(rows.map((row) => [row.target_id, row.window_ids.split(" ").sort()]));
    const unread = new Set([...windowsOf.values()].flat().filter((id) => !spansOf.has(id)));
    for (const id of unread) spansOf.set(id, nothing);
    if (unread.size > 0)
      for (const { window_id: id, spans } of await selectSpans(sql, orgId, [...unread], range)) spansOf.set(id, spans);
    return (targetId) => coverageOf((windowsOf.get(targetId) ?? []).filter((id) => spansOf.get(id)!.length > 0));
  };
}

const nothing = Buffer.alloc(0);
const timeBytes = 8;
/** PostgreSQL counts from 2000. */
const epochMs = Date.UTC(2000, 0, 1);

/** The intervals in pairs of times, 64-bit microseconds each. */
function timesOf(spans: Buffer): Interval[] {
  const timeAt = (at: number) =>
    epochMs + Math.floor((spans.readInt32BE(at) * 2 ** 32 + spans.readUInt32BE(at + 4)) / 1000);
  const times: Interval[] = [];
  for (let at = 0; at < spans.length; at += 2 * timeBytes)
    times.push({ start: timeAt(at), end: timeAt(at + timeBytes) });
  return times;
}
