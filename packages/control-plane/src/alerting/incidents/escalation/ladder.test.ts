import fc from "fast-check";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { Escalation } from "../../../access/orgs/schema.ts";
import { inTransaction } from "../../../platform/context.ts";
import { isBelow, severities } from "@statusmesh/shared/severity";
import { getOrg, updateOrg } from "../../../access/orgs/service.ts";
import { countFailingSlots } from "../../../monitoring/results/slots/engine.ts";
import { updateTarget } from "../../../monitoring/targets/write/service.ts";
import { minute, noon, second } from "../../../testing/clock.ts";
import { openOutages } from "../../../testing/outages.ts";
import { agentResult, webhookTo } from "../../../testing/scene.ts";
import { newOrg } from "../../../testing/world.ts";
import { deleteChannel, existingChannelIds, updateChannel } from "../../channels/service.ts";
import { isHeldDue, releaseHeld } from "../../deliveries/outbox/held.ts";
import { areEscalationsDue, climb, sendEscalations } from "./ladder.ts";
import { followMaintenance } from "../holds/maintenance.ts";
import type { PassedOver } from "./ladder-queries.ts";
import { acknowledgeIncident, resolveIncident, unacknowledgeIncident } from "../lifecycle/service.ts";
import { explainIncident } from "../explanation/service.ts";
import { listIncidents } from "../service.ts";
import { narrateIncident } from "../timeline/service.ts";
import { rescheduleLadders } from "../evidence/service.ts";
import { isTrue } from "../../../platform/jobs/queries.ts";

const world = await openOutages(t);
const { sql, clock, system, owner, eu, monitor, report, send, maintain, incidents } = world;
const other = { ...system, sql: world.pool(4) };
const [phone, boss] = [
  await webhookTo(owner, "https://phone.example.org/"),
  await webhookTo(owner, "https://b.example/"),
];

t.beforeEach(async () => {
  clock.at = noon;
  await sql`update incidents set reminder_due_at = null, escalation_due_at = null, acknowledged_at = now()`;
});

const ladder: Escalation = [
  { after_minutes: 10, channel_ids: [phone] },
  { after_minutes: 30, channel_ids: [phone, boss] },
];
const orgEffects = { existingChannels: existingChannelIds, rescheduleLadders };
const idOf = async (target: string) => (await incidents(target))[0]!.id;
const pass = async () => ((await isTrue(system, areEscalationsDue)) ? await sendEscalations(system) : 0);
const names = new Map([
  [world.channelId, "chat"],
  [phone, "phone"],
  [boss, "boss"],
]);

/** `reason[level] channel`, in order of their writing. */
async function log(target: string): Promise<string[]> {
  const rows = await sql<{ reason: string; level: number | null; channel_id: string; state: string }[]>`
    select d.reason, (d.notice -> 'level')::integer as level, d.channel_id, d.state
    from deliveries d join incidents i on i.id = d.incident_id
    where i.target_id = ${target} order by d.created_at, d.channel_id <> ${world.channelId}, d.channel_id <> ${phone}`;
  return rows.map(
    ({ reason, level, channel_id, state }) =>
      `${reason}${level ?? ""} ${names.get(channel_id)}${state === "pending" ? "" : ` ${state}`}`,
  );
}

t.test("levels follow at their minutes, each once on two replicas, and the recovery goes to all", async (t) => {
  const target = await monitor({ escalation: ladder });
  await report(target, "FF");
  clock.advance(10 * minute - 1);
  t.equal(await pass(), 0);
  clock.advance(1);
  t.strictSame((await Promise.all([sendEscalations(system), sendEscalations(other)])).sort(), [0, 1]);
  t.equal(await pass(), 0);
  clock.advance(20 * minute);
  t.strictSame((await Promise.all([sendEscalations(other), sendEscalations(system)])).sort(), [0, 1]);
  clock.advance(300 * minute);
  t.equal(await pass(), 0, "the ladder ends");
  await report(target, "PP");
  t.strictSame(await log(target), [
    "opened chat",
    "unacknowledged1 phone",
    "unacknowledged2 phone",
    "unacknowledged2 boss",
    "resolved chat",
    "resolved phone",
    "resolved boss",
  ]);
});

t.test("a replica that is killed in the middle has written nothing; the next one writes all", async (t) => {
  const target = await monitor({ escalation: ladder });
  await report(target, "FF");
  clock.advance(10 * minute);
  const killed = inTransaction(system, async (tx) => {
    await sendEscalations(tx);
    throw new Error("killed");
  });
  await t.rejects(killed, /killed/);
  t.equal(await pass(), 1);
  t.strictSame(await log(target), ["opened chat", "unacknowledged1 phone"]);
});

t.test("after a time without a control plane every level that is due is notified", async (t) => {
  const target = await monitor({ escalation: ladder });
  await report(target, "FF");
  clock.advance(60 * minute);
  t.equal(await pass(), 2);
  t.equal(await pass(), 0);
});

t.test("acknowledge, resolve and pause stop it", async (t) => {
  const stops: Record<string, (target: string) => Promise<unknown>> = {
    acknowledge: async (target) => await acknowledgeIncident(owner, await idOf(target)),
    resolve: async (target) => await resolveIncident(owner, await idOf(target)),
    recovery: async (target) => await report(target, "PP"),
    pause: async (target) => await updateTarget(owner, target, { enabled: false }),
  };
  for (const [title, stop] of Object.entries(stops)) {
    const target = await monitor({ escalation: ladder });
    await report(target, "FF");
    clock.advance(9 * minute);
    await stop(target);
    clock.advance(9 * minute);
    t.equal(await pass(), 0, title);
  }
});

t.test("it begins again when the incident reopens, and when the acknowledgement is undone", async (t) => {
  const target = await monitor({ escalation: ladder });
  await report(target, "FF");
  clock.advance(10 * minute);
  await pass();
  await report(target, "PP");
  await report(target, "FF");
  clock.advance(10 * minute - 1);
  t.equal(await pass(), 0, "counted from the reopening");
  clock.advance(1);
  t.equal(await pass(), 1);
  await acknowledgeIncident(owner, await idOf(target));
  clock.advance(60 * minute);
  t.equal(await pass(), 0);
  await unacknowledgeIncident(owner, await idOf(target));
  t.equal(await pass(), 0);
  clock.advance(10 * minute);
  t.equal(await pass(), 1);
  t.strictSame((await log(target)).filter((line) => line.startsWith("un")).length, 3);
});

t.test("during maintenance it waits, and begins with an opening that was held", async (t) => {
  const target = await monitor({ escalation: ladder });
  await report(target, "FF");
  await maintain(target, 0, 60 * minute);
  clock.advance(30 * minute);
  t.equal(await pass(), 0);
  clock.advance(30 * minute);
  t.equal(await pass(), 2, "what was due leaves at the end");
});

t.test("the default of the organisation, none, and edits while an incident is open", async (t) => {
  await updateOrg(owner, owner.orgId, { escalation: ladder }, orgEffects);
  t.strictSame((await getOrg(owner, owner.orgId)).escalation, ladder);
  const [byDefault, none] = [await monitor(), await monitor({ escalation: [] })];
  for (const target of [byDefault, none]) await report(target, "FF");
  clock.advance(10 * minute);
  t.equal(await pass(), 1);
  t.strictSame(await log(none), ["opened chat"]);
  const later = [
    { after_minutes: 5, channel_ids: [boss] },
    { after_minutes: 20, channel_ids: [boss] },
  ];
  await updateOrg(owner, owner.orgId, { escalation: later }, orgEffects);
  t.equal(await pass(), 0, "a level before the one that is over is over too");
  clock.advance(10 * minute);
  t.equal(await pass(), 1);
  await updateTarget(owner, none, { escalation: null });
  t.equal(await pass(), 2, "a ladder that is added counts from the opening");
  await updateOrg(owner, owner.orgId, { escalation: [] }, orgEffects);
  clock.advance(60 * minute);
  t.equal(await pass(), 0);
});

t.test("what a ladder may be", async (t) => {
  const refused = async (escalation: Escalation, field: string) => {
    await t.rejects(monitor({ escalation }), { code: "INVALID_ALERT_CONFIG", field: `/escalation${field}` });
    await t.rejects(updateOrg(owner, owner.orgId, { escalation }, orgEffects), {
      code: "INVALID_ALERT_CONFIG",
      field: `/escalation${field}`,
    });
  };
  await refused([ladder[0]!, ladder[0]!], "/1/after_minutes");
  await refused([{ after_minutes: 1, channel_ids: [owner.orgId] }], "/0/channel_ids/0");
  await refused([{ after_minutes: 1, channel_ids: [phone, phone] }], "/0/channel_ids/1");
});

t.test("a ladder ends at its organisation: neither its channels nor its incidents are those of another", async (t) => {
  const stranger = await newOrg(system);
  const theirs = await webhookTo(stranger, "https://theirs.example.org/");
  const across: Escalation = [{ after_minutes: 1, channel_ids: [phone, theirs] }];
  const refused = { code: "INVALID_ALERT_CONFIG", field: "/escalation/0/channel_ids/1" };
  await t.rejects(monitor({ escalation: across }), refused);
  await t.rejects(updateOrg(owner, owner.orgId, { escalation: across }, orgEffects), refused);
  const target = await monitor();
  await t.rejects(updateTarget(owner, target, { escalation: across }), refused);
  matchObject(t, (await updateTarget(owner, target, {})).escalation, null, "nothing of it is stored");

  // Both organisations have a default; only the one with the incident climbs.
  await updateOrg(stranger, stranger.orgId, { escalation: [{ after_minutes: 1, channel_ids: [theirs] }] }, orgEffects);
  await updateOrg(owner, owner.orgId, { escalation: [{ after_minutes: 1, channel_ids: [boss] }] }, orgEffects);
  await report(target, "FF");
  clock.advance(minute);
  t.equal(await pass(), 1);
  t.strictSame(await log(target), ["opened chat", "unacknowledged1 boss"]);
  t.strictSame([...(await sql`select id from deliveries where channel_id = ${theirs}`)], []);
  // Another organisation's change of its default does not touch this incident.
  await updateOrg(stranger, stranger.orgId, { escalation: [] }, orgEffects);
  await t.rejects(acknowledgeIncident(stranger, await idOf(target)), { code: "INCIDENT_NOT_FOUND" });
  await updateOrg(owner, owner.orgId, { escalation: [] }, orgEffects);
});

t.test("a disabled channel is passed over, a deleted one leaves the ladders", async (t) => {
  const gone = await webhookTo(owner, "https://gone.example.org/");
  const own = [
    { after_minutes: 1, channel_ids: [gone] },
    { after_minutes: 5, channel_ids: [boss] },
  ];
  const target = await monitor({ escalation: own });
  await updateOrg(owner, owner.orgId, { escalation: [{ after_minutes: 1, channel_ids: [gone, phone] }] }, orgEffects);
  await updateChannel(owner, gone, { enabled: false });
  await report(target, "FF");
  clock.advance(minute);
  t.equal(await pass(), 1);
  t.strictSame(await log(target), ["opened chat", "unacknowledged2 boss"]);
  await deleteChannel(owner, gone);
  t.strictSame((await updateTarget(owner, target, {})).escalation, [own[1]]);
  t.strictSame((await getOrg(owner, owner.orgId)).escalation, [{ after_minutes: 1, channel_ids: [phone] }]);
  await updateOrg(owner, owner.orgId, { escalation: [] }, orgEffects);
});

t.test(
  "climb: each reachable channel of a level gets it once, at its minute or with an unreachable one before",
  (t) => {
    const ids = ["a", "b", "c"];
    const levels = fc
      .uniqueArray(fc.tuple(fc.integer({ min: 1, max: 60 }), fc.subarray(ids, { minLength: 1 })), {
        selector: ([minutes]) => minutes,
        maxLength: 5,
      })
      .map((list) =>
        list.sort(([x], [y]) => x - y).map(([after_minutes, channel_ids]) => ({ after_minutes, channel_ids })),
      );
    const reach = fc.dictionary(
      fc.constantFrom(...ids),
      fc.record({
        hours: fc.constantFrom("reachable" as const, "outside" as const),
        gate: fc.constantFrom(...severities),
      }),
    );
    const looks = fc.array(fc.integer({ min: 0, max: 90 }), { maxLength: 8 }).map((list) => list.sort((a, b) => a - b));
    fc.assert(
      fc.property(levels, reach, looks, fc.constantFrom(...severities), (rungs, dictionary, times, before) => {
        const channels = new Map(Object.entries(dictionary));
        const notified = new Map<number, string[]>();
        let passed = 0;
        let gated: PassedOver[] = [];
        for (const at of [...times, 100]) {
          // The last look finds it as severe as can be.
          const severity = at === 100 ? "critical" : before;
          const next = climb(rungs, { passed, gated, from: 0, severity }, at * minute, channels);
          for (const { level, channelIds } of next.notices) {
            if (channelIds.some((id) => isBelow(severity, channels.get(id)!.gate))) return false;
            if (notified.has(level) && channelIds.some((id) => notified.get(level)!.includes(id))) return false;
            notified.set(level, [...(notified.get(level) ?? []), ...channelIds]);
          }
          if (next.passed < passed || (next.dueAt !== null && next.dueAt <= at * minute)) return false;
          ({ passed, gated } = next);
        }
        const everybody = new Set([...notified.values()].flat());
        const reachable = rungs.every(({ channel_ids: own }, at) =>
          own.filter((id) => channels.get(id)?.hours === "reachable").every((id) => notified.get(at + 1)?.includes(id)),
        );
        // Nobody who exists is left out but where a later level was reached in their place.
        const last = rungs.at(-1)?.channel_ids.filter((id) => channels.has(id)) ?? [];
        return reachable && (last.length === 0 || last.some((id) => everybody.has(id)));
      }),
    );
    t.end();
  },
);

t.test("a gate passes a level over; it is sent when the severity rises", async (t) => {
  const escalation = [
    { after_minutes: 5, channel_ids: [phone] },
    { after_minutes: 10, channel_ids: [boss], min_severity: "critical" as const },
    { after_minutes: 15, channel_ids: [phone] },
  ];
  const target = await monitor({ alerts: [{ channel_id: world.channelId }], escalation });
  await report(target, "FF");
  for (let at = 0; at < 16; at++) {
    clock.advance(minute);
    await sendEscalations(system);
  }
  t.strictSame(await log(target), ["opened chat", "unacknowledged1 phone", "unacknowledged3 phone"]);
  const [incident] = await world.incidents(target);
  await narrateIncident(owner, incident!.id, { severity: "critical" });
  await sendEscalations(system);
  t.strictSame(await log(target), [
    "opened chat",
    "unacknowledged1 phone",
    "unacknowledged3 phone",
    "escalated chat",
    "unacknowledged2 boss",
  ]);
});

t.test("gates of bindings and channels: the highest counts, an escalation is told as the first notice", async (t) => {
  const alerts = [
    { channel_id: world.channelId },
    { channel_id: phone, min_severity: "major" as const },
    { channel_id: boss },
  ];
  await updateChannel(owner, boss, { min_severity: "critical" });
  t.teardown(async () => await updateChannel(owner, boss, { min_severity: "minor" }));
  const target = await monitor({ alerts });
  await report(target, "DD");
  t.strictSame(await log(target), ["opened chat"]);
  await report(target, "FF");
  t.strictSame(await log(target), ["opened chat", "escalated chat", "escalated phone"]);
  clock.advance(second);
  await updateTarget(owner, target, { severity: "critical" });
  const raised = ["escalated chat", "escalated phone", "escalated boss"];
  t.strictSame((await log(target)).slice(3), raised, "what down means there is more severe from now on");
  const [open] = (await listIncidents(owner, { state: "open", target_id: target, limit: 1, offset: 0 })).items;
  t.strictSame([open!.severity, open!.peak_severity], ["critical", "critical"]);
  await report(target, "PP");
  t.strictSame((await log(target)).slice(6), ["resolved chat", "resolved phone", "resolved boss"]);

  const quiet = await monitor({ alerts });
  await report(quiet, "DDPP");
  t.strictSame(await log(quiet), ["opened chat", "resolved chat"], "a channel that got no opening gets no recovery");
});

t.test("an explanation has each channel: notified, next, or why not", async (t) => {
  const hook = await webhookTo(owner, "https://gated.example.org/");
  const late = await webhookTo(owner, "https://late.example.org/");
  const off = await webhookTo(owner, "https://off.example.org/");
  const escalation = [
    { after_minutes: 5, channel_ids: [phone] },
    { after_minutes: 10, channel_ids: [boss, phone], min_severity: "critical" as const },
  ];
  const alerts = [{ channel_id: world.channelId }, { channel_id: hook, min_severity: "critical" as const }];
  const target = await monitor({ alerts, escalation });
  await maintain(target, 0, 2 * minute);
  await report(target, "FF");
  const id = await idOf(target);
  const at = (ms: number) => new Date(clock.now() + ms).toISOString();
  const states = async () =>
    (await explainIncident(owner, id)).channels.map(({ channel_id, channel_name: _, channel_type: __, ...one }) => {
      const name = names.get(channel_id) ?? (channel_id === hook ? "hook" : channel_id === late ? "late" : "off");
      return [name, ...Object.values(one).filter((value) => value !== null)].join(" ");
    });
  const gate = "is for critical incidents; this one is major";
  const gated = [`hook gated its assignment to the monitor ${gate}`, `boss gated level 2 of the ladder ${gate}`];
  const until = new Date(noon + 2 * minute).toISOString();
  const held = [`chat held ${until} maintenance: Upgrade`, `phone held ${until} maintenance: Upgrade`];
  t.strictSame(await states(), [...held, ...gated]);
  await narrateIncident(owner, id, { severity: "critical" });
  t.equal((await states()).filter((line) => line.includes("held")).length, 4);
  await narrateIncident(owner, id, { severity: null });

  clock.advance(3 * minute);
  await followMaintenance(system);
  const next = `phone waiting ${at(5 * minute)} level 1 of the ladder`;
  t.strictSame(await states(), ["chat waiting the opening leaves now", next, ...gated]);
  const [row] = await sql`
    update deliveries set state = 'delivered', delivered_at = ${at(0)} where incident_id = ${id} returning id`;
  const told = `chat told ${at(0)} ${row!["id"]}`;
  t.strictSame(await states(), [told, next, ...gated]);
  const { in_words: words } = await explainIncident(owner, id);
  t.match(words.at(-3), /^channel .* waits until .*: level 1 of the ladder\.$/);
  await updateChannel(owner, hook, { min_severity: "critical" });
  t.ok((await states()).includes(`hook gated the channel ${gate}`), "the gate of the channel, where both keep it back");
  await updateChannel(owner, hook, { min_severity: "minor" });
  t.match(
    words.at(-2),
    /\(webhook\) is not notified: its assignment to the monitor is for critical incidents; this one is major\.$/,
  );

  await updateTarget(owner, target, { alerts: [...alerts, { channel_id: late }, { channel_id: off }] });
  await updateChannel(owner, off, { enabled: false });
  const [{ reminder_due_at: reminder } = {}] = await sql`select reminder_due_at from incidents where id = ${id}`;
  t.strictSame(await states(), [
    told,
    next,
    `late waiting ${(reminder as Date).toISOString()} assigned after the opening: the next reminder`,
    ...gated,
    "off over the channel is disabled",
  ]);
  await acknowledgeIncident(owner, id);
  const now = await states();
  t.ok(now.includes("phone over acknowledged before level 1 of the ladder"), now.join("; "));
  clock.advance(minute);
  await report(target, "PP");
  t.ok((await states()).includes("phone over the incident ended before level 1 of the ladder"));
  t.match((await states())[0], new RegExp(`^${told.slice(0, 60)}.*the recovery leaves now$`), "its recovery waits");
});

t.test("a severity that a person sets is told when it rises, and only then", async (t) => {
  const target = await monitor({ alerts: [{ channel_id: world.channelId }] });
  await report(target, "FF");
  const { id } = (await world.incidents(target))[0]!;
  for (const severity of ["critical", "minor", "minor", null] as const) await narrateIncident(owner, id, { severity });
  t.strictSame(
    await log(target),
    ["opened chat", "escalated chat", "escalated chat"],
    "to critical, and back to major",
  );
  await narrateIncident(owner, id, { severity: "minor" });
  await updateTarget(owner, target, { severity: "critical" });
  t.equal((await log(target)).length, 3, "a pinned severity stays");
  await report(target, "PP");
  await narrateIncident(owner, id, { severity: "critical" });
  t.strictSame((await log(target)).slice(3), ["resolved chat"], "after the end nobody is told");
});

t.test("after_failures: a channel waits for its number of failing slots", async (t) => {
  const release = async () => ((await isTrue(system, isHeldDue)) ? await releaseHeld(system, countFailingSlots) : 0);
  const alerts = [{ channel_id: world.channelId }, { channel_id: phone, after_failures: 4 }];
  const slots = async (target: string, statuses: string, changes: object = {}) => {
    for (const letter of statuses) {
      clock.advance(minute);
      const status = letter === "F" ? ("down" as const) : ("up" as const);
      await send(eu, [agentResult(target, clock.now(), { status, ...changes })]);
    }
  };
  const target = await monitor({ alerts });
  await slots(target, "FF");
  t.equal(await release(), 0);
  await slots(target, "F");
  t.equal(await release(), 0);
  t.strictSame(await log(target), ["opened chat", "opened phone held"]);
  await slots(target, "F");
  t.strictSame((await Promise.all([release(), releaseHeld(other, countFailingSlots)])).sort(), [0, 1]);
  await slots(target, "PP");
  t.strictSame(await log(target), ["opened chat", "opened phone", "resolved chat", "resolved phone"]);

  const short = await monitor({ alerts });
  await slots(short, "FFFPP");
  clock.advance(60 * minute);
  t.equal(await release(), 0);
  t.strictSame(await log(short), ["opened chat", "opened phone dropped", "resolved chat"], "it never reached four");

  const paused = await monitor({ alerts });
  await slots(paused, "FF");
  await updateTarget(owner, paused, { enabled: false });
  clock.advance(60 * minute);
  t.equal(await release(), 0);
  t.strictSame(await log(paused), ["opened chat", "opened phone dropped"]);

  await t.rejects(monitor({ alerts, alert_confirmations: 5 }), {
    code: "INVALID_ALERT_CONFIG",
    field: "/alerts/1/after_failures",
  });
  await t.rejects(updateTarget(owner, target, { alert_confirmations: 5 }), {
    code: "INVALID_ALERT_CONFIG",
    field: "/alerts/1/after_failures",
  });
  const shown = (await updateTarget(owner, target, { tags: ["x"] })).alerts;
  t.strictSame(shown, alerts, "an edit of something else keeps it");
});

t.test("notify_recovery of a binding decides for its channel", async (t) => {
  const quiet = [{ channel_id: world.channelId, notify_recovery: false }, { channel_id: phone }];
  const target = await monitor({ alerts: quiet });
  await report(target, "FFPP");
  t.strictSame(await log(target), ["opened chat", "opened phone", "resolved phone"]);
  const loud = await monitor({ alerts: [{ channel_id: phone, notify_recovery: true }], notify_recovery: false });
  clock.advance(second);
  await report(loud, "FFPP");
  t.strictSame(await log(loud), ["opened phone", "resolved phone"]);
});
