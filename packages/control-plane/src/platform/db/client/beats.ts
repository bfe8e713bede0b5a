import type { Sql } from "postgres";
import { type Connection, connectionsOf } from "./driver.ts";

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
