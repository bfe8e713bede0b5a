import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { createChannel, updateChannel } from "../../channels/service.ts";
import { roundKinds } from "../../channels/sending/service.ts";
import { until } from "../../../testing/clock.ts";
import { deliveryScene, type OwnedWorld } from "../../../testing/deliveries.ts";
import { fail, incidentsOf, type Pair, phone, recover, say, slack } from "../../../testing/rounds.ts";
import { startMailbox } from "../../../testing/mailbox.ts";
import { webhookTo } from "../../../testing/scene.ts";
import { claimDeliveries } from "../sending/claim-queries.ts";
import { openPlaces } from "../sending/limits.ts";
import { collectWaiting, readRound, settleMembers } from "./round-queries.ts";
import { selectStandings } from "../outbox/standing-queries.ts";

/* What comes together leaves together: one message for a channel of people, a row in the log for each incident. */

const { sink, world, deliverer, later, rows } = await deliveryScene(t);
const open = (t: Parameters<typeof world>[0], secs = 30) =>
  world(t, { SM_CHANNELS__ENDPOINTS__SLACK: sink.url, SM_ALERTS__ROUND_SECS: String(secs) });

const texts = () =>
  sink.received
    .filter(({ path }) => path.startsWith("/services"))
    .map(({ body }) => (JSON.parse(body.toString()) as { text: string }).text);
const allDelivered = (w: OwnedWorld) =>
  until(async () => (await rows(w)).every(({ state }) => state === "delivered"), "every delivery");

/** Titles of the messages to the chat so far. */
const titles = () => texts().map((text) => text.split("\n")[0]!.replace(/^\S+ /u, ""));
const sent = async (count: number) => {
  await until(() => texts().length >= count, `${count} messages`);
  return titles()[count - 1]!;
};

t.test("one dead host behind 880 monitors is one message to a chat, and one for each to a webhook", async (t) => {
  const w = await open(t);
  const [chat, hook] = [await slack(w), await webhookTo(w.owner, `${sink.url}/hook`)];
  const pairs = await incidentsOf(w, "db.example.org", 880, [chat]);
  const each = 40;
  for (const { targetId } of pairs.slice(0, each))
    await w.sql`insert into target_alerts (target_id, channel_id, position) values (${targetId}, ${hook}, 9)`;
  deliverer(t, w);
  deliverer(t, w);
  await say(w, pairs, "opened");
  await allDelivered(w);
  t.strictSame(titles(), ["Down: 880 monitors on db.example.org"]);
  t.match(
    texts()[0],
    /db\.example\.org: 880 down, since .*, connection refused: db\.example\.org 0, .* and 875 more\n/,
  );
  t.match(texts()[0], /Acknowledge: <https:\/\/status\.example\.org\/a\//);
  t.equal(sink.received.length, each + 1);
  const told = (await rows(w)).filter(({ channel_id }) => channel_id === chat);
  t.equal(new Set(told.map(({ message_id }) => message_id)).size, 1);
  t.ok(told.some(({ id }) => id === told[0]!.message_id));

  w.clock.advance(1_000);
  await recover(w, pairs);
  await later(w, 0);
  await until(() => sink.received.length >= 2 * each + 1, "each recovery at the webhook");
  t.equal(texts().length, 1, "recoveries wait for the round");
  await later(w, 29_000);
  t.equal(await sent(2), "Recovered: 880 monitors on db.example.org");
  await allDelivered(w);
});

t.test("rounds: the first at once, then all that came, a known cause after 30 s, 2 min and 5 min", async (t) => {
  const w = await open(t);
  const chat = await slack(w);
  deliverer(t, w);
  const gone = await fail(w, "gw.example.org", 1, [chat]);
  t.equal(await sent(1), "Down: gw.example.org 0");
  t.match(texts()[0], /Regions down: Europe/, "people know regions by name");
  await later(w, 5_000);
  await fail(w, "gw.example.org", 11, [chat]);
  await later(w, 5_000);
  await fail(w, "db.example.org", 1, [chat]);
  await later(w, 19_999);
  t.equal(texts().length, 1);
  await later(w, 1);
  t.equal(await sent(2), "Down: 11 monitors on gw.example.org, 1 more cause");
  t.match(texts()[1], /gw\.example\.org: 12 down, 11 new, since/, "the first one is one of the 12");

  // The second round lasts 2 min for what the channel knows, and 30 s for a new cause.
  await later(w, 10_000);
  await fail(w, "gw.example.org", 1, [chat]);
  await later(w, 40_000);
  t.equal(texts().length, 2, "a known cause waits");
  await fail(w, "cache.example.org", 1, [chat]);
  t.equal(await sent(3), "Down: cache.example.org 0, 1 more cause");
  await allDelivered(w);

  await recover(w, gone);
  await later(w, 60_000);
  t.equal(texts().length, 3);
  await later(w, 240_000);
  t.equal(await sent(4), "Recovered: gw.example.org 0", "third round: 5 min");
  // A round without items ends the series.
  await later(w, 310_000);
  await fail(w, "gw.example.org", 1, [chat]);
  t.match(await sent(5), /^Down: gw\.example\.org 0/);
});

t.test("a critical one never waits, and takes along what waits; more within 10 s are one message", async (t) => {
  const w = await open(t);
  const chat = await slack(w);
  deliverer(t, w);
  await fail(w, "a.example.org", 1, [chat]);
  await sent(1);
  await later(w, 3_000);
  await fail(w, "b.example.org", 4, [chat], { severity: "minor" });
  await later(w, 1_000);
  t.equal(texts().length, 1);
  await fail(w, "pay.example.org", 1, [chat], { severity: "critical" });
  t.equal(await sent(2), "Critical: pay.example.org 0, 1 more cause");
  await later(w, 4_000);
  await fail(w, "shop.example.org", 2, [chat], { severity: "critical" });
  await later(w, 5_999);
  t.equal(texts().length, 2);
  await later(w, 1);
  t.equal(await sent(3), "Critical: 2 monitors on shop.example.org");
  await later(w, 10_000);
  await fail(w, "pay.example.org", 1, [chat], { severity: "critical" });
  t.equal(await sent(4), "Down: pay.example.org 0", "of a cause that the channel knows, too");
});

t.test("an explanation says which round a notice waits for, until when, and in which message it was", async (t) => {
  const w = await open(t);
  const chat = await slack(w);
  const stands = async ({ incidentId }: Pair) => {
    const of = { orgId: w.owner.orgId, incidentId, at: new Date(w.clock.now()) };
    return (await selectStandings(w.sql, { ...of, rounds: { kinds: roundKinds(), secs: 30 } }))[0]!;
  };
  const begin = w.clock.now();
  const at = (secs: number) => new Date(begin + secs * 1000).toISOString();
  const [first] = await fail(w, "gw.example.org", 1, [chat]);
  matchObject(t, (await stands(first!)).waits, { state: "pending", round: 1, until: null });
  deliverer(t, w);
  await sent(1);
  await until(async () => (await stands(first!)).told_at !== null, "the end of the first message");
  matchObject(t, await stands(first!), { waits: null, incidents: 1, told_at: new Date(begin) });
  await later(w, 5_000);
  const [more] = await fail(w, "gw.example.org", 2, [chat]);
  const seen = async (pair: Pair, round: number, secs: number) => {
    const { waits } = await stands(pair);
    matchObject(t, { ...waits, until: new Date(waits!.until!).toISOString() }, { round, until: at(secs), attempts: 0 });
  };
  await seen(more!, 2, 30);
  await later(w, 25_000);
  await sent(2);
  await until(async () => (await stands(more!)).told_at !== null, "the end of the second message");
  t.equal((await stands(more!)).incidents, 2);
  const [third] = await fail(w, "gw.example.org", 1, [chat]);
  await seen(third!, 3, 150);
  await later(w, 10_000);
  await fail(w, "db.example.org", 1, [chat]);
  await seen(third!, 3, 60);
  await w.sql`update channel_health set paused_until = ${at(200)}`;
  matchObject(t, (await stands(third!)).waits, { is_paused: true });
  // What the explanation says is what the claim does.
  await w.sql`update channel_health set paused_until = null`;
  await later(w, 19_999);
  t.equal(texts().length, 2);
  await later(w, 1);
  await sent(3);
});

t.test("0 turns rounds off, and so does a channel; a webhook may have them", async (t) => {
  const w = await open(t, 0);
  deliverer(t, w);
  await fail(w, "a.example.org", 15, [await slack(w)]);
  await allDelivered(w);
  t.equal(texts().length, 15);
  const other = await open(t);
  deliverer(t, other);
  const [chat, hook] = [await slack(other), await webhookTo(other.owner, `${sink.url}/hook`)];
  await updateChannel(other.owner, chat, { rounds: false });
  await updateChannel(other.owner, hook, { rounds: true });
  await fail(other, "a.example.org", 15, [chat, hook]);
  await allDelivered(other);
  t.equal(texts().length, 15);
  const [body, ...more] = sink.received.filter(({ path }) => path === "/hook");
  t.strictSame(more, []);
  matchObject(t, JSON.parse(String(body!.body)), {
    reason: "round",
    title: "Down: 15 monitors on a.example.org",
    causes: [{ cause: { kind: "host", value: "a.example.org" }, down: 15, new: 15 }],
  });
});

t.test("a refused message is retried with the same members, and recoveries wait for it", async (t) => {
  const w = await open(t);
  const chat = await slack(w);
  let status = 500;
  sink.answer = (_request, reply) => void reply.writeHead(status).end();
  const pairs = await fail(w, "a.example.org", 30, [chat]);
  deliverer(t, w);
  await until(async () => (await rows(w)).some(({ attempt_count }) => attempt_count >= 1), "the first attempt");
  await fail(w, "b.example.org", 1, [chat]);
  await recover(w, pairs.slice(1));
  status = 200;
  await later(w, 40_000);
  await allDelivered(w);
  t.strictSame(
    titles().toSorted(),
    ["Down: 30 monitors on a.example.org", "Down: a.example.org 0", "Down: b.example.org 0"].toSorted(),
  );
  const retried = texts().find((text) => text.includes("Opened and ended"));
  t.match(retried, /Opened and ended: 29 incidents/, "composed from what is true then");
});

t.test("a message that ends dead lets its members go one by one", async (t) => {
  const w = await open(t);
  const chat = await slack(w);
  sink.answer = ({ body }, reply) => void reply.writeHead(/3 monitors/.test(String(body)) ? 400 : 200).end();
  await fail(w, "a.example.org", 3, [chat]);
  deliverer(t, w);
  await later(w, 0);
  await allDelivered(w);
  t.strictSame(titles().toSorted(), [
    "Down: 3 monitors on a.example.org",
    "Down: a.example.org 0",
    "Down: a.example.org 1",
    "Down: a.example.org 2",
  ]);
});

t.test("mails of an incident are one thread; a mail whose acceptance was lost keeps its Message-ID", async (t) => {
  const mailbox = await startMailbox(t);
  const w = await world(t, { SM_EMAIL__SMTP_URL: mailbox.url, SM_EMAIL__FROM: "status@example.org" });
  const mail = await createChannel(w.owner, { name: "Mail", config: { type: "email", to: "ops@example.org" } });
  await w.sql`update channels set verified_at = now()`;
  await w.sql`update channel_verifications set confirmed_at = now()`;
  mailbox.mails.length = 0;
  const headers = () =>
    mailbox.mails.map(({ raw }) => {
      const [head = ""] = raw.toString().split("\r\n\r\n", 1);
      const lines = head.replaceAll(/\r\n[ \t]+/g, " ").split("\r\n");
      const valueOf = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      return [valueOf("Message-ID"), valueOf("In-Reply-To"), valueOf("References")];
    });
  mailbox.isCutting = true;
  const first = await fail(w, "a.example.org", 2, [mail.id]);
  deliverer(t, w);
  await until(async () => (await rows(w)).some(({ attempt_count }) => attempt_count > 0), "the first attempt");
  mailbox.isCutting = false;
  await later(w, 40_000);
  await allDelivered(w);
  const [[opening] = [], again] = headers();
  t.match(opening, /^<[\w.-]+@status\.example\.org>$/);
  t.strictSame(again, [opening, undefined, undefined], "so that mail programs show one");

  await later(w, 200_000);
  const second = await fail(w, "b.example.org", 1, [mail.id]);
  await until(() => mailbox.mails.length === 3, "the second opening");
  await allDelivered(w);
  const [other] = headers()[2]!;
  t.strictSame(headers()[2], [other, undefined, undefined], "another incident is another thread");
  await recover(w, [...first, ...second]);
  await later(w, 400_000);
  await until(() => mailbox.mails.length === 4, "the recoveries");
  const [recovery, ...thread] = headers()[3]!;
  t.strictSame(thread, [other, `${opening} ${other}`], "a reply to the newest, with references to all");
  t.notOk([opening, other].includes(recovery));
});

t.test("what opened and ended before it left: a line for a chat, nothing for a phone", async (t) => {
  const w = await open(t);
  const sms = await phone(w);
  const chat = await slack(w);
  const pairs = await fail(w, "a.example.org", 2, [chat, sms]);
  await recover(w, pairs);
  deliverer(t, w);
  await until(async () => (await rows(w)).every(({ state }) => state !== "pending"), "all");
  t.strictSame(titles(), ["Opened and ended: 2 incidents"]);
  const states = await w.sql`
    select channel_name, state, held_by, count(*)::int as count from deliveries group by 1, 2, 3 order by 1`;
  t.strictSame(
    states.map((row) => ({ ...row })),
    [
      { channel_name: "Chat", state: "delivered", held_by: null, count: 4 },
      { channel_name: "Phone", state: "dropped", held_by: "over", count: 4 },
    ],
  );
  // Reopened and over again: not a recovery, of which the channel knows already.
  await say(w, pairs, "reopened");
  await say(w, pairs, "resolved", 1);
  await later(w, 31_000);
  await sent(2);
  t.equal(titles()[1], "Opened and ended: 2 incidents");
});

const claim = async (w: OwnedWorld, sql = w.sql) =>
  await claimDeliveries(sql, {
    ...openPlaces(w.clock.now),
    room: 100,
    rounds: { kinds: roundKinds(), secs: 30 },
    now: w.clock.now(),
    leasedUntil: w.clock.now() + 60_000,
  });

t.test("replicas open one round, and that of a killed one is sent again with the same members", async (t) => {
  const w = await open(t);
  await fail(w, "a.example.org", 100, [await slack(w)]);
  const replicas = Array.from({ length: 4 }, () => w.pool());
  const [first, ...others] = (await Promise.all(replicas.map((sql) => claim(w, sql)))).flat();
  t.strictSame(others, []);
  matchObject(t, first, { message_id: first!.id, begins: true });
  t.equal(await collectWaiting(w.sql, first!), 99);
  // The process that held it is killed here; others come to the channel meanwhile.
  await fail(w, "b.example.org", 1, [(await rows(w))[0]!.channel_id!]);
  t.strictSame([...(await claim(w))], [], "a round is running, and the message is leased");
  w.clock.advance(60_000);
  const again = await claim(w);
  matchObject(
    t,
    again.map(({ id, begins }) => ({ id, begins })).toSorted((a, b) => Number(a.begins) - Number(b.begins)),
    [{ id: first!.id, begins: false }, { begins: true }],
  );
  t.equal(
    (
      await readRound(
        w.sql,
        again.find(({ begins }) => !begins)!,
        "",
      )
    ).notices,
    100,
  );
  // The process is killed after it has recorded the end: another one writes it to the members.
  await w.sql`update deliveries set state = 'delivered', delivered_at = now() where id = ${first!.id}`;
  t.equal(await settleMembers(w.sql), 99);
  t.equal((await rows(w)).filter(({ state }) => state === "delivered").length, 100);
});

t.test("the rest of a message is sent when the monitor of its first delivery is deleted", async (t) => {
  const w = await open(t);
  await fail(w, "a.example.org", 30, [await slack(w)]);
  const [first] = await claim(w);
  await collectWaiting(w.sql, first!);
  await w.sql`delete from targets where id = ${first!.notice.target_id}`;
  w.clock.advance(31_000);
  deliverer(t, w);
  await later(w, 0);
  await allDelivered(w);
  t.strictSame(titles(), ["Down: 29 monitors on a.example.org"]);
});

t.test(
  "the message of a channel that became a webhook is sent one by one; of a disabled channel it fails",
  async (t) => {
    const w = await open(t);
    const [changed, disabled] = [await slack(w), await slack(w, "Other")];
    await fail(w, "a.example.org", 30, [changed, disabled]);
    for (const one of await claim(w)) await collectWaiting(w.sql, one);
    const config = { type: "webhook", url: `${sink.url}/hook`, headers: {}, secret: null } as const;
    await updateChannel(w.owner, changed, { config });
    await updateChannel(w.owner, disabled, { enabled: false });
    w.clock.advance(60_000);
    deliverer(t, w);
    await until(async () => (await rows(w)).every(({ state }) => state !== "pending"), "all");
    t.equal(sink.received.filter(({ path }) => path === "/hook").length, 30);
    t.ok((await rows(w)).every(({ channel_id, state }) => (state === "dead") === (channel_id === disabled)));
  },
);
