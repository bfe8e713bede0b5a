import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { minute, noon } from "../../../testing/clock.ts";
import { openOutages } from "../../../testing/outages.ts";
import { webhookTo } from "../../../testing/scene.ts";
import { serveWhole, signedIn } from "../../../testing/whole-app.ts";
import { createSnooze, endSnooze } from "../../snoozes/service.ts";
import { sendEscalations } from "./ladder.ts";
import { acknowledgeIncident } from "../lifecycle/service.ts";
import { callsOf, callsOfCauses } from "./service.ts";

const world = await openOutages(t);
const { sql, clock, system, owner, monitor, report, incidents } = world;
const [phone, boss] = [
  await webhookTo(owner, "https://phone.example.org/", "Phone"),
  await webhookTo(owner, "https://boss.example.org/", "Boss"),
];
clock.at = noon;
const ask = await serveWhole(t, world);
const headers = await signedIn(owner);
const html = async (path: string) => (await ask("GET", path, undefined, { accept: "text/html", ...headers })).text;

t.test("nothing is down: the view says so", async (t) => {
  t.match(await html("/oncall"), /Nothing is down/);
});

t.test(
  "which channels were notified and which are next, until somebody acknowledges; a snooze stops the ladder",
  async (t) => {
    const target = await monitor({
      name: "Shop",
      escalation: [
        { after_minutes: 10, channel_ids: [phone] },
        { after_minutes: 30, channel_ids: [phone, boss] },
      ],
    });
    await report(target, "FF");
    const [{ id } = { id: "" }] = await incidents(target);
    const call = async () => (await callsOf(owner, [id])).get(id)!;
    matchObject(t, await call(), { notified: [], next: { level: 1, channels: ["Phone"], at: /T13:10/ }, held: false });

    clock.advance(10 * minute);
    await sendEscalations(system);
    await sql`update deliveries set state = 'delivered', delivered_at = created_at, next_attempt_at = null`;
    const after = await call();
    t.equal(after.notified.length, 2);
    matchObject(t, after, { next: { level: 2, channels: ["Phone", "Boss"] } });
    t.strictSame(
      after.rungs.map(({ state }) => state),
      ["over", "next"],
    );
    for (const path of ["/oncall", "/wall"]) t.match(await html(path), /Phone and Boss/, path);
    t.match(await html(`/incidents/${id}`), /class="next"/, "the ladder as a line");

    const snooze = await createSnooze(owner, {
      scope: { target_ids: [target] },
      until: new Date(clock.now() + 60 * minute).toISOString(),
    });
    matchObject(t, await call(), { held: true, next: null });
    t.match(await html("/oncall"), /notifications are held/);
    t.match(await html("/oncall/snoozes"), new RegExp(`DELETE /api/v1/snoozes/${snooze.id}`));
    await endSnooze(owner, snooze.id);

    await acknowledgeIncident(owner, id);
    matchObject(t, await call(), { next: null, rungs: [{ state: "over" }, { state: "stopped" }] });
    t.match(await html("/oncall"), /Nobody:\s+acknowledged by/);
  },
);

t.test(
  "a cause of several incidents names the channels of all of them, and the levels that are due first",
  async (t) => {
    const check = { type: "tcp", host: "shared.example.org", port: 5432, timeout: 10_000 } as const;
    const ladderTo = (...channel_ids: string[]) => [{ after_minutes: 10, channel_ids }];
    const escalation = ladderTo(boss);
    const [first, second, third] = [
      await monitor({ name: "A", check }),
      await monitor({ name: "B", check, alerts: [{ channel_id: phone }] }),
      await monitor({ name: "C", check, alerts: [{ channel_id: phone }], escalation }),
    ];
    for (const target of [first, second, third]) await report(target, "FF");
    await sql`
    update deliveries set state = 'delivered', delivered_at = created_at, next_attempt_at = null
    where state = 'pending'`;
    const call = async () =>
      (await callsOfCauses(owner, ["host:shared.example.org", "host:nowhere"])).get("host:shared.example.org");
    matchObject(t, await call(), {
      notified: [{ incidents: 1 }, { name: "Phone", incidents: 2 }],
      next: { level: 1, channels: ["Boss"] },
    });
    const card = (await html("/oncall")).split("<section").find((part) => part.includes("shared.example.org"))!;
    t.match(card, /Phone \(2 of\s+3\)/);
    t.match(card, /Boss/);
    t.match(await html("/wall"), /shared\.example\.org[^]*Next: Boss/, "also where the first monitor has no ladder");

    await report(await monitor({ name: "D", check, escalation: ladderTo(phone, boss) }), "FF");
    matchObject(t, (await call())!.next!.channels, ["Boss", "Phone"], "levels that are due in one minute");
    const until = new Date(clock.now() + 60 * minute).toISOString();
    const snooze = await createSnooze(owner, { scope: { target_ids: [third] }, until });
    matchObject(t, (await call())!.next!.channels, ["Phone", "Boss"], "what is held notifies nobody");
    await endSnooze(owner, snooze.id);
  },
);

t.test("a level that a gate passes over is not next; a cause begins with its most severe monitor", async (t) => {
  const check = { type: "tcp", host: "gated.example.org", port: 5432, timeout: 10_000 } as const;
  const escalation = [
    { after_minutes: 10, channel_ids: [boss], min_severity: "critical" as const },
    { after_minutes: 30, channel_ids: [phone] },
  ];
  const target = await monitor({ name: "Alpha", check, escalation });
  await report(target, "FF");
  const call = async (id = target) => (await callsOf(owner, [(await incidents(id))[0]!.id])).values().next().value!;
  const { next, rungs } = await call();
  matchObject(t, next, { level: 2, channels: ["Phone"] });
  t.strictSame(
    rungs.map(({ state }) => state),
    ["gated", "next"],
  );
  t.match(await html(`/incidents/${(await incidents(target))[0]!.id}`), /Boss: not severe enough/);

  const grave = await monitor({ name: "Zulu", check, severity: "critical", escalation });
  await report(await monitor({ name: "Bravo", check }), "FF");
  await report(grave, "FF");
  matchObject(t, (await call(grave)).next, { level: 1, channels: ["Boss"] });
  const key = "host:gated.example.org";
  matchObject(t, (await callsOfCauses(owner, [key])).get(key)!.next, { level: 1, channels: ["Boss"] });
  for (const path of ["/oncall", "/incidents", "/monitors"])
    t.match(await html(path), /Zulu, Alpha,? and Bravo|Zulu, Alpha, Bravo/, path);
});

t.test("a viewer sees it and cannot act", async (t) => {
  await report(await monitor({ name: "Search" }), "FF");
  t.match(await html("/oncall"), /data-send="POST \/api\/v1\/(?:incidents|snoozes)/);
  await sql`update memberships set role = 'viewer' where user_id = ${owner.userId}`;
  const page = await html("/oncall");
  t.match(page, /Search/);
  t.notMatch(page, /data-send="POST \/api\/v1\/(?:incidents|snoozes)/);
});
