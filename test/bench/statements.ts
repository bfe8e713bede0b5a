import type { Sql } from "postgres";
import { cpuSeconds, sleep } from "./measure.ts";

/**
 * Samples the running statements about incidents and deliveries: the one that took the most CPU time of its process,
 * which does not depend on the load of the machine as its duration does; in steps of 10 ms.
 */
export function watchStatements(sql: Sql) {
  let longest = 0;
  let text = "";
  let over = false;
  /** The statement of each process, and its CPU time when the statement was seen first. */
  const running = new Map<number, { began: number; cpu: number }>();
  const look = async (): Promise<void> => {
    const rows = await sql<{ pid: number; began: number; query: string }[]>`
      select pid, extract(epoch from query_start)::float8 as began, query from pg_stat_activity
      where state = 'active' and pid <> pg_backend_pid() and backend_type = 'client backend'
        and query ~ 'incidents|deliveries'`;
    for (const { pid, began, query } of rows) {
      const cpu = cpuSeconds(pid);
      const seen = running.get(pid);
      if (seen?.began !== began) running.set(pid, { began, cpu });
      else if ((cpu - seen.cpu) * 1000 > longest) [longest, text] = [(cpu - seen.cpu) * 1000, query];
    }
  };
  const watching = (async () => {
    // A process may end between the two looks, and the database with the benchmark.
    for (; !over; await sleep(5)) await look().catch(() => {});
  })();
  return {
    async stop() {
      over = true;
      await watching;
      return longest;
    },
    text: () => text.replaceAll(/\s+/g, " ").slice(0, 120),
  };
}
