import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, statSync, writeFileSync, chmodSync } from "node:fs";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { connect, type Json } from "../harness/api.ts";
import { tempFolder } from "../harness/folder.ts";
import { freePort, startControlPlane } from "../harness/processes.ts";
import { startHttpTarget } from "../harness/servers.ts";
import { smctlHere, smctlProgram } from "../harness/smctl.ts";
import { waitFor } from "../harness/wait.ts";

/* smctl against a control plane with its agent, as a person or a pipeline uses it. */

const token = `sm_live_${randomBytes(32).toString("hex")}`;
const folder = tempFolder(t, "smctl");
const plane = await startControlPlane(t, { env: { SM_BOOTSTRAP__TOKEN: token } });
const api = connect(t, plane.url, token);
const site = await startHttpTarget(t);

const settings = { HOME: folder, SM_URL: plane.url, SM_TOKEN: token };

interface Ended {
  code: number | null;
  out: string;
  err: string;
}

interface Running {
  child: ChildProcess;
  ended: Promise<Ended>;
  err: () => string;
}

interface Options {
  env?: Record<string, string>;
  input?: string;
}

/** Starts smctl in `folder` with the server and the token in its environment. */
function start(args: readonly string[], { env = {}, input = "" }: Options = {}): Running {
  const child = spawn(process.execPath, [smctlProgram, ...args], {
    cwd: folder,
    env: { PATH: process.env["PATH"], ...settings, ...env },
    stdio: ["pipe", "pipe", "pipe"],
  });
  t.teardown(() => child.kill("SIGKILL"));
  child.stdin.end(input);
  let out = "";
  let err = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (out += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (err += text));
  const ended = new Promise<Ended>((settle) => child.once("close", (code) => settle({ code, out, err })));
  return { child, ended, err: () => err };
}

/** In the test's own process, except for what reads standard input and what hands its output to another command. */
async function smctl(args: readonly string[], options: Options = {}): Promise<Ended> {
  if (options.input !== undefined || args.includes("--")) return await start(args, options).ended;
  const { code, stdout, stderr } = await smctlHere(args, { cwd: folder, env: { ...settings, ...options.env } });
  return { code, out: stdout, err: stderr };
}
const jsonOf = ({ out }: Ended): Json => JSON.parse(out);

/** A monitor of the site; resolves to its id. */
async function addMonitor(name: string, more: object = {}): Promise<string> {
  const check = { type: "http", url: site.url, timeout: 2000 };
  const { status, body, text } = await api.post("/api/v1/targets", { name, check, interval: 10, ...more });
  if (status !== 201) throw new Error(text);
  return body.id as string;
}

t.test("login stores the token for its owner and for its server alone", async (t) => {
  const bare = { SM_URL: "", SM_TOKEN: "" };
  matchObject(t, await smctl(["list"], { env: bare }), { code: 1, err: /no server is given/ });
  matchObject(t, await smctl(["login", "--url", plane.url], { env: bare, input: "sm_live_wrong\n" }), { code: 1 });
  const path = join(folder, ".config/statusmesh");
  t.notOk(existsSync(path), "a token that is refused is not stored");
  matchObject(t, await smctl(["login", "--url", `${plane.url}/`], { env: bare, input: `${token}\n` }), {
    code: 0,
    err: /^Signed in to http:\/\/127\.0\.0\.1:\d+ as /,
  });
  t.equal(statSync(path).mode & 0o777, 0o600);
  matchObject(t, await smctl(["list"], { env: bare }), { code: 0 });
  const other = `http://127.0.0.1:${await freePort()}`;
  matchObject(t, await smctl(["list", "--url", other], { env: bare }), { code: 1, err: /no token for .* is given/ });
  chmodSync(path, 0o644);
  matchObject(t, await smctl(["list"], { env: bare }), { code: 1, err: /can be read by others\. Run: chmod 600/ });
  writeFileSync(join(folder, "token"), `${token}\n`);
  matchObject(t, await smctl(["list"], { env: { SM_TOKEN: "", SM_TOKEN_FILE: "token" } }), { code: 0 });
});

t.test("connections that fail, in words and with exit code 1", async (t) => {
  const cases: [string, string[], Record<string, string>, RegExp][] = [
    ["nobody there", ["list"], { SM_URL: `http://127.0.0.1:${await freePort()}` }, /does not answer \(ECONNREFUSED\)/],
    ["another token", ["list"], { SM_TOKEN: "sm_live_x" }, /^smctl: .*token/i],
    ["something else", ["list"], { SM_URL: site.url }, /no JSON|not as StatusMesh/],
    ["a token in the clear", ["list"], { SM_URL: "http://192.0.2.1" }, /would be sent unencrypted to 192\.0\.2\.1/],
    ["an address that is none", ["list"], { SM_URL: "status" }, /SM_URL: It must be an http or https URL/],
    ["credentials", ["list", "--url", "https://a:b@c"], {}, /Credentials do not belong in it/],
    ["a token with a line break", ["list"], { SM_TOKEN: "a\nb" }, /the token is not valid/],
    ["an unknown command", ["lst"], {}, /unknown command 'lst'. Did you mean list\?/],
  ];
  for (const [name, args, env, err] of cases) matchObject(t, await smctl(args, { env }), { code: 1, err }, name);
});

t.test("list, get, check-now, test, pause and resume", async (t) => {
  const id = await addMonitor("Shop", { tags: ["shop"] });
  const listed = await smctl(["list", "--tag", "shop"]);
  matchObject(t, listed, {
    code: 0,
    out: new RegExp(`^STATUS +NAME +KIND +TAGS +ID\n\\w+ +Shop +http +shop +${id}\n$`),
  });
  matchObject(t, jsonOf(await smctl(["list", "--json"])), [{ id }]);
  const second = await addMonitor("Second", { enabled: false });
  matchObject(t, jsonOf(await smctl(["list", "--json", "--limit", "1"])), { length: 1 });
  await api.delete(`/api/v1/targets/${second}`);
  matchObject(t, await smctl(["list", "channels", "--tag", "x"]), { code: 1, err: /--tag is for monitors/ });
  matchObject(t, jsonOf(await smctl(["get", "monitor", id, "--json"])), { id, interval: 10 });
  matchObject(t, await smctl(["get", "monitors", "Nothing"]), {
    code: 1,
    err: /there is no monitor with the id, key or name/,
  });
  await waitFor("the agent", async () => (await smctl(["check-now", id])).code === 0);
  matchObject(t, await smctl(["check-now", id]), { code: 0, out: /^up  Shop/ });
  matchObject(t, jsonOf(await smctl(["check-now", id, "--json"])), [{ target_id: id, status: "up" }]);
  matchObject(t, await smctl(["pause", "--tag", "shop"]), { code: 0, out: new RegExp(`^paused  Shop.*${id}`) });
  matchObject(t, (await api.get(`/api/v1/targets/${id}`)).body, { enabled: false });
  matchObject(t, await smctl(["list", "--state", "paused"]), { code: 0, out: /^paused/m });
  matchObject(t, await smctl(["resume", id]), { code: 0 });
  matchObject(t, await smctl(["resume", "--tag", "nothing"]), { code: 1, err: /no monitor has the tag nothing/ });

  const file = (path: string) =>
    `version: 1\nproject: shop\nmonitors:\n` +
    `  web: {name: W, check: {type: http, url: ${JSON.stringify(path)}, timeout: 2s}}\n`;
  writeFileSync(join(folder, "try.yaml"), file(site.url));
  matchObject(t, await smctl(["test", "try.yaml"]), { code: 0, out: /^up  web/ });
  writeFileSync(join(folder, "try.yaml"), file(`http://127.0.0.1:${await freePort()}/`));
  matchObject(t, await smctl(["test", "try.yaml"]), { code: 1, out: /^down  web/, err: /1 of 1 are not up/ });
  // What a variable gave may be in what a target says, and in what a refusal says.
  const variables = { ADDRESS: `${site.url}?t=zq-value`, HAS: "zq-text" };
  const parts = 'url: "${ADDRESS}", expected_body_contains: "${HAS}", timeout: 2s';
  writeFileSync(join(folder, "try.yaml"), file("x").replace(/url: "x".*?2s/, parts));
  for (const ADDRESS of [
    variables.ADDRESS,
    "http://zq-nothing.invalid/",
    "ftp://zq-value/",
    "http://zq-value:70000/",
  ]) {
    const { code, out, err } = await smctl(["test", "try.yaml"], { env: { ...variables, ADDRESS } });
    const { out: json } = await smctl(["test", "try.yaml", "--json"], { env: { ...variables, ADDRESS } });
    t.equal(code, 1);
    t.notMatch(out + err + json, "zq-");
    t.match(out + err, /not shown, because it may quote \$\{ADDRESS\}/);
  }
  t.equal((await api.get("/api/v1/targets")).body.total, 1, "nothing is stored");
});

t.test("wait ends when monitors are up, and at the deadline", async (t) => {
  const id = await addMonitor("Waited for", { tags: ["deploy"], enabled: false });
  matchObject(t, await smctl(["wait", "--healthy", "--tag", "deploy", "--timeout", "1s"]), {
    code: 1,
    err: /^waiting for 1:\n {2}paused {2}Waited for\nsmctl: 1 monitor is not up after 1 s\.\n$/,
  });
  matchObject(t, await smctl(["wait", "--healthy", "--tag", "none"]), { code: 1, err: /no monitor has the tag none/ });
  matchObject(t, await smctl(["wait", "--healthy"]), { code: 1, err: /nothing is selected/ });
  matchObject(t, await smctl(["wait", "--tag", "deploy"]), { code: 1, err: /--healthy/ });
  const waiting = start(["wait", "--healthy", "--monitor", "Waited for", "--timeout", "2m"]);
  await waitFor("the first line", () => waiting.err().includes("paused"));
  await api.patch(`/api/v1/targets/${id}`, { enabled: true });
  matchObject(t, await waiting.ended, { code: 0, err: /1 monitor is up\.\n$/ });
});

t.test("ack acknowledges what is open", async (t) => {
  const id = await addMonitor("Broken", { enabled: false });
  const made = await api.post("/api/v1/incidents", {
    target_id: id,
    public_title: "Down",
    severity: "major",
    message: "x",
  });
  t.equal(made.status, 201, made.text);
  matchObject(t, await smctl(["ack"]), { code: 1, err: /which incidents\?/ });
  matchObject(t, await smctl(["ack", "Broken"]), { code: 1, err: /no id of an incident/ });
  matchObject(t, await smctl(["ack", "--monitor", "Broken"]), { code: 0, out: /^acknowledged  Broken/ });
  t.ok((await api.get(`/api/v1/incidents/${made.body.id}`)).body.acknowledged_at);
  matchObject(t, await smctl(["ack", "--all"]), { code: 0, out: /No open incident is left/ });
});

t.test("maintenance run: the command's exit code, and a window that ends with it", async (t) => {
  const id = await addMonitor("Deployed", { tags: ["m"] });
  const run = (...command: string[]) => ["maintenance", "run", "--tag", "m", "--max", "1h", "--", ...command];
  const windows = async (): Promise<Json[]> => (await api.get("/api/v1/maintenance?limit=100")).body.items;

  matchObject(t, await smctl(run("sh", "-c", "echo out; exit 7")), {
    code: 7,
    out: "out\n",
    err: /maintenance of 1 monitor until/,
  });
  const [first] = await windows();
  matchObject(t, first, { state: "past", component_ids: [id], title: "Maintenance (sh)" });
  matchObject(t, await smctl(run("no-such-program")), { code: 127, err: /no-such-program is not found/ });
  matchObject(t, await smctl(run("/dev/null")), { code: 126, err: /cannot be run \(EACCES\)/ });
  matchObject(t, await smctl(run("sh", "-c", "kill -KILL $$")), { code: 137 });
  t.strictSame([...new Set((await windows()).map(({ state }) => state))], ["past"]);

  for (const [signal, code] of [
    ["SIGTERM", 143],
    ["SIGINT", 130],
  ] as const) {
    // With exec there is no shell between that waits for its child.
    const running = start(run("sh", "-c", "echo ready >&2; exec sleep 60"));
    await waitFor("the command", () => running.err().includes("ready"));
    t.equal((await windows()).filter(({ state }) => state === "active").length, 1);
    running.child.kill(signal);
    matchObject(t, await running.ended, { code, err: /the maintenance has ended/ });
    t.equal((await windows()).filter(({ state }) => state === "active").length, 0, signal);
  }

  // A signal that comes while the window opens: its reply is kept back until then.
  const early = { ran: join(folder, "early"), opened: false, release: () => {} };
  const proxy = createServer((incoming, outgoing) => {
    const { method = "", url = "", headers } = incoming;
    const forwarded = request(plane.url + url, { method, headers }, (reply) => {
      const send = () => reply.pipe(outgoing.writeHead(reply.statusCode!, reply.headers));
      if (method !== "POST" || url !== "/api/v1/maintenance") return void send();
      [early.opened, early.release] = [true, send];
    });
    incoming.pipe(forwarded);
  }).listen(0, "127.0.0.1");
  t.teardown(() => (proxy.close(), proxy.closeAllConnections()));
  await once(proxy, "listening");
  const { port } = proxy.address() as AddressInfo;
  const interrupted = start(run("touch", early.ran), { env: { SM_URL: `http://127.0.0.1:${port}` } });
  await waitFor("the window", () => early.opened);
  interrupted.child.kill("SIGTERM");
  await waitFor("the signal to be taken", () => interrupted.err().includes("the command does not start"));
  early.release();
  matchObject(t, await interrupted.ended, { code: 143, err: /the maintenance has ended/ });
  t.notOk(existsSync(early.ran), "the command has not run");
  t.equal((await windows()).filter(({ state }) => state === "active").length, 0);

  const page = await api.post("/api/v1/status-pages", { slug: "acme", name: "Acme" });
  await api.post(`/api/v1/status-pages/${page.body.id}/components`, { target_id: id });
  matchObject(t, await smctl(["maintenance", "run", "--page", "acme", "--max", "1h", "--", "true"]), { code: 0 });

  const away = { SM_URL: `http://127.0.0.1:${await freePort()}` };
  const marker = join(folder, "ran");
  matchObject(t, await smctl(run("touch", marker), { env: away }), { code: 1, err: /does not answer/ });
  t.notOk(existsSync(marker), "the command has not run");
  const best = ["maintenance", "run", "--tag", "m", "--max", "1h", "--best-effort", "--", "touch", marker];
  matchObject(t, await smctl(best, { env: away }), { code: 0, err: /runs without a maintenance window/ });
  t.ok(existsSync(marker));
  matchObject(t, await smctl(["maintenance", "run", "--tag", "m", "--", "true"]), { code: 1, err: /--max/ });
  matchObject(t, await smctl(["maintenance", "run", "--tag", "zzz", "--max", "1h", "--best-effort", "--", "true"]), {
    code: 1,
  });
});

t.test("validate names every error with file, line and column, and no secret", async (t) => {
  mkdirSync(join(folder, "statusmesh"));
  writeFileSync(
    join(folder, "statusmesh/a.yaml"),
    "version: 1\nproject: shop\nmonitors:\n  a:\n    name: A\n" +
      '    check: {type: http, url: "${ADDRESS}", timeot: 1s}\n' +
      "    alerts: [ops]\n",
  );
  writeFileSync(join(folder, "statusmesh/b.yaml"), 'monitors:\n  b: {name: "${UNSET}", check: {type: tcp}}\n');
  const env = { ADDRESS: "ftp://s3cret-host/" };
  const { code, out, err } = await smctl(["validate"], { env });
  matchObject(t, { code, out }, { code: 1, out: "" });
  const lines = err.trim().split("\n");
  t.strictSame(lines, [
    'statusmesh/a.yaml:6:44: There is no field "timeot" here. Did you mean "timeout"?',
    'statusmesh/a.yaml:7:14: The document has no key "ops" in channels.',
    "statusmesh/b.yaml:2:13: The variable UNSET is not set.",
    "statusmesh/b.yaml:2:25: monitors.b.check.host is required.",
    "statusmesh/b.yaml:2:25: monitors.b.check.port is required.",
    "smctl: 5 errors.",
  ]);
  t.notMatch(err, "s3cret");
  const listed = jsonOf(await smctl(["validate", "--json"], { env }));
  matchObject(t, listed[0], { file: "statusmesh/a.yaml", line: 6, column: Number, message: String });
  writeFileSync(join(folder, "statusmesh/b.yaml"), "");
  writeFileSync(join(folder, "statusmesh/a.yaml"), "version: 1\nproject: shop\n");
  matchObject(t, await smctl(["validate"]), { code: 0, err: "2 files, 0 objects, no errors.\n" });
  matchObject(t, jsonOf(await smctl(["validate", "--json"])), []);
  matchObject(t, await smctl(["validate", "absent.yaml"]), { code: 1, err: /absent\.yaml cannot be read/ });
});

t.test("completion names commands, options and the words of arguments", async (t) => {
  const scripts = new Map<string, string>();
  for (const shell of ["bash", "zsh", "fish"]) {
    const { code, out } = await smctl(["completion", shell]);
    matchObject(t, { code, out }, { code: 0, out: /check-now[^]*--best-effort/ }, shell);
    scripts.set(shell, out);
  }
  t.notMatch(scripts.get("fish"), /string split (?!-- )/, "fish would read --url as an option of string");
  const complete = async (...words: string[]): Promise<string> => {
    const asked = `${scripts.get("bash")}\nCOMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _smctl; echo "\${COMPREPLY[@]}"`;
    const child = spawn("bash", ["-c", asked, "bash", "smctl", ...words]);
    let out = "";
    for await (const chunk of child.stdout) out += String(chunk);
    return out.trim();
  };
  t.equal(await complete("maintenance", "run", "--be"), "--best-effort");
  t.equal(await complete("list", "m"), "monitors maintenance");
  t.equal(await complete("completion", ""), "bash zsh fish --help");
  matchObject(t, await smctl(["completion", "ksh"]), { code: 1 });
});
