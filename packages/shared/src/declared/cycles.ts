type Graph = ReadonlyMap<string, readonly string[]>;

/** Of a monitor that depends on itself, in the words of the API. */
export const cycleMessage = "A monitor cannot depend on itself, directly or over others.";

/**
 * The nodes of a graph that lie on a cycle, or between two. It yields between nodes, because a document has up to
 * 200,000 edges; {@link inCycles} does not stop there.
 */
export function* searchCycles(graph: Graph): Generator<void, ReadonlySet<string>> {
  const ends = yield* turned(graph);
  return new Set((yield* turned(ends)).keys());
}

/** The same in one step. */
export function inCycles(graph: Graph): ReadonlySet<string> {
  const search = searchCycles(graph);
  for (;;) {
    const { done, value } = search.next();
    if (done === true) return value;
  }
}

/** A graph with its edges turned round, without the nodes that no cycle leads to (Kahn's algorithm). */
function* turned(graph: Graph): Generator<void, Map<string, string[]>> {
  const back = new Map([...graph.keys()].map((id) => [id, [] as string[]]));
  const open = new Map<string, number>();
  const free: string[] = [];
  for (const [id, others] of graph) {
    yield;
    let count = 0;
    for (const other of others) {
      const list = back.get(other);
      if (list === undefined) continue;
      list.push(id);
      count++;
    }
    open.set(id, count);
    if (count === 0) free.push(id);
  }
  for (const id of free) {
    yield;
    for (const next of back.get(id)!) {
      const count = open.get(next)! - 1;
      open.set(next, count);
      if (count === 0) free.push(next);
    }
  }
  for (const id of free) back.delete(id);
  return back;
}
