import { createHmac } from "node:crypto";
import { createSecureContext } from "node:tls";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import { deliveryScene } from "../../testing/deliveries.ts";
import { until } from "../../testing/clock.ts";
import { incidentsOf } from "../../testing/rounds.ts";
import { openIncident, outboxNotice, webhookTo } from "../../testing/scene.ts";
import { serveWhole } from "../../testing/whole-app.ts";
import { newOrg } from "../../testing/world.ts";
import { createChannel, updateChannel } from "../channels/service.ts";
import { acknowledgeUrl } from "../deliveries/service.ts";
import { getIncident } from "../incidents/service.ts";
import { listEvents } from "../incidents/timeline/service.ts";
import { unacknowledgeIncident } from "../incidents/lifecycle/service.ts";

const scene = await deliveryScene(t);
const { sink } = scene;
const signing = "0123456789abcdef0123456789abcdef";
const w = await scene.world(t, {
  SM_CHANNELS__SLACK__SIGNING_SECRET: signing,
  SM_CHANNELS__TELEGRAM__BOT_TOKEN: "987654321:SECRET-OF-THE-BOT",
  SM_CHANNELS__TELEGRAM__BOT_USERNAME: "statusmesh_bot",
  SM_CHANNELS__TELEGRAM__WEBHOOK_SECRET: "secret-of-telegram-0001",
  SM_CHANNELS__WHATSAPP__ACCESS_TOKEN: "EAAG-SECRET",
  SM_CHANNELS__WHATSAPP__PHONE_NUMBER_ID: "106540352242922",
  SM_CHANNELS__WHATSAPP__APP_SECRET: "secret-of-the-app",
  SM_CHANNELS__WHATSAPP__VERIFY_TOKEN: "token-of-the-handshake",
  SM_CHANNELS__WHATSAPP__NUMBER: "+15550001111",
  SM_CHANNELS__PAGERDUTY__SIGNING_SECRET: "secret-of-the-pager+/=",
  SM_CHANNELS__ENDPOINTS__PAGERDUTY: sink.url,
  SM_CHANNELS__ENDPOINTS__SLACK: sink.url,
  SM_CHANNELS__ENDPOINTS__TELEGRAM: sink.url,
  SM_CHANNELS__ENDPOINTS__TWILIO: sink.url,
  SM_CHANNELS__ENDPOINTS__PLIVO: sink.url,
  SM_PUBLIC_STATUS__PUBLIC_PER_IP_RATE_LIMIT_PER_MIN: "40",
});
const { sql, clock, owner } = w;
const system = { ...w.system, authorities: createSecureContext({ ca: sink.ca }) };
const ask = await serveWhole(t, w, system);
const html = { accept: "text/html" };

/** An open incident of which a channel was notified, with the token of its message. */
async function notified(channelId?: string) {
  const channel = channelId ?? (await webhookTo(owner, sink.url, `#ops ${newId()}`));
  const { incidentId, targetId } = await openIncident(owner, [channel]);
  await scene.write(w, [outboxNotice(owner, { incidentId, targetId }, "opened")]);
  const [delivery] = await sql<{ id: string }[]>`
    update deliveries set state = 'delivered', next_attempt_at = null where incident_id = ${incidentId} returning id`;
  const url = await acknowledgeUrl(system, delivery!.id, "opened");
  return { incidentId, targetId, channel, path: new URL(url!).pathname, token: url!.split("/a/")[1]! };
}
const acknowledged = async (id: string) => (await getIncident(owner, id)).acknowledged_by;
const close = async (id: string) =>
  await sql`update incidents set ended_at = now(), outage_since = null where id = ${id}`;

t.test("a scanner that opens the link with GET, HEAD and OPTIONS acknowledges nothing; the button does", async (t) => {
  const { incidentId, path, channel } = await notified();
  for (const method of ["HEAD", "GET", "OPTIONS"]) await ask(method, path, undefined, html);
  t.equal(await acknowledged(incidentId), null);
  const page = await ask("GET", path, undefined, html);
  t.equal(page.status, 200);
  t.match(page.text, /shop/);
  t.equal(page.text.match(/<button/g)?.length, 1, "one button");
  for (const [name, value] of [
    ["cache-control", "no-store"],
    ["referrer-policy", "no-referrer"],
    ["x-robots-tag", "noindex"],
    ["x-frame-options", "DENY"],
  ] as const)
    t.equal(page.headers.get(name), value);

  const done = await ask("POST", path, undefined, html);
  t.strictSame([done.status, done.headers.get("location")], [303, path]);
  const [row] = await sql<{ name: string }[]>`select name from channels where id = ${channel}`;
  t.strictSame(await acknowledged(incidentId), { type: "channel", id: channel, name: row!.name });
  const { items } = await listEvents(owner, incidentId, { limit: 10, offset: 0 });
  matchObject(t, items, [
    { kind: "acknowledged", actor: { type: "channel", id: channel }, detail: { channel_type: "webhook" } },
  ]);
  const [entry] = await sql`select * from audit_log where resource_id = ${incidentId}`;
  matchObject(t, entry, { actor_type: "channel", actor_id: channel, user_id: null, action: "POST /a/{token}" });
  t.match((await ask("GET", path, undefined, html)).text, /Acknowledged\./);

  t.equal((await ask("POST", path)).status, 204, "again changes nothing");
  t.equal((await sql`select from incident_events where incident_id = ${incidentId}`).length, 1);
  await unacknowledgeIncident(owner, incidentId);
  t.equal((await ask("POST", path)).status, 204);
  matchObject(t, await acknowledged(incidentId), { type: "channel" }, "the link holds until the end");
});

t.test("a link ends with its incident, its channel and its organisation, and a forged one is unknown", async (t) => {
  const over = await notified();
  await close(over.incidentId);
  matchObject(t, await ask("POST", over.path), { status: 410, body: { error: { code: "ACKNOWLEDGE_LINK_EXPIRED" } } });
  t.equal((await ask("GET", over.path, undefined, html)).status, 410);
  t.equal((await ask("POST", over.path, undefined, html)).status, 303, "the page says so");
  t.equal(await acknowledged(over.incidentId), null);

  const off = await notified();
  await updateChannel(owner, off.channel, { enabled: false });
  matchObject(t, await ask("POST", off.path), { status: 404, body: { error: { code: "ACKNOWLEDGE_LINK_INVALID" } } });

  const { path, incidentId, token } = await notified();
  const bytes = Buffer.from(token, "base64url");
  bytes[31] = bytes[31]! ^ 1;
  for (const forged of [bytes.toString("base64url"), "x", `${token}x`, token.toLowerCase(), "A".repeat(43)]) {
    t.equal((await ask("POST", `/a/${forged}`)).status, 404);
    t.equal((await ask("GET", `/a/${forged}`, undefined, html)).status, 404);
  }
  t.equal(await acknowledged(incidentId), null);
  t.ok(path);
});

t.test("a message carries the link; an echo of it in a reply is masked; the recovery says who it was", async (t) => {
  const channel = await webhookTo(owner, sink.url, "#echo");
  const { incidentId, targetId } = await openIncident(owner, [channel]);
  sink.answer = ({ body }, reply) => void reply.writeHead(400).end(body.toString().slice(-300));
  sink.received.length = 0;
  scene.deliverer(t, w);
  await scene.write(w, [outboxNotice(owner, { incidentId, targetId }, "opened")]);
  await until(async () => (await scene.attempts(w)).length > 0, "an attempt");
  const sent = JSON.parse(sink.received[0]!.body.toString()) as { acknowledge_url: string; acknowledged_by: null };
  matchObject(t, sent, { acknowledge_url: /\/a\/[\w-]{43}$/, acknowledged_by: null });
  const token = sent.acknowledge_url.split("/").at(-1)!;
  const [attempt] = await scene.attempts(w);
  t.notOk(attempt!.error!.includes(token), "the log of attempts has no token");

  await sql`update deliveries set state = 'delivered' where incident_id = ${incidentId}`;
  t.equal((await ask("POST", `/a/${token}`)).status, 204);
  await close(incidentId);
  await sql`update orgs set timezone = 'Asia/Tokyo' where id = ${owner.orgId}`;
  await scene.write(w, [outboxNotice(owner, { incidentId, targetId }, "resolved")]);
  await until(() => sink.received.length > 1, "the recovery");
  matchObject(t, JSON.parse(sink.received[1]!.body.toString()), {
    reason: "resolved",
    acknowledge_url: null,
    acknowledged_by: /^from Webhook #echo, \d{4}-\d\d-\d\d \d\d:\d\d Asia\/Tokyo$/,
  });
  await sql`update orgs set timezone = 'UTC' where id = ${owner.orgId}`;
  sink.answer = (_request, reply) => void reply.writeHead(200).end("ok");
});

t.test("a message of several incidents: all at once, one cause alone, and later ones only where asked", async (t) => {
  const channel = await webhookTo(owner, sink.url, `#ops ${newId()}`);
  const [first, second, third] = [await notified(channel), await notified(channel), await notified(channel)];
  await sql`
    update deliveries set delivered_at = created_at,
      covers = array[${first.incidentId}::uuid, ${second.incidentId}::uuid]
    where incident_id = ${first.incidentId}`;
  const states = () =>
    Promise.all([first, second, third].map(async (one) => (await acknowledged(one.incidentId)) !== null));
  const page = (await ask("GET", first.path, undefined, html)).text;
  t.match(page, /Acknowledge 2 incidents/);
  t.match(page, /This channel was told of 1 other open\s+incident,/);
  t.strictSame(await states(), [false, false, false]);
  t.equal((await ask("POST", `${first.path}?part=${second.incidentId}`)).status, 204);
  t.strictSame(await states(), [false, true, false], "one cause alone");
  t.equal((await ask("POST", `${first.path}?part=${third.incidentId}`)).status, 410, "not a cause of the message");
  t.equal((await ask("POST", first.path)).status, 204);
  t.strictSame(await states(), [true, true, false], "what the message listed");
  t.equal((await ask("POST", `${first.path}?part=later`)).status, 204);
  t.strictSame(await states(), [true, true, true]);
  // An incident that ended and failed again after the message is another outage.
  await sql`
    update incidents set acknowledged_at = null, outage_since = ${new Date(clock.now() + 60_000)}
    where id = ${second.incidentId}`;
  await ask("POST", first.path);
  t.strictSame(await states(), [true, false, true]);
});

const slack = (payload: object, { at = clock.now(), key = signing } = {}) => {
  const body = new URLSearchParams({ payload: JSON.stringify(payload) }).toString();
  const timestamp = String(Math.floor(at / 1000));
  const mac = createHmac("sha256", key).update(`v0:${timestamp}:${body}`).digest("hex");
  return fetch(`${ask.origin}/hooks/slack`, {
    method: "POST",
    headers: {
      "content-type": "application/x-www-form-urlencoded",
      "x-slack-request-timestamp": timestamp,
      "x-slack-signature": `v0=${mac}`,
    },
    body,
  });
};

t.test("the button in Slack acknowledges, once signed and fresh, and the message says who it was", async (t) => {
  const { incidentId, token } = await notified();
  const payload = {
    type: "block_actions",
    user: { id: "U1", name: "olga" },
    actions: [{ action_id: "acknowledge", value: token }],
    response_url: "https://hooks.slack.com/actions/T/B/x",
    message: { text: "Down: Website" },
  };
  t.equal((await slack(payload, { key: "0".repeat(32) })).status, 401);
  t.equal((await slack(payload, { at: clock.now() - 301_000 })).status, 401, "a replay");
  t.equal(await acknowledged(incidentId), null);
  sink.received.length = 0;
  t.equal((await slack({ ...payload, response_url: "https://evil.example/" })).status, 200);
  t.equal(sink.received.length, 0, "only Slack gets a reply");
  t.equal((await slack(payload)).status, 200);
  matchObject(t, JSON.parse(sink.received[0]!.body.toString()), {
    replace_original: true,
    text: "Down: Website",
    attachments: [{ text: /^Already acknowledged by .+: shop\.$/ }],
  });
  const { items } = await listEvents(owner, incidentId, { limit: 10, offset: 0 });
  matchObject(t, items, [{ kind: "acknowledged", actor: { type: "channel" }, detail: { person: "olga" } }]);
  t.equal(items.length, 1);
});

t.test("the button in Telegram acknowledges, and the message loses it", async (t) => {
  const { incidentId, token } = await notified();
  const update = {
    update_id: 1,
    callback_query: {
      id: "77",
      from: { first_name: "Olga" },
      data: token,
      message: { message_id: 5, text: "Down: Website", chat: { id: -100 } },
    },
  };
  sink.received.length = 0;
  const { now } = clock;
  // Time passes while the request is handled.
  clock.now = () => ++clock.at;
  t.teardown(() => (clock.now = now));
  const headers = { "x-telegram-bot-api-secret-token": "secret-of-telegram-0001" };
  const reply = await ask("POST", "/hooks/telegram", update, headers);
  matchObject(t, reply.body, {
    method: "answerCallbackQuery",
    callback_query_id: "77",
    text: "Acknowledged by Olga: shop.",
  });
  matchObject(t, JSON.parse(sink.received[0]!.body.toString()), {
    chat_id: -100,
    message_id: 5,
    text: "Down: Website\n\nAcknowledged by Olga: shop.",
  });
  matchObject(t, await acknowledged(incidentId), { type: "channel" });
  const guess = { ...update, update_id: 2, callback_query: { ...update.callback_query, data: "guess" } };
  matchObject(t, (await ask("POST", "/hooks/telegram", guess, headers)).body, { text: /^This link is not valid/ });
});

t.test(
  "the answer ack by SMS acknowledges what its channel was notified of, where the provider signs it",
  async (t) => {
    const credentials = { account_sid: `AC${"0".repeat(32)}`, auth_token: "secret-of-twilio" };
    const numbers = { to: "+4915112345678", from: "+15005550006" };
    const config = { type: "sms", provider: "twilio", ...numbers, ...credentials } as const;
    const stranger = await newOrg(system);
    const { id } = await createChannel(owner, { name: "Phone", config });
    await createChannel(stranger, { name: "Phone", config: { ...config, auth_token: "another-account" } });
    const [mine, other] = [await notified(id), await notified()];
    const send = async (text: string, key = credentials.auth_token, sid = newId() as string) => {
      const form = { From: numbers.to, To: numbers.from, Body: text, MessageSid: sid };
      const url = `${system.config.server.public_url}/hooks/sms/twilio`;
      const signed = Object.entries(form).sort().flat().join("");
      const reply = await fetch(`${ask.origin}/hooks/sms/twilio`, {
        method: "POST",
        headers: {
          "content-type": "application/x-www-form-urlencoded",
          "x-twilio-signature": createHmac("sha1", key)
            .update(url + signed)
            .digest("base64"),
        },
        body: new URLSearchParams(form),
      });
      return reply.status;
    };
    t.equal(await send("ack", "guess"), 401);
    t.equal(await send("what?"), 204);
    t.equal(await acknowledged(mine.incidentId), null);
    t.equal(await send(" Ack. ", credentials.auth_token, "SM1"), 204);
    matchObject(t, await acknowledged(mine.incidentId), { type: "channel", id, name: "Phone" });
    t.equal(await acknowledged(other.incidentId), null, "not what it was not notified of");
    const replies = () =>
      sink.received.filter(({ path }) => path.includes("/Messages")).map(({ body }) => String(body));
    await until(() => replies().length === 1, "the reply");
    t.match(new URLSearchParams(replies()[0]).get("Body"), "Acknowledged 1 incident. 1 open.");
    await unacknowledgeIncident(owner, mine.incidentId);
    t.equal(await send(" Ack. ", credentials.auth_token, "SM1"), 204);
    t.equal(await acknowledged(mine.incidentId), null, "a repeated message is ignored");
    t.equal((await ask("POST", "/hooks/sms/telnyx")).status, 404, "whose messages cannot be verified");
  },
);

t.test("ack to the WhatsApp number acknowledges", async (t) => {
  const id = newId();
  const config = { type: "whatsapp_app", phone: "+4915112345678", profile_name: "Olga" };
  await sql`
    insert into channels (id, org_id, name, kind, config, enabled, write_source, created_at, updated_at)
    values (${id}, ${owner.orgId}, 'Olga', 'whatsapp_app', ${sql.json(config)}, true, 'ui', now(), now())`;
  const { incidentId } = await notified(id);
  const message = { id: "wamid.1", from: "4915112345678", type: "text", text: { body: "ack" } };
  const value = { metadata: { phone_number_id: "106540352242922" }, messages: [message] };
  const event = { entry: [{ changes: [{ value }] }] };
  const mac = createHmac("sha256", "secret-of-the-app").update(JSON.stringify(event)).digest("hex");
  t.equal((await ask("POST", "/hooks/whatsapp", event, { "x-hub-signature-256": `sha256=${mac}` })).status, 200);
  matchObject(t, await acknowledged(incidentId), { type: "channel", id, name: "Olga" });
});

t.test("forged senders of text messages acknowledge nothing", async (t) => {
  const to = "+4915112345000";
  const stranger = await newOrg(system);
  const twilio = {
    type: "sms",
    provider: "twilio",
    to,
    from: "+15005550006",
    account_sid: `AC${"1".repeat(32)}`,
  } as const;
  const plivo = { type: "sms", provider: "plivo", to, from: "+15005550007", auth_id: "MAXXXXXXXXXXXXXXXXXX" } as const;
  const channel = async (ctx: typeof owner, config: object) =>
    (await createChannel(ctx, { name: `Phone ${newId()}`, config } as Parameters<typeof createChannel>[1])).id;
  const [first, second] = [
    await channel(owner, { ...twilio, auth_token: "token-of-twilio" }),
    await channel(owner, { ...plivo, auth_token: "token-of-plivo-1" }),
  ];
  await channel(stranger, { ...twilio, auth_token: "token-of-mallory" });
  const [one, two] = [await notified(first), await notified(second)];
  const post = async (provider: string, form: [string, string][], headers: Record<string, string>) =>
    (
      await fetch(`${ask.origin}/hooks/sms/${provider}`, {
        method: "POST",
        headers: { "content-type": "application/x-www-form-urlencoded", ...headers },
        body: new URLSearchParams(form),
      })
    ).status;
  const urlOf = (provider: string, origin = system.config.server.public_url) => `${origin}/hooks/sms/${provider}`;
  const byTwilio = async ({
    key = "token-of-twilio",
    From = to,
    To = twilio.from as string,
    url = urlOf("twilio"),
    extra = [] as [string, string][],
  }) => {
    const form: [string, string][] = [...extra, ["From", From], ["To", To], ["Body", "ack"], ["MessageSid", newId()]];
    const text = form
      .toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
      .flat()
      .join("");
    return await post("twilio", form, {
      "x-twilio-signature": createHmac("sha1", key)
        .update(url + text)
        .digest("base64"),
    });
  };
  const byPlivo = async ({ key = "token-of-plivo-1", From = to.slice(1), nonce = "n1", path = "plivo" }) =>
    await post(
      path,
      [
        ["From", From],
        ["To", plivo.from.slice(1)],
        ["Text", "ack"],
        ["MessageUUID", newId()],
      ],
      {
        "x-plivo-signature-v2-nonce": nonce,
        "x-plivo-signature-v2": createHmac("sha256", key)
          .update(urlOf("plivo") + nonce)
          .digest("base64"),
      },
    );
  const foreign = [
    "+4915112345001",
    "4915112345000 ",
    "004915112345000",
    "+49 1511 2345000",
    "+٤٩15112345000",
    "Ops",
    "",
  ];
  for (const From of foreign) t.equal(await byTwilio({ From }), 401, `twilio from ${From}`);
  for (const From of [...foreign.slice(0, 1), "", "Ops"]) t.equal(await byPlivo({ From }), 401, `plivo from ${From}`);
  for (const key of ["", "***", "token-of-plivo-1"]) t.equal(await byTwilio({ key }), 401, `key ${key}`);
  for (const key of ["", "***", "token-of-twilio"]) t.equal(await byPlivo({ key }), 401, `key ${key}`);
  t.equal(await byTwilio({ To: "+15005550009" }), 401, "to another number");
  t.equal(await byTwilio({ url: urlOf("twilio", "https://evil.example") }), 401, "signed for another server");
  t.equal(await byTwilio({ extra: [["From", "+15550000000"]] }), 401, "two senders");
  t.equal(await byPlivo({ nonce: "" }), 401);
  t.equal(await byPlivo({ path: "twilio" }), 401);
  t.equal(await byTwilio({ key: "token-of-mallory" }), 204, "a customer with the same number signs for their own");
  t.strictSame([await acknowledged(one.incidentId), await acknowledged(two.incidentId)], [null, null]);
  t.equal(await byTwilio({}), 204);
  matchObject(t, await acknowledged(one.incidentId), { id: first });
  t.equal(await acknowledged(two.incidentId), null, "each provider for its own channel");
  t.equal(await byPlivo({}), 204);
  matchObject(t, await acknowledged(two.incidentId), { id: second });
});

t.test("forged senders in WhatsApp acknowledge and stop nothing", async (t) => {
  const id = newId();
  const config = { type: "whatsapp_app", phone: "+4915112345999", profile_name: "Milan" };
  await sql`
    insert into channels (id, org_id, name, kind, config, enabled, write_source, created_at, updated_at)
    values (${id}, ${owner.orgId}, 'Milan', 'whatsapp_app', ${sql.json(config)}, true, 'ui', now(), now())`;
  const { incidentId } = await notified(id);
  const signature = (text: string, key = "secret-of-the-app", algorithm = "sha256"): string =>
    `${algorithm}=${createHmac(algorithm, key).update(text).digest("hex")}`;
  const eventOf = (from: unknown, body = "ack", number = "106540352242922") => {
    const message = { id: `wamid.${newId()}`, from, type: "text", text: { body } };
    const contacts = [{ wa_id: "4915112345999", profile: { name: "Milan" } }];
    return {
      entry: [{ changes: [{ value: { metadata: { phone_number_id: number }, contacts, messages: [message] } }] }],
    };
  };
  const own = eventOf("4915112345999");
  const send = async (event: object, sign: string) =>
    (await ask("POST", "/hooks/whatsapp", event, { "x-hub-signature-256": sign })).status;
  const text = JSON.stringify(own);
  for (const sign of ["", "sha256=", signature(text, ""), signature(text, "guess"), signature(text, undefined, "sha1")])
    t.equal(await send(own, sign), 401, sign.slice(0, 12));
  t.equal(await send(eventOf("4915112345999", "stop"), signature(text)), 401, "the signature of another body");
  for (const from of [
    "4915112345998",
    "+4915112345999",
    "4915112345999 ",
    "٤915112345999",
    "",
    null,
    ["4915112345999"],
    {},
  ])
    for (const body of ["ack", "stop"]) {
      const event = eventOf(from, body);
      t.equal(await send(event, signature(JSON.stringify(event))), 200);
    }
  const elsewhere = eventOf("4915112345999", "ack", "999");
  t.equal(await send(elsewhere, signature(JSON.stringify(elsewhere))), 200, "to a number that is not ours");
  t.equal(await acknowledged(incidentId), null);
  matchObject(t, [...(await sql`select enabled from channels where id = ${id}`)], [{ enabled: true }]);
  t.equal(await send(own, signature(text)), 200);
  matchObject(t, await acknowledged(incidentId), { id });
});

t.test("guesses of an address are limited", async (t) => {
  const statuses = [];
  for (let at = 0; at < 60; at++) statuses.push((await ask("POST", `/a/${"B".repeat(43)}`)).status);
  t.ok(statuses.includes(404) || statuses[0] === 429);
  t.equal(statuses.at(-1), 429);
});

t.test("an acknowledgement at PagerDuty covers the incidents that its alert had then", async (t) => {
  const routing = { type: "pagerduty", routing_key: "0123456789abcdef0123456789abcdef" } as const;
  const channel = (await createChannel(owner, { name: "Pager", config: routing })).id;
  const [a, b, c, d] = await incidentsOf(w, "gw-1", 4, [channel]);
  const at = clock.now();
  /** The alert of `a` has these, of which the last joined after the acknowledgement. */
  await sql`
    insert into channel_alerts (channel_id, key, candidates, cause, last_opening_at, updated_at, triggered_at)
    values (${channel}, ${a!.incidentId}, '{}', 'host:gw-1', ${new Date(at)}, ${new Date(at)}, ${new Date(at)})`;
  const join = async (id: string, secs: number) =>
    await sql`
      insert into channel_alert_incidents (incident_id, channel_id, key, joined_at)
      values (${id}, ${channel}, ${a!.incidentId}, ${new Date(at + secs * 1000)})`;
  for (const [pair, secs] of [
    [a!, 0],
    [b!, 10],
    [c!, 20],
    [d!, 40],
  ] as const)
    await join(pair.incidentId, secs);
  await sql`
    update incidents set ended_at = ${new Date(at)}, outage_since = null where id = ${c!.incidentId}`;
  await scene.write(
    w,
    [a!, b!, d!].map((pair) => outboxNotice(owner, pair, "opened")),
  );
  const body = (changes: object = {}) => ({
    event: {
      id: newId(),
      event_type: "incident.acknowledged",
      resource_type: "incident",
      occurred_at: new Date(at + 30_000).toISOString(),
      agent: { id: "PLH1HKV", summary: "Olga Petrova", type: "user_reference" },
      data: { id: "Q1", type: "incident", incident_key: a!.incidentId, status: "acknowledged" },
      ...changes,
    },
  });
  const sign = (text: string, secret = "secret-of-the-pager+/=") =>
    `v1=${createHmac("sha256", secret).update(text).digest("hex")}`;
  const hook = (event: object, signature?: string) =>
    ask("POST", "/hooks/pagerduty", event, { "x-pagerduty-signature": signature ?? sign(JSON.stringify(event)) });
  const who = async () =>
    await Promise.all([a!, b!, c!, d!].map(async ({ incidentId }) => (await acknowledged(incidentId)) !== null));

  const event = body();
  const text = JSON.stringify(event);
  for (const forged of [
    "",
    "v1=",
    sign(text).slice(3),
    sign(text, "another secret of a pager"),
    sign(`${text} `),
    "v0=x",
  ])
    t.equal((await hook(event, forged)).status, 401, forged);
  for (const other of [
    body({ event_type: "incident.resolved" }),
    body({ event_type: "pagey.ping", data: { type: "ping", message: "Hello from your friend Pagey!" } }),
    body({ data: { incident_key: newId() } }),
    body({ data: { incident_key: "' or true --" } }),
    body({ data: null }),
    body({ occurred_at: new Date(at - 4 * 86_400_000).toISOString() }),
    body({ occurred_at: "soon" }),
    {},
  ])
    t.equal((await hook(other)).status, 200, "ignored");
  t.strictSame(await who(), [false, false, false, false]);

  t.equal((await hook(event, `v1=${"0".repeat(64)}, ${sign(text)}`)).status, 200, "while a secret is replaced");
  t.strictSame(await who(), [true, true, false, false]);
  const { items } = await listEvents(owner, b!.incidentId, { limit: 10, offset: 0 });
  matchObject(t, items, [
    {
      kind: "acknowledged",
      actor: { type: "channel", id: channel },
      detail: { channel_type: "pagerduty", person: "Olga Petrova" },
    },
  ]);
  t.strictSame(
    (await sql`select id from deliveries where channel_id = ${channel} and reason = 'acknowledged'`).length,
    0,
    "PagerDuty is not told what it knows",
  );
  await unacknowledgeIncident(owner, a!.incidentId);
  t.equal((await hook(event)).status, 200, "a replay");
  t.strictSame(await who(), [false, true, false, false]);

  // A second channel with an alert of that key: nothing says which of them was acknowledged.
  const second = (await createChannel(owner, { name: "Second", config: routing })).id;
  await sql`
    insert into channel_alerts (channel_id, key, candidates, last_opening_at)
    values (${second}, ${a!.incidentId}, '{}', ${new Date(at)})`;
  await sql`
    insert into channel_alert_incidents values (${d!.incidentId}, ${second}, ${a!.incidentId}, ${new Date(at)})`;
  t.equal((await hook(body({ occurred_at: new Date(at + 50_000).toISOString() }))).status, 200);
  t.strictSame(await who(), [false, true, false, true], "what both have");
});
