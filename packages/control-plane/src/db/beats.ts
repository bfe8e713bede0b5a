import type { Sql } from "postgres";

/** What the patched client (infra/patches) tells of its connections. */
export interface Connection {
  /** Time without a byte from the server while an answer is waited for, ms; 0 when none is. */
  silence(): number;
  /** Fails what runs on it, and closes it. */
  sever(error: Error): void;
  /** Closes it once nothing runs on it. */
  retire(): void;
  /** Deadline of a transaction that may take longer, seconds; 0 for none, null for the usual one. */
  readonly patience: number | null;
}

/** The connections of a pool. */
export const connectionsOf = (sql: Sql): readonly Connection[] =>
  (sql as unknown as { connections(): Connection[] }).connections();

/** The client of one connection that listens for a pool; undefined before it is asked to. */
export const listenerOf = (sql: Sql): Sql | undefined => (sql as unknown as { listener(): Sql | undefined }).listener();

export const silent = (): Error =>
  Object.assign(new Error("the database does not answer"), { code: "CONNECTION_SILENT" });

export interface BeatOptions {
  /** Time from one beat to the next, ms. */
  everyMs: number;
  /** Ticks of `tickMs` without an answer that make a connection silent. */
  ticks: number;
  tickMs: number;
}

export type Beat = "answered" | "silent" | Error;

/**
 * Asks for a sign of life on a client of one connection. Counts ticks instead of comparing times: after a pause of the whole process, a
 * laptop's sleep or a virtual machine that was moved, one tick passes and the answer that came meanwhile is read.
 */
export async function beat(sql: Sql, { ticks, tickMs }: BeatOptions): Promise<Beat> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<Beat>((resolve) => {
    let left = ticks;
    const tick = () => {
      if (--left <= 0) resolve("silent");
      else timer = setTimeout(tick, tickMs);
    };
    timer = setTimeout(tick, tickMs);
  });
  const answer = sql`select 1`.then(
    (): Beat => "answered",
    (error: unknown): Beat => (error instanceof Error ? error : new Error(String(error))),
  );
  const outcome = await Promise.race([answer, late]);
  clearTimeout(timer);
  // The connection is given up, and with it what was missed on it: a new one is made at once.
  if (outcome === "silent") for (const connection of connectionsOf(sql)) connection.sever(silent());
  return outcome;
}
