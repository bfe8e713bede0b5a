import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { allAbilities } from "@statusmesh/shared/checks/abilities";
import { type AgentResult, protocolVersion } from "@statusmesh/shared/protocol/agent-protocol";
import { newId } from "@statusmesh/shared/ids";
import { type Client, connect, type Json } from "../harness/api.ts";
import { agentIn, castIn } from "../harness/cast.ts";
import { asUser, createReplicaUser, openCommitFaults } from "../harness/commit-faults.ts";
import { cloneDatabase } from "../harness/database.ts";
import { insertTargetsIn } from "../harness/targets.ts";
import { tempFolder } from "../harness/folder.ts";
import { type ControlPlane, startAgent, startControlPlane } from "../harness/processes.ts";
import { admit, batchOf, chunked, runOf, shuffled } from "../harness/results.ts";
import { startTcpTarget } from "../harness/servers.ts";
import { startSink } from "../harness/sink.ts";
import { waitFor } from "../harness/wait.ts";

/*
 * Two control planes on one database, and an agent that reports to both. What one of them has done, the other neither
 * repeats nor leaves undone.
 */

const database = await cloneDatabase(t);
const { sql } = database;
const { olga } = await castIn(sql);
const agent = await agentIn(sql, "default");
const sink = await startSink(t);
const attempt = { name: "attempt", table: "delivery_attempts", event: "insert" } as const;
const faults = await openCommitFaults(database.pool(2), [attempt]);
const users = [await createReplicaUser(t, sql), await createReplicaUser(t, sql)] as const;
const replica = async (user: string): Promise<ControlPlane> =>
  await startControlPlane(t, {
    caFile: sink.caFile,
    env: { ...database.env, ...asUser(user), SM_SCHEDULER__BUILTIN_AGENT: "false" },
  });
const [one, two] = await Promise.all([replica(users[0]), replica(users[1])]);
const apis = [one, two].map(({ url }) => connect(t, url, olga.token));
const agents = [one, two].map(({ url }) => connect(t, url, agent.token));

const intervalMs = 10_000;
/** Consecutive slots, the last one now: the votes of older results are stale. */
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

/** Sends a batch to each replica in turn until one acknowledges it, as an agent does behind a load balancer. */
async function report(results: AgentResult[], first: number): Promise<Json> {
  await admit(sql, "default", results);
  return await waitFor("a batch to be stored", async () => {
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

/** Requests that the sink has received for each delivery of the targets. */
function requestsOf(targets: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { notice } of sink.received)
    if (targets.includes(notice.target_id)) counts.set(notice.delivery_id, (counts.get(notice.delivery_id) ?? 0) + 1);
  return counts;
}

/** Deliveries with more requests than recorded attempts, beyond those in `unrecorded`. */
async function sentTooOften(targets: readonly string[], unrecorded = new Map<string, number>()): Promise<string[]> {
  const rows = await sql<{ delivery_id: string; attempts: number }[]>`
    select delivery_id, count(*)::int as attempts from delivery_attempts group by 1`;
  const attempts = new Map(rows.map((row) => [row.delivery_id, row.attempts]));
  return [...requestsOf(targets)]
    .filter(([id, requests]) => requests > (attempts.get(id) ?? 0) + (unrecorded.get(id) ?? 0))
    .map(([id]) => id);
}

const countIncidents = async (targets: string[]): Promise<Record<string, number>[]> => [
  ...(await sql<Record<string, number>[]>`
    select count(*)::int as incidents, count(distinct target_id)::int as targets,
      count(*) filter (where retracted)::int as retracted
    from incidents where target_id = any(${targets}::uuid[])`),
];

t.test("results sent to both replicas, twice and out of order, open one incident each and notify once", async (t) => {
  const targets = await makeTargets(12);
  const slots = slotsUntilNow(14);
  const status = (at: number) => (at >= 5 && at < 10 ? "down" : "up");
  let stored = 0;
  let duplicates = 0;
  // Three slots at a time, as when a region catches up; each replica gets every result, in small batches of its own
  // order.
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
  t.equal(duplicates, stored, "and its copy is counted as a duplicate");

  const rows = await waitFor("every delivery to be made", async () => {
    const found = await deliveriesOf(targets);
    return found.length >= 2 * targets.length && found.every(({ state }) => state === "delivered") ? found : null;
  });
  t.strictSame(await countIncidents(targets), [{ incidents: targets.length, targets: targets.length, retracted: 0 }]);
  for (const id of targets) {
    t.strictSame(
      rows.filter((row) => row.target_id === id).map(({ reason }) => reason),
      ["opened", "resolved"],
      "one delivery for each, in order",
    );
    t.strictSame(
      [...new Set(sink.about(id).map(({ notice }) => notice.reason))],
      ["opened", "resolved"],
      "received in order",
    );
  }
  t.strictSame([...requestsOf(targets).keys()].sort(), rows.map(({ id }) => id).sort(), "every delivery is received");
  t.strictSame(await sentTooOften(targets), [], "every request is a recorded attempt");
  t.ok(sink.received.every(({ signed }) => signed));
});

t.test("40 concurrent check-nows on both replicas make 40 results", async (t) => {
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
  // A run that was answered as busy may still have ended.
  await waitFor("a row for every successful reply", async () => (await stored()) >= before + succeeded);
  t.ok((await stored()) <= before + 40);
});

t.test("an agent's cursor does not skip a target whose transaction commits late", async (t) => {
  const pull = async (from: Client, cursor: string | null): Promise<Json> => {
    const { status, body, text } = await from.post("/api/agent/pull", {
      protocol: protocolVersion,
      agent_version: "0.0.0",
      kinds: allAbilities,
      cursor,
      capacity: 0,
    });
    t.equal(status, 200, text);
    return body;
  };
  const idsOf = (reply: Json): string[] => reply.checks.map((check: Json) => check.target_id);
  // Both clients have the token of one agent, so the whole list stays with that agent.
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
      "the other replica sends what was committed meanwhile, and nothing else",
    );

    const waiting = pull(agents[0]!, second.cursor);
    await holder`commit`;
    const third = await waiting;
    t.strictSame([third.full, idsOf(third)], [false, [late]], "and the late one is sent as soon as it is committed");
    t.strictSame(idsOf(await pull(agents[1]!, first.cursor)).sort(), [early, late].sort(), "an old cursor sees both");
  } finally {
    holder.release();
  }
});

/** Pauses the second replica at a moment when it has no transaction open, so that it holds no lock. */
async function pauseSecond(): Promise<void> {
  await waitFor("a moment without a transaction", async () => {
    process.kill(two.pid, "SIGSTOP");
    const open = await sql`select from pg_stat_activity where usename = ${users[1]} and state <> 'idle'`;
    if (open.length === 0) return true;
    process.kill(two.pid, "SIGCONT");
    return false;
  });
}

t.test("a replica that is killed loses nothing, and only the deliveries that it held are sent again", async (t) => {
  const targets = await makeTargets(16);
  const slots = slotsUntilNow(8);
  const batches = targets.map((id) => slots.map((slot) => runOf(id, slot, "down")));
  // While the second replica is paused the first claims every delivery, and records no attempt.
  await pauseSecond();
  await faults.arm(attempt);
  for (const batch of batches.slice(0, 8)) await report(batch, 0);
  t.equal(await faults.held(), users[0]);
  const rest = Promise.all(batches.slice(8).map(async (batch, at) => await report(batch, at)));
  t.equal(await one.stop("SIGKILL"), "SIGKILL");
  await faults.abort(users[0]);
  // The leases of the killed replica do not expire until the test says so.
  const held = (
    await sql<{ id: string }[]>`
      update deliveries d set leased_until = now() + interval '1 hour' from incidents i
      where i.id = d.incident_id and i.target_id = any(${targets}::uuid[]) and d.leased_until is not null
      returning d.id`
  ).map(({ id }) => id);
  t.ok(held.length > 0, `the killed replica held ${held.length} deliveries`);
  process.kill(two.pid, "SIGCONT");
  await rest;
  t.strictSame(
    await countIncidents(targets),
    [{ incidents: targets.length, targets: targets.length, retracted: 0 }],
    "one incident each",
  );
  const [row] = await sql<{ results: number }[]>`
    select count(*)::int as results from results where target_id = any(${targets}::uuid[])`;
  t.equal(row?.results, targets.length * slots.length, "every acknowledged result is stored");

  await waitFor("the second replica to send the others", async () =>
    (await deliveriesOf(targets)).every(({ id, state }) => state === "delivered" || held.includes(id)),
  );
  const before = requestsOf(targets);
  const unrecorded = new Map(held.map((id) => [id, before.get(id) ?? 0]));
  t.ok(
    [...unrecorded.values()].some((count) => count > 0),
    "some were received and not recorded",
  );
  t.ok(Math.max(...unrecorded.values()) <= 1, "none of them again before its lease expires");

  await sql`update deliveries set leased_until = now() - interval '1 s' where id = any(${held}::uuid[])`;
  const rows = await waitFor("every delivery", async () => {
    const found = await deliveriesOf(targets);
    return found.every(({ state }) => state === "delivered") ? found : null;
  });
  const after = requestsOf(targets);
  t.ok(
    held.every((id) => (after.get(id) ?? 0) > unrecorded.get(id)!),
    "those of the killed replica are sent again",
  );
  t.strictSame(await sentTooOften(targets, unrecorded), [], "and no others");
  t.strictSame(
    [rows.length, new Set(rows.map((it) => `${it.incident_id}/${it.channel_id}/${it.reason}`)).size],
    [targets.length, targets.length],
    "one delivery for each incident",
  );
});

t.test("an agent that is killed is replaced by the next one with its token", async (t) => {
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
  matchObject(t, await resultFrom(""), { region: "away", status: "up" });
  t.equal(await killed.stop("SIGKILL"), "SIGKILL");
  const at = new Date().toISOString();
  const next = start();
  matchObject(t, await resultFrom(at), { region: "away", status: "up" });
  t.equal(await next.stop("SIGTERM"), 0, "an ordinary stop exits with 0");
});
