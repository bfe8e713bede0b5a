import fc from "fast-check";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { AssignedCheck } from "@statusmesh/shared/protocol/agent-protocol";
import {
  isOnGrid,
  isOnRecheckGrid,
  jitterMs,
  nextRecheck,
  nextSlot,
  phaseMs,
  recheckMs,
  scheduleViolation,
  slotAtOrAfter,
} from "@statusmesh/shared/schedule";
import { correctedClock } from "../clock.ts";
import { Heap } from "./heap.ts";
import { Schedule } from "./schedule.ts";
import { Stats } from "../telemetry/stats.ts";
import { FakeClock } from "../testing.ts";

const region = "default";
const intervalMs = 60_000;
const id = (n: number): string => `00000000-0000-7000-8000-${String(n).padStart(12, "0")}`;

function setup() {
  const clock = new FakeClock();
  const stats = new Stats();
  const starts: { id: string; version: string; slot: number; at: number; isRecheck: boolean }[] = [];
  const ends: (() => void)[] = [];
  const abandoned: string[] = [];
  const slow = new Set<string>();
  /** Checks whose rechecks cannot start. */
  const blocked = new Set<string>();
  const schedule = new Schedule(clock, stats, (check, slot, isRecheck) => {
    if (isRecheck && blocked.has(check.target_id)) return null;
    starts.push({ id: check.target_id, version: check.version, slot, at: clock.now(), isRecheck });
    const done = slow.has(check.target_id) ? new Promise<void>((settle) => ends.push(settle)) : Promise.resolve();
    return { done, abandon: () => void abandoned.push(check.version) };
  });
  const assigned = (n: number, change: Partial<AssignedCheck> = {}): AssignedCheck => ({
    target_id: id(n),
    org_id: id(999),
    version: "1",
    interval_ms: intervalMs,
    next_due_at: slotAtOrAfter(clock.now(), phaseMs(id(n), region, intervalMs), intervalMs),
    recheck_ms: 10_000,
    check: { type: "tcp" },
    ...change,
  });
  const apply = (checks: AssignedCheck[], rest: { full?: boolean; drop?: string[]; jitter_pct?: number } = {}): void =>
    schedule.apply({ region, jitter_pct: 0, full: false, drop: [], ...rest, checks });
  return { clock, stats, starts, ends, abandoned, slow, blocked, schedule, assigned, apply };
}

t.test("a check runs at its slots, to the millisecond", async (t) => {
  const { clock, starts, assigned, apply } = setup();
  const check = assigned(1);
  apply([check]);
  await clock.pass(3 * intervalMs);
  const slots = [0, 1, 2].map((k) => check.next_due_at + k * intervalMs);
  t.strictSame(
    starts.map(({ slot }) => slot),
    slots,
  );
  for (const { slot, at } of starts) t.ok(at - slot <= 1, "starts on time");
});

t.test("jitter moves the start and leaves the slot", async (t) => {
  const { clock, starts, assigned, apply } = setup();
  const check = assigned(2);
  apply([check], { jitter_pct: 10 });
  await clock.pass(5 * intervalMs);
  t.ok(starts.length >= 4);
  for (const { slot, at } of starts) t.equal(at, slot + jitterMs(check.target_id, slot, intervalMs, 10));
  t.ok(new Set(starts.map(({ slot, at }) => at - slot)).size > 1, "by another amount each time");
});

t.test("a first run off the grid starts at once, the next one on the grid and not too soon", async (t) => {
  for (let n = 10; n < 40; n++) {
    const { clock, starts, assigned, apply } = setup();
    const now = clock.now();
    apply([assigned(n, { next_due_at: now })], { jitter_pct: 0 });
    await clock.pass(2 * intervalMs);
    const [first, second] = starts;
    matchObject(t, first, { slot: now });
    t.ok((first?.at ?? Infinity) - now <= 1, "without jitter");
    t.equal(((second?.slot ?? 0) - phaseMs(id(n), region, intervalMs)) % intervalMs, 0, "on the grid");
    const gap = (second?.slot ?? 0) - now;
    t.ok(gap >= intervalMs / 2 && gap < 1.5 * intervalMs, "half an interval later at least");
  }
});

t.test("an agent moved to another region uses the slots of that region", async (t) => {
  const { clock, starts, schedule, assigned, apply } = setup();
  const check = assigned(1);
  apply([check]);
  await clock.pass(2 * intervalMs);
  schedule.apply({ region: "elsewhere", jitter_pct: 0, full: true, checks: [check], drop: [] });
  await clock.pass(3 * intervalMs);
  t.equal(((starts.at(-1)?.slot ?? 0) - phaseMs(id(1), "elsewhere", intervalMs)) % intervalMs, 0);
});

t.test("a check that still runs at its next slot is skipped and counted", async (t) => {
  const { clock, stats, starts, ends, slow, assigned, apply } = setup();
  slow.add(id(1));
  apply([assigned(1)]);
  await clock.pass(3 * intervalMs);
  t.equal(starts.length, 1);
  t.equal(stats.skipped, 2);
  ends[0]?.();
  await clock.pass(intervalMs);
  t.equal(starts.length, 2, "and runs again when it is done");
});

t.test("an edit applies at once, an older version is ignored", async (t) => {
  const { clock, starts, abandoned, slow, schedule, assigned, apply } = setup();
  slow.add(id(1));
  apply([assigned(1, { version: "9" })]);
  await clock.pass(intervalMs);
  t.equal(starts.length, 1);
  apply([assigned(1, { version: "10", next_due_at: clock.now() })]);
  await clock.pass(1);
  matchObject(t, starts.at(-1), { version: "10" }, "10 is more than 9");
  t.strictSame(abandoned, ["9"], "what the old version finds out does not count");
  apply([assigned(1, { version: "9", next_due_at: clock.now() })]);
  apply([assigned(1, { version: "10", next_due_at: clock.now() })], { full: true });
  await clock.pass(1);
  t.equal(starts.length, 2, "the version that is held goes on undisturbed");
  t.equal(schedule.size, 1);
});

const recheck_ms = 10_000;

t.test("a recheck runs once, in the next slot of its grid", async (t) => {
  const { clock, starts, schedule, assigned, apply } = setup();
  const check = assigned(1, { recheck_ms });
  const rechecks = () => starts.filter(({ isRecheck }) => isRecheck).map(({ slot }) => slot - check.next_due_at);
  apply([check]);
  await clock.pass(check.next_due_at - clock.now() + 100);
  schedule.recheck(id(1));
  schedule.recheck(id(1));
  await clock.pass(50_000);
  t.strictSame(rechecks(), [10_000]);
  schedule.recheck(id(1));
  await clock.pass(40_000);
  t.strictSame(rechecks(), [10_000], "none where the next run comes first");
  t.equal(starts.length, 3);
  schedule.recheck(id(1));
  schedule.settled(id(1));
  await clock.pass(20_000);
  t.strictSame(rechecks(), [10_000], "none when the vote is settled");
  schedule.recheck(id(2));
});

t.test("a recheck keeps its distance to the start of a late run", async (t) => {
  for (let n = 10; n < 60; n++) {
    const { clock, starts, schedule, assigned, apply } = setup();
    apply([assigned(n, { next_due_at: clock.now(), recheck_ms })], { jitter_pct: 10 });
    await clock.pass(10);
    schedule.recheck(id(n));
    await clock.pass(25_000);
    const [first, second] = starts;
    matchObject(t, second, { isRecheck: true });
    const gap = second!.at - first!.at;
    t.ok(gap > recheck_ms / 3 && gap < 2.5 * recheck_ms, `${gap} ms`);
  }
});

t.test("a recheck that cannot start is tried in its next slots, after ten of them in every tenth", async (t) => {
  const { clock, starts, blocked, schedule, assigned, apply } = setup();
  const day = 86_400_000;
  const slot = slotAtOrAfter(clock.now(), phaseMs(id(1), region, day), day);
  apply([assigned(1, { interval_ms: day, next_due_at: slot, recheck_ms: 60_000 })]);
  await clock.pass(slot - clock.now() + 100);
  blocked.add(id(1));
  schedule.recheck(id(1));
  await clock.pass(145_000);
  t.equal(starts.length, 1);
  blocked.clear();
  await clock.pass(60_000);
  matchObject(t, starts.at(-1), { slot: slot + 180_000, isRecheck: true }, "the next one");
  blocked.add(id(1));
  schedule.recheck(id(1));
  await clock.pass(12 * 60_000);
  blocked.clear();
  await clock.pass(10 * 60_000);
  t.equal(((starts.at(-1)?.slot ?? 0) - slot) % 600_000, 0);
  t.equal(starts.length, 3);
});

t.test("a recheck costs no run of the schedule", async (t) => {
  const { clock, stats, starts, abandoned, slow, schedule, assigned, apply } = setup();
  const check = assigned(1, { recheck_ms });
  apply([check]);
  await clock.pass(check.next_due_at - clock.now() + 45_000);
  slow.add(id(1));
  schedule.recheck(id(1));
  await clock.pass(10_000);
  matchObject(t, starts.at(-1), { slot: check.next_due_at + 50_000, isRecheck: true });
  await clock.pass(10_000);
  matchObject(t, starts.at(-1), { slot: check.next_due_at + intervalMs, isRecheck: false });
  t.equal(abandoned.length, 1, "the recheck that still ran was abandoned");
  t.equal(stats.skipped, 0);
  schedule.recheck(id(1));
  await clock.pass(15_000);
  t.equal(starts.length, 3, "while a scheduled run is in flight it waits for its result");
});

t.test("dropped checks stop; a full reply drops checks that it does not list", async (t) => {
  const { clock, starts, schedule, assigned, apply } = setup();
  apply([assigned(1), assigned(2), assigned(3)]);
  apply([], { drop: [id(1), id(77)] });
  t.equal(schedule.size, 2);
  apply([assigned(3), assigned(4)], { full: true });
  await clock.pass(intervalMs);
  t.strictSame(starts.map((start) => start.id).sort(), [id(3), id(4)]);
  apply([assigned(1)]);
  await clock.pass(intervalMs);
  t.equal(
    starts.filter((start) => start.id === id(1)).length,
    1,
    "what comes back runs once per slot, as if it had never been away",
  );
  schedule.stop();
  const before = starts.length;
  await clock.pass(2 * intervalMs);
  t.equal(starts.length, before, "stopped");
});

t.test("after a standstill only the newest slot runs, and starts are spread", async (t) => {
  const { clock, stats, starts, assigned, apply } = setup();
  const count = 40;
  apply(Array.from({ length: count }, (_, n) => assigned(n)));
  await clock.pass(intervalMs);
  starts.length = 0;
  clock.stall(10 * intervalMs);
  const woke = clock.now();
  await clock.pass(1000);
  const caughtUp = starts.filter(({ slot }) => slot <= woke);
  t.equal(caughtUp.length, count, "each check once");
  t.ok(
    caughtUp.every(({ slot }) => woke - slot <= intervalMs),
    "for its newest slot",
  );
  t.ok(stats.missed >= 8 * count);
  const perMs = new Map<number, number>();
  for (const { at } of starts) perMs.set(at, (perMs.get(at) ?? 0) + 1);
  t.ok(Math.max(...perMs.values()) <= 4, "a few at a time");
});

t.test("property: the control plane accepts every run", async () => {
  const event = fc.oneof(
    fc.record({ pass: fc.integer({ min: 1, max: 400_000 }) }),
    fc.record({ stall: fc.integer({ min: 1, max: 400_000 }) }),
    fc.record({ edit: fc.constantFrom(10, 25, 60, 61, 300), fresh: fc.boolean() }),
    fc.record({ jitter: fc.constantFrom(0, 10, 100) }),
    fc.constant("recheck" as const),
    fc.constant("block" as const),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(event, { minLength: 1, maxLength: 12 }), fc.integer({ max: 50 }), async (events, n) => {
      const { clock, starts, blocked, assigned, apply, schedule } = setup();
      const createdAt = clock.now();
      const [intervals, issued] = [[intervalMs], new Set<number>()];
      let version = 1;
      let jitter_pct = 10;
      const give = (interval: number, fresh: boolean): void => {
        const next_due_at = fresh ? clock.now() : nextSlot(id(n), region, interval, jitter_pct, clock.now());
        if (fresh) issued.add(next_due_at);
        else if (next_due_at < createdAt) return;
        intervals.push(interval);
        const change = {
          version: String(version++),
          interval_ms: interval,
          recheck_ms: recheckMs(interval),
          next_due_at,
        };
        apply([assigned(n, change)], { jitter_pct });
      };
      give(intervalMs, true);
      for (const now of events) {
        if (now === "recheck") schedule.recheck(id(n));
        else if (now === "block") blocked[blocked.has(id(n)) ? "delete" : "add"](id(n));
        else if ("pass" in now) await clock.pass(now.pass);
        else if ("stall" in now) clock.stall(now.stall);
        else if ("jitter" in now) apply([], { jitter_pct: (jitter_pct = now.jitter) });
        else give(now.edit * 1000, now.fresh);
      }
      await clock.pass(700_000);
      schedule.stop();
      return (
        starts.length > 0 &&
        starts.every(({ slot }, at) => at === 0 || slot > starts[at - 1]!.slot || !starts[at]!.isRecheck) &&
        starts.every(({ slot, at }) => {
          const known = { targetId: id(n), region, createdAt, intervalsMs: intervals, leastRecheckMs: 0 };
          const isSlot = isOnGrid(known, slot) || issued.has(slot) || isOnRecheckGrid(known, slot);
          return scheduleViolation(known, { slotMs: slot, startedMs: at }, isSlot) === null;
        })
      );
    }),
    { numRuns: 200 },
  );
});

t.test("10,000 checks stay on schedule", async (t) => {
  const { clock, starts, assigned, apply } = setup();
  apply(Array.from({ length: 10_000 }, (_, n) => assigned(n)));
  await clock.pass(5000);
  const expected = (10_000 * 5000) / intervalMs;
  t.ok(Math.abs(starts.length - expected) < expected * 0.15, `${starts.length} of about ${Math.round(expected)}`);
  t.ok(starts.every(({ slot, at }) => at - slot < 20));
});

t.test("regions check a target at other times, and a recheck keeps half its step to the next slot", (t) => {
  t.not(phaseMs(id(1), "eu", intervalMs), phaseMs(id(1), "us", intervalMs));
  const grid = { phase: 0, intervalMs, recheckMs: 10_000 };
  t.equal(nextRecheck(grid, 40_001), 50_000);
  t.equal(nextRecheck(grid, 50_001), intervalMs + 10_000);
  t.end();
});

t.test("the heap returns items in order", (t) => {
  const heap = new Heap<number>();
  const keys = Array.from({ length: 1000 }, (_, i) => (i * 7919) % 1009);
  for (const key of keys) heap.push(key, key);
  t.equal(heap.nextKey, Math.min(...keys));
  const out = Array.from({ length: 1000 }, () => heap.pop());
  t.strictSame(
    out,
    keys.sort((a, b) => a - b),
  );
  t.equal(heap.pop(), undefined);
  t.equal(heap.nextKey, Infinity);
  t.end();
});

t.test("the clock follows that of the control plane", (t) => {
  const clock = correctedClock();
  const local = (): number => performance.timeOrigin + performance.now();
  const near = (offset: number, message: string): void =>
    void t.ok(Math.abs(clock.now() - local() - offset) < 50, message);
  const isWhole = (): boolean => Array.from({ length: 50 }, () => clock.now()).every(Number.isInteger);
  near(0, "its own until the first answer");
  t.ok(isWhole(), "files and rows hold integers");
  clock.correct(local() + 3_600_000 - 20);
  near(3_599_980, "an hour ahead, as reported");
  clock.correct(local() + 3_600_000 - 1);
  t.ok(clock.offsetMs() > 3_599_990, "the answer that travelled least is the truest");
  clock.correct(local() + 3_600_000 - 800);
  t.ok(clock.offsetMs() > 3_599_990, "a slow answer does not set it back");
  clock.correct(local() - 5000);
  near(-5000, "when the control plane's clock was set, it follows at once");
  t.ok(isWhole(), "also corrected");
  t.end();
});

t.test("a run that waits for its turn at its host becomes that of its next slot", async (t) => {
  const clock = new FakeClock();
  const moved: number[] = [];
  const abandoned: number[] = [];
  const waiting = new Set([1, 2, 3]);
  const schedule = new Schedule(clock, new Stats(), ({ target_id: target }) => {
    const n = Number(target.slice(-12));
    return {
      done: new Promise(() => undefined),
      abandon: () => void abandoned.push(n),
      get turn() {
        return waiting.has(n) ? { moveTo: (slot: number) => void moved.push(slot) } : null;
      },
    };
  });
  const checks = [1, 2, 3, 4].map((n) => ({
    target_id: id(n),
    org_id: id(999),
    version: "1",
    interval_ms: intervalMs,
    next_due_at: clock.now(),
    recheck_ms: intervalMs,
    check: { type: "tcp" },
  }));
  schedule.apply({ region, jitter_pct: 0, full: true, drop: [], checks });
  await clock.pass(1.5 * intervalMs);
  t.strictSame(
    moved,
    [1, 2, 3]
      .map((n) =>
        slotAtOrAfter(checks[0]!.next_due_at + intervalMs / 2, phaseMs(id(n), region, intervalMs), intervalMs),
      )
      .sort((a, b) => a - b),
    "those that wait; the one that runs skips its slot",
  );
  schedule.apply({ region, jitter_pct: 0, full: false, drop: [id(1), id(4)], checks: [] });
  t.strictSame(abandoned, [1], "a check that is dropped waits no longer");
  waiting.delete(2);
  schedule.stop();
  t.strictSame(abandoned, [1, 3], "nor does any at the stop");
});
