import type { Sql } from "postgres";
import { newId } from "@statusmesh/shared/ids";
import { agentIn, castIn } from "../harness/cast.ts";
import { connect } from "../harness/api.ts";
import { tempFolder } from "../harness/folder.ts";
import { startControlPlane } from "../harness/processes.ts";
import { batchOf, chunked, runOf, slotIn } from "../harness/results.ts";
import { startSink } from "../harness/sink.ts";
import { insertTargets, openEmbedded } from "../harness/targets.ts";
import { waitFor } from "../harness/wait.ts";
import { type Measured, rounded, sleep } from "./measure.ts";
import { nodeArgs, percentile, withTeardown } from "./scope.ts";
import { watchStatements } from "./statements.ts";

const children = 10_000;
const batch = 500;
const intervalMs = 10_000;
/** Ladders that are due in a row, and in how long: 1,000 a minute. */
const ladders = { count: 250, ms: 15_000 };
/** CPU time of a statement, and from the time of a level until it is received (p99). */
const maxStatementMs = 100;
const maxLadderMs = 1_000;
const region = "bench";

/**
 * A parent with 10,000 children goes down, all of them fail, it recovers, and ten stay down: messages that the channel
 * gets, as a multiple of those that it should get (2 of the parent, 10 of the children); the longest statement; and
 * from the time at which a level of a ladder is due until it is received, at 1,000 ladders a minute. `ratio` is the
 * measurement nearest to its limit.
 */
export async function run(): Promise<Measured> {
  return await withTeardown(async (t) => {
    const folder = tempFolder(t, "bench");
    const sink = await startSink(t);
    const env = { SM_LOG__LEVEL: "warn", SM_SCHEDULER__BUILTIN_AGENT: "false" };
    const controlPlane = await startControlPlane(t, { folder, caFile: sink.caFile, env, nodeArgs });
    const sql = openEmbedded(t, folder, 2);
    const { olga } = await castIn(sql);
    const agent = await agentIn(sql, region);
    const api = connect(t, controlPlane.url, olga.token);
    const config = { type: "webhook", url: sink.url, secret: sink.secret };
    const channel = await api.post("/api/v1/notification-channels", { name: "Duty", config });
    if (channel.status !== 201) throw new Error(channel.text);
    const [parent, ...rest] = Array.from({ length: children + 1 }, newId) as [string, ...string[]];
    const common = { orgId: olga.orgId, region, intervalSecs: intervalMs / 1000, confirmations: 1 };
    await insertTargets(sql, { ids: [parent, ...rest], ...common, channelId: channel.body.id });
    await sql`
      insert into target_dependencies (target_id, parent_id, position)
      select id, ${parent}, 0 from unnest(${rest}::uuid[]) id`;
    await sql`analyze target_dependencies`;

    const probe = connect(t, controlPlane.url, agent.token);
    const report = async (ids: readonly string[], statusOf: (id: string) => "up" | "down"): Promise<void> => {
      for (const some of chunked(ids, batch)) {
        const now = Date.now() - intervalMs;
        const results = some.map((id) => runOf(id, slotIn(id, region, intervalMs, now), statusOf(id)));
        const { status, text } = await probe.post("/api/agent/results", batchOf(results));
        if (status !== 200) throw new Error(text);
      }
    };
    const longest = watchStatements(openEmbedded(t, folder, 1));
    const at = async (stage: string) =>
      (
        await sql<{ count: number }[]>`
        select count(*)::integer as count from incidents where hold_stage = ${stage}`
      )[0]!.count;
    await report([parent], () => "down");
    await report(rest, () => "down");
    await waitFor("every child is held", async () => (await at("parent")) === children);
    await sleep(2 * intervalMs);
    await report([parent], () => "up");
    await waitFor("every child is asked for", async () => (await at("recheck")) === children);
    await sleep(2 * intervalMs);
    const still = new Set(rest.slice(0, 10));
    await report(rest, (id) => (still.has(id) ? "down" : "up"));
    await waitFor("the notices of what is down", () => sink.received.length >= 2 + still.size);
    // Further ones would follow at once: nothing waits any more.
    await waitFor("the end of every hold", async () => (await at("recheck")) + (await at("free")) === 0);
    await sleep(2_000);
    const statementMs = await longest.stop();
    const messages = sink.received.length;

    const late = await ladderDelays(sql, { orgId: olga.orgId, channelId: channel.body.id }, () => sink.received);
    await controlPlane.stop();
    const value = rounded(messages / (2 + still.size));
    return {
      name: "holds",
      value,
      unit: "x the messages that 10,000 children of a parent that is down may cause",
      limit: 1,
      better: "lower",
      ratio: rounded(Math.max(value, statementMs / maxStatementMs, percentile(late, 0.99) / maxLadderMs), 3),
      messages,
      longest_statement_ms: rounded(statementMs, 0),
      longest_statement: longest.text(),
      ladder_p50_ms: rounded(percentile(late, 0.5), 0),
      ladder_p99_ms: rounded(percentile(late, 0.99), 0),
    };
  });
}

/** Delays from the time at which the level of an incident is due to the message, ms. */
async function ladderDelays(
  sql: Sql,
  { orgId, channelId }: { orgId: string; channelId: string },
  received: () => readonly { at: number; notice: { target_id: string; reason: string } }[],
): Promise<number[]> {
  const ids = Array.from({ length: ladders.count }, newId);
  await insertTargets(sql, { ids, orgId, region, intervalSecs: 3600, confirmations: 1 });
  const levels = sql.json([{ after_minutes: 1, channel_ids: [channelId] }]);
  await sql`update targets set escalation = ${levels} where id = any(${ids}::uuid[])`;
  const begin = Date.now() + 2_000;
  const dueAt = (n: number) => begin + (n * ladders.ms) / ladders.count;
  await sql`
    insert into incidents (id, org_id, target_id, started_at, opened_at, outage_since, severity, impact, peak_impact,
      regions_down, regions_up, created_at, updated_at, escalation_from, escalation_due_at)
    select gen_random_uuid(), ${orgId}, id, now(), now(), now(), 'major', 'major_outage', 'major_outage', '{bench}',
      '{}', now(), now(), due - interval '1 minute', due
    from unnest(${ids}::uuid[], ${ids.map((_, n) => new Date(dueAt(n)).toISOString())}::timestamptz[]) as n (id, due)`;
  const own = new Map(ids.map((id, n) => [id, dueAt(n)]));
  const levelsOf = () => received().filter(({ notice }) => own.has(notice.target_id));
  await waitFor("every level", () => levelsOf().length >= ladders.count);
  return levelsOf().map(({ at, notice }) => performance.timeOrigin + at - own.get(notice.target_id)!);
}
