import * as fs from "node:fs";
import { withDescendants } from "./descendants.ts";

/** Memory of some processes together, MB. */
export interface Memory {
  /** Shared pages count for each process. */
  rss: number;
  /** Shared pages count once. */
  pss: number;
}

/** The memory of processes and all their descendants. Linux only. */
export function memoryOf(pids: readonly number[]): Memory {
  const total = { rss: 0, pss: 0 };
  for (const pid of withDescendants(pids)) {
    try {
      const rollup = fs.readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
      total.rss += Number(/^Rss:\s+(\d+) kB/m.exec(rollup)?.[1] ?? 0) / 1024;
      total.pss += Number(/^Pss:\s+(\d+) kB/m.exec(rollup)?.[1] ?? 0) / 1024;
    } catch {
      // Ended meanwhile.
    }
  }
  return total;
}
