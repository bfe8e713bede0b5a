import { endpointNames } from "@statusmesh/control-plane/alerting/channels/kinds/index";
import { type Config, loadConfig } from "@statusmesh/control-plane/config/config";
import { StartupError } from "@statusmesh/control-plane/config/startup-error";
import { type Log, silentLog } from "@statusmesh/control-plane/platform/process/log";
import { serve } from "@statusmesh/control-plane/serve";
import { cheapHash } from "@statusmesh/control-plane/testing/world";
import type { TestDatabase } from "./database.ts";
import { type Teardown, tempFolder } from "./folder.ts";

/**
 * A control plane inside the test's own process, without an agent, that holds every reply against its declaration: a
 * difference is answered 500. Returns its URL.
 */
export async function serveHere(
  t: Teardown,
  database: TestDatabase,
  env: Record<string, string> = {},
  log: Log = silentLog,
): Promise<string> {
  const { SM_DATABASE__URL, ...forTheClient } = database.env;
  // The database client looks for these in the process's own environment.
  Object.assign(process.env, forTheClient);
  const config = loadConfig({
    env: { SM_SERVER__BIND: "127.0.0.1:0", SM_SCHEDULER__BUILTIN_AGENT: "false", SM_DATABASE__URL, ...env },
    cwd: tempFolder(t, "here"),
    endpointNames,
  });
  const running = await serve(config, { now: () => Date.now() }, log, { checkReplies: true, hashCost: cheapHash });
  t.teardown(() => running.stop());
  return running.url;
}

/**
 * A command of the program in the test's own process, with its exit code and what it prints: starting the program takes
 * most of a second of CPU time.
 */
export async function commandHere(
  cwd: string,
  env: Record<string, string>,
  command: (config: Config, say: (line: string) => void) => Promise<number>,
): Promise<{ code: number; out: string; complaints: string }> {
  const lines: string[] = [];
  const ended = (code: number, complaints = "") => ({ code, out: lines.join("\n"), complaints });
  const { PGHOST, PGUSER, PGPASSWORD, ...settings } = env;
  if (PGHOST !== undefined) Object.assign(process.env, { PGHOST, PGUSER, PGPASSWORD });
  try {
    return ended(await command(loadConfig({ env: settings, cwd, endpointNames }), (line) => lines.push(line)));
  } catch (error) {
    if (!(error instanceof StartupError)) throw error;
    return ended(error.exitCode, error.message);
  }
}
