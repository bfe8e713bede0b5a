import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import { jitterMs, phaseMs, slotAtOrAfter } from "@statusmesh/shared/schedule";
import { agentIn, castIn } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { tempFolder } from "../harness/folder.ts";
import { serveHere } from "../harness/in-process.ts";
import { type Program, startAgent } from "../harness/processes.ts";
import { startTcpTarget } from "../harness/servers.ts";
import { insertTargets } from "../harness/targets.ts";
import { waitFor } from "../harness/wait.ts";
import { storedSlots } from "../harness/results.ts";

/*
 * Two agents of one region share its targets: every slot is run by one of them, while agents join, deregister and are
 * killed. The stored slots prove it, not measured times: a slot may be without a result only during a handover, or when
 * an agent counts it as missed because its machine was too slow.
 */

const region = "shared";
const intervalSecs = 3;
const intervalMs = intervalSecs * 1000;
/** The default of `scheduler.jitter_pct`. */
const jitterPct = 10;

/** The time of a handover, Unix ms: slots that start in it may be without a result. */
interface Handover {
  from: number;
  to: number;
}

/** One line of an agent's log with its counters. */
interface Numbers {
  assigned: number;
  missed: number;
  skipped: number;
}

const numbersOf = ({ log }: Program): Numbers[] =>
  log.filter((line) => line.includes('"msg":"numbers"')).map((line) => JSON.parse(line) as Numbers);
const assignedTo = (agent: Program): number => numbersOf(agent).at(-1)?.assigned ?? 0;

t.test("every slot is run by one agent of the region, while agents join, deregister and are killed", async (t) => {
  const database = await cloneDatabase(t);
  const { sql } = database;
  const { olga } = await castIn(sql);
  const ids = Array.from({ length: 16 }, newId);
  const servers = await Promise.all(ids.map(async () => await startTcpTarget(t)));
  const identities = [await agentIn(sql, region), await agentIn(sql, region)];
  await insertTargets(sql, {
    ids,
    orgId: olga.orgId,
    region,
    intervalSecs,
    confirmations: 2,
    spec: (n) => ({ type: "tcp", host: "127.0.0.1", port: servers[n]!.port, timeout: 2500 }),
  });
  const url = await serveHere(t, database);
  const agents: Program[] = [];
  const start = (n: number): Program => {
    const folder = tempFolder(t, "agent");
    const agent = startAgent(t, { url, token: identities[n]!.token, folder, env: { SM_AGENT_STATS_SECS: "1" } });
    agents.push(agent);
    return agent;
  };
  /** Waits until these agents have all targets, each of them some. */
  const shared = async (...some: Program[]): Promise<void> =>
    void (await waitFor("the targets to be shared", () => {
      const assigned = some.map(assignedTo);
      return assigned.every((count) => count > 0) && assigned.reduce((sum, count) => sum + count) === ids.length;
    }));

  const slotsByTarget = async (): Promise<Map<string, number[]>> => {
    const rows = await storedSlots(sql);
    const slots = new Map(ids.map((id) => [id, [] as number[]]));
    for (const row of rows) slots.get(row.target_id)!.push(row.scheduled_at.getTime());
    return slots;
  };
  const handovers: Handover[] = [];
  /** Slots without a result that started before `until`, outside of handovers. */
  const missingSlots = async (until: number): Promise<string[]> => {
    const missing: string[] = [];
    for (const [id, slots] of await slotsByTarget()) {
      const stored = new Set(slots);
      const phase = phaseMs(id, region, intervalMs);
      let slot = slotAtOrAfter((slots[0] ?? 0) + intervalMs / 2, phase, intervalMs);
      for (; slots.length > 0 && slot + intervalMs < until; slot += intervalMs) {
        const startAt = slot + jitterMs(id, slot, intervalMs, jitterPct);
        const handedOver = handovers.some(({ from, to }) => startAt >= from && startAt <= to);
        if (!stored.has(slot) && !handedOver) missing.push(`${id} ${new Date(slot).toISOString()}`);
      }
    }
    return missing;
  };
  /** Waits until every slot before now has its result, but for those that agents count as missed. */
  const complete = async (): Promise<void> => {
    const until = Date.now();
    await waitFor("every slot to have its result", async () => {
      const counted = agents.flatMap(numbersOf).reduce((sum, { missed, skipped }) => sum + missed + skipped, 0);
      const missing = await missingSlots(until);
      if (missing.length > counted) throw new Error(`${counted} are counted as missed, without result: ${missing}`);
      return [...(await slotsByTarget()).values()].every((slots) => slots.some((slot) => slot >= until));
    });
  };
  /** Runs `change` and waits until `done`: a handover, which begins when the history before it is complete. */
  const handOver = async (change: () => Promise<unknown>, done: () => Promise<unknown>): Promise<void> => {
    const from = Date.now();
    await complete();
    await change();
    await done();
    handovers.push({ from, to: Date.now() });
  };

  const first = start(0);
  await shared(first);
  const second = start(1);
  await shared(first, second);
  handovers.push({ from: 0, to: Date.now() });

  const settled = Date.now();
  const countSlots = async (until: number) =>
    [...(await slotsByTarget()).values()].map((all) => all.filter((slot) => slot >= settled && slot < until).length);
  await waitFor("five slots of every target", async () => (await countSlots(Infinity)).every((count) => count >= 5));
  const until = Date.now();
  await complete();
  const slots = await countSlots(until);
  const runs = servers.map(({ arrivals }) => arrivals.filter((at) => at >= settled && at < until).length);
  // The first and the last run may belong to a slot outside of the time; a second agent would run all of them.
  t.strictSame(
    ids.filter((_, n) => runs[n]! > slots[n]! + 2),
    [],
    `no slot is run by both agents: ${runs.join(" ")} runs of ${slots.join(" ")} slots`,
  );

  await handOver(
    async () => {
      t.equal(await second.stop("SIGTERM"), 0);
      // It cannot expire, so the other agent gets its targets because it has deregistered.
      const left = await sql`
        update agents set last_seen_at = now() + interval '1 hour'
        where id = ${identities[1]!.id} and left_at is not null`;
      t.equal(left.count, 1);
    },
    () => shared(first),
  );
  await complete();

  let third!: Program;
  await handOver(
    async () => void (third = start(1)),
    () => shared(first, third),
  );
  await handOver(
    async () => t.equal(await third.stop("SIGKILL"), "SIGKILL"),
    () =>
      waitFor("the other agent to have all targets", async () => {
        // What the clock does within 25 s. The end of a held pull may mark the killed agent as seen once more.
        await sql`
          update agents set last_seen_at = now() - interval '1 minute' where id = ${identities[1]!.id}`;
        return assignedTo(first) === ids.length;
      }),
  );
  await complete();
  t.equal(await first.stop("SIGTERM"), 0);

  matchObject(t, await sql`select count(*)::int as n from results where status <> 'up' and not skip`, [{ n: 0 }]);
  matchObject(t, await sql`select count(*)::int as n from incidents`, [{ n: 0 }]);
});
