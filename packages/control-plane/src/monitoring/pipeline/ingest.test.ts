import { randomBytes } from "node:crypto";
import { text as readText } from "node:stream/consumers";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { allAbilities } from "@statusmesh/shared/checks/abilities";
import { validate } from "@statusmesh/shared/schema/validate";
import { Check } from "../targets/schema.ts";
import { setTimeout as sleep } from "node:timers/promises";
import { makeSealer } from "../../platform/crypto/seal.ts";
import type { FailureSnapshot } from "@statusmesh/shared/protocol/failure-snapshot";
import { type AgentResult, protocolVersion, ResultsRequest } from "@statusmesh/shared/protocol/agent-protocol";
import { newId } from "@statusmesh/shared/ids";
import { nextSlot, phaseMs, secondTry, slotAtOrAfter } from "@statusmesh/shared/schedule";
import type { AgentCtx, Ctx } from "../../platform/context.ts";
import type { Notice, RoundLine } from "../../alerting/channels/sending/content.ts";
import { messageText } from "../../alerting/channels/sending/message.ts";
import { openHub } from "../../platform/db/notify.ts";
import { ensurePartitions } from "../../platform/db/distributed/partitions.ts";
import { lockStates } from "../../alerting/incidents/evidence/queries.ts";
import { acknowledgeIncident } from "../../alerting/incidents/lifecycle/service.ts";
import { explainIncident } from "../../alerting/incidents/explanation/service.ts";
import { incidentsCsv, listIncidents } from "../../alerting/incidents/service.ts";
import { listSnapshots, purgeSnapshots, resealSnapshots } from "../../alerting/incidents/timeline/service.ts";
import { sendReminders } from "../../alerting/incidents/escalation/reminders.ts";
import { issueFreeSlot } from "../results/slots/engine.ts";
import { latencySeries } from "../results/latency/service.ts";
import { listPeriods } from "../results/history/service.ts";
import { listResults, throttledTargets, uptime } from "../results/service.ts";
import { bulkAction } from "../targets/bulk/bulk.ts";
import { createTarget, updateTarget } from "../targets/write/service.ts";
import { deleteTarget, getTarget, listTargets } from "../targets/service.ts";
import { listMonitors } from "../targets/list/service.ts";
import { day, hour, minute, noon, second, until } from "../../testing/clock.ts";
import { addIncident, admit, agentResult, webhookTo } from "../../testing/scene.ts";
import { newAgent, newOrg, openWorld, refusal } from "../../testing/world.ts";
import { pull } from "./assign.ts";
import { retentionMs } from "./admission.ts";
import { openIngest } from "./ingest.ts";

const { sql, pool, clock, log, system } = await openWorld(t);
const [eu, us] = [await newAgent(system, "eu"), await newAgent(system, "us")];
const ctx = await newOrg(system);
const hook = await webhookTo(ctx, "https://hooks.example.org/");

const prepared: string[] = [];
const ingest = openIngest(async (days) => {
  prepared.push(...days);
  for (const one of days) await ensurePartitions(sql, new Date(one), new Date(one));
});
const report = (agent: AgentCtx, results: readonly AgentResult[]) =>
  ingest(agent, { protocol: protocolVersion, results: [...results], runs: [] });
/** Reports results of slots that the control plane issued. */
const send = async (agent: AgentCtx, results: readonly AgentResult[]) => {
  await admit(system, agent.region, results);
  return await report(agent, results);
};
const counts = (stored: number, duplicates: number, dropped_future: number, dropped_unassigned: number) => ({
  stored,
  duplicates,
  dropped_future,
  dropped_unassigned,
  dropped_off_schedule: 0,
  rechecks: [] as string[],
});

async function newMonitor(changes: object = {}): Promise<string> {
  const check = { type: "tcp", host: "db.example.org", port: 5432, timeout: 10_000 } as const;
  return (
    await createTarget(ctx, {
      name: "Database",
      check,
      region_policy: "any",
      alerts: [{ channel_id: hook }],
      ...changes,
    })
  ).id;
}
/** Runs one second apart, the last one now: `F` is down, `P` is up, `D` is degraded. */
const runs = (id: string, verdicts: string) =>
  [...verdicts].map((verdict, at) =>
    agentResult(id, clock.now() - (verdicts.length - 1 - at) * second, {
      status: verdict === "P" ? "up" : verdict === "D" ? "degraded" : "down",
    }),
  );
const incidentsOf = async (id: string) =>
  (await listIncidents(ctx, { state: "all", target_id: id, limit: 50, offset: 0 })).items;
const noticesOf = async (id: string) =>
  (
    await sql<{ reason: string; seq: number }[]>`
      select d.reason, d.seq from deliveries d join incidents i on i.id = d.incident_id where i.target_id = ${id}
      order by d.created_at, d.id`
  ).map(({ reason, seq }) => `${reason} ${seq}`);
const stored = async (id: string) =>
  await sql<
    { scheduled_at: Date; region: string; status: string }[]
  >`select scheduled_at, region, status from results where target_id = ${id} order by scheduled_at, region`;
const stateOf = async (id: string) =>
  (
    await sql<
      {
        status: string;
        status_until: Date | null;
        status_since: Date | null;
        last_result_at: Date | null;
        last_error: string | null;
        circuit_open: boolean;
      }[]
    >`
  select status, status_until, status_since, last_result_at, last_error, circuit_open from target_states
  where target_id = ${id}`
  )[0]!;

t.beforeEach(() => {
  clock.at = noon;
});

t.test("every result is in exactly one count, and a batch sent twice changes nothing", async (t) => {
  const id = await newMonitor();
  const elsewhere = await newMonitor();
  await sql`delete from target_regions where target_id = ${elsewhere} and region_id = 'eu'`;
  const now = clock.now();
  const good = [
    agentResult(id, now - 5 * second),
    agentResult(id, now + 5 * minute),
    agentResult(id, now - retentionMs + 1),
  ];
  const batch = [
    ...good,
    agentResult(id, now - 5 * second, { status: "down" }),
    agentResult(id, now + 5 * minute + 1),
    agentResult(id, now - retentionMs),
    agentResult(newId(), now),
    agentResult(elsewhere, now),
  ];
  t.strictSame(await send(eu, batch), counts(3, 1, 2, 2));
  t.strictSame(await send(eu, batch), counts(0, 4, 2, 2));
  t.strictSame(
    [...(await stored(id))].map((row) => [row.scheduled_at.getTime(), row.region, row.status]),
    [
      [now - retentionMs + 1, "eu", "up"],
      [now - 5 * second, "eu", "up"],
      [now + 5 * minute, "eu", "up"],
    ],
    "of the same key twice the first counts",
  );
  const days = ["2026-11-20", "2026-08-22"];
  t.strictSame(prepared, [...days, ...days], "of each report");
  t.strictSame(
    await send(us, [agentResult(id, now - 5 * second)]),
    counts(1, 0, 0, 0),
    "the region is the token's: the same slot of another region is another result",
  );
  t.strictSame(await send(eu, []), counts(0, 0, 0, 0));
  t.strictSame(await send(eu, [agentResult(newId(), now)]), counts(0, 0, 0, 1));
  matchObject(t, await refusal(t, () => ingest(eu, { protocol: protocolVersion + 1, results: [], runs: [] })), {
    code: "AGENT_PROTOCOL_MISMATCH",
  });
  matchObject(t, await incidentsOf(id), []);
});

t.test("what a result holds is stored as it was sent", async (t) => {
  const id = await newMonitor();
  const error = 'said "no", {braces}, \\ and \u2028 and NULL';
  const sent = agentResult(id, clock.now(), {
    timestamp: clock.now() + 7,
    status: "degraded",
    error,
    http_status: 503,
    response_size: 0,
    dns_ms: 0.25,
    connect_ms: null,
    tls_ms: 12.5,
    ttfb_ms: 0,
    total_ms: 86_400_000,
    diagnosis: "rate_limited::60",
  });
  await send(eu, [sent]);
  const [row] = await sql`select * from results where target_id = ${id}`;
  const { scheduled_at: slot, timestamp: at, ...rest } = sent;
  t.strictSame(
    { ...row },
    {
      ...rest,
      scheduled_at: new Date(slot),
      timestamp: new Date(at),
      region: "eu",
      details: null,
      cause: null,
      recheck: false,
    },
  );
  matchObject(t, await stateOf(id), { last_error: error });
});

t.test("the certificate of a monitor over TLS is kept with the target, from its newest run", async (t) => {
  const id = await newMonitor({
    check: validate(Check, { type: "http", url: "https://shop.example.org/" }),
  });
  const tcp = await newMonitor({
    check: { type: "tcp", host: "shop.example.org", port: 443, tls: "tls", timeout: 10_000 },
  });
  const expiry = async (of = id) => {
    const [row] = await sql<{ expires_at: Date | null; details: unknown }[]>`
      select expires_at, details from target_states where target_id = ${of}`;
    return [row!.expires_at?.getTime() ?? null, row!.details];
  };
  const until = (days: number) => ({ http: { certificate_not_after: noon + days * 86_400_000 } });
  await send(eu, [agentResult(id, noon, until(10)), agentResult(tcp, noon, until(10))]);
  t.strictSame(await expiry(), [noon + 10 * 86_400_000, null]);
  t.strictSame(await expiry(tcp), [noon + 10 * 86_400_000, null], "of any kind");
  await send(eu, [agentResult(id, noon + minute, { status: "down" })]);
  t.strictSame(await expiry(), [noon + 10 * 86_400_000, null], "a failing handshake reads none");
  await send(eu, [agentResult(id, noon + 2 * minute, until(90))]);
  await send(eu, [agentResult(id, noon - minute, until(10))]);
  t.strictSame(await expiry(), [noon + 90 * 86_400_000, null], "an older run changes nothing");
  await sql`delete from targets where id in (${id}, ${tcp})`;
});

t.test("a target shows the warnings of the newest run of each of its regions", async (t) => {
  const id = await newMonitor();
  const shown = async () => (await getTarget(ctx, id)).warnings;
  t.strictSame(await shown(), [], "before any run");
  await send(eu, [agentResult(id, noon, { warnings: ["b", "a"] }), agentResult(id, noon - minute)]);
  t.strictSame(await shown(), ["a", "b"]);
  await send(us, [agentResult(id, noon, { status: "down", warnings: ["c", "a"] })]);
  t.strictSame(await shown(), ["a", "b", "c"], "of each region, each once");
  await send(eu, [agentResult(id, noon - 2 * minute, { warnings: ["late"] })]);
  await send(eu, [agentResult(id, noon + minute, { skip: true, status: "error", error: "busy" })]);
  t.strictSame(await shown(), ["a", "b", "c"], "neither a late run nor one that has seen nothing changes them");
  t.strictSame((await listTargets(ctx, { limit: 500, offset: 0 })).items.find((one) => one.id === id)?.warnings, [
    "a",
    "b",
    "c",
  ]);
  await send(eu, [agentResult(id, noon + 2 * minute)]);
  t.strictSame(await shown(), ["a", "c"]);
  await sql`delete from target_regions where target_id = ${id} and region_id = 'us'`;
  t.strictSame(await shown(), [], "a region that probes it no longer");
  await sql`insert into target_regions (target_id, region_id) values (${id}, 'us')`;
  await send(us, [agentResult(id, noon + minute)]);
  const [row] = await sql`select warnings from target_states where target_id = ${id}`;
  t.equal(row!["warnings"], null);
  await sql`delete from targets where id = ${id}`;
});

t.test(
  "the response of the first failed run of an incident is kept in each region, whatever comes in what order",
  async (t) => {
    const snapshot = (body: string | null = "busy", changes: Partial<FailureSnapshot> = {}): FailureSnapshot => ({
      status_line: "HTTP/1.1 503 Service Unavailable",
      headers: [{ name: "Server", value: "nginx" }],
      headers_omitted: 0,
      body,
      body_state: body === null ? "none" : "complete",
      ...changes,
    });
    const website = async (changes: object = {}) =>
      await newMonitor({ check: validate(Check, { type: "http", url: "https://snapshots.example.org/" }), ...changes });
    const failed = (id: string, secondsAgo: number, body: string | null = "busy") =>
      agentResult(id, clock.now() - secondsAgo * second, { status: "down", snapshot: snapshot(body) });
    const rows = async (id: string) =>
      (
        await sql<{ region: string; ago: number }[]>`
        select region, (extract(epoch from ${new Date(clock.now())}::timestamptz - slot))::int as ago
        from failure_snapshots where target_id = ${id} order by slot, region`
      ).map(({ region, ago }) => `${region} ${ago}`);
    const shown = async (id: string) => {
      const [incident] = await incidentsOf(id);
      return (await listSnapshots(ctx, incident!.id)).map(({ region, body }) => `${region} ${body}`);
    };

    await t.test("the first and the latest of the incident stay; a duplicate batch changes nothing", async (t) => {
      const id = await website();
      const first = failed(id, 40, "first");
      await send(eu, [first]);
      t.strictSame(await rows(id), ["eu 40"], "kept before there is an incident");
      await send(eu, [failed(id, 30, "second")]);
      await send(eu, [failed(id, 20, "third"), first, failed(id, 10, "fourth")]);
      await send(us, [failed(id, 25, "over there"), failed(id, 15, "later")]);
      t.strictSame(await rows(id), ["eu 40", "us 25", "us 15", "eu 10"]);
      t.strictSame(await shown(id), ["eu first", "eu fourth", "us over there", "us later"]);
      const [{ content }] = (await sql`select content from failure_snapshots where target_id = ${id}`) as unknown as [
        { content: string },
      ];
      t.match(content, /^sealed:1:/);
      await send(eu, [agentResult(id, clock.now() - 5 * second), agentResult(id, clock.now() - 4 * second)]);
      await send(us, [agentResult(id, clock.now() - 5 * second), agentResult(id, clock.now() - 4 * second)]);
      clock.at += hour;
      await send(eu, [failed(id, 20, "another day"), failed(id, 10, "another hour")]);
      const both = ["eu 3640", "us 3625", "us 3615", "eu 3610", "eu 20", "eu 10"];
      t.strictSame(await rows(id), both, "two for each incident and region");
    });

    await t.test("of an incident that reopens: the first, the start of each outage, and the latest", async (t) => {
      const id = await website();
      for (const outage of ["one", "two", "three"]) {
        await send(eu, [failed(id, 50, `${outage}: start`), failed(id, 40, `${outage}: middle`)]);
        await send(eu, [failed(id, 30, `${outage}: end`)]);
        await send(eu, [agentResult(id, clock.now() - 20 * second), agentResult(id, clock.now() - 10 * second)]);
        clock.at += 60 * second;
      }
      t.equal((await incidentsOf(id)).length, 1, "it reopens");
      t.strictSame(await shown(id), ["eu one: start", "eu two: start", "eu three: start", "eu three: end"]);
    });

    await t.test("a late run that is earlier replaces the stored one", async (t) => {
      const id = await website();
      await send(eu, [failed(id, 30, "second"), failed(id, 20, "third")]);
      t.strictSame(await shown(id), ["eu second", "eu third"]);
      await send(eu, [failed(id, 40, "first")]);
      t.strictSame(await shown(id), ["eu first", "eu third"]);
      t.strictSame(await rows(id), ["eu 40", "eu 20"]);
    });

    await t.test("without an incident a streak keeps its first one, and old streaks the newest", async (t) => {
      const id = await website({ alert_confirmations: 10 });
      for (const ago of [90, 80, 70, 60]) await send(eu, [failed(id, ago)]);
      t.strictSame(await rows(id), ["eu 90", "eu 70", "eu 60"]);
      await send(eu, [agentResult(id, clock.now() - 50 * second)]);
      await send(eu, [failed(id, 40)]);
      await send(eu, [failed(id, 30)]);
      t.strictSame(await rows(id), ["eu 40", "eu 30"]);
    });

    await t.test("no run that passes, is skipped, has nothing to do with HTTP, or is not the agent's", async (t) => {
      const [id, quiet, tcp] = [
        await website(),
        await website({
          check: validate(Check, { type: "http", url: "https://snapshots.example.org/", capture_failures: false }),
        }),
        await newMonitor(),
      ];
      const elsewhere = await website();
      await sql`delete from target_regions where target_id = ${elsewhere} and region_id = 'eu'`;
      const now = clock.now();
      await send(eu, [
        agentResult(id, now - second, { status: "up", snapshot: snapshot() }),
        agentResult(id, now - 2 * second, { status: "down", skip: true, snapshot: snapshot() }),
        failed(quiet, 1),
        failed(tcp, 1),
        failed(elsewhere, 1),
        agentResult(id, now - 40 * day, { status: "down", snapshot: snapshot() }),
      ]);
      for (const each of [id, quiet, tcp, elsewhere]) t.strictSame(await rows(each), []);
    });

    await t.test("an agent that lies stores no more than the bound, and no control characters", async (t) => {
      const id = await website();
      const large = snapshot("\u202e".repeat(1024), {
        headers: Array.from({ length: 40 }, () => ({ name: "n".repeat(100), value: "v".repeat(500) })),
      });
      const request = (one: object) => ({
        protocol: protocolVersion,
        results: [{ ...agentResult(id, clock.now() - 30 * second, { status: "down" }), snapshot: one }],
        runs: [],
      });
      for (const wrong of [
        { ...large, body: "x".repeat(1025) },
        { ...large, status_line: "x".repeat(201) },
        { ...large, headers: [...large.headers, { name: "a", value: "b" }] },
        { ...large, headers: [{ name: "a", value: "v".repeat(501) }] },
        { ...large, more: 1 },
        { ...large, body_state: "other" },
      ])
        t.throws(() => validate(ResultsRequest, request(wrong)), { name: "AppError" });
      const { results } = validate(ResultsRequest, request(large));
      await send(eu, [...results, failed(id, 20)]);
      const [incident] = await incidentsOf(id);
      const [kept] = await listSnapshots(ctx, incident!.id);
      t.equal(kept!.headers.length, 6);
      t.equal(kept!.headers_omitted, 34);
      t.equal(kept!.body_state, "truncated");
      t.notMatch(kept!.body, /\p{C}/u);
    });

    await t.test(
      "members with the scope see them; another organisation, other kinds of readers, old ones: no",
      async (t) => {
        const id = await website();
        await send(eu, [failed(id, 40), failed(id, 30)]);
        const [incident] = await incidentsOf(id);
        t.equal((await listSnapshots({ ...ctx, role: "member" }, incident!.id)).length, 2);
        matchObject(t, await refusal(t, () => listSnapshots({ ...ctx, scopes: new Set() }, incident!.id)), {
          code: "INSUFFICIENT_SCOPE",
        });
        const other = await newOrg(system);
        matchObject(t, await refusal(t, () => listSnapshots(other, incident!.id)), { code: "INCIDENT_NOT_FOUND" });
        const edit = (capture_failures: boolean) => updateTarget(ctx, id, { check: { capture_failures } });
        await edit(false);
        t.strictSame(await shown(id), [], "not shown where the monitor keeps none any more");
        await edit(true);
        t.equal((await shown(id)).length, 2);
        clock.at += 30 * day + hour;
        t.strictSame(await shown(id), [], "not shown after 30 days, before the purge");
        t.ok((await purgeSnapshots(system)) >= 1);
        t.strictSame(await rows(id), []);
        clock.at = noon;
        await send(eu, [failed(id, 10)]);
        t.equal((await rows(id)).length, 1);
        await edit(false);
        t.ok((await purgeSnapshots(system)) >= 1, "purged where the monitor keeps none any more");
        await edit(true);
        await send(eu, [failed(id, 5)]);
        await deleteTarget(ctx, id);
        t.strictSame(await rows(id), [], "deleted with the target");
      },
    );

    await t.test("rotate-kek seals them anew; one that does not open is left out", async (t) => {
      const id = await website();
      await send(eu, [failed(id, 40), failed(id, 30)]);
      const moved = { ...system, sealer: makeSealer(randomBytes(32)) };
      const result = await resealSnapshots(moved, null, 1000);
      t.ok(result.failed.length >= 1, "under an unknown key nothing is touched");
      t.equal(result.changed, 0);
      t.strictSame(await shown(id), ["eu busy", "eu busy"]);
      const [incident] = await incidentsOf(id);
      t.strictSame(await listSnapshots({ ...ctx, sealer: moved.sealer }, incident!.id), []);
    });
  },
);

t.test("details are stored for kinds that have them, and the newest stay with the target", async (t) => {
  const check = {
    type: "tls_cert",
    host: "shop.example.org",
    port: 443,
    server_name: null,
    warn_days: 14,
    critical_days: 7,
    timeout: 10_000,
  };
  const id = await newMonitor({ check, interval: 3600 });
  const other = await newMonitor();
  const details = (days: number, change: object = {}) => ({
    days_remaining: days,
    not_after: new Date(noon + days * 86_400_000).toISOString(),
    subject_common_name: 'said "no", {braces}, \\ and NULL',
    issuer_common_name: null,
    ...change,
  });
  const newest = async (of: string) => {
    const [row] = await sql<{ details: unknown; expires_at: Date | null }[]>`
      select details, expires_at from target_states where target_id = ${of}`;
    return { ...row };
  };
  const storedDetails = async (of: string) =>
    (await sql<{ details: unknown }[]>`select details from results where target_id = ${of} order by scheduled_at`).map(
      (row) => row.details,
    );

  await send(eu, [
    agentResult(id, noon, { details: details(74) }),
    agentResult(id, noon - second, { details: details(75) }),
    agentResult(id, noon + second),
    agentResult(other, noon, { details: details(74) }),
  ]);
  t.strictSame(await storedDetails(id), [details(75), details(74), null]);
  t.strictSame(await newest(id), { details: details(74), expires_at: new Date(noon + 74 * 86_400_000) });
  t.strictSame(await storedDetails(other), [null], "a kind without details has none");
  t.strictSame(await newest(other), { details: null, expires_at: null });

  await send(eu, [agentResult(id, noon - minute, { details: details(80) })]);
  matchObject(t, await newest(id), { details: { days_remaining: 74 } }, "an older run changes nothing");
  await send(us, [agentResult(id, noon + 2 * second, { status: "error", error: "no handshake", details: null })]);
  matchObject(t, await newest(id), { details: { days_remaining: 74 } }, "nor does one that read nothing");
  await send(eu, [
    agentResult(id, noon + 3 * second, { details: details(74, { not_after: "2026-13-45T99:00:00.000Z" }) }),
  ]);
  matchObject(t, await newest(id), { details: { days_remaining: 74 } }, "nor a date that there is not");

  const sooner = await newMonitor({ name: "Sooner", check, interval: 3600 });
  const unread = await newMonitor({ name: "Unread", check, interval: 3600 });
  await send(eu, [agentResult(sooner, clock.now(), { details: details(3) })]);
  const sorted = await listMonitors(ctx, { q: "shop.example.org", sort: "days_left", limit: 10, offset: 0 });
  t.strictSame(
    sorted.items.map(({ target, details: own }) => [
      target.id,
      own !== null && "days_remaining" in own ? own.days_remaining : null,
    ]),
    [
      [sooner, 3],
      [id, 74],
      [unread, null],
    ],
    "the nearest expiry is first, unknown ones are last",
  );

  await updateTarget(ctx, id, { check: { warn_days: 20 } });
  matchObject(t, await newest(id), { details: { days_remaining: 74 } }, "another threshold is the same certificate");
  clock.at = noon + minute;
  await updateTarget(ctx, id, { check: { host: "other.example.org" } });
  t.strictSame(await newest(id), { details: null, expires_at: null }, "another host is not");
  await send(eu, [agentResult(id, noon + 30 * second, { details: details(60) })]);
  t.strictSame(await newest(id), { details: null, expires_at: null }, "details of a run before the edit are ignored");
  await send(eu, [agentResult(id, noon + 2 * minute, { details: details(50) })]);
  matchObject(t, await newest(id), { details: { days_remaining: 50 } });
});

t.test("a monitor without data shows that its runs are throttled", async (t) => {
  const [id, fine, other] = [await newMonitor(), await newMonitor(), await newMonitor()];
  const throttled = { status: "degraded", error: "throttled: host concurrency cap", skip: true } as const;
  const run = (target: string, ago: number, change: object = {}) => agentResult(target, clock.now() - ago, change);
  await send(eu, [
    run(id, 2 * second),
    run(id, second, throttled),
    run(other, second, { ...throttled, error: "else" }),
  ]);
  await send(eu, [run(fine, 2 * second, throttled), run(fine, second)]);
  t.strictSame([...(await throttledTargets(ctx, [id, fine, other]))], [id], "the newest run decides");
  t.strictSame([...(await throttledTargets(await newOrg(system), [id]))], []);
  t.strictSame([...(await throttledTargets(ctx, []))], []);
});

t.test("status, since when and until when", async (t) => {
  const id = await newMonitor();
  const live = 130 * second;
  const after = async (verdict: string, ms: number) => {
    clock.advance(ms);
    await send(eu, runs(id, verdict));
    const { status, status_since: since, status_until: until } = await stateOf(id);
    return [status, (since!.getTime() - noon) / second, (until!.getTime() - clock.now()) / second];
  };
  matchObject(t, await stateOf(id), { status: "unknown", status_since: null, last_result_at: null });
  t.strictSame(await after("P", 0), ["up", 0, live / second]);
  t.strictSame(await after("P", minute), ["up", 0, 130]);
  t.strictSame(await after("F", minute), ["down", 120, 130], "no region sees it up");
  matchObject(t, await stateOf(id), { last_error: "connection refused", last_result_at: new Date(clock.now()) });
  t.strictSame(await after("F", minute), ["down", 120, 130]);
  matchObject(t, await incidentsOf(id), [{ started_at: new Date(noon + 120 * second).toISOString(), state: "open" }]);
  t.strictSame(await after("P", minute), ["down", 120, 130], "one passing run is no recovery");
  t.strictSame(await after("P", minute), ["up", 300, 130]);
  t.strictSame(await after("P", 10 * minute), ["up", 900, 130], "a status that was stale in between starts again");
});

t.test("skipped runs and runs of a paused target are stored, and are no evidence", async (t) => {
  const id = await newMonitor();
  await send(eu, runs(id, "P"));
  clock.advance(minute);
  t.strictSame(
    await send(
      eu,
      runs(id, "FFF").map((run) => ({ ...run, skip: true })),
    ),
    counts(3, 0, 0, 0),
  );
  matchObject(t, await stateOf(id), {
    status: "up",
    status_until: new Date(noon + 130 * second),
    last_result_at: new Date(clock.now()),
    last_error: null,
  });
  const paused = await newMonitor({ enabled: false });
  t.strictSame(await send(eu, runs(paused, "FFF")), counts(3, 0, 0, 0));
  t.strictSame(await send(eu, runs(paused, "FFFF")), counts(1, 3, 0, 0), "again, which no evidence shows");
  matchObject(t, await stateOf(paused), { status: "unknown", status_until: null });
  t.strictSame([await incidentsOf(id), await incidentsOf(paused)], [[], []]);
});

t.test("an incident from its first failing run to its recovery, with its notices", async (t) => {
  const id = await newMonitor();
  await send(eu, runs(id, "PPDD"));
  matchObject(t, await incidentsOf(id), [
    {
      severity: "minor",
      started_at: new Date(noon - second).toISOString(),
      regions_down: ["eu"],
      error_sample: "connection refused",
    },
  ]);
  clock.advance(minute);
  await send(eu, runs(id, "F"));
  matchObject(t, await incidentsOf(id), [{ severity: "major" }]);
  clock.advance(minute);
  await send(eu, runs(id, "PP"));
  matchObject(t, await incidentsOf(id), [
    { state: "closed", closed_by: "engine", ended_at: new Date(clock.now() - second).toISOString() },
  ]);
  t.strictSame(await noticesOf(id), ["opened 0", "escalated 0", "resolved 0"]);
  const quiet = await newMonitor({ notify_recovery: false });
  await send(eu, runs(quiet, "FFPP"));
  t.strictSame(await noticesOf(quiet), ["opened 0"]);
});

t.test("two replicas that get the same batches at once store them once and notify once", async (t) => {
  const ids = await Promise.all(Array.from({ length: 5 }, () => newMonitor()));
  const twin: AgentCtx = { ...(await newAgent(system, "eu")), sql: pool() };
  const script = ids.map((id) => runs(id, "PFFFPPFFPP"));
  const batches = Array.from({ length: 10 }, (_, at) => script.map((one) => one[at]!));
  const replay = async (agent: AgentCtx, turned: boolean) => {
    let total = 0;
    for (const batch of batches) total += (await send(agent, turned ? batch.toReversed() : batch)).stored;
    return total;
  };
  const totals = await Promise.all([replay(eu, false), replay(twin, true), replay(twin, false)]);
  t.equal(
    totals.reduce((sum, one) => sum + one, 0),
    50,
    "each result was stored by one batch",
  );
  for (const id of ids) {
    matchObject(t, await incidentsOf(id), [{ state: "closed", reopened_count: 1 }]);
    t.strictSame(await noticesOf(id), ["opened 0", "resolved 0", "reopened 0", "resolved 1"]);
  }
  const majority = await newMonitor({ region_policy: "all" });
  await Promise.all([send(eu, runs(majority, "FF")), send(us, runs(majority, "FF")), send(twin, runs(majority, "FF"))]);
  t.equal((await incidentsOf(majority)).length, 1);
  t.strictSame(await noticesOf(majority), ["opened 0"]);
});

const patch = (id: string, changes: object, who: Ctx = ctx) => updateTarget(who, id, changes);

t.test("a pause closes the open incident without a notice", async (t) => {
  const id = await newMonitor();
  await send(eu, runs(id, "FF"));
  await patch(id, { enabled: false });
  matchObject(t, await incidentsOf(id), [{ state: "closed", closed_by: "pause" }]);
  t.strictSame(await noticesOf(id), ["opened 0"]);
  await patch(id, { enabled: true });
  matchObject(t, await incidentsOf(id), [{ state: "closed" }], "failing runs from before the pause open nothing");
  clock.advance(minute);
  await send(eu, runs(id, "FF"));
  t.strictSame(await noticesOf(id), ["opened 0", "reopened 0"], "new ones do");
});

t.test("an edited policy is held against the evidence at once", async (t) => {
  const id = await newMonitor({ region_policy: "all", alert_confirmations: 3 });
  await send(us, runs(id, "PPP"));
  await send(eu, runs(id, "FFF"));
  t.strictSame(await incidentsOf(id), []);
  clock.advance(20 * second);
  await patch(id, { region_policy: "any" });
  const [opened] = await incidentsOf(id);
  matchObject(t, opened, { state: "open", regions_down: ["eu"], regions_up: ["us"] });
  t.equal(
    (await stateOf(id)).status_since?.toISOString(),
    opened!.started_at,
    "a decision dates the status by the evidence, as a result does",
  );
  await patch(id, { region_policy: "all" });
  matchObject(t, await incidentsOf(id), [{ state: "closed", closed_by: "engine" }]);
  t.strictSame(await noticesOf(id), ["opened 0", "resolved 0"]);

  const slow = await newMonitor({ alert_confirmations: 5 });
  await send(eu, runs(slow, "FF"));
  t.strictSame(await incidentsOf(slow), []);
  await patch(slow, { alert_confirmations: 2 });
  matchObject(t, await incidentsOf(slow), [{ state: "open" }]);
});

t.test("an edited reminder interval acts on the open incident at once, and missed reminders are one", async (t) => {
  const id = await newMonitor({ renotify_interval_secs: 0 });
  await send(eu, runs(id, "FF"));
  const reminders = async () => {
    await sendReminders(system);
    return (await noticesOf(id)).length - 1;
  };
  clock.advance(30 * second);
  await patch(id, { renotify_interval_secs: 60 });
  t.equal(await reminders(), 0, "the opening was sent half a minute ago");
  clock.advance(30 * second);
  t.equal(await reminders(), 1);
  t.equal(await reminders(), 1);
  clock.advance(minute);
  await patch(id, { renotify_interval_secs: 0 });
  t.equal(await reminders(), 1, "none at all, the one that was due included");
  clock.advance(60 * minute);
  t.equal(await reminders(), 1);
  await patch(id, { renotify_interval_secs: 60 });
  t.equal(await reminders(), 2, "one for the hour that has passed");
  t.equal(await reminders(), 2);
  clock.advance(minute);
  t.equal(await reminders(), 3);
  await patch(id, { name: "Renamed", renotify_interval_secs: 60 });
  t.equal(await reminders(), 3, "an edit of something else moves nothing");
  await patch(id, { renotify_interval_secs: 3600 });
  clock.advance(59 * minute);
  t.equal(await reminders(), 3);
  clock.advance(minute);
  t.equal(await reminders(), 4);
  const [incident] = await incidentsOf(id);
  await acknowledgeIncident(ctx, incident!.id);
  await patch(id, { renotify_interval_secs: 60 });
  clock.advance(60 * minute);
  t.equal(await reminders(), 4, "an acknowledged incident gets no reminder");
});

t.test("an explanation has the votes, and the notices with their attempts", async (t) => {
  const id = await newMonitor({ region_policy: "any" });
  await send(eu, runs(id, "FF"));
  await send(us, runs(id, "PP"));
  const [incident] = await incidentsOf(id);
  const live = await explainIncident(ctx, incident!.id);
  matchObject(t, live, { regions_live: 2, regions_failing: 1, regions_failing_silent: 0, regions_needed: 1 });
  matchObject(t, live.deliveries, [{ channel_id: hook, reason: "opened", state: "pending", attempts: [] }]);
  t.equal(live.deliveries_total, 1);
  clock.advance(5 * minute);
  await send(us, runs(id, "PP"));
  matchObject(
    t,
    await explainIncident(ctx, incident!.id),
    { regions_live: 1, regions_failing: 0, regions_failing_silent: 1, regions_needed: 1 },
    "a silent region is not a failing live region",
  );
  matchObject(t, await incidentsOf(id), [{ state: "open" }], "and its silence closes nothing");
});

t.test("a run that an open breaker refused shows the failure that opened it, in any order of results", async (t) => {
  const cause = { status: "down", error: "connection refused" } as const;
  const refused = { status: "error", error: "circuit_open", cause } as const;
  const slots = [minute, second, 0].map((ago) => noon - ago);
  for (const order of [
    [0, 1, 2],
    [2, 0, 1],
  ]) {
    const id = await newMonitor();
    for (const at of order) {
      await send(eu, [agentResult(id, slots[at]!, refused)]);
      matchObject(t, await stateOf(id), { status: "down", last_error: "connection refused", circuit_open: true });
    }
    const [incident] = await incidentsOf(id);
    matchObject(t, incident, { state: "open", severity: "major", error_sample: "connection refused" });
    matchObject(t, (await explainIncident(ctx, incident!.id)).regions, [{ last_error: "connection refused" }]);
    const [row] = await sql`select status, error, cause from results where target_id = ${id} limit 1`;
    t.same(row, { status: "error", error: "circuit_open", cause: "connection refused" }, "the run itself");
    const [period] = (await listPeriods(ctx, id, { ongoing_only: true, limit: 1, offset: 0 })).items;
    t.equal(period?.error_sample, "connection refused");
    clock.advance(minute);
    await send(eu, runs(id, "P"));
    matchObject(
      t,
      await stateOf(id),
      { status: "down", last_error: null, circuit_open: false },
      "down until the incident ends",
    );
    await send(eu, [agentResult(id, clock.now() + 1)]);
    matchObject(t, await stateOf(id), { status: "up" });
    clock.at = noon;
  }

  const older = await newMonitor();
  const bare = { status: "error", error: "circuit_open" } as const;
  await send(eu, [agentResult(older, noon - minute, { status: "down", error: "no route" })]);
  await send(eu, [agentResult(older, noon, bare)]);
  matchObject(
    t,
    await stateOf(older),
    { status: "down", last_error: "no route", circuit_open: true },
    "an agent without causes",
  );
});

t.test("what kept a run out is in results, incident, explanation, notice and cause", async (t) => {
  const blocked = { status: "down", error: "expected status 200, got 403", http_status: 403 } as const;
  const diagnosis = "challenge:cloudflare:";
  const found = {
    kind: "challenge",
    provider: "Cloudflare",
    words: "Cloudflare answered with a challenge",
    remedy: "allow the addresses of region eu there, or let requests with a header of the check pass",
  };
  const ids = [await newMonitor(), await newMonitor(), await newMonitor()];
  for (const [at, id] of ids.entries()) {
    await sql`update targets set host = ${`shop-${at}.example.org`} where id = ${id}`;
    await send(
      eu,
      [minute, 0].map((ago) => agentResult(id, noon - ago, { ...blocked, diagnosis })),
    );
    await send(us, [agentResult(id, noon)]);
  }
  const [id] = ids as [string];
  const range = { from: new Date(noon - hour).toISOString(), to: new Date(noon + hour).toISOString() };
  const results = (await listResults(ctx, id, { ...range, limit: 10, offset: 0 })).items;
  t.strictSame(
    results.map(({ status, diagnosis: one }) => [status, one]).toSorted(),
    [
      ["down", found],
      ["down", found],
      ["up", undefined],
    ],
    "of failed runs only",
  );
  const [incident] = await incidentsOf(id);
  const named = found.remedy.replace("region eu", "region Europe");
  t.strictSame(incident!.diagnosis, { ...found, remedy: named });
  const { in_words: words } = await explainIncident(ctx, incident!.id);
  const line = `Cloudflare answered with a challenge: ${named}`;
  t.ok(words.includes(`Diagnosis: ${line}.`), words.join(" "));
  const [row] = await sql<{ notice: Notice }[]>`select notice from deliveries where incident_id = ${incident!.id}`;
  const text = messageText({ kind: "notice", notice: row!.notice, zone: "UTC" });
  matchObject(
    t,
    text.facts.find(({ label }) => label === "Diagnosis"),
    { value: line.replace("region Europe", "region eu") },
    "names are added when it is sent",
  );
  const { causes } = await listMonitors(ctx, { limit: 10, offset: 0, grouped: true });
  const cause = causes.find((one) => one.cause.value === "challenge:cloudflare")!.cause as RoundLine["cause"];
  matchObject(t, cause, { kind: "error" });
  const times = { since: null, began_at: null, ended_at: null };
  const sizes = { fresh: 3, recovered: 0, brief: 0 };
  const said = { said: "opened", severity: "major", ...sizes } as const;
  const shown = { error: null, same_error: true, names: ["A"], brief_names: [] };
  const shared = { ...said, ...times, ...shown, cause, open: 3, level: null };
  matchObject(t, messageText({ kind: "round", round: { ...said, causes: 1, lines: [shared], url: "" } }).facts, [
    { label: "challenge by Cloudflare", value: /3 down: A and 2 more\. Allow the addresses of the agent there/ },
  ]);
  const csv = await readText(await incidentsCsv(ctx, { state: "all", target_id: id }));
  t.ok(csv.includes(`,"${line}",`), "the CSV has it in one line");

  const down = { status: "down", error: "no route to host" } as const;
  const refused = { status: "error", error: "circuit_open", cause: down } as const;
  const far = await newMonitor();
  for (const [at, one] of [down, refused].entries())
    await send(eu, [agentResult(far, noon + (at - 1) * minute, { ...one, diagnosis: "path::no-route" })]);
  const behind = { error_sample: "no route to host", diagnosis: { kind: "path", provider: null } };
  matchObject(t, (await incidentsOf(far))[0], behind, "of a run that the breaker refused, the dial that failed");
  for (const one of [...ids, far]) await deleteTarget(ctx, one);
});

t.test("a monitor with an open incident is down, also when its last runs were refused or failed", async (t) => {
  const id = await newMonitor();
  const failed = { status: "error", error: "no certificate was read" } as const;
  await send(eu, [agentResult(id, noon - minute, failed)]);
  matchObject(t, await stateOf(id), { status: "error", last_error: failed.error });
  await send(eu, [agentResult(id, noon, failed)]);
  matchObject(t, await stateOf(id), { status: "down", last_error: failed.error });
});

/** A statement of another connection that waits for a lock. */
const somebodyWaits = () =>
  until(
    async () =>
      (await sql`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`)
        .length > 0,
    "a statement that waits",
  );

t.test("an edit, a deletion and a batch take their locks in one order", async (t) => {
  for (const change of [(id: string) => patch(id, { name: "Edited" }), (id: string) => deleteTarget(ctx, id)]) {
    const id = await newMonitor();
    let changing: Promise<unknown> | undefined;
    // The steps of ingest: the evidence, then an incident, whose foreign key locks the target.
    await sql.begin(async (tx) => {
      await lockStates(tx, [id]);
      changing = change(id);
      await somebodyWaits();
      await addIncident({ ...ctx, sql: tx }, id, { started: clock.now() });
    });
    await t.resolves(changing!);
  }
});

t.test("batches, edits and a deletion at once: nothing fails that should not", async (t) => {
  for (let round = 0; round < 10; round++) {
    const id = await newMonitor({ alert_confirmations: 1 });
    const report = (agent: AgentCtx, ago: number) =>
      send(agent, [agentResult(id, clock.now() - ago * second, { status: ago % 2 === 0 ? "down" : "up" })]);
    const first = [
      report(eu, 6),
      report(us, 5),
      patch(id, { alert_confirmations: 2 }),
      report(eu, 4),
      patch(id, { region_policy: "all" }),
      report(us, 3),
    ];
    await sleep(round * 3);
    const done = await Promise.allSettled([
      ...first,
      deleteTarget(ctx, id),
      report(eu, 2),
      patch(id, { enabled: false }),
    ]);
    for (const one of done) if (one.status === "rejected") matchObject(t, one.reason, { code: "TARGET_NOT_FOUND" });
    t.strictSame([...(await sql`select 1 from target_states where target_id = ${id}`)], []);
  }
});

t.test(
  "late results of a deleted organisation are dropped, and results after its restoration are stored",
  async (t) => {
    const id = await newMonitor();
    matchObject(t, await send(eu, [agentResult(id, clock.now() - 3 * second)]), counts(1, 0, 0, 0));
    await sql`update orgs set deleted_at = now() where id = ${ctx.orgId}`;
    matchObject(t, await send(eu, runs(id, "FF")), counts(0, 0, 0, 2));
    t.equal((await stored(id)).length, 1);
    t.strictSame(await incidentsOf(id), [], "and no notice is written");
    await sql`update orgs set deleted_at = null where id = ${ctx.orgId}`;
    matchObject(t, await send(eu, [agentResult(id, clock.now())]), counts(1, 0, 0, 0));
  },
);

/** The slot of a grid at or after `from`. */
const gridSlot = (id: string, region: string, intervalMs: number, from: number) =>
  slotAtOrAfter(from, phaseMs(id, region, intervalMs), intervalMs);

t.test("only results that fit the schedule are taken, the others are counted and logged once a minute", async (t) => {
  const id = await newMonitor({ interval: 60 });
  clock.advance(20 * minute);
  log.lines.length = 0;
  const slot = gridSlot(id, "eu", minute, noon + 10 * minute);
  const reply = (stored: number, dropped_off_schedule: number) => ({
    ...counts(stored, 0, 0, 0),
    dropped_off_schedule,
  });
  t.strictSame(await report(eu, [agentResult(id, slot), agentResult(id, slot + minute)]), reply(2, 0));
  t.strictSame(await report(eu, [agentResult(id, slot + 2), agentResult(id, slot - 29 * second)]), reply(0, 2), "off");
  t.strictSame(await report(us, [agentResult(id, slot)]), reply(0, 1), "the grid of another region");
  const early = gridSlot(id, "eu", minute, noon) - minute;
  t.strictSame(await report(eu, [agentResult(id, early)]), reply(0, 1), "before the target existed");
  t.strictSame(await report(eu, [agentResult(id, early + minute)]), reply(1, 0), "from then on");

  const [next, late] = [slot + 2 * minute, 7 * minute];
  for (const [start, fits] of [
    [-5 * minute, true],
    [-5 * minute - 1, false],
    [late, true],
    [late + 1, false],
  ] as const) {
    t.strictSame(
      await report(eu, [agentResult(id, next, { timestamp: next + start })]),
      reply(fits ? 1 : 0, fits ? 0 : 1),
    );
    await sql`delete from results where target_id = ${id} and scheduled_at = ${new Date(next)}`;
  }
  matchObject(
    t,
    await report(eu, [agentResult(id, next, { timestamp: Date.UTC(2243, 0, 1) })]),
    { stored: 0, dropped_future: 1 },
    "a run of the future",
  );

  const thousand = Array.from({ length: 1000 }, (_, n) => agentResult(id, slot + (n === 0 ? 0 : n + 1)));
  matchObject(t, await report(eu, thousand), { stored: 0, duplicates: 1, dropped_off_schedule: 999 });
  const lines = () => log.lines.filter((line) => line.message.startsWith("results of an agent are dropped"));
  const { name } = (await sql<{ name: string }[]>`select name from agents where id = ${eu.agentId}`)[0]!;
  const mine = () => lines().filter(({ fields }) => (fields as { agent: string }).agent === name);
  matchObject(
    t,
    mine(),
    [{ level: "warn", fields: { agent: name, region: "eu", dropped: { off_schedule: 2 } } }],
    "the first",
  );
  clock.advance(minute);
  await report(eu, [agentResult(id, slot + 2)]);
  t.strictSame(
    mine().map(({ fields }) => (fields as { dropped: object }).dropped),
    [{ off_schedule: 2 }, { before_creation: 1, wrong_time: 2, future: 1, off_schedule: 1000 }],
    "and a minute later all results since then",
  );
});

t.test("rechecks: the reply asks for them until the vote is settled, and they count as evidence only", async (t) => {
  const id = await newMonitor({ interval: 60 });
  clock.advance(3 * hour);
  const slot = gridSlot(id, "eu", minute, noon + 2 * hour);
  const [recheck, next] = [slot + 10 * second, slot + minute];
  const down = (at: number, changes: Partial<AgentResult> = {}) => agentResult(id, at, { status: "down", ...changes });
  const rechecksOf = async (...results: AgentResult[]) => (await report(eu, results)).rechecks;

  t.strictSame(await rechecksOf(agentResult(id, slot - minute)), [], "a first pass confirms nothing");
  t.strictSame(await rechecksOf(down(slot)), [id], "a failure that is not confirmed");
  t.strictSame(await rechecksOf(down(slot)), [id], "again for a duplicate: the first reply may have been lost");
  t.strictSame(await rechecksOf(agentResult(id, slot + minute, { skip: true, status: "error" })), [id], "skipped");
  t.strictSame(await incidentsOf(id), []);
  await sql`delete from results where target_id = ${id} and skip`;
  t.strictSame(await rechecksOf(down(recheck)), [], "confirmed");
  matchObject(t, await incidentsOf(id), [{ started_at: new Date(slot).toISOString() }], "ten seconds after the first");

  t.strictSame(await rechecksOf(agentResult(id, next)), [id], "a recovery that is not confirmed");
  t.strictSame(await rechecksOf(down(next + 10 * second)), [], "refuted");
  t.strictSame(await rechecksOf(agentResult(id, next + minute)), [id]);
  matchObject(t, await incidentsOf(id), [{ ended_at: null }]);
  t.strictSame(await rechecksOf(agentResult(id, next + 70 * second)), [], "confirmed");
  matchObject(t, await incidentsOf(id), [{ ended_at: new Date(next + minute).toISOString() }]);

  const range = { from: new Date(noon).toISOString(), to: new Date(noon + 4 * hour).toISOString() };
  const listed = await listResults(ctx, id, { ...range, limit: 10, offset: 0 });
  t.strictSame(
    listed.items.map((it) => [Date.parse(it.timestamp) - slot, it.recheck]),
    [
      [130 * second, true],
      [120 * second, false],
      [70 * second, true],
      [minute, false],
      [10 * second, true],
      [0, false],
      [-minute, false],
    ],
    "all are listed",
  );
  matchObject(t, await uptime(ctx, id, range), { total: 4, up: 3, down: 1 }, "and only runs of the schedule count");
  matchObject(t, await uptime(ctx, id, { from: "2026-09-01T00:00:00Z" }), { total: 4, up: 3 }, "by the hour, too");
  const { buckets } = await latencySeries(ctx, id, range);
  t.equal(
    buckets.reduce((sum, { samples }) => sum + samples, 0),
    3,
  );
  matchObject(t, await listPeriods(ctx, id, { ...range, ongoing_only: false, limit: 10, offset: 0 }), {
    items: [{ check_count: 1 }, { check_count: 2 }],
  });

  matchObject(t, await report(us, [down(recheck)]), { dropped_off_schedule: 1 }, "of another region's grid");
  matchObject(t, await report(eu, [down(slot + 9 * second)]), { dropped_off_schedule: 1 }, "of no grid");
  const domain = { type: "domain_expiry", domain: "example.org", warn_days: 30, critical_days: 7, timeout: 30_000 };
  const registration = await newMonitor({ check: domain, interval: 86_400 });
  clock.advance(2 * day);
  const daily = gridSlot(registration, "eu", day, clock.now() - day);
  const [soon, later] = [agentResult(registration, daily + minute), agentResult(registration, daily + 10 * minute)];
  matchObject(
    t,
    await report(eu, [soon, later]),
    { stored: 1, dropped_off_schedule: 1 },
    "registries are asked less often",
  );
});

t.test(
  "rechecks are for the enabled monitors of a region, and no on-demand run takes one of their slots",
  async (t) => {
    const hub = openHub(sql, log);
    const id = await newMonitor({ interval: 60 });
    const given = async (agent: AgentCtx) => {
      const request = {
        protocol: protocolVersion,
        agent_version: "1.0.0",
        kinds: allAbilities,
        cursor: null,
        capacity: 0,
      };
      const { rechecks, checks } = await pull(agent, hub, request, AbortSignal.abort());
      return [rechecks.includes(id), checks.find((check) => check.target_id === id)?.recheck_ms];
    };
    clock.advance(10 * minute);
    const slot = gridSlot(id, "eu", minute, noon + 5 * minute);
    await report(eu, [agentResult(id, slot, { status: "down" })]);
    t.strictSame(await given(eu), [true, 10_000], "a pull has it too, for agents that restart or take over");
    t.strictSame(await given(us), [false, 10_000]);
    const free = await issueFreeSlot(sql, { targetId: id, region: "eu", fromMs: slot + 20 * second });
    t.equal(free?.getTime(), slot + 20 * second + 1);
    await updateTarget(ctx, id, { enabled: false });
    t.strictSame(await given(eu), [false, undefined]);
    await updateTarget(ctx, id, { enabled: true });
    t.strictSame(await given(eu), [false, 10_000], "a pause ends the streak");
  },
);

t.test("results of an agent that has not got an edited interval yet are stored", async (t) => {
  const id = await newMonitor({ interval: 60 });
  clock.advance(hour);
  await updateTarget(ctx, id, { interval: 25 });
  await updateTarget(ctx, id, { interval: 40 });
  clock.advance(6 * hour);
  for (const interval of [60, 25, 40]) {
    const slots = [noon + 30 * minute, noon + 5 * hour].map((from) => gridSlot(id, "eu", interval * second, from));
    matchObject(
      t,
      await report(
        eu,
        slots.map((slot) => agentResult(id, slot)),
      ),
      { stored: 2, dropped_off_schedule: 0 },
      `slots of every ${interval} s, from before and after the edit`,
    );
  }
  const never = gridSlot(id, "eu", 37 * second, noon + hour);
  matchObject(
    t,
    await report(eu, [agentResult(id, never)]),
    { dropped_off_schedule: 1 },
    "an interval that it never had",
  );
  clock.advance(92 * day);
  await updateTarget(ctx, id, { interval: 30 });
  const [row] = await sql`select past_intervals from targets where id = ${id}`;
  t.strictSame(Object.keys(row!["past_intervals"]), ["40"], "removed when no result of it can arrive any more");
});

t.test("a run after a throttled one of the same slot counts as that of the slot", async (t) => {
  const id = await newMonitor({ interval: 60 });
  clock.advance(10 * minute);
  const slot = gridSlot(id, "eu", minute, noon + 5 * minute);
  const throttled = { status: "degraded", error: "throttled: host concurrency cap", skip: true } as const;
  matchObject(t, await report(eu, [agentResult(id, slot, throttled)]), { stored: 1, dropped_off_schedule: 0 });
  const later = agentResult(id, secondTry(slot), { timestamp: slot + 20 * second });
  matchObject(t, await report(eu, [later]), { stored: 1, dropped_off_schedule: 0 });
  matchObject(t, await report(eu, [later]), { stored: 0, duplicates: 1 });
  const range = { from: new Date(noon).toISOString(), to: new Date(noon + hour).toISOString() };
  matchObject(t, await uptime(ctx, id, range), { total: 1, up: 1 }, "and in uptime");
  const listed = await listResults(ctx, id, { ...range, limit: 10, offset: 0 });
  t.strictSame(
    listed.items.map(({ status, skipped = false, recheck }) => [status, skipped, recheck]),
    [
      ["up", false, false],
      ["degraded", true, false],
    ],
  );

  const fresh = await newMonitor({ interval: 3600 });
  const request = {
    protocol: protocolVersion,
    agent_version: "1.0.0",
    kinds: allAbilities,
    cursor: null,
    capacity: 0,
  };
  const { checks } = await pull(eu, openHub(sql, log), request, AbortSignal.abort());
  const issued = checks.find((check) => check.target_id === fresh)!.next_due_at;
  const runs = [agentResult(fresh, issued, throttled), agentResult(fresh, secondTry(issued))];
  matchObject(t, await report(eu, runs), { stored: 2, dropped_off_schedule: 0 }, "the same for a first run");
});

t.test("a first run is taken at the slot that a pull gave, however often it was given", async (t) => {
  const hub = openHub(sql, log);
  const id = await newMonitor({ interval: 3600 });
  const given = async () => {
    const request = {
      protocol: protocolVersion,
      agent_version: "1.0.0",
      kinds: allAbilities,
      cursor: null,
      capacity: 0,
    };
    const { checks } = await pull(eu, hub, request, AbortSignal.abort());
    return checks.find((check) => check.target_id === id)!.next_due_at;
  };
  clock.at = noon - 30 * second;
  const first = await given();
  t.ok(first >= noon, "the clock of this replica is behind, and no slot lies before the target");
  clock.at = noon + minute + 7;
  const again = await given();
  matchObject(t, await report(us, [agentResult(id, first)]), { dropped_off_schedule: 1 });
  matchObject(t, await report(eu, [agentResult(id, first), agentResult(id, again)]), {
    stored: 2,
    dropped_off_schedule: 0,
  });
  // A slot of the minutes before the target was made is due yet where its start is jittered.
  const slot = nextSlot(id, "eu", hour, 10, clock.now());
  t.equal(await given(), slot < noon ? slot + hour : slot, "with a result it has its grid");
});

t.test("an edit of the check, to a shorter interval or of a pause has every region run soon", async (t) => {
  const hub = openHub(sql, log);
  const id = await newMonitor({ interval: 86_400 });
  const given = async (agent: AgentCtx) => {
    const request = {
      protocol: protocolVersion,
      agent_version: "1.0.0",
      kinds: allAbilities,
      cursor: null,
      capacity: 0,
    };
    const { checks } = await pull(agent, hub, request, AbortSignal.abort());
    return checks.find((check) => check.target_id === id)!.next_due_at;
  };
  const stateOf = async () => {
    const [row] = await sql`select status, status_until, last_error from target_states where target_id = ${id}`;
    return row!;
  };
  const runs = async (agent: AgentCtx, change: Partial<AgentResult> = {}) => {
    const slot = await given(agent);
    t.ok(slot - clock.now() <= 10 * second, "soon");
    matchObject(t, await report(agent, [agentResult(id, slot, change)]), { stored: 1 });
    return slot;
  };
  const slot = gridSlot(id, "eu", 86_400 * second, await runs(eu));
  await runs(us);
  clock.advance(hour);
  t.equal(await given(eu), slot, "at its slot again");

  for (const edit of [{ interval: 3600 }, { check: { timeout: 4000 } }]) {
    await updateTarget(ctx, id, edit);
    await runs(eu);
    await runs(us);
    clock.advance(2 * minute);
    t.ok((await given(eu)) - clock.now() > minute || (await given(us)) - clock.now() > minute, "once");
  }
  for (const edit of [{ name: "Other" }, { interval: 7200 }, { check: { timeout: 4000 } }, { enabled: false }]) {
    clock.advance(2 * hour);
    await report(eu, [agentResult(id, gridSlot(id, "eu", 7200 * second, clock.now() - 7200 * second))]);
    const before = await sql`select run_due_since from targets where id = ${id}`;
    await updateTarget(ctx, id, edit);
    t.strictSame(await sql`select run_due_since from targets where id = ${id}`, before, "other edits ask for none");
  }
  await updateTarget(ctx, id, { enabled: true });
  await runs(eu);
  await runs(us);
  clock.advance(2 * hour);
  await bulkAction(ctx, { ids: [id], action: { type: "disable" } });
  await bulkAction(ctx, { ids: [id], action: { type: "enable" } });
  await runs(eu);
  clock.advance(2 * hour);
  await bulkAction(ctx, { ids: [id], action: { type: "interval_set", interval: 600 } });
  await runs(eu);
  matchObject(t, await stateOf(), { status: "up" });
});

t.test("a changed check is unknown until it has run; its incident stays until the new check passes", async (t) => {
  const id = await newMonitor({ interval: 60, alert_confirmations: 2, region_policy: "any" });
  clock.advance(10 * minute);
  const start = gridSlot(id, "eu", minute, noon + 2 * minute);
  const down = (slot: number) => agentResult(id, slot, { status: "down", error: "connection refused" });
  const stateOf = async () => {
    const [row] = await sql`select status, status_until, last_error from target_states where target_id = ${id}`;
    return row!;
  };
  await report(eu, [down(start), down(start + minute)]);
  matchObject(t, await stateOf(), { status: "down", last_error: "connection refused" });
  const [open] = await incidentsOf(id);
  matchObject(t, open, { ended_at: null, severity: "major" });

  clock.at = start + 2 * minute + 20 * second;
  await updateTarget(ctx, id, { check: { host: "other.example.org" } });
  matchObject(t, await stateOf(), { status: "unknown", status_until: null, last_error: null });
  matchObject(
    t,
    await incidentsOf(id),
    [{ id: open!.id, ended_at: null, severity: "major" }],
    "silence closes nothing",
  );
  await report(eu, [agentResult(id, start + 2 * minute)]);
  matchObject(t, await stateOf(), { status: "unknown" }, "a late result of the old check is no evidence");
  clock.at = start + 4 * minute + 20 * second;
  const ofOldCheck = { version: "1", warnings: ["late"], status: "down" as const, error: "late" };
  const late = [3, 4].map((n) => agentResult(id, start + n * minute, ofOldCheck));
  matchObject(t, await report(eu, late), { stored: 2, rechecks: [] }, "an agent that was not sent the edit");
  matchObject(
    t,
    [...(await sql`select status, warnings from target_states where target_id = ${id}`)],
    [{ status: "unknown", warnings: null }],
    "goes on with the old check, which is history only",
  );

  clock.at = start + 6 * minute + 20 * second;
  await report(eu, [down(start + 5 * minute)]);
  matchObject(
    t,
    await incidentsOf(id),
    [{ id: open!.id, ended_at: null, severity: "major" }],
    "one run confirms nothing",
  );
  await report(eu, [agentResult(id, start + 6 * minute)]);
  clock.at = start + 7 * minute + 20 * second;
  await report(eu, [agentResult(id, start + 7 * minute)]);
  matchObject(
    t,
    await incidentsOf(id),
    [{ id: open!.id, ended_at: new Date(start + 6 * minute).toISOString() }],
    "passes of the new check close it",
  );
  matchObject(t, await stateOf(), { status: "up" });

  await updateTarget(ctx, id, { enabled: false });
  await updateTarget(ctx, id, { check: { host: "third.example.org" } });
  await updateTarget(ctx, id, { enabled: true });
  matchObject(t, await stateOf(), { status: "unknown" }, "also when it was changed in a pause");
});
