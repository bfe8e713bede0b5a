import { createServer } from "node:http";

/*
 * Loaded into a program with --import: measures how long its event loop is blocked, and serves that on a port
 * (SM_TEST_LOOP_PORT). Each reply begins a new measurement.
 */

const everyMs = 2;
let longest = 0;
let lastAt = performance.now();
let lastCpu = process.cpuUsage();

/**
 * The time for which the loop is blocked is at most the elapsed time and at most the CPU time of the process: on a busy
 * machine the elapsed time is too long.
 */
setInterval(() => {
  const now = performance.now();
  const { user, system } = process.cpuUsage(lastCpu);
  longest = Math.max(longest, Math.min(now - lastAt - everyMs, (user + system) / 1000));
  lastAt = now;
  lastCpu = process.cpuUsage();
}, everyMs).unref();

createServer((_, response) => {
  response.end(String(longest));
  longest = 0;
})
  .listen(Number(process.env["SM_TEST_LOOP_PORT"]), "127.0.0.1")
  .unref();
