import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import t from "tap";
import { current, emptyState, evaluate, type EvaluationState, window } from "./replay.ts";
import type { NoticeToSend } from "./notices.ts";
import { closeByHand, foldAll, reconsider, settleByTime } from "./overrides.ts";
import { type IncidentState, isUnsettled, type Run, type Vote } from "./machine.ts";
import { type Policy, policyOf, quorum, type RegionPolicy } from "./policy.ts";
import { gradeOfLetter } from "../../../testing/reference-model.ts";

const interval = 60_000;
const start = 1_800_000_000_000;

function policy(changes: Partial<Policy> = {}): Policy {
  return {
    confirmations: 2,
    intervalMs: interval,
    regionPolicy: "majority",
    livenessMs: 130_000,
    reopenMs: 300_000,
    flapDetection: false,
    flapDownMs: 300_000,
    flapUpMs: 900_000,
    ...changes,
  };
}

/** `runs("FFP")` is three runs of one region, a minute apart; a dot is a slot without a run. */
function runs(text: string, region = "a", from = 0): Run[] {
  return [...text].flatMap((letter, at) =>
    letter === "." ? [] : [{ slot: start + (from + at) * interval, region, grade: gradeOfLetter(letter) }],
  );
}

function ids(): () => string {
  let next = 0;
  return () => `incident-${++next}`;
}

/** The stored outages of an incident after an update: its list replaces those from its first one on. */
function storedOutages(before: IncidentState, { startedAt, outages }: IncidentState): IncidentState["outages"] {
  const from = outages[0]![0];
  return [...(from === startedAt ? [] : before.outages.filter(([start]) => start < from)), ...outages];
}

/** What the database would hold: the incidents that are not retracted, and every notice, after these batches. */
function play(
  batches: readonly (readonly Run[])[],
  rules: Policy,
  freshAfter = 0,
): { state: EvaluationState; incidents: IncidentState[]; notices: NoticeToSend[] } {
  const stored = new Map<string, IncidentState>();
  const notices: NoticeToSend[] = [];
  const newId = ids();
  let state = emptyState;
  // The database stores text, so nothing may depend on object identity.
  let text = JSON.stringify(state);
  for (const batch of batches) {
    const outcome = evaluate(rules, JSON.parse(text) as EvaluationState, batch, { freshAfter, newId });
    text = JSON.stringify(outcome.state);
    if (!isDeepStrictEqual(structuredClone(outcome.checkpoint), current(rules, JSON.parse(text) as EvaluationState)))
      throw new Error("the checkpoint is not where the state leads to");
    for (const incident of outcome.inserted) {
      if (stored.has(incident.id)) throw new Error(`${incident.id} is inserted twice`);
      stored.set(incident.id, structuredClone(incident));
    }
    for (const incident of outcome.updated) {
      if (!stored.has(incident.id)) throw new Error(`${incident.id} is updated but was never inserted`);
      stored.set(incident.id, {
        ...structuredClone(incident),
        outages: storedOutages(stored.get(incident.id)!, incident),
      });
    }
    for (const id of outcome.retracted) if (!stored.delete(id)) throw new Error(`${id} is retracted but is not there`);
    const open = [...stored.values()].filter((incident) => incident.closedAt === null);
    if (open.length > 1) throw new Error("two incidents are open at once");
    notices.push(...outcome.notices);
    state = outcome.state;
  }
  return { state, incidents: [...stored.values()].sort((x, y) => x.openedAt - y.openedAt), notices };
}

const said = (notices: readonly NoticeToSend[]): string =>
  notices
    .map(({ reason, seq, flap }) => `${reason}${seq === 0 ? "" : seq}${flap === undefined ? "" : ` (${flap})`}`)
    .join(" ");
const minute = (slot: number | null): number | null => (slot === null ? null : (slot - start) / interval);

t.test("one region, run by run", (t) => {
  const table: [
    runs: string,
    incidents: [started: number, opened: number, ended: number | null, severity: string][],
    notices: string,
  ][] = [
    ["PPPP", [], ""],
    ["F", [], ""],
    ["PFPF", [], ""],
    ["FF", [[0, 1, null, "major"]], "opened"],
    ["PPFF", [[2, 3, null, "major"]], "opened"],
    ["FFFF", [[0, 1, null, "major"]], "opened"],
    ["FFP", [[0, 1, null, "major"]], "opened"],
    ["FFPFP", [[0, 1, null, "major"]], "opened"],
    ["FFPP", [[0, 1, 2, "major"]], "opened resolved"],
    ["DD", [[0, 1, null, "minor"]], "opened"],
    ["DDDF", [[0, 1, null, "major"]], "opened escalated"],
    ["DF", [[0, 1, null, "major"]], "opened"],
    ["FDDD", [[0, 1, null, "major"]], "opened"],
    // Closed at minute 3, fails again within five minutes of that: the same incident.
    ["FFPPFF", [[0, 1, null, "major"]], "opened resolved reopened"],
    ["FFPPFFPP", [[0, 1, 6, "major"]], "opened resolved reopened resolved1"],
    // Six minutes later it is another one.
    [
      "FFPPPPPPFF",
      [
        [0, 1, 2, "major"],
        [8, 9, null, "major"],
      ],
      "opened resolved opened",
    ],
    // So is one that is confirmed five minutes after the end.
    [
      "FFPPPPPFF",
      [
        [0, 1, 2, "major"],
        [7, 8, null, "major"],
      ],
      "opened resolved opened",
    ],
    // A skipped slot breaks no streak.
    ["F.F", [[0, 2, null, "major"]], "opened"],
  ];
  for (const [text, incidents, notices] of table) {
    for (const batches of [runs(text).map((run) => [run]), [runs(text)]]) {
      const outcome = play(batches, policy());
      t.same(
        outcome.incidents.map((it) => [minute(it.startedAt), minute(it.openedAt), minute(it.endedAt), it.severity]),
        incidents,
        `${text} in ${batches.length} batches`,
      );
      t.equal(said(outcome.notices), notices, `${text} in ${batches.length} batches notifies "${notices}"`);
    }
  }
  t.end();
});

t.test("the quorum of each region policy", (t) => {
  const table: [RegionPolicy, voters: number, quorum: number][] = [
    ["any", 3, 1],
    ["majority", 1, 1],
    ["majority", 2, 2],
    ["majority", 3, 2],
    ["majority", 4, 3],
    ["all", 3, 3],
    ["all", 0, 1],
    [{ count: 2 }, 3, 2],
    [{ count: 5 }, 3, 3],
    [{ count: 2 }, 1, 1],
    [{ count: 2 }, 0, 1],
  ];
  for (const [rule, voters, expected] of table)
    t.equal(quorum(rule, voters), expected, `${JSON.stringify(rule)} of ${voters}`);
  t.end();
});

t.test("votes stay live and incidents reopen for some intervals", (t) => {
  const times = (interval_secs: number, timeout: number) => {
    const policy = { alert_confirmations: 2, region_policy: "any", flap_detection: true } as const;
    const { livenessMs, reopenMs } = policyOf({ ...policy, interval_secs, timeout });
    return [livenessMs, reopenMs];
  };
  t.same(times(60, 10_000), [130_000, 300_000]);
  t.same(times(10, 5000), [90_000, 300_000], "at least");
  t.same(times(600, 5000), [1_205_000, 1_800_000]);
  t.end();
});

t.test("refuted runs are those of one region", (t) => {
  const { state } = play([[...runs("FF", "a"), ...runs("FF", "b")]], policy());
  const refuted = [{ region: "a", from: start, to: Infinity }];
  const outcome = evaluate(policy(), state, [], { freshAfter: 0, newId: ids(), refuted });
  t.same(
    outcome.state.recent.map(([, region]) => region),
    ["b", "b"],
  );
  t.end();
});

t.test("several regions", (t) => {
  const three = (a: string, b: string, c: string) =>
    [...runs(a, "a"), ...runs(b, "b"), ...runs(c, "c")]
      .sort((x, y) => x.slot - y.slot || (x.region < y.region ? -1 : 1))
      .map((run) => [run]);
  const open = (outcome: { incidents: IncidentState[] }) =>
    outcome.incidents
      .filter((it) => it.closedAt === null)
      .map((it) => `${it.impact} ${it.regionsDown.join("")}/${it.regionsUp.join("")}`);
  t.same(open(play(three("PPFF", "PPPP", "PPPP"), policy())), [], "one of three is not the majority");
  t.same(
    open(play(three("PPFF", "PPPP", "PPPP"), policy({ regionPolicy: "any" }))),
    ["partial_outage a/bc"],
    "any takes one",
  );
  t.same(open(play(three("PPFF", "PPFF", "PPPP"), policy())), ["partial_outage ab/c"], "two of three are the majority");
  t.same(open(play(three("PPFF", "PPFF", "PPPP"), policy({ regionPolicy: "all" }))), [], "all takes all");
  t.same(open(play(three("PPFF", "PPFF", "PPFF"), policy({ regionPolicy: "all" }))), ["major_outage abc/"]);
  t.same(
    open(play(three("PPFFPP", "PPFFFF", "PPPPPP"), policy())),
    [],
    "it closes when fewer fail than the policy asks",
  );
  t.same(
    open(play(three("PPFFF", "PP...", "PP..."), policy({ livenessMs: 90_000 }))),
    ["major_outage a/"],
    "regions that fell silent have no vote in the opening",
  );
  t.same(
    open(play(three("FF......", "FF......", "PPPPPPPP"), policy())),
    ["partial_outage ab/c"],
    "silence of the failing regions closes nothing",
  );
  t.same(
    open(play(three("FF....", "PPPPPP", "....FF"), policy({ livenessMs: 90_000 }))),
    [],
    "a region that fell silent while it failed has no vote in the opening",
  );
  t.end();
});

t.test("a passing run confirms no outage, even when the votes against one are stale", (t) => {
  const batches = [...runs("FF.P", "a"), ...runs("P", "b"), ...runs("P", "c")]
    .sort((x, y) => x.slot - y.slot)
    .map((run) => [run]);
  t.same(play(batches, policy({ regionPolicy: { count: 2 } })).incidents, []);
  t.end();
});

t.test("reopening is counted, and the time in between is no outage", (t) => {
  t.same(
    play([runs("FFPPFFPPFF")], policy()).incidents.map((it) => [it.reopened, minute(it.since), it.pastMs / interval]),
    [[2, 8, 4]],
  );
  t.end();
});

t.test("an open incident closes when a silent failing minority is outvoted", (t) => {
  const batches = [...runs("FF", "a"), ...runs("PPPP", "b", 4)].map((run) => [run]);
  t.same(
    play(batches, policy()).incidents.map((it) => minute(it.closedAt)),
    [5],
  );
  t.end();
});

t.test("late runs", (t) => {
  const [f0, f1, p2, f3] = runs("FFPF") as [Run, Run, Run, Run];
  t.test("a late pass between two failures retracts the incident, with a notice", (t) => {
    const outcome = play([[f1], [f3], [p2]], policy());
    t.same(outcome.incidents, []);
    t.equal(said(outcome.notices), "opened resolved");
    t.end();
  });
  t.test("an earlier failure moves the start", (t) => {
    const outcome = play(
      [[f1], [f3], [f0]].map((batch) => batch.map((run) => (run === f3 ? { ...f3, slot: p2.slot } : run))),
      policy(),
    );
    t.same(
      outcome.incidents.map((it) => [minute(it.startedAt), minute(it.openedAt)]),
      [[0, 1]],
    );
    t.equal(said(outcome.notices), "opened");
    t.end();
  });
  t.test("a run older than the window is history only", (t) => {
    const size = window(2, 1);
    const outcome = play([runs("P".repeat(size + 3)), runs("FF")], policy());
    t.same(outcome.incidents, []);
    const newest = runs(`PPF${"P".repeat(size)}`);
    t.same(play([newest, [newest[2]!]], policy()).incidents, [], "so is the newest one of the checkpoint, sent again");
    t.end();
  });
  t.end();
});

t.test("new and old results", (t) => {
  const all = runs("PFFFPP");
  t.test("an outage that ended before its results arrived is recorded without a notice", (t) => {
    const outcome = play([all.slice(0, 4), all.slice(4)], policy(), start + 3_600_000);
    t.equal(outcome.incidents.length, 1);
    t.equal(said(outcome.notices), "");
    t.end();
  });
  t.test("one that still lasts is notified with the first fresh run", (t) => {
    const outcome = play([all.slice(0, 3), all.slice(3, 4)], policy(), start + 3 * interval);
    t.equal(said(outcome.notices), "opened");
    t.end();
  });
  t.end();
});

t.test("decisions of people", (t) => {
  const opened = play([runs("FF")], policy()).state;
  t.test("resolving closes with a notice, and opening again takes a whole streak", (t) => {
    const closed = closeByHand(policy(), opened, { at: start + 90_000, notify: true });
    t.equal(said(closed.notices), "resolved");
    t.not(closed.updated[0]?.closedAt, null);
    const next = evaluate(policy(), closed.state, runs("F", "a", 2), { freshAfter: 0, newId: ids() });
    t.same(next.updated, []);
    const again = evaluate(policy(), next.state, runs("F", "a", 3), { freshAfter: 0, newId: ids() });
    t.equal(said(again.notices), "reopened");
    t.equal(again.updated[0]?.id, "incident-1");
    t.end();
  });
  t.test("pausing closes without a notice", (t) => {
    const closed = closeByHand(policy(), opened, { at: start + 90_000, notify: false });
    t.equal(closed.updated.length, 1);
    t.equal(said(closed.notices), "");
    t.equal(current(policy(), closed.state).incident?.closedAt, start + 90_000);
    t.end();
  });
  t.test("closing a closed incident does nothing", (t) => {
    t.same(closeByHand(policy(), emptyState, { at: start, notify: true }).updated, []);
    t.end();
  });
  t.end();
});

t.test("an edited policy is applied to the evidence at once", (t) => {
  const three = policy({ confirmations: 3 });
  const { state } = play([runs("FF")], three);
  const outcome = reconsider(
    state,
    { before: three, after: policy(), regions: ["a"], at: start + 2 * interval },
    ids(),
  );
  t.same(
    outcome.inserted.map((it) => it.id),
    ["incident-1"],
    "two failures are enough now",
  );
  t.equal(said(outcome.notices), "opened");
  const removed = reconsider(state, { before: policy(), after: policy(), regions: ["b"], at: start }, ids());
  t.same(Object.keys(removed.state.base.regions), [], "a region that is no longer probed has no vote");
  t.end();
});

t.test("flapping, run by run", (t) => {
  const up = "P".repeat(15);
  const table: [runs: string, notices: string][] = [
    ["FFPPFFPP", "opened resolved reopened resolved1"],
    // The third opening, at minute 9. Its closing is held.
    ["FFPPFFPPFF", "opened resolved reopened resolved1 reopened1 (begins)"],
    ["FFPPFFPPFFPPFF", "opened resolved reopened resolved1 reopened1 (begins) resolved2 (held) reopened2 (held)"],
    // Down for five minutes without a pass; a single pass begins them anew.
    ["FFPPFFPPFFFFFFF", "opened resolved reopened resolved1 reopened1 (begins) reopened2 (down)"],
    ["FFPPFFPPFFFPFFFFF", "opened resolved reopened resolved1 reopened1 (begins)"],
    ["FFPPFFPPFFFPFFFFFF", "opened resolved reopened resolved1 reopened1 (begins) reopened2 (down)"],
    // Up for fifteen minutes since it closed.
    [`FFPPFFPPFFP${up}`, "opened resolved reopened resolved1 reopened1 (begins) resolved2 (held)"],
    [`FFPPFFPPFFPP${up}`, "opened resolved reopened resolved1 reopened1 (begins) resolved2 (held) resolved3 (stable)"],
    // Changes before it was stable do not count; after it stayed down they do.
    [
      `FFPPFFPPFFP${up}FFPPFF`,
      "opened resolved reopened resolved1 reopened1 (begins) resolved2 (held) resolved3 (stable) " +
        "opened resolved reopened",
    ],
    [
      "FFPPFFPPFFFFFFFPPFF",
      "opened resolved reopened resolved1 reopened1 (begins) reopened2 (down) resolved2 reopened3 (begins)",
    ],
    // Slow changes are incidents of their own until it flaps; from then on it is one.
    [
      "FFPPPPPPPPFFPPPPPPPPFFPPPPPPPPFF",
      "opened resolved opened resolved opened (begins) resolved (held) reopened (held)",
    ],
    // Three within an hour and not in two.
    [`FFPP${up}${up}FFPP${up}${up}FFPP`, "opened resolved opened resolved opened resolved"],
    // More severe than the notice said: that is not held.
    ["DDPPDDPPDDF", "opened resolved reopened resolved1 reopened1 (begins) escalated"],
  ];
  for (const [text, notices] of table) {
    for (const batches of [runs(text).map((run) => [run]), [runs(text)]])
      t.equal(said(play(batches, policy({ flapDetection: true })).notices), notices, text);
    t.notMatch(said(play([runs(text)], policy()).notices), "(", `${text}: turned off`);
  }
  const { state, incidents } = play([runs("FFPPFFPPFFPPFF")], policy({ flapDetection: true }));
  t.equal(incidents.length, 1);
  const flapping = { since: start + 9 * interval, changes: 7, last: start + 13 * interval };
  t.strictSame(current(policy({ flapDetection: true }), state).flaps?.flapping, flapping);

  const rules = policy({ flapDetection: true });
  t.equal(settleByTime(rules, state, start + 17 * interval), null, "silent for too short a time");
  const settled = settleByTime(rules, state, start + 18 * interval)!;
  t.equal(said(settled.notices), "reopened3 (down)", "silence hides no outage");
  const change = { before: rules, after: policy(), regions: ["a"], at: start + 14 * interval };
  t.equal(said(reconsider(state, change, ids()).notices), "reopened3 (down)", "detection is turned off");
  const byHand = closeByHand(rules, state, { at: start + 14 * interval, notify: true });
  t.equal(said(byHand.notices), "resolved3", "a person's end is no matter of flapping");
  t.end();
});

t.test("folding every run into the checkpoint keeps the outcome", (t) => {
  const { state } = play([runs("PPFF")], policy());
  t.same(current(policy(), foldAll(policy(), state)), current(policy(), state));
  t.end();
});

const anyPolicy = fc.record({
  confirmations: fc.integer({ min: 1, max: 4 }),
  regionPolicy: fc.oneof(
    fc.constantFrom<RegionPolicy>("any", "majority", "all"),
    fc.record({ count: fc.integer({ min: 1, max: 4 }) }),
  ),
  flapDetection: fc.boolean(),
  // Short enough that histories of 20 minutes settle.
  flapDownMs: fc.constantFrom(2 * interval, 5 * interval),
  flapUpMs: fc.constantFrom(3 * interval, 6 * interval),
});
const regionNames = ["a", "b", "c"];
const anyRun = fc.record({
  at: fc.integer({ min: 0, max: 20 }),
  /** Rechecks between two slots. */
  recheck: fc.constantFrom(0, 0, 0, 1, 2, 5),
  region: fc.constantFrom(...regionNames),
  letter: fc.constantFrom("P", "P", "D", "F", "F"),
});
interface AnyRun {
  at: number;
  recheck: number;
  region: string;
  letter: string;
}
const toRun = ({ at, recheck, region, letter }: AnyRun): Run => ({
  slot: start + at * interval + recheck * 10_000 + regionNames.indexOf(region) * 7,
  region,
  grade: gradeOfLetter(letter),
});
const distinct = (list: readonly Run[]): Run[] =>
  [...new Map(list.map((run) => [`${run.slot}/${run.region}`, run])).values()].sort((x, y) => x.slot - y.slot);
const visible = (incidents: readonly IncidentState[]) => incidents.map(({ id: _, ...rest }) => rest);

const same = (x: unknown, y: unknown): boolean => isDeepStrictEqual(x, y);
const byName = (regions: object): [string, unknown][] => Object.entries(regions).sort(([x], [y]) => (x < y ? -1 : 1));

/** Cuts a list into batches at random places. */
function cut<T>(list: readonly T[], cuts: readonly boolean[]): T[][] {
  const batches: T[][] = [[]];
  list.forEach((item, at) => {
    batches.at(-1)!.push(item);
    if (cuts[at % cuts.length]) batches.push([]);
  });
  return batches;
}

t.test("property: batching and duplicates change neither incidents nor notices", (t) => {
  fc.assert(
    fc.property(
      anyPolicy,
      fc.array(anyRun, { maxLength: 60 }),
      fc.array(fc.boolean(), { minLength: 1, maxLength: 10 }),
      fc.integer({ min: 0, max: 5 }),
      (rules, list, cuts, copies) => {
        const ordered = distinct(list.map(toRun));
        const single = play(
          ordered.map((run) => [run]),
          policy(rules),
        );
        const repeated = ordered.flatMap((run, at) =>
          at % 3 < copies % 3 ? [run, run, ordered[Math.max(0, at - 2)]!] : [run],
        );
        const batched = play(cut(repeated, cuts), policy(rules));
        return (
          // The states differ where a region appears late: fewer regions keep fewer runs beside the checkpoint.
          same(current(policy(rules), batched.state), current(policy(rules), single.state)) &&
          same(visible(batched.incidents), visible(single.incidents)) &&
          said(batched.notices) === said(single.notices)
        );
      },
    ),
    { numRuns: 150 },
  );
  t.end();
});

t.test("property: any order within the window gives the same incidents", (t) => {
  fc.assert(
    fc.property(
      anyPolicy.chain((rules) => {
        const size = window(rules.confirmations, 1);
        return fc.tuple(
          fc.constant(rules),
          fc.array(anyRun, { maxLength: size }),
          fc.array(fc.boolean(), { minLength: 1, maxLength: 7 }),
          fc.array(fc.nat(), { minLength: size, maxLength: size }),
        );
      }),
      ([rules, list, cuts, keys]) => {
        const ordered = distinct(list.map(toRun));
        const shuffled = ordered
          .map((run, at) => ({ run, key: keys[at]! }))
          .sort((x, y) => x.key - y.key)
          .map((it) => it.run);
        const inOrder = play(
          ordered.map((run) => [run]),
          policy(rules),
        );
        const anyOrder = play(cut(shuffled, cuts), policy(rules));
        return (
          same(visible(anyOrder.incidents), visible(inOrder.incidents)) &&
          same(
            byName(current(policy(rules), anyOrder.state).regions),
            byName(current(policy(rules), inOrder.state).regions),
          )
        );
      },
    ),
    { numRuns: 200 },
  );
  t.end();
});

t.test("property: so does a long history in which the window overtakes no run", (t) => {
  fc.assert(
    fc.property(
      anyPolicy,
      fc.array(anyRun, { minLength: 30, maxLength: 60 }),
      fc.array(fc.boolean(), { minLength: 1, maxLength: 7 }),
      fc.array(fc.nat(), { minLength: 60, maxLength: 60 }),
      (rules, list, cuts, delays) => {
        const ordered = distinct(list.map(toRun));
        const most = window(rules.confirmations, 1) - 1;
        const delayed = ordered
          .map((run, at) => ({ run, key: at + (delays[at]! % most) }))
          .sort((x, y) => x.key - y.key)
          .map((it) => it.run);
        const inOrder = play(
          ordered.map((run) => [run]),
          policy(rules),
        );
        const late = play(
          delayed.map((run) => [run]),
          policy(rules),
        );
        const batched = play(cut(delayed, cuts), policy(rules));
        return (
          same(visible(late.incidents), visible(inOrder.incidents)) &&
          same(visible(batched.incidents), visible(inOrder.incidents))
        );
      },
    ),
    { numRuns: 200 },
  );
  t.end();
});

t.test("a recheck confirms an outage or a recovery as any other run does", (t) => {
  const at = (secs: number, letter: string): Run => ({
    slot: start + secs * 1000,
    region: "a",
    grade: gradeOfLetter(letter),
  });
  const list = [at(0, "P"), at(60, "F"), at(70, "P"), at(120, "F"), at(130, "F"), at(180, "P"), at(190, "P")];
  const rechecks: number[] = [];
  let state = emptyState;
  for (const run of list) {
    const outcome = evaluate(policy(), state, [run], { freshAfter: 0, newId: ids() });
    state = outcome.state;
    if (isUnsettled(outcome.checkpoint.regions["a"]!)) rechecks.push((run.slot - start) / 1000);
  }
  t.strictSame(rechecks, [60, 120, 180], "requested after the runs that contradict the vote");
  t.strictSame(
    play([list], policy()).incidents.map((it) =>
      [it.startedAt, it.openedAt, it.endedAt, it.closedAt].map((ms) => (ms! - start) / 1000),
    ),
    [[120, 130, 180, 190]],
    "one failure that a recheck refutes opens nothing",
  );
  t.notOk(
    isUnsettled(current(policy(), play([runs("P")], policy()).state).regions["a"]!),
    "a first pass confirms nothing",
  );
  t.ok(isUnsettled(current(policy(), play([runs("F")], policy()).state).regions["a"]!));
  const closed = closeByHand(policy(), play([runs("FF")], policy()).state, { at: start, notify: true }).state;
  t.notOk(isUnsettled(current(policy(), closed).regions["a"]!));
  t.end();
});

t.test("property: rechecks are requested until one status has as many runs in a row as it needs", (t) => {
  fc.assert(
    fc.property(anyPolicy, fc.array(anyRun, { maxLength: 40 }), (rules, list) => {
      // The reference: votes of one region, counted by hand.
      let [vote, last, streak]: [Vote | null, Vote | null, number] = [null, null, 0];
      let state = emptyState;
      const own = distinct(list.map(toRun)).filter(({ region }) => region === "a");
      return own.every((run) => {
        const kind = run.grade === "passed" ? "passing" : "failing";
        streak = kind === last ? streak + 1 : 1;
        last = kind;
        if (streak >= rules.confirmations) vote = kind;
        const outcome = evaluate(policy(rules), state, [run], { freshAfter: 0, newId: ids() });
        state = outcome.state;
        return (
          isUnsettled(outcome.checkpoint.regions["a"]!) === (kind !== vote && !(kind === "passing" && vote === null))
        );
      });
    }),
    { numRuns: 150 },
  );
  t.end();
});

t.test("property: every notice of an opening is followed by one of the recovery", (t) => {
  fc.assert(
    fc.property(anyPolicy, fc.array(anyRun, { maxLength: 40 }), (rules, list) => {
      const outcome = play(
        list.map((run) => [toRun(run)]),
        policy(rules),
      );
      const notifiedOpen = new Map<string, boolean>();
      for (const { reason, incident } of outcome.notices) {
        const was = notifiedOpen.get(incident.id) ?? false;
        if (reason === "resolved" ? !was : reason === "escalated" ? !was : was)
          throw new Error(`${reason} does not follow for ${incident.id}`);
        notifiedOpen.set(incident.id, reason !== "resolved");
      }
      const open = new Set(outcome.incidents.filter((it) => it.closedAt === null).map((it) => it.id));
      return [...notifiedOpen].every(([id, isOpen]) => isOpen === open.has(id));
    }),
    { numRuns: 200 },
  );
  t.end();
});
