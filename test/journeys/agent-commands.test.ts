import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { createServer } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { generate } from "selfsigned";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { newId } from "@statusmesh/shared/ids";
import { correctedClock } from "sm-agent/clock";
import { preflight, type PreflightOptions, type PreflightResult } from "sm-agent/commands/preflight";
import { stateOf } from "sm-agent/commands/status";
import { openDiskSpool } from "sm-agent/spool/disk";
import { folderFiles } from "sm-agent/spool/files";
import type { AgentStatus } from "sm-agent/telemetry/status-file";
import { agentIn, castIn } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { tempFolder } from "../harness/folder.ts";
import { serveHere } from "../harness/in-process.ts";
import { startProgram } from "../harness/processes.ts";
import { runOf } from "../harness/results.ts";
import { startTcpTarget } from "../harness/servers.ts";
import { insertTargets } from "../harness/targets.ts";
import { waitFor } from "../harness/wait.ts";

/*
 * Commands of sm-agent for operators on its machine: doctor, status, spool.
 */

const program = createRequire(import.meta.url).resolve("sm-agent/cli");
const secret = `sm_agent_${"hush".repeat(10)}`;

async function ask(
  t: Test,
  args: string[],
  env: Record<string, string> = {},
): Promise<{ code: unknown; text: string; complaints: string }> {
  const asked = startProgram(t, program, args, { cwd: tempFolder(t), env });
  const code = await asked.ended;
  return { code, text: asked.log.join("\n"), complaints: asked.complaints() };
}

const findingsOf = (text: string): Record<string, string> =>
  Object.fromEntries(
    (JSON.parse(text) as { findings: { what: string; state: string; message: string }[] }).findings.map(
      ({ what, state, message }) => [what, `${state}: ${message}`],
    ),
  );

/** Something that answers as a control plane would, with this answer to who the agent is. */
async function pretender(t: Test, answer: object, status = 200): Promise<string> {
  const server = createServer((_, response) =>
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(answer)),
  );
  await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
  t.teardown(() => server.close().closeAllConnections());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

t.test("against a real control plane: test-config, then run, status and spool", async (t) => {
  const database = await cloneDatabase(t);
  const { sql } = database;
  const { olga } = await castIn(sql);
  const agent = await agentIn(sql, "default");
  const url = await serveHere(t, database);
  const folder = tempFolder(t, "cli");
  const spool = join(folder, "spool");
  const tokenFile = join(folder, "token");
  fs.writeFileSync(tokenFile, `${agent.token}\n`, { mode: 0o600 });
  const args = ["--url", url, "--token-file", tokenFile, "--spool-dir", spool];

  const fine = await ask(t, ["test-config", ...args]);
  matchObject(t, fine, { code: 0, complaints: "" });
  t.match(
    fine.text,
    /✔ ok {4}control plane: StatusMesh \d+\.\d+\.\d+ accepts the token: this is agent "agent [^"]+" of region default/,
  );
  for (const what of ["token", "dns", "connection", "protocol", "clock", "spool", "space"])
    t.match(fine.text, new RegExp(`^✔ ok {4}${what}: `, "m"));
  t.notOk(fs.existsSync(spool), "the folder is left for run to make, as the user that it runs as");
  const [row] = await sql`select last_seen_at, version from agents where id = ${agent.id}`;
  t.strictSame(row, { last_seen_at: null, version: null }, "the agent does not count as live");
  fs.chmodSync(tokenFile, 0o644);
  const open = await ask(t, ["test-config", ...args, "--json"]);
  matchObject(t, { code: open.code, ...findingsOf(open.text) }, { code: 0, "token file": /^warn: .*chmod 600/ });
  fs.chmodSync(tokenFile, 0o600);

  matchObject(t, await ask(t, ["status", "--spool-dir", spool]), { code: 1, text: /not running \(never seen here\)/ });
  const target = await startTcpTarget(t);
  await insertTargets(sql, {
    ids: [newId()],
    orgId: olga.orgId,
    region: "default",
    intervalSecs: 10,
    confirmations: 2,
  });
  t.ok(target);
  const running = startProgram(t, program, ["run", ...args, "--allow-private-targets"], { cwd: folder, env: {} });
  const json = async () =>
    JSON.parse((await ask(t, ["status", "--spool-dir", spool, "--json"])).text) as Record<string, unknown> & {
      state: string;
    };
  // The file, which the agent writes every 5 s: the command takes a quarter of a second of CPU time.
  const written = () =>
    JSON.parse(fs.readFileSync(join(spool, "status.json"), "utf8")) as { region: string; pid: number };
  await waitFor("a state with a pull", () => written().region === "default");
  matchObject(t, await json(), {
    state: "running",
    region: "default",
    control_plane: url,
    pid: running.pid,
    assigned: 1,
    impaired_since: null,
    pull: { succeeded_at: /^\d{4}-.*Z$/, failure: null },
  });
  t.equal(fs.statSync(join(spool, "status.json")).mode & 0o777, 0o600);
  const words = await ask(t, ["status"], { SM_AGENT_SPOOL_DIR: spool });
  matchObject(t, words, { code: 0, text: /^✔ running \(for \d+ s\)\nversion {8}\d.*\nlast pull {6}\d+ s ago/s });
  matchObject(t, await ask(t, ["spool", "--spool-dir", spool, "--verify"]), {
    code: 0,
    text: new RegExp(`^used by {2}pid ${running.pid}\n.*damaged {2}nothing`, "s"),
  });
  matchObject(t, findingsOf((await ask(t, ["test-config", ...args, "--json"])).text), {
    spool: /^warn: .* is used by an agent now/,
  });
  t.notMatch(fs.readFileSync(join(spool, "status.json"), "utf8") + words.text + fine.text + open.text, agent.token);

  await running.stop();
  matchObject(t, await json(), { state: "not running", stopped_at: /Z$/ });
  const killed = startProgram(t, program, ["run", ...args], { cwd: folder, env: {} });
  await waitFor("the state of the next one", () => written().pid === killed.pid);
  await killed.stop("SIGKILL");
  matchObject(t, await ask(t, ["status", "--spool-dir", spool]), {
    code: 1,
    text: /^✖ not running \(last seen \d+ s ago, not stopped cleanly\)/,
  });

  await sql`delete from agents where id = ${agent.id}`;
  const refused = await ask(t, ["test-config", ...args, "--json"]);
  matchObject(
    t,
    { code: refused.code, ...findingsOf(refused.text) },
    { code: 77, "control plane": /^fail: it refuses the token .*unknown or was deleted/ },
  );
});

t.test("test-config says what keeps the agent from running, and what merely should not be so", async (t) => {
  const whoami = (change: object) => ({
    name: "fra-1",
    region: "fra",
    version: "9.9.9",
    protocol: 1,
    server_time: Date.now(),
    ...change,
  });
  const tls = await generate([{ name: "commonName", value: "localhost" }]);
  const untrusted = createTlsServer({ key: tls.private, cert: tls.cert }, (_, response) => response.end());
  await new Promise<void>((settle) => untrusted.listen(0, "127.0.0.1", settle));
  t.teardown(() => untrusted.close().closeAllConnections());
  const folder = tempFolder(t, "cfg");
  fs.writeFileSync(join(folder, "a-file"), "");
  const [tokenFile, tenants] = [join(folder, "agent"), join(folder, "tenant")];
  fs.writeFileSync(tokenFile, secret);
  fs.writeFileSync(tenants, "sm_live_hush");
  const good = await pretender(t, whoami({}));
  const cases: [string, Partial<PreflightOptions>, Record<string, RegExp>, number?][] = [
    [
      "nobody there",
      { url: "http://127.0.0.1:1" },
      { connection: /^fail: 127\.0\.0\.1 port 1: connection refused/ },
      69,
    ],
    [
      "a name that does not exist",
      { url: "https://nowhere.invalid" },
      { dns: /^fail: nowhere\.invalid cannot be resolved/ },
      69,
    ],
    [
      "a certificate that nobody trusts",
      { url: `https://localhost:${(untrusted.address() as AddressInfo).port}` },
      { tls: /^fail: .*certificate.*NODE_EXTRA_CA_CERTS/ },
      69,
    ],
    [
      "a clock an hour behind",
      { url: await pretender(t, whoami({ server_time: Date.now() + 3_600_000 })) },
      { clock: /^warn: 3\d\d\d s behind the control plane's\. Checks follow that clock anyway/ },
    ],
    [
      "another protocol",
      { url: await pretender(t, whoami({ protocol: 2 })) },
      { protocol: /^fail: the control plane speaks version 2, this agent 1\. Update the older/ },
      78,
    ],
    [
      "something else",
      { url: await pretender(t, { hello: "world" }) },
      { "control plane": /^fail: what answers at .* is not a StatusMesh control plane of this release/ },
      69,
    ],
    [
      "a release without the route",
      { url: await pretender(t, { error: { code: "NOT_FOUND", message: "No." } }, 404) },
      { "control plane": /update the control plane/ },
      69,
    ],
    [
      "a control plane that is starting",
      { url: await pretender(t, {}, 503) },
      { "control plane": /^fail: it does not answer now \(status 503\)/ },
      69,
    ],
    ["a folder that is a file", { spoolDir: join(folder, "a-file") }, { spool: /^fail: .*a-file cannot be used/ }, 78],
    [
      "more spool than disk",
      { spoolDir: folder, spoolMaxMb: 1_000_000 },
      { space: /^(warn|ok): .* may grow to 1000000 MB/ },
    ],
    [
      "a canary that is silent",
      { canaries: [{ host: "127.0.0.1", port: 1 }] },
      {
        "canary 127.0.0.1:1": /^warn: connection refused/,
        "control plane": /^ok: StatusMesh 9\.9\.9/,
        spool: /^warn: results wait in memory/,
      },
    ],
    [
      "a token over plain http: nothing is connected to",
      { url: "http://192.0.2.1:8080" },
      { url: /^fail: the token would be sent unencrypted to 192\.0\.2\.1:8080/ },
      64,
    ],
    [
      "a tenant's token",
      { tokenFile: tenants },
      { token: /^fail: the token in .* is not an agent's token, which begins with sm_agent_/ },
      64,
    ],
  ];
  const usual = { url: good, tokenFile, spoolMaxMb: 64, canaries: [], insecureHttp: false, version: "1.0.0" };
  for (const [title, given, findings, exit = 0] of cases) {
    const results: PreflightResult[] = [];
    for await (const one of preflight({ ...usual, timeoutMs: 10_000, env: {}, ...given })) results.push(one);
    const text = JSON.stringify({ findings: results });
    matchObject(t, findingsOf(text), findings, title);
    t.equal(results.find((one) => one.exit !== undefined)?.exit ?? 0, exit, title);
    t.notMatch(text, /hush/, title);
  }
  t.notOk(fs.existsSync(join(folder, "sm-agent.lock")), "the folder is given back");
  const none = await ask(t, ["test-config", "--json", "--url", good]);
  matchObject(
    t,
    { code: none.code, ...findingsOf(none.text) },
    { code: 64, token: /^fail: a token is missing\. Set --token-file or SM_AGENT_TOKEN/ },
  );
  const wrong = await ask(t, ["test-config", "--url", "ftp://x"], { SM_AGENT_TOKEN: secret });
  matchObject(t, wrong, { code: 64, text: "", complaints: /^sm-agent: [^\n]*must be an http or https URL\.\n$/ });
});

t.test("spool reads a folder and changes nothing in it", async (t) => {
  const folder = tempFolder(t, "insp");
  const clock = correctedClock();
  const log = () => undefined;
  const spool = await openDiskSpool({ files: folderFiles(folder), clock, log, maxBytes: 64_000_000 });
  spool.serve("fra");
  const slots = Array.from({ length: 50 }, (_, n) => 1_800_000_000_000 + n * 1000);
  for (const slot of slots) spool.append({ result: runOf(newId(), slot) });
  await spool.flush();
  const batch = await spool.take(10, "fresh");
  await batch?.ack();
  await spool.close();
  const segment = fs.readdirSync(folder).find((name) => name.endsWith(".spool"))!;
  const before = fs.readFileSync(join(folder, segment));

  const { code, text } = await ask(t, ["spool", "--spool-dir", folder, "--json", "--verify"]);
  t.equal(code, 0);
  const oldest = new Date(slots[10]!).toISOString();
  matchObject(t, JSON.parse(text), {
    waiting: 40,
    oldest,
    newest: new Date(slots[49]!).toISOString(),
    dropped: 0,
    damage: [],
    set_aside: [],
    used_by: null,
    segments: [{ file: segment, region: "fra", waiting: 40 }],
  });
  matchObject(t, JSON.parse((await ask(t, ["spool", "--spool-dir", folder, "--json"])).text), { waiting: 40, oldest });

  const broken = Buffer.from(before);
  const middle = broken.indexOf("[", Math.floor(broken.length / 2));
  broken[middle + 3] = broken[middle + 3]! ^ 1;
  fs.writeFileSync(join(folder, segment), broken);
  const damaged = await ask(t, ["spool", "--spool-dir", folder]);
  matchObject(t, damaged, {
    code: 1,
    text: new RegExp(
      `waiting {2}39 results.*dropped {2}1 ever.*! ${segment}: a result in the spool is damaged and lost`,
      "s",
    ),
  });
  fs.writeFileSync(join(folder, segment), broken.subarray(0, broken.length - 7));
  matchObject(t, await ask(t, ["spool", "--spool-dir", folder]), {
    code: 1,
    text: /the end of a segment of the spool is cut off/,
  });
  fs.writeFileSync(join(folder, segment), "something else");
  matchObject(t, await ask(t, ["spool", "--spool-dir", folder]), { code: 1, text: /set aside: it is no segment/ });
  t.strictSame(fs.readdirSync(folder), [segment], "nothing is renamed, removed or added");
  t.equal(fs.readFileSync(join(folder, segment), "utf8"), "something else");
  matchObject(t, await ask(t, ["spool", "--spool-dir", join(folder, "none")]), {
    code: 78,
    complaints: /^sm-agent: the spool folder .* cannot be read \(ENOENT[^\n]*\n$/,
  });
});

t.test("the state of an agent, by what it wrote and whether its process is there", (t) => {
  const contact = { succeeded_at: 90_000, failure: null };
  const status: AgentStatus = {
    format: 1,
    version: "1.2.3",
    control_plane: "https://status.example.org",
    region: "fra",
    pid: 1,
    started_at: 0,
    seen_at: 100_000,
    stopped_at: null,
    clock_offset_ms: 0,
    impaired_since: null,
    assigned: 1,
    in_flight: 0,
    lag_p99_ms: 0,
    breakers_open: 0,
    pings_waiting: null,
    spool: { waiting: 0, backlog: 0, dropped: 0 },
    pull: contact,
    report: contact,
  };
  const cases: [string, AgentStatus | null, boolean, number, string][] = [
    ["fresh", status, true, 105_000, "running"],
    ["without its process", status, false, 105_000, "not running"],
    ["silent for long", status, true, 131_000, "standing"],
    [
      "silent, by a clock that is an hour behind",
      { ...status, clock_offset_ms: 3_600_000, seen_at: 3_700_000 },
      true,
      105_000,
      "running",
    ],
    ["stopped, and another one has not written yet", { ...status, stopped_at: 100_000 }, true, 101_000, "standing"],
    ["nothing written", null, true, 0, "standing"],
    ["nothing at all", null, false, 0, "not running"],
    ["its network is down", { ...status, impaired_since: 1 }, true, 105_000, "impaired"],
    [
      "cannot pull",
      { ...status, pull: { succeeded_at: 1, failure: { at: 2, message: "no" } } },
      true,
      105_000,
      "cut off",
    ],
    [
      "never could report",
      { ...status, report: { succeeded_at: null, failure: { at: 2, message: "no" } } },
      true,
      105_000,
      "cut off",
    ],
    [
      "can again",
      { ...status, pull: { succeeded_at: 3, failure: { at: 2, message: "no" } } },
      true,
      105_000,
      "running",
    ],
  ];
  for (const [what, written, held, now, state] of cases) t.equal(stateOf(written, held, now), state, what);
  t.end();
});

t.test("completions name the commands, kinds and options there are", async (t) => {
  const script = (await ask(t, ["completion", "bash"])).text;
  const complete = (...words: string[]): string[] =>
    execFileSync(
      "bash",
      [
        "-c",
        `${script}\nCOMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sm_agent; printf '%s\\n' "\${COMPREPLY[@]}"`,
        "bash",
        "sm-agent",
        ...words,
      ],
      {
        encoding: "utf8",
      },
    )
      .trim()
      .split("\n");
  t.strictSame(complete("s"), ["status", "spool"]);
  t.strictSame(complete("check", "tls"), ["tls_cert", "tls-cert"]);
  t.strictSame(complete("check", "http", "https://example.org", "--bear"), ["--bearer-token-file"]);
  for (const shell of ["zsh", "fish"])
    matchObject(t, await ask(t, ["completion", shell]), { code: 0, text: /test-config[^]*--expect-status/ });
  matchObject(t, await ask(t, ["completion", "ksh"]), {
    code: 64,
    complaints: /^sm-agent: [^\n]*Allowed choices are bash, zsh, fish\.\n$/,
  });
});
