import { createHmac } from "node:crypto";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import type { Ctx } from "../../platform/context.ts";
import { day, minute } from "../../testing/clock.ts";
import { asking, serveWhole, signedIn, withToken } from "../../testing/whole-app.ts";
import { newOrg, openWorld } from "../../testing/world.ts";

const secrets = {
  telegram: "secret-of-telegram-0001",
  app: "secret-of-the-app",
  verify: "token-of-the-handshake",
  svix: Buffer.from("secret-of-resend-0123456").toString("base64"),
};
const world = await openWorld(t, {
  env: {
    SM_CHANNELS__TELEGRAM__BOT_TOKEN: "987654321:SECRET-OF-THE-BOT",
    SM_CHANNELS__TELEGRAM__BOT_USERNAME: "statusmesh_bot",
    SM_CHANNELS__TELEGRAM__WEBHOOK_SECRET: secrets.telegram,
    SM_CHANNELS__WHATSAPP__ACCESS_TOKEN: "EAAG-SECRET",
    SM_CHANNELS__WHATSAPP__PHONE_NUMBER_ID: "106540352242922",
    SM_CHANNELS__WHATSAPP__APP_SECRET: secrets.app,
    SM_CHANNELS__WHATSAPP__VERIFY_TOKEN: secrets.verify,
    SM_CHANNELS__WHATSAPP__NUMBER: "+15550001111",
    SM_CHANNELS__RESEND__SIGNING_SECRET: `whsec_${secrets.svix}`,
    SM_PUBLIC_STATUS__PUBLIC_PER_IP_RATE_LIMIT_PER_MIN: "0",
  },
});
const { sql, clock, system } = world;
const ask = await serveWhole(t, world);
const path = "/api/v1/notification-channels";
const as = async (ctx: Ctx) => asking(ask, await withToken(ctx));
const channelsOf = async (ctx: Ctx) => (await (await as(ctx))("GET", path)).body.items;

let updateId = 1000;
const telegram = (update: object, secret = secrets.telegram) =>
  ask("POST", "/hooks/telegram", { update_id: updateId++, ...update }, { "x-telegram-bot-api-secret-token": secret });
const chat = (id: number, title = "Ops") => ({ id, type: "group", title });
const start = (code: string, id: number, title?: string) =>
  telegram({ message: { chat: chat(id, title), text: `/start ${code}` } });
const telegramCode = async (ctx: Ctx, body: object = {}) =>
  (await (await as(ctx))("POST", `${path}/telegram-link`, body)).body;

const whatsapp = (messages: object[], { secret = secrets.app, number = "106540352242922" } = {}) => {
  const event = {
    entry: [
      {
        changes: [
          {
            value: {
              metadata: { phone_number_id: number },
              contacts: [{ wa_id: "4915112345678", profile: { name: "Olga" } }],
              messages,
            },
          },
        ],
      },
    ],
  };
  const mac = createHmac("sha256", secret).update(JSON.stringify(event)).digest("hex");
  return ask("POST", "/hooks/whatsapp", event, { "x-hub-signature-256": `sha256=${mac}` });
};
const text = (body: string, id = newId()) => ({ id, from: "4915112345678", type: "text", text: { body } });

const resend = (event: object, { key = secrets.svix, id = newId() as string, at = clock.now() } = {}) => {
  const timestamp = String(Math.floor(at / 1000));
  const mac = createHmac("sha256", Buffer.from(key, "base64"))
    .update(`${id}.${timestamp}.${JSON.stringify(event)}`)
    .digest("base64");
  return ask("POST", "/hooks/resend", event, {
    "svix-id": id,
    "svix-timestamp": timestamp,
    "svix-signature": `v1,AAAA v1,${mac}`,
  });
};

t.test("a Telegram code connects one chat to the organisation that issued it", async (t) => {
  const [owner, outsider] = [await newOrg(system), await newOrg(system)];
  const issued = await telegramCode(owner, { name: "On call" });
  matchObject(t, issued, {
    code: /^[\w-]{43}$/,
    deep_link: `https://t.me/statusmesh_bot?start=${issued.code}`,
    group_deep_link: `https://t.me/statusmesh_bot?startgroup=${issued.code}`,
    expires_at: new Date(clock.now() + 15 * minute).toISOString(),
  });
  const state = async (ctx: Ctx) => (await (await as(ctx))("GET", `${path}/telegram-link/${issued.id}`)).body;
  matchObject(t, await state(owner), { state: "pending", channel_id: null });
  matchObject(t, await state(outsider), { error: { code: "TELEGRAM_LINK_NOT_FOUND" } });
  const [stored] = await sql`select * from channel_links where id = ${issued.id}`;
  t.notOk(JSON.stringify(stored).includes(issued.code), "only a hash is stored");

  const race = await Promise.all(Array.from({ length: 5 }, (_, at) => start(issued.code, -100 - at)));
  t.strictSame(
    race.map(({ status }) => status),
    [200, 200, 200, 200, 200],
  );
  t.equal(race.filter(({ body }) => body.text.startsWith("Connected")).length, 1, "exactly one of five");
  const [channel, ...more] = await channelsOf(owner);
  matchObject(t, channel, {
    name: "On call",
    enabled: true,
    verified: null,
    config: { type: "telegram_app", chat_title: "Ops" },
  });
  t.strictSame([more.length, (await channelsOf(outsider)).length], [0, 0]);
  matchObject(t, await state(owner), { state: "consumed", channel_id: channel.id });
  const [entry] = await sql`select user_id, actor_type, action from audit_log where resource_id = ${channel.id}`;
  matchObject(t, entry, { user_id: owner.userId, actor_type: "system", action: "POST /hooks/telegram" });
  t.match((await start(issued.code, -999)).body.text, /unknown, used or expired/);

  const late = await telegramCode(owner);
  clock.advance(15 * minute);
  t.match((await start(late.code, -999)).body.text, /unknown, used or expired/);
  matchObject(t, (await (await as(owner))("GET", `${path}/telegram-link/${late.id}`)).body, { state: "expired" });
  const raw = await telegramCode(owner);
  const pasted = await telegram({ message: { chat: chat(-998), text: ` ${raw.code}\n` } });
  t.match(pasted.body.text, /^Connected/, "the code without its command");
  t.strictSame((await telegram({ message: { chat: chat(-998), text: "good morning" } })).body, {});
  const gone = await telegramCode(outsider);
  await sql`update orgs set deleted_at = now() where id = ${outsider.orgId}`;
  t.match((await start(gone.code, -999)).body.text, /unknown, used or expired/);
});

t.test("the page of a code shows its QR code and state, to its organisation and with the code only", async (t) => {
  const [owner, outsider] = [await newOrg(system), await newOrg(system)];
  const issued = await telegramCode(owner);
  const where = `/channels/connect/telegram/${issued.id}`;
  const open = async (ctx: Ctx, code: string, more = "") =>
    ask("GET", `${where}/${code}${more}`, undefined, { ...(await signedIn(ctx)), accept: "text/html" });
  const shown = await open(owner, issued.code);
  matchObject(t, [shown.status, shown.headers.get("referrer-policy")], [200, "no-referrer"]);
  t.match(shown.text, /<svg/);
  matchObject(t, shown.text, issued.deep_link);
  t.equal((await open(owner, "guess")).status, 404);
  t.equal((await open(outsider, issued.code)).status, 404);
  await start(issued.code, -300);
  t.match((await open(owner, issued.code, "?fragment=1")).text, /Connected/);
  const list = await ask("GET", "/channels/connect", undefined, { ...(await signedIn(owner)), accept: "text/html" });
  t.equal(list.status, 200);
});

t.test("updates of the bot: stop, removal, a group that moves, repeated and forged ones", async (t) => {
  const owner = await newOrg(system);
  const connected = async (id: number) => {
    await start((await telegramCode(owner)).code, id, "Ops");
    return (await channelsOf(owner)).at(-1);
  };
  const read = async (id: string) => (await (await as(owner))("GET", `${path}/${id}`)).body;
  const [one, two] = [await connected(-201), await connected(-202)];
  t.equal(two.name, "Ops 2", "a taken name gets a number");
  for (const secret of ["", "x", `${secrets.telegram}x`])
    matchObject(t, await telegram({ message: { chat: chat(-201), text: "/stop" } }, secret), { status: 401 });
  matchObject(t, await read(one.id), { enabled: true });

  const stop = { update_id: 77, message: { chat: chat(-201), text: "/stop@statusmesh_bot" } };
  matchObject(t, (await telegram(stop)).body, { method: "sendMessage", text: /Stopped/ });
  matchObject(t, await read(one.id), { enabled: false, disabled_reason: "stopped with /stop in Telegram" });
  await (
    await as(owner)
  )("PATCH", `${path}/${one.id}`, { enabled: true });
  matchObject(t, (await telegram(stop)).body, {}, "an update that is sent twice");
  matchObject(t, await read(one.id), { enabled: true, disabled_reason: null });

  await telegram({ message: { chat: chat(-202), migrate_to_chat_id: -100202 } });
  matchObject(t, await read(two.id), { config: { chat_id: "-100202" } });
  await telegram({ my_chat_member: { chat: chat(-100202), new_chat_member: { status: "left" } } });
  matchObject(t, await read(two.id), { enabled: false, disabled_reason: /removed/ });
  await telegram({ my_chat_member: { chat: { id: -201, type: "private" }, new_chat_member: { status: "kicked" } } });
  matchObject(t, await read(one.id), { enabled: false, disabled_reason: /blocked/ });
  for (const odd of [{}, { message: null }, { message: { chat: { id: "x" } } }, { poll: {} }, { message: { text: 7 } }])
    matchObject(t, await telegram(odd), { status: 200 }, JSON.stringify(odd));
  const raw = await fetch(`${ask.origin}/hooks/telegram`, {
    method: "POST",
    headers: { "x-telegram-bot-api-secret-token": secrets.telegram },
    body: '{"update_id": 1, "message": {"text": "\\ud800\\u0000',
  });
  t.equal(raw.status, 200, "a body that is not JSON would be sent again for ever");
});

t.test("WhatsApp: the handshake, a code, stop, and forged signatures", async (t) => {
  const owner = await newOrg(system);
  const handshake = (token: string) =>
    ask("GET", `/hooks/whatsapp?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=${token}`);
  matchObject(t, await handshake(secrets.verify), { status: 200, text: "1158201444" });
  matchObject(t, await handshake("guess"), { status: 403 });
  const issued = (await (await as(owner))("POST", `${path}/whatsapp-link`, {})).body;
  t.match(issued.deep_link, /^https:\/\/wa\.me\/15550001111\?text=connect%20[\w-]{43}$/);
  const message = text(`connect ${issued.code}`);
  matchObject(t, await whatsapp([message], { secret: "forged" }), { status: 401 });
  matchObject(t, await whatsapp([message], { number: "999" }), { status: 200 }, "of another number");
  t.strictSame(await channelsOf(owner), []);
  await Promise.all([whatsapp([message]), whatsapp([message])]);
  const [channel, ...more] = await channelsOf(owner);
  matchObject(t, channel, {
    name: "Olga",
    config: { type: "whatsapp_app", phone: "+4915112345678", profile_name: "Olga" },
  });
  t.equal(more.length, 0);
  matchObject(t, (await (await as(owner))("GET", `${path}/whatsapp-link/${issued.id}`)).body, { state: "consumed" });
  await whatsapp([text(" Stop ")]);
  matchObject(t, await channelsOf(owner), [{ enabled: false, disabled_reason: /from the phone/ }]);
});

t.test(
  "a permanent bounce disables the address everywhere; other events, forged and old ones do nothing",
  async (t) => {
    const [one, two] = [await newOrg(system), await newOrg(system)];
    for (const ctx of [one, two])
      await (
        await as(ctx)
      )("POST", path, { name: "Mail", config: { type: "email", to: "gone@example.org" } });
    const bounce = (type: string) => ({
      type: "email.bounced",
      data: { to: ["Gone <gone@example.org>"], bounce: { type, message: "550 no such user" } },
    });
    const enabled = async () => [(await channelsOf(one))[0].enabled, (await channelsOf(two))[0].enabled];
    matchObject(t, await resend(bounce("Permanent"), { key: "Zm9yZ2VkLXNlY3JldA==" }), { status: 401 });
    matchObject(t, await resend(bounce("Permanent"), { at: clock.now() - 6 * minute }), { status: 401 });
    matchObject(t, await resend(bounce("Permanent"), { at: clock.now() + 6 * minute }), { status: 401 });
    matchObject(t, await resend(bounce("Transient")), { status: 200 });
    matchObject(t, await resend({ type: "email.delivered", data: { to: ["gone@example.org"] } }), { status: 200 });
    t.strictSame(await enabled(), [true, true]);
    const id = "msg_1";
    matchObject(t, await resend(bounce("Permanent"), { id }), { status: 200 });
    matchObject(t, (await channelsOf(two))[0], { enabled: false, disabled_reason: /bounced: 550 no such user/ });
    t.strictSame(await enabled(), [false, false]);
    await (
      await as(one)
    )("PATCH", `${path}/${(await channelsOf(one))[0].id}`, { enabled: true });
    await resend(bounce("Permanent"), { id });
    t.strictSame(await enabled(), [true, false], "the same event again");
    await resend({ type: "email.complained", data: { to: ["gone@example.org"] } });
    matchObject(t, (await channelsOf(one))[0], { enabled: false, disabled_reason: /spam/ });
  },
);

t.test("a delegation link creates one channel and shows nothing", async (t) => {
  const [owner, outsider] = [await newOrg(system), await newOrg(system)];
  const me = await as(owner);
  const issue = async (body?: object) => (await me("POST", `${path}/delegate`, body)).body;
  const config = { type: "slack", webhook_url: "https://hooks.slack.com/services/T0/B0/VISITOR" };
  const link = await issue({ name: "Acme ops", kind: "slack" });
  matchObject(t, link, { state: "pending", kind: "slack", expires_at: new Date(clock.now() + 7 * day).toISOString() });
  const use = (url: string, body: object) => ask("POST", new URL(url).pathname, body);
  const page = async (url: string) => ask("GET", new URL(url).pathname, undefined, { accept: "text/html" });
  const shown = await page(link.url);
  matchObject(t, [shown.status, shown.headers.get("referrer-policy")], [200, "no-referrer"]);
  t.match(shown.text, /Slack/);
  t.notMatch(shown.text, /Discord/);
  matchObject(t, await use(link.url, { config: { type: "webhook", url: "https://hooks.example.org/" } }), {
    status: 404,
  });
  matchObject(t, await use(link.url, { config: { type: "telegram_app", chat_id: "1", chat_title: "x" } }), {
    status: 400,
  });
  matchObject(t, await use(link.url, { config: { type: "slack", webhook_url: "https://127.0.0.1/" } }), {
    status: 400,
  });
  const race = await Promise.all(Array.from({ length: 4 }, () => use(link.url, { config })));
  t.strictSame(race.map(({ status }) => status).sort(), [204, 404, 404, 404]);
  t.ok(
    race.every(({ status, text: said }) => status !== 204 || said === ""),
    "the visitor reads nothing",
  );
  matchObject(t, await channelsOf(owner), [{ name: "Acme ops", config: { type: "slack", webhook_url: "***" } }]);
  t.strictSame(await channelsOf(outsider), []);
  const [entry] = await sql`select user_id, ip, after from audit_log where action = 'POST /c/{code}'`;
  matchObject(t, entry, { user_id: owner.userId, ip: /127/, after: { name: "Acme ops" } });

  const [revoked, expired] = [await issue(), await issue()];
  matchObject(t, await (await as(outsider))("DELETE", `${path}/delegate/${revoked.id}`), { status: 404 });
  matchObject(t, await me("DELETE", `${path}/delegate/${revoked.id}`), { status: 204 });
  matchObject(t, await me("DELETE", `${path}/delegate/${revoked.id}`), { status: 404 });
  clock.advance(7 * day);
  const pages = await Promise.all([link, revoked, expired, { url: "https://x/c/guess" }].map(({ url }) => page(url)));
  t.strictSame(
    pages.map(({ status }) => status),
    [404, 404, 404, 404],
  );
  t.equal(
    new Set(pages.map(({ text: html }) => html)).size,
    1,
    "the same page for spent, revoked, expired and unknown",
  );
  matchObject(t, (await me("GET", `${path}/delegate`)).body, {
    total: 3,
    items: [{ state: "expired" }, { state: "expired" }, { state: "consumed" }],
  });
  matchObject(t, await me("POST", `${path}/delegate`, { kind: "sms" }), {
    status: 400,
    body: { error: { code: "DELEGATE_KIND_INVALID", field: "/kind" } },
  });
});

t.test("pending codes are limited, under concurrency, per organisation and purpose", async (t) => {
  const owner = await newOrg(system);
  const me = await as(owner);
  const cases = [
    ["telegram-link", 20, "TELEGRAM_LINK_LIMIT"],
    ["whatsapp-link", 20, "WHATSAPP_LINK_LIMIT"],
    ["delegate", 50, "DELEGATE_LINK_LIMIT"],
  ] as const;
  for (const [route, most, code] of cases) {
    const made = await Promise.all(Array.from({ length: most + 5 }, () => me("POST", `${path}/${route}`, {})));
    t.equal(made.filter(({ status }) => status === 201).length, most, route);
    matchObject(
      t,
      made.find(({ status }) => status !== 201),
      { status: 422, body: { error: { code } } },
    );
  }
});

t.test("managed kinds are refused in bodies, before other faults", async (t) => {
  const me = await as(await newOrg(system));
  const made = (
    await me("POST", path, { name: "Hook", config: { type: "webhook", url: "https://hooks.example.org/" } })
  ).body;
  for (const config of [{ type: "telegram_app" }, { type: "whatsapp_app", phone: "+4915112345678", profile_name: "x" }])
    for (const [method, where, body] of [
      ["POST", path, { name: "App", config }],
      ["PATCH", `${path}/${made.id}`, { config }],
      ["POST", `${path}/test`, { config }],
    ] as const)
      matchObject(t, await me(method, where, body), { status: 422, body: { error: { code: "CHANNEL_KIND_MANAGED" } } });
});

t.test("hooks of strangers: at most 64 KiB, and 60 refusals a minute and address", async (t) => {
  clock.advance(2 * minute);
  const post = async (hook: string, body: string | ReadableStream<Uint8Array>) =>
    (await fetch(`${ask.origin}/hooks/${hook}`, { method: "POST", body, duplex: "half" } as RequestInit)).status;
  const large = "x".repeat(65_537);
  for (const hook of ["telegram", "whatsapp", "resend"]) t.equal(await post(hook, large), 413, `${hook}, declared`);
  const stream = new Blob([large]).stream() as ReadableStream<Uint8Array>;
  t.equal(await post("whatsapp", stream), 413, "counted while it is read");
  for (let n = 4; n < 60; n++) t.equal(await post("whatsapp", "{}"), 401);
  const refused = await whatsapp([text("hello")]);
  matchObject(t, refused, {
    status: 429,
    body: { error: { code: "RATE_LIMITED", details: { scope: "per_ip_hooks" } } },
  });
  t.ok(Number(refused.headers.get("retry-after")) > 0);
  clock.advance(minute);
  t.equal((await whatsapp([text("hello")])).status, 200);
});
