import { newId } from "@statusmesh/shared/ids";
import { agentIn, castIn } from "../harness/cast.ts";
import { connect } from "../harness/api.ts";
import { tempFolder } from "../harness/folder.ts";
import { startControlPlane } from "../harness/processes.ts";
import { batchOf, runOf, slotIn } from "../harness/results.ts";
import { startSink } from "../harness/sink.ts";
import { insertTargets, openEmbedded } from "../harness/targets.ts";
import { waitFor } from "../harness/wait.ts";
import { type Measured, rounded } from "./measure.ts";
import { nodeArgs, percentile, withTeardown } from "./scope.ts";

const incidents = 100;
/** Incidents one at a time, then as many at once, as in the outage of a data centre. */
const pauseMs = 30;
/** Measured 1.7 to 1.9, on a machine that other work kept busy. */
const maxTimes = 4;

/**
 * From the confirming result being sent to the control plane until the signed webhook request is complete at its
 * receiver, over https, through real processes, for incidents that come one by one: the median, as a multiple of what a
 * result takes to be acknowledged that opens none, in turns with it. A burst of as many is printed beside it.
 */
export async function run(): Promise<Measured> {
  return await withTeardown(async (t) => {
    const folder = tempFolder(t, "bench");
    const sink = await startSink(t);
    const controlPlane = await startControlPlane(t, {
      folder,
      caFile: sink.caFile,
      env: { SM_LOG__LEVEL: "warn" },
      nodeArgs,
    });
    const sql = openEmbedded(t, folder, 1);
    const { olga } = await castIn(sql);
    const agent = await agentIn(sql, "bench");
    const channel = await connect(t, controlPlane.url, olga.token).post("/api/v1/notification-channels", {
      name: "Duty",
      config: { type: "webhook", url: sink.url, secret: sink.secret },
    });
    if (channel.status !== 201) throw new Error(channel.text);
    const ids = Array.from({ length: 3 * incidents }, newId);
    await insertTargets(sql, {
      ids,
      orgId: olga.orgId,
      region: "bench",
      intervalSecs: 10,
      confirmations: 2,
      channelId: channel.body.id,
    });

    const probe = connect(t, controlPlane.url, agent.token);
    const report = async (some: readonly string[], slot: number): Promise<void> => {
      const { status, text } = await probe.post(
        "/api/agent/results",
        batchOf(some.map((id) => runOf(id, slotIn(id, "bench", 10_000, slot), "down"))),
      );
      if (status !== 200) throw new Error(text);
    };
    const now = Date.now();
    // The last third fails for the first time below, and opens no incident.
    const quiet = ids.slice(2 * incidents);
    await report(ids.slice(0, 2 * incidents), now - 10_000);
    const sentAt = new Map<string, number>();
    const bare: number[] = [];
    for (const [n, id] of ids.slice(0, incidents).entries()) {
      const began = performance.now();
      await report([quiet[n]!], now);
      bare.push(performance.now() - began);
      sentAt.set(id, performance.now());
      await report([id], now);
      await new Promise((settle) => setTimeout(settle, pauseMs));
    }
    await waitFor("all notices", () => sink.received.length === incidents);
    const burst = ids.slice(incidents, 2 * incidents);
    for (const id of burst) sentAt.set(id, performance.now());
    await report(burst, now);
    await waitFor("all notices of the burst", () => sink.received.length === 2 * incidents);
    if (!sink.received.every(({ signed }) => signed)) throw new Error("a notice is not signed");
    await controlPlane.stop();

    const delays = sink.received.map(({ at, notice }) => at - sentAt.get(notice.target_id)!);
    const single = delays.slice(0, incidents);
    const [p50, bareP50] = [percentile(single, 0.5), percentile(bare, 0.5)];
    return {
      name: "detection",
      value: rounded(p50 / bareP50),
      unit: "x a result without incident, from result to webhook",
      limit: maxTimes,
      better: "lower",
      ratio: rounded(p50 / bareP50 / maxTimes, 3),
      incidents,
      p50_ms: rounded(p50, 1),
      p99_ms: rounded(percentile(single, 0.99), 0),
      result_p50_ms: rounded(bareP50, 1),
      burst_p50_ms: rounded(percentile(delays.slice(incidents), 0.5), 0),
      burst_p99_ms: rounded(percentile(delays.slice(incidents), 0.99), 0),
    };
  });
}
