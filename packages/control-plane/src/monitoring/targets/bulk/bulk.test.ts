import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { allAbilities } from "@statusmesh/shared/checks/abilities";
import { type AgentResult, protocolVersion } from "@statusmesh/shared/protocol/agent-protocol";
import { newId } from "@statusmesh/shared/ids";
import type { AgentCtx, Ctx } from "../../../platform/context.ts";
import { openHub } from "../../../platform/db/notify.ts";
import { getChannel, updateChannel } from "../../../alerting/channels/service.ts";
import { listIncidents } from "../../../alerting/incidents/service.ts";
import { pull } from "../../pipeline/assign.ts";
import { openIngest } from "../../pipeline/ingest.ts";
import { serve } from "../../../testing/app.ts";
import { minute, noon, second } from "../../../testing/clock.ts";
import { admit, agentResult, webhookTo } from "../../../testing/scene.ts";
import { newAgent, newOrg, openWorld } from "../../../testing/world.ts";
import { targetRoutes } from "../api.ts";
import { targetBulkRoutes } from "./api.ts";
import { getMonitor } from "../list/service.ts";
import { updateTarget } from "../write/service.ts";

const { sql, clock, log, system } = await openWorld(t);
const [eu, us] = [await newAgent(system, "eu"), await newAgent(system, "us")];
const ingest = openIngest(async () => {});
const send = async (agent: AgentCtx, results: readonly AgentResult[]) => {
  await admit(system, agent.region, results);
  return await ingest(agent, { protocol: protocolVersion, results: [...results], runs: [] });
};

let caller: Ctx = await newOrg(system);
const ask = await serve(t, system, [...targetBulkRoutes, ...targetRoutes], { tenant: () => caller });
const bulk = "/api/v1/targets/bulk";
const bulkAction = "/api/v1/targets/bulk-action";

const http = (name: string, changes: object = {}) => ({
  name,
  check: { type: "http", url: `https://example.org/${encodeURIComponent(name)}` },
  ...changes,
});
const tcp = (name: string, port: unknown = 5432) => ({ name, check: { type: "tcp", host: "db.example.org", port } });
const total = async (): Promise<number> => (await ask("GET", "/api/v1/targets?limit=1")).body.total;
const create = async (...targets: object[]): Promise<string[]> =>
  (await ask("POST", bulk, targets)).body.map((target: { id: string }) => target.id);
const act = (ids: readonly string[], action: object) => ask("POST", bulkAction, { ids, action });
const read = async (id: string) => (await ask("GET", `/api/v1/targets/${id}`)).body;
/** Where the error points to: in `field` for a 400, in the details otherwise. */
const error = (status: number, code: string, pointer: string | null = null) => ({
  status,
  body: {
    error: {
      code,
      field: status === 400 ? pointer : null,
      ...(status === 400 || pointer === null ? {} : { details: { pointer } }),
    },
  },
});
/** Down in both regions, as often as it takes. */
async function takeDown(...ids: string[]): Promise<void> {
  for (const agent of [eu, us])
    await send(
      agent,
      ids.flatMap((id) => [
        agentResult(id, clock.now() - 2 * second, { status: "down" }),
        agentResult(id, clock.now() - second, { status: "down" }),
      ]),
    );
}
const openIncidents = async (id: string): Promise<number> =>
  (await listIncidents(caller, { state: "open", target_id: id, limit: 1, offset: 0 })).total;

t.beforeEach(async () => {
  clock.at = noon;
  caller = await newOrg(system);
});

t.test("many targets are warned of as one is", async (t) => {
  const domain = (name: string) => ({ name, check: { type: "domain_expiry", domain: name } });
  const alone = (await ask("POST", "/api/v1/targets", domain("alone.de"))).body.warnings;
  const { body } = await ask("POST", bulk, [domain("example.org"), domain("example.de")]);
  matchObject(t, body, [{ warnings: [] }, { warnings: [/^The registry of \.de publishes no expiry date/] }]);
  t.strictSame(body[1].warnings, alone);
});

t.test("many targets are made in the order sent, each with evidence, regions and channels", async (t) => {
  const [first, second] = [
    await webhookTo(caller, "https://hooks.example.org/1"),
    await webhookTo(caller, "https://hooks.example.org/2"),
  ];
  const secret = http("secret", {
    check: { type: "http", url: "https://example.org", bearer_token: "SECRET" },
    tags: [" a ", 'b{},"', "a"],
    alerts: [{ channel_id: second }, { channel_id: first }],
  });
  const made = await ask("POST", bulk, [
    tcp("one"),
    secret,
    http("three", { enabled: false, interval: 3600, region_policy: { count: 2 } }),
  ]);
  t.equal(made.status, 201);
  t.equal(made.headers.get("cache-control"), "no-store");
  matchObject(t, made.body, [
    { name: "one", interval: 60, tags: [], alerts: [], check: { port: 5432, timeout: 10_000 } },
    {
      name: "secret",
      tags: ["a", 'b{},"'],
      alerts: [{ channel_id: second }, { channel_id: first }],
      check: { bearer_token: "***", method: "GET" },
      write_source: "api",
    },
    { name: "three", enabled: false, interval: 3600, region_policy: { count: 2 } },
  ]);
  for (const target of made.body) {
    t.strictSame(await read(target.id), target, "it reads as it was answered");
    t.strictSame((await ask("GET", `/api/v1/targets/${target.id}/regions`)).body, { regions: ["eu", "us"] });
    matchObject(t, await getMonitor(caller, target.id), { status: "unknown", last_result_at: null });
  }
  const [stored] = await sql<{ spec: string }[]>`select spec::text as spec from targets where id = ${made.body[1].id}`;
  t.notMatch(stored!.spec, /SECRET/, "sealed at rest");
});

t.test("all or none: the error says which target and which field", async (t) => {
  const stranger = await newOrg(system);
  const foreign = await webhookTo(stranger, "https://hooks.example.org/");
  const good = [tcp("a"), tcp("b"), tcp("c")];
  const cases: [object[], number, string, string | null][] = [
    [[], 400, "BULK_EMPTY", ""],
    [Array.from({ length: 10_001 }, () => ({ nonsense: true })), 413, "BULK_TOO_LARGE", ""],
    [[...good, tcp("d", 0)], 400, "INVALID_TCP_PORT", "/3/check/port"],
    [[...good, { ...tcp("d"), nme: "x" }], 400, "UNKNOWN_FIELD", "/3/nme"],
    [[...good, http(" ")], 400, "EMPTY_NAME", "/3/name"],
    [[...good, http("d", { tags: ["x", ""] })], 400, "INVALID_TAG", "/3/tags/1"],
    [[...good, http("d", { interval: 9 })], 422, "MIN_CHECK_INTERVAL", "/3/interval"],
    [[...good, http("d", { region_policy: { count: 3 } })], 422, "INVALID_REGION_POLICY", "/3/region_policy/count"],
    [[...good, http("d", { renotify_interval_secs: 59 })], 400, "INVALID_ALERT_CONFIG", "/3/renotify_interval_secs"],
    [
      [...good, http("d", { alerts: [{ channel_id: foreign }] })],
      400,
      "INVALID_ALERT_CONFIG",
      "/3/alerts/0/channel_id",
    ],
    [[...good, http("d", { check: { type: "http", url: "http://127.0.0.1/" } })], 400, "SSRF_BLOCKED", "/3/check/url"],
    [
      [...good, http("d", { check: { type: "http", url: "https://example.org", bearer_token: "***" } })],
      400,
      "REDACTION_SENTINEL",
      "/3/check/bearer_token",
    ],
  ];
  for (const [body, status, code, field] of cases)
    matchObject(t, await ask("POST", bulk, body), error(status, code, field), code);
  matchObject(t, await ask("POST", bulk, tcp("no list")), error(400, "INVALID_BODY", ""));
  t.equal(await total(), 0, "nothing was made");
  caller = { ...caller, scopes: new Set(["targets:read"]) };
  matchObject(t, await ask("POST", bulk, good), error(403, "INSUFFICIENT_SCOPE"));
  matchObject(t, await act([newId()], { type: "enable" }), error(403, "INSUFFICIENT_SCOPE"));
});

t.test("the plan's number of targets holds, also when many come at once", async (t) => {
  caller = await newOrg(system, "free");
  matchObject(
    t,
    await ask(
      "POST",
      bulk,
      Array.from({ length: 21 }, (_, at) => tcp(`t${at}`)),
    ),
    {
      status: 422,
      body: {
        error: { code: "QUOTA_EXCEEDED", details: { quota: "max_targets", current: 0, limit: 20, plan: "free" } },
      },
    },
  );
  await create(...Array.from({ length: 15 }, (_, at) => tcp(`t${at}`)));
  const answers = await Promise.all([
    ...Array.from({ length: 6 }, () => ask("POST", bulk, [tcp("x"), tcp("y"), tcp("z")])),
    ...Array.from({ length: 6 }, () => ask("POST", "/api/v1/targets", tcp("single"))),
  ]);
  t.ok(answers.every(({ status }) => status === 201 || status === 422));
  const made = answers.reduce((sum, { status, body }) => sum + (status === 201 ? (Array.isArray(body) ? 3 : 1) : 0), 0);
  t.equal(await total(), 15 + made);
  t.ok(made >= 3 && made <= 5, `${made} of 5 places taken`);
});

t.test("two bulk creates at once", async (t) => {
  const [a, b] = await Promise.all(
    ["a", "b"].map((name) =>
      ask(
        "POST",
        bulk,
        Array.from({ length: 300 }, (_, at) => tcp(`${name} ${at}`)),
      ),
    ),
  );
  t.strictSame(
    [a!.body, b!.body].map((list) => [list.length, list[0].name, list[299].name]),
    [
      [300, "a 0", "a 299"],
      [300, "b 0", "b 299"],
    ],
  );
  t.equal(new Set([...a!.body, ...b!.body].map((target) => target.id)).size, 600);
  t.equal(await total(), 600);
});

// As many as the limits allow are sent by faults/hostile.test.ts.
t.test("2,500 targets in one transaction, changed and deleted by one action each", async (t) => {
  const channel = await webhookTo(caller, "https://hooks.example.org/");
  const body = Array.from({ length: 2_500 }, (_, at) =>
    http(`target ${at}`, { tags: ["bulk", `t${at % 7}`], alerts: [{ channel_id: channel }] }),
  );
  const timed = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
    const started = performance.now();
    const result = await work();
    t.comment(`${what}: ${Math.round(performance.now() - started)} ms`);
    return result;
  };
  const made = await timed("create", () => ask("POST", bulk, body));
  t.equal(made.status, 201);
  t.strictSame(
    made.body.map((target: { name: string }) => target.name),
    body.map((target) => target.name),
  );
  t.equal(await total(), 2_500);
  const ids: string[] = made.body.map((target: { id: string }) => target.id);
  matchObject(
    t,
    await sql`
      select count(*)::int as count, count(distinct xmin::text)::int as transactions from targets
      where org_id = ${caller.orgId}`,
    [{ count: 2_500, transactions: 1 }],
  );
  for (const [what, action] of [
    ["disable", { type: "disable" }],
    ["enable", { type: "enable" }],
    ["tag", { type: "tag_add", tags: ["more"] }],
    ["delete", { type: "delete" }],
  ] as const) {
    const done = await timed(what, () => act(ids, action));
    t.strictSame([done.status, done.body.succeeded.length, done.body.failed.length], [200, 2_500, 0], what);
  }
  t.equal(await total(), 0);
});

t.test("an action changes what it can; refused targets are listed with the reason", async (t) => {
  const stranger = await newOrg(system);
  const [one, two, full] = (await create(
    tcp("one"),
    http("two", { tags: ["a"] }),
    http("full", { tags: Array.from({ length: 50 }, (_, at) => `tag ${at}`) }),
  )) as [string, string, string];
  const mine = caller;
  caller = stranger;
  const [foreign] = (await create(tcp("foreign"))) as [string];
  caller = { ...mine, writeSource: "terraform" };
  const absent = newId();

  clock.advance(minute);
  const added = await act([two, foreign, "nonsense", one, absent, full, two.toUpperCase()], {
    type: "tag_add",
    tags: [" b ", "a", "b"],
  });
  t.equal(added.status, 200);
  t.strictSame(added.body.succeeded, [two, one], "in the order sent, each once, in whichever case");
  const [theirs, malformed, none, tooMany] = added.body.failed;
  matchObject(
    t,
    [theirs, malformed, none, tooMany],
    [
      { id: foreign, code: "TARGET_NOT_FOUND" },
      { id: "nonsense", code: "INVALID_ID" },
      { id: absent, code: "TARGET_NOT_FOUND" },
      { id: full, code: "INVALID_TAG" },
    ],
  );
  t.equal(theirs.message, none.message, "a foreign target is an absent one");
  matchObject(t, await read(two), {
    tags: ["a", "b"],
    write_source: "terraform",
    updated_at: new Date(clock.now()).toISOString(),
  });
  matchObject(t, await read(one), { tags: ["b", "a"] });
  t.equal((await read(full)).tags.length, 50);

  matchObject(t, (await act([one, two], { type: "tag_remove", tags: ["a", "never"] })).body, {
    succeeded: [one, two],
    failed: [],
  });
  t.strictSame([(await read(one)).tags, (await read(two)).tags], [["b"], ["b"]]);
  matchObject(t, (await act([one, foreign], { type: "delete" })).body, {
    succeeded: [one],
    failed: [{ id: foreign, code: "TARGET_NOT_FOUND" }],
  });
  matchObject(t, (await act([one], { type: "enable" })).body, {
    succeeded: [],
    failed: [{ id: one, code: "TARGET_NOT_FOUND" }],
  });
  caller = stranger;
  matchObject(t, await read(foreign), { name: "foreign", write_source: "api" });

  for (const [body, status, code, field] of [
    [{ ids: [], action: { type: "enable" } }, 400, "BULK_EMPTY", "/ids"],
    [{ ids: new Array(10_001).fill(one), action: { type: "enable" } }, 413, "BULK_TOO_LARGE", "/ids"],
    [{ ids: [one], action: { type: "explode" } }, 400, "INVALID_BODY", "/action/type"],
    [{ ids: [one], action: { type: "tag_add" } }, 400, "INVALID_TAG", "/action/tags"],
    [{ ids: [one], action: { type: "tag_add", tags: [] } }, 400, "INVALID_TAG", "/action/tags"],
    [{ ids: [one], action: { type: "tag_add", tags: ["x", " "] } }, 400, "INVALID_TAG", "/action/tags/1"],
    [{ ids: [one], action: { type: "enable", tags: ["x"] } }, 400, "UNKNOWN_FIELD", "/action/tags"],
    [{ ids: [7], action: { type: "enable" } }, 400, "INVALID_BODY", "/ids/0"],
  ] as const)
    matchObject(t, await ask("POST", bulkAction, body), error(status, code, field), code);
});

t.test("disabling closes incidents and sends no notification, as a PATCH does", async (t) => {
  const channel = await webhookTo(caller, "https://hooks.example.org/");
  const [broken, also, fine] = (await create(
    ...["broken", "also", "fine"].map((name) => http(name, { alerts: [{ channel_id: channel }] })),
  )) as [string, string, string];
  await takeDown(broken, also);
  t.strictSame([await openIncidents(broken), await openIncidents(also), await openIncidents(fine)], [1, 1, 0]);
  clock.advance(second);
  matchObject(t, (await act([broken, fine], { type: "disable" })).body, { succeeded: [broken, fine], failed: [] });
  t.strictSame([await openIncidents(broken), await openIncidents(also)], [0, 1]);
  matchObject(t, (await listIncidents(caller, { state: "closed", target_id: broken, limit: 1, offset: 0 })).items, [
    { closed_by: "pause" },
  ]);
  t.strictSame(
    [
      ...(await sql`
        select d.reason from deliveries d join incidents i on i.id = d.incident_id where i.target_id = ${broken}`),
    ],
    [{ reason: "opened" }],
  );
  matchObject(t, await read(fine), { enabled: false });
  await act([broken], { type: "enable" });
  t.equal(await openIncidents(broken), 0, "a pause ends the evidence");
  clock.advance(minute);
  await takeDown(broken);
  t.equal(await openIncidents(broken), 1, "and new evidence counts");
});

t.test("deleting, editing and results of the same targets at once: no deadlock, and one order", async (t) => {
  const ids = await create(...Array.from({ length: 40 }, (_, at) => http(`t${at}`)));
  const shuffled = ids.toReversed();
  const edits = ids.slice(0, 20).map((id) =>
    updateTarget(caller, id, { enabled: false }).then(
      () => "edited",
      (failure: { code: string }) => failure.code,
    ),
  );
  const [deleted, disabled, ...edited] = await Promise.all([
    act(shuffled.slice(0, 30), { type: "delete" }),
    act(ids, { type: "disable" }),
    ...edits,
    takeDown(...ids),
  ]);
  t.strictSame([deleted.status, disabled.status], [200, 200]);
  t.equal(deleted.body.succeeded.length, 30);
  t.ok(edited.slice(0, 20).every((outcome) => outcome === "edited" || outcome === "TARGET_NOT_FOUND"));
  t.equal(disabled.body.succeeded.length + disabled.body.failed.length, 40);
  t.equal(await total(), 10);
  t.equal((await ask("GET", "/api/v1/targets?enabled=true")).body.total, 0, "what is left is disabled");
});

t.test("agents are sent the change at once, in one announcement for many targets", async (t) => {
  const hub = openHub(sql, log);
  let announcements = 0;
  hub.on("sm_targets", () => void announcements++);
  await hub.ready();
  const poll = async (agent: AgentCtx, cursor: string | null) =>
    await pull(
      agent,
      hub,
      { protocol: protocolVersion, agent_version: "1.0.0", kinds: allAbilities, cursor, capacity: 0 },
      AbortSignal.abort(),
    );
  const known = await poll(eu, null);
  announcements = 0;
  const ids = await create(...Array.from({ length: 50 }, (_, at) => tcp(`t${at}`)));
  const named = await poll(eu, known.cursor);
  t.strictSame(named.checks.map((check) => check.target_id).sort(), [...ids].sort());
  await act(ids, { type: "disable" });
  const paused = await poll(eu, named.cursor);
  t.strictSame([paused.checks.length, [...paused.drop].sort()], [0, [...ids].sort()]);
  await act(ids, { type: "tag_add", tags: ["x"] });
  t.strictSame((await poll(eu, paused.cursor)).checks, [], "tags are nothing to an agent");
  await act(ids.slice(0, 2), { type: "enable" });
  const back = await poll(eu, paused.cursor);
  t.equal(back.checks.length, 2);
  await act(ids, { type: "delete" });
  t.equal((await poll(eu, back.cursor)).drop.length, 50);
  // Wake-ups come in the order of the commits, so this one is the last.
  const last = new Promise<void>((resolve) => void hub.on("sm_test", (payload) => payload === "over" && resolve()));
  await hub.ready();
  await sql`select pg_notify('sm_test', 'over')`;
  await last;
  t.equal(announcements, 4, "one for each change that agents are sent");
});

t.test("the same request sent again under its key is answered, not done again", async (t) => {
  const key = { "Idempotency-Key": "import-1" };
  const body = [tcp("one"), tcp("two")];
  const answers = await Promise.all(Array.from({ length: 8 }, () => ask("POST", bulk, body, key)));
  t.equal(await total(), 2, "done once");
  t.ok(answers.every(({ status, text }) => status === 201 && text === answers[0]!.text));
  t.equal(answers.filter(({ headers }) => headers.get("idempotent-replayed") === "true").length, 7);
  t.equal((await ask("POST", bulk, [tcp("one")], key)).status, 201);
  t.equal(await total(), 3, "another body under the same key is another request");

  const ids = answers[0]!.body.map((target: { id: string }) => target.id);
  const deletion = { ids, action: { type: "delete" } };
  for (let times = 0; times < 2; times++)
    t.strictSame((await ask("POST", bulkAction, deletion, key)).body, { succeeded: ids, failed: [] });
  matchObject(t, (await ask("POST", bulkAction, deletion)).body, { succeeded: [] }, "without the key it is done again");
  caller = await newOrg(system);
  t.equal(
    (await ask("POST", bulk, body, key)).headers.get("idempotent-replayed"),
    null,
    "another organisation's key is its own",
  );
  t.equal(await total(), 2);
});

t.test(
  "new targets notify the default channels unless they name theirs; a channel is applied to the others",
  async (t) => {
    caller = await newOrg(system);
    const [early] = await create(tcp("early"));
    const ops = await webhookTo(caller, "https://hooks.example.org/ops", "Ops");
    const other = await webhookTo(caller, "https://hooks.example.org/other", "Other");
    await updateChannel(caller, ops, { is_default: true });
    const [late, silent, own] = await create(
      tcp("late"),
      { ...tcp("silent"), alerts: [] },
      { ...tcp("own"), alerts: [{ channel_id: other }] },
    );
    const channelsOf = async (id: string | undefined) =>
      (await read(id!)).alerts.map((alert: { channel_id: string }) => alert.channel_id);
    t.strictSame([await channelsOf(early), await channelsOf(late)], [[], [ops]]);
    t.strictSame([await channelsOf(silent), await channelsOf(own)], [[], [other]]);
    matchObject(t, await ask("POST", "/api/v1/targets", tcp("single")), {
      status: 201,
      body: { alerts: [{ channel_id: ops }] },
    });
    matchObject(t, await getChannel(caller, ops), { is_default: true, targets_count: 2, tested_at: null });
    const apply = (id: string) => ask("POST", `/api/v1/notification-channels/${id}/apply`);
    matchObject(t, await apply(ops), { status: 200, body: { added: 3 } });
    matchObject(t, await apply(ops), { status: 200, body: { added: 0 } }, "twice is once");
    t.strictSame(await channelsOf(own), [other, ops], "after those that it has");
    matchObject(t, await apply(newId()), error(404, "CHANNEL_NOT_FOUND"));
    caller = await newOrg(system);
    matchObject(t, await apply(ops), error(404, "CHANNEL_NOT_FOUND"), "a foreign one");
  },
);
