import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import t from "tap";
import type { TSchema } from "typebox";
import { newId } from "@statusmesh/shared/ids";
import { createOutbound, OutboundError, retryAfter, userAgent } from "../outbound/client.ts";
import { fits, validate } from "@statusmesh/shared/validate";
import { type Ctx, inTransaction } from "../context.ts";
import { trustedAuthorities } from "../outbound/authorities.ts";
import { channelRoutes } from "./api.ts";
import { isPermanent } from "./kinds/kind.ts";
import { signature } from "./kinds/webhook.ts";
import { Channel, ChannelCreate, ChannelPage, ChannelPatch } from "./schema.ts";
import {
  createChannel,
  deleteChannel,
  existingChannelIds,
  getChannel,
  listChannels,
  testChannel,
  testConfig,
  updateChannel,
} from "./service.ts";
import { noon } from "../testing/clock.ts";
import { openIncident } from "../testing/scene.ts";
import { startSink } from "../testing/sink.ts";
import { allowPrivate, newOrg, openWorld, refusal } from "../testing/world.ts";

const { sql, clock, log, system: guarded } = await openWorld(t);
const system = allowPrivate(guarded);

const webhook = (changes: object = {}) => ({ type: "webhook", url: "https://hooks.example.org/alerts", ...changes });
const input = (name: string, changes: object = {}) => validate(ChannelCreate, { name, config: webhook(changes) });

t.test("a channel is created, read, changed and deleted, and its secrets are never told", async (t) => {
  const owner = await newOrg(system);
  const secrets = {
    url: "https://hooks.example.org/services/T0/SECRET-PATH",
    headers: { "X-Api-Key": "SECRET-HEADER" },
    secret: "SECRET-OF-SIGNING",
  };
  const made = await createChannel(owner, input("Ops", secrets));
  t.match(made, {
    name: "Ops",
    enabled: true,
    disabled_reason: null,
    write_source: "api",
    created_at: new Date(noon).toISOString(),
  });
  t.strictSame(
    made.config,
    { type: "webhook", url: "***", headers: { "X-Api-Key": "***" }, secret: "***" },
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
  t.match(renamed, {
    name: "Operations",
    enabled: false,
    write_source: "terraform",
    created_at: made.created_at,
    updated_at: new Date(noon + 1000).toISOString(),
  });

  await sql`update channels set disabled_reason = 'the address bounced' where id = ${made.id}`;
  t.equal((await updateChannel(owner, made.id, { name: "Ops" })).disabled_reason, "the address bounced");
  t.match(await updateChannel(owner, made.id, { enabled: true }), { enabled: true, disabled_reason: null });

  await deleteChannel(owner, made.id);
  t.match(await refusal(t, () => getChannel(owner, made.id)), { code: "CHANNEL_NOT_FOUND" });
  t.match(await refusal(t, () => deleteChannel(owner, made.id)), { code: "CHANNEL_NOT_FOUND" });
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
  t.match(sink.received.at(-1), {
    path: "/first",
    headers: { authorization: "Bearer abc", "x-service-signature": /^sha256=[0-9a-f]{64}$/ },
  });

  await updateChannel(owner, id, validate(ChannelPatch, { config: webhook({ url: `${sink.url}/second` }) }));
  await testChannel(owner, id, transport);
  t.equal(sink.received.at(-1)?.path, "/second");
  t.notOk(sink.received.at(-1)?.headers["authorization"]);
  t.notOk(sink.received.at(-1)?.headers["x-service-signature"], "without a secret nothing is signed");

  await updateChannel(owner, id, { enabled: false });
  await testChannel(owner, id, transport);
  t.equal(sink.received.length, 3, "a disabled channel can be tested");
});

t.test("a masked secret is never sent to another address", async (t) => {
  const owner = await newOrg(guarded);
  const secrets = { headers: { "X-Api-Key": "SECRET-HEADER" }, secret: "SECRET-OF-SIGNING" };
  const { id } = await createChannel(owner, input("Hook", secrets));
  const edit = (changes: object) => updateChannel(owner, id, validate(ChannelPatch, { config: webhook(changes) }));
  const masked = { headers: { "X-Api-Key": "***" }, secret: "***" };
  for (const url of ["https://attacker.example/", "https://hooks.example.org:8443/alerts"]) {
    t.match(await refusal(t, () => edit({ ...masked, url })), {
      code: "CREDENTIALS_REQUIRED",
      field: "/config/headers/X-Api-Key",
    });
    t.match(await refusal(t, () => edit({ ...secrets, url, secret: "***" })), {
      code: "CREDENTIALS_REQUIRED",
      field: "/config/secret",
    });
  }
  t.match(await refusal(t, () => edit(masked)), { code: "REDACTION_SENTINEL" }, "at the same address it is the mask");
  t.match(await refusal(t, () => edit({ ...masked, url: "***" })), {
    code: "REDACTION_SENTINEL",
    field: "/config/url",
  });
  t.match(await edit({ ...secrets, url: "https://other.example/" }), { config: { url: "***", secret: "***" } });
});

t.test("http addresses and authorities of one's own, where the instance allows them", async (t) => {
  const sink = await startSink(t);
  const received: string[] = [];
  const plain = createServer((request, reply) => {
    received.push(request.url ?? "");
    reply.end("ok");
  }).listen(0, "127.0.0.1");
  await once(plain, "listening");
  t.teardown(() => plain.close());
  const http = webhook({ url: `http://127.0.0.1:${(plain.address() as AddressInfo).port}/hook` });
  const files = t.testdir({
    "ca.pem": `Our CA\n${sink.ca}`,
    "empty.pem": "none",
    "bad.pem": sink.ca.replace("MII", "AAA"),
  });
  const ctx = await newOrg(system);
  const by = (changes: object, privateTargets = true) => ({
    ...ctx,
    config: {
      ...ctx.config,
      security: { ...ctx.config.security, allow_private_targets: privateTargets },
      channels: { ...ctx.config.channels, ...changes },
    },
  });
  const make = (who: Ctx) => createChannel(who, validate(ChannelCreate, { name: newId(), config: http }));

  const refused = { code: "INVALID_CHANNEL_CONFIG", field: "/config/url" };
  t.match(await refusal(t, () => make(by({}))), refused, "https is the rule");
  t.match(await refusal(t, () => make(by({ allow_http: true }, false))), refused, "http is for private networks only");
  const { id } = await make(by({ allow_http: true }));
  await testChannel(by({ allow_http: true }), id);
  t.strictSame(received, ["/hook"]);
  t.match(await refusal(t, () => testChannel(by({}), id)), {
    code: "CHANNEL_TEST_FAILED",
    message: /the URL is not https, and this instance does not allow http \(channels\.allow_http\)/,
  });
  const moved = { config: { ...http, url: http.url.replace("http:", "https:"), secret: "***" } };
  t.match(
    await refusal(t, () => updateChannel(by({ allow_http: true }), id, validate(ChannelPatch, moved))),
    { code: "CREDENTIALS_REQUIRED" },
    "another scheme is another server",
  );

  const own = await createChannel(ctx, input("own", { url: `${sink.url}/own` }));
  t.match(await refusal(t, () => testChannel(ctx, own.id)), { code: "CHANNEL_TEST_FAILED" }, "an unknown authority");
  await testChannel({ ...ctx, authorities: trustedAuthorities(join(files, "ca.pem")) }, own.id);
  t.equal(sink.received.at(-1)?.path, "/own");
  for (const [name, reason] of [
    ["nowhere.pem", /it cannot be read \(ENOENT\)$/],
    ["empty.pem", /it has no certificate in PEM form/],
    ["bad.pem", /certificate 1 in it is damaged$/],
  ] as const)
    t.throws(() => trustedAuthorities(join(files, name)), { name: "StartupError", message: reason }, name);
  t.equal(trustedAuthorities(""), null);
});

t.test("who may do what, and on whose channels", async (t) => {
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
    t.match(await refusal(t, work), {
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
  for (const work of [...writes, ...reads]) t.match(await refusal(t, work), { code: "INSUFFICIENT_SCOPE" });
  t.equal((await getChannel(reader, id)).id, id);
});

t.test("names are 1 to 100 characters and unique in the organisation, also for eight at once", async (t) => {
  const owner = await newOrg(system);
  for (const name of ["", " \t ", "x".repeat(101)])
    t.match(await refusal(t, async () => createChannel(owner, input(name))), {
      code: "CHANNEL_NAME_INVALID",
      field: "/name",
    });
  for (const body of [{ config: webhook() }, { name: 7, config: webhook() }])
    t.match(await refusal(t, async () => validate(ChannelCreate, body)), {
      code: "CHANNEL_NAME_INVALID",
      field: "/name",
    });
  await createChannel(owner, input("🔔".repeat(100)));

  const race = await Promise.allSettled(Array.from({ length: 8 }, () => createChannel(owner, input("Ops"))));
  t.equal(race.filter(({ status }) => status === "fulfilled").length, 1);
  for (const one of race)
    if (one.status === "rejected") t.match(one.reason, { code: "CHANNEL_NAME_TAKEN", status: 422 });

  const other = await createChannel(owner, input("Other"));
  t.match(await refusal(t, () => updateChannel(owner, other.id, { name: "Ops" })), { code: "CHANNEL_NAME_TAKEN" });
  t.match(await refusal(t, async () => validate(ChannelPatch, { name: "" })), { code: "CHANNEL_NAME_INVALID" });
  t.equal((await updateChannel(owner, other.id, { name: "Other" })).name, "Other", "its own name is not taken");
  await createChannel(await newOrg(system), input("Ops"));
});

t.test("the plan's limit holds when many are created at once", async (t) => {
  const owner = await newOrg(system);
  await sql`update orgs set plan_id = 'free' where id = ${owner.orgId}`;
  for (let made = 0; made < 19; made++) await createChannel(owner, input(`channel ${made}`));
  const race = await Promise.allSettled(
    Array.from({ length: 6 }, (_, at) => createChannel(owner, input(`one more ${at}`))),
  );
  t.equal(race.filter(({ status }) => status === "fulfilled").length, 1);
  const details = { quota: "max_notification_channels", current: 20, limit: 20, plan: "free" };
  for (const one of race)
    if (one.status === "rejected") t.match(one.reason, { code: "CHANNEL_QUOTA_EXCEEDED", status: 422, details });
  t.equal((await listChannels(owner, { limit: 50, offset: 0 })).total, 20);
});

t.test("a config that cannot work is refused, with its place", async (t) => {
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
    t.match(
      await refusal(t, async () => createChannel(owner, validate(ChannelCreate, { name: "New", config }))),
      { code, field },
      what,
    );
    t.match(
      await refusal(t, async () => updateChannel(owner, id, validate(ChannelPatch, { config }))),
      { code, field },
      what,
    );
    t.match(
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
      t.match(await refusal(t, work), { code: "SSRF_BLOCKED", field: "/config/url", details: { range } }, url);
    }
  }
  t.equal((await listChannels(owner, { limit: 50, offset: 0 })).total, 1);
});

t.test("the bindings of a deleted channel go with it, and only own channels can be bound", async (t) => {
  const owner = await newOrg(system);
  const outsider = await newOrg(system);
  const { id } = await createChannel(owner, input("Ops"));
  const foreign = await createChannel(outsider, input("Ops"));
  t.strictSame(await existingChannelIds(owner, owner.orgId, [id, id, foreign.id, newId(), "no id"]), new Set([id]));
  t.strictSame(await existingChannelIds(owner, owner.orgId, ["no id"]), new Set());

  // The transaction that writes a binding keeps the channel from being deleted under it.
  let deleting: Promise<void> | undefined;
  await inTransaction(owner, async (tx) => {
    await existingChannelIds(tx, tx.orgId, [id]);
    deleting = deleteChannel(owner, id);
    await openIncident(tx, [id]);
  });
  await deleting;
  t.strictSame([...(await sql`select 1 from target_alerts where channel_id = ${id}`)], []);
});

t.test("what a receiver gets: the promised fields, signed over the exact bytes", async (t) => {
  const sink = await startSink(t);
  const transport = createOutbound({ allowPrivate: true, clock, ca: sink.ca });
  const owner = await newOrg(system);
  const secret = "schlüssel-mit-umlaut";
  await testConfig(owner, input("x", { url: `${sink.url}/in?a=b`, headers: { "X-Team": "ops" }, secret }), transport);
  const [got] = sink.received;
  t.match(got, {
    path: "/in?a=b",
    headers: {
      "user-agent": userAgent,
      "content-type": "application/json",
      "x-team": "ops",
      "x-service-timestamp": String(Math.floor(clock.now() / 1000)),
    },
  });
  const mac = createHmac("sha256", secret)
    .update(`${got?.headers["x-service-timestamp"]}.`)
    .update(got!.body)
    .digest("hex");
  t.equal(got?.headers["x-service-signature"], `sha256=${mac}`);
  const body = JSON.parse(got!.body.toString()) as object;
  t.strictSame(Object.keys(body), [
    "delivery_id",
    "incident_id",
    "target_id",
    "monitor_name",
    "reason",
    "severity",
    "urgency",
    "started_at",
    "ended_at",
    "error_sample",
    "regions_down",
    "regions_up",
    "url",
  ]);
  t.match(body, { reason: "test", urgency: "low", ended_at: null, regions_down: [] });
  t.match(userAgent, /^StatusMesh\/\d+\.\d+\.\d+/);
  // Computed with another implementation: printf '1700000000.{}' | openssl dgst -sha256 -hmac 0123456789abcdef
  t.strictSame(signature("0123456789abcdef", 1_700_000_000_999, "{}"), {
    "x-service-timestamp": "1700000000",
    "x-service-signature": "sha256=e4f8e2ecae2295b2ddb2f0b5584c8275e226c0ebe9b3b819e70156bb67122e3e",
  });
});

t.test("a test that fails says what the receiver answered, and none of the secrets", async (t) => {
  const sink = await startSink(t);
  const transport = createOutbound({ allowPrivate: true, clock, ca: sink.ca, deadlineMs: 1500 });
  const owner = await newOrg(system);
  const config = input("x", { url: `${sink.url}/hook/t0p-secret`, headers: { "X-Api-Key": "s3cr3t-key" } });
  const failure = () => refusal(t, () => testConfig(owner, config, transport));

  sink.answer = ({ headers }, reply) =>
    void reply.writeHead(503).end(`out of order,\n key was ${String(headers["x-api-key"])}`);
  t.match(await failure(), {
    code: "CHANNEL_TEST_FAILED",
    message: "The test message was not delivered: the receiver answered 503: out of order, key was ***.",
    details: { status: 503 },
  });
  sink.answer = (_request, reply) => void reply.writeHead(302, { location: `${sink.url}/elsewhere` }).end();
  t.match(await failure(), { message: /answered 302 \(redirects are not followed\)\.$/ });
  sink.answer = (_request, reply) => void reply.socket?.destroy();
  t.match(await failure(), { code: "CHANNEL_TEST_FAILED", details: { status: null } });
  sink.answer = (_request, reply) => {
    reply.writeHead(200);
    const drip = setInterval(() => reply.write("."), 50);
    reply.on("close", () => clearInterval(drip));
  };
  t.match(await failure(), { message: /no answer within 1\.5 s\.$/ });
  sink.answer = (_request, reply) => {
    reply.writeHead(400);
    const flood = (): void => {
      while (!reply.destroyed && reply.write("x".repeat(16_384)));
    };
    reply.on("drain", flood);
    flood();
  };
  const flooded = await failure();
  t.match(flooded.message, /answered 400: x{200}…\.$/, "an answer without end is read at its start");
  t.notMatch(
    sink.received.map(({ path }) => path),
    ["/elsewhere"],
  );
  t.equal(sink.connections, sink.received.length, "each over a connection of its own");

  const distrusting = createOutbound({ allowPrivate: true, clock });
  t.match(await refusal(t, () => testConfig(owner, config, distrusting)), { message: /certificate/ });
  const { id } = await createChannel(owner, config);
  await sql`update channels set config = jsonb_set(config, '{url}', '"sealed:1:otherkey:AAAA"') where id = ${id}`;
  t.match(await refusal(t, () => testChannel(owner, id, transport)), {
    code: "CHANNEL_TEST_FAILED",
    message: /sealed under a key that is not configured here/,
  });
  t.match(await getChannel(owner, id), { config: { url: "***" } }, "it can still be read and repaired");
});

t.test("a name that leads to a private address is refused when it is dialled", async (t) => {
  const sink = await startSink(t);
  const port = new URL(sink.url).port;
  const lookup = async () => ["93.184.216.34", "127.0.0.1"];
  const guardedWay = createOutbound({ allowPrivate: false, clock, ca: sink.ca, lookup });
  const request = { method: "POST", url: `https://hooks.example.org:${port}/`, headers: {}, body: "{}" } as const;
  await t.rejects(
    guardedWay.send(request),
    new OutboundError("the name has no public address: it does not exist, or it leads to a network that is not public"),
  );
  t.equal(sink.connections, 0);
  const openWay = createOutbound({ allowPrivate: true, clock, ca: sink.ca, lookup: async () => ["127.0.0.1"] });
  t.match(await openWay.send(request), { status: 200, text: "ok", retryAfterSecs: null });
  await t.rejects(openWay.send({ ...request, url: `http://127.0.0.1:${port}/` }), { name: "OutboundError" });
  await t.rejects(
    createOutbound({ allowPrivate: true, clock, ca: sink.ca, signal: AbortSignal.abort() }).send({
      ...request,
      url: sink.url,
    }),
    {
      message: "the sender is stopping",
    },
  );
});

t.test("channels.endpoints replaces origin and base path, after the address of the channel was checked", async (t) => {
  const received: string[] = [];
  const relay = createServer((request, reply) => {
    received.push(`${request.headers.host} ${request.url}`);
    reply.end("ok");
  }).listen(0, "127.0.0.1");
  await once(relay, "listening");
  t.teardown(() => relay.close());
  const host = `127.0.0.1:${(relay.address() as AddressInfo).port}`;
  const relayed = (endpoint: string) => ({
    ...guarded,
    config: { ...guarded.config, channels: { ...guarded.config.channels, endpoints: { webhook: endpoint } } },
  });
  const owner = await newOrg(relayed(`http://${host}/relay/`));
  await testConfig(owner, input("x", { url: "https://hooks.example.org/a/b?c=d" }));
  t.strictSame(received, [`${host} /relay/a/b?c=d`], "http and a private address, which the guard refuses elsewhere");
  t.match(await refusal(t, () => testConfig(owner, input("x", { url: "https://127.0.0.1/" }))), {
    code: "SSRF_BLOCKED",
  });
  t.match(await refusal(t, () => testConfig(owner, input("x", { url: `http://${host}/` }))), {
    code: "INVALID_CHANNEL_CONFIG",
  });
  const { id } = await createChannel(owner, input("Relayed"));
  await testChannel(owner, id);
  t.equal(received.length, 2, "also for a stored channel");
});

t.test("which answers are final, and when to come back", async (t) => {
  const final = [400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 426, 451, 499];
  const passing = [302, 308, 408, 425, 429, 500, 502, 503, 504, 599];
  t.strictSame([...passing, ...final].filter(isPermanent), final);
  const now = Date.parse("2026-11-20T12:00:00.500Z");
  const cases: [string | string[] | undefined, number | null][] = [
    ["7", 7],
    ["0", 0],
    [" 120 ", 120],
    [["3", "5"], 3],
    ["Fri, 20 Nov 2026 12:01:00 GMT", 60],
    ["Friday, 20-Nov-26 12:01:00 GMT", 60],
    ["Fri, 20 Nov 2026 11:00:00 GMT", 0],
    ["-1", null],
    ["1.5", null],
    ["soon", null],
    ["", null],
    [undefined, null],
  ];
  for (const [header, secs] of cases) t.equal(retryAfter(header, now), secs, String(header));
});

t.test("every route says what it asks for and what it can answer", async (t) => {
  t.strictSame(
    channelRoutes.map(
      ({ method, path, scope, category }) =>
        `${method} ${path.replace("/api/v1/notification-channels", "")} ${scope} ${category}`,
    ),
    [
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
  const post = channelRoutes[0]!;
  const reply = await post.handle({
    ctx: owner,
    params: {},
    query: {},
    body: validate(post.body as TSchema, { name: "A", config: webhook(), write_source: "ui" }),
    http: {} as never,
  });
  t.match(reply, {
    status: 201,
    headers: { Location: `/api/v1/notification-channels/${(reply.body as Channel).id}` },
    body: { write_source: "api" },
  });
});
