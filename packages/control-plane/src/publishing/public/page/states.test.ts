import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { day, fakeClock, hour, minute, noon } from "../../../testing/clock.ts";
import { LastGoodCache } from "./cache.ts";
import { markdownHtml } from "../../../platform/html/markdown.ts";
import { componentState, dayCells, daysUntil, type History, type IncidentSpan, uptimesOf, worst } from "./states.ts";
import { Coverage, difference, type Interval, intersection, union } from "../../../platform/intervals.ts";
import { textsOf } from "../../languages/service.ts";

const clock = fakeClock();

t.test("names of states, and the worst of several", async (t) => {
  const banner = (...states: Parameters<typeof worst>[0] extends Iterable<infer S> ? S[] : never) =>
    textsOf("en").page.banner[worst(states)];
  t.equal(banner("operational", "operational"), "All Systems Operational");
  t.equal(banner("operational", "maintenance"), "Maintenance in progress");
  t.equal(banner("degraded", "maintenance"), "Minor Service Disruption");
  t.equal(banner("degraded", "partial_outage", "operational"), "Partial System Outage");
  t.equal(banner("maintenance", "major_outage", "no_data"), "Major System Outage");
  t.equal(banner("no_data", "operational"), "All Systems Operational");
  t.equal(banner("no_data", "no_data"), "No Monitoring Data");
  t.equal(banner(), "No Monitoring Data");

  const state = (
    severity: "minor" | "major" | "critical" | null,
    impact: "degraded" | "partial_outage" | "major_outage" = "degraded",
    status: "up" | "unknown" | "down" = "up",
    inMaintenance = false,
  ) => componentState({ inMaintenance, incident: severity === null ? null : { severity, impact }, status });
  t.equal(state(null), "operational");
  t.equal(state(null, "degraded", "down"), "operational", "a failure that is not confirmed is no incident");
  t.equal(state(null, "degraded", "unknown"), "no_data");
  t.equal(state("minor", "major_outage"), "degraded");
  t.equal(state("major", "partial_outage"), "partial_outage");
  t.equal(state("major", "degraded"), "partial_outage", "raised by a person");
  t.equal(state("major", "major_outage"), "major_outage");
  t.equal(state("critical", "partial_outage"), "major_outage");
  t.equal(state("major", "major_outage", "unknown"), "major_outage", "silence does not close an incident");
  t.equal(state("critical", "major_outage", "down", true), "maintenance");
});

t.test("the cells of days", async (t) => {
  const midnight = Date.UTC(2026, 10, 20);
  const days = daysUntil(noon, 3, "UTC");
  const cells = (incidents: IncidentSpan[], { probed = days, maintenance = [] }: Partial<History> = {}) =>
    dayCells(days, { incidents, maintenance, probed }).map((cell) => [cell.state, cell.downtime_secs]);
  const major = (start: number, end: number | null, state: IncidentSpan["state"] = "major_outage"): IncidentSpan => ({
    start,
    end: end ?? noon,
    state,
  });

  t.strictSame(
    days.map((day) => day.date),
    ["2026-11-18", "2026-11-19", "2026-11-20"],
    "oldest first, today last",
  );
  t.strictSame(cells([]), [
    ["operational", 0],
    ["operational", 0],
    ["operational", 0],
  ]);
  t.strictSame(cells([], { probed: days.slice(2) }), [
    ["no_data", 0],
    ["no_data", 0],
    ["operational", 0],
  ]);
  t.strictSame(
    cells([major(midnight - 10 * minute, midnight + 5 * minute)]),
    [
      ["operational", 0],
      ["major_outage", 600],
      ["major_outage", 300],
    ],
    "split at midnight UTC",
  );
  t.strictSame(
    cells([major(midnight - hour, midnight)]),
    [
      ["operational", 0],
      ["major_outage", 3600],
      ["operational", 0],
    ],
    "the end does not belong to it",
  );
  t.strictSame(
    cells([major(noon - 30 * minute, null, "partial_outage")]),
    [
      ["operational", 0],
      ["operational", 0],
      ["partial_outage", 1800],
    ],
    "until now while it lasts",
  );
  t.strictSame(cells([major(midnight - 30 * day, null)]), [
    ["major_outage", 86_400],
    ["major_outage", 86_400],
    ["major_outage", 13 * 3600],
  ]);
  t.strictSame(
    cells([{ start: noon - hour, end: noon, state: "degraded" }]),
    [
      ["operational", 0],
      ["operational", 0],
      ["degraded", 0],
    ],
    "slow is not down",
  );
  t.strictSame(
    cells([
      major(noon - 2 * hour, noon - hour, "partial_outage"),
      { start: noon - minute, end: noon, state: "major_outage" },
    ]),
    [
      ["operational", 0],
      ["operational", 0],
      ["major_outage", 3660],
    ],
    "the worst of the day, all of its downtime",
  );
  t.strictSame(cells([major(midnight, midnight)]), [
    ["operational", 0],
    ["operational", 0],
    ["major_outage", 0],
  ]);
  t.strictSame(
    cells([major(noon - hour, noon)], { maintenance: [{ start: midnight - hour, end: midnight + hour }] }),
    [
      ["operational", 0],
      ["maintenance", 0],
      ["maintenance", 3600],
    ],
    "maintenance dominates",
  );
});

t.test("days of a time zone", (t) => {
  const hours = (timeZone: string, now: string, count: number) =>
    daysUntil(Date.parse(now), count, timeZone).map((one) => [
      one.date,
      new Date(one.start).toISOString().slice(5, 16),
      (one.end - one.start) / hour,
    ]);
  t.strictSame(hours("Europe/Berlin", "2026-10-26T12:00:00Z", 3), [
    ["2026-10-24", "10-23T22:00", 24],
    ["2026-10-25", "10-24T22:00", 25],
    ["2026-10-26", "10-25T23:00", 13],
  ]);
  t.strictSame(hours("Europe/Berlin", "2026-03-30T00:00:00Z", 2), [
    ["2026-03-29", "03-28T23:00", 23],
    ["2026-03-30", "03-29T22:00", 2],
  ]);
  t.strictSame(
    hours("America/Santiago", "2026-09-07T12:00:00Z", 3),
    [
      ["2026-09-05", "09-05T04:00", 24],
      ["2026-09-06", "09-06T04:00", 23],
      ["2026-09-07", "09-07T03:00", 9],
    ],
    "a zone whose clock skips midnight",
  );
  t.strictSame(hours("Pacific/Kiritimati", "2026-11-20T11:00:00Z", 1), [["2026-11-21", "11-20T10:00", 1]]);
  t.equal(daysUntil(noon, 90, "Asia/Kolkata").length, 90);
  t.end();
});

t.test("uptime is checked time without confirmed incidents, maintenance left out", (t) => {
  const end = Date.UTC(2026, 10, 20, 12);
  const days = daysUntil(end, 2, "UTC");
  const start = days[0]!.start;
  const major = { state: "major_outage" } as const;
  const uptime = (history: Partial<History>) =>
    uptimesOf(days, { incidents: [], maintenance: [], probed: union(days), ...history }).at(-1)!;
  t.equal(uptime({}), 100);
  t.equal(uptime({ probed: [] }), null);
  t.equal(uptime({ incidents: [{ start, end: start + 9 * hour, ...major }] }), 75, "9 of 36 hours");
  t.equal(uptime({ incidents: [{ start, end: start + 9 * hour, state: "degraded" }] }), 100);
  t.equal(
    uptime({
      incidents: [{ start, end: start + 9 * hour, ...major }],
      maintenance: [{ start, end: start + 6 * hour }],
    }),
    90,
    "3 of the 30 hours outside the window",
  );
  t.equal(
    uptime({
      incidents: [{ start: start - day, end, ...major }],
      probed: [{ start, end: start + hour }],
    }),
    0,
    "an incident counts while there were checks",
  );
  t.equal(uptime({ maintenance: [{ start: start - day, end: end + day }] }), null);
  t.end();
});

t.test("unions of ranges", (t) => {
  const range = (text: string) =>
    text
      .split(" ")
      .map((one) => one.split("-").map(Number))
      .map(([start, end]) => ({ start: start!, end: end! }));
  t.strictSame(union(range("5-7 1-3 2-4 4-4 7-9 3-3")), range("1-4 5-9"));
  t.strictSame(intersection(range("1-4 6-9"), range("0-2 3-7")), range("1-2 3-4 6-7"));
  t.strictSame(difference(range("1-4 6-9"), range("0-2 3-7")), range("2-3 7-9"));
  t.strictSame(difference(range("1-4"), []), range("1-4"));
  t.end();
});

t.test("what two unions have in common, by every instant", (t) => {
  const ranges = fc.array(fc.tuple(fc.nat(40), fc.nat(6)), { maxLength: 12 });
  const unionOf = (made: [number, number][]) => union(made.map(([start, length]) => ({ start, end: start + length })));
  const instants = (spans: readonly Interval[]) =>
    spans.flatMap(({ start, end }) => Array.from({ length: end - start }, (_, at) => start + at));
  fc.assert(
    fc.property(ranges, ranges, (one, other) => {
      const [a, b] = [unionOf(one), unionOf(other)];
      const inB = new Set(instants(b));
      const common = instants(a).filter((at) => inB.has(at));
      return isDeepStrictEqual(instants(intersection(a, b)), common) && new Coverage(b).within(a) === common.length;
    }),
  );
  t.end();
});

t.test("a hanging computation serves the last good copy without a wait", async (t) => {
  const fallbacks: unknown[] = [];
  const cache = new LastGoodCache<{ n: number }>({
    freshMs: 10_000,
    lastGoodMs: 60_000,
    patienceMs: 20,
    maxBytes: 10_000,
    bytesOf: () => 0,
    clock,
    onFallback: (error) => fallbacks.push(error),
  });
  t.strictSame(await cache.get("a", async () => ({ n: 1 })), { n: 1 });
  clock.at += 10_001;
  let arrive = (_: { n: number }): void => {};
  const late = new Promise<{ n: number }>((settle) => (arrive = settle));
  t.strictSame(await cache.get("a", () => late), { n: 1 });
  matchObject(t, fallbacks, [/no answer within 20 ms/]);
  clock.at += 10_001;
  const never = new Promise<{ n: number }>(() => {});
  t.strictSame(await cache.get("a", () => never), { n: 1 }, "the next visitors do not wait at all");
  t.equal(fallbacks.length, 1);
  arrive({ n: 2 });
  await sleep(1);
  clock.at += 10_001;
  t.strictSame(
    await cache.get("a", async () => Promise.reject(new Error("away"))),
    { n: 2 },
    "what came late is the newer copy",
  );
  const none = new LastGoodCache<{ n: number }>({
    freshMs: 10,
    lastGoodMs: 0,
    patienceMs: 20,
    maxBytes: 10_000,
    bytesOf: () => 0,
    clock,
    onFallback: () => {},
  });
  await none.get("a", async () => ({ n: 1 }));
  clock.at += 11;
  await t.rejects(
    none.get("a", async () => Promise.reject(new Error("away"))),
    { code: "STATUS_DATA_UNAVAILABLE" },
  );
});

t.test("an outage that one key has met delays no other key", async (t) => {
  const cache = new LastGoodCache<{ n: number }>({
    freshMs: 10_000,
    lastGoodMs: 60_000,
    patienceMs: 60_000,
    maxBytes: 10_000,
    bytesOf: () => 0,
    clock,
    isOutage: (error) => String(error).includes("away"),
    onFallback: () => {},
  });
  const good = async () => ({ n: 1 });
  const never = () => new Promise<{ n: number }>(() => {});
  for (const key of ["a", "b"]) await cache.get(key, good);
  clock.at += 10_001;
  t.strictSame(await cache.get("a", async () => Promise.reject(new Error("away"))), { n: 1 });
  t.strictSame(await cache.get("b", never), { n: 1 }, "a computation that would wait for its deadline");
  clock.at += 10_001;
  await cache.get("a", async () => ({ n: 2 }));
  clock.at += 10_001;
  t.strictSame(await cache.get("a", async () => ({ n: 3 })), { n: 3 }, "over with the first success");
});

t.test("the Markdown of the about text", async (t) => {
  const cases: [string, string][] = [
    ["One\ntwo\n\nThree", "<p>One<br>two</p><p>Three</p>"],
    ["- a\n- **b**", "<ul><li>a</li><li><strong>b</strong></li></ul>"],
    ["*em* **strong** `a*b*c`", "<p><em>em</em> <strong>strong</strong> <code>a*b*c</code></p>"],
    [
      "[us](https://a.test/?x=1&y=*2*)",
      '<p><a href="https://a.test/?x=1&amp;y=*2*" rel="nofollow noopener">us</a></p>',
    ],
    ["[x](javascript:alert(1)) [y](//a.test)", "<p>[x](javascript:alert(1)) [y](//a.test)</p>"],
    ['<a href="x">&', "<p>&lt;a href=&quot;x&quot;&gt;&amp;</p>"],
    [
      '[a](https://a.test/"onmouseover="x)',
      '<p><a href="https://a.test/&quot;onmouseover=&quot;x" rel="nofollow noopener">a</a></p>',
    ],
    ["2 * 3 * 4 ** 5", "<p>2 * 3 * 4 ** 5</p>"],
    ["  \n\n ", ""],
  ];
  for (const [text, html] of cases) t.equal(markdownHtml(text).html, html, text);
});
