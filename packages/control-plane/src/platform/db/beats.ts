import type { Socket } from "node:net";
import type { Sql } from "postgres";

/** A connection of the patched client (infra/patches). */
export interface Connection {
  peek(): {
    readonly socket: Socket | null;
    /** What it waits for: the running query, and that for which it is being opened. */
    readonly query: object | null;
    readonly initial: object | null;
    /** Of the last byte from the server, on the clock of `performance.now()`. */
    readonly lastRead: number;
  };
  /** Sends a cancel request for the running query, on a separate connection. */
  cancelRunning(): void;
  /** Closes it after its running queries. */
  end(): Promise<void>;
  /** Time limit of a transaction that has its own, seconds; 0 for none, null or absent for the default. */
  patience?: number | null;
}

/** Time without a byte from the server while a reply is outstanding, ms; otherwise 0. */
export function silenceOf(connection: Connection): number {
  const { socket, query, initial, lastRead } = connection.peek();
  return socket !== null && (query ?? initial) !== null ? performance.now() - lastRead : 0;
}

/** Closes a silent connection; its queries fail. */
export const sever = (connection: Connection): void =>
  void connection
    .peek()
    .socket?.destroy(Object.assign(new Error("the database does not answer"), { code: "CONNECTION_SILENT" }));

export const connectionsOf = (sql: Sql): readonly Connection[] =>
  (sql as unknown as { connections(): Connection[] }).connections();

/** The single-connection client that runs LISTEN for a pool; undefined before the first listener. */
export const listenerOf = (sql: Sql): Sql | undefined => (sql as unknown as { listener(): Sql | undefined }).listener();

export interface BeatOptions {
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
  if (outcome === "silent") connectionsOf(sql).forEach(sever);
  return outcome;
}
