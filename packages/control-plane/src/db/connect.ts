import postgres, { type ISql, type Options, type PostgresType, type Sql } from "postgres";
import { StartupError } from "../startup-error.ts";

/** Where a database is: a URL that somebody configured, or the Unix socket of the embedded one. */
export type DatabaseAddress =
  | { readonly url: string }
  | {
      readonly path: string;
      readonly database: string;
      readonly username: string;
      /** A function is asked for every connection. */
      readonly password?: string | (() => string);
    };

export interface PoolOptions {
  /** Most connections at once. */
  max?: number;
}

/** The oldest server that SQL and migrations are written for. */
const oldestServer = 15;
const startupDeadlineMs = 15_000;
/** A statement that takes longer is ended by the server. */
export const statementTimeoutMs = 30_000;

/**
 * A pool that connects when it is first used. Rows come with timestamptz as Date, and bigint and numeric as number; a
 * bigint outside the safe integers stays a string. Sessions run in UTC, and a statement ends after 30 s.
 */
export function openPool(address: DatabaseAddress, { max = 10 }: PoolOptions = {}): Sql {
  const options: Options<Record<string, PostgresType>> = {
    max,
    // A backend holds up to 20 MB, and the pool takes turns, so that the few queries of an idle service would keep all of
    // them alive: at 30 s the whole product idled at 370 to 510 MB, at 3 s at 220. Connecting again takes 3 ms.
    idle_timeout: 3,
    // Requests are answered within 5 s, also by a server that accepts connections and then says nothing.
    connect_timeout: 4,
    backoff: (retries: number) => Math.min(0.05 * 2 ** retries, 1),
    connection: {
      application_name: "statusmesh",
      TimeZone: "UTC",
      statement_timeout: statementTimeoutMs,
      idle_in_transaction_session_timeout: 30_000,
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
  // The helpers that the type parameter would add for custom types are not used: a plain Sql is all that callers need.
  if ("path" in address) return postgres({ ...options, ...address }) as unknown as Sql;
  if (!URL.canParse(address.url))
    throw new StartupError(
      "database.url is not a URL like postgres://user:password@host:5432/name. Write special characters in the password as %XX.",
    );
  // A standby is no use: everything here writes. The address may say otherwise.
  return postgres(address.url, {
    ...options,
    ...(/[?&]target_session_attrs=/.test(address.url) ? {} : { target_session_attrs: "read-write" }),
  }) as unknown as Sql;
}

/**
 * A client with one connection of its own to where `pool` leads, without a time limit: for what needs a session but may
 * not be in a transaction. The caller ends it. It stands in for `sql.reserve()`, which in postgres 3.4.9 never resolves
 * when it meets a connection that is being closed (13 of 460 calls with a short idle_timeout; queries and begin are safe).
 */
export function openSession(pool: Sql): Sql {
  // The client takes its own parsed options back, as its `listen` does; the declared types do not know that.
  const options = {
    ...pool.options,
    max: 1,
    idle_timeout: 0,
    refusal: undefined,
    connection: { ...pool.options.connection, statement_timeout: 0 },
  };
  return postgres(options as unknown as Options<Record<string, PostgresType>>) as unknown as Sql;
}

/**
 * Lets the rest of a transaction take longer than a request may: `ms` for each statement, 0 for no limit. The client waits for a silent
 * server as long.
 */
export async function allowTime(tx: ISql, ms: number): Promise<void> {
  await tx`select set_config('statement_timeout', ${String(ms)}, true)`;
  (tx as unknown as { patience?(seconds: number): void }).patience?.(ms === 0 ? 0 : ms / 1000 + 5);
}

/** {@link openPool}, after a first connection has shown that the server is there, takes the credentials and is new enough. Throws StartupError. */
export async function openDatabase(address: DatabaseAddress, options: PoolOptions = {}): Promise<Sql> {
  const sql = openPool(address, options);
  // A port that accepts and hangs up makes the client try for ever, so the deadline is ours.
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(Object.assign(new Error("no answer"), { code: "CONNECT_TIMEOUT" })),
      startupDeadlineMs,
    );
  });
  try {
    const [row] = await Promise.race([
      sql<{ version: string }[]>`select current_setting('server_version') as version`,
      deadline,
    ]);
    const version = row?.version ?? "";
    if (Number.parseInt(version, 10) < oldestServer) {
      throw new StartupError(
        `The database ${nameOf(address)} is PostgreSQL ${version}. StatusMesh needs ${oldestServer} or newer.`,
      );
    }
    return sql;
  } catch (error) {
    await sql.end({ timeout: 0 }).catch(() => {});
    throw error instanceof StartupError
      ? error
      : new StartupError(explain(error, address), { cause: error, temporary: !needsAdministrator.test(codeOf(error)) });
  } finally {
    clearTimeout(timer);
  }
}

/** Host, port and name, never the password. */
function nameOf(address: DatabaseAddress): string {
  if ("path" in address) return `at ${address.path}`;
  const { host, pathname } = new URL(address.url);
  return `${pathname.slice(1) || "(no name)"} at ${host || "localhost"}`;
}

/** Refused credentials, a missing database and missing rights: waiting does not help. */
const needsAdministrator = /^(?:28|3D|42)/;

const codeOf = (error: unknown): string => String((error as { code?: unknown }).code ?? "");

/** SQLSTATE codes: PostgreSQL manual, appendix A. */
function explain(error: unknown, address: DatabaseAddress): string {
  const { code = "", message = String(error) } = error as { code?: string; message?: string };
  const name = nameOf(address);
  switch (code) {
    case "28P01":
    case "28000":
      return `The database ${name} refused the user or the password (${message}). Check database.url (SM_DATABASE__URL).`;
    case "3D000":
      return `The database ${name} does not exist. Create it, or correct the name at the end of database.url (SM_DATABASE__URL).`;
    case "42501":
      return `The database ${name} does not let this user in (${message}).`;
    case "53300":
      return `The database ${name} has no connection left (${message}). Raise max_connections, or run fewer replicas.`;
    case "57P03":
      return `The database ${name} is starting or stopping (${message}). Try again in a moment.`;
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return `The host of the database ${name} cannot be resolved. Check database.url (SM_DATABASE__URL).`;
    case "TARGET_SESSION_ATTRS":
      return `The database ${name} takes no writes: it is a standby, or default_transaction_read_only is on. Set the address of the primary in database.url (SM_DATABASE__URL).`;
    case "CONNECT_TIMEOUT":
      return `The database ${name} does not answer as PostgreSQL. Check host and port in database.url (SM_DATABASE__URL), and any firewall between.`;
    case "ECONNREFUSED":
    case "ECONNRESET":
    case "EHOSTUNREACH":
    case "ENETUNREACH":
    case "ENOENT":
    case "ETIMEDOUT":
    case "EACCES":
      return `The database ${name} cannot be reached (${code}). Check that it runs, and host and port in database.url (SM_DATABASE__URL).`;
    default:
      return `The database ${name} cannot be used: ${message.split("\n", 1)[0]}`;
  }
}
