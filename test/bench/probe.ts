import { startMeasuredAgent } from "./agent/agent.ts";
import { stubControlPlane } from "./agent/control-plane.ts";
import { type Measurable, specOf } from "./agent/kinds.ts";
import { certificateFile, startRaw, startTarget, trusting } from "./agent/peers.ts";
import { cpuSeconds, cpuSecondsOfAll, type Measured, rounded, rssMb, sleep } from "./measure.ts";
import { withTeardown } from "./scope.ts";

const intervalMs = 5_000;
/** Warm-up: one interval, so that each check has run once, and some seconds more. */
const warmUpMs = 9_000;
const windowMs = 12_000;

/** Rate of each kind, and its limit as a multiple of the CPU time of the raw client. */
const kinds: Record<Measurable, { perSecond: number; most: number }> = {
  http: { perSecond: 1000, most: 2.5 },
  // At most 1.3 times a plain http check.
  http_expectations: { perSecond: 1000, most: 3.25 },
  https: { perSecond: 250, most: 1.5 },
  tcp: { perSecond: 1000, most: 2 },
  dns: { perSecond: 1000, most: 2 },
  grpc: { perSecond: 200, most: 2.5 },
  websocket: { perSecond: 400, most: 2.5 },
  // A process each, on both sides.
  ping: { perSecond: 20, most: 1.5 },
};

/**
 * Cost of a check in the whole agent (schedule, guard, probe, spool on disk, report): CPU time as a multiple of that of
 * a raw client with the same requests to the same server at the same time. `value` is the kind nearest to its limit.
 * SM_BENCH_KINDS=dns,tcp measures some only.
 */
export async function run(): Promise<Measured> {
  const wanted = (process.env["SM_BENCH_KINDS"] ?? Object.keys(kinds).join(",")).split(",") as Measurable[];
  const rows = new Map<Measurable, Cost>();
  for (const kind of wanted) rows.set(kind, await costOf(kind));
  const worst = Math.max(...[...rows].map(([kind, { times_raw }]) => times_raw / kinds[kind].most));
  const rss = Math.max(...[...rows.values()].map((row) => row.rss_mb));
  return {
    name: "probe",
    value: rounded(worst),
    unit: "x the limit of the dearest kind",
    limit: 1,
    ratio: rounded(worst, 3),
    rss_mb: rss,
    kinds: Object.fromEntries(rows),
  };
}

interface Cost {
  times_raw: number;
  at_most: number;
  agent_us_per_check: number;
  raw_us_per_request: number;
  checks_per_second: number;
  raw_per_second: number;
  batches_per_second: number;
  rss_mb: number;
  statuses: Record<string, number>;
}

async function costOf(kind: Measurable): Promise<Cost> {
  const { perSecond, most } = kinds[kind];
  return await withTeardown(async (t) => {
    const pemFile = kind === "https" ? await certificateFile(t) : "";
    const env = kind === "https" ? trusting(pemFile) : {};
    const port = await startTarget(t, kind, pemFile);
    const controlPlane = await stubControlPlane(t);
    const checks = (perSecond * intervalMs) / 1000;
    controlPlane.assign(
      Array.from({ length: checks }, (_, n) => specOf(kind, n, port)),
      intervalMs,
    );
    const raw = await startRaw(t, kind, port, perSecond, env);
    const agent = await startMeasuredAgent(t, { url: controlPlane.url, env });
    await sleep(warmUpMs);
    const cpu = (pid: number): number => (kind === "ping" ? cpuSecondsOfAll([pid]) : cpuSeconds(pid));
    const before = { agent: cpu(agent.pid), raw: cpu(raw.pid), done: (await raw.ask()).done };
    controlPlane.take();
    const began = performance.now();
    await sleep(windowMs);
    const { results, batches, byStatus, errors } = controlPlane.take();
    const { done } = await raw.ask();
    const agentCpu = cpu(agent.pid) - before.agent;
    const rawCpu = cpu(raw.pid) - before.raw;
    const seconds = (performance.now() - began) / 1000;
    if (byStatus["up"] !== results || results === 0)
      throw new Error(`not every ${kind} check went well: ${JSON.stringify(byStatus)} ${errors.join("; ")}`);
    const requests = done - before.done;
    return {
      times_raw: rounded(agentCpu / results / (rawCpu / requests)),
      at_most: most,
      agent_us_per_check: rounded((agentCpu / results) * 1e6, 0),
      raw_us_per_request: rounded((rawCpu / requests) * 1e6, 0),
      checks_per_second: rounded(results / seconds, 0),
      raw_per_second: rounded(requests / seconds, 0),
      batches_per_second: rounded(batches / seconds, 1),
      rss_mb: rounded(rssMb(agent.pid), 0),
      statuses: byStatus,
    };
  });
}
