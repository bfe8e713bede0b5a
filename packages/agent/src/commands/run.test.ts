import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { PullReply, PullRequest } from "@statusmesh/shared/protocol/agent-protocol";

const program = fileURLToPath(new URL("../../bin/sm-agent.js", import.meta.url));

t.test("the file of commands is read at the start and on SIGHUP, and a mistake in it stops the agent", async (t) => {
  const pulls: PullRequest["kinds"][] = [];
  let pulled: () => void = () => undefined;
  const reply: PullReply = {
    protocol: 1,
    region: "eu",
    server_time: Date.now(),
    cursor: "",
    jitter_pct: 0,
    per_host_max_inflight: 2,
    rdap_max_inflight: 1,
    full: true,
    checks: [],
    drop: [],
    runs: [],
    rechecks: [],
  };
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      pulls.push((JSON.parse(body) as PullRequest).kinds);
      // Later pulls are held, as by a control plane without changes.
      if (pulls.length === 1) response.end(JSON.stringify(reply));
      pulled();
    });
  });
  await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
  t.teardown(() => (server.closeAllConnections(), server.close()));
  const nextPull = (count: number) =>
    new Promise<void>((settle) => {
      pulled = () => pulls.length >= count && settle();
      pulled();
    });
  const file = join(t.testdir({}), "commands.toml");
  const start = (...args: string[]) =>
    spawn(process.execPath, [program, "run", ...args], {
      env: {
        PATH: process.env["PATH"],
        SM_AGENT_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
        SM_AGENT_TOKEN: "sm_agent_x",
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
  writeFileSync(file, '[load]\nargv = ["/bin/true"]\n', { mode: 0o600 });
  const agent = start("--commands", file);
  const log = text(agent.stdout);
  const ended = new Promise<number | null>((settle) => agent.once("exit", settle));
  t.teardown(() => agent.kill("SIGKILL"));
  await nextPull(2);
  matchObject(t, pulls[0], { http: {}, exec: { names: ["load"] } });
  writeFileSync(file, '[load]\nargv = ["/bin/true"]\n[disk]\nargv = ["/bin/true"]\n');
  agent.kill("SIGHUP");
  await nextPull(3);
  matchObject(t, pulls[2], { exec: { names: ["disk", "load"] } }, "the control plane gets them at once");
  writeFileSync(file, '[load]\nargv = ["true"]\n');
  agent.kill("SIGHUP");
  await nextPull(4);
  server.closeAllConnections();
  t.equal(await ended, 78);
  t.match(await log, /file of commands is refused: .*commands\.toml:2: the program of argv is an absolute path/);

  const refused = start("--commands", file);
  const words = text(refused.stderr);
  t.equal(await new Promise((settle) => refused.once("exit", settle)), 78);
  t.match(await words, /^sm-agent: .*commands\.toml:2: the program/);

  const without = start();
  t.teardown(() => without.kill("SIGKILL"));
  const seen = text(without.stdout);
  await nextPull(5);
  without.kill("SIGHUP");
  without.kill("SIGTERM");
  t.equal(await new Promise((settle) => without.once("exit", settle)), 0);
  t.match(await seen, /no file of commands to read again/, "without one a reload changes nothing");
});
