import { loadavg } from "node:os";
import { waitFor } from "../harness/wait.ts";
import { openAlerting } from "./alerting/scene.ts";
import { type Measured, rounded, sleep } from "./measure.ts";
import { percentile, withTeardown } from "./scope.ts";

const rounds = 100;
const pauseMs = 100;
const limitMs = 100;

/**
 * From the confirming result, when its batch is sent, to the request at the receiver: one incident after the other with
 * three channels each, first with every receiver well, then with one of the three that never answers.
 */
export async function run(): Promise<Measured> {
  return await withTeardown(async (t) => {
    const { sinks, almostDown, confirm } = await openAlerting(t);
    const measure = async (well: typeof sinks): Promise<number[]> => {
      const took: number[] = [];
      for (const id of await almostDown(rounds)) {
        const began = await confirm([id]);
        await waitFor("the requests", () => well.every((sink) => sink.about(id).length > 0), { everyMs: 5 });
        for (const sink of well) took.push(sink.about(id)[0]!.at - began);
        await sleep(pauseMs);
      }
      return took;
    };
    await measure(sinks);
    const usual = await measure(sinks);
    sinks[0]!.answer(() => new Promise(() => {}));
    const hanging = await measure(sinks.slice(1));
    const [p99, p99Hanging] = [percentile(usual, 0.99), percentile(hanging, 0.99)];
    const worst = Math.max(p99, p99Hanging);
    return {
      name: "alerts",
      value: rounded(worst, 1),
      unit: "ms p99 from the confirming result to the request",
      limit: limitMs,
      ratio: rounded(worst / limitMs, 3),
      p50_ms: rounded(percentile(usual, 0.5), 1),
      p99_ms: rounded(p99, 1),
      p50_hanging_ms: rounded(percentile(hanging, 0.5), 1),
      p99_hanging_ms: rounded(p99Hanging, 1),
      load_average: rounded(loadavg()[0]!, 1),
    };
  });
}
