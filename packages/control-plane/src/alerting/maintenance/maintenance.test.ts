import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import type { Ctx } from "../../platform/context.ts";
import { serve } from "../../testing/app.ts";
import { day, hour, minute, noon } from "../../testing/clock.ts";
import { newTarget } from "../../testing/scene.ts";
import { newOrg, openWorld } from "../../testing/world.ts";
import { maintenanceRoutes } from "./api.ts";
import { generateOccurrences } from "./occurrences.ts";
import { windowsOf } from "./service.ts";

const { sql, clock, system } = await openWorld(t);
clock.at = noon;
const ctx = await newOrg(system);
const stranger = await newOrg(system);
let caller: Ctx = ctx;
const ask = await serve(t, system, maintenanceRoutes, { tenant: () => caller });
const path = "/api/v1/maintenance";
const [web, api] = [await newTarget(ctx, "Web"), await newTarget(ctx, "API")];
const foreign = await newTarget(stranger, "Theirs");
const at = (ms: number) => new Date(noon + ms).toISOString();
const input = (more: object = {}) => ({
  title: "Database upgrade",
  starts_at: at(hour),
  ends_at: at(2 * hour),
  component_ids: [web],
  ...more,
});

t.beforeEach(async () => {
  clock.at = noon;
  caller = ctx;
  await sql`truncate maintenance_windows cascade`;
});

t.test("a window is created, changed, active, ended early, and then final", async (t) => {
  const made = await ask("POST", path, input({ description: "The shop is read-only.", write_source: "terraform" }));
  matchObject(t, made, {
    status: 201,
    body: { ...input(), description: "The shop is read-only.", state: "upcoming", write_source: "api" },
  });
  const own = `${path}/${made.body.id}`;
  t.equal(made.headers.get("location"), own);
  t.strictSame((await ask("GET", own)).body, made.body);
  matchObject(t, (await ask("PATCH", own, { description: null, component_ids: [api, web] })).body, {
    description: null,
    component_ids: [api, web],
  });

  clock.at = noon + 90 * minute;
  matchObject(t, (await ask("GET", own)).body, { state: "active" });
  const refused = async (patch: object, code: string, field: string) =>
    matchObject(t, await ask("PATCH", own, patch), { status: 400, body: { error: { code, field } } });
  await refused({ starts_at: at(0) }, "INVALID_TIME_RANGE", "/starts_at");
  await refused({ component_ids: [web] }, "INVALID_COMPONENT_ID", "/component_ids");
  t.equal((await ask("PATCH", own, { title: "Longer", starts_at: at(hour), ends_at: at(3 * hour) })).status, 200);
  matchObject(t, (await ask("PATCH", own, { ends_at: at(80 * minute) })).body, {
    state: "past",
    ends_at: at(90 * minute),
  });
  matchObject(t, await ask("PATCH", own, { title: "Again" }), {
    status: 422,
    body: { error: { code: "MAINTENANCE_COMPLETED" } },
  });
  t.equal((await ask("DELETE", own)).status, 204);
  matchObject(t, await ask("GET", own), { status: 404, body: { error: { code: "MAINTENANCE_NOT_FOUND" } } });
});

t.test("invalid input is refused with its field", async (t) => {
  const refused = async (more: object, code: string, field: string) =>
    matchObject(t, await ask("POST", path, input(more)), { status: 400, body: { error: { code, field } } });
  await refused({ title: " " }, "EMPTY_TITLE", "/title");
  await refused({ title: "x".repeat(201) }, "TITLE_TOO_LONG", "/title");
  await refused({ description: "x".repeat(5001) }, "DESCRIPTION_TOO_LONG", "/description");
  await refused({ ends_at: at(hour) }, "INVALID_TIME_RANGE", "/ends_at");
  await refused({ ends_at: at(hour + 30 * day + 1) }, "INVALID_DURATION", "/ends_at");
  await refused({ component_ids: [web, newId()] }, "INVALID_COMPONENT_ID", "/component_ids/1");
  await refused({ component_ids: [foreign] }, "INVALID_COMPONENT_ID", "/component_ids/0");
  await refused({ component_ids: [web, web] }, "INVALID_COMPONENT_ID", "/component_ids/1");
  for (const malformed of ["web", "", 7, null])
    await refused({ component_ids: [web, malformed] }, "INVALID_COMPONENT_ID", "/component_ids/1");
  matchObject(t, await ask("POST", path, input({ starts_at: "tomorrow" })), { status: 400 });
  t.equal((await ask("POST", path, input({ ends_at: at(hour + 30 * day), component_ids: [] }))).status, 201);
});

t.test("an empty description is none", async (t) => {
  for (const description of ["", " \n ", null]) {
    const made = await ask("POST", path, input({ description }));
    matchObject(t, made, { status: 201, body: { description: null } }, JSON.stringify(description));
    await ask("PATCH", `${path}/${made.body.id}`, { description: "More" });
    matchObject(t, await ask("PATCH", `${path}/${made.body.id}`, { description }), {
      status: 200,
      body: { description: null },
    });
    await ask("DELETE", `${path}/${made.body.id}`);
  }
});

t.test("lists are filtered by state, newest start first; another organisation sees nothing", async (t) => {
  const past = (await ask("POST", path, input({ starts_at: at(-2 * hour), ends_at: at(-hour) }))).body;
  const active = (await ask("POST", path, input({ starts_at: at(-hour) }))).body;
  const upcoming = (await ask("POST", path, input())).body;
  const listed = async (query = "") =>
    (await ask("GET", `${path}${query}`)).body.items.map(({ id }: { id: string }) => id);
  t.strictSame(await listed(), [upcoming.id, active.id, past.id]);
  t.strictSame(await listed("?status=past"), [past.id]);
  t.strictSame(await listed("?status=active"), [active.id]);
  t.strictSame(await listed("?status=upcoming"), [upcoming.id]);
  for (const [state, one] of [
    ["past", past],
    ["active", active],
    ["upcoming", upcoming],
  ])
    t.strictSame(await listed(`?state=${state}`), [one.id], "state is the same filter");
  t.strictSame(await listed("?state=past&status=past"), [past.id]);
  matchObject(t, await ask("GET", `${path}?state=past&status=active`), {
    status: 400,
    body: { error: { code: "INVALID_QUERY", field: "/query/status" } },
  });
  matchObject(t, await ask("GET", `${path}?status=running`), {
    status: 400,
    body: { error: { field: "/query/status" } },
  });
  const range = { from: new Date(noon - day), to: new Date(noon) };
  const found = await windowsOf(system, ctx.orgId, [web, api], range);
  t.strictSame(
    found.map(({ id }) => id),
    [past.id, active.id],
  );
  caller = stranger;
  t.strictSame(await listed(), []);
  for (const method of ["GET", "PATCH", "DELETE"] as const)
    t.equal((await ask(method, `${path}/${active.id}`, method === "PATCH" ? {} : undefined)).status, 404, method);
});

/** A weekly window on the night to Sunday, in local time of Berlin; noon is 20 November 2026, a Friday. */
const weekly = (more: object = {}) =>
  input({
    starts_at: "2026-11-21T22:00:00.000Z",
    ends_at: "2026-11-22T02:00:00.000Z",
    recurrence: { rule: "FREQ=WEEKLY;BYDAY=SA", time_zone: "Europe/Berlin" },
    ...more,
  });
const plan = async (more: object = {}) => {
  const made = await ask("POST", path, weekly(more));
  if (made.status !== 201) throw new Error(JSON.stringify(made.body));
  return made.body;
};
const occurrences = async (id: string) => (await ask("GET", `${path}/${id}/occurrences`)).body.items;
const startsOf = async (id: string) =>
  (await occurrences(id)).map((one: { starts_at: string }) => one.starts_at.slice(0, 16));

t.test(
  "occurrences of a recurring window are stored ahead, and the job adds more on any number of replicas",
  async (t) => {
    const made = await plan();
    matchObject(t, made, {
      state: "upcoming",
      recurrence: { rule: "FREQ=WEEKLY;BYDAY=SA", time_zone: "Europe/Berlin" },
      occurrence: { starts_at: "2026-11-21T22:00:00.000Z", ends_at: "2026-11-22T02:00:00.000Z" },
    });
    const first = await startsOf(made.id);
    t.strictSame(first.slice(0, 3), ["2026-11-21T22:00", "2026-11-28T22:00", "2026-12-05T22:00"]);
    t.equal(first.length, 9, "two months");
    t.equal(await generateOccurrences(system), 0);
    clock.at = Date.parse("2027-02-28T00:00:00Z");
    const extended = await Promise.all([generateOccurrences(system), generateOccurrences(system)]);
    t.strictSame(extended.sort(), [0, 1]);
    t.strictSame((await startsOf(made.id)).slice(0, 6), [
      "2027-02-27T22:00",
      "2027-03-06T22:00",
      "2027-03-13T22:00",
      "2027-03-20T22:00",
      "2027-03-27T22:00",
      // Summer time: the same local time.
      "2027-04-03T21:00",
    ]);
    matchObject(t, (await ask("GET", `${path}/${made.id}`)).body, {
      state: "active",
      starts_at: "2026-11-21T22:00:00.000Z",
      occurrence: { starts_at: "2027-02-27T22:00:00.000Z" },
    });
  },
);

t.test(
  "a window ends after the last occurrence of its rule; a sparse rule has its next occurrence stored",
  async (t) => {
    const { id } = await plan({ recurrence: { rule: "FREQ=WEEKLY;COUNT=2", time_zone: "Europe/Berlin" } });
    const sparse = await plan({ recurrence: { rule: "FREQ=MONTHLY;INTERVAL=12", time_zone: "UTC" } });
    clock.at = Date.parse("2026-11-29T01:59:00Z");
    matchObject(t, (await ask("GET", `${path}/${id}`)).body, { state: "active" });
    matchObject(t, (await ask("GET", `${path}?status=active`)).body, { total: 1 });
    clock.at = Date.parse("2026-11-29T02:00:00Z");
    matchObject(t, (await ask("GET", `${path}/${id}`)).body, { state: "past" });
    matchObject(t, (await ask("GET", `${path}?status=past`)).body, { total: 1 });
    matchObject(t, (await ask("GET", `${path}?status=upcoming`)).body, { total: 1 });
    t.equal((await ask("PATCH", `${path}/${id}`, { title: "Late" })).status, 422);
    clock.at = Date.parse("2027-10-01T00:00:00Z");
    t.equal(await generateOccurrences(system), 1);
    t.strictSame(await startsOf(sparse.id), ["2027-11-21T22:00"]);
  },
);

t.test("one occurrence is skipped, restored, extended and ended; the others do not change", async (t) => {
  const { id, occurrence } = await plan();
  const own = `${path}/${id}/occurrences/${occurrence.id}`;
  matchObject(t, await ask("PATCH", own, { cancelled: true }), { status: 200, body: { cancelled: true } });
  matchObject(t, (await ask("GET", `${path}/${id}`)).body.occurrence, { starts_at: "2026-11-28T22:00:00.000Z" });
  t.strictSame(
    (await windowsOf(system, ctx.orgId, [web], { from: new Date(noon), to: new Date(noon + 9 * day) })).map(
      ({ starts_at }) => starts_at.toISOString(),
    ),
    ["2026-11-28T22:00:00.000Z"],
  );
  // Skipped occurrences stay skipped when the length changes.
  t.equal((await ask("PATCH", `${path}/${id}`, { ends_at: "2026-11-22T03:00:00.000Z" })).status, 200);
  const listed = await occurrences(id);
  matchObject(t, listed[0], { id: occurrence.id, cancelled: true, ends_at: "2026-11-22T02:00:00.000Z" });
  matchObject(t, listed[1], { cancelled: false, ends_at: "2026-11-29T03:00:00.000Z" });
  matchObject(t, await ask("PATCH", own, { cancelled: false }), { status: 200, body: { cancelled: false } });

  clock.at = Date.parse("2026-11-21T23:00:00Z");
  matchObject(t, await ask("PATCH", own, { cancelled: true }), {
    status: 400,
    body: { error: { code: "INVALID_RECURRENCE", field: "/cancelled" } },
  });
  matchObject(t, await ask("PATCH", own, { ends_at: "2026-11-22T05:00:00.000Z" }), { body: { state: "active" } });
  matchObject(t, await ask("PATCH", own, { ends_at: at(0) }), {
    body: { ends_at: "2026-11-21T23:00:00.000Z", state: "past" },
  });
  matchObject(t, await ask("PATCH", own, {}), { status: 422, body: { error: { code: "MAINTENANCE_COMPLETED" } } });
  matchObject(t, (await ask("GET", `${path}/${id}`)).body, { state: "upcoming" });
  caller = stranger;
  matchObject(t, await ask("PATCH", own, {}), { status: 404 });
  matchObject(t, await ask("GET", `${path}/${id}/occurrences`), { status: 404 });
});

t.test("the end of the only and of the last occurrence is the end of the window", async (t) => {
  const once = (await ask("POST", path, input({ starts_at: at(-hour) }))).body;
  const last = await plan({
    starts_at: at(-hour),
    ends_at: at(hour),
    recurrence: { rule: "FREQ=DAILY;COUNT=1", time_zone: "UTC" },
  });
  for (const { id, occurrence } of [once, last]) {
    const own = `${path}/${id}/occurrences/${occurrence.id}`;
    matchObject(t, await ask("PATCH", own, { ends_at: at(3 * hour) }), { status: 200 });
    clock.at = noon + 2.5 * hour;
    matchObject(t, (await ask("GET", `${path}/${id}`)).body, {
      state: "active",
      occurrence: { ends_at: at(3 * hour) },
    });
    matchObject(t, await ask("PATCH", own, { ends_at: at(0) }), { status: 200 });
    matchObject(t, (await ask("GET", `${path}/${id}`)).body, { state: "past" });
    clock.at = noon;
  }
  matchObject(t, (await ask("GET", `${path}/${once.id}`)).body, { ends_at: at(2.5 * hour) });
});

t.test("new times and rules of a recurring window apply to occurrences that have not started", async (t) => {
  clock.at = noon - 7 * day;
  const { id } = await plan({ starts_at: "2026-11-14T22:00:00.000Z", ends_at: "2026-11-15T02:00:00.000Z" });
  clock.at = noon;
  const changed = await ask("PATCH", `${path}/${id}`, {
    recurrence: { rule: "RRULE:freq=daily;count=10", time_zone: "europe/berlin" },
  });
  matchObject(t, changed, {
    status: 200,
    body: { recurrence: { rule: "FREQ=DAILY;COUNT=10", time_zone: "Europe/Berlin" } },
  });
  t.strictSame(await startsOf(id), ["2026-11-20T22:00", "2026-11-21T22:00", "2026-11-22T22:00", "2026-11-23T22:00"]);
  const range = { from: new Date(noon - 10 * day), to: new Date(noon) };
  t.equal((await windowsOf(system, ctx.orgId, [web], range)).length, 1, "the past stays");
  t.equal((await ask("PATCH", `${path}/${id}`, { title: "Other words" })).status, 200);
  t.equal((await occurrences(id)).length, 4);
  const once = await ask("PATCH", `${path}/${id}`, { recurrence: null, ends_at: "2026-11-30T02:00:00.000Z" });
  matchObject(t, once, { status: 200, body: { recurrence: null, state: "active" } });
  t.equal((await occurrences(id)).length, 1);
  t.equal((await ask("PATCH", `${path}/${id}/occurrences/${id}`, { cancelled: true })).status, 400, "the only one");
});

t.test("a window across the end of daylight saving has its exact length", async (t) => {
  clock.at = Date.parse("2027-10-20T12:00:00Z");
  const { id } = await plan({
    starts_at: "2027-10-30T21:00:00.000Z",
    ends_at: "2027-10-31T03:00:00.000Z",
    recurrence: { rule: "FREQ=WEEKLY;COUNT=2", time_zone: "Europe/Berlin" },
  });
  matchObject(
    t,
    await occurrences(id),
    [
      { starts_at: "2027-10-30T21:00:00.000Z", ends_at: "2027-10-31T03:00:00.000Z" },
      { starts_at: "2027-11-06T22:00:00.000Z", ends_at: "2027-11-07T04:00:00.000Z" },
    ],
    "23:00 to 04:00 of local time in the night of the change, 23:00 to 05:00 afterwards",
  );
});

t.test("a rule that does not fit its window is refused", async (t) => {
  const refused = async (more: object, code: string, field: string) =>
    matchObject(t, await ask("POST", path, weekly(more)), { status: 400, body: { error: { code, field } } });
  const rule = (text: string) => ({ recurrence: { rule: text, time_zone: "Europe/Berlin" } });
  await refused(rule("FREQ=WEEKLY;BYDAY=SU"), "INVALID_RECURRENCE", "/recurrence/rule");
  await refused(rule("FREQ=DAILY;UNTIL=20270231"), "INVALID_RECURRENCE", "/recurrence/rule");
  await refused(rule("x".repeat(201)), "INVALID_RECURRENCE", "/recurrence/rule");
  await refused({ recurrence: { rule: "FREQ=DAILY" } }, "INVALID_RECURRENCE", "/recurrence/time_zone");
  await refused({ ...rule("FREQ=DAILY"), ends_at: "2026-11-23T22:00:01.000Z" }, "INVALID_DURATION", "/ends_at");
  await refused({ starts_at: "2026-02-31T22:00:00.000Z" }, "INVALID_BODY", "/starts_at");
});

t.test(
  "a recurring window may have begun at any time: rows begin with the occurrence in progress or next",
  async (t) => {
    const berlin = { time_zone: "Europe/Berlin" };
    const counted = async (more: object) => {
      const { id, occurrence, state } = await plan(more);
      const rows = await sql`select starts_at from maintenance_occurrences where window_id = ${id} order by starts_at`;
      return {
        state,
        starts: occurrence.starts_at.slice(0, 16),
        first: rows[0]!["starts_at"].toISOString().slice(0, 16),
      };
    };
    // A winter's night, ten years ago: the same local time since.
    const old = { starts_at: "2016-11-26T22:00:00.000Z", ends_at: "2016-11-27T02:00:00.000Z" };
    const next = { state: "upcoming", starts: "2026-11-21T22:00", first: "2026-11-21T22:00" };
    t.strictSame(await counted(old), next);
    t.strictSame(await counted({ ...old, recurrence: { ...berlin, rule: "FREQ=WEEKLY;COUNT=1000" } }), next);
    t.strictSame(await counted({ ...old, recurrence: { ...berlin, rule: "FREQ=WEEKLY;UNTIL=20271231" } }), next);
    const daily = { ...berlin, rule: "FREQ=DAILY" };
    const early = { starts_at: "1970-01-01T11:30:00.000Z", ends_at: "1970-01-01T13:30:00.000Z", recurrence: daily };
    const running = { state: "active", starts: "2026-11-20T11:30", first: "2026-11-20T11:30" };
    t.strictSame(await counted(early), running, "in progress");
    const first = { starts_at: "0001-01-01T11:36:32.000Z", ends_at: "0001-01-01T13:30:00.000Z", recurrence: daily };
    t.strictSame(await counted(first), running, "Berlin's clocks were 53:28 ahead then");

    for (const rule of ["FREQ=WEEKLY;COUNT=500", "FREQ=WEEKLY;UNTIL=20261114T220000Z"])
      matchObject(t, await ask("POST", path, weekly({ ...old, recurrence: { ...berlin, rule } })), {
        status: 422,
        body: {
          error: { code: "MAINTENANCE_ENDED", details: { pointer: "/recurrence/rule" }, message: /ended at 20\d\d-/ },
        },
      });
  },
);
