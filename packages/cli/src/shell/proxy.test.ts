import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import { createRequire } from "node:module";
import { type AddressInfo, connect } from "node:net";
import { join } from "node:path";
import { generate } from "selfsigned";
import { Server as SocketServer } from "socket.io";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { Failure } from "./output.ts";
import { proxyOf } from "./proxy.ts";

const password = "pa:ss@w%rd";
const credentials = `me:${encodeURIComponent(password)}`;
const basic = `Basic ${Buffer.from(`me:${password}`).toString("base64")}`;

const { private: key, cert } = await generate([{ name: "commonName", value: "proxied" }], {
  keyType: "ec",
  algorithm: "sha256",
  extensions: [
    {
      name: "subjectAltName",
      altNames: [
        { type: 2, value: "status.example.org" },
        { type: 7, ip: "127.0.0.1" },
      ],
    },
  ],
});
const folder = t.testdir({ "ca.pem": cert, "taken.yaml": "" });

async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

const empty = (request: IncomingMessage, response: ServerResponse): void =>
  void response
    .setHeader("content-type", "application/json")
    .end(JSON.stringify({ items: [], checks: [], total: 0, host: request.headers.host }));
const secure = createSecureServer({ key, cert }, empty);
const [securePort, plainPort] = [await listening(secure), await listening(createServer(empty))];

/** A proxy that leads every host to the servers here. It refuses with `status`, or asks for credentials. */
async function proxy({ status = 0, isSecure = false }: { status?: number; isSecure?: boolean } = {}) {
  const asked: string[] = [];
  const refusal = (request: IncomingMessage): number =>
    status === 0 && request.headers["proxy-authorization"] !== basic ? 407 : status;
  const answer = (incoming: IncomingMessage, response: ServerResponse): void => {
    asked.push(`${incoming.method} ${incoming.url}`);
    const refused = refusal(incoming);
    if (refused > 0) return void response.writeHead(refused).end();
    const { pathname, search } = new URL(incoming.url!);
    const headers = { host: incoming.headers.host, authorization: incoming.headers.authorization };
    request({ port: plainPort, host: "127.0.0.1", path: pathname + search, headers }, (reply) => {
      response.writeHead(reply.statusCode!, reply.headers);
      reply.pipe(response);
    }).end();
  };
  const server = isSecure ? createSecureServer({ key, cert }, answer) : createServer(answer);
  server.on("connect", (incoming: IncomingMessage, socket, head: Buffer) => {
    asked.push(`${incoming.method} ${incoming.url}`);
    const refused = refusal(incoming);
    if (refused > 0) return void socket.end(`HTTP/1.1 ${refused} No\r\nContent-Length: 0\r\n\r\n`);
    const onward = connect(securePort, "127.0.0.1", () => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      onward.write(head);
      onward.pipe(socket).pipe(onward);
    });
    for (const end of [onward, socket]) end.on("error", () => void [onward.destroy(), socket.destroy()]);
  });
  return { asked, port: await listening(server) };
}

const program = createRequire(import.meta.url).resolve("smctl/cli");

async function smctl(args: readonly string[], env: Record<string, string>) {
  const child = spawn(process.execPath, [program, ...args], {
    cwd: folder,
    env: { HOME: folder, PATH: process.env["PATH"], NODE_EXTRA_CA_CERTS: join(folder, "ca.pem"), ...env },
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text) => (said += text));
  const [code] = (await once(child, "close")) as [number];
  t.notMatch(said, password, "credentials are not printed");
  t.notMatch(said, credentials, "credentials are not printed");
  return { code, said };
}

const server = { SM_URL: "https://status.example.org", SM_TOKEN: "sm_live_token" };
const list = ["list", "monitors", "--json"];

t.test("requests of the API and of importers go through the proxy, with TLS to the host inside", async (t) => {
  for (const isSecure of [false, true]) {
    const { asked, port } = await proxy({ isSecure });
    const address = `${isSecure ? "https" : "http"}://${credentials}@127.0.0.1:${port}`;
    matchObject(t, await smctl(list, { ...server, HTTPS_PROXY: address }), { code: 0, said: "[]" });
    t.strictSame(asked.splice(0), ["CONNECT status.example.org:443"]);
    const from = ["import", "healthchecks", "--api-url", "https://status.example.org/api/v3"];
    matchObject(t, await smctl(from, { HEALTHCHECKS_API_KEY: "key", https_proxy: address }), { code: 0 });
    t.strictSame(asked, ["CONNECT status.example.org:443"]);
  }
});

t.test("plain http is passed on by the proxy", async (t) => {
  const { asked, port } = await proxy();
  const env = { ...server, SM_URL: "http://status.example.org/base", HTTP_PROXY: `${credentials}@127.0.0.1:${port}` };
  matchObject(t, await smctl(["list", "channels", "--json", "--insecure-http"], env), { code: 0, said: "[]" });
  matchObject(t, asked, [/^GET http:\/\/status\.example\.org\/base\/api\/v1\//]);
  const refusing = await proxy({ status: 407 });
  matchObject(
    t,
    await smctl(["list", "--insecure-http"], { ...env, HTTP_PROXY: `http://127.0.0.1:${refusing.port}` }),
    {
      code: 1,
      said: /the proxy \S+ of HTTP_PROXY wants a user and a password \(407\)/,
    },
  );
});

t.test("a running Uptime Kuma behind the proxy", async (t) => {
  const kuma = new SocketServer(secure);
  t.teardown(() => kuma.engine.close());
  kuma.on("connection", (socket) =>
    socket.on("login", (_: unknown, done: (reply: object) => void) => done({ ok: false, msg: "reached" })),
  );
  const { asked, port } = await proxy();
  const env = { KUMA_USERNAME: "a", KUMA_PASSWORD: "b", HTTPS_PROXY: `http://${credentials}@127.0.0.1:${port}` };
  const ended = await smctl(["import", "kuma", "https://status.example.org"], env);
  matchObject(t, ended, { code: 1, said: /refuses the sign-in \(reached\)/ });
  matchObject(t, asked, ["CONNECT status.example.org:443"]);
  matchObject(
    t,
    await smctl(["import", "kuma", "https://status.example.org"], { ...env, HTTPS_PROXY: `127.0.0.1:${port}` }),
    {
      code: 1,
      said: /the proxy \S+ of HTTPS_PROXY wants a user/,
    },
  );
});

t.test("what a proxy refuses is said in words", async (t) => {
  const { port } = await proxy();
  const { port: closed } = await proxy({ status: 403 });
  const at = async (address: string) => await smctl(list, { ...server, HTTPS_PROXY: address });
  matchObject(t, await at(`http://127.0.0.1:${port}`), {
    code: 1,
    said: /wants a user and a password \(407\): write HTTPS_PROXY=http:\/\/user:password@127\.0\.0\.1:\d+\.\n$/,
  });
  const wrong = await at(`http://me:wr0ng@127.0.0.1:${port}`);
  matchObject(t, wrong, { code: 1, said: /does not accept the user and password of HTTPS_PROXY \(407\)\.\n$/ });
  t.notMatch(wrong.said, "wr0ng");
  matchObject(t, await at(`http://127.0.0.1:${closed}`), { code: 1, said: /refuses the connection \(403\)/ });
  matchObject(t, await at("http://127.0.0.1:9"), {
    code: 1,
    said: "smctl: the proxy 127.0.0.1:9 of HTTPS_PROXY does not answer (ECONNREFUSED).\n",
  });
  writeFileSync(join(folder, "ran"), "");
  const inside = ["maintenance", "run", "--tag", "x", "--max", "1h", "--best-effort", "--", "rm", "ran"];
  const ran = await smctl(inside, { ...server, HTTPS_PROXY: "http://127.0.0.1:9" });
  matchObject(t, ran, { code: 0, said: /of HTTPS_PROXY does not answer .* runs without a maintenance window/ });
});

t.test("which proxy an address has", async (t) => {
  const at = (url: string, env: Record<string, string>) => {
    const found = proxyOf(new URL(url), env);
    return found && `${found.from} ${found.isSecure ? "https" : "http"} ${found.hostname} ${found.port}`;
  };
  const both = { HTTPS_PROXY: "http://s:3128", HTTP_PROXY: "p" };
  t.equal(at("https://a.example.org", both), "HTTPS_PROXY http s 3128");
  t.equal(at("http://a.example.org", both), "HTTP_PROXY http p 80");
  t.equal(at("https://a.example.org", { ...both, https_proxy: "https://[fd00::1]" }), "https_proxy https fd00::1 443");
  t.equal(
    at("https://a.example.org", { ...both, https_proxy: " " }),
    "HTTPS_PROXY http s 3128",
    "an empty one is none",
  );
  t.equal(at("https://a.example.org", { HTTP_PROXY: "p" }), null);
  for (const local of ["http://localhost:1", "http://127.0.0.1", "https://[::1]/"])
    t.equal(at(local, both), null, `${local}: a token would leave this machine unencrypted`);
  const excepted: [list: string, url: string, isDirect: boolean][] = [
    ["*", "https://a.example.org", true],
    ["other, example.org", "https://a.example.org", true],
    [".example.org", "https://a.example.org", true],
    ["*.example.org", "https://A.EXAMPLE.ORG", true],
    ["ple.org", "https://a.example.org", false],
    ["a.example.org:443", "https://a.example.org", true],
    ["a.example.org:8443", "https://a.example.org", false],
    ["a.example.org:8443", "https://a.example.org:8443", true],
    ["10.0.0.0/8", "https://10.1.2.3", true],
    ["10.0.0.0/8", "https://11.1.2.3", false],
    ["10.0.0.0/99", "https://10.1.2.3", false],
    ["fd00::/8", "https://[fd00::1]", true],
    ["[fd00::1]", "https://[fd00::1]", true],
    ["[fd00::1]:444", "https://[fd00::1]", false],
    ["fd00::1", "https://[fd00::1]", true],
    ["1.2.3", "https://9.1.2.3", false],
    ["", "https://a.example.org", false],
  ];
  for (const [NO_PROXY, url, isDirect] of excepted)
    t.equal(at(url, { ...both, NO_PROXY }) === null, isDirect, `${NO_PROXY} for ${url}`);
  for (const wrong of [
    "socks5://me:s3cret@p",
    "http://me:s3cret@",
    "http://me:s3%cret@p",
    "http://me:s3cret@p:99999",
  ]) {
    try {
      t.fail(`${wrong} is taken as ${at("https://a.example.org", { HTTPS_PROXY: wrong })}`);
    } catch (error) {
      t.ok(error instanceof Failure);
      t.match((error as Failure).message, "HTTPS_PROXY");
      t.notMatch((error as Failure).message, "s3");
    }
  }
});
