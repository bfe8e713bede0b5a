import { loadavg } from "node:os";
import { waitFor } from "../harness/wait.ts";
import { openAlerting } from "./alerting/scene.ts";
import { type Measured, rounded } from "./measure.ts";
import { withTeardown } from "./scope.ts";

const incidents = 1_000;
const limitSecs = 15;

/**
 * 1,000 incidents that open in one batch with three channels each, digests off: until all 3,000 requests have arrived.
 */
export async function run(): Promise<Measured> {
  return await withTeardown(async (t) => {
    const { sinks, almostDown, confirm } = await openAlerting(t);
    await confirm(await almostDown(10));
    await waitFor("the warm-up", () => sinks.every(({ received }) => received.length === 10));
    const ids = new Set(await almostDown(incidents));
    const began = await confirm([...ids]);
    const count = () => sinks.reduce((sum, { received }) => sum + received.length, 0);
    await waitFor("every request", () => count() >= 3 * (incidents + 10), { ms: 120_000 });
    const all = sinks.flatMap(({ received }) => received).filter(({ notice }) => ids.has(notice.target_id));
    const seconds = (Math.max(...all.map(({ at }) => at)) - began) / 1000;
    const distinct = new Set(all.map(({ notice }) => notice.delivery_id)).size;
    if (distinct !== 3 * incidents || all.length !== distinct)
      throw new Error(`${all.length} requests, ${distinct} ids`);
    return {
      name: "deliver",
      value: rounded(seconds, 2),
      unit: "s until 3,000 requests have arrived, none twice",
      limit: limitSecs,
      ratio: rounded(seconds / limitSecs, 3),
      load_average: rounded(loadavg()[0]!, 1),
    };
  });
}
