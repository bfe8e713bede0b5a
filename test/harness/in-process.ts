import { endpointNames } from "@statusmesh/control-plane/alerting/channels/kinds/index";
import { loadConfig } from "@statusmesh/control-plane/config/config";
import { type Log, silentLog } from "@statusmesh/control-plane/platform/log";
import { serve } from "@statusmesh/control-plane/serve";
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
  const running = await serve(config, { now: () => Date.now() }, log, { checkReplies: true });
  t.teardown(() => running.stop());
  return running.url;
}
