import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { AgentPing, PingsReply, PingsRequest } from "@statusmesh/shared/protocol/agent-protocol";
import { newId } from "@statusmesh/shared/ids";
import { digestOf } from "@statusmesh/shared/pings/address";
import { hashToken, newToken } from "../../../platform/crypto/token.ts";
import { ensurePartitions } from "../../../platform/db/distributed/partitions.ts";
import { day, hour, minute, noon, second } from "../../../testing/clock.ts";
import { asking, serveWhole, signedIn } from "../../../testing/whole-app.ts";
import { newOrg, openWorld } from "../../../testing/world.ts";
import { followHeartbeats, isHeartbeatDue } from "./reports.ts";
import { isTrue } from "../../../platform/jobs/queries.ts";

const world = await openWorld(t);
const { sql, clock, system, log } = world;
await ensurePartitions(sql, new Date(noon - 10 * day), new Date(noon + 40 * day));
const anybody = await serveWhole(t, world);
const ask = asking(anybody, await signedIn(await newOrg(system)));

/** An agent that takes pings from `clock.at` on. */
async function newAgent() {
  const [token, id] = [newToken("sm_agent_"), newId()];
  await sql`
    insert into agents (id, region_id, name, token_hash, created_at)
    values (${id}, 'eu', 'Site', ${hashToken(token)}, ${new Date(clock.at)})`;
  let since = clock.at;
  return {
    id,
    restart: () => void (since = clock.at),
    async deliver(pings: readonly AgentPing[], more: Partial<PingsRequest> = {}): Promise<PingsReply> {
      const request = { protocol: 1, listening_since: since, until: clock.at, pings, bodies: [], ...more };
      const { status, body, text } = await anybody("POST", "/api/agent/pings", request, {
        authorization: `Bearer ${token}`,
      });
      if (status !== 200) throw new Error(text);
      return body;
    },
  };
}

async function make(check: object = {}, more: object = {}) {
  const made = await ask("POST", "/api/v1/targets", {
    name: "Backup",
    check: { type: "heartbeat", period: hour, grace: minute, ...check },
    ...more,
  });
  if (made.status !== 201) throw new Error(made.text);
  const id: string = made.body.id;
  const heartbeat = async () => (await ask("GET", `/api/v1/targets/${id}/heartbeat`)).body;
  const { token, ping_url } = await heartbeat();
  return {
    id,
    heartbeat,
    direct: async (suffix = "") => await anybody("GET", new URL(ping_url).pathname + suffix),
    ping: (more: Partial<AgentPing> = {}): AgentPing => ({
      id: newId(),
      address: digestOf("own", token),
      at: clock.at,
      method: "GET",
      kind: "success",
      exit_code: null,
      run_id: null,
      source_ip: "10.1.2.3",
      user_agent: "curl/8",
      ...more,
    }),
    incidents: async () =>
      (await ask("GET", `/api/v1/incidents?state=all&target_id=${id}`)).body.items as {
        started_at: string;
        ended_at: string | null;
        error_sample: string;
      }[],
    results: async () =>
      await sql<{ at: Date; status: string }[]>`
        select scheduled_at as at, status from results where target_id = ${id} order by 1`,
  };
}

const iso = (at: number) => new Date(at).toISOString();
/** Time passes, and control planes watch all the while. */
async function pass(ms: number): Promise<void> {
  clock.advance(ms);
  await sql`
    insert into heartbeat_watch (alive_at) values (${new Date(clock.at)})
    on conflict (only_row) do update set alive_at = excluded.alive_at`;
  for (let n = 0; n < 40 && (await isTrue(system, isHeartbeatDue)); n++)
    if ((await followHeartbeats(system, async () => {})) === 0) return;
}

t.beforeEach(() => {
  clock.at = noon;
});

t.test("what a job said to an agent is the error and the time of its result", async (t) => {
  const [agent, job] = [await newAgent(), await make()];
  await agent.deliver([job.ping({ kind: "fail", message: "disk is full", duration_ms: 41 })]);
  const [result] = await sql`select error, total_ms from results where target_id = ${job.id}`;
  t.strictSame({ ...result }, { error: "disk is full", total_ms: 41 });
});

t.test("pings count at their time and once; others are dropped and counted", async (t) => {
  const [agent, job] = [await newAgent(), await make()];
  const posted = await make({ methods: "post" });
  clock.advance(30 * minute);
  const [start, end] = [job.ping({ at: noon, kind: "start" }), job.ping({ at: noon + 90_000, method: "POST" })];
  const batch = [
    start,
    end,
    job.ping({ address: digestOf("own", "a".repeat(43)) }),
    job.ping({ at: clock.at - 7 * day - 1 }),
    job.ping({ at: clock.at + 5 * minute + 1 }),
    posted.ping(),
    end,
  ];
  const bodies = [{ id: end.id, address: end.address, body: "3 files" }];
  const [unknown] = [batch[2]!.address];
  const counts = { dropped_unknown: 1, dropped_method: 1, dropped_time: 2, unknown: [unknown] };
  t.same(await agent.deliver(batch, { bodies }), { stored: 2, duplicates: 1, ...counts });
  const shown = await job.heartbeat();
  matchObject(t, shown, {
    state: "up",
    last_duration_ms: 90_000,
    next_due_at: iso(noon + 90_000 + hour),
    last_ping: { at: iso(noon + 90_000), source_ip: "10.1.2.3", body: "3 files" },
  });
  t.same(await agent.deliver(batch), { stored: 0, duplicates: 3, ...counts }, "sent again it changes nothing");
  t.same(await job.heartbeat(), shown);
  t.same(
    (await job.results()).map(({ at, status }) => [at.getTime(), status]),
    [[noon + 90_000, "up"]],
  );
  const [row] = await sql`select dropped::int as dropped from heartbeat_agents where agent_id = ${agent.id}`;
  t.equal(row!["dropped"], 8);
  t.equal(log.lines.filter(({ message }) => message.startsWith("pings that an agent took are dropped")).length, 1);
  // Older than the newest 1,000: whether it was stored is not known any more, and it would change nothing.
  await sql`update heartbeats set pings = 5000 where target_id = ${job.id}`;
  matchObject(t, await agent.deliver([job.ping({ at: noon - hour })]), { stored: 0, duplicates: 1 });
});

t.test("the key in the database is no way to report, and a ping needs the address, not the organisation", async (t) => {
  const [agent, job] = [await newAgent(), await make()];
  const stranger = asking(anybody, await signedIn(await newOrg(system)));
  t.equal((await stranger("GET", `/api/v1/targets/${job.id}/heartbeat`)).status, 404);
  const [stored] = await sql<{ hash: string }[]>`
    select encode(hash, 'hex') as hash from heartbeat_addresses where target_id = ${job.id}`;
  matchObject(t, await agent.deliver([job.ping({ address: stored!.hash })]), { stored: 0, dropped_unknown: 1 });
  const [other] = [await make()];
  const ping = job.ping();
  await agent.deliver([ping], { bodies: [{ id: ping.id, address: other.ping().address, body: "forged" }] });
  matchObject(t, await job.heartbeat(), { state: "up", last_ping: { body: null } }, "a body needs the address too");
});

t.test("while the agent is away its monitors are late, for a day", async (t) => {
  const [agent, job] = [await newAgent(), await make()];
  await agent.deliver([job.ping()]);
  await pass(3 * hour);
  matchObject(t, await job.heartbeat(), { state: "late" });
  const page = (await ask("GET", `/monitors/${job.id}`)).text.replaceAll(/\s+/g, " ");
  t.match(
    page,
    "The agent that received the last report is offline and may have it. The monitor goes down after 24 hours.",
  );
  t.same(await job.incidents(), []);
  // The job has reported all the while; its agent delivers it now.
  const pings = [1, 2, 3].map((n) => job.ping({ at: noon + n * hour - 5 * minute }));
  matchObject(t, await agent.deliver(pings), { stored: 3 });
  await pass(second);
  matchObject(t, await job.heartbeat(), { state: "up", next_due_at: iso(noon + 4 * hour - 5 * minute) });
  t.same(await job.incidents(), []);
  // It is silent from here on, and so is its agent.
  await pass(hour);
  await pass(23 * hour + 50 * minute);
  matchObject(t, await job.heartbeat(), { state: "late" });
  const over = noon + 4 * hour - 4 * minute;
  clock.at = over + day;
  await pass(second);
  matchObject(t, await job.heartbeat(), { state: "down" });
  matchObject(t, await job.incidents(), [
    {
      started_at: iso(over + day),
      ended_at: null,
      error_sample: /^no report, due .*; the agent that received it is offline$/,
    },
  ]);
});

t.test("a success from before an incident retracts it, also after many missed reports", async (t) => {
  const [agent, job] = [await newAgent(), await make({ period: 10 * minute })];
  await agent.deliver([job.ping()]);
  for (let n = 0; n < 12; n++) await pass(n === 0 ? 24 * hour + 12 * minute : 10 * minute);
  matchObject(t, await job.incidents(), [{ ended_at: null }]);
  const before = await job.results();
  t.ok(before.filter(({ status }) => status === "down").length > 10, "more than the evidence keeps");
  const all = Math.floor((clock.at - noon) / (10 * minute));
  const pings = Array.from({ length: all }, (_, n) => job.ping({ at: noon + (n + 1) * 10 * minute }));
  matchObject(t, await agent.deliver(pings), { stored: all });
  await pass(second);
  matchObject(t, await job.heartbeat(), { state: "up" });
  t.same(await job.incidents(), [], "there was none");
  t.same(new Set((await job.results()).map(({ status }) => status)), new Set(["up"]));
  const notices = await sql<{ retracted: boolean }[]>`select retracted from incidents where target_id = ${job.id}`;
  t.same(notices, [{ retracted: true }]);
});

t.test("what the job really missed is an outage, at its time", async (t) => {
  const [agent, job] = [await newAgent(), await make()];
  await agent.deliver([job.ping()]);
  await pass(6 * hour);
  await agent.deliver([job.ping({ at: noon + 2 * hour }), job.ping({ at: noon + 3 * hour })]);
  matchObject(t, await job.incidents(), [{ started_at: iso(noon + hour + minute), ended_at: iso(noon + 2 * hour) }]);
  await pass(second);
  matchObject(t, await job.heartbeat(), { state: "down" }, "nothing since, and the agent is there");
  matchObject(t, (await job.incidents())[0], { ended_at: null });
});

t.test("a report that another one has overtaken refutes what was missed in between", async (t) => {
  const [away, near, job] = [await newAgent(), await newAgent(), await make()];
  await near.deliver([job.ping()]);
  await pass(hour + 2 * minute);
  await near.deliver([]);
  await pass(10 * second);
  matchObject(t, await job.incidents(), [{ ended_at: null }]);
  await pass(20 * minute);
  await job.direct();
  matchObject(t, await job.incidents(), [{ started_at: iso(noon + hour + minute), ended_at: iso(clock.at) }]);
  await away.deliver([job.ping({ at: noon + 50 * minute })]);
  t.same(await job.incidents(), []);
  const shown = await job.heartbeat();
  matchObject(t, shown, { state: "up", last_ping: { at: iso(clock.at) }, next_due_at: iso(clock.at + hour) });
  // A failure of before the last success is an outage that has ended.
  await away.deliver([job.ping({ at: noon + 55 * minute, kind: "fail", exit_code: 3 })]);
  matchObject(t, await job.incidents(), [{ started_at: iso(noon + 55 * minute), ended_at: iso(clock.at) }]);
  matchObject(t, await job.heartbeat(), { state: "up" });
});

t.test("while the agent did not run no job could report: windows are extended to its start", async (t) => {
  const [agent, job] = [await newAgent(), await make()];
  await agent.deliver([job.ping()]);
  await pass(5 * hour);
  agent.restart();
  await agent.deliver([]);
  await pass(second);
  matchObject(t, await job.heartbeat(), { state: "late", down_at: iso(noon + 5 * hour + minute) });
  await pass(2 * minute);
  await agent.deliver([]);
  await pass(5 * second);
  matchObject(t, await job.heartbeat(), { state: "down" });
  matchObject(t, await job.incidents(), [{ started_at: iso(noon + 5 * hour + minute) }]);
});

t.test("a direct ping ends the tie to an agent, and so does its deletion", async (t) => {
  const [agent, job, other] = [await newAgent(), await make(), await make()];
  await agent.deliver([job.ping(), other.ping()]);
  clock.advance(minute);
  await job.direct();
  await sql`delete from agents where id = ${agent.id}`;
  await pass(hour + 2 * minute);
  matchObject(t, await job.heartbeat(), { state: "down" });
  matchObject(t, await other.heartbeat(), { state: "down" });
});
