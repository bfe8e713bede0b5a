import fc from "fast-check";
import t from "tap";
import { emptyState, evaluate } from "./replay.ts";
import { closeByHand, reconsider } from "./overrides.ts";
import { formatState, parsePassing, parseState, passesOn, type TargetState } from "./stored-state.ts";
import { gradeOf } from "./machine.ts";
import { type Policy, policyOf } from "./policy.ts";
import { statusOf } from "./target-status.ts";

const start = 1_800_000_000_000;
const policy = policyOf({
  timeout: 10_000,
  interval_secs: 60,
  alert_confirmations: 2,
  region_policy: "majority",
  flap_detection: true,
});
const blank: TargetState = { evaluation: emptyState, latest: {} };
let ids = 0;
const newId = () => `incident-${++ids}`;

interface TestRun {
  slot: number;
  region: string;
  status: "up" | "down";
}

function after(rules: Policy, state: TargetState, runs: readonly TestRun[]): TargetState {
  const latest = { ...state.latest };
  for (const { slot, region, status } of runs)
    if (slot > (latest[region]?.slot ?? 0))
      latest[region] = { slot, status, error: status === "up" ? null : "connection refused" };
  const graded = runs.map(({ slot, region, status }) => ({ slot, region, grade: gradeOf(status) }));
  return { evaluation: evaluate(rules, state.evaluation, graded, { freshAfter: 0, newId }).state, latest };
}

/** The state as it is stored, and as it is read again. */
function stored(rules: Policy, state: TargetState): { text: string; again: TargetState } {
  const { newest, until } = statusOf(rules, state);
  const text = formatState(rules, state, newest);
  return { text, again: parseState(text, until === null ? null : new Date(until)) };
}

/** The state after one pass; checks that it changes only the newest slot where `passesOn` returns that. */
function afterPass(
  rules: Policy,
  state: TargetState,
  region: string,
  slot: number,
): { state: TargetState; quick: boolean } {
  const { newest, until } = statusOf(rules, state);
  const text = formatState(rules, state, newest);
  const passing = parsePassing(text);
  const quick = passing === null ? null : passesOn(rules, passing, new Date(until!), region, slot);
  const made = after(rules, state, [{ slot, region, status: "up" }]);
  if (quick !== null) {
    const reading = statusOf(rules, made);
    t.strictSame([formatState(rules, made, reading.newest), reading.newest, reading.status], [text, quick, "up"]);
  }
  return { state: made, quick: quick !== null };
}

/** One region passes at each of `slots`, one after the other; returns the texts. */
function pass(slots: readonly number[], regions: readonly string[] = ["frankfurt"]): string[] {
  let state = blank;
  return slots.map((slot) => {
    state = after(
      policy,
      state,
      regions.map((region, at) => ({ slot: slot + at * 7001, region, status: "up" as const })),
    );
    const { text, again } = stored(policy, state);
    t.strictSame(again, state, text);
    return text;
  });
}

const grid = (count: number, from = start) => Array.from({ length: count }, (_, n) => from + n * policy.intervalMs);

t.test("a target that is simply up takes a few bytes, which stay the same from run to run", (t) => {
  const fromTheFirst = pass([start - 17_123, ...grid(40)]);
  t.equal(new Set(fromTheFirst.slice(12)).size, 1, fromTheFirst.at(-1)!);
  t.ok(
    fromTheFirst.every((text) => text.length <= 60),
    "from its first result on, which is off the grid",
  );
  const three = pass(grid(40), ["frankfurt", "singapore", "virginia"]);
  t.equal(new Set(three.slice(30)).size, 1, three.at(-1)!);
  t.ok(three.at(-1)!.length <= 120);

  const gap = pass([...grid(20), ...grid(20, start + 25 * policy.intervalMs)]);
  t.ok(gap[21]!.startsWith("{"), "runs that are not one interval apart are kept one by one");
  t.notOk(gap.at(-1)!.startsWith("{"), "until they are old");
  t.not(gap.at(-1), gap[15]);

  pass(grid(1100));
  t.end();
});

t.test("one more pass of a target that is up needs no evaluation", (t) => {
  for (const regions of [["frankfurt"], ["frankfurt", "singapore", "virginia"]]) {
    let state = blank;
    const quick: boolean[] = [];
    for (const slot of grid(1100))
      for (const [at, region] of regions.entries()) {
        const made = afterPass(policy, state, region, slot + at * 7001);
        state = made.state;
        quick.push(made.quick);
      }
    const first = quick.indexOf(true);
    t.ok(first < 36, `from the run ${first} on`);
    t.notOk(quick.slice(first).includes(false));
  }
  t.end();
});

t.test("streaks of the greatest length are stored as they are, after a gap too", (t) => {
  let state = blank;
  for (const slot of [...grid(20), ...grid(1050, start + 23 * policy.intervalMs)]) {
    state = afterPass(policy, state, "eu", slot).state;
    t.strictSame(stored(policy, state).again, state);
  }
  t.equal(state.evaluation.base.regions["eu"]?.streak, 1000);
  t.end();
});

t.test("a recheck keeps a target out of the short form no longer than the failure that it refutes", (t) => {
  const runsToShort = (failing: readonly ("up" | "down")[]): number => {
    let state = blank;
    const add = (slot: number, status: "up" | "down") => {
      state = after(policy, state, [{ slot, region: "eu", status }]);
      const { text, again } = stored(policy, state);
      t.strictSame(again, state, text);
      return !text.startsWith("{");
    };
    for (const slot of grid(20)) add(slot, "up");
    failing.forEach((status, at) => add(start + 20 * policy.intervalMs + at * 10_000, status));
    return 1 + grid(40, start + 21 * policy.intervalMs).findIndex((slot) => add(slot, "up"));
  };
  t.ok(runsToShort(["down", "up"]) <= runsToShort(["down"]));
  t.end();
});

t.test("an outage is dropped when it can no longer reopen", (t) => {
  let state = blank;
  const at = (n: number, status: "up" | "down") => ({ slot: start + n * policy.intervalMs, region: "eu", status });
  for (let n = 0; n < 40; n++) {
    state = after(policy, state, [at(n, n >= 3 && n < 6 ? "down" : "up")]);
    t.strictSame(stored(policy, state).again, state);
  }
  t.notOk(stored(policy, state).text.startsWith("{"), stored(policy, state).text);
  t.end();
});

t.test("property: a stored state is read as it was, after any runs", (t) => {
  const run = fc.record({
    minute: fc.integer({ min: 0, max: 40 }),
    // Late runs, and rechecks between two slots.
    off: fc.constantFrom(0, 0, 0, 0, 0, 1, 10_000, 20_000, 30_000),
    region: fc.constantFrom("a", "b"),
    status: fc.constantFrom("up" as const, "up" as const, "up" as const, "up" as const, "up" as const, "down" as const),
  });
  const step = fc.oneof(
    { weight: 8, arbitrary: fc.record({ runs: fc.array(run, { minLength: 1, maxLength: 6 }) }) },
    { weight: 6, arbitrary: fc.record({ passes: fc.integer({ min: 1, max: 20 }) }) },
    { weight: 1, arbitrary: fc.constant("close" as const) },
    {
      weight: 1,
      arbitrary: fc.record({ confirmations: fc.integer({ min: 1, max: 4 }), seconds: fc.constantFrom(30, 60, 90) }),
    },
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
      let state = blank;
      let rules = policy;
      let next = start;
      const keep = (made: TargetState) => {
        state = made;
        const { text, again } = stored(rules, state);
        t.strictSame(again, state, text);
      };
      for (const one of steps) {
        if (one === "close")
          keep({ ...state, evaluation: closeByHand(rules, state.evaluation, { at: next, notify: false }).state });
        else if ("passes" in one)
          for (let n = 0; n < one.passes; n++) {
            next += rules.intervalMs;
            for (const [at, region] of (n % 9 === 7 ? ["b", "a"] : ["a", "b"]).entries())
              if (n % 11 !== 10 || region === "a")
                keep(
                  afterPass(rules, state, region, next + (region === "a" ? 0 : 999) + (n % 13 === 12 ? at : 0)).state,
                );
          }
        else if ("runs" in one)
          keep(
            after(
              rules,
              state,
              one.runs.map(({ minute, off, region, status }) => ({
                slot: next - 10 * 60_000 + minute * 60_000 + off,
                region,
                status,
              })),
            ),
          );
        else {
          const before = rules;
          rules = policyOf({
            timeout: 10_000,
            interval_secs: one.seconds,
            alert_confirmations: one.confirmations,
            region_policy: "any",
            flap_detection: true,
          });
          const change = { before, after: rules, regions: ["a", "b"], at: next };
          keep({ ...state, evaluation: reconsider(state.evaluation, change, newId).state });
        }
      }
    }),
    { numRuns: 100 },
  );
  t.end();
});
