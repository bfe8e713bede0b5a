import { createServer } from "node:http";

/*
 * Loaded into a program with --import: measures how long its event loop is held, and answers that on a port of its own
 * (SM_TEST_LOOP_PORT). Each answer begins a new measurement.
 */

const everyMs = 2;
let longest = 0;
let lastAt = performance.now();
let lastCpu = process.cpuUsage();

/**
 * The loop is held no longer than the clock says, and no longer than the process has computed: on a busy machine the
 * first is too much.
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
