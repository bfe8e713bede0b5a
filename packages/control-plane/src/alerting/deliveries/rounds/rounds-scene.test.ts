import { setTimeout } from "node:timers/promises";
import type { Sql } from "postgres";
import t from "tap";
import { protocolVersion } from "@statusmesh/shared/protocol/agent-protocol";
import { openIngest } from "../../../monitoring/pipeline/ingest.ts";
import { createTarget } from "../../../monitoring/targets/write/service.ts";
import { sendEscalations } from "../../incidents/escalation/ladder.ts";
import { anyOf, type Db } from "../../../platform/db/client/sql.ts";
import { minute, second, until } from "../../../testing/clock.ts";
import { deliveryScene, type OwnedWorld, sendingOf } from "../../../testing/deliveries.ts";
import { climb, fail, incidentsOf, type Pair, phone, recover, slack } from "../../../testing/rounds.ts";
import { admit, agentResult } from "../../../testing/scene.ts";
import { newAgent } from "../../../testing/world.ts";
import { claimDeliveries } from "../sending/claim-queries.ts";
import { openPlaces } from "../sending/limits.ts";
import { collectWaiting, readRound, settleMembers } from "./round-queries.ts";

/* How many messages leave, counted at the receiver; and what the statements of a large one work on. */

const { sink, world, deliverer, later, rows } = await deliveryScene(t);
const open = (t: Parameters<typeof world>[0]) =>
  world(t, { SM_CHANNELS__ENDPOINTS__SLACK: sink.url, SM_CHANNELS__ENDPOINTS__TWILIO: `${sink.url}/sms` });

/** First lines of the messages to the chat so far, without icon. */
const titles = () =>
  sink.received
    .filter(({ path }) => path.startsWith("/services"))
    .map(({ body }) => (JSON.parse(body.toString()) as { text: string }).text.split("\n")[0]!.replace(/^\S+ /u, ""));
const messages = () =>
  sink.received
    .filter(({ path }) => path.startsWith("/sms"))
    .map(({ body }) => new URLSearchParams(body.toString()).get("Body")!);
const sent = async (count: number) => {
  await until(() => titles().length >= count, `${count} messages`);
  return titles()[count - 1]!;
};

/** Lets time pass until everything has left; not while a message is in flight, whose lease would end. */
async function drain(w: OwnedWorld): Promise<void> {
  for (let at = 0; at < 60; at++) {
    await until(async () => (await rows(w)).every(({ leased_until }) => leased_until === null), "sends in flight");
    if ((await rows(w)).every(({ state }) => state !== "pending")) return;
    await later(w, 10_000);
    await setTimeout(20);
  }
  throw new Error("something waits for more than ten minutes");
}

/** Waits until nothing may leave at this time, and nothing is in flight. */
async function quiet(w: OwnedWorld): Promise<void> {
  await until(async () => {
    if ((await rows(w)).some(({ leased_until }) => leased_until !== null)) return false;
    const left = await undone(w.sql, (tx) => claim(w, tx));
    if (left > 0) await later(w, 0);
    return left === 0;
  }, "what may leave");
}

const claim = async (w: OwnedWorld, sql: Db): Promise<number> => {
  const now = w.clock.now();
  const { rounds } = sendingOf(w, sink.ca);
  const limits = { ...openPlaces(w.clock.now), room: 10, rounds, now, leasedUntil: now + 60_000 };
  return (await claimDeliveries(sql, limits)).length;
};

/** What a step returns that is rolled back. */
async function undone<T>(sql: Sql, step: (tx: Db) => Promise<T>): Promise<T> {
  const rollback = new Error("rolled back");
  let result: T;
  const work = sql.begin(async (tx) => {
    result = await step(tx);
    throw rollback;
  });
  await work.catch((error: unknown) => {
    if (error !== rollback) throw error;
  });
  return result!;
}

t.test("60 monitors, two causes and a critical outage in 14 s: chat, phone and two levels of ladders", async (t) => {
  const w = await open(t);
  const [chat, sms] = [await slack(w), await phone(w)];
  deliverer(t, w);
  deliverer(t, w);
  await incidentsOf(w, "fine.example.org", 42, []);
  await w.sql`delete from incidents`;
  const pairs: Pair[] = [];
  for (let secs = 0; secs < 14; secs++) {
    if (secs < 12) pairs.push(...(await fail(w, "gw-1.example.org", 1, [chat])));
    if (secs === 0) await sent(1);
    if (secs % 3 === 1) pairs.push(...(await fail(w, `db-${secs}.example.org`, 1, [chat], { tags: ["db"] })));
    if (secs === 5) {
      pairs.push(...(await fail(w, "pay.example.org", 1, [chat], { severity: "critical" })));
      t.match(await sent(2), /^Critical: pay\.example\.org 0/, "at once");
    }
    await later(w, 1_000);
  }
  await drain(w);
  const openings = titles();
  t.ok(openings.length <= 3, openings.join("; "));

  for (const level of [1, 2]) {
    await later(w, 600_000);
    const before = messages().length;
    for (const pair of pairs) {
      await climb(w, [pair], [sms], level);
      if (pair === pairs[0]) await until(() => messages().length > before, "the first of the level");
      await later(w, 700);
    }
    await drain(w);
    const told = messages().slice(before);
    t.ok(told.filter((text) => !/critical/i.test(text)).length <= 2, `level ${level}: ${told.join("; ")}`);
    t.ok(told.length <= 3, `and the critical one: ${told.join("; ")}`);
  }

  await later(w, 600_000);
  for (const pair of pairs) {
    await recover(w, [pair]);
    if (pair === pairs[0]) await sent(openings.length + 1);
    await later(w, 700);
  }
  await drain(w);
  t.ok(titles().length - openings.length <= 2, titles().slice(openings.length).join("; "));
});

t.test("a ladder of 1,000 incidents of three causes is one message a level", async (t) => {
  const w = await open(t);
  const sms = await phone(w);
  const ladder = [10, 20].map((after_minutes) => ({ after_minutes, channel_ids: [sms] }));
  await w.sql`update orgs set escalation = ${w.sql.json(ladder)}`;
  for (const host of ["gw-1.example.org", "gw-2.example.org", "gw-3.example.org"])
    await incidentsOf(w, host, host.startsWith("gw-1") ? 334 : 333, []);
  const from = new Date(w.clock.now());
  await w.sql`
    update incidents set escalation_from = ${from}, escalation_due_at = ${from}::timestamptz + interval '10 minutes'`;
  deliverer(t, w);
  for (const level of [1, 2]) {
    await later(w, 10 * minute);
    const before = messages().length;
    t.equal(await sendEscalations(w.system), 1000);
    await drain(w);
    t.equal(messages().length - before, 1, `level ${level}: ${messages().slice(before).join("; ")}`);
  }
});

t.test("a monitor that changes every 20 s for ten minutes is three messages, and one when it is stable", async (t) => {
  const w = await open(t);
  const agent = await newAgent(w.system, "eu");
  const ingest = openIngest(async () => {});
  const check = { type: "tcp", host: "shop.example.org", port: 443, timeout: 10_000 } as const;
  const { id } = await createTarget(w.owner, {
    name: "Shop",
    check,
    region_policy: "any",
    alert_confirmations: 1,
    alerts: [{ channel_id: await slack(w) }],
  });
  deliverer(t, w);
  const report = async (status: "up" | "down") => {
    const result = agentResult(id, w.clock.now(), { status });
    await admit(w.system, "eu", [result]);
    await ingest({ ...agent, ...w.system }, { protocol: protocolVersion, results: [result], runs: [] });
  };
  for (let change = 0; change < 30; change++) {
    // The end of a round may be between two changes.
    for (let half = 0; half < 2; half++) {
      await later(w, 10 * second);
      await quiet(w);
    }
    await report(change % 2 === 0 ? "down" : "up");
    await quiet(w);
  }
  await drain(w);
  t.ok(titles().length <= 3, titles().join("; "));
  t.match(titles().at(-1), /^Flapping: Shop/);
  const before = titles().length;
  for (let at = 0; at < 16; at++) {
    await later(w, minute);
    await report("up");
  }
  await drain(w);
  t.strictSame(titles().slice(before), ["Stable: up: Shop"]);
});

t.test("of two processes that look at the end of a round at the same moment, one begins the next", async (t) => {
  const w = await open(t);
  const chat = await slack(w);
  for (const host of ["a.example.org", "b.example.org"]) {
    await fail(w, host, 1, [chat]);
    const [one, two] = [w.pool(1), w.pool(1)];
    let other = Promise.resolve(-1);
    await one.begin(async (tx) => {
      t.equal(await claim(w, tx), 1);
      // The second one looks before the first has committed, and finds something more urgent.
      await fail(w, `${host}-critical`, 1, [chat], { severity: "critical" });
      other = claim(w, two);
      const waits = async () =>
        await anyOf(
          w.sql,
          w.sql`from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        );
      await until(waits, "the wait of the second", 20_000);
    });
    t.equal(await other, 0, host);
    await w.sql`update deliveries set state = 'delivered', leased_until = null`;
    w.clock.advance(31 * second);
  }
});

interface PlanNode {
  "Actual Rows": number;
  "Actual Loops": number;
  "Rows Removed by Filter"?: number;
  "Rows Removed by Join Filter"?: number;
  Plans?: PlanNode[];
}

/** Rows that a plan has made, and those that it has looked at in vain. */
const rowsOf = (node: PlanNode): number =>
  (node["Actual Rows"] + (node["Rows Removed by Filter"] ?? 0) + (node["Rows Removed by Join Filter"] ?? 0)) *
    node["Actual Loops"] +
  (node.Plans ?? []).reduce((sum, one) => sum + rowsOf(one), 0);

/** Does a step, and returns the rows that its statements work on. */
async function workOf(sql: Sql, step: (tx: Db) => Promise<unknown>): Promise<number> {
  const seen: { text: string; values: never[] }[] = [];
  const { options } = sql as unknown as { options: { debug?: unknown } };
  options.debug = (_id: number, text: string, values: never[]) => seen.push({ text, values });
  await undone(sql, step);
  options.debug = undefined;
  let work = 0;
  await sql.begin(async (tx) => {
    for (const { text, values } of seen.filter((one) => /^\s*(select|with|update|insert)\s/.test(one.text))) {
      const [row] = await tx.unsafe(`explain (analyze, timing off, format json) ${text}`, values);
      work += rowsOf((row!["QUERY PLAN"] as { Plan: PlanNode }[])[0]!.Plan);
    }
  });
  return work;
}

t.test("the work for a message grows with its incidents, without statistics of rows just written", async (t) => {
  const steps = async (count: number) => {
    const w = await open(t);
    const sql = w.pool(1);
    const [chat, pager] = [await slack(w), await phone(w)];
    await fail(w, "gw.example.org", count / 2, [chat]);
    await fail(w, "other", count / 2, [chat, pager], { each: true, tags: ["all"] });
    const now = w.clock.now();
    const { rounds } = sendingOf(w, sink.ca);
    const limits = { ...openPlaces(w.clock.now), room: 10, rounds, now, leasedUntil: now + 60_000 };
    const leader = (await claimDeliveries(w.sql, limits)).find((one) => one.channel_id === chat)!;
    const collected = await workOf(sql, (tx) => collectWaiting(tx, leader));
    const read = await workOf(sql, (tx) => readRound(tx, leader, ""));
    const waited = await workOf(sql, (tx) => settleMembers(tx));
    await w.sql`update deliveries set state = 'delivered', delivered_at = now() where id = ${leader.id}`;
    return { collected, read, waited, settled: await workOf(sql, (tx) => settleMembers(tx)) };
  };
  const [few, many] = [await steps(200), await steps(2_000)];
  for (const step of ["collected", "read", "settled"] as const)
    t.ok(many[step] < 15 * few[step], `${step}: ${few[step]} rows for 200 incidents, ${many[step]} for 2,000`);
  t.ok(many.waited < 2 * few.waited + 10, `members of what is in flight are not read: ${many.waited}`);
});
