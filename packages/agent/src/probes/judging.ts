import { Worker } from "node:worker_threads";
import type { CancelSignal } from "@statusmesh/shared/net/cancellation";
import type { HttpExpectations, Received, Unmet } from "./http-expectations.ts";

/*
 * Threads for expectations whose evaluation could hold the event loop: a pattern on a large body, a path that selects
 * much. They start on first use and end when idle; a job that takes too long ends with its thread.
 */

export interface Job {
  expectations: HttpExpectations;
  received: Received;
}

/** What a thread sends: the verdict, or that it has come to the slow part. */
export type Report = { unmet: Unmet | null } | { phase: "json" };

/** Threads at a time. */
const maxThreads = 2;
/** Waiting jobs; each keeps a body of up to a MiB. */
const maxWaiting = 200;
/** Time of one job, ms: a tenant cannot hold a thread for the whole of a long timeout. */
const jobMs = 2_000;
const idleMs = 30_000;

export interface JudgingHooks {
  /** The organisation: threads are shared fairly between them. */
  owner: string;
  signal: CancelSignal;
  /** Called when the job runs, and when it comes to its JSON expectations. */
  onPhase(phase: "text" | "json"): void;
}

interface Waiting extends JudgingHooks {
  job: Job;
  settle(outcome: Unmet | null | "overdue" | "busy"): void;
}

const waiting = new Map<string, Waiting[]>();
/** Idle threads, the longest idle first, each with the timer that ends it. */
const idle = new Map<Worker, NodeJS.Timeout>();
let count = 0;
let threads = 0;

/**
 * Judges a response in a thread. `overdue`: it took too long. `busy`: there was no thread for it, which is no evidence
 * about the target. Never rejects; after an abort of the signal the outcome is of no interest.
 */
export function judgeInThread(job: Job, hooks: JudgingHooks): Promise<Unmet | null | "overdue" | "busy"> {
  return new Promise((settle) => {
    if (count >= maxWaiting) return settle("busy");
    const one: Waiting = { job, settle, ...hooks };
    const queue = waiting.get(hooks.owner) ?? [];
    waiting.set(hooks.owner, queue);
    queue.push(one);
    count++;
    const onAbort = (): void => {
      const at = queue.indexOf(one);
      if (at === -1) return;
      take(hooks.owner, queue, at);
      settle("busy");
    };
    hooks.signal.addEventListener("abort", onAbort, { once: true });
    next();
  });
}

function take(owner: string, queue: Waiting[], at: number): void {
  queue.splice(at, 1);
  count--;
  // The organisation goes to the end of the line.
  waiting.delete(owner);
  if (queue.length > 0) waiting.set(owner, queue);
}

function next(): void {
  const [first] = waiting;
  if (first === undefined || (idle.size === 0 && threads >= maxThreads)) return;
  const [owner, queue] = first;
  const one = queue[0]!;
  take(owner, queue, 0);
  run(one, awake() ?? start());
}

function awake(): Worker | null {
  const [thread, timer] = [...idle].at(-1) ?? [];
  if (thread === undefined) return null;
  clearTimeout(timer);
  idle.delete(thread);
  return thread;
}

/** The job of each thread that has one. */
const running = new Map<Worker, { report(message: Report): void; fail(): void }>();

function start(): Worker {
  threads++;
  const thread = new Worker(new URL("./judging-thread.js", import.meta.url), {
    resourceLimits: { maxOldGenerationSizeMb: 96 },
    // Neither the options nor the environment of the agent, which may hold its token.
    execArgv: [],
    env: {},
  });
  thread.on("message", (message: Report) => running.get(thread)?.report(message));
  // Out of memory, or a defect.
  thread.on("error", () => running.get(thread)?.fail());
  return thread;
}

function run({ job, signal, onPhase, settle }: Waiting, thread: Worker): void {
  thread.ref();
  const end = (outcome: Parameters<typeof settle>[0], keep: boolean): void => {
    clearTimeout(overdue);
    signal.removeEventListener("abort", fail);
    running.delete(thread);
    settle(outcome);
    if (keep) rest(thread);
    else {
      threads--;
      void thread.terminate();
    }
    next();
  };
  const fail = (): void => end("overdue", false);
  const overdue = setTimeout(fail, jobMs);
  signal.addEventListener("abort", fail, { once: true });
  running.set(thread, {
    report: (message) => ("phase" in message ? onPhase(message.phase) : end(message.unmet, true)),
    fail,
  });
  onPhase("text");
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  thread.postMessage(job);
}

function rest(thread: Worker): void {
  thread.unref();
  const end = (): void => {
    idle.delete(thread);
    threads--;
    void thread.terminate();
  };
  idle.set(thread, setTimeout(end, idleMs).unref());
}
