import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { updateTarget } from "../../../monitoring/targets/write/service.ts";
import { hour, minute, noon } from "../../../testing/clock.ts";
import { openOutages } from "../../../testing/outages.ts";
import { newOrg, refusal } from "../../../testing/world.ts";
import { validate } from "@statusmesh/shared/schema/validate";
import { followMaintenance } from "../engine.ts";
import { NewNote } from "../timeline/narration-schema.ts";
import { getIncident } from "../service.ts";
import { listEvents, listUpdates, postNote } from "../timeline/service.ts";
import { reportIncident, reportIncidents, resolveIncident } from "./service.ts";

const world = await openOutages(t);
const { sql, clock, system, owner, monitor, report, maintain, notices, incidents, events } = world;

t.beforeEach(() => {
  clock.at = noon;
});

const open = (target_id: string, severity: "minor" | "major" | "critical" = "major") =>
  reportIncident(owner, { target_id, severity, public_title: "Payments are declined", message: "We look into it." });

t.test("an incident of a person notifies, has its first update, and stays open while checks pass", async (t) => {
  const target = await monitor();
  await report(target, "PPP");
  const made = await open(target, "critical");
  matchObject(t, made, {
    state: "open",
    opened_by: "person",
    severity: "critical",
    severity_pinned: true,
    public_title: "Payments are declined",
    error_sample: "Payments are declined",
    regions_down: [],
  });
  matchObject(t, (await listUpdates(owner, made.id, { limit: 5, offset: 0 })).items, [
    { phase: "investigating", message: "We look into it." },
  ]);
  matchObject(t, (await listEvents(owner, made.id, { limit: 5, offset: 0 })).items[0], {
    kind: "opened",
    actor: { type: "user" },
    detail: { severity: "critical" },
  });
  const [sent] = await sql<{ notice: object }[]>`select notice from deliveries where incident_id = ${made.id}`;
  matchObject(t, sent, { notice: { reason: "opened", severity: "critical", error_sample: "Payments are declined" } });
  await report(target, "PPPP");
  matchObject(t, await getIncident(owner, made.id), { state: "open" });
  matchObject(t, await resolveIncident(owner, made.id), { state: "closed", closed_by: "person" });
  t.strictSame(await notices(target), ["opened", "resolved"]);
  await report(target, "PPPP");
  t.equal((await incidents(target)).length, 1);
});

t.test("failing runs join it; after it is closed the ordinary rules apply again", async (t) => {
  const target = await monitor();
  const made = await open(target, "minor");
  await report(target, "FFF");
  matchObject(t, await getIncident(owner, made.id), { state: "open", severity: "minor", regions_down: ["eu"] });
  t.strictSame(await notices(target), ["opened"], "a pinned severity does not escalate");
  await report(target, "PPPP");
  matchObject(t, await getIncident(owner, made.id), { state: "open", regions_up: ["eu"] });
  await resolveIncident(owner, made.id);
  clock.advance(hour);
  await report(target, "FF");
  matchObject(t, await incidents(target), [{ state: "open", opened_by: "engine" }, { state: "closed" }]);
  await report(target, "PP");
  matchObject(t, await incidents(target), [{ state: "closed", closed_by: "engine" }, { state: "closed" }]);
});

t.test("a target has one open incident: of the engine or of a person", async (t) => {
  const target = await monitor();
  await report(target, "FF");
  const [failing] = await incidents(target);
  matchObject(t, await refusal(t, () => open(target)), {
    code: "INCIDENT_ALREADY_OPEN",
    details: { incident_id: failing!.id },
  });
  const other = await monitor();
  const outcomes = await Promise.allSettled([open(other), open(other), open(other)]);
  t.equal(outcomes.filter(({ status }) => status === "fulfilled").length, 1);
  t.equal((await incidents(other)).length, 1);
  t.strictSame(await notices(other), ["opened"]);
});

t.test("a pause closes it silently; a maintenance window holds its notice", async (t) => {
  const target = await monitor();
  await maintain(target, -minute, hour);
  const made = await open(target);
  t.strictSame(await notices(target), []);
  clock.advance(2 * hour);
  await followMaintenance(system);
  t.strictSame(await notices(target), ["opened"]);
  await updateTarget(owner, target, { enabled: false });
  matchObject(t, await getIncident(owner, made.id), { state: "closed", closed_by: "pause" });
  t.strictSame(await notices(target), ["opened"]);
  t.ok((await events(made.id)).includes("resolved"));
});

t.test(
  "an internal note is refused without a text, when it is too long, for others, and after the hundredth",
  async (t) => {
    const { id } = await open(await monitor());
    const note = (message: unknown, ctx = owner, of = id) =>
      refusal(t, async () => await postNote(ctx, of, validate(NewNote, { message })));
    matchObject(t, await note(" "), { code: "EMPTY_MESSAGE", field: "/message" });
    matchObject(t, await note("x".repeat(2001)), { code: "MESSAGE_TOO_LONG", field: "/message" });
    matchObject(t, await note("foreign", await newOrg(system)), { code: "INCIDENT_NOT_FOUND" });
    matchObject(t, await note("unscoped", { ...owner, scopes: new Set(["incidents:read"]) }), {
      code: "INSUFFICIENT_SCOPE",
    });
    for (let n = 0; n < 100; n++) await postNote(owner, id, { message: `note ${n}` });
    matchObject(t, await note("one more"), { code: "QUOTA_EXCEEDED" });
    t.equal((await listUpdates(owner, id, { limit: 5, offset: 0 })).total, 1, "none of them is public");
  },
);

const iso = (at: number) => new Date(at).toISOString();
const words = { severity: "critical", public_title: "Disk full", message: "We have added disks." } as const;

t.test("an incident that is over has its times, and neither notifies a channel nor is evidence", async (t) => {
  const targets = [await monitor(), await monitor()];
  const times = { started_at: iso(noon - 3 * hour), ended_at: iso(noon - 2 * hour) };
  const made = await reportIncidents(owner, targets, { ...words, ...times });
  matchObject(
    t,
    made,
    targets.map((target_id) => ({ target_id, state: "closed", duration_secs: 3600, ...times })),
  );
  matchObject(t, made[0], { opened_by: "person", closed_by: "person", severity: "critical", severity_pinned: true });
  t.notOk("imported" in made[0]!);
  t.strictSame(await notices(targets[0]!), []);
  matchObject(t, (await listEvents(owner, made[0]!.id, { limit: 5, offset: 0 })).items, [
    { kind: "opened", at: times.started_at, actor: { type: "user" } },
    { kind: "resolved", at: times.ended_at },
    { kind: "updated", detail: { phase: "resolved" } },
  ]);
  matchObject(t, (await listUpdates(owner, made[0]!.id, { limit: 5, offset: 0 })).items, [
    { phase: "resolved", created_at: times.ended_at },
  ]);
  await report(targets[0]!, "FF");
  matchObject(t, await incidents(targets[0]!), [{ state: "open", opened_by: "engine" }, { state: "closed" }]);
  const minor = await reportIncidents(owner, [targets[1]!], { ...words, ...times, severity: "minor", notify: false });
  matchObject(t, minor, [{ severity: "minor", peak_severity: "minor" }]);
  const [update] = await sql`select notify_subscribers from incident_updates where incident_id = ${minor[0]!.id}`;
  t.equal(update!["notify_subscribers"], false);
});

t.test("an open incident may have begun within the hour; without notify no channel is ever notified", async (t) => {
  const target = await monitor({ renotify_interval: 60 });
  const times = { started_at: iso(noon - 20 * minute) };
  const [made] = await reportIncidents(owner, [target], { ...words, ...times, notify: false });
  matchObject(t, made, { state: "open", started_at: times.started_at, outage_since: times.started_at });
  await report(target, "FPF");
  const [row] = await sql`select reminder_due_at from incidents where id = ${made!.id}`;
  t.equal(row!["reminder_due_at"], null);
  clock.advance(hour);
  matchObject(t, await resolveIncident(owner, made!.id), { state: "closed", duration_secs: 80 * 60 + 3 });
  t.strictSame(await notices(target), []);
});

t.test("incidents of several targets are all or none, and their times are checked", async (t) => {
  const [first, second] = [await monitor(), await monitor()];
  const made = await open(second);
  matchObject(t, await refusal(t, () => reportIncidents(owner, [first, second], words)), {
    code: "INCIDENT_ALREADY_OPEN",
    details: { incident_id: made.id },
  });
  t.strictSame(await incidents(first), []);
  const other = await newOrg(system);
  matchObject(t, await refusal(t, () => reportIncidents(other, [first], words)), { code: "TARGET_NOT_FOUND" });
  for (const [started, ended, field] of [
    [noon + minute, null, "/started_at"],
    [noon - hour - 1, null, "/ended_at"],
    [noon - hour, noon - hour, "/ended_at"],
    [noon - hour, noon + 1, "/ended_at"],
  ] as const) {
    const times = { started_at: iso(started), ...(ended === null ? {} : { ended_at: iso(ended) }) };
    matchObject(t, await refusal(t, () => reportIncidents(owner, [first], { ...words, ...times })), {
      code: "INVALID_TIME_RANGE",
      field,
    });
  }
});
