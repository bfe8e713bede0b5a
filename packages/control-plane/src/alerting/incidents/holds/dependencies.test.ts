import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { isMaintenanceDue } from "../engine.ts";
import { followMaintenance } from "./maintenance.ts";
import { sendReminders } from "../escalation/reminders.ts";
import { listEvents } from "../timeline/events.ts";
import { explainIncident } from "../explanation/service.ts";
import { resolveIncident } from "../lifecycle/service.ts";
import { timelineOf } from "../timeline/timeline.ts";
import { selectRechecks } from "../evidence/queries.ts";
import { deleteTarget, getTarget } from "../../../monitoring/targets/service.ts";
import { updateTarget } from "../../../monitoring/targets/write/service.ts";
import { createSnooze } from "../../snoozes/service.ts";
import { hour, minute, noon, second } from "../../../testing/clock.ts";
import { openOutages } from "../../../testing/outages.ts";
import { agentResult } from "../../../testing/scene.ts";
import { newOrg } from "../../../testing/world.ts";
import { isTrue } from "../../../platform/jobs/queries.ts";

/* Openings of a monitor are held while one that it depends on has an open incident. */

const world = await openOutages(t);
const { sql, clock, system, owner, eu, monitor, report, send, notices, incidents, events } = world;
const other = { ...system, sql: world.pool(4) };

t.beforeEach(async () => {
  clock.at = noon;
  await sql`update incidents set reminder_due_at = null, escalation_due_at = null`;
});

const follow = async (replica = system) =>
  (await isTrue(replica, isMaintenanceDue)) ? await followMaintenance(replica) : 0;
const idOf = async (target: string) => (await incidents(target))[0]!.id;
const stage = async (target: string) =>
  (
    await sql<{ stage: string | null }[]>`
    select hold_stage as stage from incidents where target_id = ${target} order by started_at desc limit 1`
  )[0]?.stage;
const notice = async (target: string, reason: string) =>
  (
    await sql<{ notice: object }[]>`
    select d.notice from deliveries d join incidents i on i.id = d.incident_id
    where i.target_id = ${target} and d.reason = ${reason}`
  )[0]?.notice;
const asked = async () => new Set(await selectRechecks(sql, "eu"));

/** A parent, and a child that depends on it; both have passed. */
async function family(changes: object = {}): Promise<[parent: string, child: string]> {
  const parent = await monitor({ name: "Switch" });
  const child = await monitor({ depends_on: [parent], ...changes });
  for (const one of [parent, child]) await report(one, "PP");
  return [parent, child];
}

t.test("a child's opening is held while its parent is down, and is sent after the child failed again", async (t) => {
  const [parent, child] = await family({ renotify_interval_secs: 60 });
  await report(parent, "FF");
  matchObject(t, await notice(parent, "opened"), { affected: 1 });
  await report(child, "FF");
  t.strictSame(await notices(child), []);
  t.ok((await events(await idOf(child))).includes("child_held"));
  const { held, in_words: words } = await explainIncident(owner, await idOf(child));
  matchObject(t, held, [{ by: "dependency", id: await idOf(parent), reason: "Switch", until: null }]);
  t.ok(words.includes("The opening is held: Switch is down, which this monitor depends on."));
  clock.advance(2 * minute);
  t.strictSame([await follow(), await sendReminders(system)], [0, 0], "no reminder of an opening that was not sent");
  await report(parent, "PP");
  matchObject(t, await notice(parent, "resolved"), { held: 1 });
  await follow();
  t.equal(await stage(child), "recheck");
  t.ok((await asked()).has(child), "the child is checked once more");
  await report(child, "F");
  t.strictSame((await Promise.all([follow(), follow(other)])).sort(), [0, 1]);
  t.strictSame(await notices(child), ["opened"]);
  t.strictSame((await explainIncident(owner, await idOf(child))).held, []);
});

t.test("a status page as parent says whose outage it is", async (t) => {
  const check = { type: "status_page", url: "https://status.example.org", component: null, timeout: 5000 };
  const parent = await monitor({ name: "Cloud", check, alert_confirmations: 1 });
  const child = await monitor({ depends_on: [parent] });
  const error = "Example reports: Partial System Outage";
  await send(eu, [agentResult(parent, clock.now(), { status: "degraded", error })]);
  await report(child, "FF");
  await follow();
  t.same(await notices(child), []);
  const { held, channels, in_words } = await explainIncident(owner, await idOf(child));
  t.same([held[0]?.reason, channels[0]?.reason], [error, `dependency: ${error}`]);
  t.ok(in_words.includes(`The opening is held: ${error}, which this monitor depends on.`));
  const { items } = await listEvents(owner, await idOf(child), { limit: 50, offset: 0 });
  const event = items.find(({ kind }) => kind === "child_held");
  matchObject(t, event?.detail, { monitor_name: "Cloud", reason: error });
  t.ok(
    timelineOf(items, [], (id) => id).some(({ title }) => title === `Opening held: ${error}, which it depends on`),
    "and in the timeline",
  );
});

t.test("of a child that recovered with its parent neither opening nor recovery is sent", async (t) => {
  const [parent, child] = await family();
  await report(parent, "FF");
  await report(child, "FF");
  await report(parent, "PP");
  await follow();
  await report(child, "PP");
  clock.advance(hour);
  t.equal(await follow(), 0);
  t.strictSame(await notices(child), []);
  t.equal(await stage(child), null);
});

t.test("recoveries, reminders and the incident of a child whose opening was sent are not held", async (t) => {
  const [parent, child] = await family({ renotify_interval_secs: 60 });
  await report(child, "FF");
  await follow();
  await report(parent, "P");
  await follow();
  t.strictSame(await notices(child), ["opened"]);
  await report(parent, "FF");
  clock.advance(2 * minute);
  t.equal(await sendReminders(system), 1);
  await report(child, "PP");
  t.strictSame(await notices(child), ["opened", "reminder", "resolved"]);
});

t.test("the child fails first: its opening waits for one check of the parent", async (t) => {
  const [[up, first], [down, blocked], [silent, third]] = [await family(), await family(), await family()];
  clock.advance(minute);
  for (const child of [first, blocked, third]) await report(child, "FF");
  t.strictSame(await notices(first), []);
  t.equal(await stage(first), "asking");
  t.equal(await follow(), 0);
  t.ok([up, down, silent].every((parent) => parent !== ""));
  const now = await asked();
  t.strictSame(
    [up, down, silent].map((one) => now.has(one)),
    [true, true, true],
  );
  await report(up, "P");
  await report(down, "FF");
  t.equal(await follow(), 1);
  t.strictSame([await notices(first), await notices(blocked)], [["opened"], []]);
  t.equal(await stage(blocked), "parent");
  clock.advance(30 * second);
  t.equal(await follow(), 1, "no agent has checked the parent in time");
  t.strictSame(await notices(third), ["opened"]);
});

t.test("a parent that passed after the child's first failure is not asked", async (t) => {
  const [parent, child] = await family();
  await report(child, "F");
  await report(parent, "P");
  await report(child, "F");
  t.strictSame(await notices(child), ["opened"]);
});

t.test("a paused or deleted parent and a removed dependency hold nothing", async (t) => {
  for (const change of [
    async (parent: string) => void (await updateTarget(owner, parent, { enabled: false })),
    async (parent: string) => await deleteTarget(owner, parent),
    async (_: string, child: string) => void (await updateTarget(owner, child, { depends_on: [] })),
  ]) {
    const [parent, child] = await family();
    await report(parent, "FF");
    await report(child, "FF");
    await change(parent, child);
    await follow();
    t.equal(await stage(child), "recheck");
    await report(child, "F");
    t.equal(await follow(), 1);
    t.strictSame(await notices(child), ["opened"]);
    const paused = await monitor({ depends_on: [parent].slice(0, Number((await incidents(parent)).length > 0)) });
    await report(paused, "FF");
    await resolveIncident(owner, await idOf(paused));
  }
});

t.test("a second parent that is down takes over; a check that nobody makes hides nothing", async (t) => {
  const [first, child] = await family();
  const router = await monitor({ name: "Router" });
  await updateTarget(owner, child, { depends_on: [first, router] });
  await report(first, "FF");
  await report(router, "FF");
  await report(child, "FF");
  await report(first, "PP");
  await follow();
  t.equal(await stage(child), "parent");
  matchObject(t, (await explainIncident(owner, await idOf(child))).held, [{ reason: "Router" }]);
  const [switched, flapping] = await family();
  const skipping = await monitor({ depends_on: [switched] });
  for (const one of [switched, flapping, skipping]) await report(one, "FF");
  await report(switched, "PP");
  await report(router, "PP");
  await follow();
  await report(flapping, "P");
  const skip = async () => {
    await send(eu, [agentResult(skipping, clock.now(), { status: "error", skip: true })]);
    return await follow();
  };
  clock.advance(5 * minute - second - 1);
  t.equal(await skip(), 0);
  clock.advance(1);
  t.equal(await skip(), 1, "the child");
  clock.advance(second);
  t.equal(await skip(), 1, "also after a single passing run");
  clock.advance(4 * minute - 2 * second);
  t.equal(await skip(), 0);
  clock.advance(second);
  t.equal(await skip(), 1, "runs that are no evidence do not hold an opening for ever");
});

t.test("a snooze and a dependency hold together: the opening leaves when neither does", async (t) => {
  for (const snoozed of [minute, hour]) {
    const [parent, child] = await family();
    const until = new Date(clock.now() + snoozed).toISOString();
    await createSnooze(owner, { scope: { target_ids: [child] }, until });
    await report(parent, "FF");
    await report(child, "FF");
    clock.advance(2 * minute);
    t.equal(await follow(), 0);
    await report(parent, "PP");
    await follow();
    await report(child, "F");
    t.equal(await follow(), snoozed === minute ? 1 : 0);
    clock.advance(hour);
    await follow();
    await report(child, "F");
    await follow();
    t.strictSame(await notices(child), ["opened"]);
  }
});

t.test("dependencies are ids of the organisation, without cycles, also in two requests at once", async (t) => {
  const [a, b, c] = [await monitor(), await monitor(), await monitor()];
  await updateTarget(owner, b, { depends_on: [a.toUpperCase(), a] });
  t.strictSame((await getTarget(owner, b)).depends_on, [a]);
  await updateTarget(owner, c, { depends_on: [b] });
  const cycle = { code: "DEPENDENCY_CYCLE", field: "/depends_on" };
  await t.rejects(updateTarget(owner, a, { depends_on: [c] }), cycle);
  await t.rejects(updateTarget(owner, a, { depends_on: [a] }), cycle);
  const stranger = await newOrg(system);
  const invalid = { code: "INVALID_DEPENDENCY", field: "/depends_on/1" };
  await t.rejects(updateTarget(owner, c, { depends_on: [b, stranger.orgId] }), invalid);
  await t.rejects(monitor({ depends_on: [b, stranger.orgId] }), invalid);
  const [x, y] = [await monitor(), await monitor()];
  const replica = { ...owner, sql: other.sql };
  const done = await Promise.allSettled([
    updateTarget(owner, x, { depends_on: [y] }),
    updateTarget(replica, y, { depends_on: [x] }),
  ]);
  t.strictSame(done.map(({ status }) => status).sort(), ["fulfilled", "rejected"]);
});
