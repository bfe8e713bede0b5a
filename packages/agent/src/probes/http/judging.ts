import { readFileSync } from "node:fs";
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

/**
 * What a thread sends: first its folder in /proc, null where there is none; of each job that it has come to the slow
 * part, and the verdict.
 */
export type Report = { folder: string | null } | { phase: "json" } | { unmet: Unmet | null };

/** Threads at a time. */
const maxThreads = 2;
/** Waiting jobs, and the bytes of the bodies that they keep; one has up to a MiB. */
const maxWaiting = 200;
const maxWaitingBytes = 48 * 1_048_576;
/** Processor time of one job, ms: a tenant cannot hold a thread for the whole of a long timeout. */
const jobMs = 2_000;
/** Time of one job on a machine that gives its thread little of a processor, ms. */
const longestMs = 4 * jobMs;
const idleMs = 30_000;

export interface JudgingHooks {
  /** The organisation: threads are shared fairly between them. */
  owner: string;
  signal: CancelSignal;
  /** Called when the job runs, when it comes to its JSON expectations, and when its thread got no processor time. */
  onPhase(phase: "text" | "json" | "starved"): void;
}

interface Waiting extends JudgingHooks {
  job: Job;
  settle(outcome: Unmet | null | "overdue" | "busy"): void;
}

const waiting = new Map<string, Waiting[]>();
/** Idle threads, the longest idle first, each with the timer that ends it. */
const idle = new Map<Worker, NodeJS.Timeout>();
let count = 0;
let waitingBytes = 0;
let threads = 0;

/**
 * Judges a response in a thread. `overdue`: it took too long. `busy`: there was no thread or too little processor time
 * for it, which is no evidence about the target. Never rejects; after an abort of the signal the outcome is of no
 * interest, and the last phase tells what the job was at.
 */
export function judgeInThread(job: Job, hooks: JudgingHooks): Promise<Unmet | null | "overdue" | "busy"> {
  return new Promise((settle) => {
    const { length } = job.received.body;
    if (count >= maxWaiting || waitingBytes + length > maxWaitingBytes) return settle("busy");
    const one: Waiting = { job, settle, ...hooks };
    const queue = waiting.get(hooks.owner) ?? [];
    waiting.set(hooks.owner, queue);
    queue.push(one);
    count++;
    waitingBytes += length;
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
  const [one] = queue.splice(at, 1);
  count--;
  waitingBytes -= one!.job.received.body.length;
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
/** Processor time of each thread that has started, ms. */
const processorMs = new WeakMap<Worker, () => number>();

/** Reads the time that a thread has run, from its folder in /proc; without one it is taken to run all the time. */
const processorClock = (folder: string | null) => (): number => {
  try {
    if (folder !== null) return Number(readFileSync(`/proc/${folder}/schedstat`, "utf8").split(" ")[0]) / 1_000_000;
  } catch {
    // It has ended.
  }
  return performance.now();
};

function start(): Worker {
  threads++;
  const thread = new Worker(new URL("./judging-thread.js", import.meta.url), {
    resourceLimits: { maxOldGenerationSizeMb: 96 },
    // Neither the options nor the environment of the agent, which may hold its token.
    execArgv: [],
    env: {},
  });
  thread.on("message", (message: Report) => {
    if ("folder" in message) processorMs.set(thread, processorClock(message.folder));
    else running.get(thread)?.report(message);
  });
  // Out of memory, or a defect.
  thread.on("error", () => running.get(thread)?.fail());
  return thread;
}

function run({ job, signal, onPhase, settle }: Waiting, thread: Worker): void {
  thread.ref();
  const clock = () => processorMs.get(thread)?.() ?? 0;
  const [began, before] = [performance.now(), clock()];
  const end = (outcome: Parameters<typeof settle>[0], keep: boolean): void => {
    clearTimeout(timer);
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
  const fail = (): void => {
    const isStarved = clock() - before < (performance.now() - began) / 2;
    if (isStarved) onPhase("starved");
    end(isStarved ? "busy" : "overdue", false);
  };
  const look = (): void => {
    const leftMs = jobMs - (clock() - before);
    if (leftMs <= 0 || performance.now() - began >= longestMs) fail();
    else timer = setTimeout(look, leftMs);
  };
  let timer = setTimeout(look, jobMs);
  signal.addEventListener("abort", fail, { once: true });
  running.set(thread, {
    report: (message) => {
      if ("phase" in message) onPhase(message.phase);
      else if ("unmet" in message) end(message.unmet, true);
    },
    fail: () => end("overdue", false),
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
