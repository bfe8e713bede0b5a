import type { Test } from "tap";
import { connect } from "../harness/api.ts";
import { agentIn, castIn } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { gateTo } from "../harness/database-gate.ts";
import { serveHere } from "../harness/in-process.ts";
import { freePort } from "../harness/processes.ts";
import { batchOf, runOf } from "../harness/results.ts";
import { waitFor } from "../harness/wait.ts";
import { make } from "./isolation/things.ts";
import { isRefused } from "./refused.ts";

/** Replies of a service that is starting, overloaded, without a database, or defective. */
export async function provokeOutages(t: Test): Promise<void> {
  const database = await cloneDatabase(t);
  const { sql } = database;
  const gate = await gateTo(t, database);
  const port = await freePort();
  const client = connect(t, `http://127.0.0.1:${port}`, null);

  gate.hold();
  const started = serveHere(t, gate.database, { SM_SERVER__BIND: `127.0.0.1:${port}` });
  const starting = await waitFor("the port to be open", () => client.get("/api/v1/targets"));
  isRefused(t, starting, { title: "while the service starts", code: "SERVICE_STARTING" });
  await gate.open();
  await started;

  const { olga, milan } = await castIn(sql);
  const api = client.with({ authorization: `Bearer ${olga.token}` });
  const probe = client.with({ authorization: `Bearer ${(await agentIn(sql, "default")).token}` });
  const target = await make.target(
    sql,
    { orgId: olga.orgId, userId: olga.userId, ownerId: olga.userId, memberId: milan.userId },
    "",
  );

  // More batches than may run and queue, while the first ones are blocked.
  const now = Date.now();
  let busy: Awaited<ReturnType<typeof probe.post>> | undefined;
  let batches: Promise<void>[] = [];
  await sql.begin(async (tx) => {
    await tx`lock table target_states in access exclusive mode`;
    batches = Array.from({ length: 45 }, async (_, n) => {
      const answer = await probe.post("/api/agent/results", batchOf([runOf(target, now - n * 1000)]));
      if (answer.status !== 200) busy ??= answer;
    });
    await waitFor("a batch to be refused", () => busy);
  });
  await Promise.all(batches);
  isRefused(t, busy!, { title: "more batches than the queue takes", code: "INGEST_BUSY" });

  await sql`alter table channels rename to channels_elsewhere`;
  isRefused(t, await api.get("/api/v1/notification-channels"), { title: "a table is gone", code: "INTERNAL" });

  await gate.shut();
  isRefused(t, await api.get("/api/v1/targets"), { title: "without a database", code: "DEPENDENCY_DOWN" });
  isRefused(t, await client.get("/readyz"), {
    title: "without a database, to a load balancer",
    code: "DEPENDENCY_DOWN",
  });
  isRefused(t, await client.get("/api/public/v1/status"), {
    title: "a status page that was never computed",
    code: "STATUS_DATA_UNAVAILABLE",
  });
  await gate.open();
  await waitFor("the service to be well again", async () => (await api.get("/api/v1/targets")).status === 200);
}
