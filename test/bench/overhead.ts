import { castIn } from "../harness/cast.ts";
import { tempFolder } from "../harness/folder.ts";
import { startControlPlane } from "../harness/processes.ts";
import { openEmbedded } from "../harness/targets.ts";
import { cpuSeconds, endChild, type Measured, rounded, startChild } from "./measure.ts";
import { requestsPerSecond } from "./overhead/client.ts";
import { nodeArgs, percentile, withTeardown } from "./scope.ts";

const path = "/api/v1/dashboard/summary";
/** Measured 1.8 to 2, on a machine that other work kept busy. */
const maxTimes = 3;
const connections = 64;
const turnMs = 1500;
/** Turns of each: one to warm up, then the measured ones. */
const warmUpTurns = 2;
const turns = 8;

/**
 * What the control plane adds to a request: a small GET that is answered from memory, with a token, its scope and its
 * rate budgets looked at, against a bare Koa handler that answers the same bytes; CPU time per request, in turns.
 * Requests per second are printed only: they depend on other load.
 */
export async function run(): Promise<Measured> {
  return await withTeardown(async (t) => {
    const folder = tempFolder(t, "bench");
    const controlPlane = await startControlPlane(t, { folder, env: { SM_LOG__LEVEL: "warn" }, nodeArgs });
    const sql = openEmbedded(t, folder, 1);
    const { olga } = await castIn(sql);
    // Budgets are charged; this one is never exhausted.
    await sql`
      update plans set api_reads_per_min = 1000000000 where id = (select plan_id from orgs where id = ${olga.orgId})`;
    const headers = { authorization: `Bearer ${olga.token}` };
    const body = await (await fetch(controlPlane.url + path, { headers })).text();
    const bare = await startChild(new URL("./overhead/bare.js", import.meta.url), [body]);
    t.teardown(() => endChild(bare.child));

    const ask = (port: number) => requestsPerSecond({ port, path, headers, connections, ms: turnMs });
    const ports = { own: Number(new URL(controlPlane.url).port), bare: Number(bare.firstLine) };
    /** Requests per second, and the CPU microseconds of each. */
    const measure = async (port: number, pid: number) => {
      const before = cpuSeconds(pid);
      const rate = await ask(port);
      return { rate, cpuUs: ((cpuSeconds(pid) - before) / ((rate * turnMs) / 1000)) * 1e6 };
    };
    const bareTurns: { rate: number; cpuUs: number }[] = [];
    const ownTurns: typeof bareTurns = [];
    for (let turn = -warmUpTurns; turn < turns; turn++) {
      const one = await measure(ports.bare, bare.pid);
      const own = await measure(ports.own, controlPlane.pid);
      if (turn < 0) continue;
      bareTurns.push(one);
      ownTurns.push(own);
    }
    await controlPlane.stop();

    const middle = (some: typeof bareTurns, of: "rate" | "cpuUs"): number =>
      percentile(
        some.map((turn) => turn[of]),
        0.5,
      );
    // Other load only adds: the minimum of all turns is the best estimate.
    const least = (some: typeof bareTurns): number => Math.min(...some.map((turn) => turn.cpuUs));
    const times = least(ownTurns) / least(bareTurns);
    return {
      name: "overhead",
      value: rounded(times),
      unit: "x the CPU of bare Koa, per request",
      limit: maxTimes,
      ratio: rounded(times / maxTimes, 3),
      path,
      connections,
      cpu_us_per_request: rounded(least(ownTurns), 1),
      bare_cpu_us_per_request: rounded(least(bareTurns), 1),
      cpu_us_per_request_p50: rounded(middle(ownTurns, "cpuUs"), 1),
      requests_per_second: rounded(middle(ownTurns, "rate"), 0),
      bare_requests_per_second: rounded(middle(bareTurns, "rate"), 0),
    };
  });
}
