import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { getHeapSpaceStatistics } from "node:v8";

/*
 * Loaded into a program with --import: measures how long its event loop is blocked and how far its memory grows, and
 * serves both on a port (SM_TEST_LOOP_PORT) as {@link Loop}. Each reply begins a new measurement.
 */

/** What a program did since the last measurement. */
export interface Loop {
  /** The longest time for which the event loop was blocked, ms. */
  holdMs: number;
  /**
   * Growth of the heap and of what it holds outside, bytes; with --expose-gc since a full collection. Without the young
   * generation, whose garbage is as much as its size, whatever the program does.
   */
  grown: number;
}

const everyMs = 2;
/** Memory is looked at less often: it takes 0.1 ms. */
const ticksPerMemory = 8;
let ticks = 0;
const memory = () => {
  const young = getHeapSpaceStatistics().find(({ space_name }) => space_name === "new_space");
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external - (young?.space_used_size ?? 0);
};
let longest = 0;
let lastAt = performance.now();
let lastCpu = cpuMs();
let least = memory();
let most = least;

/**
 * CPU time of the main thread, ms: on Linux without the threads of the process that collect garbage and compress
 * beside it (sched-stats.rst, /proc/<pid>/schedstat: nanoseconds on the CPU first).
 */
function cpuMs(): number {
  if (process.platform === "linux") return Number(readFileSync("/proc/self/schedstat", "latin1").split(" ")[0]) / 1e6;
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/**
 * The time for which the loop is blocked is at most the elapsed time and at most the CPU time of its thread: on a busy
 * machine the elapsed time is too long.
 */
setInterval(() => {
  const now = performance.now();
  longest = Math.max(longest, Math.min(now - lastAt - everyMs, cpuMs() - lastCpu));
  if (ticks++ % ticksPerMemory === 0) most = Math.max(most, memory());
  lastAt = performance.now();
  lastCpu = cpuMs();
}, everyMs).unref();

// A connection is kept while nothing is measured: one that the server closes meanwhile fails the next request.
createServer({ keepAliveTimeout: 0 }, (_, response) => {
  response.setHeader("Content-Type", "application/json");
  const seen: Loop = { holdMs: longest, grown: most - least };
  globalThis.gc?.();
  response.end(JSON.stringify(seen));
  longest = 0;
  least = most = memory();
  lastAt = performance.now();
  lastCpu = cpuMs();
})
  .listen(Number(process.env["SM_TEST_LOOP_PORT"]), "127.0.0.1")
  .unref();
