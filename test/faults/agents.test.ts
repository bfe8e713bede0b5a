import { setTimeout as sleep } from "node:timers/promises";
import t from "tap";
import { newId } from "@statusmesh/shared/ids";
import { agentIn, castIn } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { tempFolder } from "../harness/folder.ts";
import { serveHere } from "../harness/in-process.ts";
import { type Program, startAgent } from "../harness/processes.ts";
import { startTcpTarget } from "../harness/servers.ts";
import { insertTargets } from "../harness/targets.ts";
import { waitFor } from "../harness/wait.ts";

/*
 * Two agents of one region share its targets: every slot is run by one of them, whether they come, are stopped or are
 * killed.
 */

const intervalSecs = 3;
const intervalMs = intervalSecs * 1000;

t.test(
  "agents of a region come, stop and are killed, and each target goes on being checked, by one of them",
  async (t) => {
    const database = await cloneDatabase(t);
    const { sql } = database;
    const { olga } = await castIn(sql);
    const ids = Array.from({ length: 16 }, newId);
    const servers = await Promise.all(ids.map(async () => await startTcpTarget(t)));
    const tokens = [await agentIn(sql, "shared"), await agentIn(sql, "shared")];
    await insertTargets(sql, {
      ids,
      orgId: olga.orgId,
      region: "shared",
      intervalSecs,
      confirmations: 2,
      spec: (n) => ({ type: "tcp", host: "127.0.0.1", port: servers[n]!.port, timeout: 1000 }),
    });
    const url = await serveHere(t, database);
    const start = (n: number): Program =>
      startAgent(t, {
        url,
        token: tokens[n]!.token,
        folder: tempFolder(t, "agent"),
        env: { SM_AGENT_STATS_SECS: "1" },
      });
    const assigned = ({ log }: Program): number => {
      const line = log.findLast((it) => it.includes('"msg":"numbers"'));
      return line === undefined ? 0 : (JSON.parse(line) as { assigned: number }).assigned;
    };
    const shared = async (...agents: Program[]): Promise<void> => {
      await waitFor(
        "the targets to be shared out",
        () =>
          agents.every((agent) => assigned(agent) > 0) &&
          agents.reduce((sum, agent) => sum + assigned(agent), 0) === ids.length,
      );
    };
    /**
     * Since a moment: the longest time in which a target was not checked, and the most checks of one above what its
     * slots call for.
     */
    const since = (from: number): { gap: number; excess: number } => {
      const to = Date.now();
      let gap = 0;
      let excess = -Infinity;
      for (const { arrivals } of servers) {
        const times = arrivals.filter((at) => at >= from && at < to);
        for (const [n, at] of [...times, to].entries()) gap = Math.max(gap, at - (times[n - 1] ?? from));
        excess = Math.max(excess, times.length - (to - from) / intervalMs);
      }
      return { gap, excess };
    };
    /** Every target has been checked since then. */
    const checkedSince = async (from: number): Promise<void> =>
      void (await waitFor("every target to be checked", () =>
        servers.every(({ arrivals }) => arrivals.some((at) => at > from)),
      ));

    const first = start(0);
    await shared(first);
    const came = Date.now();
    const second = start(1);
    await shared(first, second);
    const settled = Date.now();
    await sleep(4 * intervalMs);
    const steady = since(settled);
    t.ok(steady.excess < 2, `no slot is run by both: ${steady.excess.toFixed(1)} checks more than slots`);
    t.ok(since(came).excess < 3, "and at most one was when the second came");
    t.ok(since(came).gap < 3 * intervalMs, "without a gap");

    const stopped = Date.now();
    t.equal(await second.stop("SIGTERM"), 0);
    await shared(first);
    await checkedSince(stopped + 1);
    const { gap } = since(stopped - intervalMs);
    t.ok(gap < 15_000, `who stops says so: at most ${(gap / 1000).toFixed(1)} s without a check of a target`);
    t.match(await sql`select count(*)::int as n from agents where left_at is not null`, [{ n: 1 }]);

    const third = start(1);
    await shared(first, third);
    const killed = Date.now();
    t.equal(await third.stop("SIGKILL"), "SIGKILL");
    await waitFor("the other to have all", () => assigned(first) === ids.length);
    await checkedSince(Date.now());
    const after = since(killed);
    t.ok(after.gap < 60_000 + intervalMs, `who is killed is replaced: ${(after.gap / 1000).toFixed(1)} s`);
    t.equal(await first.stop("SIGTERM"), 0);

    const [stored] = await sql<{ rows: number; slots: number; down: number }[]>`
    select count(*)::int as rows, count(distinct (target_id, scheduled_at))::int as slots,
      count(*) filter (where status <> 'up')::int as down from results`;
    t.equal(stored!.slots, stored!.rows, "no slot is there twice");
    t.equal(stored!.down, 0);
    t.match(await sql`select count(*)::int as n from incidents`, [{ n: 0 }]);
  },
);
