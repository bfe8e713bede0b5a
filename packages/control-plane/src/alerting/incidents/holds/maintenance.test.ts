import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { System } from "../../../platform/context.ts";
import { sendReminders } from "../escalation/reminders.ts";
import { updateTarget } from "../../../monitoring/targets/write/service.ts";
import { hour, minute, noon, second } from "../../../testing/clock.ts";
import { openOutages } from "../../../testing/outages.ts";
import { followMaintenance, isMaintenanceDue } from "../engine.ts";
import { acknowledgeIncident } from "../lifecycle/service.ts";
import { listEvents } from "../timeline/service.ts";
import { isTrue } from "../../../platform/jobs/queries.ts";

const world = await openOutages(t);
const { sql, clock, system, owner, monitor, report, maintain, notices, events } = world;
/** A second replica: the same database over another pool. */
const other = { ...system, sql: world.pool(4) };

/** As the job does: only what is due is run. */
const follow = async (replica: System) =>
  (await isTrue(replica, isMaintenanceDue)) ? await followMaintenance(replica) : 0;

t.beforeEach(async () => {
  clock.at = noon;
  await sql`update incidents set reminder_due_at = null`;
});

const idOf = async (target: string) => (await world.incidents(target))[0]!.id;

t.test(
  "inside a window all notices are held; at its end an incident that is still open is notified once",
  async (t) => {
    const target = await monitor();
    await maintain(target, -minute, hour);
    await report(target, "FF");
    t.equal(await follow(system), 0);
    clock.advance(30 * minute);
    t.equal(await follow(system), 0);
    t.strictSame(await notices(target), []);
    clock.advance(hour);
    const sent = await Promise.all([follow(system), follow(other), follow(system)]);
    t.strictSame(sent.sort(), [0, 0, 1], "by one replica");
    t.strictSame(await notices(target), ["opened"]);
    t.equal(await follow(system), 0);
    t.strictSame(await events(await idOf(target)), ["opened", "maintenance_started", "maintenance_ended"]);
    t.equal(await sendReminders(system), 0, "a reminder that was due in the window is not sent besides");
    clock.advance(hour);
    t.equal(await sendReminders(system), 1);
  },
);

t.test("opened and closed inside the window: nothing", async (t) => {
  const target = await monitor();
  await maintain(target, -minute, hour);
  await report(target, "FF");
  await follow(system);
  await report(target, "PP");
  clock.advance(2 * hour);
  t.equal(await follow(system), 0);
  t.strictSame(await notices(target), []);
  t.strictSame(await events(await idOf(target)), ["opened", "maintenance_started", "resolved"]);
});

t.test("opened, closed and reopened inside the window: the opening", async (t) => {
  const target = await monitor();
  await maintain(target, -minute, hour);
  await report(target, "FFPPFF");
  clock.advance(2 * hour);
  t.equal(await follow(system), 1);
  t.strictSame(await notices(target), ["opened"]);
});

t.test("incidents that were notified before the window", async (t) => {
  t.test("a recovery inside the window is sent at its end", async (t) => {
    const target = await monitor();
    await report(target, "FF");
    await maintain(target, 0, hour);
    await report(target, "PP");
    t.strictSame(await notices(target), ["opened"]);
    clock.advance(hour);
    t.equal(await follow(system), 1);
    t.strictSame(await notices(target), ["opened", "resolved"]);
  });

  t.test("unless recoveries are off by then", async (t) => {
    const target = await monitor();
    await report(target, "FF");
    await maintain(target, 0, hour);
    await report(target, "PP");
    await updateTarget(owner, target, { notify_recovery: false });
    clock.advance(hour);
    t.equal(await follow(system), 0);
    t.strictSame(await notices(target), ["opened"]);
  });

  t.test("a recovery and a reopening inside the window are the reopening", async (t) => {
    const target = await monitor();
    await report(target, "FF");
    await maintain(target, 0, hour);
    await report(target, "PPFF");
    clock.advance(hour);
    t.equal(await follow(system), 1);
    t.strictSame(await notices(target), ["opened", "reopened"]);
  });

  t.test("closed before, reopened and closed inside: nothing", async (t) => {
    const target = await monitor();
    await report(target, "FFPP");
    await maintain(target, 0, hour);
    await report(target, "FFPP");
    clock.advance(hour);
    await follow(system);
    t.strictSame(await notices(target), ["opened", "resolved"]);
  });

  t.test("reminders wait, and one is sent at the end", async (t) => {
    const target = await monitor({ renotify_interval_secs: 60 });
    await report(target, "FF");
    await maintain(target, 0, hour);
    clock.advance(30 * minute);
    t.equal(await sendReminders(system), 0);
    clock.advance(hour);
    await follow(system);
    t.equal(await sendReminders(system), 1);
    t.equal(await sendReminders(system), 0);
    t.strictSame(await notices(target), ["opened", "reminder"]);
  });
});

t.test("an escalation of a held opening is that opening, with the raised severity", async (t) => {
  const target = await monitor();
  await maintain(target, -minute, hour);
  await report(target, "DDF");
  clock.advance(hour);
  t.equal(await follow(system), 1);
  const sent = await sql<{ notice: object }[]>`
    select d.notice from deliveries d join incidents i on i.id = d.incident_id where i.target_id = ${target}`;
  matchObject(t, sent, [{ notice: { reason: "opened", severity: "major" } }]);
});

t.test("a transition between the end of the window and the job counts", async (t) => {
  t.test("a recovery: the opening was not sent", async (t) => {
    const target = await monitor();
    await maintain(target, -minute, minute);
    await report(target, "FF");
    clock.advance(minute);
    await report(target, "PP");
    t.equal(await follow(system), 0);
    t.strictSame(await notices(target), []);
  });

  t.test("an escalation: it brings the opening, once", async (t) => {
    const target = await monitor();
    await maintain(target, -minute, minute);
    await report(target, "DD");
    clock.advance(minute);
    await report(target, "F");
    t.strictSame(await notices(target), ["opened"]);
    t.equal(await follow(system), 0);
  });
});

t.test("windows that overlap hold as one; one that is ended early releases at once", async (t) => {
  const target = await monitor();
  await maintain(target, -minute, minute);
  const longer = await maintain(target, -minute, hour);
  await report(target, "FF");
  clock.advance(2 * minute);
  await follow(system);
  t.strictSame(await notices(target), []);
  await sql`update maintenance_occurrences set ends_at = ${new Date(clock.now())} where id = ${longer}`;
  t.equal(await follow(system), 1);
  t.strictSame(await events(await idOf(target)), ["opened", "maintenance_started", "maintenance_ended"]);
});

t.test("a deleted window releases as well; a window of another monitor holds nothing", async (t) => {
  const [target, beside] = [await monitor(), await monitor()];
  const window = await maintain(target, -minute, hour);
  await report(target, "FF");
  await report(beside, "FF");
  t.strictSame(await notices(beside), ["opened"]);
  await sql`delete from maintenance_windows where id = ${window}`;
  t.equal(await follow(system), 1);
  t.strictSame(await notices(target), ["opened"]);
});

t.test("the timeline names the window; an acknowledgement inside it holds nothing back at the end", async (t) => {
  const target = await monitor();
  const window_id = await maintain(target, -minute, hour);
  await report(target, "FF");
  const id = await idOf(target);
  await follow(system);
  await acknowledgeIncident(owner, id);
  clock.advance(hour);
  t.equal(await follow(system), 1);
  const { items } = await listEvents(owner, id, { limit: 10, offset: 0 });
  matchObject(t, items[1], {
    kind: "maintenance_started",
    actor: { type: "engine" },
    detail: { window_id, title: "Upgrade" },
  });
});

t.test("windows that end while results arrive on two replicas: one opening, one recovery", async (t) => {
  for (let round = 0; round < 8; round++) {
    const target = await monitor();
    await maintain(target, -minute, minute);
    await report(target, "FF");
    clock.advance(minute - second);
    await Promise.all([follow(system), report(target, "FP"), follow(other), follow(system)]);
    await follow(other);
    t.strictSame(await notices(target), ["opened"], `round ${round}`);
    await report(target, "P");
    t.strictSame(await notices(target), ["opened", "resolved"]);
  }
});
