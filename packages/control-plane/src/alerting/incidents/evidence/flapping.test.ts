import t from "tap";
import { newId } from "@statusmesh/shared/ids";
import { matchObject } from "@statusmesh/shared/testing";
import { getTarget } from "../../../monitoring/targets/service.ts";
import { updateTarget } from "../../../monitoring/targets/write/service.ts";
import { announce } from "../../../publishing/subscribers/engine.ts";
import { addComponent } from "../../../publishing/status-pages/components/service.ts";
import { createPage } from "../../../publishing/status-pages/service.ts";
import { minute, noon, second } from "../../../testing/clock.ts";
import { openOutages } from "../../../testing/outages.ts";
import { agentResult, webhookTo } from "../../../testing/scene.ts";
import { newOrg } from "../../../testing/world.ts";
import { acknowledgeByLink } from "../../acknowledge/service.ts";
import { createChannel, updateChannel } from "../../channels/service.ts";
import { acknowledgeUrl } from "../../deliveries/service.ts";
import { followMaintenance, isFlappingDue, settleFlapping } from "../engine.ts";
import { sendEscalations } from "../escalation/ladder.ts";
import { sendReminders } from "../escalation/reminders.ts";
import { acknowledgeIncident, unacknowledgeIncident } from "../lifecycle/service.ts";
import { explainIncident } from "../explanation/service.ts";
import { flapping, getIncident } from "../service.ts";
import { isTrue } from "../../../platform/jobs/queries.ts";

const world = await openOutages(t);
const { sql, clock, system, owner, eu, send, incidents } = world;
const slack = { type: "slack", webhook_url: "https://hooks.slack.com/services/T0/B0/x" } as const;
const chat = (await createChannel(owner, { name: "Chat", config: slack })).id;

t.beforeEach(async () => {
  clock.at = noon;
  await sql`update incidents set reminder_due_at = null, escalation_due_at = null, acknowledged_at = now()`;
});

/** A monitor that one run opens and closes, of which a chat and a webhook are notified. */
const monitor = async (changes: object = {}) =>
  await world.monitor({
    alert_confirmations: 1,
    flap_detection: true,
    alerts: [{ channel_id: chat }, { channel_id: world.channelId }],
    ...changes,
  });

/** Reports each verdict so long after the one before it. */
async function follow(target: string, verdicts: string, everyMs: number): Promise<void> {
  for (const verdict of verdicts) {
    clock.advance(everyMs);
    await send(eu, [agentResult(target, clock.now(), { status: verdict === "F" ? "down" : "up" })]);
  }
}

/** Notices of a channel, with what they say of flapping. */
async function told(target: string, channel = chat): Promise<string[]> {
  const rows = await sql<{ reason: string; flap: string | null }[]>`
    select d.reason, d.notice ->> 'flap' as flap from deliveries d join incidents i on i.id = d.incident_id
    where i.target_id = ${target} and d.channel_id = ${channel} order by d.created_at, d.id`;
  return rows.map(({ reason, flap }) => (flap === null ? reason : `${reason} ${flap}`));
}

const before = ["opened", "resolved", "reopened", "resolved", "reopened begins"];

t.test(
  "a monitor that changes every 20 s for ten minutes says once that it flaps, and once that it is stable",
  async (t) => {
    const relay = await webhookTo(owner, "https://relay.example.org/");
    await updateChannel(owner, relay, { rounds: true });
    const target = await monitor({ alerts: [chat, world.channelId, relay].map((channel_id) => ({ channel_id })) });
    await follow(target, "FP".repeat(15), 20 * second);
    t.strictSame(await told(target), before);
    t.strictSame(await told(target, relay), before, "a webhook with rounds is for people");
    const held = Array.from({ length: 25 }, (_, at) => (at % 2 === 0 ? "resolved held" : "reopened held"));
    t.strictSame(await told(target, world.channelId), [...before, ...held], "a webhook gets every change");
    const shown = { since: new Date(noon + 100 * second).toISOString(), changes: 30 };
    t.strictSame((await getTarget(owner, target)).flapping, shown);
    t.strictSame((await flapping(owner, [target])).get(target), shown);
    t.equal((await flapping(await newOrg(system), [target])).size, 0, "of its own organisation only");
    const [incident, ...others] = await incidents(target);
    t.strictSame(others, [], "it is one incident");
    matchObject(t, incident, { state: "closed", reopened_count: 14, flapping: shown });

    await follow(target, "P".repeat(15), minute);
    t.strictSame(await told(target), [...before, "resolved stable"]);
    t.equal((await told(target, world.channelId)).length, 30, "which knows that it is up");
    t.equal((await getIncident(owner, incident!.id)).flapping, null, "no badge on a closed incident");
    const kinds = await world.events(incident!.id);
    t.strictSame(
      [kinds.filter((kind) => kind.startsWith("flapping")), kinds.at(-1)],
      [["flapping_started", "flapping_ended"], "flapping_ended"],
    );
  },
);

t.test("ladder and reminders wait; what stays down is told, and the ladder goes on", async (t) => {
  const escalation = [
    { after_minutes: 1, channel_ids: [chat] },
    { after_minutes: 30, channel_ids: [chat] },
  ];
  const target = await monitor({ escalation, renotify_interval_secs: 60 });
  // The level first: the reminder that is due at the same time follows it.
  const pass = async () => {
    await sendEscalations(system);
    await sendReminders(system);
  };
  await follow(target, "FPFPF", 10 * second);
  for (let n = 0; n < 6; n++) {
    // Long enough that the level is due before the next change.
    await follow(target, "PFFF", 30 * second);
    await pass();
  }
  t.strictSame(await told(target), before);
  const { id } = (await incidents(target))[0]!;
  t.strictSame((await explainIncident(owner, id)).held, [{ by: "flapping", id, reason: null, until: null }]);
  await follow(target, "FFFF", minute);
  await pass();
  t.strictSame(
    (await told(target)).slice(before.length),
    ["reopened down", "unacknowledged"],
    "and no reminder at once",
  );
  t.equal((await getIncident(owner, id)).flapping, null);
  t.strictSame((await explainIncident(owner, id)).held, []);
  await follow(target, "P", minute);
  t.strictSame((await told(target)).slice(before.length + 2), ["resolved"]);
});

t.test("an acknowledgement lasts while it flaps", async (t) => {
  const escalation = [{ after_minutes: 1, channel_ids: [chat] }];
  const target = await monitor({ escalation });
  await follow(target, "FPFPF", 10 * second);
  const { id } = (await incidents(target))[0]!;
  await acknowledgeIncident(owner, id);
  await follow(target, "PFPFPF", 20 * second);
  t.not((await getIncident(owner, id)).acknowledged_at, null);
  await follow(target, "FFFFF", minute);
  await sendEscalations(system);
  t.strictSame((await told(target)).slice(before.length), ["reopened down"], "nobody is called");
});

t.test("an acknowledgement is accepted while it flaps and is up: in the console, and from a message", async (t) => {
  const escalation = [{ after_minutes: 1, channel_ids: [chat] }];
  for (const from of ["console", "message"] as const) {
    const target = await monitor({ escalation, renotify_interval_secs: 60 });
    await follow(target, "FPFPF", 10 * second);
    const [{ id } = { id: "" }] = await incidents(target);
    const [{ id: sent } = { id: "" }] = await sql<{ id: string }[]>`
      update deliveries set state = 'delivered', delivered_at = ${new Date(clock.now())}, covers = array[incident_id]
      where incident_id = ${id} and channel_id = ${chat} and notice ->> 'flap' = 'begins' returning id`;
    await follow(target, "PFP", 20 * second);
    if (from === "console") await acknowledgeIncident(owner, id);
    else {
      const token = (await acknowledgeUrl(system, sent, "opened"))!.split("/").at(-1)!;
      t.equal((await acknowledgeByLink(system, token, { action: "POST /a/{token}" })).count, 1);
    }
    matchObject(t, await getIncident(owner, id), { state: "closed", acknowledged_at: /./ });
    await follow(target, "FFFFFF", minute);
    await Promise.all([sendEscalations(system), sendReminders(system)]);
    t.strictSame((await told(target)).slice(before.length), ["reopened down"], `${from}: nobody is called`);
    await follow(target, "P", 20 * second);
    await unacknowledgeIncident(owner, id);
    await acknowledgeIncident(owner, id);
    t.equal((await getIncident(owner, id)).acknowledged_at, null, "what has ended is not acknowledged");
  }
});

t.test("silence hides no outage; a replica that comes second does nothing", async (t) => {
  const target = await monitor();
  await follow(target, "FPFPF", 10 * second);
  t.notOk(await isTrue(system, isFlappingDue));
  clock.advance(5 * minute);
  t.notOk(await isTrue(system, isFlappingDue), "a run may be on its way");
  clock.advance(3 * minute);
  t.ok(await isTrue(system, isFlappingDue));
  const other = { ...system, sql: world.pool(4) };
  await Promise.all([settleFlapping(system), settleFlapping(other)]);
  t.strictSame((await told(target)).slice(before.length), ["reopened down"]);
  t.notOk(await isTrue(system, isFlappingDue));
});

t.test("detection is off for a monitor that says so, also while it flaps", async (t) => {
  const loud = await monitor({ flap_detection: false });
  await follow(loud, "FPFPFPFP", 10 * second);
  t.strictSame(await told(loud), [
    "opened",
    ...Array.from({ length: 3 }, () => ["resolved", "reopened"]).flat(),
    "resolved",
  ]);
  const target = await monitor();
  await follow(target, "FPFPFP", 10 * second);
  await updateTarget(owner, target, { flap_detection: false });
  t.strictSame((await told(target)).slice(before.length), ["resolved stable"]);
  t.equal((await getTarget(owner, target)).flapping, null);
});

t.test("maintenance holds the notice that it flaps, and sends it at its end", async (t) => {
  const target = await monitor();
  await world.maintain(target, 0, 10 * minute);
  await follow(target, "FPFPFPF", 30 * second);
  t.strictSame([await told(target), await told(target, world.channelId)], [[], []]);
  clock.advance(7 * minute);
  await followMaintenance(system);
  t.strictSame(await told(target), ["opened begins"]);
});

t.test("subscribers of a page hear of it once, and when it is stable", async (t) => {
  const target = await monitor();
  const page = await createPage(owner, { slug: "acme", name: "Acme" });
  await addComponent(owner, page.id, { target_id: target });
  await sql`
    insert into subscribers (id, org_id, page_id, kind, address, state, token, confirmed_at, created_at, asked_at)
    values (${newId()}, ${owner.orgId}, ${page.id}, 'email', 'a@example.org', 'active', ${newId()},
      ${new Date(noon)}, ${new Date(noon)}, ${new Date(noon)})`;
  for (const verdict of "FPFPFPFP") {
    await follow(target, verdict, 20 * second);
    await announce(system);
  }
  const kinds = async () => {
    const rows = await sql<{ kind: string }[]>`
      select content ->> 'kind' as kind from subscriber_messages where page_id = ${page.id} order by at`;
    return rows.map(({ kind }) => kind);
  };
  const first = ["opened", "resolved", "reopened", "resolved", "reopened"];
  t.strictSame(await kinds(), first);
  await follow(target, "P".repeat(15), minute);
  await announce(system);
  t.strictSame(await kinds(), [...first, "resolved"]);
});
