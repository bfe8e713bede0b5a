import type { ISql, Options, PostgresType, Sql } from "postgres";
import { exponentialMs } from "@statusmesh/shared/backoff";
import { type DatabaseAddress, parseUrl } from "./address.ts";
import { connectionOf, openClient } from "./driver.ts";

export type { DatabaseAddress } from "./address.ts";

export interface PoolOptions {
  /** Largest number of connections. */
  max?: number;
  /** True behind a pooler that may run each transaction on another server connection (transaction pooling). */
  pooled?: boolean;
  /** Time limit for connecting, ms; of several hosts together. */
  connectMs?: number;
  /** Time limit of a statement, ms. */
  statementMs?: number;
}

/** Requests are answered within 5 s, also when a server accepts connections and then stays silent. */
const defaultConnectMs = 4_000;
/** Default time limit of a statement. */
export const statementTimeoutMs = 30_000;

/**
 * Returns a pool that connects at its first query. Rows have timestamptz as Date, bigint and numeric as number; a
 * bigint outside the safe integers stays a string. Sessions run in UTC. The server cancels a statement after
 * `statementMs`; behind a pooler the database watch does.
 */
export function openPool(
  address: DatabaseAddress,
  { max = 14, pooled = false, connectMs = defaultConnectMs, statementMs = statementTimeoutMs }: PoolOptions = {},
): Sql {
  const options: Options<Record<string, PostgresType>> = {
    max,
    // A backend holds up to 20 MB. Queries go to the connection used last, so that those of a burst end; one that
    // answers a job every few seconds stays, for a new one reads the catalogs and plans every statement again.
    idle_timeout: 20,
    connect_timeout: connectMs / 1000,
    backoff: (retries: number) => exponentialMs(retries, 50, 1_000) / 1000,
    ...(pooled ? transactionPooling : {}),
    connection: {
      application_name: "statusmesh",
      TimeZone: "UTC",
      // PgBouncer refuses these, and a server connection would keep them for its next client. Where PostgreSQL has
      // LLVM, compiling a statement (jit) takes longer than running it.
      ...(pooled ? {} : { jit: "off", statement_timeout: statementMs, idle_in_transaction_session_timeout: 30_000 }),
    },
    onnotice: () => {},
    types: {
      bigint: {
        to: 20,
        from: [20],
        serialize: String,
        parse: (text: string) => (Number.isSafeInteger(Number(text)) ? Number(text) : text),
      },
      // Only sums and averages are numeric here, so a double holds them.
      numeric: { to: 1700, from: [1700], serialize: String, parse: Number },
    },
  };
  if ("path" in address) return openClient({ ...options, ...address });
  const { single, hosts } = parseUrl(address);
  const several = {
    ...options,
    ...(hosts.length === 0 ? {} : { host: hosts.map(({ host }) => host), port: hosts.map(({ port }) => port) }),
    connect_timeout: connectMs / 1000 / Math.max(1, hosts.length),
    // StatusMesh needs a server that takes writes, not a standby. The URL may set another value.
    ...(single.searchParams.has("target_session_attrs") ? {} : { target_session_attrs: "read-write" }),
  };
  return openClient(several, single.href);
}

/**
 * Nothing stays on a connection, and no query is sent before the reply to the one before. PgBouncer gives the server
 * connection to another client at the first ReadyForQuery, also when the Parse of the next query is on its way:
 * of 200 pipelined queries 16 returned rows of other queries (PgBouncer 1.18). Zero lets no query follow another.
 */
const transactionPooling = { prepare: false, max_pipeline: 0 };

/** Direct pool of each pool that uses a pooler. */
const directPools = new WeakMap<Sql, Sql>();

/** Records that `pool` uses a pooler, and `direct` reaches the same database without one. */
export function setDirect(pool: Sql, direct: Sql): void {
  directPools.set(pool, direct);
}

/** Returns the pool whose connections are sessions of the server; `pool` itself where there is no pooler. */
export const directOf = (pool: Sql): Sql => directPools.get(pool) ?? pool;

/**
 * Returns a client with one direct connection and no statement timeout, for work that needs a session but cannot run in
 * a transaction. The caller ends it. It replaces `sql.reserve()`, which in postgres 3.4.9 never resolves when it gets a
 * connection that is being closed (13 of 460 calls with a short idle_timeout; queries and begin are not affected), nor
 * on a new connection once the array types are known.
 */
export function openSession(pool: Sql): Sql {
  return openLikewise(directOf(pool), { statement_timeout: "0" });
}

/** Returns a client with one connection of its own to the address of `pool`. The caller ends it. */
export function openLikewise({ options: own }: Sql, settings: Readonly<Record<string, string>> = {}): Sql {
  const connection = { ...own.connection, ...settings };
  return openClient({ ...own, max: 1, idle_timeout: 0, refusal: undefined, connection });
}

/**
 * Sets the time limit of each further statement of a transaction to `ms`, 0 for none. The client waits for a silent
 * server as long.
 */
export async function allowTime(tx: ISql, ms: number): Promise<void> {
  await tx`select set_config('statement_timeout', ${String(ms)}, true)`;
  const connection = connectionOf(tx);
  if (connection !== undefined) connection.patience = ms === 0 ? 0 : ms / 1000 + 5;
}
