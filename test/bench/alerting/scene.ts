import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { newId } from "@statusmesh/shared/ids";
import { connect } from "../../harness/api.ts";
import { agentIn, castIn } from "../../harness/cast.ts";
import { type Teardown, tempFolder } from "../../harness/folder.ts";
import { startControlPlane } from "../../harness/processes.ts";
import { admit, batchOf, runOf } from "../../harness/results.ts";
import { type Sink, startSink } from "../../harness/sink.ts";
import { insertTargetsIn, openEmbedded } from "../../harness/targets.ts";
import { nodeArgs } from "../scope.ts";

const intervalMs = 10_000;

/** A control plane with monitors that notify a channel at each of three receivers. */
export interface AlertingScene {
  readonly sinks: readonly Sink[];
  /** New monitors, each with one confirmation to go until its incident opens. */
  almostDown(count: number): Promise<string[]>;
  /** Reports the confirming run of these monitors; returns when the batch was sent, `performance.now()`. */
  confirm(ids: readonly string[]): Promise<number>;
}

export async function openAlerting(t: Teardown): Promise<AlertingScene> {
  const sinks = await Promise.all([startSink(t), startSink(t), startSink(t)]);
  const caFile = join(tempFolder(t, "ca"), "ca.pem");
  writeFileSync(caFile, sinks.map((sink) => readFileSync(sink.caFile, "utf8")).join("\n"));
  const folder = tempFolder(t, "bench");
  const env = { SM_LOG__LEVEL: "warn", SM_SCHEDULER__BUILTIN_AGENT: "false", SM_ALERTS__DIGEST_THRESHOLD: "0" };
  const { url } = await startControlPlane(t, { folder, caFile, env, nodeArgs });
  const sql = openEmbedded(t, folder);
  const { olga } = await castIn(sql);
  const agent = await agentIn(sql, "default");
  const api = connect(t, url, olga.token);
  const reporter = connect(t, url, agent.token);
  const channels: string[] = [];
  for (const sink of sinks) {
    const config = { type: "webhook", url: sink.url, secret: sink.secret };
    const { status, body, text } = await api.post("/api/v1/notification-channels", { name: sink.url, config });
    if (status !== 201) throw new Error(text);
    channels.push(body.id as string);
  }
  const now = () => Math.floor(Date.now() / 1000) * 1000;
  const report = async (ids: readonly string[], slot: number, status: "up" | "down"): Promise<void> => {
    const results = ids.map((id) => runOf(id, slot, status));
    const answer = await reporter.post("/api/agent/results", batchOf(results));
    if (answer.status !== 200 || answer.body.stored !== ids.length) throw new Error(answer.text);
  };
  const slots = new Map<string, number>();
  return {
    sinks,
    async almostDown(count) {
      const ids = Array.from({ length: count }, newId);
      await sql.begin(async (tx) => {
        await insertTargetsIn(tx, {
          ids,
          orgId: olga.orgId,
          region: "default",
          intervalSecs: intervalMs / 1000,
          confirmations: 2,
        });
        await tx`
          insert into target_alerts (target_id, channel_id, position)
          select t, c.id, c.place from unnest(${ids}::uuid[]) t,
            unnest(${channels}::uuid[]) with ordinality as c (id, place)`;
      });
      const last = now();
      for (const id of ids) slots.set(id, last);
      await admit(
        sql,
        "default",
        [2, 1, 0].flatMap((ago) => ids.map((id) => runOf(id, last - ago * intervalMs))),
      );
      await report(ids, last - 2 * intervalMs, "up");
      await report(ids, last - intervalMs, "down");
      return ids;
    },
    async confirm(ids) {
      const began = performance.now();
      await report(ids, slots.get(ids[0]!)!, "down");
      return began;
    },
  };
}
