/** Runs `work` when fewer than `most` others of the same `name` are at work; the others wait in the order in which they came. */
export type Lanes = <T>(name: string, work: () => Promise<T>) => Promise<T>;

/** Opens lanes for `most` at a time of each name. */
export function openLanes(most: number): Lanes {
  const lanes = new Map<string, { running: number; waiting: (() => void)[] }>();
  return async (name, work) => {
    const lane = lanes.get(name) ?? { running: 0, waiting: [] };
    lanes.set(name, lane);
    if (lane.running < most) lane.running++;
    else await new Promise<void>((resolve) => lane.waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = lane.waiting.shift();
      if (next === undefined) lane.running--;
      else next();
    }
  };
}
