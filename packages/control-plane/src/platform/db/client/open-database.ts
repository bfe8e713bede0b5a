import type { Sql } from "postgres";
import { codeOf } from "@statusmesh/shared/thrown";
import { StartupError } from "../../../config/startup-error.ts";
import { type DatabaseAddress, nameOf } from "./address.ts";
import { openLikewise, openPool, type PoolOptions, setDirect } from "./connect.ts";
import { valueOf } from "./sql.ts";

export interface OpenDatabase {
  readonly sql: Sql;
  /** For LISTEN, migrations and locks: connections that are sessions of the server. `sql` itself without a pooler. */
  readonly direct: Sql;
}

/** The keys of `database` in the configuration. */
export interface DatabaseSettings {
  readonly url: string;
  readonly listen_url: string;
  readonly prepare: boolean;
  readonly pool_size: number;
  readonly connect_timeout_ms: number;
  readonly statement_timeout_ms: number;
}

/** The oldest server that the SQL works with. */
const oldestServer = 15;
const startupDeadlineMs = 15_000;
/** Migrations and the locks of jobs use direct connections, besides the one that listens. */
const directConnections = 8;
/** Pairs of queries that detect a pooler. An idle one reuses the last connection first, and shows at the first pair. */
const poolerProbes = 5;

/** Opens the configured PostgreSQL, through a pooler and directly where two URLs are set. Throws StartupError. */
export async function openConfigured(settings: DatabaseSettings): Promise<OpenDatabase> {
  const { url, listen_url: listenUrl, prepare, pool_size: max } = settings;
  if (!prepare && listenUrl === "")
    throw new StartupError(
      "database.prepare is false, which is for a pooler, and database.listen_url (SM_DATABASE__LISTEN_URL) is empty: " +
        "set it to the address of the PostgreSQL itself.",
    );
  const limits = { connectMs: settings.connect_timeout_ms, statementMs: settings.statement_timeout_ms };
  const sql = await openDatabase({ url }, { ...limits, max, pooled: !prepare });
  if (listenUrl === "") return { sql, direct: sql };
  let direct: Sql | null = null;
  try {
    const address = { url: listenUrl, key: "database.listen_url" };
    direct = await openDatabase(address, { ...limits, max: directConnections });
    await requireSameDatabase(sql, direct);
    setDirect(sql, direct);
    return { sql, direct };
  } catch (error) {
    await Promise.all([sql.end({ timeout: 0 }), direct?.end({ timeout: 0 })]);
    throw error;
  }
}

/** Ends all connections; queries have a second to finish. */
export async function closeDatabase({ sql, direct }: OpenDatabase): Promise<void> {
  await Promise.all([...new Set([sql, direct])].map((pool) => pool.end({ timeout: 1 })));
}

/** {@link openPool}, and checks connection, credentials, version and poolers. Throws StartupError. */
export async function openDatabase(address: DatabaseAddress, options: PoolOptions = {}): Promise<Sql> {
  const sql = openPool(address, options);
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_, reject) => {
    const late = (): void => reject(Object.assign(new Error("no answer"), { code: "CONNECT_TIMEOUT" }));
    timer = setTimeout(late, startupDeadlineMs);
  });
  try {
    await Promise.race([checkServer(sql, address, options.pooled === true), deadline]);
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

async function checkServer(sql: Sql, address: DatabaseAddress, pooled: boolean): Promise<void> {
  const [row] = await sql<{ version: string }[]>`select current_setting('server_version') as version`;
  // Every connection would ask for all array types again: a fifth of the database's CPU time at a start.
  sql.options.fetch_types = false;
  const version = row?.version ?? "";
  if (Number.parseInt(version, 10) < oldestServer) {
    throw new StartupError(
      `The database ${nameOf(address)} is PostgreSQL ${version}. StatusMesh needs ${oldestServer} or newer.`,
    );
  }
  if ("url" in address && !pooled && (await isPooled(sql))) throw new StartupError(behindPooler(address));
}

/**
 * Returns true when a session changes its server process, or two sessions share one: a pooler assigns it per
 * transaction. Prepared statements, LISTEN and locks of a session would then reach other clients, or be lost.
 */
async function isPooled(sql: Sql): Promise<boolean> {
  const sessions = [openLikewise(sql), openLikewise(sql)];
  const seen = sessions.map(() => new Set<number>());
  try {
    for (let probe = 0; probe < poolerProbes; probe++)
      for (const [index, session] of sessions.entries()) {
        // Without parameters nothing is prepared.
        const [row] = await session.unsafe<{ pid: number }[]>("select pg_backend_pid() as pid");
        if (row !== undefined) seen[index]!.add(row.pid);
      }
    const [one, other] = seen as [Set<number>, Set<number>];
    return one.size > 1 || other.size > 1 || [...one].some((pid) => other.has(pid));
  } finally {
    await Promise.all(sessions.map((session) => session.end({ timeout: 1 })));
  }
}

/** Notifications, locks and migrations of another database would go unnoticed for long. */
async function requireSameDatabase(sql: Sql, direct: Sql): Promise<void> {
  const [one, other] = await Promise.all([sql, direct].map(identityOf));
  if (one !== other)
    throw new StartupError(
      "database.url and database.listen_url lead to different databases. Both have to reach the same one, " +
        "through the pooler and directly.",
    );
}

async function identityOf(sql: Sql): Promise<string> {
  return await valueOf<string>(sql`
    select concat_ws('/', (select system_identifier from pg_control_system()), current_database()) as identity`);
}

const behindPooler = (address: DatabaseAddress): string =>
  `The database ${nameOf(address)} is behind a pooler like PgBouncer. Set database.prepare = false ` +
  "(SM_DATABASE__PREPARE) and, in database.listen_url (SM_DATABASE__LISTEN_URL), the address of the PostgreSQL itself.";

/** Refused credentials, a missing database and missing rights: waiting does not help. */
const needsAdministrator = /^(?:08P01|28|3D|42)/;

/** SQLSTATE codes: PostgreSQL manual, appendix A. */
function explain(error: unknown, address: DatabaseAddress): string {
  const { code = "", message = String(error) } = error as { code?: string; message?: string };
  const name = nameOf(address);
  const key = ("url" in address && address.key) || "database.url";
  const setting = `${key} (SM_${key.replace(".", "__").toUpperCase()})`;
  switch (code) {
    case "08P01":
      if (/unsupported startup parameter/.test(message)) return behindPooler(address);
      break;
    case "28P01":
    case "28000":
      return `The database ${name} refused the user or the password (${message}). Check ${setting}.`;
    case "3D000":
      return `The database ${name} does not exist. Create it, or correct the name at the end of ${setting}.`;
    case "42501":
      return `The database ${name} does not let this user in (${message}).`;
    case "53300":
      return `The database ${name} has no connection left (${message}). Raise max_connections, or run fewer replicas.`;
    case "57P03":
      return `The database ${name} is starting or stopping (${message}). Try again in a moment.`;
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return `The host of the database ${name} cannot be resolved. Check ${setting}.`;
    case "TARGET_SESSION_ATTRS":
      return (
        `The database ${name} takes no writes: it is a standby, or default_transaction_read_only is on. ` +
        `Set the address of the primary in ${setting}.`
      );
    case "CONNECT_TIMEOUT":
      return (
        `The database ${name} does not answer as PostgreSQL. ` +
        `Check host and port in ${setting}, and any firewall between.`
      );
    case "ECONNREFUSED":
    case "ECONNRESET":
    case "EHOSTUNREACH":
    case "ENETUNREACH":
    case "ENOENT":
    case "ETIMEDOUT":
    case "EACCES":
      return `The database ${name} cannot be reached (${code}). Check that it runs, and host and port in ${setting}.`;
  }
  return `The database ${name} cannot be used: ${message.split("\n", 1)[0]}`;
}
