import t from "tap";
import { newId } from "@statusmesh/shared/ids";
import type { Ctx } from "../context.ts";
import { serve } from "../testing/app.ts";
import { day, hour, minute, noon } from "../testing/clock.ts";
import { newTarget } from "../testing/scene.ts";
import { newOrg, openWorld } from "../testing/world.ts";
import { maintenanceRoutes } from "./api.ts";
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

t.test("a window is planned, changed, runs, ends early and is final", async (t) => {
  const made = await ask("POST", path, input({ description: "The shop is read-only.", write_source: "terraform" }));
  t.match(made, {
    status: 201,
    body: { ...input(), description: "The shop is read-only.", state: "upcoming", write_source: "api" },
  });
  const own = `${path}/${made.body.id}`;
  t.equal(made.headers.get("location"), own);
  t.strictSame((await ask("GET", own)).body, made.body);
  t.match((await ask("PATCH", own, { description: null, component_ids: [api, web] })).body, {
    description: null,
    component_ids: [api, web],
  });

  clock.at = noon + 90 * minute;
  t.match((await ask("GET", own)).body, { state: "active" });
  const refused = async (patch: object, code: string, field: string) =>
    t.match(await ask("PATCH", own, patch), { status: 400, body: { error: { code, field } } });
  await refused({ starts_at: at(0) }, "INVALID_TIME_RANGE", "/starts_at");
  await refused({ component_ids: [web] }, "INVALID_COMPONENT_ID", "/component_ids");
  t.equal((await ask("PATCH", own, { title: "Longer", starts_at: at(hour), ends_at: at(3 * hour) })).status, 200);
  t.match((await ask("PATCH", own, { ends_at: at(80 * minute) })).body, { state: "past", ends_at: at(90 * minute) });
  t.match(await ask("PATCH", own, { title: "Again" }), {
    status: 422,
    body: { error: { code: "MAINTENANCE_COMPLETED" } },
  });
  t.equal((await ask("DELETE", own)).status, 204);
  t.match(await ask("GET", own), { status: 404, body: { error: { code: "MAINTENANCE_NOT_FOUND" } } });
});

t.test("wrong input is refused with its place", async (t) => {
  const refused = async (more: object, code: string, field: string) =>
    t.match(await ask("POST", path, input(more)), { status: 400, body: { error: { code, field } } });
  await refused({ title: " " }, "EMPTY_TITLE", "/title");
  await refused({ title: "x".repeat(201) }, "TITLE_TOO_LONG", "/title");
  await refused({ description: "x".repeat(5001) }, "DESCRIPTION_TOO_LONG", "/description");
  await refused({ ends_at: at(hour) }, "INVALID_TIME_RANGE", "/ends_at");
  await refused({ ends_at: at(hour + 30 * day + 1) }, "INVALID_DURATION", "/ends_at");
  await refused({ component_ids: [web, newId()] }, "INVALID_COMPONENT_ID", "/component_ids/1");
  await refused({ component_ids: [foreign] }, "INVALID_COMPONENT_ID", "/component_ids/0");
  await refused({ component_ids: [web, web] }, "INVALID_COMPONENT_ID", "/component_ids/1");
  t.match(await ask("POST", path, input({ starts_at: "tomorrow" })), { status: 400 });
  t.equal((await ask("POST", path, input({ ends_at: at(hour + 30 * day), component_ids: [] }))).status, 201);
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
  t.match(await ask("GET", `${path}?status=running`), { status: 400, body: { error: { field: "/query/status" } } });
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
