import { setMaxListeners } from "node:events";
import type { Fragment, Sql } from "postgres";
import { Semaphore } from "@statusmesh/shared/semaphore";
import { stackOf } from "@statusmesh/shared/thrown";
import { inTransaction, type System } from "../context.ts";
import { directOf } from "../db/client/connect.ts";
import { type Failure, failureOf } from "../db/client/failures.ts";
import { pause } from "../process/pause.ts";
import { takeJobLock, valuesOf } from "./queries.ts";

/** Periodic work. A run must be idempotent: a replica that is killed in the middle has done half of it. */
export interface Job {
  /** Also the name of its lock, so it stays the same between versions. */
  name: string;
  /** From the end of one run to the start of the next. */
  everyMs: number;
  /**
   * A cheap condition in SQL for a job that runs every few seconds and seldom finds work. One statement a second reads
   * the conditions of all such jobs, so an idle service costs that and no transactions.
   */
  isDue?(system: System): Fragment;
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

/** Time between two reads of the conditions. */
const tickMs = 1_000;

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
export function startJobs(system: System, jobs: readonly Job[], watch: JobWatch = () => {}, every = tickMs): Jobs {
  const stopping = new AbortController();
  // Each loop listens to it, and so does each run.
  setMaxListeners(2 * jobs.length + 1, stopping.signal);
  const running: Running = { system, watch, places: new Semaphore(maxRunning), signal: stopping.signal };
  const loops = jobs.filter(({ isDue }) => isDue === undefined).map((job) => repeat(running, job));
  loops.push(runWhenDue(running, jobs.filter(isConditional), every));
  return {
    async stop() {
      stopping.abort();
      await Promise.all(loops);
    },
  };
}

interface Running {
  system: System;
  watch: JobWatch;
  places: Semaphore;
  signal: AbortSignal;
}

type ConditionalJob = Job & Required<Pick<Job, "isDue">>;

const isConditional = (job: Job): job is ConditionalJob => job.isDue !== undefined;

async function repeat(running: Running, job: Job): Promise<void> {
  while (!running.signal.aborted) await pause(await runOnce(running, job), running.signal);
}

/** Starts each job whose condition is true, at its interval at most. */
async function runWhenDue(running: Running, jobs: readonly ConditionalJob[], everyMs: number): Promise<void> {
  const { system, signal, watch } = running;
  const nextAt = new Map<Job, number>();
  const busy = new Map<Job, Promise<void>>();
  // Half a tick earlier: a timer that fires a little late must not cost a whole tick.
  const pauseAfter = (job: Job, ms: number) => nextAt.set(job, performance.now() + ms - everyMs / 2);
  const start = async (job: Job) => {
    pauseAfter(job, await runOnce(running, job));
    busy.delete(job);
  };
  while (!signal.aborted) {
    const now = performance.now();
    const asked = jobs.filter((job) => !busy.has(job) && (nextAt.get(job) ?? 0) <= now);
    const due = await areDue(system, asked);
    for (const [n, job] of asked.entries()) {
      pauseAfter(job, job.everyMs);
      if (due[n] === true) busy.set(job, start(job));
      else watch(job.name, due[n] === false ? "ok" : "failed", { ms: performance.now() - now, at: system.clock.now() });
    }
    await pause(everyMs, signal);
  }
  await Promise.all(busy.values());
}

/** Whether each job has work; empty when the database cannot be asked. */
async function areDue(system: System, jobs: readonly ConditionalJob[]): Promise<boolean[]> {
  try {
    return await valuesOf(
      system.sql,
      jobs.map((job) => job.isDue(system)),
    );
  } catch (error) {
    logFailure(system, "conditions of jobs", error);
    return [];
  }
}

/** Runs the job when a slot is free. Returns the pause until its next run, ms. */
async function runOnce({ system, watch, places, signal }: Running, job: Job): Promise<number> {
  return await places.run("", async () => {
    if (signal.aborted) return 0;
    const began = system.clock.now();
    const over = (outcome: "ok" | "failed" | "elsewhere") =>
      watch(job.name, outcome, { ms: system.clock.now() - began, at: system.clock.now() });
    try {
      over((await runAlone(system, job, signal)) ? "ok" : "elsewhere");
      return job.everyMs;
    } catch (error) {
      over("failed");
      // A job that runs once an hour is retried sooner after a failure of the database.
      return logFailure(system, job.name, error) === null ? job.everyMs : Math.min(job.everyMs, retryMs);
    }
  });
}

/** Returns the failure of the database; null for another one. The watch of the database logs once that it is away. */
function logFailure({ log }: System, job: string, error: unknown): Failure | null {
  const failure = failureOf(error);
  if (failure === null) log.error({ job, err: stackOf(error) }, "a job failed");
  else log.debug({ job, failure, reason: String(error) }, "a job waits for the database");
  return failure;
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
