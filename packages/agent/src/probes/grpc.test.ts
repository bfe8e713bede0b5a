import { createSecureServer, createServer, type Http2Server, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { generate } from "selfsigned";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { checkKinds, type SpecOf } from "@statusmesh/shared/checks";
import { validate } from "@statusmesh/shared/schema/validate";
import { outcomeOf, tcpServer, testRunner } from "../testing.ts";

/* grpc.health.v1, against a server of node:http2 and against servers that are none. */

type Spec = SpecOf<"grpc">;
const runner = testRunner();
/** Of checks that run into it. */
const timeout = 500;

async function ask(port: number, change: Partial<Spec> = {}) {
  const spec = validate(checkKinds.grpc.schema, {
    type: "grpc",
    host: "127.0.0.1",
    port,
    tls: false,
    timeout: 20_000,
    ...change,
  });
  const { measurement, skip } = await outcomeOf(runner.run("org", { ...spec }));
  const { status, error, http_status } = measurement;
  return { status, error, http_status, skip };
}

/** A message as gRPC sends it: no compression, length, bytes. */
const framed = (hex: string): Buffer => {
  const message = Buffer.from(hex, "hex");
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
};
const grpcType = { ":status": 200, "content-type": "application/grpc" };

interface Asked {
  path: string;
  authority: string;
  te: string;
  body: Buffer;
}

async function listening(t: Test, server: Http2Server): Promise<number> {
  server.on("sessionError", () => undefined).on("error", () => undefined);
  server.on("session", (session) => {
    session.on("error", () => undefined);
    t.teardown(() => session.destroy());
  });
  await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
  t.teardown(() => server.close());
  return (server.address() as AddressInfo).port;
}

/** A server that answers each call with `answer`, and keeps what it was asked. */
async function answering(
  t: Test,
  answer: (stream: ServerHttp2Stream) => void,
  server: Http2Server = createServer(),
): Promise<{ port: number; asked: Asked[] }> {
  const asked: Asked[] = [];
  server.on("stream", (stream, headers) => {
    const chunks: Buffer[] = [];
    stream.on("error", () => undefined).on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("end", () => {
      asked.push({
        path: headers[":path"] ?? "",
        authority: headers[":authority"] ?? "",
        te: String(headers["te"]),
        body: Buffer.concat(chunks),
      });
      answer(stream);
    });
  });
  return { port: await listening(t, server), asked };
}

/** Headers, the message and trailers. */
const saying =
  (message: string, trailers: Record<string, string> = { "grpc-status": "0" }) =>
  (stream: ServerHttp2Stream): void => {
    stream.respond(grpcType, { waitForTrailers: true });
    stream.on("wantTrailers", () => stream.sendTrailers(trailers));
    stream.end(framed(message));
  };
/** A call that fails at once: headers only. */
const failing =
  (code: number, message = "") =>
  (stream: ServerHttp2Stream): void =>
    stream.respond({ ...grpcType, "grpc-status": code, "grpc-message": message }, { endStream: true });

t.test("metadata is sent in lower case, and not quoted", async (t) => {
  const heard: Record<string, unknown>[] = [];
  const server = createServer();
  server.on("stream", (_stream, headers) => heard.push(headers));
  const { port } = await answering(t, failing(7, "no such key: hush-hush-hush"), server);
  const metadata = { "X-Api-Key": "hush-hush-hush", "trace-bin": "AAEC" };
  matchObject(t, await ask(port, { metadata }), { error: 'the call failed: PERMISSION_DENIED, "no such key: ***"' });
  matchObject(t, heard, [{ "x-api-key": "hush-hush-hush", "trace-bin": "AAEC", te: "trailers" }]);
  const rules = (change: Partial<Spec>) => () =>
    checkKinds.grpc.rules(validate(checkKinds.grpc.schema, { type: "grpc", host: "a.example", port: 1, ...change }));
  t.throws(rules({ metadata: { "grpc-timeout": "1S" } }), { code: "INVALID_HTTP_HEADER", field: "/metadata" });
  t.throws(rules({ metadata: { "a b": "" } }), { code: "INVALID_HTTP_HEADER", field: "/metadata/a b" });
  t.throws(rules({ metadata, verify_tls: false }), { code: "INVALID_TLS_CRED_COMBO", message: /--ca-file/ });
  t.doesNotThrow(rules({ metadata }));
});

t.test("the states of a server, and what it is asked", async (t) => {
  const { port, asked } = await answering(t, saying("0801"));
  t.strictSame(await ask(port), { status: "up", error: null, http_status: 200, skip: false });
  await ask(port, { service: "shop.v1.Orders", server_name: "orders.example.org" });
  const long = "s".repeat(300);
  await ask(port, { service: long });
  matchObject(t, asked, [
    { path: "/grpc.health.v1.Health/Check", authority: `127.0.0.1:${port}`, te: "trailers", body: framed("") },
    {
      authority: `orders.example.org:${port}`,
      body: framed(`0a0e${Buffer.from("shop.v1.Orders").toString("hex")}`),
    },
    { body: framed(`0aac02${Buffer.from(long).toString("hex")}`) },
  ]);
  const cases: [(stream: ServerHttp2Stream) => void, Spec["service"], string, string][] = [
    [saying("0802"), "", "down", "the server is NOT_SERVING"],
    [saying("0802"), "a.B", "down", "a.B is NOT_SERVING"],
    [saying(""), "", "down", "the server is UNKNOWN"],
    [saying("0803"), "a.B", "down", "a.B is SERVICE_UNKNOWN"],
    [saying("0863"), "", "down", "the server is state 99"],
    [failing(12), "", "error", "the server has no grpc.health.v1.Health service (UNIMPLEMENTED)"],
    [
      saying("", { "grpc-status": "12" }),
      "",
      "error",
      "the server has no grpc.health.v1.Health service (UNIMPLEMENTED)",
    ],
    [failing(5), "a.B", "down", 'the server does not know the service "a.B" (NOT_FOUND)'],
    [failing(14, "being%20drained%0A"), "", "down", 'the call failed: UNAVAILABLE, "being drained\\n"'],
    [failing(14, "100%"), "", "down", 'the call failed: UNAVAILABLE, "100%"'],
    [failing(16), "", "down", "the call failed: UNAUTHENTICATED"],
    [failing(77), "", "down", "the call failed: code 77"],
  ];
  for (const [answer, service, status, error] of cases) {
    const { port } = await answering(t, answer);
    matchObject(t, await ask(port, { service }), { status, error }, error);
  }
  const { port: newer } = await answering(t, saying("100112016108011d00000000"));
  matchObject(t, await ask(newer), { status: "up" }, "fields of later versions are skipped");
});

t.test("a slow answer is degraded, and a draining server still answers", async (t) => {
  const { port } = await answering(t, (stream) => void setTimeout(() => saying("0801")(stream), 60));
  matchObject(t, await ask(port, { degraded_above_ms: 50 }), {
    status: "degraded",
    error: /^slow: \d+ ms, limit 50 ms$/,
  });
  const draining = await answering(t, (stream) => {
    stream.session?.goaway(0);
    setTimeout(() => saying("0801")(stream), 20);
  });
  matchObject(t, await ask(draining.port), { status: "up" });
});

t.test("TLS with ALPN", async (t) => {
  const { private: key, cert } = await generate([{ name: "commonName", value: "localhost" }], {
    algorithm: "sha256",
    keyType: "ec",
  });
  const { port } = await answering(t, saying("0801"), createSecureServer({ key, cert }));
  matchObject(t, await ask(port, { tls: true, verify_tls: false }), { status: "up" });
  matchObject(t, await ask(port, { tls: true }), { status: "down", error: "certificate is self-signed" });
  const demanding = createSecureServer({ key, cert, requestCert: true }).on("tlsClientError", () => undefined);
  const mutual = await answering(t, saying("0801"), demanding);
  matchObject(t, await ask(mutual.port, { tls: true, verify_tls: false }), {
    status: "down",
    error: 'the server sent the TLS alert "certificate required"',
  });
  const plain = await answering(t, saying("0801"));
  matchObject(t, await ask(plain.port, { tls: true, verify_tls: false }), {
    status: "down",
    error: "the server does not speak TLS on this port",
  });
  const other = async (ALPNProtocols: string[] | undefined) => {
    const server = createTlsServer({ key, cert, ...(ALPNProtocols === undefined ? {} : { ALPNProtocols }) });
    server
      .on("tlsClientError", () => undefined)
      .on("secureConnection", (socket) => socket.on("error", () => undefined));
    await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
    t.teardown(() => server.close());
    return await ask((server.address() as AddressInfo).port, { tls: true, verify_tls: false });
  };
  matchObject(t, await other(["http/1.1"]), {
    status: "down",
    error: /^the server does not offer HTTP\/2 over TLS, only another/,
  });
  matchObject(t, await other(undefined), { error: "the server does not offer HTTP/2 over TLS, which gRPC needs" });
});

t.test("answers that are no gRPC", async (t) => {
  const cases: [string, (stream: ServerHttp2Stream) => void, string | RegExp][] = [
    [
      "a page",
      (stream) => (stream.respond({ ":status": 200, "content-type": "text/html" }), stream.end("x")),
      /"text\/html"$/,
    ],
    ["another status", (stream) => stream.respond({ ":status": 503 }, { endStream: true }), /HTTP status 503$/],
    ["no status", (stream) => (stream.respond(grpcType), stream.end(framed("0801"))), "the answer has no gRPC status"],
    ["a status that is no number", saying("0801", { "grpc-status": "fine" }), "the answer has no gRPC status"],
    ["bytes that are no message", saying("08"), "the answer is no health response"],
    ["a length beyond the message", saying("1aff01"), "the answer is no health response"],
    ["an endless number", saying("08ffffffffffffff01"), "the answer is no health response"],
    ["reset", (stream) => stream.close(7), "the server reset the call (REFUSED_STREAM)"],
    ["GOAWAY", (stream) => stream.session?.goaway(11), /GOAWAY, ENHANCE_YOUR_CALM/],
    [
      "a message of megabytes",
      (stream) => (stream.respond(grpcType), stream.write(Buffer.alloc(4 << 20))),
      "the answer is larger than 4 KiB",
    ],
    [
      "a flood of interim answers",
      (stream) => {
        for (let n = 0; n < 500; n++) stream.additionalHeaders({ ":status": 103 });
      },
      "the server floods the connection with control frames",
    ],
    [
      "headers without end",
      (stream) =>
        stream.respond(Object.fromEntries(Array.from({ length: 400 }, (_, n) => [`x-${n}`, "y".repeat(900)]))),
      /./,
    ],
  ];
  for (const [what, answer, error] of cases) {
    const { port } = await answering(t, answer);
    matchObject(t, await ask(port), { status: "down", error, skip: false }, what);
  }
  const { port: silent } = await answering(t, () => undefined);
  matchObject(t, await ask(silent, { timeout }), { status: "down", error: "no gRPC answer within 0.5 s" });
  const { port: dripping } = await answering(t, (stream) => void (stream.respond(grpcType), stream.write("\0")));
  matchObject(t, await ask(dripping, { timeout }), { error: "the gRPC answer was not complete within 0.5 s" });
});

t.test("bytes that are no HTTP/2, and sockets that hang or break", async (t) => {
  const settings = Buffer.from("000000040000000000", "hex");
  const ping = Buffer.from("0000080600000000000000000000000000", "hex");
  const cases: [string, (socket: Socket) => void, string | RegExp][] = [
    [
      "an HTTP/1 server",
      (socket) => void socket.write("HTTP/1.1 400 Bad Request\r\n\r\n"),
      /^the answer is not valid HTTP\/2/,
    ],
    ["a banner", (socket) => void socket.write("SSH-2.0-OpenSSH_9.2\r\n"), /^the answer is not valid HTTP\/2/],
    [
      "a frame of 16 MB",
      (socket) =>
        void socket.write(Buffer.concat([settings, Buffer.from("ffffff000000000001", "hex"), Buffer.alloc(1 << 20)])),
      "no gRPC answer within 0.5 s",
    ],
    [
      "a flood of PING",
      (socket) => void socket.write(Buffer.concat([settings, ...Array.from({ length: 20_000 }, () => ping)])),
      "the server floods the connection with control frames",
    ],
    [
      "a flood of SETTINGS",
      (socket) => void socket.write(Buffer.concat(Array.from({ length: 20_000 }, () => settings))),
      "the server floods the connection with control frames",
    ],
    [
      "a window of zero forever",
      (socket) => void socket.write(Buffer.concat([Buffer.from("000006040000000000000400000000", "hex")])),
      "no gRPC answer within 0.5 s",
    ],
    ["silence", (socket) => void socket.resume(), "no gRPC answer within 0.5 s"],
    ["ends", (socket) => void socket.resume().end(settings), "connection closed without an answer"],
    ["is reset", (socket) => void socket.once("data", () => socket.resetAndDestroy()), /^connection (reset|closed)/],
  ];
  for (const [what, serve, error] of cases) {
    const { port } = await tcpServer(t, serve);
    const limit = /within/.test(String(error)) ? { timeout } : {};
    matchObject(t, await ask(port, limit), { status: "down", error, skip: false }, what);
  }
});

t.test("rules", (t) => {
  const rules = (change: object) => () =>
    checkKinds.grpc.rules(
      validate(checkKinds.grpc.schema, { type: "grpc", host: "a.example", port: 443, ...change }) as Spec,
    );
  t.doesNotThrow(rules({ service: "a.B", tls: false, degraded_above_ms: 10_000 }));
  t.throws(rules({ host: "https://a.example" }), { code: "INVALID_TCP_HOST", field: "/host" });
  t.throws(rules({ port: 0 }), { code: "INVALID_TCP_PORT" });
  t.throws(rules({ server_name: "10.0.0.1" }), { code: "INVALID_TLS_CERT_PARAMS", field: "/server_name" });
  t.throws(rules({ degraded_above_ms: 10_001 }), { code: "INVALID_THRESHOLD", field: "/degraded_above_ms" });
  t.end();
});
