import { setTimeout as sleep } from "node:timers/promises";
import { newId } from "@statusmesh/shared/ids";
import { connectApi } from "sm-agent/protocol/api";
import { correctedClock } from "sm-agent/clock";
import { Reporter } from "sm-agent/protocol/report";
import { openDiskSpool } from "sm-agent/spool/disk";
import { folderFiles } from "sm-agent/spool/files";
import { Stats } from "sm-agent/telemetry/stats";
import { agentIn, castIn } from "../harness/cast.ts";
import { tempFolder } from "../harness/folder.ts";
import { startControlPlane } from "../harness/processes.ts";
import { runOf, slotIn } from "../harness/results.ts";
import { insertTargets, openEmbedded } from "../harness/targets.ts";
import { type Measured, rounded } from "./measure.ts";
import { nodeArgs, percentile, withTeardown } from "./scope.ts";

const region = "bench";
const targets = 3_000;
const intervalSecs = 10;
const intervalMs = intervalSecs * 1000;
/** Slots of every target without a control plane: seven minutes. */
const missed = 40;
const minTimes = 5;
const tickMs = 100;

/**
 * After an outage: the rate at which the backlog is reported, from the agent's spool on disk into the database of a
 * real control plane, as a multiple of the rate of new results; and the age of new results at their acknowledgement.
 */
export async function run(): Promise<Measured> {
  return await withTeardown(async (t) => {
    const folder = tempFolder(t, "bench");
    const controlPlane = await startControlPlane(t, { folder, env: { SM_LOG__LEVEL: "warn" }, nodeArgs });
    const sql = openEmbedded(t, folder, 1);
    const { olga } = await castIn(sql);
    const agent = await agentIn(sql, region);
    const ids = Array.from({ length: targets }, newId);
    await insertTargets(sql, { ids, orgId: olga.orgId, region, intervalSecs, confirmations: 2 });

    const clock = correctedClock();
    const spool = await openDiskSpool({
      files: folderFiles(tempFolder(t, "spool")),
      clock,
      log: () => undefined,
      maxBytes: 256_000_000,
    });
    spool.serve(region);
    const began = Date.now();
    for (let slot = missed; slot > 0; slot--) {
      for (const id of ids)
        spool.append({ result: runOf(id, slotIn(id, region, intervalMs, began - slot * intervalMs)) });
      await spool.flush();
    }

    const ages: number[] = [];
    const real = connectApi(controlPlane.url, agent.token, "StatusMesh/0");
    const api: typeof real = {
      ...real,
      async post(path, body, options) {
        const reply = await real.post(path, body, options);
        for (const { timestamp } of (body as { results: { timestamp: number }[] }).results)
          if (timestamp >= began) ages.push(Date.now() - timestamp);
        return reply;
      },
    };
    const reporter = new Reporter({ api, spool, clock, log: () => undefined, stats: new Stats() });
    const backlog = missed * targets;
    if (spool.waiting !== backlog) throw new Error(`${spool.waiting} of ${backlog} results are in the spool`);
    const started = performance.now();
    let live = 0;
    let due = 0;
    while (spool.backlog > 0) {
      due += (targets / intervalSecs) * (tickMs / 1000);
      for (; live < due; live++) {
        const id = ids[live % targets]!;
        const slot = slotIn(id, region, intervalMs, began + Math.floor(live / targets) * intervalMs);
        reporter.add({ result: { ...runOf(id, slot), timestamp: Date.now() } });
      }
      await sleep(tickMs);
    }
    const seconds = (performance.now() - started) / 1000;
    await reporter.drain(10_000);
    await spool.close();
    await real.close();
    const [stored] = await sql<{ n: number }[]>`select count(*)::int as n from results`;
    await controlPlane.stop();
    if (stored?.n !== backlog + live) throw new Error(`${stored?.n} of ${backlog + live} results are stored`);

    const [drained, came] = [backlog / seconds, live / seconds];
    const p99 = percentile(ages, 0.99);
    return {
      name: "drain",
      value: rounded(drained / came, 1),
      unit: "x the live rate",
      limit: minTimes,
      better: "higher",
      ratio: rounded(minTimes / (drained / came), 3),
      backlog,
      seconds: rounded(seconds, 1),
      drained_per_second: rounded(drained, 0),
      live_per_second: rounded(came, 0),
      live_age_p50_ms: rounded(percentile(ages, 0.5), 0),
      live_age_p99_ms: rounded(p99, 0),
    };
  });
}
