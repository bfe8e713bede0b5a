import type { ResultsReply } from "@statusmesh/shared/agent-protocol";
import type { Ctx } from "../context.ts";
import type { Ingest } from "./ingest.ts";
import { countWaitingRuns } from "./on-demand.ts";

const secondMs = 1000;
const rememberedSecs = 300;

/** What an ingest has before it, and what it had to drop lately. */
export interface IngestLoad {
  /** Results that came in and are not in the database yet: waiting for their turn, or being stored. */
  queued: number;
  /** Notes that results were dropped at `now`, Unix ms. */
  drop(results: number, now: number): void;
  /** How many were dropped in the five minutes before `now`. */
  droppedLately(now: number): number;
}

/** Is told of each batch when it is over. `busy`: the queue was full; `ms`: from its arrival to its commit. */
export type BatchWatch = (
  batch: ({ outcome: "stored"; ms: number } & ResultsReply) | { outcome: "busy" | "failed" },
) => void;

/** One count for each of the last seconds in which something was dropped, and so never more than a few hundred. */
export function openLoad(): IngestLoad {
  const drops = new Map<number, number>();
  const forget = (second: number) => {
    for (const old of drops.keys()) if (old <= second - rememberedSecs) drops.delete(old);
  };
  return {
    queued: 0,
    drop(results, now) {
      if (results === 0) return;
      const second = Math.floor(now / secondMs);
      forget(second);
      drops.set(second, (drops.get(second) ?? 0) + results);
    },
    droppedLately(now) {
      forget(Math.floor(now / secondMs));
      return [...drops.values()].reduce((sum, count) => sum + count, 0);
    },
  };
}

/** What the dashboard says about the pipeline: the runs on demand are the organisation's, on every replica; the rest is this process's, for everybody. */
export const pipelineLoad = (ingest: Ingest) => async (ctx: Ctx) => ({
  inFlight: await countWaitingRuns(ctx),
  queued: ingest.load.queued,
  dropped: ingest.load.droppedLately(ctx.clock.now()),
});
