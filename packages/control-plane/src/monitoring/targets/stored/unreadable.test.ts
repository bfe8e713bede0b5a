import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { checkKinds } from "@statusmesh/shared/checks";
import { createChannel, getChannel, listChannels, updateChannel } from "../../../alerting/channels/service.ts";
import { testChannel } from "../../../alerting/channels/sending/service.ts";
import type { Ctx } from "../../../platform/context.ts";
import { makeSealer } from "../../../platform/crypto/seal.ts";
import { openHub } from "../../../platform/db/notify.ts";
import { openIngest } from "../../pipeline/ingest.ts";
import { pipelineRoutes } from "../../pipeline/api.ts";
import { serve } from "../../../testing/app.ts";
import { newOrg, openWorld, refusal } from "../../../testing/world.ts";
import { targetRoutes } from "../api.ts";

/*
 * Secrets sealed under a key that is no longer configured: their resources are read, listed, edited and deleted like
 * all others; only actions that need the secret are refused.
 */

const { system, sql, log } = await openWorld(t);
const ctx = await newOrg(system);
const lost: Ctx = { ...ctx, sealer: makeSealer(Buffer.alloc(32, 9)) };
let caller = ctx;
const ask = await serve(
  t,
  system,
  [
    ...targetRoutes,
    ...pipelineRoutes(
      openHub(sql, log),
      openIngest(async () => {}),
      new AbortController().signal,
    ),
  ],
  { tenant: () => caller },
);

t.test("a target", async (t) => {
  caller = ctx;
  const check = {
    type: "http",
    url: "https://example.org/",
    basic_auth: ["user", "SECRET-1"],
    headers: { "X-Api-Key": "SECRET-2", Accept: "text/html" },
  };
  const path = `/api/v1/targets/${(await ask("POST", "/api/v1/targets", { name: "Shop", check })).body.id}`;
  caller = lost;

  const masked = {
    status: 200,
    body: { check: { basic_auth: ["user", "***"], headers: { "X-Api-Key": "***", Accept: "text/html" } } },
  };
  matchObject(t, await ask("GET", path), masked);
  matchObject(t, (await ask("GET", "/api/v1/targets")).body.items[0], masked.body);
  matchObject(
    t,
    await ask("PATCH", path, { name: "New", tags: ["a"], enabled: false }),
    { status: 200, body: { name: "New" } },
    "what does not touch the check",
  );

  const unreadable = (pointer: string) => ({
    status: 409,
    body: {
      error: {
        code: "SECRET_UNREADABLE",
        message: /key that is not configured.+Send it anew or set it to null/,
        details: { pointer },
      },
    },
  });
  matchObject(t, await ask("POST", `${path}/check-now`), unreadable("/check/headers/X-Api-Key"));
  for (const [change, pointer] of [
    [{ url: "https://example.org/other" }, "/check/headers/X-Api-Key"],
    [{ basic_auth: null }, "/check/headers/X-Api-Key"],
    [{ headers: {} }, "/check/basic_auth/1"],
    [{ headers: { "X-Api-Key": "NEW" } }, "/check/basic_auth/1"],
  ] as const)
    matchObject(t, await ask("PATCH", path, { check: change }), unreadable(pointer), JSON.stringify(change));
  matchObject(t, await ask("PATCH", path, { check: { basic_auth: ["user", "***"], headers: {} } }), {
    status: 400,
    body: { error: { code: "REDACTION_SENTINEL" } },
  });
  matchObject(t, await ask("PATCH", path, { check: { basic_auth: 5 } }), {
    status: 400,
    body: { error: { code: "INVALID_BODY", field: "/check/basic_auth" } },
  });
  matchObject(t, await ask("GET", path), masked, "a refused edit changes nothing");

  matchObject(
    t,
    await ask("PATCH", path, { check: { basic_auth: ["user", "NEW-1"], headers: { "X-Api-Key": "NEW-2" } } }),
    { status: 200 },
    "all of them anew",
  );
  matchObject(t, await ask("PATCH", path, { check: { timeout: 5000 } }), { status: 200 }, "and it is as good as ever");
  caller = ctx;
  matchObject(
    t,
    await ask("PATCH", path, { check: { basic_auth: null, headers: {} } }),
    { status: 200, body: { check: { basic_auth: null, headers: {} } } },
    "or removed",
  );
  matchObject(t, await ask("PATCH", path, { check: { timeout: 6000 } }), { status: 200 });

  const other = `/api/v1/targets/${(await ask("POST", "/api/v1/targets", { name: "Other", check })).body.id}`;
  caller = lost;
  matchObject(t, await ask("DELETE", other), { status: 204 });
  t.notMatch(JSON.stringify(await sql`select * from audit_log`), /SECRET|NEW-|closed:|sealed:/);
});

t.test("a secret copied from another row, or damaged, does not open", async (t) => {
  caller = ctx;
  const check = { type: "http", url: "https://example.org/", bearer_token: "SECRET" };
  const [one, two] = [
    (await ask("POST", "/api/v1/targets", { name: "One", check })).body.id,
    (await ask("POST", "/api/v1/targets", { name: "Two", check })).body.id,
  ];
  await sql`update targets set spec = (select spec from targets where id = ${one}) where id = ${two}`;
  matchObject(t, await ask("POST", `/api/v1/targets/${two}/check-now`), {
    status: 409,
    body: { error: { code: "SECRET_UNREADABLE", details: { pointer: "/check/bearer_token" } } },
  });
  matchObject(t, await ask("PATCH", `/api/v1/targets/${two}`, { check: { bearer_token: "NEW" } }), { status: 200 });
});

t.test("the fields of a check come in the order of its schema", async (t) => {
  caller = ctx;
  const { id, check } = (
    await ask("POST", "/api/v1/targets", {
      name: "Order",
      check: { timeout: 1000, url: "https://example.org/", type: "http" },
    })
  ).body;
  const order = Object.keys(checkKinds.http.schema.properties).slice(0, 7);
  t.strictSame(Object.keys(check).slice(0, 7), order);
  t.strictSame(
    Object.keys((await ask("GET", `/api/v1/targets/${id}`)).body.check).slice(0, 7),
    order,
    "also when it was stored",
  );
});

t.test("a channel", async (t) => {
  const config = {
    type: "webhook" as const,
    url: "https://hooks.example.org/SECRET",
    headers: { "x-token": "SECRET" },
    secret: "SECRET-of-sixteen",
  };
  const { id } = await createChannel(ctx, { name: "Duty", config });
  matchObject(t, await getChannel(lost, id), { config: { url: "***", headers: { "x-token": "***" }, secret: "***" } });
  t.equal((await listChannels(lost, { limit: 50, offset: 0 })).total, 1);
  matchObject(t, await refusal(t, () => testChannel(lost, id)), {
    code: "CHANNEL_TEST_FAILED",
    message: /sealed under a key that is not configured here/,
  });
  matchObject(t, await updateChannel(lost, id, { name: "Other" }), { name: "Other" });
  const sent: unknown[] = [];
  const transport = {
    send: async (request: unknown) => (sent.push(request), { status: 200, text: "", retryAfterSecs: null }),
  };
  await updateChannel(lost, id, { config: { ...config, url: "https://hooks.example.org/new" } });
  await testChannel(lost, id, transport);
  matchObject(
    t,
    sent,
    [{ url: "https://hooks.example.org/new" }],
    "a config is replaced whole, so every secret comes anew",
  );
});
