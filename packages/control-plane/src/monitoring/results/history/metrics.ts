import { dayMs } from "@statusmesh/shared/time";
import type { OrgReader } from "../../../platform/context.ts";
import { mapInTurns } from "../../../platform/process/turns.ts";
import { availabilityOf, shareOf } from "../../heartbeats/schedule/service.ts";
import {
  type NewestRun,
  selectNewestRuns,
  selectUptimes,
  selectYears,
  type UptimeRow,
  type UptimeWindow,
  uptimeWindows,
} from "./metric-queries.ts";
import { inTurn } from "../resolve.ts";

export { type NewestRun, type UptimeWindow, uptimeWindows };

/** The newest run of every monitor of the organisation in each of its regions. Without a scope check. */
export async function newestRuns(reader: OrgReader): Promise<NewestRun[]> {
  return await inTurn(reader, () => selectNewestRuns(reader.sql, reader.orgId));
}

const days: Record<UptimeWindow, number> = { "24h": 1, "7d": 7, "30d": 30 };

/**
 * Uptime of every monitor of the organisation as a share from 0 to 1; null without a run. By summed hours, so up to two
 * hours old; of the newest runs before the first one. That of heartbeats is by time. Without a scope check.
 */
export async function uptimesOf(reader: OrgReader): Promise<Map<string, Record<UptimeWindow, number | null>>> {
  const now = reader.clock.now();
  const rows = await inTurn(reader, () => selectUptimes(reader.sql, reader.orgId, new Date(now)));
  const uptimes = new Map(await mapInTurns(rows, (row) => [row.target_id, sharesOf(row)] as const));
  for (const window of uptimeWindows) {
    const start = window === "24h" ? now - dayMs : (Math.floor(now / dayMs) - days[window]) * dayMs;
    const range = { from: new Date(start), to: new Date(now) };
    // Heartbeats only.
    for (const [id, own] of await availabilityOf(reader, reader.orgId, [...uptimes.keys()], range)) {
      const pct = shareOf(own);
      uptimes.get(id)![window] = pct === null ? null : pct / 100;
    }
  }
  return uptimes;
}

const share = (up: number, all: number): number | null => (all === 0 ? null : up / all);

const sharesOf = (row: UptimeRow): Record<UptimeWindow, number | null> => ({
  "24h": share(row.up_24h, row.all_24h),
  "7d": share(row.up_7d, row.all_7d),
  "30d": share(row.up_30d, row.all_30d),
});

/** Uptime of a year, and mean response times in seconds; null without a run or a time. */
export interface YearOf {
  uptime: number | null;
  responseSecs: Record<"1d" | "30d" | "365d", number | null>;
}

/** {@link YearOf} every monitor of the organisation with a summed day. Without a scope check. */
export async function yearsOf(reader: OrgReader): Promise<Map<string, YearOf>> {
  const now = reader.clock.now();
  const rows = await inTurn(reader, () => selectYears(reader.sql, reader.orgId, new Date(now)));
  const mean = (ms: number, samples: number): number | null => (samples === 0 ? null : ms / samples / 1000);
  const years = new Map(
    await mapInTurns(rows, (row) => [
      row.target_id,
      {
        uptime: share(row.up, row.counted),
        responseSecs: {
          "1d": mean(row.ms_1d, row.timed_1d),
          "30d": mean(row.ms_30d, row.timed_30d),
          "365d": mean(row.ms_365d, row.timed_365d),
        },
      },
    ]),
  );
  const range = { from: new Date((Math.floor(now / dayMs) - 365) * dayMs), to: new Date(now) };
  for (const [id, own] of await availabilityOf(reader, reader.orgId, [...years.keys()], range)) {
    const pct = shareOf(own);
    years.get(id)!.uptime = pct === null ? null : pct / 100;
  }
  return years;
}
