import fc from "fast-check";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import type { System } from "../../../platform/context.ts";
import { countFailingSlots } from "../../../monitoring/results/slots/engine.ts";
import { updateTarget } from "../../../monitoring/targets/write/service.ts";
import { hour, minute, noon, second } from "../../../testing/clock.ts";
import { openOutages } from "../../../testing/outages.ts";
import type { ActiveHours } from "../../channels/schema.ts";
import { createChannel, deleteChannel, getChannel, isWithin, updateChannel } from "../../channels/service.ts";
import { isHeldDue, releaseHeld } from "../../deliveries/outbox/held.ts";
import { createSnooze, endSnooze, listSnoozes } from "../../snoozes/service.ts";
import { isMaintenanceDue } from "../engine.ts";
import { areEscalationsDue, sendEscalations } from "../escalation/ladder.ts";
import { followMaintenance } from "./maintenance.ts";
import { areRemindersDue, sendReminders } from "../escalation/reminders.ts";
import { acknowledgeIncident, resolveIncident } from "../lifecycle/service.ts";
import { explainIncident } from "../explanation/service.ts";
import { isTrue } from "../../../platform/jobs/queries.ts";

/*
 * Random graphs of monitors, orders of events and clocks, on two replicas. Whatever holds notices (snoozes,
 * maintenance, hours, dependencies), every incident that lasts notifies every channel exactly once, or is listed as
 * held with the reason. No recovery reaches a channel without the opening. The levels of a ladder go out once each, in
 * time, and not after an acknowledgement. A channel that drops gets nothing outside its hours. Faults that are planted
 * in the database show that each rule is checked.
 */

const world = await openOutages(t);
const { sql, clock, system, owner, monitor, report, maintain, incidents } = world;
const replicas: System[] = [system, { ...system, sql: world.pool(4) }];

/** Monitors of a graph: each depends on some before it. */
const size = 4;
const graphs = fc.array(fc.subarray([0, 1, 2], { maxLength: 2 }), { minLength: size, maxLength: size });

type Act =
  | { do: "report"; at: number; verdicts: string }
  | { do: "snooze" | "maintain"; at: number; minutes: number }
  | { do: "wake" | "pause" | "cut" | "acknowledge" | "resolve" | "edit" | "delete"; at: number }
  | { do: "wait"; minutes: number };

const at = fc.nat({ max: size - 1 });
const minutes = fc.integer({ min: 1, max: 40 });
const act: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("report" as const),
      at,
      verdicts: fc.constantFrom("FF", "F", "P", "PP", "FFPP", "PPFF"),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom("snooze" as const, "maintain" as const), at, minutes }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom("wake", "pause", "cut", "acknowledge", "resolve", "edit", "delete"),
      at,
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("wait" as const), minutes }) },
);

/** The jobs of both replicas, at once. */
async function jobs(): Promise<void> {
  for (let turn = 0; turn < 2; turn++)
    await Promise.all(
      replicas.map(async (replica) => {
        if (await isTrue(replica, isMaintenanceDue)) await followMaintenance(replica);
        if (await isTrue(replica, isHeldDue)) await releaseHeld(replica, countFailingSlots);
        if (await isTrue(replica, areEscalationsDue)) await sendEscalations(replica);
        if (await isTrue(replica, areRemindersDue)) await sendReminders(replica);
      }),
    );
}

async function play(targets: readonly string[], { hours, slow }: Channels, one: Act): Promise<void> {
  if (one.do === "wait") return clock.advance(one.minutes * minute);
  if (one.do === "edit") {
    const { active_hours: before } = await getChannel(owner, hours);
    return void (await updateChannel(owner, hours, { active_hours: before === null ? night : null }));
  }
  if (one.do === "delete") return await deleteChannel(owner, slow).catch(() => undefined);
  const target = targets[one.at]!;
  if (one.do === "report") await report(target, one.verdicts);
  else if (one.do === "snooze")
    await createSnooze(owner, {
      scope: { target_ids: [target] },
      until: new Date(clock.now() + one.minutes * minute).toISOString(),
    });
  else if (one.do === "maintain") await maintain(target, 0, one.minutes * minute);
  else if (one.do === "wake")
    for (const { id } of (await listSnoozes(owner, { limit: 100, offset: 0 })).items) await endSnooze(owner, id);
  else if (one.do === "cut") await updateTarget(owner, target, { depends_on: [] });
  else if (one.do === "acknowledge") {
    // Later than the notices of this moment.
    clock.advance(second);
    for (const { id, state } of await incidents(target)) if (state === "open") await acknowledgeIncident(owner, id);
  } else if (one.do === "resolve") {
    for (const { id, state } of await incidents(target)) if (state === "open") await resolveIncident(owner, id);
  } else {
    await updateTarget(owner, target, { enabled: false });
    await updateTarget(owner, target, { enabled: true });
  }
}

/** The levels of the ladder: minutes after the opening. */
const levels = [5, 20];
/** From 13:00 on the test runs; these hours begin and end while it does. */
const daily = { timezone: "UTC", days: ["mo", "tu", "we", "th", "fr", "sa", "su"] } as const;
const night: ActiveHours = { ...daily, days: [...daily.days], from: "14:00", to: "13:30", outside: "hold" };
const lunch: ActiveHours = { ...daily, days: [...daily.days], from: "13:20", to: "13:05", outside: "drop" };

interface Channels {
  /** Always notified. */
  plain: string;
  /** Holds outside its hours. */
  hours: string;
  /** Drops outside its hours. */
  drops: string;
  /** Waits for three failing slots; may be deleted. */
  slow: string;
  /** On the ladder only. */
  phone: string;
}

interface Sent {
  incident: string;
  channel: string;
  reason: string;
  state: string;
  level: number | null;
  at: Date;
}

/** The deliveries of a target's incidents, in order. */
const deliveriesOf = async (targetId: string) =>
  await sql<Sent[]>`
    select d.incident_id as incident, d.channel_id as channel, d.reason, d.state,
      (d.notice ->> 'level')::integer as level, d.created_at as at
    from deliveries d join incidents i on i.id = d.incident_id where i.target_id = ${targetId}
    order by d.created_at, d.id`;

const exists = async (channel: string): Promise<boolean> =>
  (await sql`select from channels where id = ${channel}`).length === 1;

const isOpening = ({ reason }: Sent): boolean => reason === "opened" || reason === "reopened";

/**
 * A recovery and a reopening that are held together leave as the reopening, and so does an opening that waited for more
 * failures.
 */
const isInOrder = (reasons: readonly string[]): boolean =>
  reasons.every((reason, n) =>
    reason === "resolved" ? n > 0 && reasons[n - 1] !== "resolved" : reason === "reopened" || n === 0,
  );

/** What is wrong now; null where all is well. */
async function fault(
  targets: readonly string[],
  { plain, hours, drops, slow, phone }: Channels,
  /** A pause closes incidents without a notification, and so another opening may follow. */
  paused: ReadonlySet<string>,
): Promise<string | null> {
  const now = clock.now();
  for (const target of targets) {
    const rows = await deliveriesOf(target);
    for (const { id, state, acknowledged_at: taken } of await incidents(target)) {
      const explained = await explainIncident(owner, id);
      const isHeld = explained.held.length > 0;
      const own = rows.filter(({ incident }) => incident === id);
      const sentTo = (channel: string) =>
        own.filter((one) => one.channel === channel && (one.state === "pending" || one.state === "delivered"));
      for (const channel of [plain, hours, ...((await exists(slow)) ? [slow] : [])]) {
        const shown = explained.channels.find(({ channel_id: it }) => it === channel);
        if (shown === undefined) return "a channel that the explanation leaves out";
        if (shown.state !== "told" && shown.reason === null) return `${shown.state} without a reason`;
        const states = own.filter((one) => one.channel === channel).map(({ state: is }) => is);
        const expected = states.includes("pending") ? "waiting" : states.includes("held") || isHeld ? "held" : "over";
        const known = states.length > 0 || (isHeld && state === "open");
        if (known && states.some((is) => is !== "dropped") && shown.state !== expected)
          return `a channel is shown as ${shown.state}, not as ${expected}`;
        const reasons = sentTo(channel)
          .filter((one) => isOpening(one) || one.reason === "resolved")
          .map(({ reason }) => reason);
        if (!paused.has(target) && !isInOrder(reasons)) return `${state} incident notified as ${reasons.join()}`;
        const waits = isHeld || own.some((one) => one.channel === channel && one.state === "held");
        if (state === "open" && (reasons.at(-1) ?? "resolved") === "resolved" && !waits)
          return `an open incident is neither notified nor held: ${reasons.join()}`;
      }
      if (sentTo(phone)[0]?.reason === "resolved") return "a recovery without a level";
      if (sentTo(plain)[0]?.reason === "reminder") return "a reminder before the opening";
      for (const { channel, state: is, at: when } of own)
        if (channel === drops && is !== "dropped" && !isWithin(lunch, when.getTime()))
          return `${is} for a channel that drops, outside its hours`;

      const begun = sentTo(plain).findLast(isOpening)?.at.getTime();
      const climbed = sentTo(phone).filter(
        (one) => one.reason === "unacknowledged" && begun !== undefined && one.at.getTime() >= begun,
      );
      if (new Set(climbed.map(({ level }) => level)).size < climbed.length) return "a level twice";
      if (taken !== null && own.some((one) => one.at.getTime() > Date.parse(taken) && one.reason === "unacknowledged"))
        return "a level after the acknowledgement";
      const due = begun === undefined ? 0 : levels.filter((after) => begun + after * minute <= now).length;
      if (state === "open" && taken === null && !isHeld && climbed.length < due) return "a level is missing";
    }
  }
  return null;
}

const config = { type: "webhook", url: "https://hooks.example.org/", headers: {} } as const;

/** Plays a history; returns the first fault and where it was found, or null. */
async function history(graph: readonly (readonly number[])[], acts: readonly Act[]): Promise<string | null> {
  clock.at = noon;
  await sql`delete from snoozes`;
  await sql`update incidents set reminder_due_at = null, escalation_due_at = null`;
  const make = async (active_hours: ActiveHours | null) =>
    (await createChannel(owner, { name: newId(), config, active_hours })).id;
  const channels = {
    plain: await make(null),
    hours: await make(night),
    drops: await make(lunch),
    slow: await make(null),
    phone: await make(null),
  };
  const { phone, ...bound } = channels;
  const targets: string[] = [];
  for (const parents of graph)
    targets.push(
      await monitor({
        interval: 60,
        renotify_interval_secs: 600,
        alerts: Object.values(bound).map((channel_id) => ({
          channel_id,
          ...(channel_id === channels.slow ? { after_failures: 3 } : {}),
        })),
        escalation: levels.map((after_minutes) => ({ after_minutes, channel_ids: [phone] })),
        depends_on: parents.filter((parent) => parent < targets.length).map((parent) => targets[parent]!),
      }),
    );
  for (const target of targets) await report(target, "PP");
  const paused = new Set<string>();
  for (const one of acts) {
    if (one.do === "pause") paused.add(targets[one.at % targets.length]!);
    await play(targets, channels, one);
    await jobs();
    const found = await fault(targets, channels, paused);
    if (found !== null) return found;
  }
  // In the end nothing holds any more: every hour has begun, and everything is checked.
  clock.at = noon + 5 * hour;
  await sql`delete from snoozes`;
  await jobs();
  for (let turn = 0; turn < 3; turn++) {
    for (const target of targets) {
      const open = (await incidents(target)).some(({ state }) => state === "open");
      await report(target, open ? "F" : "P");
    }
    await jobs();
  }
  const found = await fault(targets, channels, paused);
  return found === null ? null : `at the end: ${found}`;
}

t.test("what lasts notifies every channel once, or is held with its reason", async (t) => {
  const property = fc.asyncProperty(graphs, fc.array(act, { minLength: 5, maxLength: 25 }), async (graph, acts) => {
    const found = await history(graph, acts);
    if (found !== null) throw new Error(found);
  });
  await fc.assert(property, { numRuns: Number(process.env["SM_TEST_RUNS"] ?? 12), endOnFailure: false });
  t.pass("all histories");
});

/** A copy of the delivery `new` that leaves at once. */
const copyOf = (reason: string, at: string) => `
  insert into deliveries (id, org_id, incident_id, channel_id, channel_name, channel_kind, reason, seq, notice, state,
    next_attempt_at, created_at)
  values (gen_random_uuid(), new.org_id, new.incident_id, new.channel_id, new.channel_name, new.channel_kind,
    '${reason}', new.seq + 100, new.notice, 'pending', new.created_at, ${at}) on conflict do nothing`;

t.test("each rule finds the fault that breaks it", async (t) => {
  // A child fails under its parent, which recovers first; the child stays down, is acknowledged late, and recovers.
  const story: Act[] = [
    { do: "report", at: 0, verdicts: "FF" },
    { do: "report", at: 1, verdicts: "FF" },
    { do: "wait", minutes: 6 },
    { do: "report", at: 0, verdicts: "PP" },
    { do: "report", at: 1, verdicts: "F" },
    { do: "wait", minutes: 25 },
    { do: "acknowledge", at: 1 },
    { do: "wait", minutes: 30 },
    { do: "report", at: 1, verdicts: "PP" },
  ];
  const play = async () => await history([[], [0]], story);
  t.equal(await play(), null, "without a fault");
  for (const [title, found, table, when, body] of [
    [
      "an opening that is lost",
      /neither notified nor held/,
      "deliveries",
      "before insert",
      "if new.reason = 'opened' then return null; end if",
    ],
    [
      "an opening that is sent twice",
      /notified as opened,opened/,
      "deliveries",
      "after insert",
      `if new.reason = 'opened' and new.seq = 0 then ${copyOf("opened", "new.created_at")}; end if`,
    ],
    [
      "a held opening that is forgotten",
      /neither notified nor held/,
      "incidents",
      "before update",
      "if new.hold_stage = 'free' then new.hold_stage = null; new.held_reason = null; end if",
    ],
    [
      "a recovery to a channel that was not notified",
      /a recovery without a level/,
      "deliveries",
      "before insert",
      "if new.reason = 'unacknowledged' then new.reason = 'resolved'; end if",
    ],
    [
      "a reminder of an opening that is held",
      /a reminder before the opening/,
      "deliveries",
      "after insert",
      `if new.reason = 'opened' and new.seq = 0 then ${copyOf("reminder", "new.created_at - interval '1 minute'")};
       end if`,
    ],
    [
      "a notice to a channel that drops",
      /for a channel that drops, outside its hours/,
      "deliveries",
      "before insert",
      "if new.state = 'dropped' then new.state = 'pending'; new.next_attempt_at = new.created_at; end if",
    ],
    [
      "a level that is lost",
      /a level is missing/,
      "deliveries",
      "before insert",
      "if new.reason = 'unacknowledged' and (new.notice ->> 'level')::integer = 2 then return null; end if",
    ],
    [
      "a level that is sent twice",
      /a level twice/,
      "deliveries",
      "after insert",
      `if new.reason = 'unacknowledged' and new.seq < 100 then ${copyOf("unacknowledged", "new.created_at")}; end if`,
    ],
    [
      "a ladder that an acknowledgement does not stop",
      /a level after the acknowledgement/,
      "deliveries",
      "after insert",
      `if new.reason = 'unacknowledged' and (new.notice ->> 'level')::integer = 2 and new.seq < 100 then
         ${copyOf("unacknowledged", "new.created_at + interval '20 minutes'")};
         update deliveries set notice = jsonb_set(notice, '{level}', '3') where seq > 100;
       end if`,
    ],
  ] as const) {
    await sql.unsafe(`
      create function planted() returns trigger language plpgsql as $$ begin ${body}; return new; end $$;
      create trigger planted ${when} on ${table} for each row execute function planted();`);
    matchObject(t, await play(), found, title);
    await sql.unsafe("drop function planted() cascade");
  }
});
