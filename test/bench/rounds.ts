import * as fs from "node:fs";
import { join } from "node:path";
import type { Sql } from "postgres";
import { startSink } from "@statusmesh/control-plane/testing/sink";
import { newId } from "@statusmesh/shared/ids";
import { agentIn, castIn } from "../harness/cast.ts";
import { connect } from "../harness/api.ts";
import { tempFolder } from "../harness/folder.ts";
import { startControlPlane } from "../harness/processes.ts";
import { batchOf, chunked, runOf, slotIn } from "../harness/results.ts";
import { insertTargets, openEmbedded } from "../harness/targets.ts";
import { waitFor } from "../harness/wait.ts";
import { cpuSeconds, type Measured, rounded } from "./measure.ts";
import { nodeArgs, withTeardown } from "./scope.ts";
import { watchStatements } from "./statements.ts";

const monitors = 10_000;
const hosts = 3;
const batch = 500;
const intervalMs = 10_000;
/** Messages to a chat or a phone, and pages of a pager. */
const maxMessages = 3;
/** CPU time of the longest statement, as a multiple of a bare insert of 1,000 deliveries in the run; 5 measured. */
const maxTimes = 12;
const bareTurns = 10;
const region = "bench";

/**
 * 10,000 monitors on three hosts go down at once. They notify a chat, a phone and a pager: the messages of the channel
 * that gets most, and the longest statement. `ratio` is the measurement nearest to its limit.
 */
export async function run(): Promise<Measured> {
  return await withTeardown(async (t) => {
    const folder = tempFolder(t, "bench");
    const told = new Map<string, number[]>();
    const keys = new Set<string>();
    const sink = await startSink(t, ({ path, body }, reply) => {
      const channel = path.split("/")[1]!;
      // A trigger of a key that is open, and its end, page nobody.
      const isPage = channel !== "pager" || !keys.has(keyOf(body));
      if (channel === "pager") keys.add(keyOf(body));
      if (isPage) told.set(channel, [...(told.get(channel) ?? []), performance.now()]);
      reply.writeHead(202, { "content-type": "application/json" }).end("{}");
    });
    const caFile = join(folder, "sink.pem");
    fs.writeFileSync(caFile, sink.ca);
    const controlPlane = await startControlPlane(t, {
      folder,
      caFile,
      nodeArgs,
      env: {
        SM_LOG__LEVEL: "warn",
        SM_SCHEDULER__BUILTIN_AGENT: "false",
        SM_CHANNELS__ENDPOINTS__SLACK: `${sink.url}/chat`,
        SM_CHANNELS__ENDPOINTS__TWILIO: `${sink.url}/phone`,
        SM_CHANNELS__ENDPOINTS__PAGERDUTY: `${sink.url}/pager`,
      },
    });
    const sql = openEmbedded(t, folder, 2);
    const { olga } = await castIn(sql);
    const agent = await agentIn(sql, region);
    const api = connect(t, controlPlane.url, olga.token);
    const channels: string[] = [];
    for (const config of configs) {
      const { status, body, text } = await api.post("/api/v1/notification-channels", { name: config.type, config });
      if (status !== 201) throw new Error(text);
      channels.push(body.id);
    }
    const ids = Array.from({ length: monitors }, newId);
    await insertTargets(sql, {
      ids,
      orgId: olga.orgId,
      region,
      intervalSecs: intervalMs / 1000,
      confirmations: 1,
      spec: (n) => ({ type: "tcp", host: `gw-${n % hosts}.example.org`, port: 9, timeout: 1000 }),
    });
    await sql`update targets set host = spec ->> 'host'`;
    await sql`
      insert into target_alerts (target_id, channel_id, position)
      select t, c.id, c.place from unnest(${ids}::uuid[]) t, unnest(${channels}::uuid[]) with ordinality c (id, place)`;
    await sql`vacuum analyze targets, target_alerts`;

    const probe = connect(t, controlPlane.url, agent.token);
    const longest = watchStatements(openEmbedded(t, folder, 1));
    const from = performance.now();
    for (const some of chunked(ids, batch)) {
      const now = Date.now() - intervalMs;
      const results = some.map((id) => runOf(id, slotIn(id, region, intervalMs, now), "down"));
      const reply = await probe.post("/api/agent/results", batchOf(results));
      if (reply.status !== 200) throw new Error(reply.text);
    }
    const reportedMs = performance.now() - from;
    const drained = async () => (await sql`select from deliveries where state = 'pending' limit 1`).length === 0;
    await waitFor("the end of the deliveries", drained, { ms: 400_000, everyMs: 500 });
    const counts = [...told.values()].map(({ length }) => length);
    const last = Math.max(...[...told.values()].map((times) => times.at(-1)!));
    const statementMs = await longest.stop();
    const bareMs = await bareInsertMs(sql);
    await controlPlane.stop();
    const messages = Math.max(...counts);
    return {
      name: "rounds",
      value: messages,
      unit: "messages to the busiest channel about 10,000 monitors",
      limit: maxMessages,
      better: "lower",
      ratio: rounded(Math.max(messages / maxMessages, statementMs / bareMs / maxTimes), 3),
      reported_secs: rounded(reportedMs / 1000, 1),
      told_secs: rounded((last - from) / 1000, 1),
      bare_insert_ms: rounded(bareMs, 0),
      longest_statement_ms: rounded(statementMs, 0),
      longest_statement: longest.text(),
    };
  });
}

/** CPU time of an insert of 1,000 deliveries with their indexes, without anything else, ms. */
async function bareInsertMs(sql: Sql): Promise<number> {
  return await sql.begin(async (tx) => {
    const [backend] = await tx<{ pid: number }[]>`select pg_backend_pid() as pid`;
    await tx`create table bare (like deliveries including indexes)`;
    const before = cpuSeconds(backend!.pid);
    for (let turn = 0; turn < bareTurns; turn++)
      await tx`insert into bare select * from deliveries order by id offset ${turn * 1_000} limit 1000`;
    return ((cpuSeconds(backend!.pid) - before) * 1000) / bareTurns;
  });
}

const keyOf = (body: Buffer): string => (JSON.parse(body.toString()) as { dedup_key: string }).dedup_key;

const configs = [
  { type: "slack", webhook_url: "https://hooks.slack.com/services/T0/B0/X" },
  {
    type: "sms",
    provider: "twilio",
    to: "+4915112345678",
    from: "+15005550006",
    account_sid: `AC${"0".repeat(32)}`,
    auth_token: "secret-of-twilio",
  },
  { type: "pagerduty", routing_key: "0123456789abcdef0123456789abcdef" },
] as const;
