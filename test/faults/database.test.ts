import t from "tap";
import { newId } from "@statusmesh/shared/ids";
import { type Answer, connect } from "../harness/api.ts";
import { agentIn, castIn } from "../harness/cast.ts";
import { tempFolder } from "../harness/folder.ts";
import { isAlive, postmasterOf, startControlPlane } from "../harness/processes.ts";
import { batchOf, runOf, slotIn } from "../harness/results.ts";
import { startSink } from "../harness/sink.ts";
import { insertTargets, openEmbedded } from "../harness/targets.ts";
import { waitFor } from "../harness/wait.ts";

/*
 * The embedded database is killed while the control plane works. It is started again, every acknowledged result is
 * stored, and all components reconnect.
 */

t.test("a killed database is started again, and no acknowledged result is missing", async (t) => {
  const folder = tempFolder(t, "db");
  const sink = await startSink(t);
  const controlPlane = await startControlPlane(t, {
    folder,
    caFile: sink.caFile,
    env: { SM_SCHEDULER__BUILTIN_AGENT: "false", SM_LOG__LEVEL: "warn" },
  });
  const sql = openEmbedded(t, folder, 1);
  const { olga } = await castIn(sql);
  const agent = await agentIn(sql, "default");
  const api = connect(t, controlPlane.url, olga.token);
  const { body: channel } = await api.post("/api/v1/notification-channels", {
    name: "Duty",
    config: { type: "webhook", url: sink.url, secret: sink.secret },
  });
  const ids = Array.from({ length: 20 }, newId);
  await insertTargets(sql, {
    ids,
    orgId: olga.orgId,
    region: "default",
    intervalSecs: 10,
    confirmations: 2,
    channelId: channel.id,
  });

  const probe = connect(t, controlPlane.url, agent.token);
  const refusals = new Set<string>();
  /** Sends a batch again until it is acknowledged, as the agent does. */
  const report = (slot: number): Promise<Answer> =>
    waitFor("a batch to be acknowledged", async () => {
      const answer = await probe.post(
        "/api/agent/results",
        batchOf(ids.map((id) => runOf(id, slotIn(id, "default", 10_000, slot), "down"))),
      );
      if (answer.status === 200) return answer;
      refusals.add(`${answer.status} ${answer.body?.error?.code ?? answer.text}`);
      return null;
    });
  const start = Date.now() - 100_000;
  const slots = Array.from({ length: 10 }, (_, n) => start + n * 10_000);
  await report(slots[0]!);
  t.strictSame(sink.received, [], "one failing run is no incident");

  const postmaster = postmasterOf(folder)!;
  process.kill(postmaster, "SIGKILL");
  for (const slot of slots.slice(1)) await report(slot);
  t.notOk(isAlive(postmaster), "the server is a new process");
  t.strictSame(
    [...refusals].filter((refusal) => refusal !== "503 DEPENDENCY_DOWN"),
    [],
    "requests are refused with DEPENDENCY_DOWN until then",
  );

  await waitFor("every notice", () => sink.received.length >= ids.length);
  t.equal(sink.received.length, ids.length, "one notice each");
  t.equal((await api.get("/readyz")).status, 200);
  const [row] = await sql<
    { results: number; incidents: number }[]
  >`select (select count(*)::int from results) as results, (select count(*)::int from incidents) as incidents`;
  t.strictSame({ ...row }, { results: ids.length * slots.length, incidents: ids.length });
  t.equal(await controlPlane.stop("SIGTERM"), 0);
});
