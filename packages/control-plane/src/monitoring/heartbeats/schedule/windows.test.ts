import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { heartbeat, type HeartbeatCheck } from "@statusmesh/shared/checks/heartbeat";
import { day, hour, minute, noon } from "../../../testing/clock.ts";
import { intervalSecsOf, scheduleRule, withGrace } from "./schedule.ts";
import { downAt, dueAfter, miss, type Ping, reopened, stateOf, suggestionFor, take, type Window } from "./windows.ts";

const daily: HeartbeatCheck = {
  type: "heartbeat",
  period: day,
  schedule: null,
  grace: hour,
  max_runtime: null,
  methods: "any",
};
const rules = (spec: HeartbeatCheck): void => {
  heartbeat.rules(spec);
  scheduleRule(spec);
};
const blank: Window = {
  reportedAt: null,
  lastDuration: null,
  failing: false,
  runId: null,
  startedAt: null,
  runOverAt: null,
  dueAt: null,
};
const ping = (kind: Ping["kind"], at: number, more: Partial<Ping> = {}): Ping => ({
  kind,
  at,
  exitCode: null,
  runId: null,
  message: null,
  durationMs: null,
  ...more,
});
/** The window after these pings. */
const by = (now: number) => ({ agentUntil: null, now, zone: "Europe/Berlin" });
const after = (spec: HeartbeatCheck, ...pings: Ping[]): Window =>
  pings.reduce((window, one) => take(spec, window, one).window, blank);

t.test("nothing is expected before the first ping; a success opens a window of period and grace", async (t) => {
  t.equal(downAt(daily, blank), null);
  t.equal(stateOf(true, blank, noon), "new");
  t.equal(downAt(daily, after(daily, ping("log", noon))), null, "a log is no report");
  const up = after(daily, ping("success", noon));
  t.equal(downAt(daily, up), noon + day + hour);
  t.equal(stateOf(true, up, noon + day - 1), "up");
  t.equal(stateOf(true, up, noon + day), "late");
  t.equal(stateOf(false, up, noon), "paused");
});

t.test("a failure is a result at once, also as the first ping, and exit code 0 is none", async (t) => {
  const failed = take(daily, blank, ping("fail", noon, { exitCode: 3 }));
  matchObject(t, failed.verdict, { status: "down", error: "the job failed with exit code 3" });
  t.equal(stateOf(true, failed.window, noon), "down");
  t.equal(downAt(daily, failed.window), noon + day + hour, "the next run is expected");
  t.equal(stateOf(true, take(daily, failed.window, ping("success", noon + minute)).window, noon + minute), "up");
});

t.test("a failure in the job's words, and the time that it took by its own account", async (t) => {
  const run = after(daily, ping("start", noon));
  matchObject(t, take(daily, run, ping("fail", noon + minute, { message: "disk is full", durationMs: 41 })), {
    verdict: { error: "disk is full", durationMs: 41 },
    window: { lastDuration: 41 },
  });
  t.equal(
    take(daily, blank, ping("fail", noon, { exitCode: 3, message: "disk is full" })).verdict?.error,
    "the job failed with exit code 3: disk is full",
  );
});

t.test("start and end are one run; its time limit is a window of its own", async (t) => {
  const spec = { ...daily, max_runtime: hour };
  const first = after(spec, ping("success", noon));
  const running = take(spec, first, ping("start", noon + minute));
  t.equal(running.verdict, null);
  t.equal(stateOf(true, running.window, noon + minute), "running");
  t.equal(downAt(spec, running.window), noon + minute + hour);
  matchObject(t, take(spec, running.window, ping("success", noon + 31 * minute)), {
    verdict: { status: "up", durationMs: 30 * minute },
    window: { startedAt: null, runOverAt: null, lastDuration: 30 * minute, dueAt: noon + 31 * minute + day },
  });
  t.equal(miss(spec, running.window, by(noon + hour)), null);
  const over = miss(spec, running.window, by(noon + minute + hour))!;
  matchObject(t, over.verdict, {
    at: noon + minute + hour,
    status: "down",
    error: "still running 1 h after its start",
  });
  t.equal(miss(spec, over.window, by(noon + day)), null, "said once");
  matchObject(t, take(spec, over.window, ping("success", noon + 2 * hour)).verdict, { durationMs: 119 * minute });
});

t.test("two runs at a time: the end of the older one leaves the newest running", async (t) => {
  const [a, b] = ["0197a000-0000-7000-8000-00000000000a", "0197a000-0000-7000-8000-00000000000b"];
  const both = after(daily, ping("start", noon, { runId: a }), ping("start", noon + minute, { runId: b }));
  const older = take(daily, both, ping("success", noon + 2 * minute, { runId: a }));
  matchObject(t, older, { verdict: { durationMs: null }, window: { startedAt: noon + minute, runId: b } });
  matchObject(t, take(daily, older.window, ping("success", noon + 3 * minute, { runId: b })).verdict, {
    durationMs: 2 * minute,
  });
});

t.test("each missed report is one failure, at the end of its window", async (t) => {
  let window = after(daily, ping("success", noon));
  for (const missed of [1, 2, 3]) {
    const at = noon + missed * day + hour;
    t.equal(miss(daily, window, by(at - 1)), null);
    const found = miss(daily, window, by(at))!;
    matchObject(t, found.verdict, {
      at,
      status: "down",
      error: /^no report, due 2026-11-2\d 14:00 Europe\/Berlin \(last report .* 14:00 E/,
    });
    window = found.window;
  }
  t.ok(window.failing);
});

t.test("a schedule is read in its zone, over both changes of the clocks", async (t) => {
  const nightly: HeartbeatCheck = {
    ...daily,
    period: null,
    schedule: { cron: "30 2 * * *", timezone: "Europe/Berlin" },
  };
  const due = (from: string) => new Date(dueAfter(nightly, Date.parse(from))!).toISOString();
  t.equal(due("2026-03-28T12:00:00Z"), "2026-03-29T01:00:00.000Z", "02:30 does not exist: 03:00");
  t.equal(due("2026-03-29T01:00:00Z"), "2026-03-30T00:30:00.000Z");
  t.equal(due("2026-10-24T12:00:00Z"), "2026-10-25T00:30:00.000Z", "02:30 is twice: once");
  t.equal(due("2026-10-25T00:30:00Z"), "2026-10-26T01:30:00.000Z");
  t.equal(due("2026-03-28T12:00:00Z"), "2026-03-29T01:00:00.000Z", "the same from the cache");
});

t.test("an edit and the end of a pause give a whole window, and nothing before the first ping", async (t) => {
  const old = after(daily, ping("success", noon - 3 * day));
  t.equal(downAt(daily, reopened(daily, old, noon)), noon + day + hour);
  const fresh = after(daily, ping("success", noon - hour));
  t.equal(downAt(daily, reopened(daily, fresh, noon)), noon + day, "a window that is open stays");
  t.equal(downAt(daily, reopened(daily, blank, noon)), null);
});

t.test("a suggestion where the job has another pace", async (t) => {
  const every = (ms: number, count = 12) => Array.from({ length: count }, (_, n) => noon - n * ms);
  t.equal(suggestionFor(daily, every(day)), null);
  t.equal(suggestionFor(daily, every(10 * minute, 5)), null, "too few");
  matchObject(t, suggestionFor(daily, every(10 * minute)), { period: 10 * minute, grace: minute });
  matchObject(t, suggestionFor(daily, every(2 * day)), { period: 2 * day });
});

t.test("the check: one of period and schedule, schedules that come, a default grace", async (t) => {
  const bad = (change: Partial<HeartbeatCheck>, message: RegExp, field: string) =>
    t.throws(() => rules({ ...daily, ...change }), { code: "INVALID_HEARTBEAT", message, field });
  const cron = (text: string, timezone = "UTC") => ({ period: null, schedule: { cron: text, timezone } });
  bad({ period: null }, /either a period or a schedule/, "/period");
  bad({ schedule: { cron: "@daily", timezone: "UTC" } }, /either a period or a schedule/, "/period");
  bad(cron("0 0 30 2 *"), /never comes/, "/schedule/cron");
  bad(cron("61 * * * *"), /at character 1, "61" is no minute \(0-59\)\.$/, "/schedule/cron");
  bad(cron("0 3 */0 * *"), /at character 5, "\*\/0" is no day of month \(1-31\)\.$/, "/schedule/cron");
  bad(cron("0 3  * * mon-xyz"), /at character 10, "mon-xyz" is no day of week \(0-7\)\.$/, "/schedule/cron");
  bad(cron("* * * * * *"), /five fields/, "/schedule/cron");
  bad(cron("2026-11-20T00:00:00Z"), /five fields/, "/schedule/cron");
  bad(cron("@reboot"), /"@reboot" is not a cron schedule/, "/schedule/cron");
  bad(cron("@daily", "Mars/Olympus"), /not an IANA time zone/, "/schedule/timezone");
  for (const text of ["@hourly", "*/5 9-17 * * 1-5", "0 3 L * *"]) rules({ ...daily, ...cron(text) });
  t.equal(withGrace({ ...daily, grace: null }).grace, 144 * minute);
  t.equal(withGrace({ ...daily, period: minute, grace: null }).grace, minute);
  const yearly = { cron: "@yearly", timezone: "UTC" };
  t.equal(withGrace({ ...daily, period: null, schedule: yearly, grace: null }).grace, 720 * hour, "30 days at most");
  t.equal(intervalSecsOf({ ...daily, ...cron("0 9 * * 1-5") }), (3 * day) / 1000, "over a weekend");
  t.equal(intervalSecsOf({ ...daily, period: 10_500 }), 11);
});
