import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { MemoryLimit } from "../run/memory.ts";
import { Stats } from "./stats.ts";
import { FakeClock, httpCheck, outcomeOf, tcpServer, testRunner } from "../testing.ts";
import { family, Histogram } from "./exposition.ts";
import { AgentMetrics, type AgentNumbers } from "./metrics.ts";

t.test("exposition format: escapes, and nothing without a sample", (t) => {
  t.equal(family("gauge", "a", "A number", [{ value: 1.5 }]), "# HELP a A number\n# TYPE a gauge\na 1.5\n");
  t.equal(
    family("counter", "b_total", "One\\two\nthree", [
      { labels: { x: 'a"b\\c\nd', y: "é" }, value: 0 },
      { labels: { x: "", y: "1" }, value: Infinity },
    ]),
    "# HELP b_total One\\\\two\\nthree\n# TYPE b_total counter\n" +
      'b_total{x="a\\"b\\\\c\\nd",y="é"} 0\nb_total{x="",y="1"} +Inf\n',
  );
  t.equal(family("gauge", "c", "None", []), "");
  t.end();
});

t.test("histogram: inclusive bounds, and a count of values above all bounds", (t) => {
  const histogram = new Histogram([0.1, 1]);
  for (const value of [0.1, 0.100001, 1, 7]) histogram.observe(value, "http");
  histogram.observe(0, "tcp");
  t.equal(
    histogram.text("d_seconds", "How long", "kind"),
    [
      "# HELP d_seconds How long",
      "# TYPE d_seconds histogram",
      'd_seconds_bucket{kind="http",le="0.1"} 1',
      'd_seconds_bucket{kind="http",le="1"} 3',
      'd_seconds_bucket{kind="http",le="+Inf"} 4',
      `d_seconds_sum{kind="http"} ${0.1 + 0.100001 + 1 + 7}`,
      'd_seconds_count{kind="http"} 4',
      'd_seconds_bucket{kind="tcp",le="0.1"} 1',
      'd_seconds_bucket{kind="tcp",le="1"} 1',
      'd_seconds_bucket{kind="tcp",le="+Inf"} 1',
      'd_seconds_sum{kind="tcp"} 0',
      'd_seconds_count{kind="tcp"} 1',
      "",
    ].join("\n"),
  );
  const plain = new Histogram([1]);
  plain.observe(0.5);
  t.match(plain.text("e", "E"), /^e_bucket\{le="1"\} 1\ne_bucket\{le="\+Inf"\} 1\ne_sum 0\.5\ne_count 1\n$/m);
  t.end();
});

t.test("counters continue when the log resets its window", (t) => {
  const stats = new Stats();
  stats.throttled = 3;
  stats.reported = 10;
  matchObject(t, stats.take(), { throttled: 3, reported: 10 });
  stats.throttled++;
  matchObject(t, stats.totals(), { throttled: 4, reported: 10, skipped: 0 });
  matchObject(t, stats.take(), { throttled: 1, reported: 0 });
  matchObject(t, stats.totals(), { throttled: 4, reported: 10 });
  t.end();
});

const numbers: AgentNumbers = {
  version: "1.2.3",
  totals: { skipped: 1, missed: 2, throttled: 3, reported: 4, reportFailures: 5, dropped: 6 },
  inFlight: 7,
  assigned: 8,
  spoolWaiting: 9,
  spoolBacklog: 10,
  spoolDropped: 11,
  spoolBytes: null,
  breakersOpen: 12,
  pullFailures: 13,
  pulledAt: null,
  reportedAt: 1_800_000_000_500,
  clockOffsetMs: -1500,
  impaired: true,
  overMemory: false,
};

t.test("runs are counted by kind and status, and timed where a probe ran; gauges are read at the scrape", async (t) => {
  const stats = new Stats();
  const metrics = new AgentMetrics();
  stats.watch = metrics;
  const { port } = await tcpServer(t, (socket) => void socket.end("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
  const runner = testRunner({ stats });
  const check = { ...httpCheck(`http://127.0.0.1:${port}/`) };
  await outcomeOf(runner.run("org", check));
  await outcomeOf(runner.run("org", check));
  await outcomeOf(runner.run("org", { type: "withheld", reason: "no" }));
  runner.run("org", { ...httpCheck("http://127.0.0.1:1/") }).abandon();
  stats.started(3);
  const text = await metrics.text();
  t.match(text, /^sm_agent_checks_total\{kind="http",status="up"\} 2$/m);
  t.match(text, /^sm_agent_checks_total\{kind="withheld",status="error"\} 1$/m);
  t.match(text, /^sm_agent_probe_duration_seconds_count\{kind="http"\} 2$/m);
  t.notMatch(text, /duration_seconds_count\{kind="withheld"\}/, "a run without a probe takes no time");
  t.match(
    text,
    /^sm_agent_start_lag_seconds_bucket\{le="0\.0025"\} 0\nsm_agent_start_lag_seconds_bucket\{le="0\.005"\} 1$/m,
  );
  t.notMatch(text, /sm_agent_in_flight/, "nothing is made up before the agent has started");

  metrics.watch(async () => numbers);
  const lines = (await metrics.text())
    .split("\n")
    .filter((line) => line.startsWith("sm_agent_") && !/^sm_agent_(?:checks|probe|start_lag)/.test(line));
  t.strictSame(lines, [
    `sm_agent_build_info{version="1.2.3",node="${process.version}"} 1`,
    "sm_agent_in_flight 7",
    "sm_agent_assigned 8",
    "sm_agent_throttled_total 3",
    'sm_agent_slots_skipped_total{why="running"} 1',
    'sm_agent_slots_skipped_total{why="late"} 2',
    "sm_agent_breakers_open 12",
    "sm_agent_spool_waiting 9",
    "sm_agent_spool_backlog 10",
    "sm_agent_results_reported_total 4",
    'sm_agent_results_dropped_total{why="spool"} 11',
    'sm_agent_results_dropped_total{why="rejected"} 6',
    "sm_agent_report_failures_total 5",
    "sm_agent_pull_failures_total 13",
    "sm_agent_last_report_timestamp_seconds 1800000000.5",
    "sm_agent_clock_offset_seconds -1.5",
    "sm_agent_impaired 1",
    "sm_agent_over_memory_limit 0",
  ]);
});

t.test("concurrency limit, and no runs while a reason forbids them", async (t) => {
  const stats = new Stats();
  const { port } = await tcpServer(t, () => undefined);
  let reason: string | null = null;
  const runner = testRunner({ stats, maxInflight: 2, refusalReason: () => reason });
  const check = { ...httpCheck(`http://127.0.0.1:${port}/`) };
  const held = [runner.run("org", check), runner.run("org", check)];
  matchObject(t, await outcomeOf(runner.run("org", check)), {
    skip: true,
    measurement: { status: "error", error: "the agent is overloaded: 2 checks are running" },
  });
  held.pop()!.abandon();
  reason = "the agent is over its memory limit";
  matchObject(t, await outcomeOf(runner.run("org", check)), {
    skip: true,
    measurement: { error: "the agent is over its memory limit" },
  });
  t.equal(stats.throttled, 2);
  t.equal(stats.inFlight, 1);
  reason = null;
  held.push(runner.run("org", check));
  t.equal(stats.inFlight, 2);
  for (const run of held) run.abandon();
});

t.test("memory limit: garbage collection first, then no runs, then the process ends", async (t) => {
  const clock = new FakeClock();
  const said: string[] = [];
  let [used, garbage, collections, ends] = [50, 0, 0, 0];
  const limit = new MemoryLimit({
    limitBytes: 100,
    clock,
    log: (level) => void said.push(level),
    rss: () => used + garbage,
    collect: () => {
      collections++;
      garbage = 0;
    },
    hopeless: () => void ends++,
  });
  t.teardown(() => limit.stop());
  await clock.pass(5000);
  t.strictSame([limit.over, collections], [false, 0]);
  garbage = 60;
  await clock.pass(1000);
  t.strictSame([limit.over, collections], [false, 1], "it was garbage");
  [used, garbage] = [80, 30];
  await clock.pass(1000);
  t.strictSame([limit.over, collections], [true, 1], "collected a second ago, it waits");
  await clock.pass(10_000);
  t.strictSame([limit.over, collections, said], [false, 2, ["warn", "info"]]);
  used = 101;
  await clock.pass(1000);
  t.equal(limit.over, true);
  used = 97;
  await clock.pass(10_000);
  t.equal(limit.over, true, "a little room is none");
  used = 95;
  await clock.pass(1000);
  t.equal(limit.over, false);
  used = 100;
  await clock.pass(20_000);
  t.equal(limit.over, false, "at the limit is not over it");
  used = 200;
  await clock.pass(60_000);
  t.equal(ends, 0);
  await clock.pass(30_000);
  t.strictSame([ends, limit.over], [1, true], "once");
  limit.stop();
  const before = collections;
  await clock.pass(60_000);
  t.equal(collections, before);
});
