import type { Sql } from "postgres";
import type { Log } from "../log.ts";
import { connectionsOf, sever, silenceOf } from "./beats.ts";

/** When a heartbeat fails, connections that are silent for this long are closed too. */
const suspectMs = 2_000;
/** The server cancels a statement at its time limit. A connection that is silent for this much longer is dead. */
const deadMs = 5_000;

/** After a failed heartbeat: closes silent connections at once, and idle ones because they may be dead too. */
export function closeSuspect(pools: readonly Sql[]): void {
  for (const connection of pools.flatMap(connectionsOf)) {
    const { socket, initial } = connection.peek();
    if (silenceOf(connection) >= suspectMs) sever(connection);
    else if (socket !== null && initial === null) void connection.end();
  }
}

/** Sessions of a pooler have no statement timeout. PgBouncer forwards the cancel request to the server. */
export function cancelOverdue(pool: Sql, statementMs: number): void {
  for (const connection of connectionsOf(pool))
    if ((connection.patience ?? null) === null && silenceOf(connection) > statementMs) connection.cancelRunning();
}

/** Closes single dead connections. Call it from a timer, after input that arrived during a pause has been read. */
export function closeDead(pools: readonly Sql[], statementMs: number, log: Log): void {
  for (const connection of pools.flatMap(connectionsOf)) {
    const patience = connection.patience ?? null;
    const limit = patience === null ? statementMs + deadMs : patience * 1000;
    if (limit > 0 && silenceOf(connection) > limit) {
      log.warn({ silent_secs: Math.round(limit / 1000) }, "a database connection is silent and was closed");
      sever(connection);
    }
  }
}
