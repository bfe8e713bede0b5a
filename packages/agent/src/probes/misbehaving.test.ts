import { spawn } from "node:child_process";
import { createServer as createHttp2Server } from "node:http2";
import { connect, type AddressInfo, type Server, type Socket } from "node:net";
import { createServer as createTlsServer, TLSSocket, type TlsOptions } from "node:tls";
import { gzipSync } from "node:zlib";
import { generate } from "selfsigned";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { HttpCheck } from "@statusmesh/shared/checks/http";
import { httpCheck, outcomeOf, tcpServer, testRunner } from "../testing.ts";

/*
 * Servers that do what no server should. Whatever it is, the check ends with its time, says what happened, and leaves
 * nothing behind.
 */

const runner = testRunner();
/** Of checks that run into it. */
const timeout = 700;
/** Of the other checks; and the delay of a loaded machine, in which a check without an end would not end either. */
const generous = 30_000;

type Serve = (socket: Socket) => void;
/** What the check says: its status and its error; null for a check that is up. */
type Said = ["up", null] | ["down" | "degraded", string | RegExp];

const openSockets = (): number =>
  process
    .getActiveResourcesInfo()
    .filter((name) => name === "TCPSocketWrap" || name === "TCPConnectWrap" || name === "TLSWrap").length;

async function listening(t: Test, server: Server): Promise<number> {
  await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
  t.teardown(() => server.close());
  return (server.address() as AddressInfo).port;
}

/** Runs the check against a server until both sides of every connection are gone. */
async function against(
  t: Test,
  serve: Serve,
  said: Said,
  what: string,
  { scheme = "http", ...change }: Partial<HttpCheck> & { scheme?: string } = {},
): Promise<void> {
  const gone: Promise<void>[] = [];
  const accepted: Socket[] = [];
  const { port, server } = await tcpServer(t, (socket) => {
    accepted.push(socket);
    gone.push(new Promise((settle) => socket.once("close", () => settle())));
    serve(socket);
  });
  const before = openSockets();
  const limit = change.timeout ?? (/timed out|within/.test(String(said[1])) ? timeout : generous);
  const { measurement, skip } = await outcomeOf(
    runner.run("org", { ...httpCheck(`${scheme}://127.0.0.1:${port}/`, { ...change, timeout: limit }) }),
  );
  matchObject(
    t,
    { status: measurement.status, error: measurement.error, skip },
    { status: said[0], error: said[1], skip: false },
    what,
  );
  t.ok((measurement.total_ms ?? 0) < limit + generous, `${what}: ends in time`);
  // A socket that is not read never learns that the other side has gone.
  for (const socket of accepted) socket.resume();
  await Promise.all(gone);
  await new Promise((settle) => server.close(settle));
  for (let turn = 0; turn < 2000 && openSockets() > before; turn++)
    await new Promise((settle) => setTimeout(settle, 5));
  t.ok(openSockets() <= before, `${what}: no socket is left`);
}

/**
 * Answers the first bytes that come. A half-open connection stays open on the server's side until the client is gone.
 */
const once =
  (...parts: (string | Buffer)[]): Serve =>
  (socket) =>
    socket.once("data", () => {
      for (const part of parts) socket.write(part);
    });
const thenEnd =
  (...parts: (string | Buffer)[]): Serve =>
  (socket) =>
    socket.once("data", () => socket.end(Buffer.concat(parts.map((part) => Buffer.from(part)))));
const drip =
  (head: string | Buffer, drop: string | Buffer, everyMs = 10): Serve =>
  (socket) => {
    socket.once("data", () => {
      socket.write(head);
      const timer = setInterval(() => socket.write(drop), everyMs);
      socket.on("close", () => clearInterval(timer));
    });
  };
const reset: Serve = (socket) => void socket.resetAndDestroy();
/** Says something, and resets once that has arrived: a reset may overtake what was sent before it. */
const thenReset =
  (text: string | Buffer): Serve =>
  (socket) => {
    socket.once("data", () => {
      socket.write(text);
      setTimeout(() => socket.resetAndDestroy(), 60);
    });
  };

const ok = "HTTP/1.1 200 OK\r\n";
const chunked = `${ok}Transfer-Encoding: chunked\r\n\r\n`;
const malformed = /^the answer is not valid HTTP: ./;
const overdueBody: Said = ["down", "response body timed out after 0.7 s"];
const noResponse: Said = ["down", "no response within 0.7 s"];

t.test("heads", async (t) => {
  const cases: [string, Serve, Said][] = [
    ["accepts and neither reads nor writes", (socket) => void socket.pause(), noResponse],
    ["reads and never writes", (socket) => void socket.resume(), noResponse],
    ["ends its side at once", (socket) => void socket.resume().end(), ["down", "connection closed without a response"]],
    ["is reset at once", reset, ["down", /^connection (reset|closed)/]],
    ["is reset after the request", thenReset(""), ["down", "connection reset before the response was complete"]],
    ["is reset in the head", thenReset(`${ok}X-A: `), ["down", "connection reset before the response was complete"]],
    [
      "ends in the head",
      thenEnd(`${ok}X-A: `),
      ["down", /^(the answer is not valid HTTP|connection closed without a response)/],
    ],
    ["a head that drips byte by byte", drip("H", "T"), ["down", malformed]],
    ["a header that drips", drip(`${ok}X-A: `, "a"), ["down", "response head timed out after 0.7 s"]],
    ["headers without end", drip(ok, "X-A: 1\r\n".repeat(1000)), ["down", "the response head is larger than 64 KiB"]],
    [
      "one header of a megabyte",
      once(ok, `X-A: ${"a".repeat(1 << 20)}\r\n\r\n`),
      ["down", "the response head is larger than 64 KiB"],
    ],
    [
      "a flood of 100s",
      once("HTTP/1.1 100 Continue\r\n\r\n".repeat(5000)),
      ["down", "more than 32 interim (1xx) responses"],
    ],
    [
      "100s that drip",
      drip("", "HTTP/1.1 100 Continue\r\n\r\n", 50),
      ["down", /^(response head timed out after 0\.7 s|more than 32 interim)/],
    ],
    ["HTTP/0.9", thenEnd("<html>hello</html>"), ["down", malformed]],
    ["an unknown version", thenEnd("HTTP/7.7 200 OK\r\n\r\n"), ["down", malformed]],
    ["a status of four digits", thenEnd("HTTP/1.1 2000 OK\r\n\r\n"), ["down", malformed]],
    ["a folded header (obs-fold)", thenEnd(`${ok}X-A: one\r\n two\r\nContent-Length: 0\r\n\r\n`), ["up", null]],
    ["NUL in a header", thenEnd(`${ok}X-A: a\0b\r\nContent-Length: 0\r\n\r\n`), ["down", malformed]],
    ["a header without a name", thenEnd(`${ok}: nothing\r\n\r\n`), ["up", null]],
    ["a blank before the colon", thenEnd(`${ok}Content-Length : 2\r\n\r\nok`), ["up", null]],
    ["a length below zero", thenEnd(`${ok}Content-Length: -1\r\n\r\n`), ["down", malformed]],
    ["a length beyond 64 bits", thenEnd(`${ok}Content-Length: 99999999999999999999999\r\n\r\n`), ["up", null]],
    ["two lengths", thenEnd(`${ok}Content-Length: 2\r\nContent-Length: 3\r\n\r\nok!`), ["up", null]],
    [
      "a length and chunks",
      thenEnd(`${ok}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n`),
      ["up", null],
    ],
    [
      "HTTP/2 only",
      thenEnd(Buffer.from("000000040000000000", "hex")),
      ["down", "the server speaks HTTP/2 only, and was asked in HTTP/1.1"],
    ],
    [
      "a switch of protocols that nobody asked for",
      once("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nxxxx"),
      ["down", "expected status 200-299, got 101"],
    ],
    [
      "a switch of protocols without saying to which",
      once("HTTP/1.1 101 Switching Protocols\r\n\r\n"),
      ["down", "expected status 200-299, got 101"],
    ],
  ];
  for (const [what, serve, said] of cases) await against(t, serve, said, what);
});

t.test("bodies", async (t) => {
  const found: Partial<HttpCheck> = { expected_body_contains: "needle" };
  const cases: [string, Serve, Said, Partial<HttpCheck>?][] = [
    ["never comes", once(`${ok}Content-Length: 5\r\n\r\n`), overdueBody],
    ["drips", drip(`${ok}Content-Length: 100000\r\n\r\n`, "."), overdueBody],
    ["drips in chunks", drip(chunked, "1\r\n.\r\n"), ["up", null], { timeout }],
    [
      "a length that never gets there, of petabytes",
      once(`${ok}Content-Length: 9007199254740991\r\n\r\nhello`),
      overdueBody,
    ],
    ["longer than its length", thenEnd(`${ok}Content-Length: 6\r\n\r\nneedle and more`), ["up", null], found],
    [
      "shorter than its length",
      thenEnd(`${ok}Content-Length: 60\r\n\r\nneedle`),
      ["down", "connection closed in the middle of the body"],
      found,
    ],
    [
      "is reset",
      thenReset(`${ok}Content-Length: 60\r\n\r\nneedle`),
      ["down", /^connection (reset before the response was complete|closed in the middle of the body)$/],
      found,
    ],
    [
      "is reset after a wrong status",
      thenReset("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 60\r\n\r\noops"),
      ["down", "expected status 200-299, got 502"],
    ],
    [
      "ends in a chunk",
      thenEnd(`${chunked}ff\r\nneedle`),
      ["down", "connection closed in the middle of the body"],
      found,
    ],
    ["a chunk that is not one", thenEnd(`${chunked}zz\r\n`), ["down", malformed]],
    ["a chunk larger than can be", thenEnd(`${chunked}fffffffffffffffff\r\n`), ["down", malformed]],
    [
      "a chunk extension of a megabyte",
      once(chunked, `1;${"a".repeat(1 << 20)}\r\n.\r\n`),
      ["down", "the response body has chunk extensions larger than 16 KiB"],
    ],
    ["a chunk extension that drips", drip(`${chunked}1;`, "a"), overdueBody],
    [
      "trailers of a megabyte",
      once(chunked, "1\r\n.\r\n0\r\n", "X-T: 1\r\n".repeat(1 << 17)),
      ["down", "the response trailers are larger than 64 KiB"],
    ],
    ["trailers that drip", drip(`${chunked}1\r\n.\r\n0\r\n`, "X-T: 1\r\n"), overdueBody],
    ["a 204 with a body", thenEnd("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello"), ["up", null]],
    [
      "a 304 with a body",
      thenEnd("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nhello"),
      ["down", "expected status 200-299, got 304"],
    ],
    [
      "a second answer nobody asked for",
      thenEnd(`${ok}Content-Length: 2\r\n\r\nokHTTP/1.1 500 Oops\r\n\r\n`),
      ["up", null],
    ],
    [
      "gzip that was not asked for",
      thenEnd(`${ok}Content-Encoding: gzip\r\n\r\n`, gzipSync(Buffer.alloc(1 << 20))),
      ["down", 'the body does not contain "needle"'],
      found,
    ],
    [
      "a redirect to itself",
      thenEnd("HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"),
      ["down", /^redirects in a circle: http:\/\/127\.0\.0\.1:\d+\/$/],
      { max_redirects: 20 },
    ],
    [
      "a redirect to an address of a megabyte",
      once("HTTP/1.1 302 Found\r\n", `Location: /${"a".repeat(1 << 20)}\r\n\r\n`),
      ["down", "the response head is larger than 64 KiB"],
    ],
  ];
  for (const [what, serve, said, change] of cases) await against(t, serve, said, what, change);
});

t.test("a server that does not read the request", async (t) => {
  // More than the buffers of both sides hold, so that the rest waits here for a server that does not read.
  const body = "x".repeat(8 << 20);
  await against(
    t,
    (socket) => void socket.pause(),
    ["down", "sending the request timed out after 0.7 s"],
    "stops reading",
    { method: "POST", body },
  );
  await against(t, thenReset(""), ["down", /^connection (reset|closed)/], "is reset in the request", {
    method: "POST",
    body,
  });
  const early: Serve = (socket) =>
    socket.once("data", () => socket.pause().write("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"));
  await against(t, early, ["down", "expected status 200-299, got 413"], "answers before it has read all", {
    method: "POST",
    body,
  });
});

t.test("TLS", async (t) => {
  const { private: key, cert } = await generate([{ name: "commonName", value: "localhost" }], {
    algorithm: "sha256",
    keyType: "ec",
  });
  const scheme = "https";
  const alert = (code: string): Serve => thenEnd(Buffer.from(`150303000202${code}`, "hex"));
  const closed = "connection closed by peer during the TLS handshake";
  // A handshake message of 64 KiB in records of one byte each.
  const records = Buffer.from("160303000100", "hex");
  const cases: [string, Serve, Said][] = [
    ["says nothing", (socket) => void socket.resume(), ["down", "TLS handshake timed out after 0.7 s"]],
    [
      "drips its hello",
      drip(Buffer.from("16030300010216030300010016030300010116030300010000", "hex").subarray(0, 18), records, 10),
      ["down", /^TLS handshake (timed out after 0\.7 s|failed: .)/],
    ],
    ["is reset in the handshake", thenReset(""), ["down", closed]],
    ["ends in the handshake", thenEnd(""), ["down", closed]],
    [
      "alert: handshake failure",
      alert("28"),
      ["down", 'TLS handshake failed: the server sent the alert "handshake failure"'],
    ],
    [
      "alert: internal error",
      alert("50"),
      ["down", 'TLS handshake failed: the server sent the alert "internal error"'],
    ],
    [
      "alert: unrecognized name",
      alert("70"),
      ["down", 'TLS handshake failed: the server sent the alert "unrecognized name"'],
    ],
    [
      "alert: no application protocol",
      alert("78"),
      ["down", "the server does not offer HTTP/1.1 over TLS, only another protocol such as HTTP/2"],
    ],
    ["alert: protocol version", alert("46"), ["down", "the server offers no secure TLS version (1.2 or later)"]],
    [
      "a warning before silence",
      once(Buffer.from("15030300020170", "hex")),
      ["down", /^TLS handshake (timed out|failed)/],
    ],
    ["plain HTTP", thenEnd("HTTP/1.1 400 Bad Request\r\n\r\n"), ["down", "the server does not speak TLS on this port"]],
  ];
  for (const [what, serve, said] of cases) await against(t, serve, said, what, { scheme });

  const over =
    (options: TlsOptions, after: (socket: TLSSocket) => void): Serve =>
    (socket) => {
      const secured = new TLSSocket(socket, { isServer: true, key, cert, ...options } as ConstructorParameters<
        typeof TLSSocket
      >[1] &
        object);
      secured.on("error", () => undefined).once("secure", () => after(secured));
      secured.resume();
    };
  const any = { scheme, verify_tls: false };
  await against(
    t,
    over({}, () => undefined),
    noResponse,
    "silent after the handshake",
    any,
  );
  await against(
    t,
    over({ maxVersion: "TLSv1.2" }, () => undefined),
    noResponse,
    "silent after a handshake of TLS 1.2",
    any,
  );
  await against(
    t,
    over({}, (socket) => socket.write(`${ok}X-A`)),
    ["down", "response head timed out after 0.7 s"],
    "stops in the head",
    any,
  );
  await against(
    t,
    over({}, () => undefined),
    ["down", "certificate is self-signed"],
    "not trusted",
    { scheme },
  );
  await against(
    t,
    over({ minVersion: "TLSv1.3" }, (socket) => socket.once("data", () => socket.destroy())),
    ["down", /^connection (closed|reset)/],
    "hangs up after the request",
    any,
  );
  const renegotiating = over({ maxVersion: "TLSv1.2" }, (socket) => {
    const again = (): void => void (socket.destroyed || socket.renegotiate({}, () => setImmediate(again)));
    again();
  });
  await against(t, renegotiating, ["down", /./], "renegotiates for ever", { ...any, timeout });

  const h2 = createTlsServer({ key, cert, ALPNProtocols: ["h2"] });
  h2.on("tlsClientError", () => undefined);
  const h2port = await listening(t, h2);
  const run = async (url: string) =>
    (await outcomeOf(runner.run("org", { ...httpCheck(url, { timeout: generous, verify_tls: false }) }))).measurement;
  matchObject(t, await run(`https://127.0.0.1:${h2port}/`), {
    status: "down",
    error: "the server does not offer HTTP/1.1 over TLS, only another protocol such as HTTP/2",
  });
  const h2c = createHttp2Server();
  h2c.on("sessionError", () => undefined);
  matchObject(t, await run(`http://127.0.0.1:${await listening(t, h2c as unknown as Server)}/`), {
    status: "down",
    error: "the server speaks HTTP/2 only, and was asked in HTTP/1.1",
  });
});

t.test("a host that drops SYN packets", async (t) => {
  const host = "127.0.0.4";
  const script =
    "const " +
    `s=require("net").createServer();s.listen({port:0,host:"${host}",backlog:1},()=>console.log(s.address().port))`;
  const listener = spawn(process.execPath, ["-e", script], { stdio: ["ignore", "pipe", "inherit"] });
  t.teardown(() => listener.kill("SIGKILL"));
  const port = await new Promise<number>((settle) =>
    listener.stdout.once("data", (line: Buffer) => settle(Number(line.toString()))),
  );
  listener.kill("SIGSTOP");
  for (let filled = false, sockets = 0; !filled && sockets < 8; sockets++) {
    const socket = connect({ host, port });
    socket.on("error", () => undefined);
    t.teardown(() => socket.destroy());
    filled = await new Promise((settle) => {
      socket.once("connect", () => settle(false));
      // On a loaded machine the timer may come before a connection that is there already.
      setTimeout(() => setTimeout(() => settle(true), 50), 250);
    });
  }
  const before = openSockets();
  const checks = [
    [{ ...httpCheck(`http://${host}:${port}/`, { timeout }) }, "down"],
    [{ type: "tcp", host, port, timeout }, "down"],
    [{ type: "tls_cert", host, port, server_name: null, warn_days: 14, critical_days: 7, timeout }, "error"],
  ] as const;
  for (const [check, status] of checks) {
    const { measurement } = await outcomeOf(runner.run("org", check));
    matchObject(t, measurement, { status, error: "connection timed out after 0.7 s", connect_ms: null }, check.type);
    t.ok((measurement.total_ms ?? 0) < timeout + generous);
  }
  for (let turn = 0; turn < 2000 && openSockets() > before; turn++)
    await new Promise((settle) => setTimeout(settle, 5));
  t.ok(openSockets() <= before, "no socket is left");
});

t.test("timers", (t) => {
  t.ok(process.getActiveResourcesInfo().filter((name) => name === "Timeout").length <= 1, "none is left but tap's own");
  t.end();
});
