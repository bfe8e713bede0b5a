import { connect } from "../harness/api.ts";
import { castIn } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { freePort, startControlPlane } from "../harness/processes.ts";
import { cpuSeconds, type Measured, rounded } from "./measure.ts";
import { nodeArgs, withTeardown } from "./scope.ts";

const monitors = 5_000;
/** CPU seconds of the control plane, as the machine may be busy; the longest time that the event loop is held, ms. */
const limits = { plan: 3, apply: 10, change: 10, unchanged: 1.5, holdMs: 200 };

const documentOf = (interval: number) => ({
  version: 1,
  channels: { ops: { name: "Ops", config: { type: "webhook", url: "https://hooks.example.org/" } } },
  defaults: { interval, tags: ["bench"], alerts: ["ops"] },
  monitors: Object.fromEntries(
    Array.from({ length: monitors }, (_, n) => [
      `m/${n}`,
      {
        name: `Monitor ${n}`,
        check: { type: "http", url: `https://m${n}.example.org/health`, bearer_token: `token-${n}` },
      },
    ]),
  ),
});

/** 5,000 declared monitors: planned, created, all changed, and planned again with nothing to do. */
export async function run(): Promise<Measured> {
  return await withTeardown(async (t) => {
    const database = await cloneDatabase(t);
    const loopPort = await freePort();
    const { url, pid } = await startControlPlane(t, {
      env: {
        ...database.env,
        SM_TEST_LOOP_PORT: String(loopPort),
        SM_LOG__LEVEL: "error",
        SM_SCHEDULER__BUILTIN_AGENT: "false",
      },
      nodeArgs: [`--import=${new URL("../harness/event-loop.js", import.meta.url).href}`, ...nodeArgs],
    });
    const { olga } = await castIn(database.sql);
    const api = connect(t, url, olga.token);
    const loop = connect(t, `http://127.0.0.1:${loopPort}`, null);
    const figures: Record<string, number> = {};
    const timed = async (name: string, path: string, json: object) => {
      await loop.get("/");
      const [began, spent] = [performance.now(), cpuSeconds(pid)];
      const { status, body, text } = await api.post(`/api/v1/config/${path}`, json);
      figures[name] = rounded(cpuSeconds(pid) - spent, 2);
      figures[`${name}Elapsed`] = rounded((performance.now() - began) / 1000, 2);
      if (status !== 200) throw new Error(`${name}: ${text.slice(0, 500)}`);
      figures[`${name}HoldMs`] = rounded((await loop.get("/")).body.holdMs, 0);
      return body;
    };
    const planned = async (name: string, interval: number) => {
      const document = documentOf(interval);
      const { plan_token } = await timed(name, "plan", { project: "bench", document });
      return { project: "bench", document, plan_token };
    };
    await timed("apply", "apply", await planned("plan", 60));
    await timed("unchanged", "apply", await planned("unchangedPlan", 60));
    await timed("change", "apply", await planned("changePlan", 120));
    const shares = Object.entries(limits).flatMap(([name, limit]) =>
      name === "holdMs"
        ? Object.entries(figures).flatMap(([figure, ms]) => (figure.endsWith("HoldMs") ? [ms / limit] : []))
        : [figures[name]! / limit],
    );
    const ratio = Math.max(...shares);
    return { name: "declared", value: rounded(ratio, 2), unit: "of the limit", limit: 1, ratio, ...figures };
  });
}
