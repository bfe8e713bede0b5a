import type { Socket } from "node:net";
import postgres, { type ISql, type Options, type PostgresType, type Sql } from "postgres";

/*
 * What the patched client (infra/patches) has beyond its declared types. Nothing else casts the client.
 */

/** A connection of the client. */
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

/** What every client has, and what a transaction has. */
interface Patched {
  connections(): Connection[];
  listener(): Sql | undefined;
  connection?: Connection;
  commit(): void;
  options: { refusal?: () => Error | null };
}

const patched = (sql: ISql): Patched => sql as unknown as Patched;

/**
 * Opens a client with its options, or with those that another client has parsed. Custom types would add helpers to the
 * type of the client; a plain Sql is all that callers need.
 */
export function openClient(options: object, url?: string): Sql {
  const known = options as Options<Record<string, PostgresType>>;
  return (url === undefined ? postgres(known) : postgres(url, known)) as unknown as Sql;
}

export const connectionsOf = (sql: Sql): readonly Connection[] => patched(sql).connections();

/** The single-connection client that runs LISTEN for a pool; undefined before the first listener. */
export const listenerOf = (sql: Sql): Sql | undefined => patched(sql).listener();

/** The connection of a transaction; undefined for a pool. */
export const connectionOf = (tx: ISql): Connection | undefined => patched(tx).connection;

/** Calls `refusal` before each query of the pool, which fails with the error that it returns. */
export function refuseWith(pool: Sql, refusal: () => Error | null): void {
  patched(pool).options.refusal = refusal;
}

/**
 * Sends COMMIT behind the statements that the transaction sends in this turn of the event loop, without waiting for
 * their replies. Where one of them fails, it rolls back, and the transaction throws that error. Nothing may follow.
 */
export const commitBehind = (tx: ISql): void => patched(tx).commit();
