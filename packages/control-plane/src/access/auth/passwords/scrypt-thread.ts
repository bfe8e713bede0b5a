import { scryptSync } from "node:crypto";
import { getPriority, setPriority } from "node:os";
import { parentPort } from "node:worker_threads";
import type { Derivation, Derived } from "./scrypt.ts";

/*
 * A thread that derives keys below the priority of everything else, so that a flood of passwords takes the processor
 * time that is left over, and a tenth of a core where none is.
 */

const lowerBy = 10;
const lowest = 19;

// On Linux the priority is that of the calling thread (setpriority(2)), elsewhere that of the whole process.
if (process.platform === "linux")
  try {
    setPriority(Math.min(lowest, getPriority() + lowerBy));
  } catch {
    // A sandbox forbids the call.
  }

function derived({ password, salt, bytes, options }: Derivation): Derived {
  try {
    return { key: scryptSync(password, salt, bytes, options) };
  } catch (error) {
    return { error };
  }
}

// oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
parentPort!.on("message", (job: Derivation) => parentPort!.postMessage(derived(job)));
