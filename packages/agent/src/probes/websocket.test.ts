import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { WebSocketServer, type WebSocket } from "ws";
import { checkKinds, type SpecOf } from "@statusmesh/shared/checks";
import { validate } from "@statusmesh/shared/schema/validate";
import { outcomeOf, tcpServer, testRunner } from "../testing.ts";

/* A WebSocket, against a real server and against servers that are none. */

type Spec = SpecOf<"websocket">;
const runner = testRunner();
const asked: { extensions: string | undefined; key: string | undefined; path: string }[] = [];
const closes: number[] = [];
let serve: (socket: WebSocket) => void = () => undefined;

const server = createServer((_request, response) => response.writeHead(302, { location: "/socket" }).end());
const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: true });
server.on("upgrade", (request, socket, head) => {
  if (request.url === "/refused") return void socket.end("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n");
  asked.push({
    extensions: request.headers["sec-websocket-extensions"],
    key: request.headers["x-api-key"] as string | undefined,
    path: request.url ?? "",
  });
  sockets.handleUpgrade(request, socket, head, (client) => {
    client.on("close", (code) => closes.push(code)).on("error", () => undefined);
    serve(client);
  });
});
await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
t.teardown(() => server.close());
const base = `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;

async function ask(change: Partial<Spec> = {}) {
  const spec = validate(checkKinds.websocket.schema, {
    type: "websocket",
    url: `${base}/a?b=1`,
    timeout: 2000,
    ...change,
  });
  const { measurement, skip } = await outcomeOf(runner.run("org", { ...spec }));
  const { status, error, http_status } = measurement;
  return { status, error, http_status, skip };
}

t.test("handshake, send and expect", async (t) => {
  serve = (client) => client.on("message", (data) => client.send(`echo ${String(data)}`));
  matchObject(t, await ask({ headers: { "X-Api-Key": "hush" } }), { status: "up", error: null, http_status: 101 });
  matchObject(t, asked.at(-1), { extensions: undefined, key: "hush", path: "/a?b=1" }, "no compression is offered");
  matchObject(t, await ask({ send: '{"op":"ping"}', expect: '"ping"' }), { status: "up" });
  for (let turn = 0; turn < 100 && closes.length < 2; turn++) await new Promise((settle) => setTimeout(settle, 10));
  t.strictSame(closes, [1000, 1000], "closed with 1000");
  const late = await ask({
    send: "got hush-hush-key",
    expect: "pong",
    timeout: 300,
    headers: { "X-Api-Key": "hush-hush-key" },
  });
  matchObject(t, late, { status: "down", error: 'no message contains "pong"; got "echo got ***"' });
  serve = (client) => client.close(1011);
  matchObject(t, await ask({ expect: "x" }), {
    status: "down",
    error: "closed with code 1011 before the expected text",
  });
  serve = (client) => client.close(1008, "hush-hush-key is locked");
  matchObject(t, await ask({ expect: "x", headers: { "X-Api-Key": "hush-hush-key" } }), {
    status: "down",
    error: 'closed with code 1008 ("*** is locked") before the expected text',
  });
  serve = () => undefined;
  matchObject(t, await ask({ expect: "x", timeout: 300 }), {
    status: "down",
    error: "no message with the expected text within 0.3 s",
  });
  serve = (client) => client.send(Buffer.alloc((1 << 20) + 1, "y"));
  matchObject(t, await ask({ expect: "x" }), { status: "down", error: "a message is larger than 1 MiB" });
  serve = (client) => {
    for (let n = 0; n < 40; n++) client.send("y".repeat(40_000));
  };
  matchObject(t, await ask({ expect: "x" }), { status: "down", error: /^no message contains "x"; got "y{199}…"$/ });
});

t.test("servers that are no WebSocket", async (t) => {
  matchObject(t, await ask({ url: `${base}/refused` }), {
    status: "down",
    error: "the handshake was answered with status 401 instead of 101",
  });
  const raw = async (reply: string) => {
    const { port } = await tcpServer(t, (socket) => socket.once("data", () => socket.write(reply)));
    return await ask({ url: `ws://127.0.0.1:${port}/`, timeout: 400 });
  };
  matchObject(
    t,
    await raw("HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"),
    { status: "down", error: /status 302 instead of 101$/ },
    "redirects are not followed",
  );
  matchObject(
    t,
    await raw(
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
        "Sec-WebSocket-Accept: no\r\n\r\n",
    ),
    {
      status: "down",
      error: /^not a valid WebSocket: /,
    },
  );
  matchObject(t, await raw("SSH-2.0-x\r\n"), { status: "down", error: /./ });
  matchObject(t, await raw(""), { status: "down", error: "no WebSocket handshake within 0.4 s" });
});

t.test("rules", (t) => {
  const rules = (change: Partial<Spec>) => () =>
    checkKinds.websocket.rules(
      validate(checkKinds.websocket.schema, { type: "websocket", url: "wss://a.example/", ...change }),
    );
  t.doesNotThrow(rules({ url: "ws://a.example:8080/x?y=1" }));
  t.throws(rules({ url: "https://a.example/" }), { code: "INVALID_URL_SCHEME", field: "/url" });
  for (const url of [
    "wss://",
    "wss://u:p@a.example/",
    "wss://a.example:0/",
    "wss://a.example/#x",
    "wss:a.example",
    "wss://a b/",
  ])
    t.throws(rules({ url }), { code: "INVALID_URL_FORMAT", field: "/url" }, url);
  t.throws(rules({ headers: { "Sec-WebSocket-Key": "x" } }), { code: "INVALID_HTTP_HEADER" });
  t.throws(rules({ headers: { Authorization: "x" }, verify_tls: false }), {
    code: "INVALID_TLS_CRED_COMBO",
    field: "/verify_tls",
  });
  t.throws(rules({ expect: "" }), { code: "INVALID_EXPECTATION" });
  t.end();
});
