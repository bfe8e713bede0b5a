import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import { phaseMs } from "@statusmesh/shared/schedule";
import { agentIn, castIn } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { tempFolder } from "../harness/folder.ts";
import { serveHere } from "../harness/in-process.ts";
import { inReality, type Program, startAgent } from "../harness/processes.ts";
import { startTcpTarget } from "../harness/servers.ts";
import { insertTargets } from "../harness/targets.ts";
import { waitFor } from "../harness/wait.ts";

/*
 * Agents on a machine with a wrong clock, and agents whose network is down while that of their neighbour works.
 */

const hour = 3_600_000;
const linesOf = ({ log }: Program, level: string): { msg: string }[] =>
  log.map((line) => JSON.parse(line) as { level: string; msg: string }).filter((it) => it.level === level);

t.test("a clock that is an hour off, or is stepped, changes no slot, time or incident", async (t) => {
  const database = await cloneDatabase(t);
  const { sql } = database;
  const { olga } = await castIn(sql);
  const id = newId();
  const server = await startTcpTarget(t);
  const intervalSecs = 2;
  const regions = { ahead: hour, behind: -hour, set: 0 } as const;
  const agents = await Promise.all(
    Object.keys(regions).map(async (region) => ({ region, token: (await agentIn(sql, region)).token })),
  );
  await insertTargets(sql, {
    ids: [id],
    orgId: olga.orgId,
    region: "ahead",
    intervalSecs,
    confirmations: 2,
    spec: () => ({ type: "tcp", host: "127.0.0.1", port: server.port, timeout: 1000 }),
  });
  await sql`insert into target_regions (target_id, region_id) values (${id}, 'behind'), (${id}, 'set')`;
  await sql`update targets set region_policy = '"all"'`;
  const url = await serveHere(t, database);
  const began = Date.now();
  const [ahead, behind, set] = agents.map(({ region, token }) =>
    startAgent(t, {
      url,
      token,
      folder: tempFolder(t, "agent"),
      env: inReality({
        SM_TEST_CLOCK_MS: String(regions[region as keyof typeof regions]),
        SM_TEST_STEP_MS: String(hour),
      }),
    }),
  ) as [Program, Program, Program];
  interface Row {
    region: string;
    slot: number;
    at: number;
    status: string;
  }
  const rows = async (): Promise<Row[]> =>
    await sql<Row[]>`
      select region, (extract(epoch from scheduled_at) * 1000)::float8 as slot,
        (extract(epoch from "timestamp") * 1000)::float8 as at, status from results order by scheduled_at`;
  /** Every region has a result of this status for a slot after `from`. */
  const seen = async (status: string, from: number): Promise<void> =>
    void (await waitFor(`every region to find it ${status}`, async () => {
      const found = await rows();
      return Object.keys(regions).every((region) =>
        found.some((row) => row.region === region && row.status === status && row.slot > from),
      );
    }));
  const incident = async () => {
    const [row] = await sql<{ started: number; ended: number | null }[]>`
      select (extract(epoch from started_at) * 1000)::float8 as started,
        (extract(epoch from ended_at) * 1000)::float8 as ended from incidents`;
    return row ?? null;
  };

  await seen("up", began);
  process.kill(set.pid, "SIGUSR2");
  const down = Date.now();
  await server.down();
  const opened = await waitFor("the incident", incident);
  process.kill(behind.pid, "SIGUSR2");
  process.kill(set.pid, "SIGUSR2");
  const up = Date.now();
  await server.up();
  const closed = await waitFor("its end", async () => {
    const found = await incident();
    return found?.ended == null ? null : found;
  });
  await seen("up", up);
  const end = Date.now();
  // Half of the error of the clocks: a correct time differs less on the slowest machine, and a wrong one more.
  const slack = hour / 2;
  t.ok(
    Math.abs(opened.started - down) < slack && Math.abs(closed.ended! - up) < slack,
    "start and end of the incident are correct",
  );
  matchObject(t, await sql`select count(*)::int as n from incidents`, [{ n: 1 }]);

  for (const region of Object.keys(regions)) {
    const own = (await rows()).filter((row) => row.region === region);
    const phase = phaseMs(id, region, intervalSecs * 1000);
    // The first run of a target without results is off the grid.
    t.ok(
      own.slice(1).every(({ slot }) => (slot - phase) % (intervalSecs * 1000) === 0),
      `${region}: all slots are on the grid`,
    );
    t.ok(
      own.every(({ slot, at }) => slot > began - slack && slot < end + slack && Math.abs(at - slot) < slack),
      `${region}: slots and times of runs are correct`,
    );
    t.equal(
      own
        .map(({ status }) => (status === "up" ? "+" : "-"))
        .join("")
        .replaceAll(/(.)\1+/g, "$1"),
      "+-+",
      `${region}: up, down and up, in this order`,
    );
  }
  const clockWarnings = [ahead, behind, set].map((agent) =>
    linesOf(agent, "warn")
      .filter(({ msg }) => msg.includes("clock"))
      .map(({ msg }) => msg),
  );
  matchObject(
    t,
    clockWarnings,
    [[/clock is 3[56]\d\d s ahead of the control plane's/], [/clock is 3[56]\d\d s behind the control plane's/], []],
    "a wrong clock is logged once; a step is not noticed and changes nothing",
  );
  t.strictSame(
    clockWarnings.map(({ length }) => length),
    [1, 1, 0],
  );
  for (const agent of [ahead, behind, set]) t.equal(await agent.stop("SIGTERM"), 0);
});

t.test("an agent whose network is down hands its targets to its neighbour, and takes them back", async (t) => {
  const database = await cloneDatabase(t);
  const { sql } = database;
  const { olga } = await castIn(sql);
  const ids = Array.from({ length: 12 }, newId);
  const servers = await Promise.all(ids.map(async () => await startTcpTarget(t)));
  const canary = await startTcpTarget(t);
  const [one, two] = [await agentIn(sql, "shared"), await agentIn(sql, "shared")];
  await insertTargets(sql, {
    ids,
    orgId: olga.orgId,
    region: "shared",
    intervalSecs: 2,
    confirmations: 2,
    spec: (n) => ({ type: "tcp", host: "10.99.0.7", port: servers[n]!.port, timeout: 1000 }),
  });
  const url = await serveHere(t, database);
  const cable = join(tempFolder(t, "cable"), "unplugged");
  const start = (token: string, unplugged: string): Program =>
    startAgent(t, {
      url,
      token,
      folder: tempFolder(t, "agent"),
      env: {
        ...inReality({ SM_TEST_UNPLUGGED: unplugged }),
        SM_AGENT_CANARIES: `10.99.0.1:${canary.port}`,
        SM_AGENT_STATS_SECS: "1",
      },
    });
  const [cut, fine] = [start(one.token, cable), start(two.token, `${cable}-never`)];
  const assigned = (agent: Program): number =>
    (linesOf(agent, "info").findLast(({ msg }) => msg === "numbers") as { assigned?: number } | undefined)?.assigned ??
    0;
  const shared = () => assigned(cut) > 0 && assigned(fine) > 0 && assigned(cut) + assigned(fine) === ids.length;
  await waitFor("the targets to be shared", shared);
  const counted = async () => {
    const [row] = await sql<{ up: number; down: number; skipped: number }[]>`
      select count(*) filter (where status = 'up')::int as up,
        count(*) filter (where status <> 'up' and not skip)::int as down,
          count(*) filter (where skip)::int as skipped from results`;
    return row!;
  };

  writeFileSync(cable, "");
  await waitFor(
    "the agent to report that its network is down",
    async () => (await sql`select 1 from agents where id = ${one.id} and impaired_since is not null`).length === 1,
  );
  await waitFor("its neighbour to have all targets", () => assigned(cut) === 0 && assigned(fine) === ids.length);
  const from = Date.now();
  await waitFor("every target to be reached", () => servers.every(({ arrivals }) => arrivals.some((at) => at > from)));
  t.equal(linesOf(cut, "error").filter(({ msg }) => msg.includes("own network is down")).length, 1, "logged once");
  rmSync(cable);
  await waitFor("the targets to be shared again", shared);
  matchObject(t, await sql`select id from agents where impaired_since is not null`, []);
  const back = Date.now();
  await waitFor("every target to be reached", () => servers.every(({ arrivals }) => arrivals.some((at) => at > back)));
  const results = await counted();
  t.equal(results.down, 0, "a run without a network is no evidence");
  t.ok(results.skipped > 0, "and is stored as skipped");
  matchObject(t, await sql`select count(*)::int as n from incidents`, [{ n: 0 }]);
  t.strictSame(linesOf(fine, "error"), []);
  for (const agent of [cut, fine]) t.equal(await agent.stop("SIGTERM"), 0);
});
