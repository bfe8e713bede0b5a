import type { Sql } from "postgres";

export interface Longest {
  /** Longest seen, ms. */
  ms: number;
  /** The statement. */
  text: string;
}

export interface Waits {
  lock: Longest;
  statement: Longest;
  stop(): Promise<void>;
}

/** Looks every 50 ms for how long statements run and wait for locks; one that is shorter may not be seen. */
export function watchWaits(sql: Sql): Waits {
  const waits = { lock: { ms: 0, text: "" }, statement: { ms: 0, text: "" } };
  let ended = false;
  const look = async (): Promise<void> => {
    const rows = await sql<{ statement: number; lock: number | null; text: string }[]>`
      select extract(epoch from clock_timestamp() - a.query_start)::float8 * 1000 as statement,
        (select max(extract(epoch from clock_timestamp() - l.waitstart))::float8 * 1000 from pg_locks l
          where l.pid = a.pid and not l.granted) as lock,
        left(regexp_replace(a.query, '\\s+', ' ', 'g'), 100) as text
      from pg_stat_activity a
      where a.state = 'active' and a.backend_type = 'client backend' and a.pid <> pg_backend_pid()`;
    for (const { statement, lock, text } of rows) {
      if (statement > waits.statement.ms) waits.statement = { ms: statement, text };
      if ((lock ?? 0) > waits.lock.ms) waits.lock = { ms: lock!, text };
    }
  };
  const looking = (async () => {
    while (!ended) {
      await look();
      await new Promise((settle) => setTimeout(settle, 50));
    }
  })();
  return Object.assign(waits, {
    async stop() {
      ended = true;
      await looking;
    },
  });
}
