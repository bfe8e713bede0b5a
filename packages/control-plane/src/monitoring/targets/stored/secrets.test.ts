import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { Ctx } from "../../../platform/context.ts";
import { makeSealer } from "../../../platform/crypto/seal.ts";
import { validate } from "@statusmesh/shared/schema/validate";
import { newOrg, openWorld, refusal } from "../../../testing/world.ts";
import { TargetCreate, TargetPatch } from "../schema.ts";
import { createTarget, updateTarget } from "../write/service.ts";
import { getMonitor, listMonitors } from "../list/service.ts";
import { getTarget, listTargets, targetToRun } from "../service.ts";

/*
 * The secrets of a check: at rest, in replies, and when an edit would send them to another server.
 */

const { sql, system } = await openWorld(t);

const httpCheck = (changes: object = {}) => ({ type: "http", url: "https://example.org/health", ...changes });
const create = (ctx: Ctx, changes: object = {}) =>
  createTarget(ctx, validate(TargetCreate, { name: "Website", check: httpCheck(), ...changes }));
const patch = (ctx: Ctx, id: string, changes: object) => updateTarget(ctx, id, validate(TargetPatch, changes));
const page = { limit: 50, offset: 0 };
const specOf = async (id: string) =>
  (await sql<{ spec: string }[]>`select spec::text as spec from targets where id = ${id}`)[0]!.spec;

t.test("secrets are sealed at rest, masked in every reply, and opened for a run", async (t) => {
  const ctx = await newOrg(system);
  const secrets = {
    headers: { Accept: "text/html", Authorization: "SECRET-1", "X-Api-Key": "SECRET-2" },
    basic_auth: null,
  };
  const made = await create(ctx, { name: "Sealed", check: httpCheck({ ...secrets }) });
  const withToken = await create(ctx, { check: httpCheck({ bearer_token: "SECRET-3" }) });
  const withUser = await create(ctx, { check: httpCheck({ basic_auth: ["me", "SECRET-4"] }) });
  matchObject(t, made.check, { headers: { Accept: "text/html", Authorization: "***", "X-Api-Key": "***" } });
  matchObject(t, [withToken.check, withUser.check], [{ bearer_token: "***" }, { basic_auth: ["me", "***"] }]);
  const replies = [
    made,
    withToken,
    withUser,
    await listTargets(ctx, page),
    await listMonitors(ctx, page),
    await getMonitor(ctx, made.id),
    await getTarget(ctx, withUser.id),
    await patch(ctx, made.id, { name: "Renamed" }),
  ];
  t.notMatch(JSON.stringify(replies), /SECRET|sealed:/);
  for (const { id } of [made, withToken, withUser]) {
    const stored = await specOf(id);
    t.match(stored, /sealed:1:/);
    t.notMatch(stored, /SECRET/);
  }
  matchObject(t, (await targetToRun(ctx, made.id)).spec, secrets);
  matchObject(t, (await targetToRun(ctx, withUser.id)).spec, { basic_auth: ["me", "SECRET-4"] });

  const other = { ...ctx, sealer: makeSealer(Buffer.alloc(32, 8)) };
  await t.rejects(
    targetToRun(other, made.id),
    { code: "SECRET_UNREADABLE", field: "/check/headers/X-Api-Key" },
    "another key says what is the matter",
  );
  await sql`update targets set spec = (select spec from targets where id = ${withToken.id}) where id = ${withUser.id}`;
  await t.rejects(targetToRun(ctx, withUser.id), "a secret of another row does not open here");
  t.equal(
    (await patch(other, made.id, { enabled: false })).enabled,
    false,
    "what has nothing to do with the secrets works without the key",
  );
});

t.test("every header value is a secret, except those of headers that never authenticate", async (t) => {
  const ctx = await newOrg(system);
  const vendors = ["X-Auth-Key", "Ocp-Apim-Subscription-Key", "X-Shop", "Host", "x~0y", "Cookie"];
  const harmless = [
    "Accept",
    "accept-charset",
    "ACCEPT-ENCODING",
    "Accept-Language",
    "Cache-Control",
    "Content-Type",
    "Origin",
    "Pragma",
    "Referer",
    "User-Agent",
    "X-Requested-With",
  ];
  const headers = Object.fromEntries([...vendors, ...harmless].map((name) => [name, `SECRET of ${name}`]));
  const { id, check } = await create(ctx, { check: httpCheck({ headers }) });
  const read = (check as { headers: Record<string, string> }).headers;
  for (const name of vendors) t.equal(read[name], "***", name);
  for (const name of harmless) t.equal(read[name], `SECRET of ${name}`, name);
  for (const name of vendors) t.notMatch(await specOf(id), `SECRET of ${name}`, `${name} is sealed`);
  matchObject(t, (await targetToRun(ctx, id)).spec, { headers }, "the agent sends what was entered");
  matchObject(t, await refusal(t, () => patch(ctx, id, { check: { headers: { ...headers, "x~0y": "***" } } })), {
    code: "REDACTION_SENTINEL",
    field: "/check/headers/x~00y",
  });
});

t.test("an edit that leads to another server must bring every stored secret", async (t) => {
  const ctx = await newOrg(system);
  const secrets = { bearer_token: "SECRET-1", headers: { Accept: "text/html", "X-Auth-Key": "SECRET-2" } };
  const make = async (changes: object = {}) => (await create(ctx, { check: httpCheck({ ...secrets, ...changes }) })).id;
  const id = await make();
  const key = { "X-Auth-Key": "SECRET-3" };
  const required = (field: string) => ({ code: "CREDENTIALS_REQUIRED", field });

  for (const [what, check, field] of [
    ["another host", { url: "https://attacker.example/health" }, "/check/headers/X-Auth-Key"],
    ["a host below it", { url: "https://a.example.org/health" }, "/check/headers/X-Auth-Key"],
    ["another scheme", { url: "http://example.org:443/" }, "/check/headers/X-Auth-Key"],
    ["another port", { url: "https://example.org:8443/health" }, "/check/headers/X-Auth-Key"],
    ["only the headers again", { url: "https://b.example/", headers: key }, "/check/bearer_token"],
    ["only the token again", { url: "https://b.example/", bearer_token: "t" }, "/check/headers/X-Auth-Key"],
    [
      "the mask is no secret",
      { url: "https://b.example/", headers: { "X-Auth-Key": "***" }, bearer_token: "t" },
      "/check/headers/X-Auth-Key",
    ],
    ["the mask as a token", { url: "https://b.example/", headers: {}, bearer_token: "***" }, "/check/bearer_token"],
    ["another virtual host", { headers: { Host: "attacker.example" } }, "/check/bearer_token"],
  ] as const) {
    matchObject(t, await refusal(t, () => patch(ctx, id, { check })), required(field), what);
  }
  matchObject(
    t,
    await refusal(t, () => patch(ctx, id, { check: { verify_tls: false } })),
    { code: "INVALID_TLS_CRED_COMBO" },
    "what can never be comes before what is missing",
  );
  matchObject(
    t,
    (await targetToRun(ctx, id)).spec,
    { url: "https://example.org/health", ...secrets },
    "nothing has changed",
  );

  for (const url of ["https://EXAMPLE.org:443/other?x=1", "https://example.org./", "https://example.org/health"])
    matchObject(t, (await patch(ctx, id, { check: { url } })).check, { url }, `the same server: ${url}`);
  await patch(ctx, id, { check: { url: "https://b.example/", headers: key, bearer_token: "SECRET-4" } });
  matchObject(t, (await targetToRun(ctx, id)).spec, {
    url: "https://b.example/",
    headers: key,
    bearer_token: "SECRET-4",
  });
  await patch(ctx, id, { check: { url: "https://c.example/", headers: {}, bearer_token: null } });
  matchObject(t, (await targetToRun(ctx, id)).spec, { url: "https://c.example/", headers: {}, bearer_token: null });
  matchObject(t, (await patch(ctx, id, { check: { url: "http://d.example/" } })).check, { url: "http://d.example/" });

  const basic = await make({ bearer_token: null, headers: {}, basic_auth: ["me", "SECRET-5"] });
  const moved = { url: "https://b.example/" };
  matchObject(t, await refusal(t, () => patch(ctx, basic, { check: moved })), required("/check/basic_auth/1"));
  matchObject(
    t,
    await refusal(t, () => patch(ctx, basic, { check: { ...moved, basic_auth: ["me", "***"] } })),
    required("/check/basic_auth/1"),
  );
  await patch(ctx, basic, { check: { ...moved, basic_auth: null } });

  const keyed = await make({ bearer_token: null });
  matchObject(
    t,
    await refusal(t, () => patch(ctx, keyed, { check: { verify_tls: false } })),
    required("/check/headers/X-Auth-Key"),
    "a key in a header needs a server that proves who it is, or is entered for one that does not",
  );
  await patch(ctx, keyed, { check: { verify_tls: false, headers: key } });
  await patch(ctx, keyed, { check: { verify_tls: true } });
  matchObject(t, (await targetToRun(ctx, keyed)).spec, { verify_tls: true, headers: key });

  const lost = { ...ctx, sealer: makeSealer(Buffer.alloc(32, 9)) };
  matchObject(t, await refusal(t, () => patch(lost, keyed, { check: moved })), required("/check/headers/X-Auth-Key"));
});
