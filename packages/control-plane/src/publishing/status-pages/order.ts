/**
 * Components as visitors see them: each group at the place of its first component, ungrouped components between the
 * groups where they stand.
 */
export function inGroups<T>(
  items: readonly T[],
  groupOf: (item: T) => string | null,
): { name: string | null; items: T[] }[] {
  const groups: { name: string | null; items: T[] }[] = [];
  const named = new Map<string, T[]>();
  for (const item of items) {
    const name = groupOf(item);
    const last = groups.at(-1);
    const own = name !== null ? named.get(name) : last?.name === null ? last.items : undefined;
    if (own !== undefined) {
      own.push(item);
      continue;
    }
    const made = [item];
    groups.push({ name, items: made });
    if (name !== null) named.set(name, made);
  }
  return groups;
}
