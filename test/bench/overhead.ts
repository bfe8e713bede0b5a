import { castIn } from "../harness/cast.ts";
import { tempFolder } from "../harness/folder.ts";
import { startControlPlane } from "../harness/processes.ts";
import { openEmbedded } from "../harness/targets.ts";
import { cpuSeconds, endChild, type Measured, rounded, startChild } from "./measure.ts";
import { requestsPerSecond } from "./overhead/client.ts";
import { nodeArgs, percentile, withTeardown } from "./scope.ts";

const path = "/api/v1/dashboard/summary";
const minShare = 0.5;
const connections = 64;
const turnMs = 1500;
/** Turns of each: the first so that the code is compiled, then those that count. */
const warmUpTurns = 2;
const turns = 8;

/**
 * What the control plane adds to a request: a small GET that is answered from memory, with a token, its scope and its
 * rate budgets looked at, against a bare Koa handler that answers the same bytes; requests per second, in turns.
 */
export async function run(): Promise<Measured> {
  return await withTeardown(async (t) => {
    const folder = tempFolder(t, "bench");
    const controlPlane = await startControlPlane(t, { folder, env: { SM_LOG__LEVEL: "warn" }, nodeArgs });
    const sql = openEmbedded(t, folder, 1);
    const { olga } = await castIn(sql);
    // Budgets are charged and looked at; nobody comes to the end of this one.
    await sql`update plans set api_reads_per_min = 1000000000 where id = (select plan_id from orgs where id = ${olga.orgId})`;
    const headers = { authorization: `Bearer ${olga.token}` };
    const body = await (await fetch(controlPlane.url + path, { headers })).text();
    const bare = await startChild(new URL("./overhead/bare.js", import.meta.url), [body]);
    t.teardown(() => endChild(bare.child));

    const ask = (port: number) => requestsPerSecond({ port, path, headers, connections, ms: turnMs });
    const ports = { own: Number(new URL(controlPlane.url).port), bare: Number(bare.firstLine) };
    const shares: number[] = [];
    const rates = { own: 0, bare: 0 };
    let cpu = 0;
    for (let turn = -warmUpTurns; turn < turns; turn++) {
      const bareRate = await ask(ports.bare);
      const before = cpuSeconds(controlPlane.pid);
      const ownRate = await ask(ports.own);
      if (turn < 0) continue;
      cpu += cpuSeconds(controlPlane.pid) - before;
      rates.bare += bareRate / turns;
      rates.own += ownRate / turns;
      shares.push(ownRate / bareRate);
    }
    await controlPlane.stop();

    const share = percentile(shares, 0.5);
    return {
      name: "overhead",
      value: rounded(share),
      unit: "x the requests/s of bare Koa",
      limit: minShare,
      better: "higher",
      ratio: rounded(minShare / share, 3),
      path,
      connections,
      requests_per_second: rounded(rates.own, 0),
      bare_requests_per_second: rounded(rates.bare, 0),
      cpu_us_per_request: rounded((cpu / ((rates.own * turns * turnMs) / 1000)) * 1e6, 0),
    };
  });
}
