import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { CheckSpec } from "@statusmesh/shared/checks";
import { newId } from "@statusmesh/shared/ids";
import { createChannel, updateChannel } from "../channels/service.ts";
import { outboxNotice } from "../incidents/notices.ts";
import { writeDeliveries } from "./outbox.ts";
import type { Notice, Reason } from "../channels/schema.ts";
import { until } from "../../testing/clock.ts";
import { deliveryScene, type OwnedWorld } from "../../testing/deliveries.ts";
import { webhookTo } from "../../testing/scene.ts";
import { claimDeliveries } from "./claim-queries.ts";
import { digestOf, gatherDigests, stormRules } from "./digest.ts";
import type { DigestMember } from "./digest-queries.ts";
import { openPlaces } from "./limits.ts";

/* Many incidents at once: one message for a channel that people read, and a row in the log for each incident. */

const { sink, world, deliverer, later, rows } = await deliveryScene(t);
const open = (t: Parameters<typeof world>[0], threshold = 20) =>
  world(t, { SM_CHANNELS__ENDPOINTS__SLACK: sink.url, SM_ALERTS__DIGEST_THRESHOLD: String(threshold) });

const slack = async (w: OwnedWorld, name = "Chat"): Promise<string> => {
  const config = { type: "slack", webhook_url: "https://hooks.slack.com/services/T0/B0/X" } as const;
  return (await createChannel(w.owner, { name, config })).id;
};

interface Pair {
  targetId: string;
  incidentId: string;
  name: string;
}

/** Monitors of one host, bound to the channels, each with an incident that has just opened. */
async function incidentsOf(w: OwnedWorld, host: string, count: number, channels: readonly string[]): Promise<Pair[]> {
  const at = new Date(w.clock.now());
  const pairs = Array.from({ length: count }, (_, n) => ({
    targetId: newId(),
    incidentId: newId(),
    name: `${host} ${n}`,
  }));
  const targets = pairs.map(({ targetId }) => targetId);
  const spec = w.sql.json({ type: "tcp", host, port: 443 });
  await w.sql`
    insert into targets (id, org_id, name, kind, spec, interval_secs, enabled, tags, alert_confirmations,
      notify_recovery, renotify_interval_secs, region_policy, write_source, created_at, updated_at)
    select id, ${w.owner.orgId}, name, 'tcp', ${spec}, 60, true, '{}', 2, true, 3600, '"majority"', 'api', ${at}, ${at}
    from unnest(${targets}::uuid[], ${pairs.map(({ name }) => name)}::text[]) as n (id, name)`;
  await w.sql`
    insert into target_alerts (target_id, channel_id, position)
    select t, c.id, c.place from unnest(${targets}::uuid[]) t,
      unnest(${[...channels]}::uuid[]) with ordinality as c (id, place)`;
  await w.sql`
    insert into incidents (id, org_id, target_id, started_at, opened_at, outage_since, severity, impact, peak_impact,
      regions_down, regions_up, created_at, updated_at)
    select id, ${w.owner.orgId}, target_id, ${at}, ${at}, ${at}, 'major', 'major_outage', 'major_outage', '{eu}', '{}',
      ${at}, ${at}
    from unnest(${pairs.map(({ incidentId }) => incidentId)}::uuid[], ${targets}::uuid[]) as n (id, target_id)`;
  return pairs;
}

function noticesOf(w: OwnedWorld, pairs: readonly Pair[], reason: Reason) {
  const at = new Date(w.clock.now());
  return pairs.map(({ targetId, incidentId, name }) => {
    const incident = {
      id: incidentId,
      org_id: w.owner.orgId,
      target_id: targetId,
      monitor_name: name,
      severity: "major" as const,
      started_at: at,
      ended_at: reason === "resolved" ? at : null,
      outage_since: null,
      past_outage_ms: 0,
      error_sample: "connection refused",
      regions_down: ["eu"],
      regions_up: [],
    };
    return outboxNotice(incident, reason, 0, w.system.config.server.public_url);
  });
}

const write = (w: OwnedWorld, pairs: readonly Pair[], reason: Reason) =>
  writeDeliveries(w.sql, w.clock.now(), noticesOf(w, pairs, reason));

const texts = () =>
  sink.received
    .filter(({ path }) => path.startsWith("/services"))
    .map(({ body }) => (JSON.parse(body.toString()) as { text: string }).text);
const allDelivered = (w: OwnedWorld) =>
  until(async () => (await rows(w)).every(({ state }) => state === "delivered"), "every delivery");

t.test("one dead host behind 880 monitors is one message to a chat, and one for each to a webhook", async (t) => {
  const w = await open(t);
  const [chat, hook] = [await slack(w), await webhookTo(w.owner, `${sink.url}/hook`)];
  const pairs = await incidentsOf(w, "db.example.org", 880, [chat]);
  const each = 40;
  for (const { targetId } of pairs.slice(0, each))
    await w.sql`insert into target_alerts (target_id, channel_id, position) values (${targetId}, ${hook}, 9)`;
  deliverer(t, w);
  deliverer(t, w);
  await write(w, pairs, "opened");
  await until(() => sink.received.length === each, "each at the webhook");
  t.strictSame(texts(), [], "the chat waits for the rest of the storm");
  await later(w, 2_000);
  await allDelivered(w);
  t.equal(texts().length, 1);
  t.match(texts()[0], /880 monitors are down[\s\S]*db\.example\.org/);
  const digested = (await rows(w)).filter(({ channel_id }) => channel_id === chat);
  t.equal(digested.length, 880);
  t.equal(new Set(digested.map(({ digest_id }) => digest_id)).size, 1);
  t.ok(digested.some(({ id }) => id === digested[0]!.digest_id));
  const [logged] = await w.sql`select count(*)::int as count, bool_and(ok) as ok from delivery_attempts`;
  matchObject(t, logged, { count: 880 + each, ok: true }, "an attempt in the log of every incident");

  await write(w, pairs, "resolved");
  await later(w, 0);
  await until(() => sink.received.length >= 2 * each + 1, "each recovery at the webhook");
  await later(w, 2_000);
  await allDelivered(w);
  t.equal(texts().length, 2);
  t.match(texts()[1], /880 monitors recovered/);
});

t.test("up to the threshold each incident has a message; several wait 1 s, near it 2 s", async (t) => {
  const w = await open(t);
  const chat = await slack(w);
  deliverer(t, w);
  const few = await incidentsOf(w, "a.example.org", 9, [chat]);
  await write(w, few.slice(0, 1), "opened");
  await until(() => texts().length === 1, "a single one, at once");
  await write(w, few.slice(1), "opened");
  await later(w, 999);
  t.equal(texts().length, 1);
  await later(w, 1);
  await until(() => texts().length === 9, "each by itself");
  const more = await incidentsOf(w, "b.example.org", 11, [chat]);
  await write(w, more, "opened");
  await later(w, 1_999);
  t.equal(texts().length, 9);
  await later(w, 1);
  await allDelivered(w);
  t.equal(texts().length, 20);

  // One more within the minute: from here on they are collected, and a digest of one is an ordinary message.
  await write(w, await incidentsOf(w, "c.example.org", 1, [chat]), "opened");
  await later(w, 2_000);
  await until(() => texts().length >= 21, "the one");
  t.match(texts()[20], /Down: c\.example\.org 0/);
  w.clock.advance(61_000);
  await write(w, await incidentsOf(w, "d.example.org", 1, [chat]), "opened");
  await until(() => texts().length >= 22, "an incident after the storm, at once");
});

t.test("monitors of one host that fail together in several batches are one message", async (t) => {
  const w = await open(t);
  const chat = await slack(w);
  deliverer(t, w);
  const pairs = await incidentsOf(w, "db.example.org", 30, [chat]);
  for (const first of [0, 5, 10, 20]) {
    await write(w, pairs.slice(first, first < 10 ? first + 5 : first + 10), "opened");
    // The first ones are held until the fourth batch, even when the deliverer looks before it is written.
    await later(w, 600);
  }
  await later(w, 2_000);
  await allDelivered(w);
  t.equal(texts().length, 1);
  t.match(texts()[0], /30 monitors are down/);
});

t.test("an ongoing storm is sent after 15 s", async (t) => {
  const w = await open(t);
  const chat = await slack(w);
  deliverer(t, w);
  await write(w, await incidentsOf(w, "a.example.org", 30, [chat]), "opened");
  for (let second = 1; second < 15; second++) {
    w.clock.advance(1_000);
    await write(w, await incidentsOf(w, "a.example.org", 2, [chat]), "opened");
  }
  t.strictSame(texts(), []);
  await later(w, 1_000);
  await until(() => texts().length >= 1, "the digest");
  t.match(texts()[0], /58 monitors are down/);
});

t.test("a few levels of ladders go at once; those of a storm are one message, apart from its openings", async (t) => {
  const w = await open(t);
  const chat = await slack(w);
  const levels = (pairs: readonly Pair[]) =>
    writeDeliveries(
      w.sql,
      w.clock.now(),
      noticesOf(w, pairs, "unacknowledged").map((one) => ({
        ...one,
        channelIds: [chat],
        notice: { ...one.notice, level: 1 },
      })),
    );
  deliverer(t, w);
  deliverer(t, w);
  await levels(await incidentsOf(w, "a.example.org", 3, []));
  await until(() => texts().length === 3, "each by itself, without a pause");
  await levels(await incidentsOf(w, "b.example.org", 30, []));
  await write(w, await incidentsOf(w, "c.example.org", 1, [chat]), "opened");
  await until(() => texts().length === 4, "the opening, which belongs to no storm");
  await later(w, 2_000);
  await allDelivered(w);
  t.equal(texts().length, 5);
  t.match(texts()[4], /30 monitors are down, not acknowledged[\s\S]*b\.example\.org/);
});

t.test("0 turns digests off", async (t) => {
  const w = await open(t, 0);
  deliverer(t, w);
  await write(w, await incidentsOf(w, "a.example.org", 40, [await slack(w)]), "opened");
  await allDelivered(w);
  t.equal(texts().length, 40);
});

t.test("a refused digest is retried as a whole, and recoveries wait for it", async (t) => {
  const w = await open(t);
  const chat = await slack(w);
  let status = 500;
  sink.answer = (_request, reply) => void reply.writeHead(status).end();
  const pairs = await incidentsOf(w, "a.example.org", 30, [chat]);
  await write(w, pairs, "opened");
  deliverer(t, w);
  await later(w, 2_000);
  await until(async () => (await rows(w)).every(({ attempt_count }) => attempt_count >= 1), "the first attempt");
  await write(w, pairs, "resolved");
  await later(w, 5_000);
  t.equal(texts().length, 1);
  status = 200;
  await later(w, 40_000);
  const opened = async () => (await rows(w)).filter(({ reason }) => reason === "opened");
  await until(async () => (await opened()).every(({ state }) => state === "delivered"), "the digest");
  t.equal(texts()[1], texts()[0], "the same message");
  await later(w, 2_000);
  await allDelivered(w);
  t.equal(texts().length, 3);
});

const claim = async (w: OwnedWorld) =>
  await claimDeliveries(w.sql, {
    ...openPlaces(w.clock.now),
    room: 100,
    storms: stormRules(20),
    now: w.clock.now(),
    leasedUntil: w.clock.now() + 60_000,
  });

t.test("replicas form one digest, and a killed one is sent again under the same id", async (t) => {
  const w = await open(t);
  await write(w, await incidentsOf(w, "a.example.org", 100, [await slack(w)]), "opened");
  t.strictSame([...(await claim(w))], [], "none is sent on its own");
  w.clock.advance(2_000);
  const replicas = Array.from({ length: 4 }, () => ({ ...w.system, sql: w.pool() }));
  await Promise.all(replicas.map((system) => gatherDigests(system, stormRules(20))));
  t.equal(new Set((await rows(w)).map(({ digest_id }) => digest_id)).size, 1);
  const [first, ...others] = await claim(w);
  matchObject(t, first, { digest_id: first!.id });
  t.strictSame(others, []);
  t.strictSame([...(await claim(w))], [], "it is leased");
  // The process that held it was killed.
  w.clock.advance(60_000);
  matchObject(t, await claim(w), [{ id: first!.id, digest_id: first!.id }]);
});

t.test("the rest of a digest is sent when the monitor of its first delivery is deleted", async (t) => {
  const w = await open(t);
  await write(w, await incidentsOf(w, "a.example.org", 30, [await slack(w)]), "opened");
  w.clock.advance(2_000);
  await gatherDigests(w.system, stormRules(20));
  const [leader] = await w.sql`select incident_id from deliveries where digest_id = id`;
  await w.sql`delete from targets where id = (select target_id from incidents where id = ${leader!["incident_id"]})`;
  deliverer(t, w);
  await later(w, 0);
  await allDelivered(w);
  matchObject(t, texts(), [/29 monitors are down/]);
});

t.test("a digest of a channel that became a webhook is sent one by one; of a disabled channel it fails", async (t) => {
  const w = await open(t);
  const [changed, disabled] = [await slack(w), await slack(w, "Other")];
  await write(w, await incidentsOf(w, "a.example.org", 30, [changed, disabled]), "opened");
  w.clock.advance(2_000);
  await gatherDigests(w.system, stormRules(20));
  const config = { type: "webhook", url: `${sink.url}/hook`, headers: {}, secret: null } as const;
  await updateChannel(w.owner, changed, { config });
  await updateChannel(w.owner, disabled, { enabled: false });
  deliverer(t, w);
  await until(async () => (await rows(w)).every(({ state }) => state !== "pending"), "all");
  t.equal(sink.received.filter(({ path }) => path === "/hook").length, 30);
  t.ok((await rows(w)).every(({ channel_id, state }) => (state === "dead") === (channel_id === disabled)));
});

t.test("the groups of a digest: by host, else by tag, largest first, with the worst incident", async (t) => {
  const notice = (name: string, severity: Notice["severity"], started: string): Notice => ({
    incident_id: newId(),
    target_id: newId(),
    monitor_name: name,
    reason: "opened",
    severity,
    urgency: severity === "minor" ? "low" : "high",
    started_at: started,
    ended_at: null,
    outage_since: null,
    duration_secs: null,
    error_sample: null,
    regions_down: [],
    regions_up: [],
    url: "https://status.example.org/",
  });
  const member = (
    name: string,
    host: string | null,
    tags: string[],
    severity: Notice["severity"] = "major",
    started = "2026-11-20T13:00:00.000Z",
  ): DigestMember => ({
    notice: notice(name, severity, started),
    held_by: null,
    spec: host === null ? null : ({ type: "tcp", host, port: 1, timeout: 1 } as CheckSpec),
    tags,
  });
  const digest = digestOf(
    [
      member("a1", "a.example.org", ["eu"], "minor"),
      member("a2", "a.example.org", ["eu"], "critical"),
      member("b1", "b.example.org", ["eu", "shop"]),
      member("c1", "c.example.org", ["shop"], "major", "2026-11-20T12:59:00.000Z"),
      member("d1", "d.example.org", ["shop", "us"]),
      member("e1", null, []),
    ],
    "https://status.example.org",
  );
  t.equal(digest.total, 6);
  t.equal(digest.url, "https://status.example.org/incidents");
  matchObject(t, "groups" in digest && digest.groups, [
    { cause: "shop", total: 3, worst: { monitor_name: "c1" } },
    { cause: "a.example.org", total: 2, worst: { monitor_name: "a2" } },
    { cause: null, total: 1, worst: { monitor_name: "e1" } },
  ]);
});
