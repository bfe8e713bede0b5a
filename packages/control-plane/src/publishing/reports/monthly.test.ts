import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import { updateOrg } from "../../access/orgs/service.ts";
import { createChannel, deleteChannel, updateChannel } from "../../alerting/channels/service.ts";
import { createTarget } from "../../monitoring/targets/write/service.ts";
import type { Ctx, System } from "../../platform/context.ts";
import { arrayOf } from "../../platform/db/client/sql.ts";
import { day, hour, minute } from "../../testing/clock.ts";
import { startMailbox } from "../../testing/mailbox.ts";
import { addIncident, webhookTo } from "../../testing/scene.ts";
import { newOrg, openWorld, refusal } from "../../testing/world.ts";
import { addComponent } from "../status-pages/components/components.ts";
import { createPage } from "../status-pages/service.ts";
import { dueMonth, sendMonthlyReports } from "./monthly.ts";
import { leaseMail } from "./recipient-queries.ts";
import { addRecipient, listRecipients, removeRecipient } from "./recipients.ts";

const mailbox = await startMailbox(t);
const world = await openWorld(t, { env: { SM_EMAIL__SMTP_URL: mailbox.url } });
const { sql, clock, system } = world;
const replicas: System[] = [system, { ...system, sql: world.pool(4) }];
let owner: Ctx;

t.beforeEach(async () => {
  clock.at = Date.parse("2026-10-20T12:00:00Z");
  mailbox.mails.length = 0;
  mailbox.refusal = null;
  await sql`delete from report_recipients`;
  owner = await newOrg(system);
  const effects = { existingChannels: async () => new Set<string>(), rescheduleLadders: async () => {} };
  await updateOrg(owner, owner.orgId, { timezone: "Europe/Berlin" }, effects);
});

/** A mail channel whose address is confirmed. */
async function mailChannel(name = newId() as string): Promise<string> {
  const { id } = await createChannel(owner, { name, config: { type: "email", to: `${name}@example.org` } });
  await sql`update channels set verified_at = now() where id = ${id}`;
  await sql`update channel_verifications set confirmed_at = now() where channel_id = ${id}`;
  mailbox.mails.length = 0;
  return id;
}

/** Both replicas at once. */
const run = async () =>
  (await Promise.all(replicas.map((replica) => sendMonthlyReports(replica)))).reduce((sum, sent) => sum + sent);
const subjects = () => mailbox.mails.map(({ text }) => /^Subject: (.*)$/m.exec(text)![1]);
const idsOf = () => mailbox.mails.map(({ text }) => /^Message-ID:\s*(<[^>]+>)/im.exec(text)![1]);
const last = async () => (await listRecipients(owner, { limit: 10, offset: 0 })).items[0]!.last_mail;

t.test("one mail a month from the first at 08:00, over a year with changes of clocks, on two replicas", async (t) => {
  await addRecipient(owner, { channel_id: await mailChannel() });
  const end = Date.parse("2027-11-02T00:00:00Z");
  const sentAt: string[] = [];
  // An hour of every day, and each first of a month before and after the time.
  for (; clock.at < end; clock.advance(12 * hour)) {
    const { dueAt } = dueMonth("Europe/Berlin", clock.at + 12 * hour);
    if (dueAt > clock.at && dueAt <= clock.at + 12 * hour) {
      clock.at = dueAt - 1;
      t.equal(await run(), 0);
      clock.at = dueAt;
      t.equal(await run(), 1);
      sentAt.push(new Date(clock.at).toISOString().slice(0, 13));
    }
    if ((await run()) > 0) t.fail(`due again at ${new Date(clock.at).toISOString()}`);
  }
  t.strictSame(
    sentAt,
    [7, 7, 7, 7, 7, 6, 6, 6, 6, 6, 6, 6, 7].map(
      (at, n) => `${new Date(Date.UTC(2026, 10 + n)).toISOString().slice(0, 10)}T0${at}`,
    ),
    "08:00 in Berlin",
  );
  t.strictSame(
    subjects().map((subject) => subject!.split(":")[0]),
    ["October 2026", "November 2026", "December 2026", "January 2027", "February 2027", "March 2027", "April 2027"]
      .concat(["May 2027", "June 2027", "July 2027", "August 2027", "September 2027", "October 2027"])
      .map((month) => `Uptime in ${month}`),
  );
  t.equal(new Set(idsOf()).size, 13);
});

t.test("a mail has the figures and gaps of the month before, and the link to the report", async (t) => {
  const check = { type: "tcp", host: "db.example.org", port: 5432, timeout: 10_000 } as const;
  const [shop, idle] = [
    (await createTarget(owner, { name: "<Shop>", check, tags: ["shop"] })).id,
    (await createTarget(owner, { name: "Idle", check })).id,
  ];
  const begin = Date.parse("2026-09-30T22:00:00Z");
  await sql`update targets set created_at = ${new Date(begin - 100 * day)} where org_id = ${owner.orgId}`;
  // October has 745 hours in Berlin; a day in it has no checks.
  const hours = Array.from({ length: 745 }, (_, n) => begin + n * hour).filter(
    (at) => at < begin + 50 * hour || at >= begin + 98 * hour,
  );
  await sql`
    insert into results_hourly (target_id, hour, region, up, down, degraded, error)
    select ${shop}, h, 'eu', 60, 0, 0, 0
    from unnest(${arrayOf(hours.map((at) => new Date(at).toISOString()))}::timestamptz[]) h`;
  await sql`
    insert into results_daily (target_id, day, up, down, degraded, error)
    select target_id, (hour at time zone 'UTC')::date, sum(up), 0, 0, 0 from results_hourly group by 1, 2`;
  await sql`delete from rollup_progress`;
  await sql`insert into rollup_progress (next_hour) values (${new Date(begin + 745 * hour)})`;
  await addIncident(owner, shop, {
    started: begin + 10 * hour,
    ended: begin + 11 * hour,
    impact: "major_outage",
    severity: "major",
    retracted: false,
  });
  const page = await createPage(owner, { slug: `s-${owner.orgId.slice(-12)}`, name: "Acme status" });
  await addComponent(owner, page.id, { target_id: shop });
  const ops = await mailChannel("ops");
  await addRecipient(owner, { channel_id: ops });
  await addRecipient(owner, { channel_id: ops, page_id: page.id });
  await addRecipient(owner, { channel_id: ops, tag: "shop" });
  await addRecipient(owner, { channel_id: ops, tag: "gone" });
  await t.rejects(addRecipient(owner, { channel_id: ops, tag: "shop" }), { code: "INVALID_REPORT_RECIPIENT" });
  clock.at = Date.parse("2026-11-01T12:00:00Z");
  t.equal(await run(), 4);
  const found = (about: string) => mailbox.mails.find(({ text }) => text.includes(`Uptime of ${about} in`))!;
  const link = `${system.config.server.public_url}/reports/uptime?from=2026-10-01&to=2026-10-31&group_by=`;
  const counted = 745 - 48;
  const pct = Math.floor((100 - 100 / counted) * 10_000) / 10_000;
  for (const [about, group] of [
    ["the status page Acme status", "page"],
    ["the tag shop", "tag"],
  ] as const) {
    const { text, to } = found(about);
    t.strictSame(to, ["ops@example.org"]);
    for (const line of [
      `Uptime: ${pct} %`,
      "Downtime: 1 h",
      "Incidents: 1",
      `Checks: ${(counted * 60).toLocaleString("en")}`,
      "Gaps: 3 Oct 2026 02:00 to 5 Oct 2026 02:00",
      `${link}${group}`,
      "List-Unsubscribe:",
    ])
      t.ok(text.includes(line), `${about}: ${line}`);
  }
  const { text } = found("Acme");
  t.match(text, /2 monitors, the lowest uptime first/);
  t.ok(text.includes(`${pct} %: <Shop>: 1 h of downtime, 1 incident, 2 d without checks`));
  t.ok(text.includes("Not measured: Idle: 31 d 1 h without checks"));
  t.ok(text.includes(`${link}target`));
  t.ok(text.includes("&lt;Shop&gt;"), "escaped in HTML");
  t.match(found("the tag gone").text, /No monitor has this tag any more/);
  t.ok(idle);
});

t.test("the mail of a tag or page reads the monitors of that report only", async (t) => {
  const check = { type: "tcp", host: "db.example.org", port: 5432, timeout: 10_000 } as const;
  const make = async (name: string) => (await createTarget(owner, { name, check, tags: [name] })).id;
  const [shop, other] = [await make("shop"), await make("other")];
  const channel_id = await mailChannel();
  const pages = [];
  for (const target_id of [shop, other]) {
    const page = await createPage(owner, { slug: `${target_id.slice(-12)}`, name: target_id });
    await addComponent(owner, page.id, { target_id });
    pages.push(page.id);
  }
  const read: string[] = [];
  const counting = new Proxy(sql, {
    apply(target, that, args: [TemplateStringsArray, ...unknown[]]) {
      read.push(...args.slice(1).map(String));
      return Reflect.apply(target, that, args) as unknown;
    },
  });
  clock.at = Date.parse("2026-11-01T12:00:00Z");
  for (const about of [{ tag: "shop" }, { page_id: pages[0]! }]) {
    await sql`delete from report_recipients`;
    clock.at = Date.parse("2026-10-20T12:00:00Z");
    await addRecipient(owner, { channel_id, ...about });
    clock.at = Date.parse("2026-11-01T12:00:00Z");
    read.length = 0;
    t.equal(await sendMonthlyReports({ ...system, sql: counting }), 1);
    t.ok(read.some((value) => value.includes(shop)));
    t.notOk(
      read.some((value) => value.includes(other)),
      "no statement names another monitor",
    );
  }
});

t.test("a replica that is killed loses its lease, and the other one sends the mail", async (t) => {
  const { id } = await addRecipient(owner, { channel_id: await mailChannel() });
  clock.at = Date.parse("2026-11-01T07:00:00Z");
  const lease = new Date(clock.at + 15 * minute);
  t.equal(await leaseMail(sql, { id, month: "2026-10-01" }, new Date(clock.at), lease), 1);
  clock.advance(15 * minute - 1);
  t.equal(await run(), 0);
  clock.advance(1);
  t.equal(await run(), 1);
  matchObject(t, await last(), { month: "2026-10", state: "sent", error: null });
  t.equal(mailbox.mails.length, 1);
});

t.test("a mail that is sent and not recorded comes again with the same id", async (t) => {
  await addRecipient(owner, { channel_id: await mailChannel() });
  clock.at = Date.parse("2026-11-01T07:00:00Z");
  const cut = world.pool(1);
  const killed = new Proxy(cut, {
    apply(target, that, args: [TemplateStringsArray, ...unknown[]]) {
      // The server has the mail; the process ends before it records that.
      if (mailbox.mails.length > 0) throw Object.assign(new Error("killed"), { code: "CONNECTION_CLOSED" });
      return Reflect.apply(target, that, args) as unknown;
    },
  });
  await t.rejects(sendMonthlyReports({ ...system, sql: killed }), /killed/);
  t.equal(await run(), 0);
  clock.advance(15 * minute);
  t.equal(await run(), 1);
  t.equal(mailbox.mails.length, 2);
  t.equal(new Set(idsOf()).size, 1);
  t.equal(await run(), 0);
});

t.test("a refusal for good ends the month; a server that is away is tried for three days", async (t) => {
  await addRecipient(owner, { channel_id: await mailChannel() });
  clock.at = Date.parse("2026-11-01T07:00:00Z");
  mailbox.refusal = "no such mailbox";
  t.equal(await run(), 0);
  matchObject(t, await last(), { state: "failed", error: /no such mailbox/ });
  mailbox.refusal = null;
  clock.advance(7 * day);
  t.equal(await run(), 0);
  clock.at = Date.parse("2026-12-01T07:00:00Z");
  const away = { ...system, config: { ...system.config, email: { ...system.config.email, smtp_url: "" } } };
  let attempts = 0;
  for (; (await last())?.state !== "failed" || (await last())?.month !== "2026-11"; clock.advance(73 * minute)) {
    await sendMonthlyReports(away);
    attempts++;
  }
  t.ok(attempts > 60 && attempts < 100, `${attempts} attempts`);
  clock.at = Date.parse("2027-01-01T07:00:00Z");
  t.equal(await run(), 1, "the next month");
});

t.test("disabled and deleted channels get nothing; a zone that moves back sends no month twice", async (t) => {
  const [off, gone, kept] = [await mailChannel(), await mailChannel(), await mailChannel()];
  for (const channel_id of [off, gone, kept]) await addRecipient(owner, { channel_id });
  await updateChannel(owner, off, { enabled: false });
  await deleteChannel(owner, gone);
  clock.at = Date.parse("2026-11-01T07:00:00Z");
  t.equal(await run(), 1);
  const late = await addRecipient(owner, { channel_id: await mailChannel() });
  t.equal(await run(), 0, "one that is added after the time waits for the next month");
  await removeRecipient(owner, late.id);
  await sql`update orgs set timezone = 'Pacific/Honolulu' where id = ${owner.orgId}`;
  t.equal(await run(), 0);
  await sql`update orgs set deleted_at = now() where id = ${owner.orgId}`;
  clock.at = Date.parse("2026-12-02T00:00:00Z");
  t.equal(await run(), 0, "a deleted organisation");
});

t.test("who may be a recipient", async (t) => {
  const refused = async (input: object, message: RegExp, field: string) =>
    matchObject(t, await refusal(t, () => addRecipient(owner, { channel_id: channel, ...input })), {
      code: "INVALID_REPORT_RECIPIENT",
      message,
      field,
    });
  const channel = await mailChannel();
  const hook = await webhookTo(owner, "https://hooks.example.org/");
  const { id: fresh } = await createChannel(owner, { name: "New", config: { type: "email", to: "n@example.org" } });
  const stranger = await newOrg(system);
  const theirs = await createPage(stranger, { slug: `t-${stranger.orgId.slice(-12)}`, name: "Theirs" });
  await refused({ channel_id: hook }, /is not an email channel/, "/channel_id");
  await refused({ channel_id: fresh }, /not confirmed/, "/channel_id");
  await refused({ channel_id: newId() }, /Channel not found/, "/channel_id");
  await refused({ page_id: theirs.id }, /Status page not found/, "/page_id");
  await refused({ page_id: theirs.id, tag: "x" }, /not both/, "/tag");
  const scoped = (...scopes: string[]) => ({ ...owner, scopes: new Set(scopes) });
  for (const ctx of [scoped("channels:read"), scoped("channels:write"), { ...scoped(), role: "viewer" as const }])
    matchObject(t, await refusal(t, () => addRecipient(ctx, { channel_id: channel })), { code: "INSUFFICIENT_SCOPE" });
  const one = await addRecipient(owner, { channel_id: channel.toUpperCase() });
  matchObject(t, one, { channel_id: channel, page_id: null, tag: null, last_mail: null });
  matchObject(t, await refusal(t, () => removeRecipient(stranger, one.id)), { code: "REPORT_RECIPIENT_NOT_FOUND" });
  t.equal((await listRecipients(stranger, { limit: 10, offset: 0 })).total, 0);
  for (let more = 1; more < 100; more++) await addRecipient(owner, { channel_id: channel, tag: `t${more}` });
  await refused({ tag: "one more" }, /100 recipients/, "/channel_id");
});
