import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { deleteChannel, updateChannel } from "../../channels/service.ts";
import { makeSealer } from "../../../platform/crypto/seal.ts";
import { writeDeliveries } from "../outbox/outbox.ts";
import { dropHeldNotices } from "../service.ts";
import { restoreOrg } from "../../../access/orgs/service.ts";
import { until } from "../../../testing/clock.ts";
import { deliveryScene } from "../../../testing/deliveries.ts";
import { openIncident, outboxNotice, webhookTo } from "../../../testing/scene.ts";
import { newOrg } from "../../../testing/world.ts";
import { maxAttempts } from "./retry.ts";

const { sink, world, deliverer, write, later, rows, attempts, row, receivedReasons } = await deliveryScene(t);

t.test("the outbox: one row for each enabled channel bound to the target, once", async (t) => {
  const w = await world(t);
  const { sql, owner } = w;
  const outsider = await newOrg(w.system);
  const [first, second, off, foreign] = [
    await webhookTo(owner, sink.url, "first"),
    await webhookTo(owner, sink.url, "second"),
    await webhookTo(owner, sink.url, "off"),
    await webhookTo(outsider, sink.url, "foreign"),
  ];
  await updateChannel(owner, off, { enabled: false });
  const bound = await openIncident(owner, [first, second, off, foreign]);
  const silent = await openIncident(owner, []);
  const opened = [outboxNotice(owner, bound, "opened"), outboxNotice(owner, silent, "opened")];
  t.equal(await write(w, []), 0);
  t.equal(await write(w, opened), 2);
  t.equal(await write(w, opened), 0, "the same notice again changes nothing");
  matchObject(t, await rows(w), [
    {
      channel_name: "first",
      state: "pending",
      reason: "opened",
      attempt_count: 0,
      next_attempt_at: new Date(w.clock.now()),
    },
    { channel_name: "second" },
  ]);

  // Bound only after the opening: it gets reminders, but not the recovery.
  const late = await webhookTo(owner, sink.url, "late");
  await sql`insert into target_alerts (target_id, channel_id, position) values (${bound.targetId}, ${late}, 9)`;
  t.equal(await write(w, [outboxNotice(owner, bound, "reminder")]), 3);
  await sql`update deliveries set state = 'dead' where channel_id = ${second} and reason = 'opened'`;
  t.equal(await write(w, [outboxNotice(owner, bound, "resolved")]), 1);
  matchObject(
    t,
    await sql`select channel_name from deliveries where reason = 'resolved'`,
    [{ channel_name: "first" }],
    "a channel that did not get the opening does not get the recovery",
  );
  t.equal(
    await write(w, [outboxNotice(owner, bound, "reopened"), outboxNotice(owner, bound, "resolved", 1)]),
    6,
    "a reopening notifies, also within one batch",
  );
  const dates = await sql<
    { reason: string; seq: number; created_at: Date }[]
  >`select reason, seq, created_at from deliveries where channel_id = ${first} order by created_at`;
  t.strictSame(
    dates.map(({ reason, seq }) => `${reason} ${seq}`),
    ["opened 0", "reminder 0", "resolved 0", "reopened 0", "resolved 1"],
    "a later notice has a later date, even in the same millisecond",
  );
  const many = await Promise.all(Array.from({ length: 200 }, () => openIncident(owner, [first])));
  t.equal(
    await write(
      w,
      many.map((one) => outboxNotice(owner, one, "opened")),
    ),
    200,
  );
});

t.test("a notice is sent as soon as it is committed, and the receiver gets it once", async (t) => {
  const w = await world(t);
  deliverer(t, w);
  const incident = await openIncident(w.owner, [await webhookTo(w.owner, sink.url)]);
  await write(w, [outboxNotice(w.owner, incident, "opened")]);
  const done = await until(async () => (await rows(w)).find(({ state }) => state === "delivered"), "the delivery");
  matchObject(t, done, {
    attempt_count: 1,
    next_attempt_at: null,
    leased_until: null,
    delivered_at: new Date(w.clock.now()),
  });
  t.strictSame(await attempts(w), [{ number: 1, ok: true, status: 200, error: null }]);
  matchObject(t, JSON.parse(sink.received[0]!.body.toString()), {
    delivery_id: done?.id,
    incident_id: incident.incidentId,
    monitor_name: "shop – Köln",
    reason: "opened",
    urgency: "high",
    url: `https://status.example.org/incidents/${incident.incidentId}`,
  });
  t.equal(sink.received.length, 1);
});

t.test("the recovery never overtakes the opening", async (t) => {
  const w = await world(t);
  sink.answer = (_request, reply) => void reply.writeHead(sink.received.length === 1 ? 500 : 200).end();
  const incident = await openIncident(w.owner, [await webhookTo(w.owner, sink.url)]);
  await write(w, [outboxNotice(w.owner, incident, "opened")]);
  await write(w, [outboxNotice(w.owner, incident, "resolved")]);
  const other = await openIncident(w.owner, [await webhookTo(w.owner, sink.url)]);
  deliverer(t, w);
  deliverer(t, w);
  await until(async () => (await row(w)).attempt_count >= 1, "the first attempt");
  await write(w, [outboxNotice(w.owner, other, "opened")]);
  await until(
    async () => (await rows(w)).some(({ state }) => state === "delivered"),
    "another incident, which does not wait",
  );
  const waiting = (await rows(w)).filter(({ state }) => state === "pending");
  matchObject(t, waiting, [
    { reason: "opened", attempt_count: 1 },
    { reason: "resolved", attempt_count: 0 },
  ]);
  await later(w, 40_000);
  await until(async () => (await rows(w)).every(({ state }) => state === "delivered"), "all");
  t.strictSame(receivedReasons(), ["opened", "opened", "opened", "resolved"]);
});

t.test("a receiver that fails: eight attempts with growing pauses, then dead", async (t) => {
  const w = await world(t);
  sink.answer = (_request, reply) => void reply.writeHead(500).end("broken");
  const incident = await openIncident(w.owner, [await webhookTo(w.owner, sink.url, "Ops")]);
  await write(w, [outboxNotice(w.owner, incident, "opened")]);
  deliverer(t, w);
  for (let attempt = 1; attempt < 8; attempt++) {
    const tried = await until(
      async () => (await rows(w)).find((r) => r.attempt_count === attempt && r.leased_until === null),
      `attempt ${attempt}`,
    );
    const pause = tried!.next_attempt_at!.getTime() - w.clock.now();
    const least = 30_000 * 2 ** (attempt - 1);
    t.ok(pause >= least && pause <= Math.min(least * 1.2, 3_600_000), `pause ${attempt}: ${pause}`);
    await later(w, pause - 1);
    await later(w, 1);
  }
  const given = await until(async () => (await rows(w)).find(({ state }) => state === "dead"), "the end");
  matchObject(t, given, { attempt_count: 8, next_attempt_at: null, delivered_at: null });
  matchObject(
    t,
    await attempts(w),
    Array.from({ length: 8 }, (_, at) => ({
      number: at + 1,
      ok: false,
      status: 500,
      error: "the receiver answered 500: broken",
    })),
  );
  t.equal(sink.received.length, 8);
  t.equal(
    new Set(sink.received.map(({ body }) => body.toString())).size,
    1,
    "the same body, with the same delivery_id, each time",
  );
  matchObject(t, w.log.lines.at(-1), {
    level: "warn",
    message: "a delivery has failed permanently",
    fields: { channel: "Ops" },
  });
});

t.test("the reply of the receiver decides the next state", async (t) => {
  const w = await world(t);
  const cases: [number, Record<string, string>, object][] = [
    [204, {}, { state: "delivered" }],
    [429, { "retry-after": "7" }, { state: "pending", next_attempt_at: new Date(w.clock.now() + 7000) }],
    [
      503,
      { "retry-after": new Date(w.clock.now() + 90_000).toUTCString() },
      { state: "pending", next_attempt_at: new Date(w.clock.now() + 90_000) },
    ],
    [400, { "retry-after": "7" }, { state: "dead", attempt_count: 1 }],
    [410, {}, { state: "dead", attempt_count: 1 }],
  ];
  sink.answer = ({ path }, reply) => {
    const [status, headers] = cases[Number(path.slice(1))]!;
    reply.writeHead(status, headers).end();
  };
  for (const at of cases.keys())
    await write(w, [
      outboxNotice(
        w.owner,
        await openIncident(w.owner, [await webhookTo(w.owner, `${sink.url}/${at}`, `case ${at}`)]),
        "opened",
      ),
    ]);
  deliverer(t, w);
  await until(async () => (await rows(w)).every(({ attempt_count }) => attempt_count >= 1), "all attempts");
  const found = await rows(w);
  for (const [at, [status, , expected]] of cases.entries())
    matchObject(
      t,
      found.find(({ channel_name }) => channel_name === `case ${at}`),
      expected,
      String(status),
    );
});

t.test("a disabled or deleted channel is not notified, and the delivery has the reason", async (t) => {
  const w = await world(t);
  const channels = [
    await webhookTo(w.owner, sink.url),
    await webhookTo(w.owner, sink.url),
    await webhookTo(w.owner, sink.url),
  ] as const;
  for (const channel of channels)
    await write(w, [outboxNotice(w.owner, await openIncident(w.owner, [channel]), "opened")]);
  await updateChannel(w.owner, channels[0], { enabled: false });
  await updateChannel(w.owner, channels[1], { enabled: false });
  await w.sql`update channels set disabled_reason = 'the address bounced' where id = ${channels[1]}`;
  await deleteChannel(w.owner, channels[2]);
  deliverer(t, w);
  await until(async () => (await rows(w)).every(({ state }) => state === "dead"), "all dead");
  t.strictSame(
    (await attempts(w)).map(({ error }) => error),
    ["the channel is disabled", "the channel is disabled: the address bounced", "the channel was deleted"],
  );
  t.equal(sink.received.length, 0);
});

t.test("a channel whose secrets cannot be opened: each attempt fails with the reason, up to the last", async (t) => {
  const w = await world(t);
  const sealed = { ...w.owner, sealer: makeSealer(Buffer.alloc(32, 9)) };
  await write(w, [
    outboxNotice(w.owner, await openIncident(w.owner, [await webhookTo(sealed, sink.url, "lost")]), "opened"),
  ]);
  await write(w, [
    outboxNotice(w.owner, await openIncident(w.owner, [await webhookTo(w.owner, sink.url, "fine")]), "opened"),
  ]);
  deliverer(t, w);
  await until(
    async () => (await rows(w)).some(({ state }) => state === "delivered"),
    "the notice of the other channel",
  );
  for (let attempt = 1; attempt < maxAttempts; attempt++) {
    await until(
      async () =>
        (await rows(w)).some(
          (r) => r.attempt_count === attempt && r.channel_name === "lost" && r.leased_until === null,
        ),
      `attempt ${attempt}`,
    );
    await later(w, 3_600_000);
  }
  const dead = await until(async () => (await rows(w)).find(({ state }) => state === "dead"), "the end");
  matchObject(t, dead, { channel_name: "lost", attempt_count: maxAttempts, next_attempt_at: null });
  t.strictSame(
    new Set((await attempts(w)).filter(({ ok }) => !ok).map(({ error }) => error)),
    new Set(["the secrets of the channel were sealed under a key that is not configured here"]),
  );
  t.strictSame(receivedReasons(), ["opened"], "the other channel was notified at once");
});

t.test("notices of a deleted organisation are held, and dropped when it is restored", async (t) => {
  const w = await world(t);
  const gone = await newOrg(w.system);
  const [channel, other] = [await webhookTo(gone, sink.url), await webhookTo(w.owner, sink.url)];
  const incident = await openIncident(gone, [channel]);
  await writeDeliveries(gone.sql, w.clock.now(), [outboxNotice(gone, incident, "opened")]);
  const effects = { announceTargets: async () => {}, dropHeldNotices, refreshPages: async () => {} };
  await gone.sql`update orgs set deleted_at = ${new Date(w.clock.now())} where id = ${gone.orgId}`;
  await writeDeliveries(gone.sql, w.clock.now(), [outboxNotice(gone, incident, "escalated")]);
  const mine = await openIncident(w.owner, [other]);
  await write(w, [outboxNotice(w.owner, mine, "opened")]);
  deliverer(t, w);
  const delivered = (count: number) =>
    until(
      async () => (await rows(w)).filter(({ state }) => state === "delivered").length === count,
      `${count} delivered`,
    );
  await delivered(1);
  await later(w, 7_200_000);
  await write(w, [outboxNotice(w.owner, mine, "escalated")]);
  await delivered(2);
  const held = async () =>
    (
      await w.sql<
        object[]
      >`select state, reason, attempt_count from deliveries where org_id = ${gone.orgId} order by created_at`
    ).map((row) => ({ ...row }));
  t.strictSame(await held(), [
    { state: "pending", reason: "opened", attempt_count: 0 },
    { state: "pending", reason: "escalated", attempt_count: 0 },
  ]);

  await restoreOrg(gone, gone.orgId, effects);
  matchObject(t, await held(), [{ state: "dead" }, { state: "dead" }]);
  t.strictSame(
    (await attempts(w)).filter(({ ok }) => !ok).map(({ error }) => error),
    Array.from({ length: 2 }, () => "the organisation was deleted when this was to be sent"),
  );
  await writeDeliveries(gone.sql, w.clock.now(), [outboxNotice(gone, incident, "reminder")]);
  await w.sql.notify("sm_deliveries", "");
  await delivered(3);
  t.strictSame(receivedReasons(), ["opened", "escalated", "reminder"]);
  t.equal(
    await writeDeliveries(gone.sql, w.clock.now(), [outboxNotice(gone, incident, "resolved")]),
    0,
    "a channel that did not get the opening does not get the recovery",
  );
});
