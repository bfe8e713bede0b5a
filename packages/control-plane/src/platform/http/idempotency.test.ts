import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import Type from "typebox";
import { AppError } from "@statusmesh/shared/errors";
import { newId } from "@statusmesh/shared/ids";
import type { Ctx, System } from "../context.ts";
import { serve } from "../../testing/app.ts";
import { fakeClock, hour } from "../../testing/clock.ts";
import { keptLog } from "../../testing/world.ts";
import { created, type Reply, route } from "./route.ts";

const clock = fakeClock();
// These routes need no database and a single setting.
const system = { clock, log: keptLog(), config: { server: { trusted_proxies: [] } } } as unknown as System;
const ctxOf = (orgId: string, scope = "targets:write") =>
  ({ ...system, orgId, scopes: new Set([scope]) }) as unknown as Ctx;
const org = newId();

let caller = ctxOf(org);
let calls = 0;
let work: () => Promise<Reply> = async () => created("/here", { call: calls });
const declared = (path: string) =>
  route("POST", path, {
    auth: "tenant",
    scope: "targets:write",
    tag: "Test",
    summary: "Counts its calls",
    idempotent: true,
    body: Type.Object({ of: Type.Integer({ default: 1 }) }),
    replies: { 201: Type.Object({}) },
    errors: ["QUOTA_EXCEEDED"],
    handle: async () => {
      calls++;
      return await work();
    },
  });
const ask = await serve(t, system, [declared("/api/v1/one"), declared("/api/v1/two")], { tenant: () => caller });
const send = (key: string | null, body: object = { of: 1 }, path = "/api/v1/one") =>
  ask("POST", path, body, key === null ? {} : { "Idempotency-Key": key });

t.beforeEach(() => {
  calls = 0;
  caller = ctxOf(org);
  work = async () => created("/here", { call: calls });
});

t.test("the first reply is replayed with its headers", async (t) => {
  const first = await send("a");
  const again = await send("a");
  t.strictSame(
    [first.status, first.body, first.headers.get("location"), first.headers.get("idempotent-replayed")],
    [201, { call: 1 }, "/here", null],
  );
  t.strictSame(
    [again.status, again.text, again.headers.get("location"), again.headers.get("idempotent-replayed")],
    [201, first.text, "/here", "true"],
  );
  t.equal(again.headers.get("cache-control"), "no-store");
  t.equal(again.headers.get("content-type"), "application/json; charset=utf-8");
  t.equal(calls, 1);
});

t.test("another key, body, route or organisation is another request, and so is a missing key", async (t) => {
  await send("b");
  for (const [key, body, path] of [
    ["c", { of: 1 }],
    ["b", { of: 2 }],
    ["b", {}],
    ["b", { of: 1 }, "/api/v1/two"],
    [null],
    [null],
    [""],
    [""],
  ] as [string | null, object?, string?][])
    await send(key, body, path);
  t.equal(calls, 9);
  caller = ctxOf(newId());
  await send("b");
  t.equal(calls, 10);
});

t.test("duplicates wait while the first request is in flight", async (t) => {
  let finish = (_reply: Reply) => {};
  work = () => new Promise((resolve) => (finish = resolve));
  const answers = Array.from({ length: 5 }, () => send("d"));
  while (calls === 0) await new Promise((resolve) => setImmediate(resolve));
  finish(created("/here", { done: true }));
  t.ok((await Promise.all(answers)).every(({ body }) => body.done === true));
  t.equal(calls, 1);
});

t.test("a refusal reaches all waiting duplicates and is not stored", async (t) => {
  work = async () => {
    throw new AppError("QUOTA_EXCEEDED", "There is no room.");
  };
  matchObject(t, await send("e"), { status: 422, body: { error: { code: "QUOTA_EXCEEDED" } } });
  work = async () => created("/here", {});
  t.equal((await send("e")).status, 201);
  t.equal(calls, 2);
});

t.test("replies are stored for 24 hours", async (t) => {
  await send("f");
  clock.advance(24 * hour - 1);
  await send("f");
  t.equal(calls, 1);
  clock.advance(1);
  await send("f");
  t.equal(calls, 2);
});

t.test("an unauthorised caller gets no stored reply", async (t) => {
  await send("g");
  caller = ctxOf(org, "targets:read");
  matchObject(t, await send("g"), { status: 403, body: { error: { code: "INSUFFICIENT_SCOPE" } } });
});

t.test("the memory is bounded: the oldest replies are evicted", async (t) => {
  const mebibyte = "x".repeat(1_048_576);
  work = async () => created("/here", { mebibyte });
  for (let at = 0; at < 70; at++) await send(`large ${at}`);
  t.equal(calls, 70);
  await send("large 69");
  t.equal(calls, 70, "still stored");
  await send("large 0");
  t.equal(calls, 71, "gone");
});
