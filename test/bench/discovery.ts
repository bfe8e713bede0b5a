import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer, type ServerResponse } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { connect } from "../harness/api.ts";
import { castIn } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { tempFolder } from "../harness/folder.ts";
import { freePort, startControlPlane } from "../harness/processes.ts";
import { cpuSeconds, type Measured, rounded } from "./measure.ts";
import { nodeArgs, withTeardown } from "./scope.ts";

const containers = 5_000;
/**
 * CPU seconds of agent and control plane together, as the machine may be busy; the memory of the agent, MB; the longest
 * time that the event loop of the control plane is held, ms.
 */
const limits = { unchanged: 3, agentMb: 75, holdMs: 50 };

/** The list of a host with many containers, each with the labels of compose. */
const listOf = (changed: number): Buffer =>
  Buffer.from(
    JSON.stringify(
      Array.from({ length: containers }, (_, n) => ({
        Id: `${n}`.padStart(64, "0"),
        Names: [`/service-${n}`],
        Image: "ghcr.io/example/service:1.2.3",
        ImageID: `sha256:${"0".repeat(64)}`,
        Command: "/usr/bin/server --listen 8080",
        Created: 1_795_000_000 + n,
        Ports: [{ IP: "0.0.0.0", PrivatePort: 8080, PublicPort: 10_000 + n, Type: "tcp" }],
        Labels: {
          "com.docker.compose.config-hash": "f".repeat(64),
          "com.docker.compose.container-number": "1",
          "com.docker.compose.project": "shop",
          "com.docker.compose.project.config_files": "/srv/shop/compose.yaml",
          "com.docker.compose.service": `service-${n}`,
          "org.opencontainers.image.description": "A service of the shop, with a description of some length.",
          "org.opencontainers.image.source": "https://github.com/example/service",
          [`statusmesh.service-${n}.url`]: `https://service-${n}.example.org/health`,
          [`statusmesh.service-${n}.interval`]: n < changed ? "120" : "60",
        },
        State: "running",
        Status: "Up 3 days (healthy)",
        HostConfig: { NetworkMode: "shop_default" },
        NetworkSettings: { Networks: { shop_default: { NetworkID: "a".repeat(64), IPAddress: "172.18.0.2" } } },
        Mounts: [{ Type: "volume", Name: "data", Destination: "/data", Driver: "local", RW: true }],
      })),
    ),
  );

/** Discovery of 5,000 containers: all new, ten changed, and nothing changed. */
export async function run(): Promise<Measured> {
  return await withTeardown(async (t) => {
    const folder = tempFolder(t, "discovery");
    const database = await cloneDatabase(t);
    const loopPort = await freePort();
    const { url, pid } = await startControlPlane(t, {
      env: {
        ...database.env,
        SM_TEST_LOOP_PORT: String(loopPort),
        SM_LOG__LEVEL: "error",
        SM_SCHEDULER__BUILTIN_AGENT: "false",
      },
      nodeArgs: [`--import=${new URL("../harness/event-loop.js", import.meta.url).href}`, ...nodeArgs],
    });
    const { olga } = await castIn(database.sql);
    const loop = connect(t, `http://127.0.0.1:${loopPort}`, null);
    const events = new Set<ServerResponse>();
    let list = listOf(0);
    const server = createServer((request, response) => {
      if (request.url!.startsWith("/containers/json")) response.end(list);
      else if (request.url!.startsWith("/events")) {
        events.add(response.writeHead(200));
        response.flushHeaders();
      } else response.writeHead(503).end();
    });
    const socket = join(folder, "docker.sock");
    await new Promise<void>((settle) => server.listen(socket, settle));
    t.teardown(() => {
      server.closeAllConnections();
      server.close();
    });
    const token = join(folder, "token");
    writeFileSync(token, olga.token);
    const program = createRequire(import.meta.url).resolve("sm-agent/cli");
    const args = ["--docker", socket, "--name", "bench", "--url", url, "--token-file", token, "--json"];
    const agent = spawn(process.execPath, [...agentArgs, program, "discover", ...args], {
      stdio: ["ignore", "pipe", "inherit"],
      env: { PATH: process.env["PATH"] ?? "" },
    });
    t.teardown(() => agent.kill("SIGKILL"));
    const cycles = createInterface({ input: agent.stdout })[Symbol.asyncIterator]();
    const figures: Record<string, number> = {};
    const statusOf = (name: string): number =>
      Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(readFileSync(`/proc/${agent.pid!}/status`, "utf8"))![1]) /
      1024;
    let before = [0, cpuSeconds(pid)];
    const cycle = async (name: string): Promise<void> => {
      const { value } = await cycles.next();
      const { summary } = JSON.parse(value as string) as { summary: object };
      if (process.env["SM_TEST_VERBOSE"]) console.error(name, summary);
      const now = [cpuSeconds(agent.pid!), cpuSeconds(pid)];
      figures[`${name}Agent`] = rounded(now[0]! - before[0]!, 2);
      figures[`${name}ControlPlane`] = rounded(now[1]! - before[1]!, 2);
      before = now;
      figures[`${name}HoldMs`] = rounded((await loop.get("/")).body.holdMs, 0);
      figures[`${name}Mb`] = rounded(statusOf("VmHWM"), 1);
    };
    const changed = async (name: string, count: number): Promise<void> => {
      list = listOf(count);
      for (const one of events) one.write('{"Type":"container","Action":"create"}\n');
      await cycle(name);
    };
    await loop.get("/");
    await cycle("new");
    await changed("unchanged", 0);
    await changed("ten", 10);
    await changed("again", 10);
    const ratio = Math.max(
      (figures["unchangedAgent"]! + figures["unchangedControlPlane"]!) / limits.unchanged,
      figures["againMb"]! / limits.agentMb,
      ...["unchanged", "ten", "again"].map((name) => figures[`${name}HoldMs`]! / limits.holdMs),
    );
    return { name: "discovery", value: rounded(ratio, 2), unit: "of the limits", limit: 1, ratio, ...figures };
  });
}

/** Options for the Node of the agent: SM_TEST_AGENT_ARGS="--cpu-prof --cpu-prof-dir=/tmp/profile". */
const agentArgs = (process.env["SM_TEST_AGENT_ARGS"] ?? "").split(" ").filter((arg) => arg !== "");
