import t from "tap";
import type { Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { createChannel, updateChannel } from "../../channels/service.ts";
import { roundKinds } from "../../channels/sending/service.ts";
import { acknowledgeIncident, unacknowledgeIncident } from "../../incidents/lifecycle/lifecycle.ts";
import type { Reason } from "../../channels/schema.ts";
import { until } from "../../../testing/clock.ts";
import { deliveryScene, type OwnedWorld } from "../../../testing/deliveries.ts";
import { openPager } from "../../../testing/pager.ts";
import { fail, incidentsOf, type Pair, recover, say } from "../../../testing/rounds.ts";
import { setStatus, webhookTo } from "../../../testing/scene.ts";
import { composeAlert, nextOf } from "./alerts.ts";
import { claimDeliveries } from "../sending/claim-queries.ts";
import { openPlaces } from "../sending/limits.ts";

/* One cause, one alert at a pager: triggered once, updated without paging, resolved with its last incident. */

const { sink, world, deliverer, later, rows } = await deliveryScene(t);

/** A world whose pagers are a server that behaves as PagerDuty and Opsgenie do. */
async function pagedWorld(t: Test) {
  const env = { SM_CHANNELS__ENDPOINTS__PAGERDUTY: sink.url, SM_CHANNELS__ENDPOINTS__OPSGENIE: sink.url };
  const w = await world(t, env);
  const pager = openPager(() => w.clock.now());
  sink.answer = pager.answer;
  return { w, pager };
}

const pagerDuty = async (w: OwnedWorld, name = "On call"): Promise<string> => {
  const config = { type: "pagerduty", routing_key: "0123456789abcdef0123456789abcdef" } as const;
  return (await createChannel(w.owner, { name, config })).id;
};

async function reopen(w: OwnedWorld, pair: Pair): Promise<void> {
  await w.sql`
    update incidents set ended_at = null, acknowledged_at = null, outage_since = ${new Date(w.clock.now())}
    where id = ${pair.incidentId}`;
  await say(w, [pair], "reopened");
}

/** Nothing is due or in flight: what is pending waits for an update of its alert. */
const settled = (w: OwnedWorld) =>
  until(
    async () => {
      const all = await rows(w);
      const ofId = new Map(all.map((row) => [row.id, row]));
      return all.every(({ state, message_id, ...own }) => {
        const { leased_until, next_attempt_at, ...message } = ofId.get(message_id ?? own.id)!;
        if (state !== "pending") return true;
        return message.state === "pending" && leased_until === null && next_attempt_at!.getTime() > w.clock.now();
      });
    },
    "the deliveries that are due",
    30_000,
  );
const afterUpdate = async (w: OwnedWorld) => {
  await later(w, 30_000);
  await settled(w);
};

t.test(
  "12 monitors on a gateway, a tag of 5 hosts and a critical one: three alerts, each until its last",
  async (t) => {
    const { w, pager } = await pagedWorld(t);
    const channel = await pagerDuty(w);
    await incidentsOf(w, "idle", 42, [], { each: true });
    await w.sql`delete from incidents`;
    const gateway = await incidentsOf(w, "gw-1.acme.internal", 12, [channel], { tags: ["prod"] });
    const tagged = await incidentsOf(w, "edge", 5, [channel], { tags: ["edge"], each: true });
    const critical = await incidentsOf(w, "pay", 1, [channel], { severity: "critical" });
    deliverer(t, w);
    deliverer(t, w);
    for (const pair of [...gateway.slice(0, 6), ...critical, ...tagged, ...gateway.slice(6)]) {
      await say(w, [pair], "opened");
      await later(w, 750);
    }
    await settled(w);
    t.equal(pager.pages(), 3, "alerts, of 18 incidents");
    await afterUpdate(w);
    t.equal((await rows(w)).filter(({ state }) => state !== "delivered").length, 0);
    t.strictSame(
      pager
        .open()
        .map(({ text }) => text)
        .toSorted(),
      ["Down: 12 monitors on gw-1.acme.internal", "Down: 5 monitors with tag edge", "Down: pay 0"],
    );
    t.equal(pager.pages(), 3, "the texts page nobody");
    t.ok(pager.updates() <= 2, `one update of each text: ${pager.updates()}`);

    await recover(w, [...gateway.slice(1), ...tagged.slice(0, 4)]);
    await settled(w);
    t.equal(pager.open().length, 3, "not the last");
    await afterUpdate(w);
    t.strictSame(
      pager
        .open()
        .map(({ text }) => text)
        .toSorted(),
      ["Down: edge 4", "Down: gw-1.acme.internal 0", "Down: pay 0"],
    );
    for (const pairs of [[gateway[0]!], [tagged[4]!], critical]) {
      const before = pager.open().length;
      await recover(w, pairs);
      await settled(w);
      t.equal(pager.open().length, before - 1, "the last one resolves its alert at once");
    }
    t.equal(pager.pages(), 3);
    t.equal((await rows(w)).filter(({ state }) => state !== "delivered").length, 0);
  },
);

t.test("which alert an incident joins", async (t) => {
  const { w, pager } = await pagedWorld(t);
  const channel = await pagerDuty(w);
  deliverer(t, w);
  await incidentsOf(w, "idle", 30, [], { each: true });
  await w.sql`delete from incidents`;
  const joins = async (
    title: string,
    joined: boolean,
    ...of: Parameters<typeof fail> extends [unknown, ...infer R] ? R : never
  ) => {
    const before = pager.pages();
    const pairs = await fail(w, ...of);
    await settled(w);
    t.equal(pager.pages() - before, joined ? 0 : 1, title);
    return pairs;
  };
  const [first] = await joins("the first", false, "db-1", 1, [channel], { tags: ["db", "all"] });
  await joins("the same host", true, "db-1", 1, [channel], { severity: "minor" });
  await joins("another host: its error and its region are the same", false, "db-2", 1, [channel]);
  await joins("a higher severity", false, "db-1", 1, [channel], { severity: "critical" });
  await joins("a tag of the first monitor, where the alert has another cause", false, "db-3", 1, [channel], {
    tags: ["db"],
  });
  await joins("a rare tag", true, "db-4", 1, [channel], { tags: ["db"] });
  await later(w, 899_000);
  await settled(w);
  await joins("within 15 minutes of the last opening", true, "db-5", 1, [channel], { tags: ["db"] });
  await later(w, 900_000);
  await settled(w);
  const [old] = await joins("15 minutes after it", false, "db-6", 1, [channel], { tags: ["db"] });
  await acknowledgeIncident(w.owner, old!.incidentId);
  await settled(w);
  const [next] = await joins("an acknowledged alert", false, "db-6", 1, [channel]);
  await w.sql`update channel_alerts set acknowledged_at = ${new Date(w.clock.now())} where key = ${next!.incidentId}`;
  await joins("an alert that was acknowledged at the pager", false, "db-6", 1, [channel]);
  await w.sql`update targets set tags = '{many}' where name like 'idle%'`;
  await joins("a frequent tag", false, "db-7", 1, [channel], { tags: ["many"] });
  await joins("whose monitors mostly work", false, "db-8", 1, [channel], { tags: ["many"] });
  await w.sql`update targets set enabled = false where name like 'idle%'`;
  await joins("whose monitors mostly fail", true, "db-9", 1, [channel], { tags: ["many"] });
  await joins("another channel", false, "db-9", 1, [await pagerDuty(w, "Second")]);

  // The key stays when the incident reopens after its alert has ended.
  const before = pager.pages();
  await recover(w, [old!]);
  await settled(w);
  await reopen(w, old!);
  await settled(w);
  t.equal(pager.pages(), before + 1);
  t.equal(pager.open().filter(({ key }) => key === old!.incidentId).length, 1);
  t.equal(pager.open().filter(({ key }) => key === first!.incidentId).length, 1);
});

t.test("an alert is acknowledged there when all its open incidents are", async (t) => {
  const { w, pager } = await pagedWorld(t);
  const channel = await pagerDuty(w);
  deliverer(t, w);
  const [a, b, c] = await fail(w, "gw", 3, [channel]);
  await settled(w);
  await afterUpdate(w);
  const [alert] = pager.open();
  await acknowledgeIncident(w.owner, a!.incidentId);
  await settled(w);
  t.equal(alert!.state, "triggered", "two of three wait");
  await acknowledgeIncident(w.owner, b!.incidentId);
  await settled(w);
  t.equal(alert!.state, "triggered");
  await recover(w, [c!]);
  await settled(w);
  t.equal(alert!.state, "acknowledged", "the only one that waited is over: at once");
  await afterUpdate(w);
  t.equal(alert!.text, "Down: 2 monitors on gw");
  t.equal(pager.events().filter(({ type }) => type === "acknowledge").length, 1);
  t.equal((await rows(w)).filter(({ state }) => state !== "delivered").length, 0, "nothing is left over in the log");

  // An acknowledged alert pages nobody: what is to page again gets an alert of its own.
  await recover(w, [b!]);
  await afterUpdate(w);
  await reopen(w, b!);
  await settled(w);
  t.equal(pager.pages(), 2);
  await unacknowledgeIncident(w.owner, a!.incidentId);
  await say(w, [a!], "unacknowledged");
  await settled(w);
  t.equal(pager.pages(), 2, "a level of the ladder joins the alert that rings");
  t.equal(pager.open().length, 2);
  await recover(w, [a!, b!]);
  await afterUpdate(w);
  t.equal(
    pager.open().find(({ key }) => key !== alert!.key),
    undefined,
    "resolved",
  );
});

t.test("what waits joins with the first ones, and is not claimed before the next update", async (t) => {
  const { w } = await pagedWorld(t);
  const channel = await pagerDuty(w);
  const rules = { ...openPlaces(() => w.clock.now()), rounds: { kinds: roundKinds(), secs: 30 } };
  const decide = async (room: number) => {
    const now = w.clock.now();
    const claimed = await claimDeliveries(w.sql, { ...rules, room, now, leasedUntil: now + 60_000 });
    for (const one of claimed) await composeAlert(w.system, { ...one, channel_id: channel }, now);
    return claimed.length;
  };
  const keys = async () =>
    (
      await w.sql<{ key: string; count: number }[]>`
      select key, count(*)::int as count from channel_alert_incidents group by key order by count desc`
    ).map(({ count }) => count);
  await fail(w, "gw", 40, [channel], { tags: ["edge"] });
  t.equal(await decide(2), 2);
  t.strictSame([await keys(), await decide(10)], [[40], 0], "nothing else is due");
  const tagged = { tags: ["rare"], each: true };
  await fail(w, "edge", 12, [channel], tagged);
  await fail(w, "edge-critical", 1, [channel], { ...tagged, severity: "critical" });
  await incidentsOf(w, "idle", 60, [], { each: true });
  await w.sql`delete from incidents where target_id in (select id from targets where name like 'idle%')`;
  t.equal(await decide(2), 2);
  t.strictSame(await keys(), [40, 12], "a more severe one decides for itself");
  t.equal(await decide(10), 1);
  t.strictSame(await keys(), [40, 12, 1]);
});

t.test("processes that are killed: the same alerts, each triggered once", async (t) => {
  const { w, pager } = await pagedWorld(t);
  const channel = await pagerDuty(w);
  const places = openPlaces(() => w.clock.now());
  const { channels, hosts, orgs } = places;
  const rules = { rounds: { kinds: roundKinds(), secs: 30 }, room: 100, channels, hosts, orgs };
  /** A process that claims what is due, decides, and dies before it sends. */
  const killed = async () => {
    const now = w.clock.now();
    const claimed = await claimDeliveries(w.sql, { ...rules, now, leasedUntil: now + 60_000 });
    await Promise.all(claimed.map((one) => composeAlert(w.system, { ...one, channel_id: channel }, now)));
    return claimed.length;
  };
  const pairs = await fail(w, "gw", 8, [channel]);
  t.equal(await killed(), 8);
  t.equal(pager.pages(), 0);
  const leased = (await rows(w)).filter(({ leased_until }) => leased_until !== null);
  t.equal(leased.length, 1, "one of them carries the trigger, the others wait");
  deliverer(t, w);
  deliverer(t, w);
  await later(w, 60_001);
  await settled(w);
  t.equal(pager.pages(), 1);
  await afterUpdate(w);
  t.strictSame(
    pager.open().map(({ text }) => text),
    ["Down: 8 monitors on gw"],
  );
  t.equal((await rows(w)).filter(({ state }) => state !== "delivered").length, 0);
  await recover(w, pairs);
  await settled(w);
  t.strictSame([pager.open().length, pager.pages()], [0, 1]);

  // The receiver is away: every attempt fails, nothing is paged twice, and what is over by then is not sent.
  sink.answer = (_request, reply) => void reply.writeHead(503).end();
  const second = await fail(w, "gw-2", 3, [channel]);
  await settled(w);
  await later(w, 40_000);
  await settled(w);
  sink.answer = pager.answer;
  await later(w, 120_000);
  await settled(w);
  await afterUpdate(w);
  t.strictSame(
    pager.open().map(({ text }) => text),
    ["Down: 3 monitors on gw-2"],
  );
  t.equal(pager.pages(), 2);
  await recover(w, second);
  await settled(w);
  await fail(w, "gw-3", 1, [channel]).then((over) => recover(w, over));
  t.equal(pager.open().length, 0);
});

t.test("a monitor that flaps keeps its alert open; an update that was refused for good loses no resolve", async (t) => {
  const { w, pager } = await pagedWorld(t);
  const channel = await pagerDuty(w);
  deliverer(t, w);
  const [a, b] = await fail(w, "gw", 2, [channel]);
  await settled(w);
  sink.answer = (_request, reply) => void reply.writeHead(400).end();
  await afterUpdate(w);
  sink.answer = pager.answer;
  t.equal((await rows(w)).filter(({ state }) => state === "dead").length, 1, "the opening of one of them");
  const flapping = { since: new Date(w.clock.now()), changes: 3, incident_id: b!.incidentId };
  await setStatus(w.system, b!.targetId, "up");
  await w.sql`update target_states set flapping = ${JSON.stringify(flapping)}::text::jsonb`;
  await w.sql`
    update incidents set ended_at = ${new Date(w.clock.now())}, outage_since = null where id = ${b!.incidentId}`;
  await recover(w, [a!]);
  await settled(w);
  t.equal(pager.open().length, 1, "its end is not told yet");
  await w.sql`update target_states set flapping = null`;
  await say(w, [b!], "resolved");
  await settled(w);
  t.strictSame([pager.open().length, pager.pages()], [0, 1], "also where the opening of the last was not delivered");
});

t.test("Opsgenie: texts without an alert of their own, acknowledged and closed by alias", async (t) => {
  const { w, pager } = await pagedWorld(t);
  const config = { type: "opsgenie", api_key: "eb243592-faa2-4ba2-a551-1afdf565c889", region: "us" } as const;
  const channel = (await createChannel(w.owner, { name: "Ops", config })).id;
  deliverer(t, w);
  const pairs = await fail(w, "gw", 3, [channel]);
  await settled(w);
  await afterUpdate(w);
  const key = pager.open()[0]!.key;
  t.strictSame(
    sink.received.map(({ path }) => path.replace(key, "KEY")),
    ["/v2/alerts", "/v2/alerts/KEY/message?identifierType=alias", "/v2/alerts/KEY/description?identifierType=alias"],
  );
  matchObject(t, pager.open(), [
    {
      text: "Down: 3 monitors on gw",
      details: /^gw: 3 down, since [^:]+:\d\d UTC, connection refused: gw 0, gw 1, gw 2\nAcknowledge: /,
    },
  ]);
  for (const { incidentId } of pairs) await acknowledgeIncident(w.owner, incidentId);
  await settled(w);
  t.equal(pager.open()[0]!.state, "acknowledged");
  await recover(w, pairs);
  await settled(w);
  t.equal(pager.open().length, 0);
  t.equal(pager.pages(), 1);
});

t.test("a webhook gets every notice, with its group", async (t) => {
  const { w } = await pagedWorld(t);
  sink.answer = (_request, reply) => void reply.writeHead(200).end();
  const channel = await webhookTo(w.owner, sink.url);
  deliverer(t, w);
  const groups = () =>
    sink.received
      .splice(0)
      .map(
        ({ body }) => (JSON.parse(body.toString()) as { group: { key: string; cause: object; open: number } }).group,
      );
  const [a] = await fail(w, "gw", 1, [channel]);
  await settled(w);
  const key = a!.incidentId;
  t.strictSame(groups(), [{ key, cause: null, open: 1 }]);
  const [b] = await fail(w, "gw", 1, [channel]);
  await settled(w);
  const cause = { kind: "host", value: "gw" };
  t.strictSame(groups(), [{ key, cause, open: 2 }]);
  await recover(w, [a!]);
  await settled(w);
  t.strictSame(groups(), [{ key, cause, open: 1 }], "no notice waits");
  await acknowledgeIncident(w.owner, b!.incidentId);
  const [x] = await fail(w, "gw", 1, [channel]);
  await settled(w);
  t.strictSame(groups(), [{ key: x!.incidentId, cause: null, open: 1 }], "that group is acknowledged");
  await recover(w, [b!]);
  await settled(w);
  t.strictSame(groups(), [{ key, cause, open: 0 }]);
  await recover(w, [x!]);
  await settled(w);
  t.strictSame(groups(), [{ key: x!.incidentId, cause: null, open: 0 }]);
  const [c] = await fail(w, "gw", 1, [channel]);
  await settled(w);
  t.strictSame(groups(), [{ key: c!.incidentId, cause: null, open: 1 }], "that group is over");
  await updateChannel(w.owner, channel, { enabled: false });
});

t.test("what an alert does next", (t) => {
  const now = 1_000_000;
  const ago = (secs: number) => new Date(now - secs * 1000);
  const fresh = {
    updated_at: null,
    triggered_at: null,
    acknowledged_at: null,
    ended_at: null,
    delivery_id: null,
    in_flight: false,
    isCarrier: false,
  };
  const triggered = { ...fresh, updated_at: ago(10), triggered_at: ago(10) };
  const next = (
    known: Partial<typeof triggered> | object,
    open: number,
    waiting: number,
    reason: Reason = "opened",
  ) => {
    const found = nextOf({ ...fresh, ...known }, { isOpen: open > 0, waits: waiting > 0 }, reason, now);
    return found.kind === "send"
      ? found.events.join("+")
      : found.kind === "wait"
        ? `wait ${(found.until - now) / 1000}${found.acknowledge ? ", acknowledge" : ""}`
        : "nothing";
  };
  t.equal(next({}, 1, 1), "trigger");
  t.equal(next({}, 1, 0), "trigger+acknowledge", "somebody was faster");
  t.equal(next({}, 0, 0), "nothing", "opened and ended before it could leave");
  t.equal(next({ updated_at: ago(10), isCarrier: true }, 1, 1), "trigger", "a trigger is tried again");
  t.equal(next({ updated_at: ago(10) }, 2, 2), "wait 20", "another delivery has tried to");
  t.equal(next({ updated_at: ago(30) }, 2, 2), "trigger");
  t.equal(next({ updated_at: ago(10), in_flight: true }, 2, 2), "wait 20");
  t.equal(next({ updated_at: ago(10) }, 0, 0), "resolve", "a trigger that failed may have arrived");
  t.equal(next({ ...triggered, in_flight: true }, 0, 0), "wait 1", "a resolve does not overtake");
  t.equal(next(triggered, 0, 0, "resolved"), "resolve");
  t.equal(next(triggered, 2, 2), "wait 20");
  t.equal(next({ ...triggered, updated_at: ago(30) }, 2, 2), "update");
  t.equal(next(triggered, 2, 0, "acknowledged"), "acknowledge");
  t.equal(next(triggered, 2, 1, "acknowledged"), "nothing");
  t.equal(next(triggered, 1, 0, "resolved"), "wait 20, acknowledge");
  t.equal(next({ ...triggered, acknowledged_at: ago(5) }, 2, 0, "acknowledged"), "nothing");
  t.equal(next({ ...triggered, ended_at: ago(5) }, 1, 1, "reopened"), "trigger");
  t.equal(next({ ...triggered, ended_at: ago(5) }, 0, 0, "resolved"), "nothing");
  t.end();
});
