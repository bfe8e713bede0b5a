import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type Teardown } from "../harness/folder.ts";
import { waitFor } from "../harness/wait.ts";
import { type MeasuredAgent, startMeasuredAgent } from "./agent/agent.ts";
import { type StubControlPlane, stubControlPlane } from "./agent/control-plane.ts";
import { specOf } from "./agent/kinds.ts";
import { startRaw, startTarget } from "./agent/peers.ts";
import { type Measured, rounded, sleep } from "./measure.ts";
import { percentile, withTeardown } from "./scope.ts";

const together = 2_000;
const answerMs = 1_000;
const bursts = 3;

const intervalMs = 10_000;
const slowPerSecond = 50;
const fastPerSecond = 1_000;
/** In turns: the speed of a machine drifts within a minute by more than the measured difference. */
const turns = 3;
const settleMs = 4_000;
const turnMs = 8_000;

const maxLatencyRatio = 1.5;

/**
 * Whether load of the agent falsifies its measurements: the reported latency at 1,000 http checks a second as a
 * multiple of that at 50, the scheduling lag, and 2,000 concurrent checks of a server that takes a second, none of
 * which may fail.
 */
export async function run(): Promise<Measured> {
  return await withTeardown(async (t) => {
    const controlPlane = await stubControlPlane(t);
    const agent = await startMeasuredAgent(t, { url: controlPlane.url });
    const waiting = await manyAtOnce(t, controlPlane);
    const paced = await atTwoRates(t, controlPlane, agent);
    const latency = percentile(paced.fast, 0.5) / percentile(paced.slow, 0.5);
    return {
      name: "load",
      value: rounded(latency),
      unit: "x the p50 at 50/s, at 1,000/s",
      limit: maxLatencyRatio,
      ratio: rounded(Math.max(latency / maxLatencyRatio, waiting.failed === 0 ? 0 : 2), 3),
      p50_ms_at_50: rounded(percentile(paced.slow, 0.5), 3),
      p50_ms_at_1000: rounded(percentile(paced.fast, 0.5), 3),
      p99_ms_at_50: rounded(percentile(paced.slow, 0.99), 2),
      p99_ms_at_1000: rounded(percentile(paced.fast, 0.99), 2),
      lag_p50_ms: paced.lag_p50_ms,
      lag_p99_ms: paced.lag_p99_ms,
      // The lag of an idle process on this machine: the part of the lag that is not the agent's.
      raw_lag_p99_ms: paced.raw_lag_p99_ms,
      checks_per_second: rounded(paced.fast.length / ((turns * turnMs) / 1000), 0),
      missed: paced.missed,
      waited_at_once: waiting.most,
      waited: waiting.results,
      waited_in_vain: waiting.failed,
      waited_p50_ms: rounded(percentile(waiting.totalMs, 0.5), 0),
      waited_p99_ms: rounded(percentile(waiting.totalMs, 0.99), 0),
    };
  });
}

/**
 * Concurrent checks of a server that answers each a second after its request, and none before all requests arrived.
 */
async function manyAtOnce(
  t: Teardown,
  controlPlane: StubControlPlane,
): Promise<{ most: number; results: number; failed: number; totalMs: number[] }> {
  let open = 0;
  let most = 0;
  let release: () => void = () => undefined;
  let complete = Promise.resolve();
  const server = createServer((_request, response) => {
    most = Math.max(most, ++open);
    if (open === together) release();
    const all = complete;
    void sleep(answerMs)
      .then(() => all)
      .then(() => response.end("ok"));
    response.on("close", () => open--);
  });
  await new Promise<void>((settle) => server.listen({ port: 0, host: "0.0.0.0", backlog: 4096 }, settle));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const totals = { results: 0, failed: 0, totalMs: [] as number[] };
  for (let burst = 0; burst < bursts; burst++) {
    complete = new Promise((settle) => (release = settle));
    controlPlane.take();
    controlPlane.assign(
      Array.from({ length: together }, (_, n) => specOf("http", n, port)),
      600_000,
      "together",
    );
    let seen = 0;
    await waitFor(
      "every check to be reported",
      () => {
        const { results, byStatus, totalMs } = controlPlane.take();
        seen += results;
        totals.failed += results - (byStatus["up"] ?? 0);
        totals.totalMs.push(...totalMs);
        return seen >= together;
      },
      { ms: 60_000 },
    );
    totals.results += seen;
  }
  return { most, ...totals };
}

interface Paced {
  slow: number[];
  fast: number[];
  lag_p50_ms: number;
  lag_p99_ms: number;
  raw_lag_p99_ms: number;
  missed: number;
}

/** The same checks by the same agent, few and many, in turns. */
async function atTwoRates(t: Teardown, controlPlane: StubControlPlane, agent: MeasuredAgent): Promise<Paced> {
  const port = await startTarget(t, "http");
  // The yardstick is nearly idle: it must not disturb the measured process.
  const raw = await startRaw(t, "tcp", await startTarget(t, "tcp"), 20);
  const specs = Array.from({ length: (fastPerSecond * intervalMs) / 1000 }, (_, n) => specOf("http", n, port));
  const few = specs.slice(0, (slowPerSecond * intervalMs) / 1000);
  const lags: ReturnType<MeasuredAgent["numbers"]>[] = [];
  const rawLags: number[] = [];
  const latencies: Record<"slow" | "fast", number[]> = { slow: [], fast: [] };
  const measure = async (rate: "slow" | "fast"): Promise<void> => {
    controlPlane.assign(rate === "fast" ? specs : few, intervalMs);
    await sleep(settleMs);
    agent.forget();
    await raw.ask();
    controlPlane.take();
    await sleep(turnMs);
    const { results, byStatus, errors, totalMs } = controlPlane.take();
    if (byStatus["up"] !== results || results === 0)
      throw new Error(`not every check went well: ${JSON.stringify(byStatus)} ${errors.join("; ")}`);
    latencies[rate].push(...totalMs);
    if (rate === "slow") return;
    lags.push(agent.numbers());
    rawLags.push((await raw.ask()).lag_p99_ms);
  };
  for (let turn = 0; turn < turns; turn++) {
    await measure("slow");
    await measure("fast");
  }
  const middle = (values: number[]): number => percentile(values, 0.5);
  return {
    ...latencies,
    lag_p50_ms: middle(lags.map((lag) => lag.lag_p50_ms)),
    lag_p99_ms: middle(lags.map((lag) => lag.lag_p99_ms)),
    raw_lag_p99_ms: middle(rawLags),
    missed: lags.reduce((sum, { missed, skipped, throttled }) => sum + missed + skipped + throttled, 0),
  };
}
