import { spawn } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import postgres, { type Sql } from "postgres";
import { until } from "./clock.ts";
import { addressFile, failureFile, removeAddress, startingFile, usersLock } from "./postgres-place.ts";

/** A running PostgreSQL that this process keeps alive. */
export interface Server {
  path: string;
  username: string;
  password: string;
  /** One connection to the server's own database; it holds the lock that keeps the server alive. */
  session: Sql;
}

/** The process holds this connection, and the lock with it, for as long as it uses the server. */
const sessionOptions = {
  max: 1,
  idle_timeout: 0,
  max_lifetime: null,
  fetch_types: false,
  connect_timeout: 30,
  onnotice: () => undefined,
} as const;

/**
 * Joins the PostgreSQL of a test run in `folder`, starting it if there is none. It lives until `session` ends. Throws
 * the reason when the start fails.
 */
export async function joinServer(folder: string, idleMs = 4000): Promise<Server> {
  return await until(async () => {
    const server = await connect(folder);
    if (server !== null) return server;
    const reason = recentFailure(folder);
    if (reason !== null) throw new Error(`The PostgreSQL of the test run does not start: ${reason}`);
    startServer(folder, idleMs);
    return null;
  }, "the PostgreSQL of the test run");
}

/** A failure that is older belongs to an earlier run: its cause may have been mended. */
const failureMs = 10_000;

/** Returns why the last start failed; null when it did not, or long ago. @public for infra/scripts/tap.mjs */
export function recentFailure(folder: string): string | null {
  try {
    const file = failureFile(folder);
    return Date.now() - fs.statSync(file).mtimeMs < failureMs ? fs.readFileSync(file, "utf8") : null;
  } catch {
    return null;
  }
}

/** Connects to the running server and takes its shared lock; null when there is none or it is about to end. */
async function connect(folder: string): Promise<Server | null> {
  let text: string;
  let address: Omit<Server, "session"> & { database: string };
  try {
    text = fs.readFileSync(addressFile(folder), "utf8");
    address = JSON.parse(text) as typeof address;
  } catch {
    return null;
  }
  const session = postgres({ ...sessionOptions, ...address });
  try {
    const [row] = await session<{ shared: boolean }[]>`select pg_try_advisory_lock_shared(${usersLock}) as shared`;
    // The server takes the lock alone and removes its address before it ends.
    if (row?.shared === true && fs.readFileSync(addressFile(folder), "utf8") === text) {
      const { path, username, password } = address;
      return { path, username, password, session };
    }
  } catch (error) {
    // The server of an earlier run was killed and left its address. Other errors are those of a busy or ending server.
    if (["ENOENT", "ECONNREFUSED"].includes((error as { code?: string }).code ?? "")) removeAddress(folder, text);
  }
  await session.end({ timeout: 0 });
  return null;
}

/** A start that takes longer is tried again by another process. */
const startingMs = 20_000;

/** Starts the server in its own process, unless another test process is starting it. */
function startServer(folder: string, idleMs: number): void {
  const mark = startingFile(folder);
  fs.mkdirSync(folder, { recursive: true });
  const since = fs.statSync(mark, { throwIfNoEntry: false })?.mtimeMs;
  if (since !== undefined && Date.now() - since < startingMs) return;
  fs.rmSync(mark, { force: true });
  try {
    fs.writeFileSync(mark, String(process.pid), { flag: "wx" });
  } catch {
    return;
  }
  const program = fileURLToPath(new URL("postgres-server.js", import.meta.url));
  fs.rmSync(failureFile(folder), { force: true });
  const log = join(folder, "server.log");
  const output = fs.openSync(log, "w");
  const child = spawn(process.execPath, [program, folder, String(idleMs)], {
    detached: true,
    stdio: ["ignore", "ignore", output],
  });
  fs.closeSync(output);
  child.unref();
  child.once("exit", (code) => {
    if (code === null || code === 0) return;
    fs.writeFileSync(failureFile(folder), fs.readFileSync(log, "utf8").trim().slice(0, 2000));
    fs.rmSync(mark, { force: true });
  });
}
