import { dayMs } from "@statusmesh/shared/time";
import type { System } from "../../../platform/context.ts";
import { packAfterMs } from "../hours.ts";
import { countLate, selectProgress } from "./pack-queries.ts";

/** A scrape of the metrics counts no further. */
const mostLate = 100_000;

interface PackState {
  /** Ended days of which results are to be packed by now, the oldest of them, and since when it is due (Unix ms). */
  waiting: number;
  oldest: string | null;
  dueSince: number | null;
  /** When a day was finished last, or packing began, Unix ms; null before the first start. */
  finishedAt: number | null;
  /** Times in a row that the oldest was packed and did not match its results. */
  mismatches: number;
  /** Why the last run broke off, for example for want of disk space; null when it did not. */
  failure: string | null;
  /** Late results of packed days that are not merged yet, at most 100,000. */
  late: number;
}

const nothing = { waiting: 0, oldest: null, dueSince: null, mismatches: 0 };

export async function packState({ sql, clock }: Pick<System, "sql" | "clock">): Promise<PackState> {
  const progress = await selectProgress(sql);
  const late = await countLate(sql, mostLate);
  if (progress === null) return { ...nothing, finishedAt: null, failure: null, late };
  const { failure } = progress;
  const dueSince = Date.parse(progress.packed_to) + dayMs + packAfterMs;
  const waiting = Math.max(0, Math.floor((clock.now() - dueSince) / dayMs) + 1);
  const finishedAt = progress.packed_at.getTime();
  if (waiting === 0) return { ...nothing, finishedAt, failure, late };
  const { packed_to: oldest, mismatches } = progress;
  return { waiting, oldest, dueSince, finishedAt, mismatches, failure, late };
}
