import { readFileSync, readlinkSync } from "node:fs";
import { parentPort } from "node:worker_threads";
import { compileExpectations } from "./http-expectations.ts";
import type { Job, Report } from "./judging.ts";

/* One thread of judging.ts: one job at a time. */

// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
const report = (message: Report): void => parentPort!.postMessage(message);

/** `1234/task/1240`; null where the system does not tell processor times there. */
function folderInProc(): string | null {
  try {
    readFileSync("/proc/thread-self/schedstat");
    return readlinkSync("/proc/thread-self");
  } catch {
    return null;
  }
}

report({ folder: folderInProc() });
parentPort!.on("message", ({ expectations, received }: Job) => {
  const unmet = compileExpectations(expectations).judge(received, () => report({ phase: "json" }));
  report({ unmet });
});
