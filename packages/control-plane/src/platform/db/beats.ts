import type { Sql } from "postgres";

/** A connection of the patched client (infra/patches). */
export interface Connection {
  /** Time without a byte from the server while a reply is outstanding, ms; otherwise 0. */
  silence(): number;
  /** Fails its queries, and closes it. */
  sever(error: Error): void;
  /** Sends a cancel request for the running query, on a separate connection. */
  cancelRunning(): void;
  /** Closes it after its running queries. */
  retire(): void;
  /** Time limit of a transaction that has its own, seconds; 0 for none, null for the default. */
  readonly patience: number | null;
}

/** The connections of a pool. */
export const connectionsOf = (sql: Sql): readonly Connection[] =>
  (sql as unknown as { connections(): Connection[] }).connections();

/** The single-connection client that runs LISTEN for a pool; undefined before the first listener. */
export const listenerOf = (sql: Sql): Sql | undefined => (sql as unknown as { listener(): Sql | undefined }).listener();

export const silent = (): Error =>
  Object.assign(new Error("the database does not answer"), { code: "CONNECTION_SILENT" });

export interface BeatOptions {
  /** Time between two heartbeats, ms. */
  everyMs: number;
  /** Ticks of `tickMs` without an answer after which a connection is silent. */
  ticks: number;
  tickMs: number;
}

export type Beat = "answered" | "silent" | Error;

/**
 * Sends a heartbeat on a client of one connection. Counts ticks instead of comparing times: after a pause of the
 * process (suspend, migration of a virtual machine) one tick passes, and an answer that has arrived is read.
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
  // A new connection is made at once; notifications that the old one missed are read then.
  if (outcome === "silent") for (const connection of connectionsOf(sql)) connection.sever(silent());
  return outcome;
}
