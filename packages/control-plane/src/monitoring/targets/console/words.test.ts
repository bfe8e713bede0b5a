import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { Explanation } from "../../../alerting/incidents/schema.ts";
import { latestBucket, phasesOf } from "../../results/latency/service.ts";
import { beatsOf, linesOf, missingOf, rangeOf, shadesOf } from "./monitor-page.ts";
import type { MonitorCause, MonitorRow } from "../list/monitors.ts";
import type { MonitorState } from "../schema.ts";
import {
  type Counts,
  detail,
  expiryWords,
  isWaiting,
  overview,
  policyWords,
  resultLines,
  shownState,
  silenceWords,
  throttledWords,
  where,
  why,
} from "./words.ts";

const now = Date.parse("2026-11-20T15:00:00Z");
const since = new Date("2026-11-20T14:02:00.000Z");

function row(name: string, status: MonitorRow["status"], more: Partial<MonitorRow> = {}): MonitorRow {
  const target = {
    name,
    check: { type: "tcp", host: "db.example.org", port: 5432, timeout: 10_000 },
  } as MonitorRow["target"];
  return {
    target,
    status,
    paused: false,
    probed: true,
    notified: true,
    status_since: since,
    last_result_at: since,
    last_error: null,
    details: null,
    expires_at: null,
    members: null,
    open_incident: null,
    ...more,
  };
}

const refused: MonitorRow["open_incident"] = {
  id: "1",
  outage_since: since,
  acknowledged_at: null,
  severity: "major",
  error_sample: "connection refused",
  regions_down: ["a", "b"],
  regions_up: ["c"],
};
const counts = (some: Partial<Record<MonitorState, number>>): Counts => ({
  up: 0,
  degraded: 0,
  down: 0,
  error: 0,
  unknown: 0,
  paused: 0,
  ...some,
});

const said = (worst: MonitorRow[], some: Partial<Counts>) => {
  const {
    lead,
    since: at,
    rest,
    others,
  } = overview({
    items: worst,
    causes: [],
    grouped: { causes: 0, monitors: 0 },
    counts: counts(some),
  });
  return [`${lead}${at === null ? "" : " since 14:02"}${rest}`, others].filter((part) => part !== "").join(" ");
};

t.test("a range of time: RFC 3339 or as a form sends it, a minute at least, never in the future", async (t) => {
  const read = (from: string, to: string) => rangeOf({ from, to }, now);
  matchObject(t, read("2026-11-20T10:00:00+01:00", "2026-11-20T10:00"), {
    fixed: true,
    from: Date.parse("2026-11-20T09:00:00Z"),
    to: Date.parse("2026-11-20T10:00:00Z"),
  });
  t.equal(read("2026-11-20T10:00", "2027-01-01T00:00").to, now);
  for (const [from, to] of [
    ["2026-11-20T10:00", "2026-11-20T10:00"],
    ["2026-11-20T10:00", "2026-11-20T09:00"],
    ["2020-01-01T00:00", "2026-11-20T09:00"],
    ["yesterday", "2026-11-20T09:00"],
    ["2026-13-45T10:00", "2026-11-20T09:00"],
  ] as const)
    matchObject(t, read(from, to), { fixed: false, key: "24h", from: now - 86_400_000, to: now }, from);
});

t.test("the sentence on top names what failing monitors share", async (t) => {
  const cause = (value: string, count: number, more: Partial<MonitorCause> = {}): MonitorCause => ({
    cause: { kind: "host", value },
    total: null,
    acknowledged: false,
    critical: false,
    rank: 1,
    waiting: count,
    key: `host:${value}`,
    count,
    state: "down",
    states: { down: 0, error: 0, degraded: 0, [more.state ?? "down"]: count },
    since,
    error: "connection refused",
    sameError: true,
    exampleId: "",
    names: ["A", "B", "C"],
    ...more,
  });
  const words = (causes: MonitorCause[], items: MonitorRow[], some: Partial<Counts>, all = causes.length): string => {
    const monitors = causes.reduce((sum, one) => sum + one.count, 0);
    const it = overview({ items, causes, grouped: { causes: all, monitors }, counts: counts(some) });
    return `${it.lead} since 14:02${it.rest} ${it.others}`;
  };
  t.equal(
    words([cause("db-1.example.org", 880)], [], { down: 880, up: 1120 }),
    "db-1.example.org: 880 monitors are down since 14:02: connection refused. 1,120 monitors are up.",
  );
  const payments = cause("payments", 5, { cause: { kind: "tag", value: "payments" }, state: "degraded", error: null });
  t.equal(
    words([cause("db-1", 9, { sameError: false }), payments], [row("Docs", "down"), row("Up", "up")], {
      down: 10,
      degraded: 5,
      up: 1,
      paused: 2,
    }),
    "db-1: 9 monitors are down since 14:02: mostly connection refused. Tag payments: 5 monitors are degraded. " +
      "1 other monitor fails: Docs. 1 monitor is up, 2 are paused.",
  );
  t.match(words([cause("a", 2), cause("b", 2), cause("c", 2), cause("d", 2)], [], { down: 20 }, 9), "6 more causes.");
  const mixed = cause("db-1", 6, { states: { down: 1, error: 2, degraded: 3 } });
  const tagged = cause("pay", 3, {
    cause: { kind: "tag", value: "pay" },
    total: 4,
    state: "error",
    states: { down: 0, error: 2, degraded: 1 },
  });
  t.equal(
    words([mixed, tagged], [], { down: 1, error: 4, degraded: 4 }),
    "db-1: 1 monitor is down since 14:02, 2 cannot be checked, 3 are degraded: connection refused. " +
      "Tag pay: 2 of 4 monitors cannot be checked, 1 is degraded. ",
    "members in other states are said apart",
  );
});

t.test("the sentence on top of the list", async (t) => {
  const down = row("Checkout API", "down", { open_incident: refused });
  t.equal(
    said([down], { down: 1, degraded: 1, unknown: 1, up: 5 }),
    "Checkout API is down since 14:02 in 2 of 3 regions: connection refused. 1 monitor is degraded, 1 has " +
      "no data, 5 are up.",
  );
  t.equal(
    said([down, row("B", "down"), row("C", "down")], { down: 5, up: 2, paused: 1 }),
    "5 monitors are down: Checkout API, B, C and 2 more. 2 monitors are up, 1 is paused.",
  );
  t.equal(
    said([row("Search", "degraded", { last_error: "rate-limited 503" })], { degraded: 1, up: 7 }),
    "Search is degraded since 14:02: 503 Service Unavailable. 7 monitors are up.",
  );
  t.equal(
    said([row("Edge", "unknown", { last_error: "old news" })], { unknown: 1 }),
    "Edge has no data since 14:02.",
    "an old error says nothing about now",
  );
  t.equal(
    said([row("New", "unknown", { last_result_at: null })], { unknown: 1, up: 1 }),
    "New: pending first check. 1 monitor is up.",
  );
  t.equal(said([row("A", "up")], { up: 8 }), "All 8 monitors are up.");
  t.equal(said([row("A", "up")], { up: 1 }), "The only monitor is up.");
  t.equal(said([row("A", "up")], { up: 2, paused: 1 }), "2 monitors are up, 1 paused.");
  t.equal(said([row("A", "up", { paused: true })], { paused: 3 }), "All 3 monitors are paused.");
});

t.test("a region from which nothing is checked", async (t) => {
  const said = (why: "network" | "agents" | "none"): string =>
    Object.values(silenceWords({ name: "Frankfurt", why })).join(" since 14:02");
  t.equal(
    said("network"),
    "The network of the agent in Frankfurt is down since 14:02. Failed checks from there do not count " +
      "until it is back.",
  );
  t.match(said("agents"), /^No checks run from Frankfurt since 14:02: its agent is offline\. /);
  t.match(said("none"), /no agent has joined it yet\. Start one with sm-agent run\.$/);
});

t.test("a row", async (t) => {
  t.equal(detail(row("A", "down", { open_incident: refused }), now), "Connection refused in 2 of 3 regions");
  t.match(detail(row("A", "error", { last_error: "circuit_open" }), now), /^Not tried: .* failed \(circuit_open\)/);
  t.equal(detail(row("A", "up", { last_error: "old" }), now), "db.example.org:5432");
  t.equal(detail(row("A", "down", { paused: true, last_error: "old" }), now), "db.example.org:5432");
  t.equal(shownState(row("A", "down", { paused: true })), "paused");
  t.ok(isWaiting(row("A", "unknown", { last_result_at: null })));
  t.notOk(isWaiting(row("A", "unknown", { last_result_at: null, paused: true })));
  t.notOk(isWaiting(row("A", "unknown", { last_result_at: null, probed: false })), "nothing checks it");
  t.match(detail(row("A", "unknown", { probed: false }), now), /the operator has disabled all of its regions/);
  const certificate = row("A", "up", {
    target: { name: "A", check: { type: "tls_cert", host: "shop.example.org", server_name: null, port: 443 } },
    details: {
      days_remaining: 80,
      not_after: "2027-02-04T12:00:00.000Z",
      subject_common_name: null,
      issuer_common_name: "R11",
    },
  } as Partial<MonitorRow>);
  t.equal(
    detail(certificate, Date.parse("2026-11-22T03:00:00Z")),
    "certificate of shop.example.org · Expires in 74 days, on 4 February 2027, issued by R11",
    "counted from now, not from the run",
  );
  t.equal(expiryWords(row("A", "up"), 0), null);
  t.equal(
    expiryWords(certificate, Date.parse("2027-02-06T13:00:00Z")),
    "Expired 2 days ago, on 4 February 2027, issued by R11",
  );
  t.match(throttledWords(2), /checker\.per_host_max_inflight allows \(2\)/);
  t.equal(where({ regions_down: ["a"], regions_up: [] }), "", "one region needs no words");
});

t.test("why", async (t) => {
  const votes = (regions: [string, "failing" | "passing" | "none", boolean][]) =>
    ({
      alert_confirmations: 2,
      regions_needed: 2,
      regions_live: 3,
      regions: regions.map(([region, vote, live]) => ({ region, vote, live })),
    }) as Explanation;
  t.equal(
    why(
      votes([
        ["frankfurt", "failing", true],
        ["virginia", "failing", true],
        ["singapore", "passing", true],
      ]),
      "connection refused.",
      (region) => region.charAt(0).toUpperCase() + region.slice(1),
    ),
    "Frankfurt and Virginia failed 2 consecutive checks: connection refused. Singapore still passes.",
  );
  t.equal(
    why(
      votes([
        ["a", "passing", true],
        ["b", "none", false],
      ]),
      null,
      (region) => region,
    ),
    "a passes. b has no recent data.",
  );
  t.equal(policyWords("majority", votes([])), "Down when 2 of 3 agree");
  t.equal(policyWords({ count: 2 }, null), "Down when 2 regions agree");
});

t.test("the numbers of a monitor's page", async (t) => {
  const bucket = (samples: number, avg: number) => ({
    t: 0,
    p50: 1,
    p95: 2,
    p99: 3,
    avg,
    dns: 1,
    connect: 2,
    tls: 3,
    ttfb: 4,
    samples,
  });
  t.equal(phasesOf([bucket(0, 9)]), null);
  t.same(
    phasesOf([bucket(1, 12), bucket(3, 16), bucket(0, 999)]),
    { dns: 1, connect: 2, tls: 3, ttfb: 4, rest: 5 },
    "weighted by samples, gaps left out",
  );
  t.equal(latestBucket([bucket(1, 1), bucket(2, 2), bucket(0, 3)])?.avg, 2);
  t.same(
    [{}, { range: "7d" }, { range: "nonsense" }].map((query) => rangeOf(query, now).key),
    ["24h", "7d", "24h"],
  );
  const [open] = shadesOf(
    [{ incident_id: "i", started_at: since, ended_at: null, state: "degraded", error_sample: "slow" } as never],
    since.getTime() + 1000,
  );
  const shade = { from: since.getTime(), to: since.getTime() + 1000, kind: "degraded", title: "Degraded: slow" };
  t.same(open, { ...shade, href: "/incidents/i" });
  const points = (samples: number[]) => samples.map((count, at) => ({ ...bucket(count, 1), t: 60_000 * at }));
  const byRegion = {
    bucket_seconds: 60,
    regions: [
      { region: "eu", buckets: points([1, 1, 1, 1, 1]) },
      { region: "us", buckets: points([1, 0, 0, 0, 0]) },
    ],
  };
  const days = [
    { at: 0, state: "partial" as const, downSecs: 1560, regions: [] },
    { at: 1, state: "up" as const, imported: true as const, regions: [] },
  ];
  t.same(
    beatsOf(days, { kind: "days", kinds: ["hours", "days"], isProbed: true, nameOf: String }).items.map(
      ({ word }) => word,
    ),
    ["Down 26 min", "Up, imported"],
  );
  t.same(missingOf(byRegion.regions[0]!.buckets, byRegion), ["us"]);
  t.same(
    linesOf(points([2, 1, 1]), byRegion, "p95", (region) => region.toUpperCase()),
    [
      { name: "EU", values: [2, 2, 2] },
      { name: "US", values: [2, null, null] },
    ],
  );
});

t.test("runs that an open circuit breaker refused are one line", (t) => {
  const run = (minute: number, error: string | null, region = "eu") => ({
    status: error === null ? "up" : "down",
    error,
    region,
    timestamp: `2026-11-20T12:${minute}:00.000Z`,
  });
  const [up, first, down, second, other, passed, third] = [
    run(16, null, "ap"),
    run(15, "circuit_open"),
    run(14, "connection refused"),
    run(13, "circuit_open"),
    run(12, "circuit_open", "us"),
    run(11, null),
    run(10, "circuit_open"),
  ] as const;
  t.strictSame(resultLines([up, first, down, second, other, passed, third]), [
    { one: up, refused: null },
    { one: first, refused: { count: 3, since: other.timestamp, regions: ["eu", "us"] } },
    { one: down, refused: null },
    { one: passed, refused: null },
    { one: third, refused: { count: 1, since: third.timestamp, regions: ["eu"] } },
  ]);
  t.strictSame(resultLines([]), []);
  t.end();
});
