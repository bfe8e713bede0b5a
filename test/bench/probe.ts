import { cpuSeconds, endChild, type Measured, rounded, rssMb, sleep, startChild } from "./measure.ts";
import { stubControlPlane } from "./probe/control-plane.ts";

const checks = 10_000;
const intervalMs = 10_000;
const perSecond = checks / (intervalMs / 1000);
/** One whole interval, so that each check has run once and the code is compiled, and a little to come to rest. */
const warmUpMs = 14_000;
const windowMs = 15_000;
const statsSecs = 5;

const maxCpuRatio = 3;
const maxLagMs = 100;
const maxRssMb = 150;

/**
 * What an http check costs the agent, against the least that Node can do: CPU time of the real agent at 1,000 checks a
 * second over that of a raw client which sends as many requests over fresh connections at the same time to the same server.
 */
export async function run(): Promise<Measured> {
  const target = await startChild(new URL("./probe/target.js", import.meta.url), []);
  const controlPlane = await stubControlPlane(checks, intervalMs, Number(target.firstLine));
  const raw = await startChild(new URL("./probe/raw.js", import.meta.url), [target.firstLine, String(perSecond)]);
  const agent = await startChild(
    new URL("../../../packages/agent/dist/cli.js", import.meta.url),
    ["run", "--url", controlPlane.url, "--allow-private-targets", "--stats-secs", String(statsSecs)],
    {
      SM_AGENT_TOKEN: "sm_agent_benchmark",
    },
  );
  const children = [agent, raw, target];
  try {
    await sleep(warmUpMs);
    const before = {
      agent: cpuSeconds(agent.pid),
      raw: cpuSeconds(raw.pid),
      results: controlPlane.received.results,
      batches: controlPlane.received.batches,
      lines: agent.lines.length,
    };
    const began = performance.now();
    await sleep(windowMs);
    const seconds = (performance.now() - began) / 1000;
    const agentCpu = cpuSeconds(agent.pid) - before.agent;
    const rawCpu = cpuSeconds(raw.pid) - before.raw;
    const results = controlPlane.received.results - before.results;
    const numbers = agent.lines
      .slice(before.lines)
      .map(parseNumbers)
      .filter((line) => line !== null);
    const value = agentCpu / results / (rawCpu / (perSecond * seconds));
    const lagP99 = median(numbers.map((line) => line.lag_p99_ms));
    await endChild(raw.child);
    const rss = rssMb(agent.pid);
    return {
      name: "probe",
      value: rounded(value),
      unit: "x CPU of a raw request",
      limit: maxCpuRatio,
      ratio: rounded(Math.max(value / maxCpuRatio, lagP99 / maxLagMs, rss / maxRssMb), 3),
      agent_us_per_check: rounded((agentCpu / results) * 1e6, 0),
      raw_us_per_request: rounded((rawCpu / (perSecond * seconds)) * 1e6, 0),
      checks_per_second: rounded(results / seconds, 1),
      batches_per_second: rounded((controlPlane.received.batches - before.batches) / seconds, 1),
      lag_p50_ms: median(numbers.map((line) => line.lag_p50_ms)),
      lag_p99_ms: lagP99,
      // How late a process with next to nothing to do is woken here and now: the machine's part in the agent's lag.
      raw_lag_p99_ms: (JSON.parse(raw.lines.at(-1) ?? "{}") as { lag_p99_ms?: number }).lag_p99_ms ?? null,
      lag_limit_ms: maxLagMs,
      rss_mb: rounded(rss, 0),
      rss_limit_mb: maxRssMb,
      statuses: controlPlane.received.byStatus,
    };
  } finally {
    for (const { child } of children) await endChild(child);
    controlPlane.close();
  }
}

/** Of the windows that the agent reported; one of them may have been disturbed by whatever else the machine does. */
function median(values: number[]): number {
  return values.sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

interface Numbers {
  msg: "numbers";
  lag_p50_ms: number;
  lag_p99_ms: number;
}

function parseNumbers(line: string): Numbers | null {
  const parsed = JSON.parse(line) as { msg: string };
  return parsed.msg === "numbers" ? (parsed as Numbers) : null;
}
