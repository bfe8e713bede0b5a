import { spawn } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs";
import { join } from "node:path";
import { openPool } from "../platform/db/client/connect.ts";
import type { Embedded } from "../platform/db/embedded/embedded.ts";
import { run, serverEnv } from "../platform/db/embedded/tools.ts";
import { until } from "./clock.ts";

const username = "statusmesh";
/** User id of "nobody": PostgreSQL refuses to run as root. */
const unprivileged = 65_534;

/**
 * Starts the PostgreSQL whose initdb and postgres are in `programs`, of any supported version, with the defaults of its
 * packager and `settings`. It takes every password.
 */
export async function startPrograms(programs: string, folder: string, settings: string): Promise<Embedded> {
  const data = join(folder, "postgres");
  const owner = process.getuid?.() === 0 ? { uid: unprivileged, gid: unprivileged } : {};
  fs.writeFileSync(join(folder, "postgres.password"), "any");
  fs.mkdirSync(data);
  if (owner.uid !== undefined) fs.chownSync(data, owner.uid, owner.gid);
  const options = ["--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"];
  await run(join(programs, "initdb"), ["-D", data, `--username=${username}`, ...options], { ...owner, cwd: data });
  fs.appendFileSync(
    join(data, "postgresql.conf"),
    `listen_addresses = ''\nunix_socket_directories = '${data}'\ntimezone = 'UTC'\n${settings}`,
  );
  const log = fs.openSync(join(folder, "postgres.log"), "a");
  const server = spawn(join(programs, "postgres"), ["-D", data], {
    ...owner,
    cwd: data,
    env: serverEnv,
    stdio: ["ignore", log, log],
  });
  fs.closeSync(log);
  const address = { path: join(data, ".s.PGSQL.5432"), database: username, username, password: "any" };
  const sql = openPool({ ...address, database: "postgres" }, { max: 1 });
  await until(() => sql`select 1`.catch(() => null), "the PostgreSQL of SM_TEST_POSTGRES");
  await sql`create database ${sql(username)}`;
  await sql.end({ timeout: 1 });
  return {
    address,
    async stop() {
      // A fast shutdown: connections are ended.
      server.kill("SIGINT");
      await once(server, "exit");
    },
  };
}
