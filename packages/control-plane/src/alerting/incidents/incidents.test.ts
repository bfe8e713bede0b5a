import { text } from "node:stream/consumers";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import type { Ctx } from "../../platform/context.ts";
import { sendReminders } from "./escalation/reminders.ts";
import { updateTarget } from "../../monitoring/targets/write/service.ts";
import { hour, minute, noon, second } from "../../testing/clock.ts";
import { agentResult } from "../../testing/scene.ts";
import { openOutages } from "../../testing/outages.ts";
import { asking, newMember, serveWhole, signedIn, withToken } from "../../testing/whole-app.ts";
import { refusal } from "../../testing/world.ts";
import {
  acknowledgeIncident,
  bulkIncidentAction,
  resolveIncident,
  unacknowledgeIncident,
} from "./lifecycle/service.ts";
import { explainIncident } from "./explanation/service.ts";
import { getIncident, incidentsCsv, listIncidents } from "./service.ts";
import { listEvents, listUpdates, narrateIncident, postUpdate } from "./timeline/service.ts";

const world = await openOutages(t);
const { sql, clock, system, owner, monitor, report, notices, events } = world;
const page = { limit: 50, offset: 0 };

t.beforeEach(async () => {
  clock.at = noon;
  await sql`update incidents set reminder_due_at = null`;
});

/** A target with an incident that has just opened. */
async function outage(changes: object = {}, verdicts = "FF"): Promise<{ target: string; id: string }> {
  const target = await monitor(changes);
  await report(target, verdicts);
  return { target, id: (await world.incidents(target))[0]!.id };
}

t.test("the CSV has the incidents of the list, with every column", async (t) => {
  const first = await outage({ name: "Shop, EU" });
  clock.advance(minute);
  const { target } = await outage();
  const { id } = await narrateIncident(owner, first.id, { public_title: "Checkout down" });
  await report(first.target, "PP");
  const csv = await text(await incidentsCsv(owner, { state: "closed", target_id: first.target }));
  const one = await getIncident(owner, id);
  t.strictSame(csv.split("\r\n"), [
    "id,target_id,monitor_name,state,severity,peak_severity,started_at,ended_at,duration_secs,acknowledged_at," +
      "closed_by,reopened_count,error_sample,diagnosis,regions_down,public_title",
    `${id},${first.target},"Shop, EU",closed,${one.severity},${one.peak_severity},${one.started_at},${one.ended_at},` +
      `${one.duration_secs},,engine,0,${one.error_sample},,${one.regions_down.join(" ")},Checkout down`,
    "",
  ]);
  const open = await text(await incidentsCsv(owner, { state: "open", target_id: target }));
  t.match(open.split("\r\n")[1], /,open,/);
});

t.test("the timeline has every transition once, in order, with its cause", async (t) => {
  const { target, id } = await outage({}, "DD");
  clock.advance(minute);
  await report(target, "F");
  await acknowledgeIncident(owner, id);
  await unacknowledgeIncident(owner, id);
  const member = await newMember(owner);
  await sql`update users set name = 'Milan' where id = ${member.userId}`;
  await narrateIncident(member, id, { public_title: "Checkout down", severity: "critical" });
  await postUpdate(member, id, { phase: "identified", message: "Found it." });
  await report(target, "PP");
  clock.advance(minute);
  await report(target, "FF");
  await resolveIncident(member, id);
  const { items } = await listEvents(owner, id, page);
  t.strictSame(
    items.map(({ kind, actor }) => `${kind} ${actor.name ?? actor.type}`),
    [
      "opened engine",
      "escalated engine",
      `acknowledged ${owner.userId}`,
      `unacknowledged ${owner.userId}`,
      "updated Milan",
      "severity_changed Milan",
      "updated Milan",
      "resolved engine",
      "reopened engine",
      "resolved Milan",
    ],
  );
  matchObject(t, items[0]!.detail, { severity: "minor", regions_down: ["eu"], error: "connection refused" });
  matchObject(t, items[4]!.detail, { public_title: "Checkout down" });
  matchObject(t, items[5]!.detail, { before: "major", after: "critical", pinned: true });
  matchObject(t, items[6]!.detail, { phase: "identified", message: "Found it." });
  matchObject(t, items[9]!.detail, { closed_by: "person" });
  const times = items.map(({ at }) => at);
  t.strictSame(times, [...new Set(times)].sort(), "each later than the one before, also in the same millisecond");
});

t.test("an event is dated after the last one, also with a wrong clock of the replica", async (t) => {
  const { target, id } = await outage();
  clock.advance(-hour);
  await acknowledgeIncident(owner, id);
  clock.advance(hour);
  const [opened, acknowledged] = (await listEvents(owner, id, page)).items;
  t.ok(acknowledged!.at > opened!.at);
  t.strictSame(await notices(target), ["opened"]);
});

t.test("several transitions in one batch are as many events; an ordinary result writes none", async (t) => {
  const target = await monitor();
  await report(target, "FFPPFFPP");
  const [one] = await world.incidents(target);
  t.strictSame(await events(one!.id), ["opened", "resolved", "reopened", "resolved"]);
  t.strictSame(await notices(target), ["opened", "resolved", "reopened", "resolved"]);
  const writes = async () => (await sql`select count(*)::int as n from incident_events`)[0]!["n"];
  const before = await writes();
  clock.advance(minute);
  await report(target, "P");
  t.equal(await writes(), before);
});

t.test("late runs that take an incident back leave a retracted event, and no list shows it", async (t) => {
  const target = await monitor();
  await report(target, "F");
  clock.advance(2 * second);
  await report(target, "F");
  const [one] = await world.incidents(target);
  await world.send(world.eu, [agentResult(target, clock.now() - second)]);
  t.strictSame(await world.incidents(target), []);
  const kinds = await sql<{ kind: string }[]>`
    select kind from incident_events where incident_id = ${one!.id} order by at`;
  t.strictSame(
    kinds.map(({ kind }) => kind),
    ["opened", "retracted"],
  );
  matchObject(t, await refusal(t, () => listEvents(owner, one!.id, page)), { code: "INCIDENT_NOT_FOUND" });
});

t.test("a severity set by a person stays, and null brings the severity of the engine back", async (t) => {
  const { target, id } = await outage({}, "DD");
  matchObject(t, await narrateIncident(owner, id, { severity: "minor" }), { severity: "minor", severity_pinned: true });
  clock.advance(minute);
  await report(target, "F");
  matchObject(
    t,
    await getIncident(owner, id),
    { severity: "minor", severity_pinned: true },
    "the engine does not raise it",
  );
  t.strictSame(await notices(target), ["opened"], "and notifies of no escalation");
  matchObject(
    t,
    await narrateIncident(owner, id, {}),
    { severity: "minor", severity_pinned: true },
    "left out: as it was",
  );
  matchObject(t, await narrateIncident(owner, id, { severity: "critical" }), { severity: "critical" });
  await report(target, "PP");
  const [sent] = await sql<{ notice: { severity: string; urgency: string } }[]>`
    select notice from deliveries where incident_id = ${id} and reason = 'resolved'`;
  matchObject(t, sent!.notice, { severity: "critical", urgency: "high" }, "notices carry the pinned severity");
  matchObject(t, await narrateIncident(owner, id, { severity: null }), { severity: "major", severity_pinned: false });
});

t.test("title and description: set, left out, cleared, also after the end; texts are stored cleaned", async (t) => {
  const { target, id } = await outage();
  await report(target, "PP");
  const text = { public_title: "  Checkout\u200b down ", public_description: "Line 1\r\nLine 2" };
  const served = await serveWhole(t, world);
  const browser = asking(served, await signedIn(owner));
  const path = `/api/v1/incidents/${id}`;
  matchObject(t, await browser("PATCH", path, text), {
    status: 200,
    body: { public_title: "Checkout down", public_description: "Line 1\nLine 2" },
  });
  matchObject(t, await browser("PATCH", path, { public_title: null }), {
    body: { public_title: null, public_description: "Line 1\nLine 2", severity: "major" },
  });
  for (const phase of ["resolved", "postmortem"])
    matchObject(t, await browser("POST", `${path}/updates`, { phase, message: `<b>${phase}</b>` }), { status: 201 });
  matchObject(t, (await listUpdates(owner, id, page)).items, [
    { phase: "postmortem", message: "<b>postmortem</b>", author: { type: "user", id: owner.userId } },
    { phase: "resolved" },
  ]);
  const program = asking(served, await withToken(owner));
  matchObject(t, await program("POST", `${path}/updates`, { phase: "postmortem", message: "x".repeat(2000) }), {
    status: 201,
    body: { author: { type: "token", name: "Test" } },
  });
});

t.test("phase resolved closes nothing", async (t) => {
  const { id } = await outage();
  await postUpdate(owner, id, { phase: "resolved", message: "Should be fine." });
  matchObject(t, await getIncident(owner, id), { state: "open" });
});

t.test("an acknowledgement stops reminders and shows person and time; undone, they resume", async (t) => {
  const { target, id } = await outage({ renotify_interval_secs: 60 });
  clock.advance(minute);
  matchObject(t, await acknowledgeIncident(owner, id), {
    acknowledged_at: new Date(clock.now()).toISOString(),
    acknowledged_by: { type: "user", id: owner.userId, name: owner.userId },
  });
  clock.advance(hour);
  t.equal(await sendReminders(system), 0);
  matchObject(t, await unacknowledgeIncident(owner, id), { acknowledged_at: null, acknowledged_by: null });
  await unacknowledgeIncident(owner, id);
  t.equal(await sendReminders(system), 1, "one, however many were missed");
  t.equal(await sendReminders(system), 0);
  clock.advance(minute);
  t.equal(await sendReminders(system), 1);
  await resolveIncident(owner, id);
  clock.advance(hour);
  t.equal(await sendReminders(system), 0);
  t.strictSame(await notices(target), ["opened", "reminder", "reminder", "resolved"]);
  t.strictSame(await events(id), ["opened", "acknowledged", "unacknowledged", "resolved"]);
  await unacknowledgeIncident(owner, id);
  t.equal(await sendReminders(system), 0, "undoing it after the end sends no reminder");
});

t.test("many are acknowledged at once; foreign, absent and malformed ids are listed as failed", async (t) => {
  const [a, b, c] = [await outage(), await outage(), await outage()];
  await report(c.target, "PP");
  const stranger = { ...owner, orgId: newId() } as Ctx;
  const ids = [b.id, a.id, "nonsense", newId(), b.id, c.id];
  matchObject(t, await bulkIncidentAction(owner, { ids, action: { type: "acknowledge" } }), {
    succeeded: [b.id, a.id, c.id],
    failed: [
      { id: "nonsense", code: "INVALID_ID" },
      { id: ids[3], code: "INCIDENT_NOT_FOUND" },
    ],
  });
  for (const { id } of [a, b]) t.strictSame(await events(id), ["opened", "acknowledged"]);
  t.strictSame(await events(c.id), ["opened", "resolved"], "a closed one stays as it is");
  matchObject(
    t,
    await bulkIncidentAction({ ...stranger }, { ids: [a.id], action: { type: "acknowledge" } }).catch(String),
    {
      failed: [{ code: "INCIDENT_NOT_FOUND" }],
    },
  );
});

t.test("the list is filtered by state, monitor, severity and time, open ones first", async (t) => {
  const first = await outage({}, "DD");
  await report(first.target, "PP");
  clock.advance(hour);
  const other = await monitor();
  await report(other, "FF");
  const ids = [first.target, other];
  const found = async (query: object) =>
    (await listIncidents(owner, { state: "all", ...page, limit: 1000, ...query })).items
      .filter(({ target_id }) => ids.includes(target_id))
      .map(({ severity, state }) => `${severity} ${state}`);
  const at = (ms: number) => new Date(noon + ms).toISOString();
  t.strictSame(await found({}), ["major open", "minor closed"]);
  t.strictSame(await found({ severity: "minor" }), ["minor closed"]);
  t.strictSame(await found({ state: "open" }), ["major open"]);
  t.strictSame(await found({ from: at(minute) }), ["major open"], "not over before from");
  t.strictSame(await found({ to: at(minute) }), ["minor closed"], "begun before to");
  t.strictSame(await found({ from: at(-minute), to: at(2 * hour) }), ["major open", "minor closed"]);
  matchObject(t, await refusal(t, () => found({ from: at(1), to: at(0) })), {
    code: "BAD_TIME_RANGE",
    field: "/query/to",
  });
  matchObject(t, await refusal(t, () => found({ from: "2016-12-31T23:59:60Z" })), { code: "INVALID_QUERY" });
});

t.test("an explanation has the cause of the incident and its notifications in words", async (t) => {
  const { id } = await outage({ region_policy: { count: 1 } });
  await world.maintain((await getIncident(owner, id)).target_id, -minute, hour);
  const { in_words: words, maintenance, regions } = await explainIncident(owner, id);
  matchObject(t, words, [
    /^Opened at 2026-11-20 13:00:02 UTC: enough regions had 2 consecutive failing checks\.$/,
    /^Europe votes failing: 2 failing checks since 2026-11-20 13:00:01 UTC\. Last error: connection refused\.$/,
    /^1 of 1 live region fails; the policy \(count 1\) needs 1\.$/,
    /^Notifications are held until 2026-11-20 14:00:02 UTC: maintenance "Upgrade"\.$/,
    /^channel .* \(webhook\) waits: the opening leaves now\.$/,
  ]);
  matchObject(t, maintenance, { title: "Upgrade" });
  matchObject(t, regions, [{ consecutive_since: "2026-11-20T13:00:01.000Z" }]);
});

t.test("notify_recovery is off on every path: passing checks, by hand, an edited policy", async (t) => {
  const paths: ((target: string, id: string) => Promise<unknown>)[] = [
    (target) => report(target, "PP"),
    (_target, id) => resolveIncident(owner, id),
    async (target) => {
      await report(target, "PP", world.us);
      await updateTarget(owner, target, { region_policy: "all" });
    },
  ];
  for (const [at, end] of paths.entries()) {
    const { target, id } = await outage({ notify_recovery: false });
    clock.advance(second);
    await end(target, id);
    matchObject(t, await getIncident(owner, id), { state: "closed" }, `path ${at}`);
    t.strictSame(await notices(target), ["opened"], `path ${at}`);
  }
});

t.test("a pause is a resolved event of the person who paused, without a notice", async (t) => {
  const { target, id } = await outage();
  await updateTarget(owner, target, { enabled: false });
  matchObject(t, (await listEvents(owner, id, page)).items.at(-1), {
    kind: "resolved",
    actor: { type: "user", id: owner.userId },
    detail: { closed_by: "pause" },
  });
  t.strictSame(await notices(target), ["opened"]);
});

t.test("changes by many at once: one transition each, and nothing is lost", async (t) => {
  const colleague = await newMember(owner);
  for (let round = 0; round < 5; round++) {
    const { target, id } = await outage({ renotify_interval_secs: 60 });
    clock.advance(2 * minute);
    await Promise.all([
      ...Array.from({ length: 4 }, () => acknowledgeIncident(owner, id)),
      bulkIncidentAction(owner, { ids: [id], action: { type: "acknowledge" } }),
      sendReminders(system),
      sendReminders(system),
      narrateIncident(owner, id, { public_title: "A" }),
      narrateIncident(owner, id, { public_description: "B" }),
      narrateIncident(owner, id, { severity: "critical" }),
      postUpdate(owner, id, { phase: "investigating", message: "Of the one" }),
      postUpdate(colleague, id, { phase: "identified", message: "Of the other" }),
      ...Array.from({ length: 3 }, () => resolveIncident(owner, id)),
    ]);
    const kinds = (await events(id)).sort();
    const acknowledged = kinds.filter((kind) => kind === "acknowledged").length;
    t.ok(acknowledged <= 1, "acknowledged at most once, not at all when it was closed before");
    t.strictSame(
      kinds.filter((kind) => kind !== "acknowledged"),
      ["opened", "resolved", "severity_changed", "updated", "updated", "updated", "updated"],
    );
    t.strictSame(
      (await listUpdates(owner, id, page)).items.map(({ message }) => message).sort(),
      ["Of the one", "Of the other"],
      "both updates",
    );
    matchObject(t, await getIncident(owner, id), {
      state: "closed",
      public_title: "A",
      public_description: "B",
      severity: "critical",
    });
    const sent = await notices(target);
    t.equal(sent.filter((reason) => reason === "resolved").length, 1);
    t.ok(sent.filter((reason) => reason === "reminder").length <= 1);
  }
});
