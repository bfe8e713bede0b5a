import type { ResultsReply } from "@statusmesh/shared/protocol/agent-protocol";
import { secondMs } from "@statusmesh/shared/time";
import type { Ctx } from "../../platform/context.ts";
import { countWaitingRuns } from "./on-demand.ts";

const rememberedSecs = 300;

/** Queue depth and recent drops of an ingest. */
export interface IngestLoad {
  /** Results received and not yet stored. */
  queued: number;
  /** Counts results dropped at `now`, Unix ms. */
  drop(results: number, now: number): void;
  /** Results dropped in the five minutes before `now`. */
  droppedLately(now: number): number;
}

/** Called after each batch. `busy`: the queue was full; `ms`: from arrival to commit. */
export type BatchWatch = (
  batch: ({ outcome: "stored"; ms: number } & ResultsReply) | { outcome: "busy" | "failed" },
) => void;

/** One counter per second of the period: at most a few hundred. */
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

/**
 * Pipeline figures of the dashboard: on-demand runs of the organisation over all replicas; the rest of this process.
 */
export const pipelineLoad = (ingest: { load: IngestLoad }) => async (ctx: Ctx) => ({
  inFlight: await countWaitingRuns(ctx),
  queued: ingest.load.queued,
  dropped: ingest.load.droppedLately(ctx.clock.now()),
});
