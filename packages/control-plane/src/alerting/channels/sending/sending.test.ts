import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import {
  createOutbound,
  OutboundError,
  type OutboundRequest,
  retryAfter,
  userAgent,
} from "../../../platform/outbound/client.ts";
import { validate } from "@statusmesh/shared/schema/validate";
import { type Ctx } from "../../../platform/context.ts";
import { trustedAuthorities } from "../../../platform/outbound/authorities.ts";
import { contents } from "../kinds.test.contents.ts";
import { channelKinds } from "../kinds/index.ts";
import { isPermanent } from "../kinds/deliver.ts";
import { signature } from "../kinds/webhook.ts";
import type { Content } from "./content.ts";
import { ChannelCreate, ChannelPatch } from "../schema.ts";
import { createChannel, getChannel, updateChannel } from "../service.ts";
import { testChannel, testConfig } from "./service.ts";
import { startSink } from "../../../testing/sink.ts";
import { allowPrivate, newOrg, openWorld, refusal } from "../../../testing/world.ts";

const { sql, clock, system: guarded } = await openWorld(t);
const system = allowPrivate(guarded);

const accepted = { status: 200, text: "", retryAfterSecs: null };
const webhook = (changes: object = {}) => ({ type: "webhook", url: "https://hooks.example.org/alerts", ...changes });
const input = (name: string, changes: object = {}) => validate(ChannelCreate, { name, config: webhook(changes) });

t.test("http addresses and private certificate authorities work where the instance allows them", async (t) => {
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
  matchObject(t, await refusal(t, () => make(by({}))), refused, "https is required");
  matchObject(
    t,
    await refusal(t, () => make(by({ allow_http: true }, false))),
    refused,
    "http is for private networks only",
  );
  const { id } = await make(by({ allow_http: true }));
  await testChannel(by({ allow_http: true }), id);
  t.strictSame(received, ["/hook"]);
  matchObject(t, await refusal(t, () => testChannel(by({}), id)), {
    code: "CHANNEL_TEST_FAILED",
    message: /the URL is not https, and this instance does not allow http \(channels\.allow_http\)/,
  });
  const moved = { config: { ...http, url: http.url.replace("http:", "https:"), secret: "***" } };
  matchObject(
    t,
    await refusal(t, () => updateChannel(by({ allow_http: true }), id, validate(ChannelPatch, moved))),
    { code: "CREDENTIALS_REQUIRED" },
    "another scheme is another server",
  );

  const own = await createChannel(ctx, input("own", { url: `${sink.url}/own` }));
  matchObject(
    t,
    await refusal(t, () => testChannel(ctx, own.id)),
    { code: "CHANNEL_TEST_FAILED" },
    "an unknown authority",
  );
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

t.test("a webhook has the documented fields and is signed over the exact bytes", async (t) => {
  const sink = await startSink(t);
  const transport = createOutbound({ allowPrivate: true, clock, ca: sink.ca });
  const owner = await newOrg(system);
  const secret = "schlüssel-mit-umlaut";
  await testConfig(owner, input("x", { url: `${sink.url}/in?a=b`, headers: { "X-Team": "ops" }, secret }), transport);
  const [got] = sink.received;
  matchObject(t, got, {
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
    "duration_secs",
    "error_sample",
    "regions_down",
    "regions_up",
    "url",
    "acknowledge_url",
    "acknowledged_by",
  ]);
  matchObject(t, body, { reason: "test", urgency: "low", ended_at: null, regions_down: [] });
  t.match(userAgent, /^StatusMesh\/\d+\.\d+\.\d+/);
  // Computed with another implementation: printf '1700000000.{}' | openssl dgst -sha256 -hmac 0123456789abcdef
  t.strictSame(signature("0123456789abcdef", 1_700_000_000_999, "{}"), {
    "x-service-timestamp": "1700000000",
    "x-service-signature": "sha256=e4f8e2ecae2295b2ddb2f0b5584c8275e226c0ebe9b3b819e70156bb67122e3e",
  });
});

t.test("a template is the body, filled once with escaped values", async (t) => {
  const sink = await startSink(t);
  const transport = createOutbound({ allowPrivate: true, clock, ca: sink.ca });
  const owner = await newOrg(system);
  const template =
    '{"text": "{{ title }}\\n{{text}}", "{{reason}}": ["{{ended_at}}", "{{regions_down}}", "{ {url} }"]}';
  await testConfig(owner, input("x", { url: sink.url, template }), transport);
  const body = JSON.parse(sink.received[0]!.body.toString()) as { text: string; test: string[] };
  t.match(body.text, /^Test message from StatusMesh\nTest message from StatusMesh\nResult: .+\nhttps?:/);
  t.strictSame(body.test, ["", "", "{ {url} }"]);

  const content = structuredClone(contents["opened"]!) as Extract<Content, { kind: "notice" }>;
  content.notice.monitor_name = 'a "quoted" \\ {{url}} $& \n name';
  const sent: string[] = [];
  const http = { send: ({ body }: OutboundRequest) => (sent.push(String(body)), Promise.resolve(accepted)) };
  const config = {
    ...webhook({ template: '{"name": "{{monitor_name}}", "regions": "{{regions_down}}"}' }),
    headers: {},
  };
  await channelKinds.webhook.send(
    config as Parameters<typeof channelKinds.webhook.send>[0],
    { deliveryId: newId(), content, sentAt: clock.now() },
    {
      http,
      mail: () => Promise.reject(new Error("no mail")),
      push: () => Promise.reject(new Error("no push")),
      central: system.config.channels,
    },
  );
  t.strictSame(JSON.parse(sent[0]!), { name: content.notice.monitor_name, regions: "frankfurt, virginia" });
});

t.test("a failed test shows the reply of the receiver, and no secret", async (t) => {
  const sink = await startSink(t);
  const transport = createOutbound({ allowPrivate: true, clock, ca: sink.ca, deadlineMs: 1500 });
  const owner = await newOrg(system);
  const config = input("x", { url: `${sink.url}/hook/t0p-secret`, headers: { "X-Api-Key": "s3cr3t-key" } });
  const failure = () => refusal(t, () => testConfig(owner, config, transport));

  sink.answer = ({ headers }, reply) =>
    void reply.writeHead(503).end(`out of order,\n key was ${String(headers["x-api-key"])}`);
  matchObject(t, await failure(), {
    code: "CHANNEL_TEST_FAILED",
    message: "The test message was not delivered: the receiver answered 503: out of order, key was ***.",
    details: { status: 503 },
  });
  sink.answer = (_request, reply) => void reply.writeHead(302, { location: `${sink.url}/elsewhere` }).end();
  matchObject(t, await failure(), { message: /answered 302 \(redirects are not followed\)\.$/ });
  sink.answer = (_request, reply) => void reply.socket?.destroy();
  matchObject(t, await failure(), { code: "CHANNEL_TEST_FAILED", details: { status: null } });
  sink.answer = (_request, reply) => {
    reply.writeHead(200);
    const drip = setInterval(() => reply.write("."), 50);
    reply.on("close", () => clearInterval(drip));
  };
  matchObject(t, await failure(), { message: /no answer within 1\.5 s\.$/ });
  sink.answer = (_request, reply) => {
    reply.writeHead(400);
    const flood = (): void => {
      while (!reply.destroyed && reply.write("x".repeat(16_384)));
    };
    reply.on("drain", flood);
    flood();
  };
  const flooded = await failure();
  t.match(flooded.message, /answered 400: x{200}…\.$/, "a reply without end is read up to a limit");
  t.notMatch(
    sink.received.map(({ path }) => path),
    ["/elsewhere"],
  );
  t.equal(sink.connections, sink.received.length, "one connection per request");

  const distrusting = createOutbound({ allowPrivate: true, clock });
  matchObject(t, await refusal(t, () => testConfig(owner, config, distrusting)), { message: /certificate/ });
  const { id } = await createChannel(owner, config);
  await sql`update channels set config = jsonb_set(config, '{url}', '"sealed:1:otherkey:AAAA"') where id = ${id}`;
  matchObject(t, await refusal(t, () => testChannel(owner, id, transport)), {
    code: "CHANNEL_TEST_FAILED",
    message: /sealed under a key that is not configured here/,
  });
  matchObject(t, await getChannel(owner, id), { config: { url: "***" } }, "the channel can still be read and edited");
});

t.test("a name that resolves to a private address is refused at connect", async (t) => {
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
  matchObject(t, await openWay.send(request), { status: 200, text: "ok", retryAfterSecs: null });
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

t.test("channels.endpoints replaces origin and base path after the address of the channel was checked", async (t) => {
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
  matchObject(t, await refusal(t, () => testConfig(owner, input("x", { url: "https://127.0.0.1/" }))), {
    code: "SSRF_BLOCKED",
  });
  matchObject(t, await refusal(t, () => testConfig(owner, input("x", { url: `http://${host}/` }))), {
    code: "INVALID_CHANNEL_CONFIG",
  });
  const { id } = await createChannel(owner, input("Relayed"));
  await testChannel(owner, id);
  t.equal(received.length, 2, "also for a stored channel");
});

t.test("replies that are final, and the time of the next attempt", async (t) => {
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
