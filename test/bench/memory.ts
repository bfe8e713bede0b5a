import * as fs from "node:fs";

/** Memory of some processes together, MB. */
export interface Memory {
  /** Pages that several share are counted for each. */
  rss: number;
  /** Pages that several share are counted once: what the machine really lacks. */
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

function withDescendants(pids: readonly number[]): Set<number> {
  const children = new Map<number, number[]>();
  for (const name of fs.readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const parent = parentOf(name);
    if (parent !== null) children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
  }
  const found = new Set<number>();
  const add = (pid: number): void => {
    if (found.has(pid)) return;
    found.add(pid);
    for (const child of children.get(pid) ?? []) add(child);
  };
  for (const pid of pids) add(pid);
  return found;
}

function parentOf(pid: string): number | null {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, "utf8");
    // The command may contain spaces; the parent is the second field after it (proc(5)).
    return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
  } catch {
    return null;
  }
}
