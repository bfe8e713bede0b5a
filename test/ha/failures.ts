import { setTimeout as sleep } from "node:timers/promises";
import { waitFor } from "../harness/wait.ts";
import type { Cluster } from "./patroni.ts";
import type { Traffic } from "./traffic.ts";

/** One kill, times in ms. */
export interface Failure {
  readonly what: string;
  /** Time of the kill, `performance.now()`. */
  readonly at: number;
  /** Until Patroni had a new primary; null for a kill of something else. */
  readonly promotedMs: number | null;
  /** Until a write succeeded through the load balancer. */
  readonly backMs: number;
}

export interface Victims {
  cluster: Cluster;
  traffic: Traffic;
  /** Kill a control plane, and start it again. */
  controlPlanes: readonly { kill(): Promise<void>; start(): Promise<void> }[];
  redis: { kill(): Promise<void>; start(): void };
}

/** True for the kill of a control plane. */
export const isOfControlPlane = ({ what }: Failure): boolean => what.startsWith("control plane");

const primaryEveryMs = 90_000;
const controlPlaneEveryMs = 120_000;
/** A killed machine is away for this long. */
const restartMs = 10_000;

/** Kills the primary every 90 s, a control plane every 2 minutes and Redis once, within `ms`. */
export async function runFailures(victims: Victims, ms: number): Promise<Failure[]> {
  const failures: Failure[] = [];
  const plan: { at: number; run: () => Promise<void> }[] = [];
  for (let at = 30_000; at < ms; at += primaryEveryMs) plan.push({ at, run: () => killPrimary(victims, failures) });
  for (let at = 75_000, n = 0; at < ms; at += controlPlaneEveryMs, n++)
    plan.push({ at, run: () => killControlPlane(victims, n % victims.controlPlanes.length, failures) });
  plan.push({ at: Math.min(100_000, ms - 10_000), run: () => killRedis(victims, failures) });
  await Promise.all(
    plan.map(async ({ at, run }) => {
      await sleep(at);
      await run();
    }),
  );
  return failures.toSorted((a, b) => a.at - b.at);
}

const writes = async (traffic: Traffic, at: number): Promise<number> =>
  (await waitFor("a write to succeed", () => traffic.backAfter(at), { ms: 120_000, everyMs: 20 })) - at;

async function killPrimary({ cluster, traffic }: Victims, failures: Failure[]): Promise<void> {
  const old = await waitFor("a primary", () => cluster.primary());
  const at = performance.now();
  await old.kill();
  const others = cluster.nodes.filter((node) => node !== old);
  const promotion = waitFor(
    "a promotion",
    async () => (await Promise.all(others.map((node) => node.isPrimary()))).includes(true),
    { ms: 120_000, everyMs: 50 },
  ).then(() => performance.now() - at);
  const [promotedMs, backMs] = await Promise.all([promotion, writes(traffic, at)]);
  failures.push({ what: `primary ${old.name}`, at, promotedMs, backMs });
  // Earlier it would still have the leader's key, and be the primary again.
  await sleep(restartMs);
  old.start();
}

async function killControlPlane({ controlPlanes, traffic }: Victims, n: number, failures: Failure[]): Promise<void> {
  const at = performance.now();
  await controlPlanes[n]!.kill();
  const [backMs] = await Promise.all([writes(traffic, at), sleep(restartMs).then(() => controlPlanes[n]!.start())]);
  failures.push({ what: `control plane ${n + 1}`, at, promotedMs: null, backMs });
}

async function killRedis({ redis, traffic }: Victims, failures: Failure[]): Promise<void> {
  const at = performance.now();
  await redis.kill();
  const [backMs] = await Promise.all([writes(traffic, at), sleep(restartMs).then(() => redis.start())]);
  failures.push({ what: "Redis", at, promotedMs: null, backMs });
}
