import { AppError } from "@statusmesh/shared/errors";
import { StartupError } from "../../../config/startup-error.ts";

/**
 * Kinds of temporary failures of the database:
 * - away: no connection, or a lost one
 * - readonly: a standby, or a server that takes no writes
 * - full: no disk space
 * - busy: a timeout, or no connection or memory left
 * - conflict: a concurrent transaction
 */
export type Failure = "away" | "readonly" | "full" | "busy" | "conflict";

/** Why the database cannot be used, and since when (Unix ms). */
export interface DatabaseProblem {
  readonly failure: Failure;
  readonly since: number;
  readonly reason: string;
}

/** By SQLSTATE (PostgreSQL manual, appendix A) or its class, the longer one first. All others are defects. */
const bySqlState: readonly (readonly [string, Failure])[] = [
  ["25006", "readonly"], // read_only_sql_transaction
  ["25P03", "busy"], // idle_in_transaction_session_timeout
  ["25P04", "busy"], // transaction_timeout
  ["40001", "conflict"], // serialization_failure
  ["40P01", "conflict"], // deadlock_detected
  ["40003", "away"], // statement_completion_unknown
  ["53100", "full"], // disk_full
  ["55P03", "busy"], // lock_not_available
  ["57014", "busy"], // query_canceled, by statement_timeout
  ["58030", "full"], // io_error: a read-only or broken file system
  ["08", "away"], // connection exceptions
  ["28", "away"], // the password was changed, or pg_hba.conf
  ["3D000", "away"], // the database was dropped, or renamed for a restore
  ["53", "busy"], // insufficient resources: memory, connections
  ["57P", "away"], // shutdown, crash, starting up, database dropped, idle session
];

/** What libpq says of a lost connection. */
const libpqLost = new RegExp(
  "server closed the connection|SSL SYSCALL error|SSL connection has been closed|could not (?:send|receive) data|" +
    "connection not open|no connection to the server|invalid socket",
);

/**
 * True when Citus has lost a worker in the middle of a statement, by the function of Citus that says so (12.1): it has
 * no SQLSTATE for it (XX000), or that of a disk (58030). ReportResultError repeats errors of workers and of libpq.
 */
function isLostWorker({ code, routine, message }: { code?: unknown; routine?: unknown; message?: unknown }): boolean {
  if (code === "58030") return routine === "EndRemoteCopy";
  if (code !== "XX000") return false;
  return routine === "MarkRemoteTransactionFailed" || (routine === "ReportResultError" && libpqLost.test(`${message}`));
}

const byClientCode: Readonly<Record<string, Failure>> = {
  COMMIT_PENDING: "away",
  CONNECT_TIMEOUT: "away",
  CONNECTION_CLOSED: "away",
  CONNECTION_DESTROYED: "away",
  CONNECTION_ENDED: "away",
  CONNECTION_SILENT: "away",
  DATABASE_AWAY: "away",
  TARGET_SESSION_ATTRS: "readonly",
};

/** Codes of sockets and of the resolver. Files have some of them too, so that the system call counts as well. */
const socketCodes = new Set(
  (
    "ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ETIMEDOUT EHOSTUNREACH EHOSTDOWN ENETUNREACH ENETDOWN ENOTFOUND " +
    "EAI_AGAIN ENOENT EACCES EADDRNOTAVAIL EMFILE ENOBUFS"
  ).split(" "),
);
const socketCalls = new Set(["connect", "read", "write", "getaddrinfo", "queryA", "queryAaaa"]);

/** Returns the kind of an error of the database client; null for any other error, and for a defect. */
export function failureOf(error: unknown): Failure | null {
  if (typeof error !== "object" || error === null) return null;
  const { code, syscall, severity } = error as { code?: unknown; syscall?: unknown; severity?: unknown };
  if (typeof code !== "string") return null;
  // Errors of PostgreSQL have a severity; no other errors with a code of five characters have one.
  if (severity !== undefined && isLostWorker(error)) return "away";
  if (severity !== undefined) return bySqlState.find(([state]) => code.startsWith(state))?.[1] ?? null;
  if (socketCodes.has(code)) return typeof syscall === "string" && socketCalls.has(syscall) ? "away" : null;
  return byClientCode[code] ?? null;
}

const answers: Readonly<Record<Failure, { readonly message: string; readonly retryAfterSecs: number }>> = {
  away: { message: "The database does not answer. Try again in a moment.", retryAfterSecs: 2 },
  readonly: { message: "The database takes no writes at the moment. Try again in a moment.", retryAfterSecs: 2 },
  full: { message: "The disk of the database is full or failing: its operator must free space.", retryAfterSecs: 30 },
  busy: { message: "The database is too busy to answer in time. Try again in a moment.", retryAfterSecs: 2 },
  conflict: { message: "A concurrent request changed the same data. Try again.", retryAfterSecs: 1 },
};

/** Returns DEPENDENCY_DOWN with Retry-After for a failure of the database. */
export function failureAnswer(failure: Failure, cause?: unknown): AppError {
  const { message, retryAfterSecs } = answers[failure];
  return new AppError("DEPENDENCY_DOWN", message, { cause, retryAfterSecs });
}

/** Returns a temporary StartupError for a failure of the database, and any other error unchanged. */
export function asStartupError(error: unknown): unknown {
  const failure = error instanceof StartupError ? null : failureOf(error);
  if (failure === null) return error;
  const detail = error instanceof Error ? ` (${error.message.split("\n", 1)[0]})` : "";
  return new StartupError(`${answers[failure].message}${detail}`, { cause: error, temporary: true });
}
