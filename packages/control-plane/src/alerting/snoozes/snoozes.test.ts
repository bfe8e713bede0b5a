import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import { sendReminders } from "../incidents/escalation/reminders.ts";
import { escalations, sendEscalations } from "../incidents/escalation/ladder.ts";
import { explainIncident } from "../incidents/explanation/service.ts";
import { followMaintenance, isMaintenanceDue } from "../incidents/engine.ts";
import { day, hour, minute, noon } from "../../testing/clock.ts";
import { openOutages } from "../../testing/outages.ts";
import { webhookTo } from "../../testing/scene.ts";
import { newOrg } from "../../testing/world.ts";
import { createSnooze, endSnooze, listSnoozes } from "./service.ts";
import { isTrue } from "../../platform/jobs/queries.ts";

const world = await openOutages(t);
const { sql, clock, system, owner, monitor, report, maintain, notices, incidents } = world;
const other = { ...system, sql: world.pool(4) };

t.beforeEach(async () => {
  clock.at = noon;
  await sql`delete from snoozes`;
  await sql`update incidents set reminder_due_at = null, escalation_due_at = null`;
});

const follow = async () => ((await isTrue(system, isMaintenanceDue)) ? await followMaintenance(system) : 0);
const until = (ms: number) => new Date(clock.now() + ms).toISOString();
const idOf = async (target: string) => (await incidents(target))[0]!.id;

t.test("a snooze holds the opening until its end; one replica sends it", async (t) => {
  const [held, free] = [await monitor({ tags: ["web"] }), await monitor({ tags: ["website"] })];
  const snooze = await createSnooze(owner, { scope: { tag: "web" }, until: until(hour), reason: "Load test" });
  for (const target of [held, free]) await report(target, "FF");
  t.strictSame([await notices(held), await notices(free)], [[], ["opened"]]);
  const { held: reasons, in_words: words } = await explainIncident(owner, await idOf(held));
  t.strictSame(reasons, [{ by: "snooze", id: snooze.id, reason: "Load test", until: snooze.until }]);
  t.ok(words.some((sentence) => sentence.endsWith("by a snooze: Load test.")));
  clock.advance(59 * minute);
  t.equal(await follow(), 0);
  clock.advance(minute);
  t.strictSame((await Promise.all([followMaintenance(system), followMaintenance(other)])).sort(), [0, 1]);
  t.strictSame(await notices(held), ["opened"]);
  t.strictSame((await explainIncident(owner, await idOf(held))).held, []);
});

t.test("what is over at the end is not sent, and one that is ended early holds nothing", async (t) => {
  const [brief, lasting] = [await monitor(), await monitor()];
  const scope = { target_ids: [brief.toUpperCase(), lasting, lasting] };
  const snooze = await createSnooze(owner, { scope, until: until(hour) });
  t.strictSame(snooze.scope, { target_ids: [brief, lasting] });
  await report(brief, "FFPP");
  await report(lasting, "FF");
  await endSnooze(owner, snooze.id);
  t.equal(await follow(), 1);
  t.strictSame([await notices(brief), await notices(lasting)], [[], ["opened"]]);
});

t.test("a recovery, reminders and the ladder wait too", async (t) => {
  const phone = await webhookTo(owner, "https://phone.example.org/");
  const escalation = [{ after_minutes: 10, channel_ids: [phone] }];
  const [down, back] = [await monitor({ escalation, renotify_interval_secs: 60 }), await monitor()];
  for (const target of [down, back]) await report(target, "FF");
  await createSnooze(owner, { scope: { all: true }, until: until(hour) });
  await report(back, "PP");
  clock.advance(30 * minute);
  t.strictSame([await sendReminders(system), await sendEscalations(system), await follow()], [0, 0, 0]);
  clock.advance(30 * minute);
  t.equal(await follow(), 1, "the recovery");
  t.strictSame([await sendReminders(system), await sendEscalations(system)], [1, 1]);
  t.strictSame(await notices(back), ["opened", "resolved"]);
});

t.test("levels that a snooze holds are looked at every five seconds, others at once", async (t) => {
  const phone = await webhookTo(owner, "https://phone.example.org/");
  const escalation = [{ after_minutes: 10, channel_ids: [phone] }];
  const [held, free] = [await monitor({ escalation }), await monitor({ escalation })];
  await report(held, "FF");
  clock.advance(1000);
  await report(free, "FF");
  await createSnooze(owner, { scope: { target_ids: [held] }, until: until(hour) });
  clock.advance(10 * minute - 1000);
  const { isDue, run } = escalations();
  t.strictSame([await isTrue(system, isDue), await run(system), await isTrue(system, isDue)], [true, 0, false]);
  clock.advance(1000);
  t.strictSame(
    [await isTrue(system, isDue), await run(system), await isTrue(system, isDue)],
    [true, 1, false],
    "the other",
  );
  clock.advance(4000);
  t.strictSame([await isTrue(system, isDue), await run(system)], [true, 0]);
  clock.advance(hour);
  t.strictSame([await isTrue(system, isDue), await run(system), await isTrue(system, isDue)], [true, 1, false]);
});

t.test("a notice leaves when nothing holds it: the snooze ends inside a window, and the other way round", async (t) => {
  for (const [snoozed, maintained] of [
    [1, 2],
    [2, 1],
  ] as const) {
    const target = await monitor();
    await createSnooze(owner, { scope: { target_ids: [target] }, until: until(snoozed * hour) });
    await maintain(target, 0, maintained * hour);
    await report(target, "FF");
    t.equal(await follow(), 0);
    clock.advance(hour);
    t.equal(await follow(), 0, "the other one holds it still");
    t.equal((await explainIncident(owner, await idOf(target))).held.length, 1);
    clock.advance(hour);
    t.equal(await follow(), 1);
    t.strictSame(await notices(target), ["opened"]);
    const [row] = await sql<{ marked: boolean }[]>`
      select in_maintenance as marked from incidents where target_id = ${target}`;
    t.equal(row!.marked, false);
    const kinds = await world.events(await idOf(target));
    t.strictSame(kinds, ["opened", "maintenance_started", "maintenance_ended"]);
  }
});

t.test("acknowledged or paused meanwhile, and the snooze of another organisation", async (t) => {
  const outsider = await newOrg(system);
  await createSnooze(outsider, { scope: { all: true }, until: until(hour) });
  const free = await monitor();
  await report(free, "FF");
  t.strictSame(await notices(free), ["opened"]);
  await t.rejects(createSnooze(outsider, { scope: { target_ids: [free] }, until: until(hour) }), {
    code: "INVALID_SNOOZE",
    field: "/scope/target_ids/0",
  });
});

t.test("what a snooze may be", async (t) => {
  const refused = async (input: object, field: string) =>
    await t.rejects(createSnooze(owner, { scope: { all: true }, until: until(hour), ...input }), {
      code: "INVALID_SNOOZE",
      field,
    });
  await refused({ until: until(0) }, "/until");
  await refused({ until: until(30 * day + 1) }, "/until");
  await refused({ scope: {} }, "/scope");
  await refused({ scope: { all: true, tag: "web" } }, "/scope");
  await refused({ scope: { target_ids: [newId()] } }, "/scope/target_ids/0");
  await t.rejects(endSnooze(owner, newId()), { code: "SNOOZE_NOT_FOUND" });
  await createSnooze(owner, { scope: { all: true }, until: until(30 * day) });
  const { items, total } = await listSnoozes(owner, { limit: 100, offset: 0 });
  matchObject(
    t,
    { items, total },
    { total: 1, items: [{ scope: { all: true }, reason: null, created_by: { type: "user" } }] },
  );
  for (let more = 1; more < 99; more++) await createSnooze(owner, { scope: { tag: "x" }, until: until(minute) });
  const last = [owner, { ...owner, sql: other.sql }].map((ctx) =>
    createSnooze(ctx, { scope: { tag: "x" }, until: until(minute) }),
  );
  const done = await Promise.allSettled(last);
  t.strictSame(done.map(({ status }) => status).sort(), ["fulfilled", "rejected"], "the hundredth, on two replicas");
  await refused({}, "/scope");
  clock.advance(minute);
  await createSnooze(owner, { scope: { tag: "x" }, until: until(minute) });
  t.equal((await listSnoozes(owner, { limit: 1, offset: 0 })).total, 2, "ended ones do not count");
});
