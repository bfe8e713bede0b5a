import type { Teardown } from "../harness/folder.ts";

/**
 * Teardown of a benchmark: runs the registered steps in reverse order when the work ends or fails.
 */
export async function withTeardown<T>(work: (scope: Teardown) => Promise<T>): Promise<T> {
  const undo: (() => unknown)[] = [];
  try {
    return await work({ teardown: (step) => void undo.push(step) });
  } finally {
    for (const step of undo.reverse()) await step();
  }
}

/** The smallest value that at least `share` (0..1) of the values do not exceed. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}

/** Options for the Node of a measured process: SM_TEST_NODE_ARGS="--cpu-prof --cpu-prof-dir=/tmp/profile". */
export const nodeArgs: readonly string[] = (process.env["SM_TEST_NODE_ARGS"] ?? "")
  .split(" ")
  .filter((arg) => arg !== "");
