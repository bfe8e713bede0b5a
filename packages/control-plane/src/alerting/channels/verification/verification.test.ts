import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import { validate } from "@statusmesh/shared/schema/validate";
import type { Ctx } from "../../../platform/context.ts";
import type { Notice } from "../sending/content.ts";
import { createOutbound } from "../../../platform/outbound/client.ts";
import { mailLinkRoutes } from "../../channel-links/api.ts";
import { serve } from "../../../testing/app.ts";
import { day, hour } from "../../../testing/clock.ts";
import { type ReceivedMail, startMailbox } from "../../../testing/mailbox.ts";
import { newOrg, openWorld, refusal } from "../../../testing/world.ts";
import { ChannelCreate, ChannelPatch } from "../schema.ts";
import { createChannel, deleteChannel, getChannel, updateChannel } from "../service.ts";
import { pendingVerification, purgeVerifications, resendVerification, subscribedAddress } from "./service.ts";
import { sendThrough, testChannel, testConfig } from "../sending/service.ts";

const mailbox = await startMailbox(t);
const { sql, clock, system, log } = await openWorld(t, { env: { SM_EMAIL__SMTP_URL: mailbox.url } });
const post = await serve(t, system, mailLinkRoutes);
const http = createOutbound({ allowPrivate: false, clock });

const input = (name: string, to: string) => validate(ChannelCreate, { name, config: { type: "email", to } });
const pathIn = (mail: ReceivedMail | undefined): string => /\/(?:confirm|unsubscribe)\/[\w/-]+/.exec(mail!.text)![0];
const codeIn = (mail: ReceivedMail | undefined): string => pathIn(mail).split("/").at(-1)!;
const lastTo = (to: string) => mailbox.mails.findLast((mail) => mail.to.includes(to));
const notice: Notice = {
  incident_id: "0190a000-0000-7000-8000-000000000001",
  target_id: "0190a000-0000-7000-8000-000000000002",
  monitor_name: "Checkout\r\nBcc: evil@example.org",
  reason: "opened",
  severity: "major",
  urgency: "high",
  started_at: "2026-11-20T13:02:00.000Z",
  ended_at: null,
  outage_since: null,
  duration_secs: null,
  error_sample: "connection refused <script>alert(1)</script>",
  regions_down: ["Frankfurt"],
  regions_up: [],
  url: "https://status.example.org/incidents/0190a000-0000-7000-8000-000000000001",
};

/** Delivers a notice through the stored row, as the outbox does. */
async function deliver(id: string): Promise<number | null> {
  const [channel] = await sql`select id, org_id, kind, config from channels where id = ${id}`;
  const message = { deliveryId: id, content: { kind: "notice" as const, notice }, sentAt: clock.now() };
  return await sendThrough(system, channel as never, message, http);
}

t.test("an email channel sends nothing before its address is confirmed by the button of the page", async (t) => {
  const owner = await newOrg(system);
  const made = await createChannel(owner, input("Mail", "oncall@example.org"));
  t.equal(made.verified, false);
  t.strictSame(made.config, { type: "email", to: "oncall@example.org" }, "the address is no secret");
  const mail = lastTo("oncall@example.org");
  t.match(mail?.text, /Acme wants to send/);
  t.match(mail?.text, /multipart\/alternative/);
  const path = pathIn(mail);
  matchObject(t, await refusal(t, () => testChannel(owner, made.id)), {
    code: "CHANNEL_UNVERIFIED",
    message: /not verified/,
  });
  matchObject(t, await refusal(t, () => testConfig(owner, input("x", "oncall@example.org"))), {
    code: "CHANNEL_UNVERIFIED",
  });
  await t.rejects(deliver(made.id), { name: "DeliveryError", message: "email address not verified", permanent: false });
  t.strictSame(await pendingVerification(system, codeIn(mail)), { address: "oncall@example.org", org: "Acme" });
  t.equal((await getChannel(owner, made.id)).verified, false, "looking changes nothing");

  const [codes] =
    await sql`select encode(code_hash, 'base64') as hash from channel_verifications where channel_id = ${made.id}`;
  t.notMatch(codes?.["hash"], codeIn(mail).slice(0, 20), "the code is stored as a hash");
  const both = await Promise.all([post("POST", path), post("POST", path)]);
  t.strictSame(both.map(({ status }) => status).sort(), [204, 404], "a link works once");
  t.equal((await getChannel(owner, made.id)).verified, true);
  matchObject(
    t,
    await sql`
      select action, actor_type, user_id from audit_log
      where resource_id = ${made.id} and action = 'POST /confirm/{code}'`,
    [{ actor_type: "system", user_id: null }],
  );
  await testChannel(owner, made.id);
  t.match(lastTo("oncall@example.org")?.text, /Subject: Test message from StatusMesh/);
  t.equal(await deliver(made.id), null);
  t.notMatch(JSON.stringify(log.lines), codeIn(mail), "no log line has a code");
});

t.test("a notification by mail: headers, HTML that is text, one-click unsubscription", async (t) => {
  const owner = await newOrg(system);
  const { id } = await createChannel(owner, input("Mail", "reader@example.org"));
  await post("POST", pathIn(lastTo("reader@example.org")));
  await deliver(id);
  const { text } = lastTo("reader@example.org")!;
  t.match(text, "2026-11-20 13:02 UTC");
  t.match(text, /^Subject: Down: Checkout Bcc: evil@example\.org\r?$/m, "a line break in a name begins no header");
  t.notMatch(text, /^Bcc:/m);
  t.match(text, /^Auto-Submitted: auto-generated\r?$/m);
  t.match(text, /^List-Unsubscribe-Post: List-Unsubscribe=One-Click\r?$/m);
  const html = text.slice(text.indexOf("<!doctype html>"));
  t.notMatch(html, "<script>");
  t.match(html, "&lt;script&gt;");
  t.notMatch(html, /<(?:img|link|script|iframe)/i, "nothing is loaded");

  const path = /unsubscribe\/[\w/-]+/.exec(text.replaceAll(/\r?\n\s/g, ""))![0];
  const [, , proof] = path.split("/");
  t.equal(await subscribedAddress(system, id, proof!), "reader@example.org");
  for (const forged of [
    `/unsubscribe/${id}/${proof!.slice(0, -2)}xx`,
    `/unsubscribe/no-id/${proof}`,
    `/unsubscribe/${owner.orgId}/${proof}`,
  ])
    matchObject(t, await post("POST", forged), { status: 404, body: { error: { code: "CHANNEL_LINK_INVALID" } } });
  matchObject(t, await post("POST", `/${path}`), { status: 204 });
  matchObject(t, await getChannel(owner, id), {
    enabled: false,
    verified: false,
    disabled_reason: "the recipient unsubscribed",
  });
  matchObject(t, await post("POST", `/${path}`), { status: 404 });
  const again = await updateChannel(owner, id, { enabled: true });
  matchObject(t, again, { enabled: true, verified: false, disabled_reason: null }, "the address has to confirm again");
  await t.rejects(deliver(id), { message: "email address not verified" });
});

t.test("browsers without scripts get the page back", async (t) => {
  const owner = await newOrg(system);
  await createChannel(owner, input("Mail", "browser@example.org"));
  const path = pathIn(lastTo("browser@example.org"));
  const html = { accept: "text/html,*/*" };
  const first = await post("POST", path, undefined, html);
  matchObject(t, [first.status, first.headers.get("location")], [303, `${path}?done=1`]);
  const second = await post("POST", path, undefined, html);
  matchObject(t, [second.status, second.headers.get("location")], [303, path]);

  await createChannel(owner, input("Form", "form@example.org"));
  const form = { "content-type": "application/x-www-form-urlencoded", accept: "*/*" };
  const other = pathIn(lastTo("form@example.org"));
  const sent = await post("POST", other, undefined, form);
  matchObject(t, [sent.status, sent.headers.get("location")], [303, `${other}?done=1`], "a form, whatever it accepts");
});

t.test("a replaced config resets the gate, and links of the old address are dead", async (t) => {
  const owner = await newOrg(system);
  const { id } = await createChannel(owner, input("Mail", "first@example.org"));
  const old = pathIn(lastTo("first@example.org"));
  const patch = (to: string) => updateChannel(owner, id, validate(ChannelPatch, { config: { type: "email", to } }));
  await patch("second@example.org");
  matchObject(t, await post("POST", old), { status: 404 });
  await patch("first@example.org");
  matchObject(t, await post("POST", old), { status: 404 }, "also when the address comes back");
  await post("POST", pathIn(lastTo("first@example.org")));
  t.equal((await getChannel(owner, id)).verified, true);
  t.equal((await updateChannel(owner, id, { name: "Renamed" })).verified, true, "other edits keep it");
  t.equal((await patch("first@example.org")).verified, false, "the same address has to confirm again");
  await updateChannel(
    owner,
    id,
    validate(ChannelPatch, { config: { type: "webhook", url: "https://hooks.example.org/" } }),
  );
  matchObject(t, await post("POST", pathIn(lastTo("first@example.org"))), { status: 404 });
  matchObject(t, await getChannel(owner, id), { verified: null });
});

t.test("a link is valid for 24 hours, while its channel and organisation exist", async (t) => {
  const owner = await newOrg(system);
  const made = async (to: string) => {
    const { id } = await createChannel(owner, input(to, to));
    return { id, path: pathIn(lastTo(to)) };
  };
  const [late, gone, closed] = [
    await made("late@example.org"),
    await made("gone@example.org"),
    await made("closed@example.org"),
  ];
  await deleteChannel(owner, gone.id);
  matchObject(t, await post("POST", gone.path), { status: 404 });
  clock.advance(day - 1);
  t.not(await pendingVerification(system, late.path.split("/").at(-1)!), null);
  clock.advance(1);
  matchObject(t, await post("POST", late.path), { status: 404 });
  clock.advance(-hour);
  await sql`update orgs set deleted_at = now() where id = ${owner.orgId}`;
  matchObject(t, await post("POST", closed.path), { status: 404 });
});

t.test("mails are sent again 5 times a day for a channel and 20 times for an organisation", async (t) => {
  const owner = await newOrg(system);
  const outsider = await newOrg(system);
  const ids: string[] = [];
  for (let at = 0; at < 5; at++) ids.push((await createChannel(owner, input(`Mail ${at}`, `m${at}@example.org`))).id);
  const again = (ctx: Ctx, id: string) => refusal(t, () => resendVerification(ctx, id));
  matchObject(t, await again(outsider, ids[0]!), { code: "CHANNEL_NOT_FOUND" });
  const race = await Promise.allSettled(Array.from({ length: 8 }, () => resendVerification(owner, ids[0]!)));
  t.equal(race.filter(({ status }) => status === "fulfilled").length, 5, "exactly five of eight at once");
  matchObject(t, await again(owner, ids[0]!), {
    code: "CHANNEL_VERIFICATION_LIMIT",
    details: { scope: "channel", limit: 5 },
  });
  for (let sent = 5; sent < 20; sent++)
    matchObject(t, await resendVerification(owner, ids[Math.floor(sent / 5)]!), { mail: "sent" });
  matchObject(t, await again(owner, ids[4]!), {
    code: "CHANNEL_VERIFICATION_LIMIT",
    details: { scope: "organisation", limit: 20 },
  });
  await deleteChannel(owner, ids[0]!);
  matchObject(
    t,
    await again(owner, ids[4]!),
    { code: "CHANNEL_VERIFICATION_LIMIT" },
    "deleting a channel gives no room",
  );
  const first = mailbox.mails.find((mail) => mail.to.includes("m1@example.org"));
  matchObject(t, await post("POST", pathIn(first)), { status: 204 }, "any of the mails confirms");
  matchObject(t, await again(owner, ids[1]!), { code: "CHANNEL_NOT_VERIFIABLE" });
  clock.advance(day);
  await resendVerification(owner, ids[4]!);
  const { id } = await createChannel(
    owner,
    validate(ChannelCreate, { name: "Hook", config: { type: "webhook", url: "https://hooks.example.org/" } }),
  );
  matchObject(t, await again(owner, id), { code: "CHANNEL_NOT_VERIFIABLE" });
});

t.test("mails with unusable links are purged after a week; the proof of a verified address stays", async (t) => {
  const owner = await newOrg(system);
  const { id } = await createChannel(owner, input("Kept", "kept@example.org"));
  for (const address of ["kept@example.org", "old@example.org"])
    await sql`
      insert into channel_verifications
        (id, org_id, channel_id, address, code_hash, resent, created_at, expires_at, confirmed_at)
      values (${newId()}, ${owner.orgId}, ${id}, ${address}, ${Buffer.from(newId())}, false,
              ${new Date(clock.now())}, ${new Date(clock.now() + day)}, ${new Date(clock.now())})`;
  const left = async () => [
    ...(await sql`
      select address, confirmed_at is not null as confirmed from channel_verifications where channel_id = ${id}`),
  ];
  await purgeVerifications(system);
  t.equal((await left()).length, 3, "within a week nothing is deleted");
  clock.advance(8 * day);
  t.ok((await purgeVerifications(system)) >= 2);
  t.strictSame(await left(), [{ address: "kept@example.org", confirmed: true }]);
  t.equal(await purgeVerifications(system), 0);
});

t.test("a loop of creations cannot flood a mailbox", async (t) => {
  const owner = await newOrg(system);
  const { id } = await createChannel(owner, input("Mail", "flood@example.org"));
  for (let sent = 1; sent < 100; sent++)
    await sql`
      insert into channel_verifications (id, org_id, channel_id, address, code_hash, resent, created_at, expires_at)
      values (${newId()}, ${owner.orgId}, ${id}, 'flood@example.org', ${Buffer.from(newId())}, false,
              ${new Date(clock.now())}, ${new Date(clock.now())})`;
  const before = mailbox.mails.length;
  matchObject(t, await refusal(t, () => createChannel(owner, input("More", "flood@example.org"))), {
    code: "CHANNEL_VERIFICATION_LIMIT",
  });
  t.equal(mailbox.mails.length, before);
});

t.test("texts that are not one address are refused", async (t) => {
  const owner = await newOrg(system);
  for (const to of [
    "a@b@c",
    "a@example.org, b@example.org",
    "ops",
    "Ops <ops@example.org>",
    " ops@example.org",
    "ops@-x.org",
    `${"a".repeat(65)}@example.org`,
  ])
    matchObject(
      t,
      await refusal(t, async () => createChannel(owner, input("x", to))),
      { code: "INVALID_CHANNEL_CONFIG", field: "/config/to" },
      to,
    );
});
