/**
 * Components as visitors see them: each group at the place of its first component, ungrouped components between the
 * groups where they stand.
 */
export function inGroups<T>(
  items: readonly T[],
  groupOf: (item: T) => string | null,
): { name: string | null; items: T[] }[] {
  const groups: { name: string | null; items: T[] }[] = [];
  for (const item of items) {
    const name = groupOf(item);
    const own = name === null ? groups.at(-1) : groups.find((group) => group.name === name);
    if (own?.name === name) own.items.push(item);
    else groups.push({ name, items: [item] });
  }
  return groups;
}
