import { startMeasuredAgent } from "./agent/agent.ts";
import { stubControlPlane } from "./agent/control-plane.ts";
import { specOf } from "./agent/kinds.ts";
import { startTarget } from "./agent/peers.ts";
import { type Measured, rounded, rssMb, sleep } from "./measure.ts";
import { percentile, withTeardown } from "./scope.ts";

const perSecond = 300;
const intervalMs = 10_000;
const warmUpMs = 60_000;
const defaultMinutes = 4;
const sampleMs = 500;
/**
 * Growth from the first to the last of these equal parts, each long enough for several garbage collections.
 */
const parts = 6;
const maxGrowth = 0.05;

/**
 * How much the memory of an agent grows at 300 http checks a second, with its spool on disk: median resident memory of
 * the last sixth of the time over that of the first sixth, after a minute to warm up. Four minutes by default, which
 * shows what grows fast; SM_BENCH_MINUTES=30 is the promise.
 */
export async function run(): Promise<Measured> {
  const minutes = Number(process.env["SM_BENCH_MINUTES"] ?? defaultMinutes);
  if (!(minutes > 0)) throw new Error("SM_BENCH_MINUTES is not a number of minutes");
  return await withTeardown(async (t) => {
    const port = await startTarget(t, "http");
    const controlPlane = await stubControlPlane(t);
    const agent = await startMeasuredAgent(t, { url: controlPlane.url });
    controlPlane.assign(
      Array.from({ length: (perSecond * intervalMs) / 1000 }, (_, n) => specOf("http", n, port)),
      intervalMs,
    );
    await sleep(warmUpMs);
    controlPlane.take();
    const samples: number[] = [];
    const began = performance.now();
    let checks = 0;
    for (let at = began; at - began < minutes * 60_000; at = performance.now()) {
      samples.push(rssMb(agent.pid));
      const { results, byStatus, errors } = controlPlane.take();
      if ((byStatus["up"] ?? 0) !== results)
        throw new Error(`not every check went well: ${JSON.stringify(byStatus)} ${errors.join("; ")}`);
      checks += results;
      await sleep(sampleMs);
    }
    const seconds = (performance.now() - began) / 1000;
    const length = Math.floor(samples.length / parts);
    const medians = Array.from({ length: parts }, (_, part) =>
      percentile(samples.slice(part * length, (part + 1) * length), 0.5),
    );
    const growth = medians.at(-1)! / medians[0]! - 1;
    return {
      name: "endurance",
      value: rounded(growth, 4),
      unit: `growth of memory in ${minutes} min`,
      limit: maxGrowth,
      ratio: rounded(Math.max(0, growth / maxGrowth), 3),
      minutes,
      checks_per_second: rounded(checks / seconds, 1),
      rss_mb_by_part: medians.map((mb) => rounded(mb, 1)),
      rss_mb_peak: rounded(Math.max(...samples), 1),
    };
  });
}
