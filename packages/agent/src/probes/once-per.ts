/** Memoises a function per object: a check object stays the same between runs. Exceptions are not cached. */
export function oncePer<K extends object, V extends NonNullable<unknown>>(work: (key: K) => V): (key: K) => V {
  const known = new WeakMap<K, V>();
  return (key) => {
    let value = known.get(key);
    if (value === undefined) {
      value = work(key);
      known.set(key, value);
    }
    return value;
  };
}
