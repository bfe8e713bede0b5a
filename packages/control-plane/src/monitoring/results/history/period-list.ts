import { createHash } from "node:crypto";
import { dayMs, hourMs } from "@statusmesh/shared/time";
import type { OrgReader } from "../../../platform/context.ts";
import type { Page } from "../../../platform/http/wire.ts";
import { mapInTurns } from "../../../platform/process/turns.ts";
import { selectChanges, selectErrors, selectFailingAt } from "./change-queries.ts";
import { sourcesOf } from "../hours.ts";
import { hourOf } from "../rollups/late.ts";
import { type Period, type Periods, periodsOf, settledAt } from "./periods.ts";
import { delayMs, type ResultTarget, slackMs } from "../queries.ts";
import type { Range } from "../range.ts";
import { forMembers, type RangeInput, resolve } from "../resolve.ts";
import type { IncidentPeriod } from "../schema.ts";

/**
 * Periods of failing results, newest first, from the results alone: independent of confirmations, region policy and
 * people. Without a scope check.
 */
export async function readPeriods(
  reader: OrgReader,
  targetId: string,
  input: Omit<RangeInput, "region"> & { ongoing_only: boolean; limit: number; offset: number },
): Promise<Page<IncidentPeriod>> {
  const { target, range } = await resolve(reader, targetId, input);
  const { limit, offset, ongoing_only: ongoing } = input;
  const { sql, orgId, clock } = reader;
  const end = new Date(hourOf(clock.now()) + dayMs);
  const changesIn = async (part: Range, withFailing: boolean) => {
    return await selectChanges(sql, orgId, target, sourcesOf(part, target.counted_to), withFailing);
  };
  const around = await periodsAround(reader, target, range, ongoing, end);
  const all = around ?? (await periodsOf(await changesIn({ from: new Date(0), to: end }, false)));
  const { first, total } = overlapping(all, range, ongoing);
  const last = first + total - offset;
  const shown = { from: Math.max(first, last - limit), to: last };
  if (shown.from >= shown.to) return { items: [], total, limit, offset };
  const since = all.starts[shown.from]!;
  const hours = {
    from: new Date(hourOf(since - delayMs(target))),
    to: new Date(Math.min(end.getTime(), hourOf(all.ends[shown.to - 1]! + slackMs) + hourMs)),
  };
  const { starts, ends, failures } = await periodsOf(await changesIn(hours, true), since);
  const page = failures.slice(0, shown.to - shown.from);
  const errors = await selectErrors(
    sql,
    target,
    page.map(({ lastRegion, lastSlot }) => ({ region: lastRegion, slotMs: lastSlot })),
  );
  const items = await mapInTurns(page, (failed, at) =>
    presentPeriod(targetId, { ...failed, start: starts[at]!, end: ends[at]! }, errors[at]!),
  );
  return { items: items.reverse(), total, limit, offset };
}

export const listPeriods = forMembers(readPeriods);

/**
 * The periods from a day before the range to a day after it, or to `end`; null when one that overlaps the range may
 * reach further: a period is the same one in every range.
 */
async function periodsAround(
  { sql, orgId }: OrgReader,
  target: ResultTarget,
  range: Range,
  ongoing: boolean,
  end: Date,
): Promise<Periods | null> {
  const from = new Date(hourOf(range.from.getTime() - dayMs - delayMs(target)));
  const to = new Date(Math.min(hourOf(range.to.getTime()) + dayMs, end.getTime()));
  const failing = from < to ? await selectFailingAt(sql, target, from) : null;
  if (failing === null) return null;
  const changes = await selectChanges(sql, orgId, target, sourcesOf({ from, to }, target.counted_to), false);
  const settled = settledAt(changes, failing, from.getTime() + delayMs(target));
  // What fails at the end of a part may go on after it.
  const isPart = to < end;
  const found = await periodsOf(isPart ? changes.map((region) => ({ ...region, probed: true })) : changes);
  const { first, total } = overlapping(found, range, ongoing);
  const start = found.starts[first] ?? Infinity;
  const last = total === 0 ? -Infinity : found.ends[first + total - 1]!;
  const isWhole = settled <= range.from.getTime() && settled <= start;
  return isWhole && (!isPart || last < to.getTime() - slackMs) ? found : null;
}

/** The disjoint periods that overlap the range: position of the first, and their number. */
function overlapping({ starts, ends }: Periods, { from, to }: Range, ongoing: boolean) {
  let first = ends.length;
  while (first > 0 && ends[first - 1]! > from.getTime() && (!ongoing || ends[first - 1] === Infinity)) first--;
  let end = starts.length;
  while (end > first && starts[end - 1]! >= to.getTime()) end--;
  return { first, total: end - first };
}

const presentPeriod = (
  targetId: string,
  { start, end, region, firstSlot, down, count }: Period,
  error: string | null,
): IncidentPeriod => ({
  id: derivedId(targetId, `${region} ${new Date(firstSlot).toISOString()}`),
  target_id: targetId,
  started_at: new Date(start).toISOString(),
  ended_at: end === Infinity ? null : new Date(end).toISOString(),
  status: down ? "down" : "error",
  duration_secs: end === Infinity ? null : Math.round((end - start) / 1000),
  check_count: count,
  error_sample: error,
});

/** A name-based UUID: RFC 9562 section 5.5 (version 5). */
function derivedId(namespace: string, name: string): string {
  const bytes = createHash("sha1")
    .update(Buffer.from(namespace.replaceAll("-", ""), "hex"))
    .update(name)
    .digest()
    .subarray(0, 16);
  bytes[6] = (bytes[6]! & 0x0f) | 0x50;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
