import t from "tap";
import { hashPassword } from "@statusmesh/control-plane/access/auth/passwords/passwords";
import { codeAt, stepAt } from "@statusmesh/control-plane/access/auth/second-factor/totp";
import { cheapHash } from "@statusmesh/control-plane/testing/world";
import { newId } from "@statusmesh/shared/ids";
import type { AgentResult } from "@statusmesh/shared/protocol/agent-protocol";
import { connect } from "../harness/api.ts";
import { agentIn, castIn } from "../harness/cast.ts";
import { asUser, type CommitPoint, createReplicaUser, openCommitFaults } from "../harness/commit-faults.ts";
import { cloneDatabase } from "../harness/database.ts";
import { type ControlPlane, startControlPlane } from "../harness/processes.ts";
import { admit, batchOf, runOf } from "../harness/results.ts";
import { startSink } from "../harness/sink.ts";
import { insertTargetsIn } from "../harness/targets.ts";
import { waitFor } from "../harness/wait.ts";

/*
 * A control plane is killed before and after every commit on the way from a result to the receiver, while another one
 * runs. At every moment the outcome is one incident, one delivery row for each notice, and at least one request with
 * its delivery_id.
 */

const points: readonly CommitPoint[] = [
  // The transaction of a batch, which writes its results and evidence too.
  { name: "opening", table: "deliveries", event: "insert", when: "new.reason = 'opened'" },
  { name: "claim", table: "deliveries", event: "update", when: "new.leased_until is not null" },
  { name: "attempt", table: "delivery_attempts", event: "insert" },
  {
    name: "round",
    table: "deliveries",
    event: "update",
    when: "new.message_id is not null and old.message_id is null",
  },
];
/** The code of a second factor is used, and the session opened. */
const signIn: CommitPoint = { name: "sign-in", table: "sessions", event: "insert" };
const moments = ["before the commit", "after the commit"] as const;

const database = await cloneDatabase(t);
const { sql } = database;
const { olga } = await castIn(sql);
const agent = await agentIn(sql, "default");
const sink = await startSink(t);
const faults = await openCommitFaults(database.pool(2), [...points, signIn]);
const intervalMs = 10_000;

const users = [await createReplicaUser(t, sql), await createReplicaUser(t, sql)];
const running = new Map<string, ControlPlane>();
async function start(user: string): Promise<void> {
  const env = {
    ...database.env,
    ...asUser(user),
    SM_SCHEDULER__BUILTIN_AGENT: "false",
    SM_ALERTS__ROUND_SECS: "10",
    SM_CHANNELS__ENDPOINTS__SLACK: new URL(sink.url).origin,
  };
  running.set(user, await startControlPlane(t, { caFile: sink.caFile, env }));
}
await Promise.all(users.map(start));

const api = () => connect(t, [...running.values()][0]!.url, olga.token);
const channel = async (config: object): Promise<string> => {
  const { status, body, text } = await api().post("/api/v1/notification-channels", { name: `C ${newId()}`, config });
  if (status !== 201) throw new Error(text);
  return body.id;
};
const webhook = await channel({ type: "webhook", url: sink.url, secret: sink.secret });
const chat = await channel({ type: "slack", webhook_url: "https://hooks.slack.com/services/T0/B0/X" });

/** Sends a batch to each replica in turn until one acknowledges it, as an agent does behind a load balancer. */
async function report(results: AgentResult[]): Promise<void> {
  await admit(sql, "default", results);
  await waitFor("a batch to be stored", async () => {
    for (const { url } of running.values()) {
      const answer = await connect(t, url, agent.token)
        .post("/api/agent/results", batchOf(results))
        .catch(() => null);
      if (answer?.status === 200) return true;
    }
    return false;
  });
}

async function targets(count: number, channelId: string): Promise<string[]> {
  const ids = Array.from({ length: count }, () => newId());
  await sql.begin((tx) =>
    insertTargetsIn(tx, {
      ids,
      orgId: olga.orgId,
      region: "default",
      intervalSecs: intervalMs / 1000,
      confirmations: 2,
      channelId,
    }),
  );
  return ids;
}

/** Reports an outage of the targets and its recovery: five slots of 10 s, the last one now. */
async function outage(ids: readonly string[]): Promise<void> {
  const last = Math.floor(Date.now() / 1000) * 1000;
  for (const [at, status] of (["up", "down", "down", "up", "up"] as const).entries())
    await report(ids.map((id) => runOf(id, last - (4 - at) * intervalMs, status)));
}

/** Kills the process whose commit is held, and starts it again. */
async function crash(moment: (typeof moments)[number]): Promise<void> {
  const user = await faults.held();
  const victim = running.get(user)!;
  running.delete(user);
  process.kill(victim.pid, "SIGKILL");
  await victim.ended;
  if (moment === "before the commit") await faults.abort(user);
  else await faults.release(user);
  // The leases of a killed process expire after a minute. Its last transactions have ended by now.
  await sql`update deliveries set leased_until = now() - interval '1 s' where leased_until is not null`;
  await start(user);
}

interface Row {
  id: string;
  reason: string;
  state: string;
}

for (const point of points)
  for (const moment of moments)
    t.test(`killed ${moment} of: ${point.name}`, async (t) => {
      const isRound = point.name === "round";
      const ids = await targets(isRound ? 8 : 1, isRound ? chat : webhook);
      await faults.arm(point);
      await Promise.all([outage(ids), crash(moment)]);
      const rows = await waitFor("every delivery", async () => {
        const found = await sql<Row[]>`
          select d.id, d.reason, d.state from deliveries d join incidents i on i.id = d.incident_id
          where i.target_id = any(${ids}::uuid[]) order by d.created_at, d.id`;
        const done = found.length >= 2 * ids.length && found.every(({ state }) => state === "delivered");
        return done ? found : null;
      });
      const [incidents] = await sql`
        select count(*)::int as count from incidents where target_id = any(${ids}::uuid[]) and not retracted`;
      t.equal(incidents!["count"], ids.length, "one incident for each target");
      for (const reason of ["opened", "resolved"])
        t.equal(rows.filter((row) => row.reason === reason).length, ids.length, `one row for each: ${reason}`);
      if (isRound) {
        const [messages] = await sql`
          select count(distinct coalesce(d.message_id, d.id))::int as count from deliveries d
          join incidents i on i.id = d.incident_id where i.target_id = any(${ids}::uuid[])`;
        t.ok(messages!["count"] < ids.length, `${messages!["count"]} messages`);
        return;
      }
      const received = sink.about(ids[0]!).map(({ notice }) => `${notice.reason} ${notice.delivery_id}`);
      t.strictSame(
        [...new Set(received)],
        rows.map(({ id, reason }) => `${reason} ${id}`),
        "requests with the ids of the rows, in order",
      );
    });

for (const moment of moments)
  t.test(`killed ${moment} of: ${signIn.name}`, async (t) => {
    const [email, password, secret] = [`${newId()}@example.org`, "correct horse battery", "GEZDGNBVGY3TQOJQ"];
    const { olga: owner } = await castIn(sql);
    const hash = await hashPassword({ hashCost: cheapHash }, password);
    await sql`update users set email = ${email}, password_hash = ${hash} where id = ${owner.userId}`;
    await sql`insert into totp_factors (user_id, secret) values (${owner.userId}, ${`plain:${secret}`})`;
    const send = async (code: string) =>
      await connect(t, [...running.values()][0]!.url, null).post("/api/v1/sessions", { email, password, code });
    const sessions = async () => (await sql`select from sessions where user_id = ${owner.userId}`).length;
    const isCommitted = moment === "after the commit";
    // That of the next step is accepted for at least a minute.
    const code = codeAt(secret, stepAt(Date.now()) + (isCommitted ? 0 : 1));
    await faults.arm(signIn);
    const [reply] = await Promise.all([send(code).catch(() => null), crash(moment)]);
    t.equal(reply, null, "the process has not replied");
    t.equal(await sessions(), isCommitted ? 1 : 0);
    const again = await send(code);
    t.equal(again.status, isCommitted ? 401 : 201, "the code counts once, with its session");
    if (isCommitted) t.equal((await send(codeAt(secret, stepAt(Date.now()) + 1))).status, 201, "the next one signs in");
    t.equal(await sessions(), isCommitted ? 2 : 1);
  });
