import { createServer, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { until } from "../../../testing/clock.ts";
import { addressList } from "@statusmesh/shared/net/address";
import { becomeStream, type ConnectionLimits, serveGuarded } from "./connections.ts";

const large = Buffer.alloc(8_000_000, "x");

/**
 * A server with these limits that answers `/large` with 8 MB, `/slow` after 300 ms, and everything else with its path.
 */
async function serve(t: Test, limits: Partial<ConnectionLimits>) {
  const server: Server = createServer();
  serveGuarded(
    server,
    {
      max: 1000,
      perAddress: 0,
      proxies: addressList([]),
      stallMs: 1000,
      minBytesPerSecond: 1000,
      classOf: ({ url }) => (url?.startsWith("/api") ? "api" : url?.startsWith("/agent") ? "agents" : "visitors"),
      ...limits,
    },
    () => (request, response) => {
      if (request.url === "/api/stream") {
        response.statusCode = becomeStream(request.socket) ? 200 : 503;
        if (response.statusCode === 200) response.write(": open\n\n");
        else response.setHeader("Connection", "close").end("no stream");
      } else if (request.url === "/agent/pull") response.write("held\n\n");
      else if (request.url === "/large") response.end(large);
      else if (request.url === "/slow") setTimeout(() => response.end("slow"), 300);
      else response.end(request.url);
    },
  );
  server.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const sockets: Socket[] = [];
  t.teardown(() => sockets.forEach((socket) => socket.destroy()));
  const open = async (localAddress = "127.0.0.1"): Promise<Socket> => {
    const socket = connect({ port, host: "127.0.0.1", localAddress });
    socket.on("error", () => {});
    sockets.push(socket);
    await new Promise((resolve) => socket.once("connect", resolve));
    return socket;
  };
  const connected = () => new Promise<number>((resolve) => server.getConnections((_error, count) => resolve(count)));
  return { open, connected };
}

const get = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`;

/** Received text, read until it holds `count` replies with a body or the connection ends. */
async function answerOf(socket: Socket, request: string, count = 1): Promise<string> {
  let text = "";
  socket.on("data", (chunk) => (text += chunk.toString()));
  socket.write(request);
  while (!socket.closed && (text.match(/\r\n\r\n(?=[^\r])/g)?.length ?? 0) < count) await sleep(10);
  return text;
}

const closed = async (socket: Socket): Promise<void> => {
  if (!socket.closed) await new Promise<void>((resolve) => socket.once("close", () => resolve()));
};

t.test("beyond the limit of connections only health checks are answered", async (t) => {
  const { open } = await serve(t, { max: 3 });
  const held = await Promise.all([open(), open(), open("127.0.0.2")]);
  for (const socket of held) t.match(await answerOf(socket, get("/hello")), /^HTTP\/1\.1 200 /);
  const late = await open("127.0.0.3");
  const refused = await answerOf(late, get("/hello"));
  t.match(refused, /^HTTP\/1\.1 503 [^]*Retry-After: [^]*\{"error":\{"code":"TOO_MANY_CONNECTIONS"/);
  await closed(late);
  t.match(await answerOf(await open(), get("/healthz")), /^HTTP\/1\.1 200 [^]*Connection: close/);
  held[0]!.destroy();
  await closed(held[0]!);
  await until(async () => (await answerOf(await open(), get("/hello"))).startsWith("HTTP/1.1 200 "), "the free place");
  t.pass("a closed connection frees its place");
});

t.test("a class of requests keeps its share whatever the others hold", async (t) => {
  // 16 connections: 2 for each class, 8 for whichever comes first.
  const { open } = await serve(t, { max: 16 });
  const firstLine = async (path: string, socket?: Socket): Promise<string> =>
    (await answerOf(socket ?? (await open()), get(path))).split("\r\n", 1)[0]!;
  const statuses = async (count: number, path: string): Promise<string[]> => {
    const lines: string[] = [];
    for (let at = 0; at < count; at++) lines.push(await firstLine(path));
    return lines.map((line) => line.slice(9, 12));
  };
  const times = (count: number, status: string): string[] => Array<string>(count).fill(status);
  t.strictSame(await statuses(4, "/api/stream"), [...times(2, "200"), ...times(2, "503")], "streams: their share only");
  t.strictSame(await statuses(12, "/agent/pull"), [...times(10, "200"), ...times(2, "503")], "agents: also the rest");
  const silent = await Promise.all(Array.from({ length: 5 }, async () => await open()));
  t.match(await firstLine("/api/x"), / 200 /, "the API has its share");
  const visitors = [await open(), await open(), await open()];
  t.match(await firstLine("/hello", visitors[0]), / 200 /);
  t.match(await firstLine("/hello", visitors[1]), / 200 /);
  t.match(await firstLine("/hello", visitors[2]), / 503 /, "visitors have theirs and no more");
  await closed(visitors[2]!);
  const pullAgain = await answerOf(visitors[0]!, get("/agent/pull"));
  t.match(pullAgain, / 503 /, "a connection counts by its current request");
  visitors[1]!.destroy();
  await closed(visitors[1]!);
  await until(async () => (await firstLine("/hello")).includes(" 200 "), "the free place of a visitor");
  silent.forEach((socket) => socket.destroy());
});

t.test("connections per address are limited, except for trusted proxies", async (t) => {
  const { open } = await serve(t, { perAddress: 2, proxies: addressList(["127.0.0.9"]) });
  await Promise.all([open(), open()]);
  t.match(await answerOf(await open(), get("/hello")), /^HTTP\/1\.1 503 /);
  t.match(await answerOf(await open(), get("/healthz")), /^HTTP\/1\.1 200 /);
  t.match(
    await answerOf(await open("127.0.0.2"), get("/hello")),
    /^HTTP\/1\.1 200 /,
    "other addresses have their own limit",
  );
  for (let i = 0; i < 5; i++)
    t.match(await answerOf(await open("127.0.0.9"), get("/hello")), /^HTTP\/1\.1 200 /, "a proxy");
});

t.test("connections beyond the limit evict the oldest of them", async (t) => {
  const { open } = await serve(t, { max: 1 });
  await open();
  const silent = await Promise.all(Array.from({ length: 128 }, async () => await open()));
  const health = await open();
  await closed(silent[0]!);
  t.match(await answerOf(health, get("/healthz")), /^HTTP\/1\.1 200 /);
  t.equal(silent[100]!.closed, false, "the oldest is evicted first");
});

t.test("a stalled reader is disconnected, a slow one is not", async (t) => {
  const { open, connected } = await serve(t, { stallMs: 2500 });
  const silent = await open();
  silent.pause();
  silent.write(get("/large").repeat(4));
  const slow = await open();
  let taken = 0;
  slow.on("data", (chunk) => {
    taken += chunk.length;
    slow.pause();
    setTimeout(() => slow.resume(), 2);
  });
  slow.write(get("/large"));
  const waiting = await open();
  for (let i = 0; i < 5; i++) t.match(await answerOf(waiting, get("/slow")), /slow$/, "one that only waits is neither");
  // A paused socket does not see its end.
  await until(async () => (await connected()) < 3, "the end of the stalled one");
  let left = 0;
  silent.on("data", (chunk) => (left += chunk.length));
  silent.resume();
  await closed(silent);
  t.ok(left < 4 * large.length, "it gets only what was in flight");
  while (!slow.closed && taken < large.length) await sleep(20);
  t.ok(taken >= large.length, "the slow reader gets the whole reply");
});

t.test("a connection has at most 32 unanswered requests", async (t) => {
  const { open } = await serve(t, {});
  const polite = await open();
  const answers = await answerOf(polite, get("/slow").repeat(32), 32);
  t.equal(answers.match(/HTTP\/1\.1 200 /g)?.length, 32);
  const flood = await open();
  flood.write(get("/slow").repeat(2000));
  await closed(flood);
  t.match(await answerOf(polite, get("/hello")), /\/hello$/, "others are served");
});

t.test("requests that the parser refuses get the error envelope", async (t) => {
  const { open } = await serve(t, {});
  const cases: [string, number, string][] = [
    [`GET / HTTP/1.1\r\nHost: x\r\nX-Long: ${"x".repeat(20_000)}\r\n\r\n`, 431, "HEADERS_TOO_LARGE"],
    ["FROB / HTTP/1.1\r\nHost: x\r\n\r\n", 400, "INVALID_REQUEST"],
    [
      "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      400,
      "INVALID_REQUEST",
    ],
    ["POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400, "INVALID_REQUEST"],
    ["CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n", 400, "INVALID_REQUEST"],
    ["nonsense\r\n\r\n", 400, "INVALID_REQUEST"],
  ];
  for (const [request, status, code] of cases) {
    const socket = await open();
    const [head = "", body = ""] = (await answerOf(socket, request)).split("\r\n\r\n");
    t.match(head, new RegExp(`^HTTP/1\\.1 ${status} `), code);
    t.match(head, /content-type: application\/json; charset=utf-8/i);
    const { error } = JSON.parse(body);
    matchObject(t, error, { code, message: /\.$/, field: null, details: null, trace_id: /^[0-9a-f]{32}$/ });
    t.match(head, new RegExp(`x-request-id: ${error.trace_id}`, "i"));
    await closed(socket);
  }
});
