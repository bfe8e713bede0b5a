import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import { noon, hour, minute, until } from "../../../testing/clock.ts";
import { deliveryScene } from "../../../testing/deliveries.ts";
import { openOutages } from "../../../testing/outages.ts";
import { webhookTo } from "../../../testing/scene.ts";
import { allowPrivate } from "../../../testing/world.ts";
import { countFailingSlots } from "../../../monitoring/results/slots/engine.ts";
import { updateTarget } from "../../../monitoring/targets/write/service.ts";
import type { ActiveHours } from "../../channels/schema.ts";
import { createChannel, deleteChannel, updateChannel } from "../../channels/service.ts";
import { sendEscalations } from "../../incidents/escalation/ladder.ts";
import { sendReminders } from "../../incidents/escalation/reminders.ts";
import { acknowledgeIncident } from "../../incidents/lifecycle/service.ts";
import { explainIncident } from "../../incidents/explanation/service.ts";
import { isHeldDue, releaseHeld } from "./held.ts";
import { isTrue } from "../../../platform/jobs/queries.ts";

/* What happens outside the active hours of a channel. The hours here begin in an hour. */

const { sink, deliverer } = await deliveryScene(t);
const world = await openOutages(t, { SM_CHANNELS__ENDPOINTS__SLACK: sink.url });
const { sql, clock, owner, monitor, report, incidents } = world;
const system = allowPrivate(world.system);
const other = { ...system, sql: world.pool(4) };

t.beforeEach(async () => {
  clock.at = noon;
  await sql`update incidents set reminder_due_at = null, escalation_due_at = null`;
  await sql`delete from deliveries`;
});

const hours = (outside: "hold" | "drop" = "hold"): ActiveHours => ({
  timezone: "UTC",
  days: ["mo", "tu", "we", "th", "fr", "sa", "su"],
  from: new Date(noon + hour).toISOString().slice(11, 16),
  to: new Date(noon + 3 * hour).toISOString().slice(11, 16),
  outside,
});
/** Within the hours. */
const yesterday = noon - 22 * hour;
const slackConfig = { type: "slack", webhook_url: "https://hooks.slack.com/services/T0/B0/X" } as const;
const chat = async (outside: "hold" | "drop" = "hold") =>
  (await createChannel(owner, { name: newId(), config: slackConfig, active_hours: hours(outside) })).id;
const hook = async (outside: "hold" | "drop" = "hold") => {
  const id = await webhookTo(owner, "https://machine.example.org/");
  await updateChannel(owner, id, { active_hours: hours(outside) });
  return id;
};
const bound = async (channelId: string, changes: object = {}) =>
  await monitor({ alerts: [{ channel_id: channelId }], ...changes });
const release = async (replica = system) =>
  (await isTrue(replica, isHeldDue)) ? await releaseHeld(replica, countFailingSlots) : 0;
const log = async (target: string): Promise<string[]> => {
  const rows = await sql<{ reason: string; state: string }[]>`
    select d.reason, d.state from deliveries d join incidents i on i.id = d.incident_id
    where i.target_id = ${target} order by d.created_at, d.id`;
  return rows.map(({ reason, state }) => `${reason} ${state}`);
};
const begin = () => void (clock.at = noon + hour);
const idOf = async (target: string) => (await incidents(target))[0]!.id;

t.test("an opening waits until the hours begin, and leaves once on two replicas", async (t) => {
  const target = await bound(await hook());
  await report(target, "FF");
  t.strictSame(await log(target), ["opened held"]);
  const { in_words: words, deliveries } = await explainIncident(owner, await idOf(target));
  matchObject(t, deliveries, [{ held_by: "hours", next_attempt_at: new Date(noon + hour).toISOString() }]);
  t.ok(words.some((sentence) => /^Held until .*active hours\.$/.test(sentence)));
  clock.at = noon + hour - 1;
  t.equal(await release(), 0);
  begin();
  t.strictSame((await Promise.all([release(), release(other)])).sort(), [0, 1]);
  t.strictSame(await log(target), ["opened pending"]);
});

t.test("machines get no pairs that cancel out, and what is left one by one", async (t) => {
  const channel = await hook();
  const [brief, flapping, known, back, again] = await Promise.all(Array.from({ length: 5 }, () => bound(channel)));
  clock.at = yesterday;
  for (const target of [known!, back!, again!]) await report(target, "FF");
  clock.at = noon;
  await report(brief!, "FFPP");
  await report(flapping!, "FFPPFF");
  await report(back!, "PP");
  await report(again!, "PPFF");
  begin();
  t.equal(await release(), 2);
  const left = async (target: string) => (await log(target)).filter((line) => !line.endsWith("dropped"));
  t.strictSame(await left(brief!), [], "opened and ended");
  t.strictSame(await left(flapping!), ["opened pending"]);
  t.strictSame(await left(known!), ["opened pending"]);
  t.strictSame(await left(back!), ["opened pending", "resolved pending"]);
  t.strictSame(await left(again!), ["opened pending"], "ended and opened again");
});

t.test("chats get one message, with opened and ended as one line; the later recovery is an ordinary one", async (t) => {
  const channel = await chat();
  const [lasting, brief, second] = [await bound(channel), await bound(channel, { name: "Shop" }), await bound(channel)];
  await report(lasting, "FF");
  await report(brief, "FFPP");
  await report(second, "FFPPFF");
  begin();
  t.equal(await release(), 3);
  const running = deliverer(t, { ...world, system, owner });
  await until(async () => (await log(second))[0] === "opened delivered", "the message");
  await running.stop();
  t.equal(sink.received.length, 1, "one message");
  const text = sink.received[0]!.body;
  t.match(String(text), /"text":"🔴 Down: 2 monitors on db\.example\.org/);
  t.match(String(text), /Opened and ended: 1 incident, [^]*: Shop/);
  await report(lasting, "PP");
  await report(brief, "PP");
  t.strictSame(await log(lasting), ["opened delivered", "resolved pending"]);
  t.strictSame(await log(brief), ["opened delivered"]);
  sink.received.length = 0;
});

t.test("a single incident that opened and ended is a message of one line", async (t) => {
  const target = await bound(await chat());
  await report(target, "FFPP");
  begin();
  t.equal(await release(), 1);
  const running = deliverer(t, { ...world, system, owner });
  await until(async () => (await log(target))[0] === "opened delivered", "the message");
  await running.stop();
  t.match(String(sink.received.at(-1)!.body), /Opened and ended: Database/);
  sink.received.length = 0;
});

t.test("of a message that comes apart, one that opened and ended never says that the monitor is down", async (t) => {
  const [chats, changed] = [await chat(), await chat()];
  const [first, brief] = [await bound(chats), await bound(chats)];
  const [lasting, over] = [await bound(changed), await bound(changed)];
  for (const target of [first, lasting]) await report(target, "FF");
  for (const target of [brief, over]) await report(target, "FFPP");
  begin();
  t.equal(await release(), 4);
  await sql`delete from targets where id = ${first}`;
  const config = { type: "webhook", url: `${sink.url}/hook`, headers: {} } as const;
  await updateChannel({ ...owner, ...system }, changed, { config });
  const running = deliverer(t, { ...world, system, owner });
  const done = async () => [...(await log(brief)), ...(await log(lasting)), ...(await log(over))];
  await until(async () => (await done()).every((line) => !line.endsWith("pending")), "the rest");
  await running.stop();
  t.strictSame(await done(), ["opened delivered", "opened delivered", "opened dropped"]);
  const bodies = sink.received.map(({ body }) => body);
  t.equal(bodies.length, 2);
  t.ok(bodies.some((body) => /Opened and ended: Database/.test(String(body))));
  t.ok(bodies.some((body) => /"reason":"opened"/.test(String(body))));
  sink.received.length = 0;
});

t.test("drop drops the recovery too, and a channel that was not notified gets none later", async (t) => {
  const channel = await hook("drop");
  const [outside, over] = [await bound(channel), await bound(channel)];
  await report(outside, "FF");
  clock.at = yesterday;
  await report(over, "FF");
  clock.at = noon;
  await report(over, "PP");
  t.strictSame(await log(outside), ["opened dropped"]);
  t.strictSame(await log(over), ["opened pending", "resolved dropped"]);
  begin();
  await report(outside, "PP");
  t.strictSame(await log(outside), ["opened dropped"]);
  const { in_words: words } = await explainIncident(owner, await idOf(outside));
  t.ok(words.some((sentence) => /^Not sent: .*outside its active hours\.$/.test(sentence)));
});

t.test("of reminders the last one is held, behind an opening none", async (t) => {
  const channel = await hook();
  const [known, fresh] = [
    await bound(channel, { renotify_interval_secs: 600 }),
    await bound(channel, { renotify_interval_secs: 600 }),
  ];
  clock.at = noon - minute;
  await updateChannel(owner, channel, { active_hours: null });
  await report(known, "FF");
  await updateChannel(owner, channel, { active_hours: hours() });
  clock.at = noon;
  await report(fresh, "FF");
  for (const after of [12, 24, 36]) {
    clock.at = noon + after * minute;
    await sendReminders(system);
  }
  t.strictSame(await log(known), ["opened pending", "reminder held"]);
  t.strictSame(await log(fresh), ["opened held"]);
  await acknowledgeIncident(owner, await idOf(fresh));
  begin();
  t.equal(await release(), 2);
});

t.test("failures are counted first, then the hours; new hours are looked at at once", async (t) => {
  const channel = await hook();
  const target = await monitor({ alerts: [{ channel_id: channel, after_failures: 3 }] });
  await report(target, "FF");
  clock.advance(minute);
  await report(target, "F");
  clock.advance(minute);
  await release();
  const held = async () =>
    (await sql<{ by: string }[]>`select held_by as by from deliveries where state = 'held'`)[0]?.by;
  t.equal(await held(), "hours");
  await updateChannel(owner, channel, { active_hours: null });
  t.equal(await release(), 1);
  t.strictSame(await log(target), ["opened pending"]);
});

t.test("a level outside its hours goes on to the next; the last one waits", async (t) => {
  const [night, phone] = [await hook(), await webhookTo(owner, "https://phone.example.org/")];
  const levels = (second: string) => [
    { after_minutes: 10, channel_ids: [night] },
    { after_minutes: 30, channel_ids: [second] },
  ];
  const [on, held] = [await monitor({ escalation: levels(phone) }), await monitor({ escalation: levels(night) })];
  for (const target of [on, held]) await report(target, "FF");
  clock.at = noon + 11 * minute;
  await sendEscalations(system);
  t.strictSame(await log(on), ["opened pending", "unacknowledged pending"]);
  t.strictSame(await log(held), ["opened pending", "unacknowledged held"]);
  begin();
  t.equal(await release(), 1);
});

t.test("a pause, a retracted incident and a deleted channel leave nothing to send", async (t) => {
  const [channel, gone] = [await chat(), await chat()];
  const [paused, deleted] = [await bound(channel), await bound(gone)];
  for (const target of [paused, deleted]) await report(target, "FF");
  await updateTarget(owner, paused, { enabled: false });
  await deleteChannel(owner, gone);
  begin();
  t.equal(await release(), 0);
  t.strictSame([await log(paused), await log(deleted)], [["opened dropped"], ["opened dropped"]]);
});
