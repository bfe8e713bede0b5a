import t from "tap";
import type { AgentResult } from "@statusmesh/shared/agent-protocol";
import { protocolVersion } from "@statusmesh/shared/agent-protocol";
import { newId } from "@statusmesh/shared/ids";
import { type Client, connect, type Json } from "../harness/api.ts";
import { agentIn, castIn } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { insertTargetsIn } from "../harness/targets.ts";
import { tempFolder } from "../harness/folder.ts";
import { type ControlPlane, startAgent, startControlPlane } from "../harness/processes.ts";
import { admit, batchOf, chunked, runOf, shuffled } from "../harness/results.ts";
import { startTcpTarget } from "../harness/servers.ts";
import { startSink } from "../harness/sink.ts";
import { waitFor } from "../harness/wait.ts";

/*
 * Two control planes on one database, and an agent that talks to both at once. Whatever one of them does, the other
 * must neither do again nor leave undone.
 */

const database = await cloneDatabase(t);
const { sql } = database;
const { olga } = await castIn(sql);
const agent = await agentIn(sql, "default");
const sink = await startSink(t);
const replica = async (): Promise<ControlPlane> =>
  await startControlPlane(t, { caFile: sink.caFile, env: { ...database.env, SM_SCHEDULER__BUILTIN_AGENT: "false" } });
const [one, two] = await Promise.all([replica(), replica()]);
const apis = [one, two].map(({ url }) => connect(t, url, olga.token));
const agents = [one, two].map(({ url }) => connect(t, url, agent.token));

const intervalMs = 10_000;
/** A grid of slots that ends now: older than five minutes they would be no news, and after them nothing would. */
const slotsUntilNow = (count: number): number[] =>
  Array.from({ length: count }, (_, k) => Math.floor(Date.now() / 1000) * 1000 - (count - 1 - k) * intervalMs);

async function makeTargets(count: number): Promise<string[]> {
  const channel = await apis[0]!.post("/api/v1/notification-channels", {
    name: `Channel ${newId()}`,
    config: { type: "webhook", url: sink.url, secret: sink.secret },
  });
  const ids: string[] = [];
  for (let n = 0; n < count; n++) {
    const { status, body, text } = await apis[n % 2]!.post("/api/v1/targets", {
      name: `Target ${n}`,
      check: { type: "tcp", host: "127.0.0.1", port: 9 },
      interval: intervalMs / 1000,
      alert_confirmations: 2,
      alerts: [{ channel_id: channel.body.id }],
    });
    if (status !== 201) throw new Error(text);
    ids.push(body.id);
  }
  return ids;
}

/** Sends a batch as the agent does: again, to either replica, until it is acknowledged. */
async function report(results: AgentResult[], first: number): Promise<Json> {
  await admit(sql, "default", results);
  return await waitFor("a batch to be taken", async () => {
    for (const to of [agents[first % 2]!, agents[(first + 1) % 2]!]) {
      const answer = await to.post("/api/agent/results", batchOf(results)).catch(() => null);
      if (answer?.status === 200) return answer.body;
      if (answer !== null && answer.status !== 503) throw new Error(answer.text);
    }
    return null;
  });
}

interface Row {
  target_id: string;
  incident_id: string;
  channel_id: string;
  reason: string;
  state: string;
  id: string;
}

const deliveriesOf = async (targets: string[]): Promise<Row[]> =>
  await sql<Row[]>`
    select i.target_id, d.incident_id, d.channel_id, d.reason, d.state, d.id from deliveries d
    join incidents i on i.id = d.incident_id
    where i.target_id = any(${targets}::uuid[]) order by d.created_at, d.id`;

const countIncidents = async (targets: string[]): Promise<Record<string, number>[]> => [
  ...(await sql<Record<string, number>[]>`
    select count(*)::int as incidents, count(distinct target_id)::int as targets,
      count(*) filter (where retracted)::int as retracted
    from incidents where target_id = any(${targets}::uuid[])`),
];

t.test("results that race to both, twice and out of order, make one incident each and tell it once", async (t) => {
  const targets = await makeTargets(12);
  const slots = slotsUntilNow(14);
  const status = (at: number) => (at >= 5 && at < 10 ? "down" : "up");
  let stored = 0;
  let duplicates = 0;
  // Three slots at a time, as they may come when a region catches up; each result goes to both, in small batches of its
  // own order.
  for (const [round, some] of chunked([...slots.keys()], 3).entries()) {
    const results = targets.flatMap((id) => some.map((at) => runOf(id, slots[at]!, status(at))));
    const batches = [0, 1].flatMap((to) =>
      chunked(shuffled(results, round * 2 + to), 7).map((batch) => ({ to, batch })),
    );
    const replies = await Promise.all(shuffled(batches, round).map(async ({ to, batch }) => await report(batch, to)));
    for (const reply of replies) {
      stored += reply.stored;
      duplicates += reply.duplicates;
    }
  }
  t.equal(stored, targets.length * slots.length, "each result is stored once");
  t.equal(duplicates, stored, "and its copy is known as one");

  const rows = await waitFor("every delivery to be made", async () => {
    const found = await deliveriesOf(targets);
    return found.length >= 2 * targets.length && found.every(({ state }) => state === "delivered") ? found : null;
  });
  t.strictSame(await countIncidents(targets), [{ incidents: targets.length, targets: targets.length, retracted: 0 }]);
  for (const id of targets) {
    t.strictSame(
      rows.filter((row) => row.target_id === id).map(({ reason }) => reason),
      ["opened", "resolved"],
      "told of both, in order",
    );
    t.strictSame(
      sink.about(id).map(({ notice }) => notice.reason),
      ["opened", "resolved"],
      "one request each, in order",
    );
  }
  t.strictSame(
    sink.received.map(({ notice }) => notice.delivery_id).sort(),
    rows.map(({ id }) => id).sort(),
    "one request for each delivery",
  );
  t.ok(sink.received.every(({ signed }) => signed));
});

t.test("40 check-nows at once, on both replicas, are 40 results", async (t) => {
  const far = await agentIn(sql, "far");
  const server = await startTcpTarget(t);
  startAgent(t, { url: one.url, token: far.token, folder: tempFolder(t, "agent") });
  const { body: target } = await apis[0]!.post("/api/v1/targets", {
    name: "Checked often",
    check: { type: "tcp", host: "127.0.0.1", port: server.port },
    interval: 3600,
  });
  const path = `/api/v1/targets/${target.id}`;
  await apis[0]!.send("PUT", `${path}/regions`, { json: { regions: ["far"] } });
  const stored = async () => (await apis[1]!.get(`${path}/results`)).body.total as number;
  await waitFor("the first run", async () => (await stored()) > 0);
  const before = await stored();
  const answers = await Promise.all(
    Array.from({ length: 40 }, (_, n) => apis[n % 2]!.post(`${path}/check-now`, undefined)),
  );
  const succeeded = answers.filter(({ status }) => status === 200).length;
  t.ok(succeeded > 0);
  t.strictSame(
    answers.filter(({ status }) => status !== 200 && status !== 503).map(({ text }) => text),
    [],
  );
  // A run that is refused as busy may have been made all the same.
  await waitFor("a row for every answer", async () => (await stored()) >= before + succeeded);
  t.ok((await stored()) <= before + 40);
});

t.test("an agent's cursor does not skip a target whose transaction commits late", async (t) => {
  const pull = async (from: Client, cursor: string | null): Promise<Json> => {
    const { status, body, text } = await from.post("/api/agent/pull", {
      protocol: protocolVersion,
      agent_version: "0.0.0",
      cursor,
      capacity: 0,
    });
    t.equal(status, 200, text);
    return body;
  };
  const idsOf = (reply: Json): string[] => reply.checks.map((check: Json) => check.target_id);
  // Two agents come and go in this test's idea of a region, never at once: the list stays this agent's.
  const first = await pull(agents[0]!, null);
  t.equal(first.full, true);

  const late = newId();
  const holder = await database.pool(1).reserve();
  try {
    await holder`begin`;
    await insertTargetsIn(holder, {
      ids: [late],
      orgId: olga.orgId,
      region: "default",
      intervalSecs: 10,
      confirmations: 2,
    });
    await holder`select pg_notify('sm_targets', '')`;

    const [early] = await makeTargets(1);
    const second = await pull(agents[1]!, first.cursor);
    t.strictSame(
      [second.full, idsOf(second)],
      [false, [early]],
      "the other replica tells of what was committed meanwhile, and of nothing else",
    );

    const waiting = pull(agents[0]!, second.cursor);
    await holder`commit`;
    const third = await waiting;
    t.strictSame([third.full, idsOf(third)], [false, [late]], "and the late one arrives as soon as it is committed");
    t.strictSame(idsOf(await pull(agents[1]!, first.cursor)).sort(), [early, late].sort(), "an old cursor sees both");
  } finally {
    holder.release();
  }
});

t.test("a replica that is killed loses nothing, and only what it held is sent again", async (t) => {
  const targets = await makeTargets(16);
  const slots = slotsUntilNow(8);
  let release: () => void = () => undefined;
  const released = new Promise<void>((resolve) => (release = resolve));
  sink.answer(async () => {
    await released;
    return { status: 200 };
  });
  const requests = () => sink.received.filter(({ notice }) => targets.includes(notice.target_id));

  const batches = chunked(
    targets.flatMap((id) => slots.map((slot) => runOf(id, slot, "down"))),
    8,
  );
  await Promise.all(batches.slice(0, 8).map(async (batch, at) => await report(batch, at)));
  // Each of the two sends at most five at once to one channel.
  await waitFor("both replicas to be sending", () => requests().length >= 8 || null);
  const rest = Promise.all(batches.slice(8).map(async (batch, at) => await report(batch, at)));
  const killed = one.stop("SIGKILL");
  await rest;
  t.equal(await killed, "SIGKILL");
  t.strictSame(
    await countIncidents(targets),
    [{ incidents: targets.length, targets: targets.length, retracted: 0 }],
    "one incident each",
  );
  const [row] = await sql<
    { results: number }[]
  >`select count(*)::int as results from results where target_id = any(${targets}::uuid[])`;
  t.equal(row?.results, targets.length * slots.length, "what was acknowledged is there");

  release();
  const held = await waitFor("the other replica to have sent what it may", async () => {
    const pending = (await deliveriesOf(targets)).filter(({ state }) => state === "pending");
    const [{ open = 0 } = {}] = await sql<
      { open: number }[]
    >`select count(*)::int as open from deliveries where state = 'pending' and leased_until is null`;
    const attempts = new Set(requests().map(({ notice }) => notice.delivery_id));
    return open === 0 && pending.length <= 5 && attempts.size === targets.length ? pending.map(({ id }) => id) : null;
  });
  t.comment(`the killed replica held ${held.length} deliveries`);
  const before = requests().map(({ notice }) => notice.delivery_id);
  t.equal(new Set(before).size, before.length, "nothing was sent twice so far");

  // What the clock would do within a minute.
  await sql`update deliveries set leased_until = now() where id = any(${held}::uuid[]) and state = 'pending'`;
  await waitFor("the rest to be delivered", async () =>
    (await deliveriesOf(targets)).every(({ state }) => state === "delivered"),
  );
  const twice = requests()
    .map(({ notice }) => notice.delivery_id)
    .filter((id, at, all) => all.indexOf(id) !== at);
  t.strictSame(twice.sort(), held.sort(), "exactly those whose lease ran out were sent again");
  const rows = await deliveriesOf(targets);
  t.strictSame(
    [rows.length, new Set(rows.map((it) => `${it.incident_id}/${it.channel_id}/${it.reason}`)).size],
    [targets.length, targets.length],
    "one delivery for each incident",
  );
});

t.test("an agent of another region that is killed is replaced by the next with its token", async (t) => {
  const away = await agentIn(sql, "away");
  const server = await startTcpTarget(t);
  const folder = tempFolder(t, "agent");
  const start = () => startAgent(t, { url: two.url, token: away.token, folder });
  const killed = start();
  const { body: target } = await apis[1]!.post("/api/v1/targets", {
    name: "Seen from away",
    check: { type: "tcp", host: "127.0.0.1", port: server.port },
    interval: 10,
  });
  const resultFrom = (after: string) =>
    waitFor("a result of the other region", async () => {
      const { body } = await apis[1]!.get(`/api/v1/targets/${target.id}/results?region=away`);
      return body.items.find((it: Json) => it.timestamp > after) ?? null;
    });
  t.match(await resultFrom(""), { region: "away", status: "up" });
  t.equal(await killed.stop("SIGKILL"), "SIGKILL");
  const at = new Date().toISOString();
  const next = start();
  t.match(await resultFrom(at), { region: "away", status: "up" });
  t.equal(await next.stop("SIGTERM"), 0, "and an ordinary stop is one");
});
