import { connect as connectTcp, createServer, type Server } from "node:net";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { agentIn, castIn } from "../harness/cast.ts";
import { connect } from "../harness/api.ts";
import { cloneDatabase } from "../harness/database.ts";
import { tempFolder } from "../harness/folder.ts";
import { serveHere } from "../harness/in-process.ts";
import { freePort, type Program, startAgent } from "../harness/processes.ts";
import { waitFor } from "../harness/wait.ts";

/*
 * Jobs report to an agent while the control plane is away and the agent is killed: what it answered with OK is stored,
 * and once.
 */

const database = await cloneDatabase(t);
const { sql } = database;
const { olga } = await castIn(sql);
const identity = await agentIn(sql, "site");
const url = new URL(await serveHere(t, database));
const api = connect(t, url.href, olga.token);
const folder = tempFolder(t, "agent");
const port = await freePort();
const link = await freePort();

/** The network between the agent and the control plane; null while it is cut. */
let network: Server | null = null;
async function plug(): Promise<void> {
  const server = createServer((socket) => {
    const far = connectTcp(Number(url.port), url.hostname);
    for (const one of [socket, far]) one.on("error", () => (socket.destroy(), far.destroy()));
    socket.pipe(far).pipe(socket);
  });
  await new Promise<void>((resolve) => server.listen(link, "127.0.0.1", resolve));
  network = server;
}
t.teardown(() => network?.close());

let agent: Program;
const start = async () => {
  agent = startAgent(t, {
    url: `http://127.0.0.1:${link}`,
    token: identity.token,
    folder,
    env: { SM_AGENT_HEARTBEATS: String(port), SM_AGENT_SPOOL_DIR: folder },
  });
  await isUp();
};
const agentUrl = `http://127.0.0.1:${port}`;
const isUp = () =>
  waitFor("the agent to take pings", async () => (await fetch(agentUrl).catch(() => null))?.status === 404);

async function newJob(): Promise<{ id: string; path: string }> {
  const { body } = await api.post("/api/v1/targets", { name: "Job", check: { type: "heartbeat", period: 3_600_000 } });
  const heartbeat = await api.get(`/api/v1/targets/${body.id}/heartbeat`);
  return { id: body.id, path: new URL(heartbeat.body.ping_url).pathname };
}
const pingsOf = async (id: string) =>
  await sql<{ kind: string; exit_code: number | null; body: string | null; user_agent: string }[]>`
    select kind, exit_code, body, user_agent from heartbeat_pings where target_id = ${id} order by at, number`;

t.test("pings wait for a control plane that was never reached, through a kill of the agent", async (t) => {
  const [job, uuid] = [await newJob(), "0b0b7e9c-5d1f-4f6e-8c3a-1f2e3d4c5b6a"];
  await api.patch(`/api/v1/targets/${job.id}`, { heartbeat_addresses: [{ kind: "healthchecks", value: uuid }] });
  await start();
  const ask = async (path: string, init: RequestInit = {}) => {
    const answer = await fetch(agentUrl + path, init);
    return [answer.status, await answer.text()];
  };
  t.same(await ask(`${job.path}/start`), [200, "OK"]);
  t.same(await ask(`/ping/${uuid}/7`, { method: "POST", body: "no space left" }), [200, "OK"]);
  t.same(await ask(`/hb/${"x".repeat(43)}`), [200, "OK"], "whether it exists is not known here");
  t.same(await ask("/hb/short"), [404, "not found"]);
  t.same(await ask(`${job.path}/256`), [400, "an exit code is 0 to 255"]);
  t.same(await ask(job.path, { method: "PUT" }), [405, "GET, HEAD or POST"]);
  t.same(await ask("/api/push/unknown-token?status=up"), [200, '{"ok":true}']);
  const flood = await Promise.all(Array.from({ length: 200 }, () => ask(`/hb/${"y".repeat(43)}`)));
  t.ok(
    flood.some(([status]) => status === 429),
    "five a second after a burst of 60",
  );
  await agent.stop("SIGKILL");
  await start();
  t.same(await pingsOf(job.id), []);
  await plug();
  await waitFor("the pings", async () => (await pingsOf(job.id)).at(-1)?.body ?? false);
  matchObject(t, await pingsOf(job.id), [
    { kind: "start" },
    { kind: "fail", exit_code: 7, body: "no space left", user_agent: /node/ },
  ]);
  const { body } = await api.get(`/api/v1/targets/${job.id}/heartbeat`);
  matchObject(t, body, { state: "down", last_ping: { source_ip: "127.0.0.1" } });
  t.ok(body.last_duration_ms >= 0);
  await waitFor("the count of the others", async () => {
    const [row] = await sql<{ dropped: number }[]>`select dropped::int as dropped from heartbeat_agents`;
    // The unknown job, the unknown push, and the flood up to its rate.
    return row !== undefined && row.dropped >= 62 && row.dropped < 150;
  });
});

t.test("what was answered with OK is stored once, while agents are killed", async (t) => {
  const jobs = await Promise.all(Array.from({ length: 20 }, newJob));
  const answered = new Map(jobs.map(({ id }) => [id, 0]));
  let sent = 0;
  for (let round = 0; round < 3; round++) {
    const pinging = Array.from({ length: 4 }, async (_, lane) => {
      for (let n = 0; n < 15; n++) {
        const job = jobs[(lane * 5 + n) % jobs.length]!;
        const answer = await fetch(agentUrl + job.path, { headers: { "user-agent": `n${sent++}` } }).catch(() => null);
        if (answer?.status === 200) answered.set(job.id, answered.get(job.id)! + 1);
        if (lane === 0 && n === 10) await agent.stop("SIGKILL");
      }
    });
    await Promise.all(pinging);
    await start();
  }
  await waitFor("every answered ping", async () => {
    const stored = await Promise.all(jobs.map(async ({ id }) => [id, (await pingsOf(id)).length] as const));
    return stored.every(([id, count]) => count >= answered.get(id)!);
  });
  for (const { id } of jobs) {
    const labels = (await pingsOf(id)).map(({ user_agent: label }) => label);
    t.equal(new Set(labels).size, labels.length, "none twice");
  }
});
