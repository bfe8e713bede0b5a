import { Agent, type IncomingMessage, request } from "node:http";
import { newId } from "@statusmesh/shared/ids";
import type { Sql } from "postgres";
import { castIn, colleagueOf } from "../harness/cast.ts";
import { tempFolder } from "../harness/folder.ts";
import { startControlPlane } from "../harness/processes.ts";
import { insertTargets, openEmbedded } from "../harness/targets.ts";
import { waitFor } from "../harness/wait.ts";
import { specOf } from "./agent/kinds.ts";
import { cpuSeconds, type Measured, rounded, rssMb } from "./measure.ts";
import { nodeArgs, percentile, withTeardown } from "./scope.ts";

const targets = 1_000;
/** Blocks of requests, REST and MCP in turn; the first pair compiles the code and plans the statements. */
const blocks = 9;
const perBlock = 200;
const streams = 500;
const waiting = 200;
/** A user may have 32 of both, and a session 4 streams. */
const users = 25;
const sessionsOfUser = 5;
/** A tool call as a multiple of the route with the same rows, in time and in CPU of the process. */
const maxTimes = 1.5;
const maxMb = 80;

type Headers = Record<string, string>;

/**
 * Cost of the MCP server: `tools/call list_monitors` as a multiple of `GET /api/v1/targets` with the same 20 of 1,000
 * rows, and the memory of 500 open streams and 200 waiting confirmations. `ratio` is the measurement that comes
 * nearest to its limit.
 */
export async function run(): Promise<Measured> {
  return await withTeardown(async (t) => {
    const folder = tempFolder(t, "bench");
    const env = {
      SM_LOG__LEVEL: "warn",
      SM_SCHEDULER__BUILTIN_AGENT: "false",
      SM_MCP__ENABLED: "true",
      SM_SERVER__MAX_CONNECTIONS_PER_ADDRESS: "0",
      // Streams and waiting calls may have a part of them.
      SM_SERVER__MAX_CONNECTIONS: "8000",
    };
    const controlPlane = await startControlPlane(t, { folder, env, nodeArgs });
    const sql = openEmbedded(t, folder, 2);
    const { olga } = await castIn(sql);
    await sql`
      update plans set api_reads_per_min = null, api_writes_per_min = null
      where id = (select plan_id from orgs where id = ${olga.orgId})`;
    const ids = Array.from({ length: targets }, newId);
    const spec = (n: number) => specOf("http", n, 80);
    await insertTargets(sql, { ids, orgId: olga.orgId, region: "default", intervalSecs: 60, confirmations: 2, spec });
    await sql`analyze`;

    const keepAlive = new Agent({ keepAlive: true, maxSockets: 1 });
    t.teardown(() => keepAlive.destroy());
    const { url } = controlPlane;
    const authorization = `Bearer ${olga.token}`;
    const session = await sessionAt(url, authorization);
    const rest = async () =>
      void (await ask(keepAlive, "GET", `${url}/api/v1/targets?limit=20`, { authorization }).then(read));
    const tool = async () =>
      void (await ask(keepAlive, "POST", `${url}/mcp`, session, callOf("list_monitors", { limit: 20 })).then(read));

    const took = { rest: [] as number[], tool: [] as number[] };
    const cpu = { rest: 0, tool: 0 };
    for (let block = 0; block < blocks; block++) {
      for (const [name, work] of [
        ["rest", rest],
        ["tool", tool],
      ] as const) {
        const cpuBefore = cpuSeconds(controlPlane.pid);
        for (let n = 0; n < perBlock; n++) {
          const began = performance.now();
          await work();
          if (block > 0) took[name].push(performance.now() - began);
        }
        if (block > 0) cpu[name] += cpuSeconds(controlPlane.pid) - cpuBefore;
      }
    }
    const p50 = { rest: percentile(took.rest, 0.5), tool: percentile(took.tool, 0.5) };
    const times = { time: p50.tool / p50.rest, cpu: cpu.tool / cpu.rest };

    const sessions = await Promise.all(
      Array.from({ length: users }, async () => {
        const { token } = await colleagueOf(sql, olga);
        return await Promise.all(Array.from({ length: sessionsOfUser }, () => sessionAt(url, `Bearer ${token}`)));
      }),
    );
    const before = rssMb(controlPlane.pid);
    const many = new Agent({ keepAlive: true, maxSockets: Infinity });
    t.teardown(() => many.destroy());
    let ended = 0;
    const keep = (stream: IncomingMessage): void => {
      if (stream.statusCode !== 200) throw new Error(`a stream was answered ${stream.statusCode}`);
      stream.on("error", () => {}).on("end", () => ended++);
      stream.resume();
    };
    for (let n = 0; n < streams; n++) {
      const session = sessions[n % users]![Math.floor(n / users) % sessionsOfUser]!;
      keep(await ask(many, "GET", `${url}/mcp`, { ...session, accept: "text/event-stream" }));
    }
    for (let n = 0; n < waiting; n++) {
      const [session] = sessions[n % users]!;
      keep(await ask(many, "POST", `${url}/mcp`, session!, callOf("pause_monitor", { monitor_id: ids[n]! }, n)));
    }
    await waitFor("the questions", async () => (await countWaiting(sql)) === waiting, { ms: 60_000 });
    const under: number[] = [];
    for (let n = 0; n < 2 * perBlock; n++) {
      const began = performance.now();
      await rest();
      under.push(performance.now() - began);
    }
    const mb = rssMb(controlPlane.pid) - before;
    const held = await countHeld(sql);
    const open = streams + waiting - ended;
    many.destroy();
    await controlPlane.stop();
    if (ended > 0) throw new Error(`${open} streams and calls are open, and not ${streams + waiting}`);
    if (held > 1) throw new Error(`${held} connections of the database are busy while nothing is asked`);

    const share = Math.max(times.time / maxTimes, times.cpu / maxTimes, mb / maxMb);
    return {
      name: "mcp",
      value: rounded(Math.max(times.time, times.cpu)),
      unit: "x GET /api/v1/targets, time or CPU of tools/call list_monitors",
      limit: maxTimes,
      ratio: rounded(share, 3),
      times: rounded(times.time),
      cpu_times: rounded(times.cpu),
      rest_p50_ms: rounded(p50.rest),
      tool_p50_ms: rounded(p50.tool),
      rest_cpu_ms: rounded((1000 * cpu.rest) / took.rest.length, 3),
      tool_cpu_ms: rounded((1000 * cpu.tool) / took.tool.length, 3),
      streams,
      waiting,
      more_mb: rounded(mb, 1),
      more_mb_limit: maxMb,
      // Printed, not held: the blocks are not in turn with those before.
      rest_p95_ms: rounded(percentile(took.rest, 0.95)),
      rest_p95_ms_with_streams: rounded(percentile(under, 0.95)),
    };
  });
}

/** Headers of an initialised session. */
export async function sessionAt(url: string, authorization: string): Promise<Headers> {
  const headers = { authorization, accept: "application/json, text/event-stream", "content-type": "application/json" };
  const opened = await ask(undefined, "POST", `${url}/mcp`, headers, {
    jsonrpc: "2.0",
    id: 0,
    method: "initialize",
    params: {
      protocolVersion: "2025-11-25",
      capabilities: { elicitation: {} },
      clientInfo: { name: "bench", version: "1" },
    },
  });
  await read(opened);
  return {
    ...headers,
    "mcp-session-id": String(opened.headers["mcp-session-id"]),
    "mcp-protocol-version": "2025-11-25",
  };
}

/** The request that calls a tool. */
export const callOf = (name: string, args: object, id = 1) => ({
  jsonrpc: "2.0",
  id,
  method: "tools/call",
  params: { name, arguments: args },
});

function ask(
  agent: Agent | undefined,
  method: string,
  url: string,
  headers: Headers,
  body?: unknown,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { method, headers, ...(agent === undefined ? {} : { agent }) }, resolve);
    outgoing.on("error", reject);
    outgoing.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

async function read(response: IncomingMessage): Promise<void> {
  let text = "";
  for await (const chunk of response.setEncoding("utf8")) text += String(chunk);
  if (response.statusCode !== 200 || text.includes('"isError":true'))
    throw new Error(`answered ${response.statusCode}: ${text.slice(0, 300)}`);
}

async function countWaiting(sql: Sql): Promise<number> {
  const [row] = await sql<[{ count: number }]>`select count(*)::int as count from mcp_elicitations`;
  return row.count;
}

/** Connections of others that run a statement or hold a transaction. */
async function countHeld(sql: Sql): Promise<number> {
  const [row] = await sql<[{ count: number }]>`
    select count(*)::int as count from pg_stat_activity
    where datname = current_database() and backend_type = 'client backend' and state <> 'idle'
      and pid <> pg_backend_pid()`;
  return row.count;
}
