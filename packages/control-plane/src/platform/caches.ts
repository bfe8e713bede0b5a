/** The value of a key; the first reader has it made. */
export function getOrMake<K, V>(
  known: { get(key: K): V | undefined; set(key: K, value: V): unknown },
  key: K,
  make: () => V,
): V {
  const found = known.get(key);
  if (found !== undefined) return found;
  const made = make();
  known.set(key, made);
  return made;
}

/**
 * Options of an LRUCache for at most so many entries. It grows with them: with `max` it allocates room for all of them
 * at once, which takes 25 ms for 50,000.
 */
export const atMost = (entries: number) => ({ maxSize: entries, sizeCalculation: () => 1 });

/**
 * True once per `periodMs` for each key, at the times that it is called with. It keeps the keys of the last period in
 * `seen`, by the time of their last true.
 */
export function oncePer(periodMs: number, seen = new Map<string, number>()): (key: string, now: number) => boolean {
  return (key, now) => {
    for (const [old, at] of seen) {
      if (now - at < periodMs) break;
      seen.delete(old);
    }
    if (seen.has(key)) return false;
    seen.set(key, now);
    return true;
  };
}
