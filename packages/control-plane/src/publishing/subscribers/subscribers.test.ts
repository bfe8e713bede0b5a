import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import { textsOf } from "../languages/service.ts";
import { webhookSignature } from "../../alerting/channels/config/service.ts";
import { makeSealer } from "../../platform/crypto/seal.ts";
import { loadAssets } from "../../platform/html/assets.ts";
import { mountPages } from "../../platform/html/pages.ts";
import { openViews } from "../../platform/html/views.ts";
import { postUpdate } from "../../alerting/incidents/timeline/service.ts";
import { reportIncident, resolveIncident } from "../../alerting/incidents/lifecycle/service.ts";
import { createWindow } from "../../alerting/maintenance/service.ts";
import { subscriptionPages } from "../public/subscription-pages.ts";
import { addComponent } from "../status-pages/components/service.ts";
import { createPage, updatePage } from "../status-pages/service.ts";
import { createTarget } from "../../monitoring/targets/write/service.ts";
import { serve } from "../../testing/app.ts";
import { day, hour, minute, noon } from "../../testing/clock.ts";
import { startMailbox } from "../../testing/mailbox.ts";
import { startSink } from "../../testing/sink.ts";
import { allowPrivate, newOrg, openWorld } from "../../testing/world.ts";
import { subscriberRoutes } from "./api.ts";
import { announce, areMessagesDue, isNewsDue, openWebhookSender, sendMails } from "./engine.ts";
import { openSecret } from "./sealing.ts";
import type { SecretRow } from "./queries.ts";
import { endSubscriptions, importSubscribers, subscriberCounts, subscribersReached } from "./service.ts";
import { isTrue } from "../../platform/jobs/queries.ts";

const mailbox = await startMailbox(t);
const world = await openWorld(t, { env: { SM_EMAIL__SMTP_URL: mailbox.url } });
const { sql, clock, log } = world;
clock.at = noon;
const system = allowPrivate(world.system);
const owner = { ...(await newOrg(system)), ...allowPrivate(world.system) };
const newTarget = async (name: string) =>
  (await createTarget(owner, { name, check: { type: "tcp", host: "shop.example.org", port: 443, timeout: 1000 } })).id;
const [web, api] = [await newTarget("Web"), await newTarget("API")];
const page = await createPage(owner, { slug: "acme", name: "Acme status" });
for (const target_id of [web, api]) await addComponent(owner, page.id, { target_id });
const sink = await startSink(t, (request, reply) => {
  const body = JSON.parse(request.body.toString()) as { challenge?: string };
  reply.writeHead(200).end(body.challenge ?? "ok");
});
const webhooks = openWebhookSender(system, { ca: sink.ca });
const sendWebhooks = async (sender = webhooks) => {
  const started = await sender.start();
  await sender.ended();
  return started;
};
const views = openViews({ assets: loadAssets() });
const pages = mountPages(subscriptionPages, { public: async () => system, tenant: async () => owner }, views);
const ask = await serve(t, system, subscriberRoutes, {
  public: () => system,
  tenant: () => owner,
  page: pages,
});
const path = "/status/subscriptions";
/** As the jobs do: only what is due is run. */
const run = async () => {
  if (await isTrue(system, isNewsDue)) await announce(system);
  return (await isTrue(system, areMessagesDue)) ? (await sendMails(system)) + (await sendWebhooks()) : 0;
};
const tokenIn = (text: string) => /subscriptions\/([\w-]{43})/.exec(text)![1]!;
const lastTo = (to: string) => mailbox.mails.findLast((mail) => mail.to.includes(to))!;
const subscribe = async (email: string, more: object = {}) => {
  await ask("POST", path, { email, ...more });
  await run();
  const token = tokenIn(lastTo(email).text);
  await ask("POST", `${path}/${token}`, { confirm: true });
  return token;
};
const mailsTo = (to: string) =>
  mailbox.mails
    .filter((mail) => mail.to.includes(to))
    .map(({ text }) => /^Subject: (.*)$/m.exec(text)![1]!)
    .filter((subject) => !subject.startsWith("Confirm"));

t.beforeEach(async () => {
  clock.advance(2 * hour);
  await sql`delete from subscribers`;
  await sql`delete from subscriber_messages`;
});

t.test("times of a mail are in the zone of the subscriber, else of the page, and name it", async (t) => {
  await updatePage(owner, page.id, { branding: { timezone: "Europe/Berlin" } });
  const form = { "content-type": "application/x-www-form-urlencoded", accept: "text/html" };
  for (const zone of ["America/New_York", "Mars/Olympus"]) {
    const body = new URLSearchParams({ email: `${zone.slice(0, 4).toLowerCase()}@example.org`, time_zone: zone });
    const sent = await fetch(`${ask.origin}${path}`, { method: "POST", headers: form, body, redirect: "manual" });
    t.match(sent.headers.get("location"), "done=mail", "a browser with a zone that is not known here subscribes too");
  }
  matchObject(t, await ask("POST", path, { email: "x@example.org", time_zone: "Mars/Olympus" }), {
    status: 400,
    body: { error: { code: "INVALID_TIME_ZONE", field: "/time_zone" } },
  });
  await ask("POST", path, { email: "tokio@example.org", time_zone: "Asia/Tokyo" });
  await run();
  await sql`update subscribers set state = 'active', confirmed_at = created_at, confirm_due_at = null`;
  const again = { email: "tokio@example.org", time_zone: "UTC" };
  clock.advance(hour);
  t.equal((await ask("POST", path, again)).status, 202, "somebody else does not change the zone of a subscriber");
  clock.at = Date.UTC(2026, 10, 21, 20, 30);
  const { id } = await reportIncident(owner, { target_id: web, severity: "major", public_title: "Slow", message: "?" });
  await run();
  const timeOf = (to: string) => /Time: +(.*)/.exec(lastTo(to).text)?.[1];
  t.equal(timeOf("amer@example.org"), "21 Nov 2026, 15:30 (America/New_York)");
  t.equal(timeOf("mars@example.org"), "21 Nov 2026, 21:30 (Europe/Berlin)");
  t.equal(timeOf("tokio@example.org"), "22 Nov 2026, 05:30 (Asia/Tokyo)");
  await resolveIncident(owner, id);
  await updatePage(owner, page.id, { branding: {} });
});

/** All mails to an address with the encodings of their parts taken off: base64, and the quotes of other bytes. */
const decoded = (to: string) =>
  mailbox.mails
    .filter((mail) => mail.to.includes(to))
    .map(({ text }) => text)
    .join("\n\n")
    .split(/\r?\n\r?\n/)
    .map((part) => (/^[A-Za-z0-9+/=\s]{60,}$/.test(part) ? Buffer.from(part, "base64").toString() : part))
    .join("\n\n")
    .replace(/(?:=[0-9A-F]{2})+/g, (bytes) => Buffer.from(bytes.replaceAll("=", ""), "hex").toString());

t.test("mails are in the language of the subscription, else of the page", async (t) => {
  await updatePage(owner, page.id, { branding: { language: "auto", languages: ["de", "en", "ar"] } });
  const chosen = { none: undefined, arabic: "ar", french: "fr" } as const;
  for (const [name, language] of Object.entries(chosen)) {
    await subscribe(`${name}@example.org`, { language });
    const { mail, dir } = textsOf(language ?? "de");
    const confirmation = decoded(`${name}@example.org`);
    t.match(confirmation, `<html lang="${language ?? "de"}"${dir === "rtl" ? ' dir="rtl"' : ""}>`, name);
    t.ok(confirmation.includes(mail.confirmText), name);
    const form = await ask("GET", `/status/subscribe?lang=${language ?? "de"}`, undefined, { accept: "text/html" });
    const shown = language === "fr" ? "de" : (language ?? "de");
    t.ok(form.text.includes(textsOf(shown).subscription.subscribe), name);
    t.match(form.text, `name="language" value="${shown}"`, name);
  }
  matchObject(t, await ask("POST", path, { email: "x@example.org", language: "tlh" }), {
    status: 400,
    body: { error: { code: "INVALID_BODY", field: "/language" } },
  });
  const report = { target_id: web, severity: "major", public_title: "Slow", message: "?" } as const;
  const { id } = await reportIncident(owner, report);
  await run();
  for (const [name, language] of Object.entries(chosen)) {
    const { kind, affected } = textsOf(language ?? "de").mail;
    t.match(decoded(`${name}@example.org`), `${kind.investigating}: Slow`, name);
    t.match(decoded(`${name}@example.org`), `${affected}: `, name);
  }
  await resolveIncident(owner, id);
  await updatePage(owner, page.id, { branding: {} });
});

t.test("an address is confirmed by a button, chooses components and ends the subscription", async (t) => {
  const accepted = await ask("POST", path, { email: "Ann@Example.org" });
  t.equal(accepted.status, 202);
  await run();
  const first = lastTo("ann@example.org");
  const token = tokenIn(first.text);
  t.match(first.text, /List-Unsubscribe-Post: List-Unsubscribe=One-Click/i);
  const own = `${path}/${token}`;
  for (const _ of [1, 2]) t.match((await ask("GET", own)).text, /Confirm subscription/);
  matchObject(t, await sql`select state from subscribers`, [{ state: "pending" }], "a GET confirms nothing");
  t.equal((await ask("POST", own, { confirm: true })).status, 204);
  matchObject(t, await sql`select state, component_ids from subscribers`, [{ state: "active", component_ids: null }]);
  t.same(
    (await ask("POST", path, { email: "ann@example.org" })).body,
    accepted.body,
    "the same reply for known and new addresses",
  );
  t.equal(await run(), 0, "no second confirmation");
  matchObject(t, await ask("POST", own, { component_ids: [newId()] }), {
    body: { error: { code: "INVALID_COMPONENT_ID" } },
  });
  t.equal((await ask("POST", own, { component_ids: [api] })).status, 204);
  t.match((await ask("GET", own)).text, /Unsubscribe/);
  const [unsubscribe] = /(?<=List-Unsubscribe:\s*<)[^>]+/i.exec(first.text) ?? [];
  t.equal(unsubscribe, `https://status.example.org${own.replace("/status/", "/status/acme/")}/unsubscribe`);
  for (const method of ["GET", "HEAD"]) {
    const scanned = await fetch(`${ask.origin}${own}/unsubscribe`, { method, redirect: "manual" });
    t.equal(scanned.headers.get("location"), own, `${method} leads to the page of the subscription`);
    t.equal(scanned.headers.get("referrer-policy"), "no-referrer");
  }
  t.equal((await sql`select from subscribers`).length, 1, "a GET ends nothing");
  for (const _ of [1, 2]) t.equal((await ask("POST", `${own}/unsubscribe`, {})).status, 204);
  t.equal((await sql`select from subscribers`).length, 0);
  matchObject(t, (await ask("GET", own)).status, 404);
  t.notOk(
    log.lines.some((line) => JSON.stringify(line).includes("ann@")),
    "no address in the log",
  );
});

t.test("the form works without JavaScript", async (t) => {
  t.match((await ask("GET", "/status/subscribe")).text, /<form method="post" action="\/status\/subscriptions">/);
  const send = async (body: string) =>
    await fetch(`${ask.origin}${path}`, {
      method: "POST",
      redirect: "manual",
      headers: { accept: "text/html", "content-type": "application/x-www-form-urlencoded" },
      body,
    });
  t.equal(
    (await send(`email=bob%40example.org&scope=some&component_ids=${web}`)).headers.get("location"),
    "/status/subscribe?done=mail",
  );
  matchObject(t, await sql`select address, component_ids from subscribers`, [
    { address: "bob@example.org", component_ids: [web] },
  ]);
  t.equal((await send("email=nobody")).headers.get("location"), "/status/subscribe?error=input");
});

t.test("subscribers are sent incidents, updates and ends of their components, each once", async (t) => {
  await subscribe("all@example.org");
  await subscribe("api@example.org", { component_ids: [api] });
  clock.advance(minute);
  const incident = await reportIncident(owner, {
    target_id: web,
    severity: "major",
    public_title: "Payments fail",
    message: "We look into it.",
  });
  await Promise.all([announce(system), announce(system)]);
  await run();
  clock.advance(minute);
  await postUpdate(owner, incident.id, { phase: "identified", message: "A disk is full." });
  await postUpdate(owner, incident.id, { phase: "monitoring", message: "Quiet." }, { notify: false });
  await run();
  clock.advance(minute);
  await resolveIncident(owner, incident.id);
  await run();
  await run();
  t.strictSame(mailsTo("all@example.org"), [
    "Investigating: Payments fail",
    "Identified: Payments fail",
    "Resolved: Payments fail",
  ]);
  t.match(lastTo("all@example.org").text, /https:\/\/status\.example\.org\/status\/acme\/incidents\//);
  t.strictSame(mailsTo("api@example.org"), []);
});

t.test("a page that becomes private stops those who subscribed before, unless they are kept", async (t) => {
  await subscribe("before@example.org");
  const report = async () => {
    clock.advance(minute);
    const incident = { target_id: web, severity: "major", public_title: "Private", message: "?" } as const;
    const { id } = await reportIncident(owner, incident);
    await run();
    await resolveIncident(owner, id);
    await run();
    return mailsTo("before@example.org").length;
  };
  const reached = async () => (await subscribersReached(owner, web)).get(page.id);
  t.strictSame([await reached(), (await subscribersReached(await newOrg(system), web)).size], [1, 0]);
  const first = await report();
  const access = { mode: "password" as const, password: "open sesame", open_networks: ["127.0.0.1"] };
  await updatePage(owner, page.id, { access });
  t.equal((await subscriberCounts(owner, page.id)).outside, 1);
  t.equal(await reached(), 0, "the console says whom an update reaches");
  t.equal(await report(), first, "nothing more");
  await updatePage(owner, page.id, { access: { ...access, keep_subscribers: true } });
  t.equal(await reached(), 1);
  const kept = await report();
  t.ok(kept > first, "those who are kept");
  await updatePage(owner, page.id, { access: { mode: "public" } });
  t.ok((await report()) > kept, "those of a public page");
});

t.test("subscribers are notified when maintenance is scheduled, starts and ends", async (t) => {
  await subscribe("plan@example.org");
  clock.advance(minute);
  const at = (ms: number) => new Date(clock.at + ms).toISOString();
  await createWindow(owner, {
    title: "Upgrade",
    starts_at: at(30 * minute),
    ends_at: at(hour),
    component_ids: [web],
    recurrence: { rule: "FREQ=DAILY;COUNT=2", time_zone: "UTC" },
  });
  for (const _ of [1, 2, 3, 4]) {
    await run();
    clock.advance(20 * minute);
  }
  t.strictSame(mailsTo("plan@example.org"), [
    "Maintenance scheduled: Upgrade",
    "Maintenance started: Upgrade",
    "Maintenance completed: Upgrade",
  ]);
});

t.test("a webhook answers a challenge, and its messages are signed; private addresses are refused", async (t) => {
  t.equal((await ask("POST", path, { webhook_url: `${sink.url}/hook` })).status, 202);
  await run();
  const challenge = JSON.parse(sink.received.at(-1)!.body.toString());
  matchObject(t, challenge, { type: "verification", challenge: String, secret: String, manage_url: String });
  matchObject(t, await sql`select state from subscribers`, [{ state: "active" }]);
  clock.advance(minute);
  await reportIncident(owner, { target_id: api, severity: "minor", public_title: "Slow", message: "We look." });
  await run();
  const sent = sink.received.at(-1)!;
  const sentAt = Number(sent.headers["x-service-timestamp"]) * 1000;
  matchObject(
    t,
    sent.headers,
    webhookSignature(challenge.secret, sentAt, sent.body.toString()),
    "signed with the secret",
  );
  matchObject(t, JSON.parse(sent.body.toString()), {
    type: "update",
    kind: "investigating",
    title: "Slow",
    components: ["API"],
  });
  const guarded = await serve(t, world.system, subscriberRoutes, { public: () => world.system });
  matchObject(t, await guarded("POST", path, { webhook_url: "https://127.0.0.1/hook" }), {
    status: 400,
    body: { error: { code: "SSRF_BLOCKED", field: "/webhook_url" } },
  });
});

t.test("a webhook secret is stored sealed", async (t) => {
  const sealing = { ...system, sealer: makeSealer(Buffer.alloc(32, 7)) };
  const request = await serve(t, sealing, subscriberRoutes, { public: () => sealing });
  await sql`delete from subscribers`;
  t.equal((await request("POST", path, { webhook_url: `${sink.url}/sealed` })).status, 202);
  await sendWebhooks(openWebhookSender(sealing, { ca: sink.ca }));
  const { secret } = JSON.parse(sink.received.at(-1)!.body.toString()) as { secret: string };
  t.match(secret, /^[\w-]{43}$/);
  const [row] = await sql<SecretRow[]>`select id, org_id, secret from subscribers`;
  t.match(row!.secret, /^sealed:1:/);
  t.notOk(row!.secret.includes(secret));
  t.equal(openSecret(sealing, row!), secret);
});

t.test("caps per visitor, address and page; the configured pace", async (t) => {
  const before = mailbox.mails.length;
  for (let times = 0; times < 6; times++) {
    await ask("POST", path, { email: "victim@example.org" });
    clock.advance(11 * minute);
    await run();
  }
  t.equal(mailbox.mails.length - before, 3, "confirmations to one address");
  const outcomes = await Promise.all(
    Array.from({ length: 30 }, async (_, n) => (await ask("POST", path, { email: `u${n}@example.org` })).status),
  );
  t.equal(outcomes.filter((status) => status === 202).length, 10, "concurrent requests of a visitor");
  clock.advance(2 * hour);
  await sql`delete from subscribers`;
  await subscribe("known@example.org");
  const answers = async (email: string) => {
    clock.advance(2 * hour);
    const seen = [];
    for (let n = 0; n < 12; n++) seen.push((await ask("POST", path, { email })).status);
    return seen;
  };
  t.strictSame(await answers("known@example.org"), await answers("new@example.org"), "known and new count alike");
  await sql`delete from subscribers`;
  const at = new Date(clock.at - minute);
  await sql`
    insert into subscribers (id, org_id, page_id, kind, address, token, state, asked_at, created_at,
      confirmed_at)
    select gen_random_uuid(), ${owner.orgId}, ${page.id}, 'email', n || '@example.org', 'token-' || n, 'active',
      ${at}, ${at}, ${at} from generate_series(1, 10000) n`;
  await reportIncident(owner, {
    target_id: web,
    severity: "major",
    public_title: "Everything",
    message: "We look.",
  });
  t.equal(await announce(system), 10_000, "one statement");
  t.equal(await sendMails(system), 20, "600 a minute in runs of two seconds");
});

t.test(
  "a refused mail is retried; a bounce ends the subscription; a page without subscriptions refuses them",
  async (t) => {
    await subscribe("late@example.org");
    clock.advance(minute);
    const open = await sql<{ id: string }[]>`select id from incidents where ended_at is null`;
    for (const { id } of open) await resolveIncident(owner, id);
    await reportIncident(owner, { target_id: web, severity: "major", public_title: "Late", message: "We look." });
    mailbox.refusal = "busy";
    await run();
    mailbox.refusal = null;
    t.notOk(mailsTo("late@example.org").includes("Investigating: Late"));
    clock.advance(minute);
    await run();
    t.ok(mailsTo("late@example.org").includes("Investigating: Late"));
    t.equal(await endSubscriptions(system, "Late@example.org"), 1);
    await updatePage(owner, page.id, { subscriptions_enabled: false });
    t.equal((await ask("POST", path, { email: "off@example.org" })).status, 404);
    await updatePage(owner, page.id, { subscriptions_enabled: true });
  },
);

t.test("owners list masked addresses, export and remove them; a member does not", async (t) => {
  await subscribe("carol@example.org");
  const base = `/api/v1/status-pages/${page.id}/subscribers`;
  const [one] = (await ask("GET", base)).body.items;
  matchObject(t, one, { address: "c…@example.org", state: "active", kind: "email" });
  t.match((await ask("GET", `${base}/export`)).text, /\r\nemail,carol@example.org,/);
  await sql`
    insert into subscribers (id, org_id, page_id, kind, address, token, state, asked_at, created_at)
    select gen_random_uuid(), ${owner.orgId}, ${page.id}, 'email', '=n' || n || '@example.org', 'export ' || n, state,
      now(), now()
    from generate_series(1, 2500) n, unnest(array['active', 'pending']) state where (n % 10 = 0) = (state = 'pending')`;
  const lines = (await ask("GET", `${base}/export`)).text.split("\r\n");
  t.equal(lines[0], "kind,address,created_at,confirmed_at");
  t.equal(
    new Set(lines.filter((line) => /^email,"'=n\d+@example\.org",/.test(line))).size,
    2250,
    "confirmed ones, once",
  );
  t.equal(lines.length, 2250 + 3);
  await sql`delete from subscribers where token like 'export %'`;
  t.equal((await ask("DELETE", `${base}/${one.id}`)).status, 204);
  matchObject(t, await ask("DELETE", `${base}/${one.id}`), {
    status: 404,
    body: { error: { code: "SUBSCRIBER_NOT_FOUND" } },
  });
  const asMember = await serve(t, system, subscriberRoutes, { tenant: () => ({ ...owner, role: "member" as const }) });
  t.equal((await asMember("GET", base)).status, 403);
  clock.advance(3 * day);
});

t.test("imported subscribers are not asked again, and their first message says where they come from", async (t) => {
  const search = await newTarget("Search");
  await addComponent(owner, page.id, { target_id: search });
  const gone = await subscribe("gone@example.org");
  await ask("POST", `${path}/${gone}/unsubscribe`, {});
  await subscribe("here@example.org");
  await ask("POST", path, { email: "waits@example.org" });
  await run();
  const mails = mailbox.mails.length;
  const bring = (items: object[], more: object = {}) =>
    ask("POST", `/api/v1/status-pages/${page.id}/subscribers/import`, {
      items,
      confirmed: true,
      source: "our page at Statuspage",
      ...more,
    });
  const url = `${sink.url}/imported`;
  const { status, body } = await bring([
    { email: "New@Example.org", component_ids: [search] },
    { email: "gone@example.org" },
    { email: "here@example.org" },
    { email: "waits@example.org" },
    { email: "not an address" },
    { email: "new@example.org" },
    { webhook_url: url },
    { webhook_url: "http://hooks.example.org/" },
    { email: "a@example.org", webhook_url: url },
    { email: "b@example.org", component_ids: [newId()] },
  ]);
  t.equal(status, 200);
  matchObject(t, body, {
    imported: 3,
    skipped: [
      { index: 1, reason: "has unsubscribed from this page" },
      { index: 2, reason: "is already subscribed" },
      { index: 4, reason: "is no email address" },
      { index: 5, reason: "is in the list twice" },
      { index: 7, reason: /https/ },
      { index: 8, reason: /exactly one/ },
      { index: 9, reason: /component/ },
    ],
  });
  matchObject(t, (await bring([{ email: "new@example.org" }])).body, { imported: 0, skipped: [{ index: 0 }] });
  await run();
  t.equal(mailbox.mails.length, mails, "nobody is asked to confirm");

  clock.advance(minute);
  const report = { severity: "major", public_title: "Slow", message: "We look." } as const;
  const { id } = await reportIncident(owner, { target_id: search, ...report });
  await run();
  const first = lastTo("new@example.org").text;
  t.match(first, "This address was imported from: our page at Statuspage.");
  t.match(first, /subscriptions\/[\w-]{43}/);
  t.notMatch(lastTo("here@example.org").text, "taken over");
  matchObject(t, JSON.parse(sink.received.at(-1)!.body.toString()), {
    type: "update",
    source: "our page at Statuspage",
  });
  t.strictSame(mailsTo("gone@example.org").length, 0);
  clock.advance(minute);
  await postUpdate(owner, id, { phase: "monitoring", message: "Better." });
  await run();
  t.notMatch(lastTo("new@example.org").text, "taken over");
  t.match(lastTo("new@example.org").text, "Better.");

  await ask("POST", `${path}/${tokenIn(first)}/unsubscribe`, {});
  matchObject(t, (await bring([{ email: "new@example.org" }])).body, { imported: 0 });
  t.equal(await endSubscriptions(system, "here@example.org"), 1);
  matchObject(
    t,
    (await bring([{ email: "here@example.org" }])).body,
    { imported: 0 },
    "an address that bounced stays away",
  );
});

t.test("only owners import, and only with the statement that the addresses are confirmed", async (t) => {
  const items = [{ email: "ann@example.org" }];
  const at = `/api/v1/status-pages/${page.id}/subscribers/import`;
  for (const [json, field] of [
    [{ items, source: "x" }, "/confirmed"],
    [{ items, confirmed: false, source: "x" }, "/confirmed"],
    [{ items, confirmed: true, source: " " }, "/source"],
  ] as const)
    matchObject(t, await ask("POST", at, json), { status: 400, body: { error: { code: "INVALID_BODY", field } } });
  const input = { items, confirmed: true, source: "x" } as const;
  await t.rejects(importSubscribers({ ...owner, role: "member" }, page.id, input), { code: "OWNER_REQUIRED" });
  await t.rejects(importSubscribers(await newOrg(system), page.id, input), { code: "STATUS_PAGE_NOT_FOUND" });
});
