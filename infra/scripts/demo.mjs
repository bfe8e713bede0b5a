// `npm run demo`: the product with three small servers to monitor, in temporary folders. Ctrl-C removes everything.
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { prepare } from "./prepare.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const minutes = Number(process.env.DEMO_MINUTES ?? 60);
const say = (text) => process.stdout.write(`${text}\n`);
const clock = () => new Date().toTimeString().slice(0, 8);

await prepare();

const listen = (server, port = 0) =>
  new Promise((resolve, reject) =>
    server.once("error", reject).listen(port, "127.0.0.1", () => resolve(server.address().port)),
  );
const answer = (text, afterMs) => createServer((_, response) => setTimeout(() => response.end(text), afterMs()));

const healthy = answer("ok\n", () => 0);
const slow = answer("sorry, it takes a while\n", () => 400 + Math.random() * 1200);
// Healthy and failing for half a minute each.
const isWell = () => Math.floor((Date.now() - started) / 30_000) % 2 === 0;
const started = Date.now();
const flapping = createServer((_, response) => {
  response.statusCode = isWell() ? 200 : 502;
  response.end(isWell() ? "ok\n" : "bad gateway\n");
});
const servers = [healthy, slow, flapping];
const [healthyPort, slowPort, flappingPort] = await Promise.all(servers.map((server) => listen(server)));

/** Returns 8080 when it is free, otherwise any port. */
async function freePort() {
  for (const wanted of [8080, 0]) {
    const probe = createServer();
    try {
      const port = await listen(probe, wanted);
      await new Promise((resolve) => probe.close(resolve));
      return port;
    } catch (error) {
      if (error.code !== "EADDRINUSE") throw error;
    }
  }
}

const folder = mkdtempSync(join(tmpdir(), "statusmesh-demo-"));
// As root the embedded database runs as another user, which must enter the folder.
chmodSync(folder, 0o755);
const port = await freePort();
const url = `http://127.0.0.1:${port}`;
const token = `sm_live_${randomBytes(32).toString("base64url")}`;
const ours = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("SM_")));
const child = spawn(process.execPath, [join(root, "packages/control-plane/bin/statusmesh.js"), "serve"], {
  cwd: folder,
  stdio: ["ignore", "ignore", "inherit"],
  env: {
    ...ours,
    SM_SERVER__BIND: `127.0.0.1:${port}`,
    SM_DATA__DIR: join(folder, "data"),
    SM_BOOTSTRAP__ORG_NAME: "Acme",
    SM_BOOTSTRAP__TOKEN: token,
    SM_SECURITY__ALLOW_PRIVATE_TARGETS: "true",
    SM_LOG__LEVEL: "error",
  },
});
const ended = new Promise((resolve) => child.once("exit", resolve));

let stopping = false;
async function stop(code) {
  if (stopping) return;
  stopping = true;
  child.kill("SIGTERM");
  await Promise.race([ended, sleep(8000)]);
  child.kill("SIGKILL");
  for (const server of servers) server.close().closeAllConnections();
  rmSync(folder, { recursive: true, force: true });
  say("\nEverything is stopped and removed.");
  process.exit(code);
}
process.on("SIGINT", () => void stop(0));
process.on("SIGTERM", () => void stop(0));
void ended.then((code) => stopping || (say(`StatusMesh ended (${code}).`), void stop(1)));

async function api(method, path, body) {
  const response = await fetch(url + path, {
    method,
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const reply = response.status === 204 ? null : await response.json();
  if (!response.ok) throw new Error(`${method} ${path}: ${reply.error.message}`);
  return reply;
}

async function ready() {
  for (let tries = 0; tries < 200 && !stopping; tries++) {
    if (
      await fetch(`${url}/readyz`).then(
        (response) => response.ok,
        () => false,
      )
    )
      return;
    await sleep(100);
  }
  throw new Error("StatusMesh did not start within 20 seconds.");
}

async function demonstrate() {
  await ready();
  const monitor = (name, port, more) =>
    api("POST", "/api/v1/targets", {
      name,
      check: { type: "http", url: `http://127.0.0.1:${port}/`, timeout: 5000 },
      interval: 10,
      alert_confirmations: 1,
      tags: ["demo"],
      ...more,
    });
  const website = await monitor("Website", healthyPort);
  const search = await monitor("Search", slowPort);
  const checkout = await monitor("Checkout", flappingPort);
  const page = await api("POST", "/api/v1/status-pages", {
    slug: "acme",
    name: "Acme status",
    branding: { about: "This is a demonstration. Checkout fails every other half minute." },
  });
  const show = (target, public_name, public_group, public_description = null) =>
    api("POST", `/api/v1/status-pages/${page.id}/components`, {
      target_id: target.id,
      public_name,
      public_group,
      public_description,
    });
  await show(website, "Website", "Shop");
  await show(checkout, "Checkout", "Shop", "Cards, wallets and refunds");
  await show(search, "Search", "Catalogue");

  say(`  Running for the next ${minutes} minutes:
    ${url}/status   the status page for visitors. Leave it open: it updates by itself.
    ${url}/         the console. Sign in with the link above.

  Website is healthy, Search is slow, Checkout answers 502 every other half minute.
  Events (Ctrl-C ends the demonstration and removes everything):\n`);
  const seen = new Map();
  for (const until = Date.now() + minutes * 60_000; Date.now() < until && !stopping; await sleep(1000)) {
    for (const incident of (await api("GET", "/api/v1/incidents?limit=20")).items) {
      const state = `${incident.state}${incident.reopened_count}`;
      if (seen.get(incident.id) === state) continue;
      seen.set(incident.id, state);
      const change =
        incident.state === "open"
          ? `is down: ${incident.error_sample}`
          : `is up again after ${incident.duration_secs} s`;
      say(`  ${clock()}  ${incident.monitor_name} ${change}`);
    }
  }
}

try {
  await demonstrate();
  await stop(0);
} catch (error) {
  if (!stopping) {
    say(error.message);
    await stop(1);
  }
}
