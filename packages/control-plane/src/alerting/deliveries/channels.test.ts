import { type AddressInfo, createServer, type Socket } from "node:net";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import { createOutbound } from "../../platform/outbound/client.ts";
import { getChannel, updateChannel } from "../channels/service.ts";
import { testChannel } from "../channels/sending/service.ts";
import type { Ctx } from "../../platform/context.ts";
import { listEvents } from "../incidents/timeline/service.ts";
import { retryDelivery } from "../incidents/explanation/service.ts";
import { until } from "../../testing/clock.ts";
import { deliveryScene, type OwnedWorld } from "../../testing/deliveries.ts";
import { openIncident, outboxNotice, webhookTo } from "../../testing/scene.ts";
import { newOrg, refusal } from "../../testing/world.ts";
import { hostLimit, maxInFlight, orgLimit, openPlaces } from "./sending/limits.ts";

/* Deliveries by channel: its health, its pauses, and places in flight that hosts and organisations share. */

const { sink, world, deliverer, write, later, rows, attempts } = await deliveryScene(t);

async function openFor(w: OwnedWorld, channels: readonly string[], owner = w.owner): Promise<void> {
  await write({ ...w, owner }, [outboxNotice(owner, await openIncident(owner, channels), "opened")]);
}

t.test("health of a channel: last delivery, failing since the first failure, over with a success", async (t) => {
  const w = await world(t);
  const id = await webhookTo(w.owner, sink.url);
  const health = async () => {
    const { last_delivery, failing_since } = await getChannel(w.owner, id);
    return { last_delivery, failing_since };
  };
  const at = (ms: number) => new Date(ms).toISOString();
  t.strictSame(await health(), { last_delivery: null, failing_since: null });

  deliverer(t, w);
  let status = 500;
  sink.answer = (_request, reply) => void reply.writeHead(status).end("broken");
  const began = w.clock.now();
  await openFor(w, [id]);
  const failed = (state: string, when: number) => ({
    last_delivery: { at: at(when), state, error: `the receiver answered ${status}: broken` },
    failing_since: at(began),
  });
  await until(async () => (await health()).last_delivery !== null, "the first attempt");
  t.strictSame(await health(), failed("pending", began));

  await later(w, 40_000);
  await until(async () => (await attempts(w)).length >= 2, "the second attempt");
  t.strictSame(await health(), failed("pending", began + 40_000), "failing since the first failure");
  status = 410;
  await openFor(w, [id]);
  await until(async () => (await attempts(w)).length >= 3, "a refusal");
  t.strictSame(await health(), failed("dead", began + 40_000));

  status = 200;
  await later(w, 100_000);
  await until(async () => (await health()).failing_since === null, "an accepted notice");
  t.strictSame((await health()).last_delivery, { at: at(began + 140_000), state: "delivered", error: null });

  await updateChannel(w.owner, id, { enabled: false });
  await openFor(w, [id]);
  await w.sql`update channels set enabled = false`;
  t.strictSame((await health()).failing_since, null, "a disabled channel is not tried, so it does not fail");
});

t.test("a new config and an accepted test end the failing spell; a new name does not", async (t) => {
  const w = await world(t);
  const id = await webhookTo(w.owner, `${sink.url}/x`);
  deliverer(t, w);
  sink.answer = (_request, reply) => void reply.writeHead(404).end();
  await openFor(w, [id]);
  await until(async () => (await getChannel(w.owner, id)).failing_since !== null, "a failure");
  t.not((await updateChannel(w.owner, id, { name: "Renamed" })).failing_since, null);
  const config = { type: "webhook", url: `${sink.url}/y`, headers: {}, secret: null } as const;
  matchObject(t, await updateChannel(w.owner, id, { config }), {
    failing_since: null,
    last_delivery: { state: "dead" },
  });

  await openFor(w, [id]);
  await until(async () => (await getChannel(w.owner, id)).failing_since !== null, "another failure");
  const transport = createOutbound({ allowPrivate: true, clock: w.clock, ca: sink.ca });
  await t.rejects(testChannel(w.owner, id, transport));
  t.not((await getChannel(w.owner, id)).failing_since, null, "a test that fails changes nothing");
  sink.answer = (_request, reply) => void reply.writeHead(200).end();
  await testChannel(w.owner, id, transport);
  t.equal((await getChannel(w.owner, id)).failing_since, null, "a test that is accepted ends it");
});

t.test("a failed notification can be sent again once, with its full number of attempts", async (t) => {
  const w = await world(t);
  const channel = await webhookTo(w.owner, sink.url);
  let status = 410;
  sink.answer = (_request, reply) => void reply.writeHead(status).end();
  deliverer(t, w);
  const incident = await openIncident(w.owner, [channel]);
  await write(w, [outboxNotice(w.owner, incident, "opened")]);
  await until(async () => (await rows(w))[0]!.state === "dead", "the refusal");
  const { id } = (await rows(w))[0]!;
  const retry = (ctx: Ctx = w.owner, of = incident.incidentId, delivery = id) => retryDelivery(ctx, of, delivery);

  const other = await openIncident(w.owner, [channel]);
  const outsider = await newOrg(w.system);
  matchObject(t, await refusal(t, () => retry(w.owner, incident.incidentId, newId())), { code: "DELIVERY_NOT_FOUND" });
  matchObject(t, await refusal(t, () => retry(w.owner, incident.incidentId, "x")), { code: "DELIVERY_NOT_FOUND" });
  matchObject(t, await refusal(t, () => retry(w.owner, other.incidentId)), { code: "DELIVERY_NOT_FOUND" });
  matchObject(t, await refusal(t, () => retry(outsider)), { code: "INCIDENT_NOT_FOUND" });
  matchObject(t, await refusal(t, () => retry({ ...w.owner, scopes: new Set(["incidents:read"]) })), {
    code: "INSUFFICIENT_SCOPE",
  });
  t.equal(sink.received.length, 1);

  status = 500;
  const replica = { ...w.owner, sql: w.pool() };
  const outcomes = await Promise.allSettled(Array.from({ length: 8 }, (_, n) => retry(n % 2 ? w.owner : replica)));
  t.strictSame(
    outcomes.map((one) => (one.status === "fulfilled" ? "sent" : String(one.reason.code))).sort(),
    [...Array.from({ length: 7 }, () => "DELIVERY_NOT_DEAD"), "sent"],
    "one of eight at once",
  );
  await until(async () => (await attempts(w)).length >= 2, "the second attempt");
  matchObject(t, await rows(w), [{ id, state: "pending", attempt_count: 2 }], "it keeps the count of its attempts");
  const { items } = await listEvents(w.owner, incident.incidentId, { limit: 10, offset: 0 });
  matchObject(t, items, [{ kind: "notification_retried", actor: { type: "user" }, detail: { delivery_id: id } }]);
  t.equal(items.length, 1);
  const [entries] =
    await w.sql`select count(*)::int as count from audit_log where resource_id = ${incident.incidentId}`;
  t.equal(entries!["count"], 1);

  status = 200;
  await later(w, 40_000);
  await until(async () => (await rows(w))[0]!.state === "delivered", "the third attempt");
  const ids = sink.received.map(({ body }) => (JSON.parse(body.toString()) as { delivery_id: string }).delivery_id);
  t.strictSame(ids, [id, id, id], "always the same delivery_id");
  matchObject(t, await refusal(t, retry), { code: "DELIVERY_NOT_DEAD" });
});

t.test("a failed notification is not sent after a newer one", async (t) => {
  const w = await world(t);
  const channel = await webhookTo(w.owner, sink.url);
  const incident = await openIncident(w.owner, [channel]);
  await write(w, [outboxNotice(w.owner, incident, "opened"), outboxNotice(w.owner, incident, "reminder")]);
  await w.sql`update deliveries set state = case reason when 'opened' then 'dead' else 'delivered' end`;
  const { id } = (await rows(w))[0]!;
  matchObject(t, await refusal(t, () => retryDelivery(w.owner, incident.incidentId, id)), {
    code: "DELIVERY_SUPERSEDED",
  });
});

t.test("Retry-After pauses the whole channel, and then one message is sent at a time", async (t) => {
  const w = await world(t);
  const [slow, other] = [await webhookTo(w.owner, `${sink.url}/slow`), await webhookTo(w.owner, `${sink.url}/other`)];
  let most = 0;
  let now = 0;
  sink.answer = ({ path }, reply) => {
    if (path === "/other") return void reply.writeHead(200).end();
    if (sink.received.length === 1) return void reply.writeHead(429, { "retry-after": "7" }).end();
    most = Math.max(most, ++now);
    setTimeout(() => {
      now--;
      reply.writeHead(200).end();
    }, 20);
  };
  deliverer(t, w);
  await openFor(w, [slow]);
  await until(async () => (await attempts(w)).length >= 1, "the refusal");
  for (let n = 0; n < 5; n++) await openFor(w, [slow]);
  await openFor(w, [other]);
  await until(async () => (await rows(w)).some(({ state }) => state === "delivered"), "another channel");
  await later(w, 6_999);
  t.equal((await attempts(w)).length, 2, "the channel waits, with notices that were never tried");
  await later(w, 1);
  await until(async () => (await rows(w)).every(({ state }) => state === "delivered"), "all");
  t.equal(most, 1);
  t.equal((await attempts(w)).filter(({ ok }) => !ok).length, 1, "no attempt is wasted on a receiver that pauses");
});

t.test("a host that hangs delays neither another host nor another organisation", async (t) => {
  const w = await world(t);
  // Accepts connections and stays silent.
  const sockets: Socket[] = [];
  const hangs = createServer((socket) => void sockets.push(socket.on("error", () => undefined)));
  await new Promise<void>((resolve) => hangs.listen(0, "127.0.0.1", resolve));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    hangs.close();
  });
  const url = `https://127.0.0.1:${(hangs.address() as AddressInfo).port}`;
  const outsider = await newOrg(w.system);
  const hanging = await Promise.all(Array.from({ length: 30 }, () => webhookTo(w.owner, url)));
  for (const channel of hanging) for (let n = 0; n < 3; n++) await openFor(w, [channel]);
  deliverer(t, w);
  await until(() => sockets.length >= hostLimit.fast, "every place of the host");
  w.clock.advance(2_000);
  await openFor(w, [await webhookTo(w.owner, sink.url)]);
  await openFor(w, [await webhookTo(outsider, sink.url)], outsider);
  await until(() => sink.received.length >= 2, "both");
  t.equal(sockets.length, hostLimit.fast, "the hanging host has its own places only");
  const keys = await w.sql`select distinct host_key from channel_health`;
  t.ok(
    keys.every(({ host_key }) => !String(host_key).includes("127.0.0.1")),
    "its name is not stored in plain text",
  );
});

t.test("places: a slow key has fewer, until it is fast again", async (t) => {
  let now = 1_000_000;
  const places = openPlaces(() => now);
  const of = { channel: "c", host: "h", org: "o" };
  const free = (by: "hosts" | "orgs", key: string) =>
    places[by].all().find((it) => it.key === key)?.free ?? places[by].limit;
  const done = [places.take(of)!, places.take(of)!];
  t.equal(free("hosts", "h"), hostLimit.fast - 2);
  t.equal(free("orgs", "o"), orgLimit.fast - 2);
  t.equal(places.room(), maxInFlight - 2);
  now += 1_000;
  t.equal(free("hosts", "h"), hostLimit.slow - 2, "a send waits for a second");
  done[0]!();
  now += 59_000;
  done[1]!();
  t.equal(free("hosts", "h"), hostLimit.slow, "it stays slow after a slow answer");
  places.take(of)!();
  t.equal(free("hosts", "h"), hostLimit.fast, "a fast answer ends it");
  t.strictSame(places.hosts.all(), [], "an idle host has no entry");
  for (let n = 0; n < hostLimit.fast; n++) places.take({ ...of, channel: String(n) });
  t.equal(places.take(of), null);
});
