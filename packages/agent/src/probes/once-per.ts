/** A function that works its answer out once for each object: a check keeps its own from run to run, and what throws is tried again. */
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
