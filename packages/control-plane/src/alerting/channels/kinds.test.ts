import * as fs from "node:fs";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { TSchema } from "typebox";
import { newId } from "@statusmesh/shared/ids";
import { validate } from "@statusmesh/shared/schema/validate";
import type { System } from "../../platform/context.ts";
import { inPlain } from "../../platform/crypto/seal.ts";
import { createOutbound } from "../../platform/outbound/client.ts";
import { type SinkAnswer, startSink } from "../../testing/sink.ts";
import { newOrg, openWorld, refusal } from "../../testing/world.ts";
import { exampleKeys, kindCases, type Sent } from "./kinds.test.cases.ts";
import { contents, hostileContents, hostileRounds, rounds, shared } from "./kinds.test.contents.ts";
import { type ChannelConfig, channelKinds, type ChannelType, kindOf } from "./kinds/index.ts";
import { type ChannelKind, type ChannelMessage, DeliveryError } from "./kinds/kind.ts";
import type { Content } from "./sending/content.ts";
import { ChannelCreate } from "./schema.ts";
import { sealConfig } from "./config/sealing.ts";
import { createChannel } from "./service.ts";
import { sendThrough, testConfig } from "./sending/service.ts";

/*
 * The conformance suite of channel kinds: every registered kind passes every test here. Its case is in
 * kinds.test.cases.ts, its messages are in messages/<kind>.txt; SM_TEST_SNAPSHOT=write writes that file.
 */

const { system, clock } = await openWorld(t);
const sink = await startSink(t);
const types = Object.keys(channelKinds) as ChannelType[];
await system.sql`
  insert into push_keys (id, public_key, private_key, created_at)
  values (${newId()}, ${exampleKeys.publicKey}, ${inPlain(exampleKeys.privateKey)}, now())`;

/** Accounts of the installation, for managed kinds. */
const central = {
  slack: { signing_secret: "0123456789abcdef0123456789abcdef" },
  telegram: { bot_token: "987654321:SECRET-OF-THE-BOT", bot_username: "statusmesh_bot", webhook_secret: "" },
  whatsapp: {
    ...system.config.channels.whatsapp,
    access_token: "EAAG-SECRET-OF-THE-NUMBER",
    phone_number_id: "106540352242922",
  },
};

/** The control plane with every vendor replaced by the sink. */
const relayed: System = {
  ...system,
  config: {
    ...system.config,
    channels: {
      ...system.config.channels,
      ...central,
      endpoints: Object.fromEntries(
        Object.values(channelKinds).flatMap((kind) => kind.endpoints.map((name) => [name, `${sink.url}/${name}`])),
      ),
    },
  },
};
const outbound = (deadlineMs = 5000) => createOutbound({ allowPrivate: false, clock, ca: sink.ca, deadlineMs });
const configOf = (type: ChannelType) =>
  validate(channelKinds[type].schema as TSchema, structuredClone(kindCases[type].config)) as ChannelConfig;
const messageOf = (content: Content): ChannelMessage => ({
  deliveryId: "01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e92",
  content,
  sentAt: Date.parse("2026-11-22T14:04:00.000Z"),
});
function contentsOf(type: ChannelType): Record<string, Content> {
  const { rounds: has, shares } = channelKinds[type] as ChannelKind;
  return { ...contents, ...(has === "never" ? {} : rounds), ...(shares === undefined ? {} : shared[shares]) };
}

/** Sends through a stored channel to the sink. Returns the HTTP status; the DeliveryError where that fails. */
async function deliver(type: ChannelType, deadlineMs?: number): Promise<number | null | DeliveryError> {
  const id = newId();
  const channel = { id, org_id: newId(), kind: type, config: configOf(type) };
  const config = sealConfig(relayed, channel.org_id, id, channel.config);
  try {
    const message = messageOf(contents["opened"]!);
    return await sendThrough(relayed, { ...channel, config }, message, outbound(deadlineMs));
  } catch (error) {
    if (!(error instanceof DeliveryError)) throw error;
    return error;
  }
}

/** Requests of a kind for a content, captured without a network. */
async function sentFor(type: ChannelType, content: Content): Promise<Sent[]> {
  const sent: Sent[] = [];
  const config = configOf(type);
  await kindOf(config).send(config, messageOf(content), {
    central,
    http: {
      async send({ method, url, headers, body = "" }) {
        sent.push({ method, url, headers, body: String(body) });
        return { status: 200, text: kindCases[type].accepts ?? "ok", retryAfterSecs: null };
      },
    },
    async mail({ to, subject, text, html, headers = {} }) {
      sent.push({ method: "MAIL", url: to, headers: { subject, ...headers }, body: `${text}\n---\n${html}` });
    },
    async push({ endpoint, ttlSecs, urgency, topic, content: body }) {
      const headers = { ttl: String(ttlSecs), urgency, topic, "content-type": "application/json, encrypted" };
      sent.push({ method: "POST", url: endpoint, headers, body });
    },
  });
  return sent;
}

const answer = (how: SinkAnswer): void => void (sink.answer = how);
const replying = (status: number, body = "", headers: Record<string, string> = {}): void =>
  answer((_request, reply) => void reply.writeHead(status, headers).end(body));

/** Runs a test for every kind that sends over HTTP. */
const everyKind = (title: string, run: (t: Test, type: ChannelType) => Promise<void>): void =>
  void t.test(title, async (t) => {
    for (const type of types) if (kindCases[type].mail !== true) await t.test(type, (t) => run(t, type));
  });

everyKind("a 2xx is a delivery", async (t, type) => {
  replying(200, kindCases[type].accepts ?? "ok");
  const before = sink.received.length;
  t.equal(await deliver(type), 200);
  const [received] = sink.received.slice(before);
  const endpoint = kindOf(configOf(type)).endpoint(configOf(type));
  t.match(received?.path, new RegExp(`^/${endpoint}/`), "through channels.endpoints, below its base path");
});

everyKind("a 4xx is final, and the text says what the vendor answered", async (t, type) => {
  for (const status of [400, 401, 403, 404, 410, 413]) {
    replying(status, "no such\nchannel");
    matchObject(t, await deliver(type), {
      permanent: true,
      status,
      message: `the receiver answered ${status}: no such channel`,
    });
  }
});

everyKind("a 429 is tried again when the vendor says", async (t, type) => {
  replying(429, "slow down", { "retry-after": "17" });
  matchObject(t, await deliver(type), { permanent: false, status: 429, retryAfterSecs: 17, message: /429: slow down/ });
  replying(429);
  matchObject(t, await deliver(type), { permanent: false, status: 429, retryAfterSecs: null });
});

everyKind("a 5xx and a redirect are tried again", async (t, type) => {
  for (const status of [500, 502, 503, 504]) {
    replying(status, "out of order");
    matchObject(t, await deliver(type), { permanent: false, status, message: /out of order/ });
  }
  replying(307, "", { location: `${sink.url}/elsewhere` });
  matchObject(t, await deliver(type), { permanent: false, status: 307, message: /redirects are not followed/ });
  t.notOk(sink.received.some(({ path }) => path === "/elsewhere"));
});

everyKind("no answer, and a closed connection, are tried again", async (t, type) => {
  answer(() => undefined);
  matchObject(t, await deliver(type, 300), { permanent: false, status: null, message: "no answer within 0.3 s" });
  answer((_request, reply) => void reply.socket?.destroy());
  matchObject(t, await deliver(type), { permanent: false, status: null });
});

everyKind("an error inside a 200 is an error", async (t, type) => {
  for (const { body, error, permanent } of kindCases[type].errorsIn200 ?? []) {
    replying(200, body);
    matchObject(t, await deliver(type), { message: error, permanent }, body);
  }
});

everyKind("a vendor that echoes the request tells no secret", async (t, type) => {
  const config = configOf(type);
  const secrets: string[] = [];
  kindOf(config).mapSecrets(config, (secret) => (secrets.push(secret), secret));
  answer(({ path, headers, body }, reply) => {
    const echo = `${path} ${headers.authorization ?? ""} ${String(headers["x-api-key"])} ${body.toString()}`;
    reply.writeHead(400).end(echo);
  });
  const failure = await deliver(type);
  t.ok(failure instanceof DeliveryError);
  const text = (failure as DeliveryError).message;
  for (const secret of secrets)
    for (const part of [secret, secret.slice(0, 12), ...secret.split(/[/?&=]/).filter((word) => word.length > 11)])
      t.notOk(text.includes(part) && !part.startsWith("https:"), `${part} in: ${text}`);
});

t.test("an invalid config is refused at its field, and the error names a valid value", async (t) => {
  const owner = await newOrg(system);
  for (const type of types) {
    const { config, refused, managed } = kindCases[type];
    if (managed === true) continue;
    for (const [changes, field, message] of refused) {
      const wrong = { ...config, ...changes };
      const create = () => createChannel(owner, validate(ChannelCreate, { name: newId(), config: wrong }));
      const found = await refusal(t, async () => create());
      matchObject(
        t,
        found,
        { code: "INVALID_CHANNEL_CONFIG", field: `/config${field}`, message },
        JSON.stringify(changes),
      );
      t.match(found.message, /^[A-Z"].*\.$/s, "in whole sentences");
    }
  }
});

t.test("an address that a customer chooses is neither private nor on the deny-list", async (t) => {
  const owner = await newOrg({
    ...system,
    abuse: { ...system.abuse, domain: (host) => (host === "evil.example" ? host : null) },
  });
  for (const type of types) {
    if (kindCases[type].managed === true) continue;
    const config = configOf(type);
    for (const { pointer } of kindOf(config).urls(config)) {
      const refusedFor = async (url: string) => {
        const changed = { ...kindCases[type].config, [pointer.slice(1)]: url };
        const found = await refusal(t, async () =>
          createChannel(owner, validate(ChannelCreate, { name: newId(), config: changed })),
        );
        t.equal(found.field, `/config${pointer}`);
        return found.code;
      };
      const pinned = (await refusedFor("https://evil.example/")) === "INVALID_CHANNEL_CONFIG";
      for (const host of ["127.0.0.1", "[::ffff:10.0.0.1]", "169.254.169.254", "2130706433", "localhost"])
        t.equal(
          await refusedFor(`https://${host}/`),
          pinned ? "INVALID_CHANNEL_CONFIG" : "SSRF_BLOCKED",
          `${type} ${host}`,
        );
      if (!pinned) t.equal(await refusedFor("https://evil.example/"), "DOMAIN_DENYLISTED");
    }
  }
});

t.test("secrets are sealed, masked, and refused as ***", async (t) => {
  const owner = await newOrg(system);
  for (const type of types) {
    if (kindCases[type].managed === true) continue;
    const config = configOf(type);
    const pointers: string[] = [];
    kindOf(config).mapSecrets(config, (secret, pointer) => {
      t.ok(secret.length >= 16, `${type}${pointer} of the case is long enough to be found`);
      pointers.push(pointer);
      return secret;
    });
    const make = () => createChannel(owner, { name: type, config: configOf(type) });
    const channel = await make();
    const [row] = await system.sql`select config::text as config from channels where id = ${channel.id}`;
    kindOf(config).mapSecrets(config, (secret, pointer) => {
      t.notOk(String(row?.["config"]).includes(secret), `${type}${pointer} is sealed`);
      t.notOk(JSON.stringify(channel).includes(secret), `${type}${pointer} is masked`);
      return secret;
    });
    for (const masked of pointers) {
      const edited = kindOf(config).mapSecrets(config, (secret, pointer) => (pointer === masked ? "***" : secret));
      const found = await refusal(t, () => testConfig(owner, { config: edited as ChannelConfig }));
      matchObject(t, found, { code: "REDACTION_SENTINEL", field: `/config${masked}` });
    }
  }
});

t.test("hostile texts neither mention nor format, and stay within the vendor's limits", async (t) => {
  for (const type of types) {
    const { texts, markup, overLimit } = kindCases[type];
    const all = channelKinds[type].rounds === "never" ? hostileContents : { ...hostileContents, ...hostileRounds };
    for (const [name, content] of Object.entries(all))
      for (const { method, body, headers } of await sentFor(type, content)) {
        const shown = texts(body);
        t.ok(shown.length > 0, `${type}, ${name}: there is text`);
        for (const text of markup === null ? [] : shown) {
          t.notMatch(text, markup, `${type}, ${name}: ${text.slice(0, 300)}`);
          t.notMatch(text, /(?!\n)[\p{Cc}\p{Bidi_Control}]/u, `${type}, ${name}: no control characters`);
        }
        t.equal(overLimit(body), null, `${type}, ${name}: within limits`);
        t.ok(body.isWellFormed());
        // The mail client encodes headers (RFC 2047).
        for (const value of method === "MAIL" ? [] : Object.values(headers))
          t.match(value, /^[\x20-\x7e]*$/, "headers are ASCII");
      }
  }
});

t.test("every notice but the recovery links to the page that acknowledges, whole, whatever else is long", async (t) => {
  for (const type of types)
    for (const [name, content] of Object.entries({ ...contentsOf(type), ...hostileContents })) {
      if (content.kind === "reply") continue;
      const url = content.kind === "round" ? content.round.acknowledge_url : content.notice.acknowledge_url;
      if (content.kind === "round" && content.round.fresh === 0) continue;
      const bodies = (await sentFor(type, content)).map(({ body }) => body);
      const found = bodies.some((body) => body.includes("/a/AZMfLnwaf") || body.includes("%2Fa%2FAZMfLnwaf"));
      t.equal(found, url !== null, `${type}, ${name}`);
      const whole = bodies.some((body) => body.includes(url ?? "") || body.includes(encodeURIComponent(url ?? "")));
      t.ok(whole, `${type}, ${name}: whole`);
    }
});

t.test("times that people read are in the zone of the organisation, whatever the kind", async (t) => {
  const timesIn = async (type: ChannelType, content: Content) =>
    (await sentFor(type, content))
      .map(readable)
      .join("")
      .match(/\d\d:\d\d (?:UTC|Asia\\?\/Tokyo)/g) ?? [];
  for (const type of types)
    for (const [name, content] of Object.entries(contentsOf(type))) {
      // The time of an acknowledgement is in the words of the notice.
      if (content.kind === "notice" && content.notice.acknowledged_by != null) continue;
      const inUtc = await timesIn(type, content);
      const zoned = await timesIn(type, { ...content, zone: "Asia/Tokyo" });
      // The name of the zone is longer: a text of limited length may hold fewer times, a round by SMS none.
      if (!(type === "sms" && content.kind === "round"))
        t.equal(zoned.length > 0, inUtc.length > 0, `${type}, ${name}`);
      const later = (time: string) => String((Number(time.slice(0, 2)) + 9) % 24).padStart(2, "0") + time.slice(2, 6);
      t.strictSame(
        zoned,
        inUtc.slice(0, zoned.length).map((time) => `${later(time)}Asia/Tokyo`),
        `${type}, ${name}`,
      );
    }
});

t.test("every message of every kind is the one of its snapshot", async (t) => {
  for (const type of types) {
    const file = new URL(`../../../src/alerting/channels/messages/${type}.txt`, import.meta.url);
    const parts: string[] = [];
    for (const [name, content] of Object.entries(contentsOf(type)))
      parts.push(`## ${name}\n\n${(await sentFor(type, content)).map(readable).join("\n")}`);
    const text = `# ${channelKinds[type].label}\n\n${parts.join("\n")}`;
    if (process.env["SM_TEST_SNAPSHOT"] === "write") fs.writeFileSync(file, text);
    t.ok(fs.existsSync(file), `${type} has a snapshot; SM_TEST_SNAPSHOT=write makes it`);
    t.equal(text, fs.existsSync(file) ? fs.readFileSync(file, "utf8") : "", type);
  }
});

/** A request as readable text. */
function readable({ method, url, headers, body }: Sent): string {
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  const form = headers["content-type"] === "application/x-www-form-urlencoded";
  const json = headers["content-type"]?.startsWith("application/json") === true;
  const value: unknown = json ? JSON.parse(body) : form ? Object.fromEntries(new URLSearchParams(body)) : null;
  const lines = value === null ? body.split("\n") : outline(value);
  return ["```", `${method} ${url}`, ...head, "", ...lines, "```", ""].join("\n");
}

/** A JSON value in the manner of YAML, with the lines of texts as lines. */
function outline(value: unknown, indent = ""): string[] {
  return Object.entries(value as object).flatMap(([key, child]: [string, unknown]) => {
    const name = Array.isArray(value) ? "-" : `${key}:`;
    if (typeof child === "string" && child.includes("\n"))
      return [`${indent}${name} |`, ...child.split("\n").map((line) => `${indent}  ${line}`)];
    if (typeof child !== "object" || child === null || Object.keys(child).length === 0)
      return [`${indent}${name} ${typeof child === "string" ? child : JSON.stringify(child)}`];
    const inner = outline(child, `${indent}  `);
    return Array.isArray(value)
      ? [`${indent}- ${inner[0]!.trim()}`, ...inner.slice(1)]
      : [`${indent}${name}`, ...inner];
  });
}
