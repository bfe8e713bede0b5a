import { setTimeout as sleep } from "node:timers/promises";
import t from "tap";
import { day, fakeClock, hour, minute, noon } from "../testing/clock.ts";
import { LastGoodCache } from "./cache.ts";
import { aboutHtml } from "./markdown.ts";
import { banner, componentState, dayCells, type IncidentSpan } from "./states.ts";

const clock = fakeClock();

t.test("how states are named and which one wins", async (t) => {
  t.strictSame(banner(["operational", "operational"]), { state: "operational", label: "All Systems Operational" });
  t.strictSame(banner(["operational", "maintenance"]), { state: "maintenance", label: "Maintenance in progress" });
  t.strictSame(banner(["degraded", "maintenance"]), { state: "degraded", label: "Minor Service Disruption" });
  t.strictSame(banner(["degraded", "partial_outage", "operational"]), {
    state: "partial_outage",
    label: "Partial System Outage",
  });
  t.strictSame(banner(["maintenance", "major_outage", "no_data"]), {
    state: "major_outage",
    label: "Major System Outage",
  });
  t.strictSame(banner(["no_data", "operational"]), { state: "operational", label: "All Systems Operational" });
  t.strictSame(banner(["no_data", "no_data"]), { state: "no_data", label: "No Monitoring Data" });
  t.strictSame(banner([]), { state: "no_data", label: "No Monitoring Data" });

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
  const all = new Set(["2026-11-18", "2026-11-19", "2026-11-20"]);
  const cells = (
    incidents: IncidentSpan[],
    options: { checked?: Set<string>; maintenance?: { start: number; end: number | null }[] } = {},
  ) =>
    dayCells(noon, 3, { incidents, maintenance: options.maintenance ?? [], checkedDays: options.checked ?? all }).map(
      (cell) => [cell.state, cell.downtime_secs],
    );
  const major = (start: number, end: number | null, impact: IncidentSpan["impact"] = "major_outage"): IncidentSpan => ({
    start,
    end,
    severity: "major",
    impact,
  });

  t.strictSame(
    dayCells(noon, 3, { incidents: [], maintenance: [], checkedDays: all }).map((cell) => cell.date),
    ["2026-11-18", "2026-11-19", "2026-11-20"],
    "oldest first, today last",
  );
  t.strictSame(cells([]), [
    ["operational", 0],
    ["operational", 0],
    ["operational", 0],
  ]);
  t.strictSame(cells([], { checked: new Set(["2026-11-20"]) }), [
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
    cells([{ start: noon - hour, end: noon, severity: "minor", impact: "degraded" }]),
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
      { start: noon - minute, end: noon, severity: "critical", impact: "partial_outage" },
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

t.test("a computation that hangs does not keep visitors who have a copy waiting", async (t) => {
  const fallbacks: unknown[] = [];
  const cache = new LastGoodCache<{ n: number }>({
    freshMs: 10_000,
    lastGoodMs: 60_000,
    patienceMs: 20,
    max: 10,
    clock,
    onFallback: (error) => fallbacks.push(error),
  });
  t.strictSame(await cache.get("a", async () => ({ n: 1 })), { n: 1 });
  clock.at += 10_001;
  t.strictSame(await cache.get("a", () => sleep(200, { n: 2 })), { n: 1 });
  t.match(fallbacks, [/no answer within 20 ms/]);
  await sleep(250);
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
    max: 10,
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
  for (const [text, html] of cases) t.equal(aboutHtml(text).html, html, text);
});
