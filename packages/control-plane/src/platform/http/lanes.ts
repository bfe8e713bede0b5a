/** Runs `work` when fewer than `most` works of the same `name` run; the others queue in order (FIFO). */
export type Lanes = <T>(name: string, work: () => Promise<T>) => Promise<T>;

/** Opens lanes with `most` concurrent works per name. A call throws when `queue` others of its name wait. */
export function openLanes(most: number, queue = Infinity): Lanes {
  const lanes = new Map<string, { running: number; waiting: (() => void)[] }>();
  return async (name, work) => {
    const lane = lanes.get(name) ?? { running: 0, waiting: [] };
    if (lane.running >= most && lane.waiting.length >= queue) throw new Error(`${queue} others wait for a lane`);
    lanes.set(name, lane);
    if (lane.running < most) lane.running++;
    else await new Promise<void>((resolve) => lane.waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = lane.waiting.shift();
      if (next !== undefined) next();
      else if (--lane.running === 0) lanes.delete(name);
    }
  };
}
