import * as fs from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { openPool } from "@statusmesh/control-plane/platform/db/client/connect";
import { withTeardown } from "../bench/scope.ts";
import { connect } from "../harness/api.ts";
import { agentIn } from "../harness/cast.ts";
import { type Teardown, tempFolder } from "../harness/folder.ts";
import { type ControlPlane, freePort, startAgent, startControlPlane } from "../harness/processes.ts";
import { startSink } from "../harness/sink.ts";
import { waitFor } from "../harness/wait.ts";
import { databaseAccount, folderFor, startDaemon } from "./daemon.ts";
import { runFailures } from "./failures.ts";
import { startProxy } from "./haproxy.ts";
import { makeMonitors } from "./monitors.ts";
import { startCluster } from "./patroni.ts";
import { missingPackages, programs } from "./programs.ts";
import { startRecorder } from "./recorder.ts";
import { startTraffic } from "./traffic.ts";
import { type Measurement, judge } from "./verdict.ts";

/*
 * A Patroni cluster of three with etcd, HAProxy and Redis, two control planes and two agents, on loopback. The primary
 * is killed every 90 s, a control plane every 2 minutes, Redis once. npm run test:ha [-- minutes]
 */

const infra = fileURLToPath(new URL("../../../infra/ha/", import.meta.url));
const regions = ["r1", "r2"] as const;
const monitorCount = 30;
/** Token of the owner, whose organisation has the status page. */
const token = `sm_live_${"h".repeat(40)}`;
const databasePassword = "statusmesh-of-the-test";
const started = performance.now();

function say(text: string): void {
  process.stdout.write(`${((performance.now() - started) / 1000).toFixed(1).padStart(6)} s  ${text}\n`);
}

async function run(t: Teardown, ms: number): Promise<Measurement[]> {
  const account = databaseAccount();
  const folder = tempFolder(t, "ha");
  say("starting etcd and three Patroni nodes");
  const cluster = await startCluster(t, folder, account, join(infra, "patroni.json"));
  await cluster.asSuperuser([
    `create role statusmesh login password '${databasePassword}'`,
    "create database statusmesh owner statusmesh",
  ]);
  const redisPort = await freePort();
  const redis = startDaemon(t, {
    name: "redis",
    program: programs.redis,
    args: ["--port", String(redisPort), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"],
    folder: folderFor(account, folder, "redis"),
    account,
  });
  const ports = [await freePort(), await freePort()] as const;
  const template = join(infra, "haproxy.cfg");
  const proxy = await startProxy(t, { folder, account, template, nodes: cluster.nodes, controlPlanePorts: ports });

  say("starting two control planes and two agents");
  const sink = await startSink(t);
  const hosts = cluster.nodes.map(({ port }) => `127.0.0.1:${port}`).join(",");
  // One control plane reaches the primary by the proxy, the other by the list of hosts.
  const addresses = [`127.0.0.1:${proxy.database}`, hosts];
  const planes: ControlPlane[] = [];
  const log: string[] = [];
  const startPlane = async (n: number): Promise<void> => {
    const env = {
      SM_DATABASE__URL: `postgres://statusmesh:${databasePassword}@${addresses[n]}/statusmesh`,
      SM_REDIS__URL: `redis://127.0.0.1:${redisPort}`,
      SM_SCHEDULER__BUILTIN_AGENT: "false",
      SM_BOOTSTRAP__TOKEN: token,
      SM_SERVER__TRUSTED_PROXIES: "127.0.0.1",
    };
    planes[n] = await waitFor(
      "the control plane",
      // Exit 75: the database is away. systemd starts it again after RestartSec, too.
      () =>
        startControlPlane(t, { port: ports[n]!, caFile: sink.caFile, env }).catch((error: Error) => {
          if (/ended with 75/.test(error.message)) return null;
          throw error;
        }),
      { ms: 120_000, everyMs: 2_000 },
    );
  };
  const endPlane = async (n: number): Promise<void> => {
    await planes[n]!.stop("SIGKILL");
    log.push(...planes[n]!.log);
  };
  await startPlane(0);
  await startPlane(1);
  const sql = openPool({ url: `postgres://statusmesh:${databasePassword}@${hosts}/statusmesh` }, { max: 2 });
  t.teardown(() => sql.end({ timeout: 0 }));
  const tokens = await Promise.all(regions.map(async (region) => (await agentIn(sql, region)).token));
  const byToken = new Map(tokens.map((it, n) => [`Bearer ${it}`, regions[n]!]));
  const recorder = await startRecorder(t, proxy.url, byToken);
  for (const agentToken of tokens)
    startAgent(t, {
      url: recorder.url,
      token: agentToken,
      folder: tempFolder(t, "agent"),
      env: { SM_SECURITY__ALLOW_PRIVATE_TARGETS: "true", SM_AGENT_SPOOL_DIR: tempFolder(t, "spool") },
    });
  await waitFor("the load balancer", async () => (await fetch(`${proxy.url}/readyz`)).ok);
  const api = connect(t, proxy.url, token);
  const monitors = await makeMonitors(t, { api, sink, count: monitorCount, regions });
  const bothRun = monitorCount * regions.length;
  await waitFor("results of both agents", () => recorder.acknowledged.size >= bothRun, { ms: 60_000 });

  say(`${monitorCount} monitors in two regions; kills for ${(ms / 60_000).toFixed(1)} minutes`);
  const traffic = startTraffic(t, proxy.url, token);
  const keep = process.env["SM_TEST_HA_LOGS"];
  if (keep !== undefined)
    t.teardown(() => {
      const lines = [...log, ...planes.flatMap((plane) => plane.log)];
      keepLogs(keep, folder, lines, JSON.stringify([traffic.exchanges, recorder.exchanges]));
    });
  const victims = {
    cluster,
    traffic,
    redis,
    controlPlanes: ports.map((_, n) => ({ kill: () => endPlane(n), start: () => startPlane(n) })),
  };
  const [failures] = await Promise.all([runFailures(victims, ms), monitors.runOutages(ms)]);
  await waitFor(
    "the last notices",
    () => monitors.ids.every((id) => sink.about(id).some(({ notice }) => notice.reason === "resolved")),
    { ms: 60_000, everyMs: 500 },
  ).catch((error: Error) => say(error.message));
  await sleep(2 * 10_000);
  await traffic.stop();
  for (const { what, promotedMs, backMs } of failures) {
    const promoted = promotedMs === null ? "" : `promotion ${(promotedMs / 1000).toFixed(1)} s, `;
    say(`${what} killed: ${promoted}writes back after ${(backMs / 1000).toFixed(1)} s`);
  }
  const requests = [...traffic.exchanges, ...recorder.exchanges.filter(({ what }) => !what.includes("/pull"))];
  const longest = Math.max(...requests.map(({ ms: took }) => took));
  say(`${recorder.acknowledged.size} results and ${traffic.written.length} writes acknowledged`);
  say(`${sink.received.length} notices, ${requests.length} requests, the longest ${(longest / 1000).toFixed(1)} s`);
  say(`replies: ${tally(requests.map(({ what, status, code }) => `${what.split(/[ ?]/)[1]} ${status} ${code}`))}`);
  for (const plane of planes) log.push(...plane.log);
  return await judge({ sql, monitors, sink, recorder, traffic, failures, log });
}

function tally(items: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const item of items) counts.set(item, (counts.get(item) ?? 0) + 1);
  return [...counts].map(([item, count]) => `${item.trim()} × ${count}`).join(", ");
}

/** Copies the logs of all programs to a folder, for a search after a failure. */
function keepLogs(to: string, folder: string, log: readonly string[], requests: string): void {
  fs.mkdirSync(to, { recursive: true });
  fs.writeFileSync(join(to, "control-planes.log"), log.join("\n"));
  fs.writeFileSync(join(to, "requests.json"), requests);
  for (const file of fs.readdirSync(folder, { recursive: true }).map(String))
    if (file.endsWith(".log") && !file.includes("data"))
      fs.copyFileSync(join(folder, file), join(to, file.replaceAll("/", "-")));
}

const missing = missingPackages();
if (missing.length > 0) {
  process.stderr.write(`This test needs: apt-get install --no-install-recommends ${missing.join(" ")}\n`);
  process.exit(2);
}
const minutes = Number(process.argv[2] ?? 5);
if (!(minutes >= 1)) {
  process.stderr.write("The first argument is the number of minutes, at least 1.\n");
  process.exit(2);
}
const findings = await withTeardown((t) => run(t, minutes * 60_000));
for (const { what, value, most, examples } of findings) {
  say(`${value <= most ? "ok    " : "FAILED"}  ${value} ${what}`);
  if (value > 0) for (const example of examples) say(`          ${example}`);
}
process.exit(findings.every(({ value, most }) => value <= most) ? 0 : 1);
