import fc from "fast-check";
import t from "tap";
import type { AssignedCheck } from "@statusmesh/shared/protocol/agent-protocol";
import { jitterMs, phaseMs, slotAtOrAfter } from "@statusmesh/shared/schedule";
import { Schedule } from "../schedule/schedule.ts";
import { Stats } from "../telemetry/stats.ts";
import { FakeClock, testRunner } from "../testing.ts";

/*
 * Scheduled runs of one host under the cap. Schedule, queue and cap are real; a run takes the time that its name takes
 * to be looked up on a fake clock, and ends there.
 */

const region = "default";
const id = (n: number): string => `00000000-0000-7000-8000-${String(n).padStart(12, "0")}`;

interface Record {
  slot: number;
  /** Start and end. */
  at: number;
  until: number;
}

/**
 * Runs `count` monitors of one host from their creation on. Run number k of all lasts `lasts(k)` ms. The agent is
 * killed and started anew after `killedAfterMs`: it knows nothing of the runs before. Returns what was recorded of
 * each.
 */
async function watch(
  count: number,
  lasts: (k: number) => number,
  {
    forMs,
    intervalMs = 10_000,
    cap = 2,
    seed = 1,
    killedAfterMs = forMs,
  }: { forMs: number; intervalMs?: number; cap?: number; seed?: number; killedAfterMs?: number },
) {
  const clock = new FakeClock(1_800_000_000_000 + seed * 977);
  const stats = new Stats();
  const startedAt = clock.now();
  const judged = Array.from({ length: count }, (): Record[] => []);
  const throttled = Array.from({ length: count }, (): number[] => []);
  let most = 0;
  let runs = 0;
  const tcp = { type: "tcp", host: "app.example.org", port: 443, timeout: 60_000 };
  const start = (dueAt: (n: number) => number): { kill: () => void } => {
    const running = new Set<{ abandon(): void }>();
    const runner = testRunner({
      clock,
      stats,
      lookup: () =>
        new Promise((_, reject) => {
          most = Math.max(most, stats.inFlight);
          clock.after(lasts(runs++), () => reject(new TypeError("the end of the run")));
        }),
    });
    runner.cap.max = cap;
    const schedule = new Schedule(clock, stats, ({ target_id: target, org_id: org, check }, slot) => {
      const at = Number(target.slice(-12));
      const run = runner.runInTurn(org, check, {
        slot,
        longestMs: 0.9 * intervalMs,
        throttled: (missed) => throttled[at]!.push(missed),
      });
      running.add(run);
      void run.done.then((outcome) => {
        running.delete(run);
        if (outcome !== null) judged[at]!.push({ slot: run.slot, at: outcome.timestamp, until: clock.now() });
      });
      return run;
    });
    const checks = judged.map((_, n): AssignedCheck => ({
      target_id: id(n),
      org_id: id(999),
      version: "1",
      interval_ms: intervalMs,
      next_due_at: dueAt(n),
      recheck_ms: intervalMs,
      check: { ...tcp },
    }));
    schedule.apply({ region, jitter_pct: 10, full: true, drop: [], checks });
    const kill = (): void => {
      schedule.stop();
      for (const run of running) run.abandon();
    };
    return { kill };
  };
  const first = start((n) => startedAt + 5 * n);
  await clock.pass(Math.min(forMs, killedAfterMs));
  first.kill();
  if (killedAfterMs < forMs) {
    const second = start((n) => slotAtOrAfter(clock.now(), phaseMs(id(n), region, intervalMs), intervalMs));
    await clock.pass(forMs - killedAfterMs);
    second.kill();
  }
  return { startedAt, judged, throttled, most };
}

t.test("monitors of one host that are made together run one after the other, at every interval", async (t) => {
  const { startedAt, judged, throttled, most } = await watch(14, () => 900, { forMs: 75_000 });
  t.equal(most, 2, "the cap holds");
  t.strictSame(throttled.flat(), [], "and holds no run back that lasts as long as usual");
  for (const records of judged) {
    t.ok(records.length >= 7, `${records.length} runs in 75 s`);
    t.ok(records[0]!.at - startedAt <= 7000, "the first soon");
  }
});

t.test("a run that finds the cap reached for longer than usual is recorded, and runs all the same", async (t) => {
  const lasts = (k: number) => (k < 3 ? 100 : 18_000);
  const { judged, throttled } = await watch(3, lasts, { forMs: 170_000, intervalMs: 60_000, cap: 1 });
  const records = throttled.flat();
  t.ok(records.length > 0);
  for (const [at, list] of judged.entries()) {
    t.ok(list.length >= 2, "each interval has evidence");
    for (const slot of throttled[at]!)
      t.ok(
        list.some((run) => run.slot === slot + 1),
        "under a slot of its own",
      );
  }
});

t.test("on a host that is too slow for its monitors none starves, nor after a restart of the agent", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 3, max: 30 }),
      fc.integer({ min: 1, max: 3 }),
      fc.array(fc.integer({ min: 50, max: 9000 }), { minLength: 1, maxLength: 5 }),
      fc.integer({ min: 1, max: 1000 }),
      fc.integer({ min: 40_000, max: 200_000 }),
      async (count, cap, lasts, seed, killedAfterMs) => {
        const intervalMs = 10_000;
        const intervals = 14;
        const duration = (k: number) => lasts[k % lasts.length]!;
        const forMs = intervals * intervalMs;
        const { startedAt, judged } = await watch(count, duration, { forMs, cap, seed, killedAfterMs });
        const killedAt = startedAt + killedAfterMs;
        // Of each monitor: two of its intervals in which no run is in flight, while another begins runs in both.
        for (let n = 0; n < count; n++) {
          const phase = phaseMs(id(n), region, intervalMs);
          const first = slotAtOrAfter(startedAt, phase, intervalMs);
          const due = (k: number) => first + k * intervalMs + jitterMs(id(n), first + k * intervalMs, intervalMs, 10);
          const begins = (one: number, k: number) => judged[one]!.some(({ at }) => at >= due(k) && at < due(k + 1));
          const runs = (k: number) => judged[n]!.some(({ at, until }) => at < due(k + 1) && until >= due(k));
          // The first run is off the grid, and the first slot after it may come too soon to be run.
          for (let k = 2; k < intervals - 3; k++) {
            if (runs(k) || runs(k + 1)) continue;
            // The queue is lost with the agent, and the order of the next slots begins it again.
            if (killedAt >= due(k) - intervalMs && killedAt < due(k + 2)) continue;
            const rich = judged.findIndex((_, one) => begins(one, k) && begins(one, k + 1));
            if (rich >= 0) throw new Error(`${n} has nothing in intervals ${k} and ${k + 1}, ${rich} has both`);
          }
        }
      },
    ),
    { numRuns: 8, endOnFailure: true },
  );
});
