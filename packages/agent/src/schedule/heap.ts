/** A binary heap: the item with the smallest key is at the top. */
export class Heap<T> {
  readonly #items: { key: number; item: T }[] = [];

  get size(): number {
    return this.#items.length;
  }

  /** The smallest key; Infinity when empty. */
  get nextKey(): number {
    return this.#items[0]?.key ?? Infinity;
  }

  push(key: number, item: T): void {
    const items = this.#items;
    const node = { key, item };
    let at = items.length;
    items.push(node);
    while (at > 0) {
      const up = (at - 1) >> 1;
      const parent = items[up] as { key: number; item: T };
      if (parent.key <= key) break;
      items[at] = parent;
      at = up;
    }
    items[at] = node;
  }

  pop(): T | undefined {
    const items = this.#items;
    const top = items[0];
    const node = items.pop();
    if (top === undefined || node === undefined || items.length === 0) return top?.item;
    let at = 0;
    for (;;) {
      let down = 2 * at + 1;
      let child = items[down];
      if (child === undefined) break;
      const right = items[down + 1];
      if (right !== undefined && right.key < child.key) {
        child = right;
        down++;
      }
      if (child.key >= node.key) break;
      items[at] = child;
      at = down;
    }
    items[at] = node;
    return top.item;
  }
}
