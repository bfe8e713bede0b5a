import { endpointNames } from "@statusmesh/control-plane/alerting/channels/kinds/index";
import { loadConfig } from "@statusmesh/control-plane/config/config";
import { pack, packSizes } from "@statusmesh/control-plane/monitoring/results/packing/pack";
import { makeSystem, openConfiguredDatabase } from "@statusmesh/control-plane/operator/open-system";
import { runAlone } from "@statusmesh/control-plane/platform/jobs/runner";
import { silentLog } from "@statusmesh/control-plane/platform/process/log";

/*
 * The job `pack` as a process to be killed: one target in each transaction. Argument: the time, Unix ms. It prints
 * "packed", or "elsewhere" when another process has the job.
 */
const now = Number(process.argv[2]);
const config = loadConfig({ env: process.env, cwd: process.cwd(), endpointNames });
const database = await openConfiguredDatabase(config, silentLog);
const system = makeSystem(config, database.sql, { now: () => now }, silentLog);
const ran = await runAlone(system, {
  name: "pack",
  everyMs: 1,
  run: (_, signal) => pack(system, signal, { ...packSizes, runsAtOnce: 1, hoursAtOnce: 1 }),
});
process.stdout.write(ran ? "packed\n" : "elsewhere\n");
await database.stop();
process.exit(0);
