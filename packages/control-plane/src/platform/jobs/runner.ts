import { setMaxListeners } from "node:events";
import type { Sql } from "postgres";
import { Semaphore } from "@statusmesh/shared/semaphore";
import { stackOf } from "@statusmesh/shared/thrown";
import { inTransaction, type System } from "../context.ts";
import { directOf } from "../db/connect.ts";
import { failureOf } from "../db/failures.ts";
import { pause } from "../process/pause.ts";
import { takeJobLock } from "./queries.ts";

/** Periodic work. A run must be idempotent: a replica that is killed in the middle has done half of it. */
export interface Job {
  /** Also the name of its lock, so it stays the same between versions. */
  name: string;
  /** From the end of one run to the start of the next. */
  everyMs: number;
  /**
   * Asked before the lock is taken; false ends the run. A cheap statement for a job that runs every few seconds and
   * seldom finds work: an idle service then costs one statement a run in place of a transaction.
   */
  isDue?(system: System): Promise<boolean>;
  /** `signal` fires when the process stops; a long job checks it between its steps. */
  run(system: System, signal: AbortSignal): Promise<unknown>;
}

export interface Jobs {
  /** Starts no more runs, and waits for those that have begun. */
  stop(): Promise<void>;
}

/** Called at the end of each run with its duration and its end, Unix ms. */
export type JobWatch = (job: string, outcome: "ok" | "failed" | "elsewhere", run: { ms: number; at: number }) => void;

/** Pause after a run that failed because of the database. */
const retryMs = 15_000;

/** Jobs this frequent start one after another: at the same time each would keep a database connection of its own. */
const frequentMs = 5_000;

/**
 * Jobs at a time. Each holds one connection for its lock and needs another one for its work. With four batches of
 * results that is 12 of at least 14 connections (database.pool_size), so that neither jobs nor requests wait for
 * connections that only they could release. There are 8 direct connections.
 */
const maxRunning = 4;

/**
 * Runs each job at its interval, at most once at a time among all replicas: a job that another replica is running is
 * passed over.
 */
export function startJobs(system: System, jobs: readonly Job[], watch: JobWatch = () => {}): Jobs {
  const stopping = new AbortController();
  // Each loop listens to it, and so does each run.
  setMaxListeners(2 * jobs.length, stopping.signal);
  const running = new Semaphore(maxRunning);
  const { signal } = stopping;
  const loops = jobs.map(async (job, n) => {
    if (job.everyMs <= frequentMs) await pause((job.everyMs * n) / jobs.length, signal);
    await loop(system, job, watch, { running, signal });
  });
  return {
    async stop() {
      stopping.abort();
      await Promise.all(loops);
    },
  };
}

async function loop(
  system: System,
  job: Job,
  watch: JobWatch,
  { running, signal }: { running: Semaphore; signal: AbortSignal },
): Promise<void> {
  while (!signal.aborted) {
    const leave = await running.enter();
    if (signal.aborted) return leave();
    const began = system.clock.now();
    let pauseMs = job.everyMs;
    const over = (outcome: "ok" | "failed" | "elsewhere") =>
      watch(job.name, outcome, { ms: system.clock.now() - began, at: system.clock.now() });
    try {
      const due = (await job.isDue?.(system)) ?? true;
      over(!due || (await runAlone(system, job, signal)) ? "ok" : "elsewhere");
    } catch (error) {
      over("failed");
      const failure = failureOf(error);
      if (failure === null) system.log.error({ job: job.name, err: stackOf(error) }, "a job failed");
      else {
        // The watch of the database logs once that it is away. A job that runs once an hour is retried sooner.
        system.log.debug({ job: job.name, failure, reason: String(error) }, "a job waits for the database");
        pauseMs = Math.min(pauseMs, retryMs);
      }
    } finally {
      leave();
    }
    await pause(pauseMs, signal);
  }
}

/** Runs the job once unless another replica is running it. True when it ran. */
export async function runAlone(
  system: System,
  job: Job,
  signal: AbortSignal = new AbortController().signal,
): Promise<boolean> {
  // Direct connections: a pooler may have fewer than there are jobs, and jobs that hold all of them would block.
  const direct = directOf(system.sql as Sql);
  return await inTransaction({ ...system, sql: direct }, async ({ sql }) => {
    if (!(await takeJobLock(sql, job.name))) return false;
    await job.run(system, signal);
    return true;
  });
}
