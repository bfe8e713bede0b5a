import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { TSchema } from "typebox";
import { newId } from "@statusmesh/shared/ids";
import { createOutbound } from "../../platform/outbound/client.ts";
import { fits, validate } from "@statusmesh/shared/schema/validate";
import { inTransaction } from "../../platform/context.ts";
import { channelRoutes } from "./api.ts";
import { Channel, ChannelCreate, ChannelPage, ChannelPatch } from "./schema.ts";
import {
  createChannel,
  deleteChannel,
  existingChannelIds,
  getChannel,
  listChannels,
  updateChannel,
} from "./service.ts";
import { testChannel, testConfig } from "./sending/service.ts";
import { noon } from "../../testing/clock.ts";
import { openIncident } from "../../testing/scene.ts";
import { startSink } from "../../testing/sink.ts";
import { allowPrivate, newOrg, openWorld, refusal } from "../../testing/world.ts";

const { sql, clock, log, system: guarded } = await openWorld(t);
const system = allowPrivate(guarded);

const webhook = (changes: object = {}) => ({ type: "webhook", url: "https://hooks.example.org/alerts", ...changes });
const input = (name: string, changes: object = {}) => validate(ChannelCreate, { name, config: webhook(changes) });

t.test("a channel is created, read, changed and deleted, and its secrets are never shown", async (t) => {
  const owner = await newOrg(system);
  const secrets = {
    url: "https://hooks.example.org/services/T0/SECRET-PATH",
    headers: { "X-Api-Key": "SECRET-HEADER" },
    secret: "SECRET-OF-SIGNING",
  };
  const made = await createChannel(owner, input("Ops", secrets));
  matchObject(t, made, {
    name: "Ops",
    enabled: true,
    disabled_reason: null,
    write_source: "api",
    created_at: new Date(noon).toISOString(),
  });
  t.strictSame(
    made.config,
    { type: "webhook", url: "***", headers: { "X-Api-Key": "***" }, secret: "***", template: null },
    "names of headers are kept, all values masked",
  );
  t.ok(fits(Channel, made));

  const [row] = await sql`select config::text as config from channels where id = ${made.id}`;
  t.notMatch(row?.["config"], /SECRET/, "sealed at rest");
  t.strictSame(await getChannel(owner, made.id), made);
  const page = await listChannels(owner, { limit: 50, offset: 0 });
  t.strictSame(page, { items: [made], total: 1, limit: 50, offset: 0 });
  t.ok(fits(ChannelPage, page));

  clock.advance(1000);
  const renamed = await updateChannel({ ...owner, writeSource: "terraform" }, made.id, {
    name: "Operations",
    enabled: false,
  });
  matchObject(t, renamed, {
    name: "Operations",
    enabled: false,
    write_source: "terraform",
    created_at: made.created_at,
    updated_at: new Date(noon + 1000).toISOString(),
  });

  await sql`update channels set disabled_reason = 'the address bounced' where id = ${made.id}`;
  t.equal((await updateChannel(owner, made.id, { name: "Ops" })).disabled_reason, "the address bounced");
  matchObject(t, await updateChannel(owner, made.id, { enabled: true }), { enabled: true, disabled_reason: null });

  await deleteChannel(owner, made.id);
  matchObject(t, await refusal(t, () => getChannel(owner, made.id)), { code: "CHANNEL_NOT_FOUND" });
  matchObject(t, await refusal(t, () => deleteChannel(owner, made.id)), { code: "CHANNEL_NOT_FOUND" });
  t.notMatch(JSON.stringify(log.lines), /SECRET/);
});

t.test("a PATCH without config keeps the stored secrets; one with config replaces it whole", async (t) => {
  const sink = await startSink(t);
  const transport = createOutbound({ allowPrivate: true, clock, ca: sink.ca });
  const owner = await newOrg(system);
  const { id } = await createChannel(
    owner,
    input("Hook", { url: `${sink.url}/first`, headers: { authorization: "Bearer abc" }, secret: "0123456789abcdef" }),
  );
  await updateChannel(owner, id, { name: "Renamed" });
  await testChannel(owner, id, transport);
  matchObject(t, sink.received.at(-1), {
    path: "/first",
    headers: { authorization: "Bearer abc", "x-service-signature": /^sha256=[0-9a-f]{64}$/ },
  });

  const second = { url: `${sink.url}/second` };
  matchObject(
    t,
    await refusal(t, () => updateChannel(owner, id, validate(ChannelPatch, { config: webhook(second) }))),
    { code: "CREDENTIALS_REQUIRED", field: "/config/secret", message: /null to remove/ },
    "a secret is not dropped in silence",
  );
  const config = webhook({ ...second, secret: null });
  matchObject(t, await updateChannel(owner, id, validate(ChannelPatch, { config })), { config: { secret: null } });
  await testChannel(owner, id, transport);
  t.equal(sink.received.at(-1)?.path, "/second");
  t.notOk(sink.received.at(-1)?.headers["authorization"]);
  t.notOk(sink.received.at(-1)?.headers["x-service-signature"], "without a secret nothing is signed");

  await updateChannel(owner, id, { enabled: false });
  await testChannel(owner, id, transport);
  t.equal(sink.received.length, 3, "a disabled channel can be tested");
});

t.test("addresses are stored in lower case; servers that take the requests of a vendor are accepted", async (t) => {
  const owner = await newOrg(system);
  const made = async (name: string, config: object) =>
    (await createChannel(owner, validate(ChannelCreate, { name, config }))).config;
  matchObject(t, await made("Mail", { type: "email", to: "OnCall@Example.ORG" }), { to: "oncall@example.org" });
  matchObject(t, await made("Open ntfy", { type: "ntfy", topic: "ops" }), { access_token: null });
  const discord = "https://canary.discord.com/api/webhooks/123456789012/abc";
  await made("Discord", { type: "discord", webhook_url: discord });
  await made("Chat", { type: "slack", webhook_url: "https://chat.example.org/hooks/1?format=slack" });
});

t.test("recipients are masked to their last 4 characters, and the masked ones are refused", async (t) => {
  const owner = await newOrg(system);
  const config = {
    type: "signal",
    url: "https://signal.example.org",
    number: "+4915112345678",
    recipients: ["+4915187654321", "+4915187650000"],
  };
  const { id, config: shown } = await createChannel(owner, validate(ChannelCreate, { name: "Signal", config }));
  matchObject(t, shown, { number: "+4915112345678", recipients: ["***4321", "***0000"] });
  matchObject(t, await refusal(t, () => updateChannel(owner, id, validate(ChannelPatch, { config: shown }))), {
    code: "REDACTION_SENTINEL",
    field: "/config/recipients/0",
  });
});

t.test("a masked secret is never sent to another address", async (t) => {
  const owner = await newOrg(guarded);
  const secrets = { headers: { "X-Api-Key": "SECRET-HEADER" }, secret: "SECRET-OF-SIGNING" };
  const { id } = await createChannel(owner, input("Hook", secrets));
  const edit = (changes: object) => updateChannel(owner, id, validate(ChannelPatch, { config: webhook(changes) }));
  const masked = { headers: { "X-Api-Key": "***" }, secret: "***", template: null };
  for (const url of ["https://attacker.example/", "https://hooks.example.org:8443/alerts"]) {
    matchObject(t, await refusal(t, () => edit({ ...masked, url })), {
      code: "CREDENTIALS_REQUIRED",
      field: "/config/headers/X-Api-Key",
    });
    matchObject(t, await refusal(t, () => edit({ ...secrets, url, secret: "***" })), {
      code: "CREDENTIALS_REQUIRED",
      field: "/config/secret",
    });
  }
  matchObject(
    t,
    await refusal(t, () => edit(masked)),
    { code: "REDACTION_SENTINEL" },
    "with the same address the mask is refused",
  );
  matchObject(t, await refusal(t, () => edit({ ...masked, url: "***" })), {
    code: "REDACTION_SENTINEL",
    field: "/config/url",
  });
  matchObject(t, await edit({ ...secrets, url: "https://other.example/" }), { config: { url: "***", secret: "***" } });
});

t.test("access needs a scope and a channel of the own organisation", async (t) => {
  const owner = await newOrg(system);
  const outsider = await newOrg(system);
  const { id } = await createChannel(owner, input("Ops"));
  const foreign = [
    () => getChannel(outsider, id),
    () => updateChannel(outsider, id, { name: "x" }),
    () => deleteChannel(outsider, id),
    () => testChannel(outsider, id),
  ];
  const absent = [
    () => getChannel(owner, newId()),
    () => updateChannel(owner, newId(), {}),
    () => deleteChannel(owner, newId()),
    () => testChannel(owner, newId()),
  ];
  const noId = [
    () => getChannel(owner, "x' or 1=1"),
    () => updateChannel(owner, "", {}),
    () => deleteChannel(owner, id.toUpperCase()),
    () => testChannel(owner, "12"),
  ];
  for (const work of [...foreign, ...absent, ...noId])
    matchObject(t, await refusal(t, work), {
      code: "CHANNEL_NOT_FOUND",
      message: "Channel not found.",
      field: null,
    });
  t.equal((await listChannels(outsider, { limit: 50, offset: 0 })).total, 0);

  const reader = { ...owner, scopes: new Set(["channels:read"]) };
  const writes = [
    () => createChannel(reader, input("New")),
    () => updateChannel(reader, id, {}),
    () => deleteChannel(reader, id),
    () => testChannel(reader, id),
    () => testConfig(reader, { config: input("New").config }),
  ];
  const nobody = { ...owner, scopes: new Set(["targets:read"]) };
  const reads = [() => getChannel(nobody, id), () => listChannels(nobody, { limit: 50, offset: 0 })];
  for (const work of [...writes, ...reads]) matchObject(t, await refusal(t, work), { code: "INSUFFICIENT_SCOPE" });
  t.equal((await getChannel(reader, id)).id, id);
});

t.test("names are 1 to 100 characters and unique in the organisation, also with eight parallel creates", async (t) => {
  const owner = await newOrg(system);
  for (const name of ["", " \t ", "x".repeat(101)])
    matchObject(t, await refusal(t, async () => createChannel(owner, input(name))), {
      code: "CHANNEL_NAME_INVALID",
      field: "/name",
    });
  for (const body of [{ config: webhook() }, { name: 7, config: webhook() }])
    matchObject(t, await refusal(t, async () => validate(ChannelCreate, body)), {
      code: "CHANNEL_NAME_INVALID",
      field: "/name",
    });
  await createChannel(owner, input("🔔".repeat(100)));

  const race = await Promise.allSettled(Array.from({ length: 8 }, () => createChannel(owner, input("Ops"))));
  t.equal(race.filter(({ status }) => status === "fulfilled").length, 1);
  for (const one of race)
    if (one.status === "rejected") matchObject(t, one.reason, { code: "CHANNEL_NAME_TAKEN", status: 422 });

  const other = await createChannel(owner, input("Other"));
  matchObject(t, await refusal(t, () => updateChannel(owner, other.id, { name: "Ops" })), {
    code: "CHANNEL_NAME_TAKEN",
  });
  matchObject(t, await refusal(t, async () => validate(ChannelPatch, { name: "" })), { code: "CHANNEL_NAME_INVALID" });
  t.equal((await updateChannel(owner, other.id, { name: "Other" })).name, "Other", "its own name is not taken");
  await createChannel(await newOrg(system), input("Ops"));
});

t.test("parallel creates stay within the plan's limit", async (t) => {
  const owner = await newOrg(system);
  await sql`update orgs set plan_id = 'free' where id = ${owner.orgId}`;
  for (let made = 0; made < 19; made++) await createChannel(owner, input(`channel ${made}`));
  const race = await Promise.allSettled(
    Array.from({ length: 6 }, (_, at) => createChannel(owner, input(`one more ${at}`))),
  );
  t.equal(race.filter(({ status }) => status === "fulfilled").length, 1);
  const details = { quota: "max_notification_channels", current: 20, limit: 20, plan: "free" };
  for (const one of race)
    if (one.status === "rejected") matchObject(t, one.reason, { code: "CHANNEL_QUOTA_EXCEEDED", status: 422, details });
  t.equal((await listChannels(owner, { limit: 50, offset: 0 })).total, 20);
});

t.test("an invalid config is refused with a pointer to its field", async (t) => {
  const owner = await newOrg(guarded);
  const cases: [object, string, string][] = [
    [{ type: "carrier_pigeon" }, "INVALID_CHANNEL_CONFIG", "/config/type"],
    [{ type: "webhook" }, "INVALID_CHANNEL_CONFIG", "/config/url"],
    [webhook({ url: "http://hooks.example.org/" }), "INVALID_CHANNEL_CONFIG", "/config/url"],
    [webhook({ url: "hooks.example.org" }), "INVALID_CHANNEL_CONFIG", "/config/url"],
    [webhook({ url: "https:///hooks.example.org" }), "INVALID_CHANNEL_CONFIG", "/config/url"],
    [webhook({ url: "https:\\\\hooks.example.org" }), "INVALID_CHANNEL_CONFIG", "/config/url"],
    [webhook({ url: " https://hooks.example.org/" }), "INVALID_CHANNEL_CONFIG", "/config/url"],
    [webhook({ url: "https://hooks.example.org/a\n" }), "INVALID_CHANNEL_CONFIG", "/config/url"],
    [webhook({ url: "https://user:pw@hooks.example.org/" }), "INVALID_CHANNEL_CONFIG", "/config/url"],
    [webhook({ url: "https://hooks.example.org:0/" }), "INVALID_CHANNEL_CONFIG", "/config/url"],
    [webhook({ url: 7, headers: {}, secret: null }), "INVALID_CHANNEL_CONFIG", "/config/url"],
    [webhook({ secret: "fifteen-letters" }), "INVALID_CHANNEL_CONFIG", "/config/secret"],
    [webhook({ headers: { "X Y": "1" } }), "INVALID_CHANNEL_CONFIG", "/config/headers/X Y"],
    [webhook({ headers: { "a/b": "1" } }), "INVALID_CHANNEL_CONFIG", "/config/headers/a~1b"],
    [webhook({ headers: { "X-Y": "1\r\nX-Z: 2" } }), "INVALID_CHANNEL_CONFIG", "/config/headers/X-Y"],
    [webhook({ headers: { "x-y": "1", "X-Y": "2" } }), "INVALID_CHANNEL_CONFIG", "/config/headers/X-Y"],
    [
      webhook({ headers: { "Transfer-Encoding": "chunked" } }),
      "INVALID_CHANNEL_CONFIG",
      "/config/headers/Transfer-Encoding",
    ],
    [
      webhook({ headers: { "X-Service-Signature": "forged" } }),
      "INVALID_CHANNEL_CONFIG",
      "/config/headers/X-Service-Signature",
    ],
    [webhook({ urll: "x" }), "UNKNOWN_FIELD", "/config/urll"],
    [webhook({ url: "***" }), "REDACTION_SENTINEL", "/config/url"],
    [webhook({ secret: "***" }), "REDACTION_SENTINEL", "/config/secret"],
    [webhook({ headers: { "X-Api-Key": "***" } }), "REDACTION_SENTINEL", "/config/headers/X-Api-Key"],
  ];
  const { id } = await createChannel(owner, input("Kept"));
  for (const [config, code, field] of cases) {
    const what = JSON.stringify(config);
    matchObject(
      t,
      await refusal(t, async () => createChannel(owner, validate(ChannelCreate, { name: "New", config }))),
      { code, field },
      what,
    );
    matchObject(
      t,
      await refusal(t, async () => updateChannel(owner, id, validate(ChannelPatch, { config }))),
      { code, field },
      what,
    );
    matchObject(
      t,
      await refusal(t, async () => testConfig(owner, validate(ChannelCreate, { name: "New", config }))),
      { code, field },
      what,
    );
  }
  const blocked: [string, string][] = [
    ["https://127.0.0.1/", "127.0.0.0/8"],
    ["https://2130706433/", "127.0.0.0/8"],
    ["https://10.1.2.3:8443/x", "10.0.0.0/8"],
    ["https://169.254.169.254/latest", "169.254.0.0/16"],
    ["https://[::1]/", "::1/128"],
    ["https://[::ffff:127.0.0.1]/", "::ffff:0:0/96"],
    ["https://localhost/", "localhost"],
  ];
  for (const [url, range] of blocked) {
    for (const work of [
      () => createChannel(owner, input("New", { url })),
      () => updateChannel(owner, id, { config: input("x", { url }).config }),
      () => testConfig(owner, input("x", { url })),
    ]) {
      matchObject(t, await refusal(t, work), { code: "SSRF_BLOCKED", field: "/config/url", details: { range } }, url);
    }
  }
  t.equal((await listChannels(owner, { limit: 50, offset: 0 })).total, 1);
});

t.test("deleting a channel deletes its bindings, and only own channels can be bound", async (t) => {
  const owner = await newOrg(system);
  const outsider = await newOrg(system);
  const { id } = await createChannel(owner, input("Ops"));
  const foreign = await createChannel(outsider, input("Ops"));
  t.strictSame(await existingChannelIds(owner, owner.orgId, [id, id, foreign.id, newId(), "no id"]), new Set([id]));
  t.strictSame(await existingChannelIds(owner, owner.orgId, ["no id"]), new Set());

  // The transaction that writes a binding locks the channel against deletion.
  let deleting: Promise<void> | undefined;
  await inTransaction(owner, async (tx) => {
    await existingChannelIds(tx, tx.orgId, [id]);
    deleting = deleteChannel(owner, id);
    await openIncident(tx, [id]);
  });
  await deleting;
  t.strictSame([...(await sql`select 1 from target_alerts where channel_id = ${id}`)], []);
});

t.test("every route declares its scope and rate budget", async (t) => {
  t.strictSame(
    channelRoutes.map(
      ({ method, path, scope, category }) =>
        `${method} ${path.replace("/api/v1/notification-channels", "")} ${scope} ${category}`,
    ),
    [
      "GET /devices/key channels:read api_reads",
      "POST /devices org:write api_writes",
      "GET /devices channels:read api_reads",
      "DELETE /devices/{id} org:write api_writes",
      "POST /devices/{id}/test org:write test_now",
      "POST  channels:write api_writes",
      "GET  channels:read api_reads",
      "POST /test channels:write test_now",
      "GET /{id} channels:read api_reads",
      "PATCH /{id} channels:write api_writes",
      "DELETE /{id} channels:write api_writes",
      "POST /{id}/test channels:write test_now",
      "POST /{id}/resend-verification channels:write api_writes",
    ],
  );
  const owner = await newOrg(system);
  const post = channelRoutes.find(({ method, path }) => `${method} ${path}` === "POST /api/v1/notification-channels")!;
  const reply = await post.handle({
    ctx: owner,
    params: {},
    query: {},
    body: validate(post.body as TSchema, { name: "A", config: webhook(), write_source: "ui" }),
    http: {} as never,
  });
  matchObject(t, reply, {
    status: 201,
    headers: { Location: `/api/v1/notification-channels/${(reply.body as Channel).id}` },
    body: { write_source: "api" },
  });
});
