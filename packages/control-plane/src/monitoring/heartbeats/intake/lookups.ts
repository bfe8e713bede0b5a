import { setTimeout as sleep } from "node:timers/promises";

/** Addresses of one statement, and the time between two statements, ms. */
const batchSize = 500;
const spacingMs = 100;
/** Addresses that wait, of one visitor and of all of them. */
const maxOfVisitor = 500;
const maxWaiting = 5000;

/**
 * Looks addresses of pings up for visitors that have sent many unknown ones: a job may share its network address with
 * them. `select` returns the known ones among some hashes. It is called ten times a second at most, whatever comes;
 * null: too many wait already.
 */
export function openLookups(
  select: (hashes: readonly string[]) => Promise<ReadonlySet<string>>,
): (hash: string, visitor: string) => Promise<boolean> | null {
  const waiting = new Map<string, { visitor: string; settle: ((known: Promise<boolean>) => void)[] }>();
  const ofVisitor = new Map<string, number>();
  let running = false;
  const run = async (): Promise<void> => {
    running = true;
    while (waiting.size > 0) {
      const batch = [...waiting].slice(0, batchSize);
      for (const [hash, { visitor }] of batch) {
        waiting.delete(hash);
        const left = ofVisitor.get(visitor)! - 1;
        if (left === 0) ofVisitor.delete(visitor);
        else ofVisitor.set(visitor, left);
      }
      const known = select(batch.map(([hash]) => hash));
      for (const [hash, { settle }] of batch) for (const one of settle) one(known.then((all) => all.has(hash)));
      await known.catch(() => undefined);
      await sleep(spacingMs);
    }
    running = false;
  };
  return (hash, visitor) => {
    const own = waiting.get(hash);
    const count = ofVisitor.get(visitor) ?? 0;
    if (own === undefined && (count >= maxOfVisitor || waiting.size >= maxWaiting)) return null;
    const found = new Promise<boolean>((settle) => {
      if (own !== undefined) return void own.settle.push(settle);
      waiting.set(hash, { visitor, settle: [settle] });
      ofVisitor.set(visitor, count + 1);
    });
    if (!running) void run();
    return found;
  };
}
