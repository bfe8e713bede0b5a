import { writeFileSync } from "node:fs";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import { connect } from "../harness/api.ts";
import { agentIn, castIn } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { tempFolder } from "../harness/folder.ts";
import { serveHere } from "../harness/in-process.ts";
import { type Program, startAgent } from "../harness/processes.ts";
import { batchOf, runOf } from "../harness/results.ts";
import { startTcpTarget } from "../harness/servers.ts";
import { insertTargets } from "../harness/targets.ts";
import { waitFor } from "../harness/wait.ts";

/*
 * A control plane that refuses an agent, because its token was deleted or the protocol versions differ. Nothing is
 * lost, and both log the reason.
 */

const complaints = ({ log }: Program): string[] =>
  log
    .map((line) => JSON.parse(line) as { level: string; msg: string })
    .flatMap(({ level, msg }) => (level === "error" ? [msg] : []));

async function scene(t: Test) {
  const database = await cloneDatabase(t);
  const { sql } = database;
  const { olga } = await castIn(sql);
  const agent = await agentIn(sql, "default");
  const id = newId();
  const server = await startTcpTarget(t);
  await insertTargets(sql, {
    ids: [id],
    orgId: olga.orgId,
    region: "default",
    intervalSecs: 1,
    confirmations: 2,
    spec: () => ({ type: "tcp", host: "127.0.0.1", port: server.port, timeout: 1000 }),
  });
  const url = await serveHere(t, database);
  const stored = async (): Promise<number> =>
    (await sql<{ n: number }[]>`select count(*)::int as n from results`)[0]!.n;
  return { sql, agent, id, server, url, stored, folder: tempFolder(t, "agent") };
}

t.test(
  "a deleted agent stops checking and keeps its results; it continues with the token of a new one in its file",
  async (t) => {
    const { sql, agent, server, url, stored, folder } = await scene(t);
    const program = startAgent(t, {
      url,
      token: agent.token,
      folder,
      env: { SM_AGENT_SPOOL_DIR: join(folder, "spool"), SM_AGENT_STATS_SECS: "1" },
    });
    /** Check starts of each second, from the moment when the agent had dropped its checks. */
    const startsWithoutChecks = (): number[] =>
      program.log
        .map((line) => JSON.parse(line) as { msg: string; assigned?: number; starts: number })
        .filter(({ msg, assigned }) => msg === "numbers" && assigned === 0)
        .map(({ starts }) => starts);
    await waitFor("results", async () => (await stored()) >= 3);
    await sql`delete from agents where id = ${agent.id}`;
    await waitFor("the agent to log the refusal", () =>
      complaints(program).some((msg) => msg.includes("nothing is checked")),
    );
    const silent = startsWithoutChecks().length;
    await waitFor("five more lines of numbers", () => startsWithoutChecks().length >= silent + 5);
    const checked = server.requests();
    // The first line may count a check that started before the refusal.
    const starts = startsWithoutChecks().slice(silent + 1);
    t.ok(starts.length > 0 && starts.every((count) => count === 0), "nothing is checked");
    t.equal(complaints(program).filter((msg) => msg.includes("nothing is checked")).length, 1, "logged once");

    const before = await stored();
    const next = await agentIn(sql, "default");
    writeFileSync(join(folder, "agent-token.txt"), `${next.token}\n`);
    await waitFor("checks to continue", () => server.requests() > checked);
    await waitFor("every check to be stored", async () => (await stored()) > before && (await stored()) >= checked - 1);
    t.equal(await program.stop("SIGTERM"), 0);
    // The refusal abandons a check that is running.
    t.ok((await stored()) >= server.requests() - 1, "every result before the refusal was kept and has arrived");
  },
);

t.test("both sides name the other version of the protocol, and results wait for the update", async (t) => {
  const { agent, id, server, url, stored, folder } = await scene(t);
  const api = connect(t, url, agent.token);
  for (const protocol of [2, 99]) {
    const wanted = {
      status: 409,
      body: {
        error: {
          code: "AGENT_PROTOCOL_MISMATCH",
          message: new RegExp(`speaks version 1 .* speaks ${protocol}\\. Update the control plane`),
        },
      },
    };
    matchObject(
      t,
      await api.post("/api/agent/pull", { protocol, agent_version: "9.0.0", wishes: ["new"] }),
      wanted,
      "also with unknown fields",
    );
    matchObject(
      t,
      await api.post("/api/agent/results", { ...batchOf([runOf(id, Date.now())]), protocol, extra: true }),
      wanted,
    );
  }
  matchObject(t, await api.post("/api/agent/pull", { protocol: 1, agent_version: "9.0.0", wishes: ["new"] }), {
    status: 400,
  });

  // A proxy that makes the agent one of another release.
  let other = false;
  let refused = 0;
  /** Requests of the present version that have no reply yet. */
  let passing = 0;
  const between = createServer((from, to) => {
    const chunks: Buffer[] = [];
    from.on("data", (chunk: Buffer) => chunks.push(chunk));
    from.on("end", () => {
      const text = Buffer.concat(chunks).toString();
      const changed = other;
      const body = Buffer.from(changed ? text.replace('"protocol":1', '"protocol":2') : text);
      if (!changed && from.url!.endsWith("/results")) {
        passing++;
        to.once("close", () => passing--);
      }
      const on = request(
        `${url}${from.url}`,
        { method: from.method!, headers: { ...from.headers, "content-length": String(body.length) } },
        (reply) => {
          if (reply.statusCode === 409) refused++;
          to.writeHead(reply.statusCode!, reply.headers);
          reply.pipe(to);
        },
      );
      on.on("error", () => to.destroy());
      to.on("close", () => on.destroy());
      on.end(body);
    });
  });
  await new Promise<void>((settle) => between.listen(0, "127.0.0.1", settle));
  t.teardown(() => {
    between.close();
    between.closeAllConnections();
  });
  const start = (): Program =>
    startAgent(t, {
      url: `http://127.0.0.1:${(between.address() as AddressInfo).port}`,
      token: agent.token,
      folder,
      env: { SM_AGENT_SPOOL_DIR: join(folder, "spool") },
    });
  const program = start();
  await waitFor("results", async () => (await stored()) >= 2);
  other = true;
  const since = performance.now();
  await waitFor("the refusal", () => refused > 0 && passing === 0);
  const [before, checked] = [await stored(), server.requests()];
  await waitFor("checks to continue", () => server.requests() >= checked + 4);
  t.equal(await stored(), before, "no result arrives");
  // Pulls and results are tried once a minute each.
  const minutes = Math.floor((performance.now() - since) / 60_000);
  t.ok(refused <= 3 + 2 * minutes, `the agent backs off: ${refused} requests`);
  matchObject(t, complaints(program), [
    /results cannot be reported and are kept .*speaks version 1 .* the agent speaks 2/,
  ]);
  t.equal(await program.stop("SIGTERM"), 0);

  other = false;
  const updated = start();
  await waitFor(
    "the kept results to arrive",
    async () => (await stored()) >= server.requests() - 1 && (await stored()) > before + 4,
  );
  t.equal(await updated.stop("SIGTERM"), 0);
  t.equal(await stored(), server.requests(), "every check is stored once");
});
