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
