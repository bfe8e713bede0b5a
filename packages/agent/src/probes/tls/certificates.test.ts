import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import { type AddressInfo, connect, createServer } from "node:net";
import { createServer as createTlsServer, TLSSocket } from "node:tls";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { generate } from "selfsigned";
import t, { type Test } from "tap";
import { WebSocketServer } from "ws";
import { checkKinds, type ProbedType } from "@statusmesh/shared/checks";
import { matchObject } from "@statusmesh/shared/testing";
import { validate } from "@statusmesh/shared/schema/validate";
import { outcomeOf, testRunner } from "../../testing.ts";
import { CertificateStore } from "./certificates.ts";

/* Authorities and client certificates of checks, against servers of Node and nginx that ask for one. */

const dayMs = 86_400_000;

interface Pair {
  cert: string;
  private: string;
}

const issue = async (name: string, ca?: Pair, days = 100): Promise<Pair> =>
  await generate([{ name: "commonName", value: name }], {
    keyType: "ec",
    algorithm: "sha256",
    notBeforeDate: new Date(Date.now() - 200 * dayMs),
    notAfterDate: new Date(Date.now() + days * dayMs),
    extensions: [
      { name: "basicConstraints", cA: ca === undefined, critical: true },
      ...(ca === undefined
        ? []
        : [{ name: "subjectAltName" as const, altNames: [{ type: 2 as const, value: "localhost" }] }]),
    ],
    ...(ca === undefined ? {} : { ca: { key: ca.private, cert: ca.cert } }),
  });

const [root, other] = [await issue("Root"), await issue("Other root")];
const server = await issue("localhost", root);
const client = await issue("probe", root);
const wrong = await issue("wrong", other);
const ended = await issue("ended", root, -3);

const id = (n: number): string => `01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e9${n}`;
const sent = [
  { id: id(0), certificate: root.cert, private_key: null },
  { id: id(1), certificate: client.cert, private_key: client.private },
  { id: id(2), certificate: wrong.cert, private_key: wrong.private },
  { id: id(3), certificate: ended.cert, private_key: ended.private },
  { id: id(4), certificate: other.cert, private_key: null },
];
const named = (ca: number | null, own: number | null = null) => ({
  certificates: { ca_id: ca === null ? null : id(ca), client_id: own === null ? null : id(own) },
});
const runner = testRunner({ lookup: async () => ["127.0.0.1"] });
const store = new CertificateStore();

async function run(type: ProbedType, spec: object) {
  const check = { ...(validate(checkKinds[type].schema, { type, timeout: 5000, ...spec }) as { type: string }) };
  const one = { target_id: "", org_id: "", version: "1", interval_ms: 0, next_due_at: 0, recheck_ms: 0, check };
  store.apply({ full: true, certificates: sent, checks: [one], runs: [] });
  const { measurement, warnings } = await outcomeOf(runner.run("org", check));
  return { ...measurement, warnings };
}

async function listen(t: Test, one: ReturnType<typeof createTlsServer> | ReturnType<typeof createHttpServer>) {
  one.on("tlsClientError", () => undefined);
  await new Promise<void>((settle) => one.listen(0, "127.0.0.1", settle));
  t.teardown(() => one.close());
  return (one.address() as AddressInfo).port;
}

/** Has a server accept WebSockets. */
const answerSockets = (server: ReturnType<typeof createHttpsServer>): WebSocketServer =>
  new WebSocketServer({ server });

const tls = { key: server.private, cert: server.cert, ca: root.cert };
/** The subject that the client shows, for the answer. */
const shown = (socket: unknown): string =>
  socket instanceof TLSSocket ? String(socket.getPeerCertificate().subject?.CN ?? "nobody") : "plain";

t.test("an authority of the check replaces those of the agent, in every kind", async (t) => {
  const https = createHttpsServer(tls, (_request, response) => void response.end("ok"));
  answerSockets(https);
  const port = await listen(t, https);
  const bare = await listen(
    t,
    createTlsServer(tls, (socket) => void socket.on("error", () => undefined).end()),
  );
  for (const [type, spec] of [
    ["http", { url: `https://localhost:${port}/` }],
    ["websocket", { url: `wss://localhost:${port}/` }],
    ["tcp", { host: "localhost", port: bare, tls: "tls" }],
    ["grpc", { host: "localhost", port: bare }],
  ] as [ProbedType, object][]) {
    const found = await run(type, { ...spec, ...named(0) });
    t.notMatch(found.error ?? "", "certificate", type);
    if (type !== "grpc") t.equal(found.status, "up", type);
    matchObject(t, await run(type, spec), {
      status: "down",
      error: /name its authority in the check \(certificates\.ca_id\)/,
    });
    matchObject(t, await run(type, { ...spec, ...named(4) }), {
      status: "down",
      error: /the authority that the check names \(certificates\.ca_id\) has not issued it/,
    });
  }
  const judged = { host: "localhost", port: bare, judge: "chain" };
  t.strictSame((await run("tls_cert", { ...judged, ...named(0) })).warnings, []);
  const pinned = { ...sent[0]!, certificate: server.cert };
  sent[0] = pinned;
  t.equal((await run("tcp", { host: "localhost", port: bare, tls: "tls", ...named(0) })).status, "up", "a pinned leaf");
  sent[0] = { ...pinned, certificate: root.cert };
  t.equal((await run("tcp", { host: "localhost", port: bare, tls: "tls", ...named(0) })).status, "up");
});

t.test("a client certificate is presented to servers that ask, in every version of TLS", async (t) => {
  for (const version of ["TLSv1.2", "TLSv1.3"] as const) {
    const options = { ...tls, requestCert: true, rejectUnauthorized: true, minVersion: version, maxVersion: version };
    const https = createHttpsServer(options, ({ socket }, response) => void response.end(shown(socket)));
    answerSockets(https);
    const port = await listen(t, https);
    const url = `https://localhost:${port}/`;
    const expected = { url, expected_body_contains: "probe" };
    matchObject(t, await run("http", { ...expected, ...named(0, 1) }), { status: "up" }, version);
    matchObject(t, await run("http", { url, ...named(0) }), {
      status: "down",
      error: /certificate required|alert|reset/,
    });
    matchObject(t, await run("http", { url, ...named(0, 2) }), { status: "down" }, "of another authority");
    matchObject(t, await run("http", { url, ...named(0, 3) }), {
      status: "down",
      warnings: [/^The client certificate of this check expired on \d{4}-/],
    });
    matchObject(t, await run("websocket", { url: `wss://localhost:${port}/`, ...named(0, 1) }), { status: "up" });
    const tcp = createTlsServer(options, (socket) => void socket.on("error", () => undefined).end(shown(socket)));
    const bare = await listen(t, tcp);
    const talk = { host: "localhost", port: bare, tls: "tls", expect: "probe" };
    matchObject(t, await run("tcp", { ...talk, ...named(0, 1) }), { status: "up" });
    matchObject(t, await run("tls_cert", { host: "localhost", port: bare, ...named(null, 1) }), { status: "up" });
  }
});

t.test("after redirects only the server of the check sees the client certificate", async (t) => {
  const seen: string[] = [];
  const asking = { ...tls, requestCert: true, rejectUnauthorized: false };
  const own = createHttpsServer(asking, ({ socket, url }, response) => {
    seen.push(`own ${shown(socket)} ${url}`);
    if (url === "/away") response.writeHead(302, { location: `https://localhost:${elsewhere}/` });
    response.end();
  });
  const port = await listen(t, own);
  const foreign = createHttpsServer(asking, ({ socket }, response) => {
    seen.push(`foreign ${shown(socket)}`);
    response.writeHead(302, { location: `https://localhost:${port}/back` }).end();
  });
  const elsewhere = await listen(t, foreign);
  matchObject(t, await run("http", { url: `https://localhost:${port}/away`, ...named(0, 1) }), { status: "up" });
  t.strictSame(seen, ["own probe /away", "foreign nobody", "own nobody /back"]);
});

t.test("from http to https of one host, credentials and the client certificate follow", async (t) => {
  const secure = createHttpsServer({ ...tls, requestCert: true, rejectUnauthorized: false }, (request, response) => {
    response.end(`${shown(request.socket)} ${request.headers.authorization ?? "none"}`);
  });
  const plain = createHttpServer((request, response) => {
    response.writeHead(301, { location: `https://${request.headers.host}/` }).end();
  });
  const [securePort, plainPort] = [await listen(t, secure), await listen(t, plain)];
  // One port for both, because both have to be at the same or at their own.
  const front = createServer((socket) => {
    socket.once("data", (first: Buffer) => {
      const behind = connect(first[0] === 22 ? securePort : plainPort, "127.0.0.1");
      behind.write(first);
      socket.pipe(behind).pipe(socket);
      behind.on("error", () => socket.destroy());
    });
    socket.on("error", () => undefined);
  });
  await new Promise<void>((settle) => front.listen(0, "127.0.0.1", settle));
  t.teardown(() => front.close());
  const url = `http://localhost:${(front.address() as AddressInfo).port}/`;
  const spec = { url, bearer_token: "T0KEN", ...named(0, 1) };
  matchObject(t, await run("http", { ...spec, expected_body_contains: "probe Bearer T0KEN" }), {
    status: "up",
    error: null,
  });
  const unverified = { url, verify_tls: false, ...named(null, 1), expected_body_contains: "nobody none" };
  matchObject(t, await run("http", unverified), { status: "up" }, "never where the server is not verified");
});

t.test("material that is replaced is used at the next run; what was not sent is no evidence", async (t) => {
  const port = await listen(
    t,
    createTlsServer(tls, (socket) => void socket.on("error", () => undefined).end()),
  );
  const spec = { host: "localhost", port, tls: "tls", ...named(0) };
  t.equal((await run("tcp", spec)).status, "up");
  const [before] = sent;
  sent[0] = { ...before!, certificate: other.cert };
  t.equal((await run("tcp", spec)).status, "down");
  sent.shift();
  matchObject(t, await run("tcp", spec), {
    status: "error",
    error: "this agent was not sent the certificate of the check",
  });
  sent.unshift(before!);
  t.equal((await run("tcp", spec)).status, "up");
});

const nginx = "/usr/sbin/nginx";
const skip = existsSync(nginx) ? false : `${nginx} is missing`;
if (skip !== false && (process.env["SM_TEST_REQUIRE"] ?? "").includes("proxies")) throw new Error(skip);

t.test("nginx with ssl_verify_client", { skip }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "sm-nginx-"));
  const at = (name: string): string => join(folder, name);
  for (const [name, text] of Object.entries({ root: root.cert, server: server.cert, key: server.private }))
    writeFileSync(at(`${name}.pem`), text);
  const probe = createTlsServer();
  const port = await listen(t, probe);
  await new Promise((settle) => probe.close(settle));
  writeFileSync(
    at("nginx.conf"),
    `daemon off; master_process off; pid ${at("pid")}; error_log stderr;
    events {} http { access_log off; ${["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
      .map((part) => `${part}_temp_path ${at(part)};`)
      .join(" ")}
      server { listen 127.0.0.1:${port} ssl; server_name localhost; ssl_certificate ${at("server.pem")};
        ssl_certificate_key ${at("key.pem")}; ssl_client_certificate ${at("root.pem")}; ssl_verify_client on;
        location / { return 200 "hello $ssl_client_s_dn"; } } }`,
  );
  execFileSync(nginx, ["-t", "-c", at("nginx.conf"), "-p", folder], { stdio: "pipe" });
  const running = spawn(nginx, ["-c", at("nginx.conf"), "-p", folder], { stdio: "ignore" });
  t.teardown(async () => {
    running.kill();
    await new Promise((settle) => running.once("exit", settle));
    rmSync(folder, { recursive: true });
  });
  const url = `https://localhost:${port}/`;
  const spec = { url, expected_body_contains: "hello CN=probe", ...named(0, 1) };
  for (let tries = 0; tries < 100 && (await run("http", spec)).status !== "up"; tries++) await sleep(50);
  matchObject(t, await run("http", spec), { status: "up", error: null });
  matchObject(
    t,
    await run("http", { url, ...named(0) }),
    { status: "down", error: /got 400/ },
    "without a certificate",
  );
  matchObject(
    t,
    await run("http", { url, ...named(0, 2) }),
    { status: "down", error: /got 400/ },
    "of another authority",
  );
  matchObject(t, await run("http", { url, ...named(0, 3) }), { status: "down", warnings: [/expired on/] });
});
