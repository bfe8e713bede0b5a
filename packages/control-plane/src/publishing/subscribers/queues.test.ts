import { type AddressInfo, createServer, type Socket } from "node:net";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import { createChannel, updateChannel } from "../../alerting/channels/service.ts";
import type { Ctx } from "../../platform/context.ts";
import { reportIncident, resolveIncident } from "../../alerting/incidents/lifecycle/service.ts";
import { addComponent } from "../status-pages/components/service.ts";
import { createPage } from "../status-pages/service.ts";
import { createTarget } from "../../monitoring/targets/write/service.ts";
import { day, minute, noon, until } from "../../testing/clock.ts";
import { startMailbox } from "../../testing/mailbox.ts";
import { startSink } from "../../testing/sink.ts";
import { allowPrivate, newOrg, openWorld } from "../../testing/world.ts";
import { announce, openWebhookSender, sendMails, sweepSubscribers } from "./engine.ts";
import { webhookLimits } from "./sender.ts";

/* The queues of messages to subscribers: by kind, page and host, and behind alerts of the same organisation only. */

const mailbox = await startMailbox(t);
const sink = await startSink(t, (request, reply) => {
  const { challenge } = JSON.parse(request.body.toString()) as { challenge?: string };
  reply.writeHead(200).end(challenge ?? "ok");
});
const world = await openWorld(t, { env: { SM_EMAIL__SMTP_URL: mailbox.url } });
const { sql, clock } = world;
clock.at = noon;
const system = allowPrivate(world.system);

/** Accepts connections and stays silent. */
const sockets: Socket[] = [];
const hangs = createServer((socket) => void sockets.push(socket.on("error", () => undefined)));
await new Promise<void>((resolve) => hangs.listen(0, "127.0.0.2", resolve));
t.teardown(() => {
  for (const socket of sockets) socket.destroy();
  hangs.close();
});
const hanging = `https://127.0.0.2:${(hangs.address() as AddressInfo).port}`;

/** An organisation with a page of one component. */
async function newPage(slug: string) {
  const owner: Ctx = { ...(await newOrg(system)), ...system };
  const check = { type: "tcp" as const, host: "shop.example.org", port: 443, timeout: 1000 };
  const { id: target } = await createTarget(owner, { name: "Web", check });
  const { id } = await createPage(owner, { slug, name: slug });
  await addComponent(owner, id, { target_id: target });
  const subscribers = async (addresses: readonly string[], state = "active") => {
    for (const address of addresses) {
      const url = address.includes("@") ? null : new URL(address);
      await sql`
        insert into subscribers (id, org_id, page_id, kind, address, host, token, secret, state, asked_at,
          created_at, confirmed_at, confirm_due_at)
        values (${newId()}, ${owner.orgId}, ${id}, ${url === null ? "email" : "webhook"}, ${address},
          ${url?.hostname ?? ""}, ${newId()}, 'plain:secret', ${state}, ${new Date(clock.at)}, ${new Date(clock.at)},
          ${state === "active" ? new Date(clock.at) : null}, ${state === "active" ? null : new Date(clock.at)})`;
    }
  };
  const report = async () =>
    await reportIncident(owner, { target_id: target, severity: "major", public_title: slug, message: "We look." });
  return { owner, target, subscribers, report };
}

const [acme, other] = [await newPage("acme"), await newPage("other")];
const webhooks = openWebhookSender(system, { ca: sink.ca });
t.teardown(() => webhooks.stop());

t.beforeEach(async () => {
  clock.advance(day);
  await sql`delete from subscribers`;
  await sql`delete from subscriber_messages`;
  const open = await sql<{ id: string; org_id: string }[]>`select id, org_id from incidents where ended_at is null`;
  for (const { id, org_id } of open) await resolveIncident(org_id === acme.owner.orgId ? acme.owner : other.owner, id);
  sink.received.length = 0;
});

t.test("only an alert that could be sent now goes first, and only before mails of its organisation", async (t) => {
  const channelOf = async (name: string) =>
    (await createChannel(acme.owner, { name, config: { type: "webhook", url: sink.url, headers: {}, secret: null } }))
      .id;
  const channel = await channelOf("Ops");
  await acme.subscribers(["ann@acme.example"]);
  await other.subscribers(["bob@other.example"]);
  const { id: incident } = await acme.report();
  const alert = async (more: { seq?: number; attempts?: number; nextAt?: number; leased?: boolean }) =>
    await sql`
      insert into deliveries (id, org_id, incident_id, channel_id, channel_name, channel_kind, reason, seq, notice,
        state, created_at, next_attempt_at, attempt_count, leased_until)
      values (${newId()}, ${acme.owner.orgId}, ${incident}, ${channel}, 'Ops', 'webhook', 'reminder', ${more.seq ?? 0},
        '{}', 'pending', ${new Date(clock.at - minute)}, ${new Date(more.nextAt ?? clock.at - minute)},
        ${more.attempts ?? 0}, ${more.leased === true ? new Date(clock.at + minute) : null})`;
  const health = async (column: "failing_since" | "paused_until", at: number | null) =>
    await sql`
      insert into channel_health ${sql({ channel_id: channel, [column]: at === null ? null : new Date(at) })}
      on conflict (channel_id) do update set ${sql(column)} = excluded.${sql(column)}`;
  /** Names of the pages whose mail is sent. */
  const sent = async () => {
    await sql`delete from subscriber_messages`;
    await announce(system);
    const before = mailbox.mails.length;
    await sendMails(system);
    return mailbox.mails.slice(before).map(({ to }) => to[0]!);
  };
  const everyone = ["ann@acme.example", "bob@other.example"];
  await other.report();

  await alert({});
  t.strictSame(await sent(), ["bob@other.example"], "an alert that could be sent");
  for (const [words, begin, end] of [
    ["its channel fails", () => health("failing_since", clock.at - minute), () => health("failing_since", null)],
    ["its receiver wants a pause", () => health("paused_until", clock.at + minute), () => health("paused_until", null)],
    [
      "its channel is disabled",
      () => updateChannel(acme.owner, channel, { enabled: false }),
      () => updateChannel(acme.owner, channel, { enabled: true }),
    ],
  ] as const) {
    await begin();
    t.strictSame((await sent()).toSorted(), everyone, words);
    await end();
    t.strictSame(await sent(), ["bob@other.example"], "until then");
  }
  await sql`delete from deliveries`;
  await alert({ attempts: 2, nextAt: clock.at + minute });
  await alert({ seq: 1 });
  t.strictSame((await sent()).toSorted(), everyone, "it waits for an older one that is retried later");
  await sql`delete from deliveries`;
  await alert({ leased: true });
  await alert({ seq: 1 });
  t.strictSame((await sent()).toSorted(), everyone, "one is in flight");
  await sql`delete from deliveries`;
});

t.test("hanging webhooks of one page delay neither mails nor webhooks of another", async (t) => {
  await other.subscribers(Array.from({ length: 40 }, (_, n) => `${hanging}/${n}`));
  await other.report();
  await announce(system);
  clock.advance(1000);
  await acme.subscribers([`${sink.url}/good`, `${hanging}/own`, "ann@acme.example"]);
  clock.advance(1000);
  await acme.report();
  await announce(system);
  t.equal(await sendMails(system), 1, "the mail");
  t.equal(await webhooks.start(), webhookLimits.host.fast + 1, "places of the hanging host, and the other host");
  await until(() => sink.received.length === 1 && sockets.length === webhookLimits.host.fast, "the good webhook");
  const tried = await sql`select distinct page_id from subscriber_deliveries where host = '127.0.0.2' and attempts > 0`;
  t.equal(tried.length, 2, "pages take turns at one host");
  clock.advance(2000);
  await sql`update subscriber_deliveries set due_at = ${new Date(clock.at)} where host = '127.0.0.1'`;
  t.equal(await webhooks.start(), 1, "a host that hangs has no more places");
  await until(() => sink.received.length === 2, "the good webhook again");
  for (const socket of sockets) socket.destroy();
  await webhooks.ended();
  t.equal(await webhooks.start(), webhookLimits.host.slow, "it is set aside: one request at a time");
  for (const socket of sockets) socket.destroy();
  await webhooks.ended();
  clock.advance(2 * day);
  await sweepSubscribers(system);
  t.equal(
    (await sql`select from subscriber_deliveries where due_at is not null`).length,
    0,
    "and given up after a day",
  );
});

t.test("challenges have places of their own, and 3 s; confirmations leave room for messages", async (t) => {
  await other.subscribers([`${hanging}/a`], "pending");
  await other.subscribers([`${sink.url}/b`]);
  await other.report();
  await announce(system);
  t.equal(await webhooks.start(), 2);
  await webhooks.ended();
  t.equal(sink.received.length, 1);
  const { lines } = world.log;
  matchObject(
    t,
    lines.findLast((line) => JSON.stringify(line).includes("could not be sent")),
    { fields: { reason: "no answer within 3 s" } },
  );
  await other.subscribers(
    Array.from({ length: 30 }, (_, n) => `new${n}@other.example`),
    "pending",
  );
  await other.subscribers(Array.from({ length: 30 }, (_, n) => `${n}@other.example`));
  await sql`delete from subscriber_messages`;
  await announce(system);
  const before = mailbox.mails.length;
  t.equal(await sendMails(system), 20);
  const confirmations = mailbox.mails.slice(before).filter(({ to }) => to[0]!.startsWith("new")).length;
  t.equal(confirmations, 10);
});

t.test("pages take turns at the pace of mails", async (t) => {
  await other.subscribers(Array.from({ length: 60 }, (_, n) => `${n}@other.example`));
  await other.report();
  await announce(system);
  clock.advance(1000);
  await acme.subscribers(["ann@acme.example"]);
  clock.advance(1000);
  await acme.report();
  await announce(system);
  const before = mailbox.mails.length;
  t.equal(await sendMails(system), 20);
  t.ok(mailbox.mails.slice(before).some(({ to }) => to.includes("ann@acme.example")));
});
