import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { until } from "../../../testing/clock.ts";
import { deliveryScene, sendingOf } from "../../../testing/deliveries.ts";
import { openIncident, outboxNotice, webhookTo } from "../../../testing/scene.ts";
import { createChannel } from "../../channels/service.ts";
import { roundKinds } from "../../channels/sending/service.ts";
import { recordAttempts } from "./attempt-queries.ts";
import { claimDeliveries, type ClaimedDelivery, releaseDelivery } from "./claim-queries.ts";
import { sendAndRecord } from "./deliverer.ts";
import { channelLimit, openPlaces } from "./limits.ts";

/* Several processes on one database, and processes that are killed, suspended or lose the database. */

const { sink, world, deliverer, write, later, rows, attempts, row } = await deliveryScene(t);

/** A failed attempt under a lease that was lost. */
const lateAttempt = (delivery: ClaimedDelivery, at: number) =>
  ({
    delivery,
    at,
    ok: false,
    status: 500,
    error: "late",
    state: "pending",
    nextAttemptAt: at,
    pausedUntil: null,
    sent: true,
    dissolves: false,
  }) as const;

t.test("two deliverers on one database send each notice once, and a hanging receiver delays no other", async (t) => {
  const w = await world(t);
  let hangingNow = 0;
  let mostHanging = 0;
  sink.answer = ({ path }, reply) => {
    if (path !== "/hangs") return void reply.writeHead(200).end();
    mostHanging = Math.max(mostHanging, ++hangingNow);
    reply.on("close", () => void hangingNow--);
  };
  const channels = await Promise.all(Array.from({ length: 6 }, () => webhookTo(w.owner, sink.url)));
  const hanging = await webhookTo(w.owner, `${sink.url}/hangs`);
  const stuck = await Promise.all(Array.from({ length: 30 }, () => openIncident(w.owner, [hanging])));
  await write(
    w,
    stuck.map((one) => outboxNotice(w.owner, one, "opened")),
  );
  const running = [deliverer(t, w), deliverer(t, w)];
  for (let batch = 0; batch < 5; batch++) {
    const incidents = await Promise.all(Array.from({ length: 5 }, () => openIncident(w.owner, channels)));
    await write(
      w,
      incidents.flatMap((one) => [outboxNotice(w.owner, one, "opened"), outboxNotice(w.owner, one, "resolved")]),
    );
  }
  const [expected] = await w.sql<
    { count: number }[]
  >`select count(*)::integer as count from deliveries where channel_id <> ${hanging}`;
  t.equal(expected?.count, 300);
  await until(
    async () =>
      (await w.sql`select 1 from deliveries where state = 'pending' and channel_id <> ${hanging} limit 1`).length === 0,
    "all delivered",
  );
  const ids = sink.received
    .filter(({ path }) => path !== "/hangs")
    .map(({ body }) => JSON.parse(body.toString()) as { delivery_id: string; incident_id: string; reason: string });
  t.equal(ids.length, 300);
  t.equal(new Set(ids.map((one) => one.delivery_id)).size, 300);
  const [overtaken] = await w.sql<{ count: number }[]>`
    select count(*)::integer as count from deliveries r join deliveries o using (incident_id, channel_id)
    where o.reason = 'opened' and r.reason = 'resolved' and r.delivered_at < o.delivered_at`;
  t.equal(overtaken?.count, 0);
  t.ok(
    mostHanging > 0 && mostHanging <= 2 * channelLimit.fast,
    "each deliverer sends at most the limit to the hanging channel",
  );

  // Stopping interrupts hanging sends and releases their deliveries.
  await Promise.all(running.map((one) => one.stop()));
  const [left] = await w.sql<object[]>`
      select count(*)::integer as pending, count(leased_until)::integer as leased from deliveries
      where state = 'pending'`;
  t.strictSame({ ...left }, { pending: 30, leased: 0 });
  t.strictSame(
    (await attempts(w)).filter(({ ok, error }) => !ok && error !== "no answer within 10 s"),
    [],
    "an interrupted send is no attempt",
  );
});

t.test(
  "a killed deliverer's notices are sent by another after the lease, and the killed one can write nothing",
  async (t) => {
    const w = await world(t);
    const incident = await openIncident(w.owner, [await webhookTo(w.owner, sink.url)]);
    await write(w, [outboxNotice(w.owner, incident, "opened")]);
    const limits = () => ({
      ...openPlaces(w.clock.now),
      room: 10,
      rounds: { kinds: roundKinds(), secs: 30 },
      now: w.clock.now(),
      leasedUntil: w.clock.now() + 60_000,
    });
    const [held] = await claimDeliveries(w.sql, limits());
    t.equal(held?.notice.incident_id, incident.incidentId);
    t.strictSame([...(await claimDeliveries(w.sql, limits()))], [], "no other process can claim it");
    deliverer(t, w);
    await later(w, 59_999);
    await write(w, [outboxNotice(w.owner, incident, "escalated")]);
    const other = await openIncident(w.owner, [await webhookTo(w.owner, sink.url)]);
    await write(w, [outboxNotice(w.owner, other, "opened")]);
    await until(() => sink.received.length >= 1, "a notice of another incident");
    t.equal((await row(w)).attempt_count, 0);
    await later(w, 1);
    await until(async () => (await rows(w)).every(({ state }) => state === "delivered"), "all");
    t.equal((await row(w)).attempt_count, 1);
    t.equal((await recordAttempts(w.sql, [lateAttempt(held!, w.clock.now())])).size, 0);
    await releaseDelivery(w.sql, held!);
    matchObject(t, await row(w), { state: "delivered", attempt_count: 1 });
    t.equal((await attempts(w)).length, 3);
  },
);

t.test("a process that is suspended for 30 s after its claim sends nothing, also to a pager", async (t) => {
  const w = await world(t, { SM_CHANNELS__ENDPOINTS__PAGERDUTY: sink.url });
  const config = { type: "pagerduty", routing_key: "0123456789abcdef0123456789abcdef" } as const;
  const pager = await createChannel(w.owner, { name: "On call", config });
  const incident = await openIncident(w.owner, [await webhookTo(w.owner, sink.url), pager.id]);
  await write(w, [outboxNotice(w.owner, incident, "opened")]);
  const sending = sendingOf(w, sink.ca);
  const claim = async () => {
    const now = w.clock.now();
    const limits = { ...openPlaces(w.clock.now), room: 10, rounds: sending.rounds, now, leasedUntil: now + 60_000 };
    return { now, claimed: await claimDeliveries(w.sql, limits) };
  };
  const first = await claim();
  t.equal(first.claimed.length, 2);
  w.clock.advance(30_001);
  for (const delivery of first.claimed) await sendAndRecord(sending, delivery, first.now);
  t.equal(sink.received.length, 0);
  t.strictSame(
    (await rows(w)).map(({ state, attempt_count, leased_until }) => [state, attempt_count, leased_until]),
    [
      ["pending", 0, null],
      ["pending", 0, null],
    ],
  );
  const again = await claim();
  const late = first.claimed.map((delivery) => lateAttempt(delivery, w.clock.now()));
  t.equal((await recordAttempts(w.sql, late)).size, 0, "the lease is another one's");
  w.clock.advance(30_000);
  for (const delivery of again.claimed) await sendAndRecord(sending, delivery, again.now);
  t.strictSame(
    (await rows(w)).map(({ state, attempt_count }) => [state, attempt_count]),
    [
      ["delivered", 1],
      ["delivered", 1],
    ],
  );
  t.equal(sink.received.length, 2, "each once");
});

t.test("a process that is alone on its database sends at once what a killed one had claimed", async (t) => {
  const w = await world(t);
  const incident = await openIncident(w.owner, [await webhookTo(w.owner, sink.url)]);
  await write(w, [outboxNotice(w.owner, incident, "opened")]);
  const now = w.clock.now();
  const { rounds } = sendingOf(w, sink.ca);
  const limits = { ...openPlaces(w.clock.now), room: 10, rounds, now, leasedUntil: now + 60_000 };
  t.equal((await claimDeliveries(w.sql, limits)).length, 1);
  deliverer(t, w, { isAlone: true });
  await until(async () => (await row(w)).state === "delivered", "the delivery");
  t.equal(sink.received.length, 1);
});

t.test("the deliverer survives an outage of the database", async (t) => {
  const w = await world(t);
  deliverer(t, w);
  const incident = await openIncident(w.owner, [await webhookTo(w.owner, sink.url)]);
  await w.sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()`;
  await write(w, [outboxNotice(w.owner, incident, "opened")]);
  await until(async () => (await row(w)).state === "delivered", "the delivery");
  t.equal(sink.received.length, 1);
});
