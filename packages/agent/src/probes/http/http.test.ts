import { X509Certificate } from "node:crypto";
import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { gzipSync } from "node:zlib";
import { generate } from "selfsigned";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { HttpCheck } from "@statusmesh/shared/checks/http";
import { httpCheck, outcomeOf, tcpServer, testRunner } from "../../testing.ts";

const runner = testRunner();

async function run(url: string, change: Partial<HttpCheck> = {}, with_ = runner) {
  const { measurement, skip, warnings, certificateNotAfter, snapshot } = await outcomeOf(
    with_.run("org", { ...httpCheck(url, change) }, true),
  );
  return { ...measurement, skip, warnings, certificateNotAfter, snapshot: snapshot?.() ?? null };
}

async function serve(t: Test, listener: RequestListener, host = "127.0.0.1"): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((settle, reject) => server.once("error", reject).listen(0, host, settle));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://${host.includes(":") ? `[${host}]` : host}:${(server.address() as AddressInfo).port}`;
}

/** A server that speaks no better HTTP than the test does. */
async function speak(t: Test, onRequest: (socket: Socket) => void): Promise<string> {
  const { port } = await tcpServer(t, (socket) => socket.once("data", () => onRequest(socket)));
  return `http://127.0.0.1:${port}/`;
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

t.test("a passing check with all measurements", async (t) => {
  const seen: { request: IncomingMessage; raw: string[] }[] = [];
  const url = await serve(t, (request, response) => {
    seen.push({ request, raw: request.rawHeaders });
    response.end("hello world");
  });
  const result = await run(`${url}/health?a=b#part`, { headers: { "X-Probe": "yes", accept: "text/html" } });
  matchObject(t, result, {
    status: "up",
    error: null,
    http_status: 200,
    response_size: 11,
    dns_ms: null,
    tls_ms: null,
    skip: false,
  });
  t.strictSame(result.warnings, []);
  for (const phase of ["connect_ms", "ttfb_ms", "total_ms"] as const) t.ok((result[phase] ?? 0) > 0, phase);
  t.ok(
    (result.total_ms ?? 0) >= (result.connect_ms ?? 0) + (result.ttfb_ms ?? 0) - 0.01,
    "the phases are parts of the whole",
  );
  t.match(String(result.total_ms), /^\d+(\.\d{1,3})?$/, "no more digits than mean anything");
  const { request } = seen[0] as (typeof seen)[0];
  t.equal(request.url, "/health?a=b");
  matchObject(t, request.headers, {
    host: url.slice(7),
    "user-agent": "StatusMesh/1.2.3",
    "accept-encoding": "identity",
    connection: "close",
    "x-probe": "yes",
    accept: "text/html",
  });
  t.notOk("authorization" in request.headers);
});

t.test("method, body, credentials and own headers are sent", async (t) => {
  const seen: Record<string, unknown>[] = [];
  const url = await serve(t, (request, response) => {
    void bodyOf(request).then((body) => {
      seen.push({ method: request.method, body, ...request.headers });
      response.end();
    });
  });
  await run(url, {
    method: "POST",
    body: "grüße",
    headers: { "content-type": "application/json", "USER-AGENT": "own/1" },
  });
  await run(url, { method: "PUT", basic_auth: ["alice", "pä:ss"] });
  await run(url, { method: "HEAD", bearer_token: "t0ken", headers: { Host: "virtual.example.org" } });
  matchObject(t, seen[0], {
    method: "POST",
    body: "grüße",
    "content-length": "7",
    "content-type": "application/json",
    "user-agent": "own/1",
  });
  matchObject(t, seen[1], {
    method: "PUT",
    body: "",
    "content-length": "0",
    authorization: `Basic ${Buffer.from("alice:pä:ss").toString("base64")}`,
  });
  matchObject(t, seen[2], { method: "HEAD", authorization: "Bearer t0ken", host: "virtual.example.org" });
});

t.test("expected_status", async (t) => {
  const url = await serve(t, (request, response) => response.writeHead(Number(request.url?.slice(1))).end());
  const exact = (value: number): Partial<HttpCheck> => ({ expected_status: { kind: "exact", value } });
  const one = (...value: number[]): Partial<HttpCheck> => ({ expected_status: { kind: "one_of", value } });
  const range = (min: number, max: number): Partial<HttpCheck> => ({
    expected_status: { kind: "range", value: { min, max } },
  });
  const cases: [number, Partial<HttpCheck>, string, string | null][] = [
    [204, {}, "up", null],
    [502, {}, "down", "expected status 200-299, got 502"],
    [404, exact(404), "up", null],
    [502, exact(200), "down", "expected status 200, got 502"],
    [201, one(200, 204, 301), "down", "expected status 200, 204 or 301, got 201"],
    [204, one(200, 204), "up", null],
    [599, range(500, 599), "up", null],
    [302, range(300, 399), "up", null],
    [429, {}, "degraded", "rate-limited 429"],
    [503, one(200, 503), "up", null],
    [429, exact(200), "degraded", "rate-limited 429"],
  ];
  for (const [status, change, verdict, error] of cases) {
    const result = await run(`${url}/${status}`, change);
    matchObject(
      t,
      result,
      { status: verdict, error, http_status: status, skip: false },
      `${status} ${JSON.stringify(change)}`,
    );
  }
});

t.test("429 and 503 report Retry-After", async (t) => {
  const url = await serve(t, (request, response) =>
    response
      .writeHead(request.url === "/date" ? 503 : 429, {
        "retry-after": request.url === "/date" ? "Wed, 21 Oct 2026 07:28:00 GMT" : "7",
      })
      .end("busy"),
  );
  t.equal((await run(`${url}/`)).error, "rate-limited 429 (Retry-After: 7)");
  t.equal((await run(`${url}/date`)).error, "rate-limited 503 (Retry-After: Wed, 21 Oct 2026 07:28:00 GMT)");
});

t.test("expected_body_contains", async (t) => {
  const bodies: Record<string, (Buffer | string)[]> = {
    "/split": ["all sys", "tems go"],
    "/bytes": ["gr", Buffer.from([0xc3]), Buffer.from([0xbc]), Buffer.from("ße")],
    "/late": ["x".repeat(1024 * 1024 - 3), "systems"],
    "/last": ["x".repeat(1024 * 1024 - 7), "systems", "more"],
    "/gzip": [gzipSync("all systems go")],
  };
  const url = await serve(t, (request, response) => {
    if (request.url === "/gzip") response.setHeader("content-encoding", "gzip");
    const chunks = [...(bodies[request.url ?? ""] ?? [])];
    const next = (): void => {
      const chunk = chunks.shift();
      if (chunk === undefined) return void response.end();
      response.write(chunk, () => setTimeout(next, 5));
    };
    next();
  });
  const contains = (text: string): Partial<HttpCheck> => ({ expected_body_contains: text });
  matchObject(
    t,
    await run(`${url}/split`, contains("systems")),
    { status: "up", response_size: 14 },
    "across two chunks",
  );
  matchObject(t, await run(`${url}/bytes`, contains("üß")), { status: "up" }, "across the bytes of one character");
  matchObject(t, await run(`${url}/split`, contains("s")), { status: "up" }, "a single byte");
  matchObject(t, await run(`${url}/split`, contains("System")), {
    status: "down",
    error: 'the body does not contain "System"',
  });
  matchObject(
    t,
    await run(`${url}/last`, contains("systems")),
    { status: "up", response_size: 1024 * 1024 },
    "the end of the first MiB still counts",
  );
  matchObject(t, await run(`${url}/late`, contains("systems")), {
    status: "down",
    error: 'the first MiB of the body does not contain "systems"',
    warnings: ["The response is larger than 1 MiB; the rest of it was not read."],
  });
  matchObject(t, await run(`${url}/gzip`, contains("systems")), {
    status: "up",
    error: null,
  });
});

t.test("redirects", async (t) => {
  const seen: {
    url: string | undefined;
    method: string | undefined;
    body: string;
    headers: IncomingMessage["headers"];
  }[] = [];
  const record: RequestListener = (request, response) => {
    void bodyOf(request).then((body) => {
      seen.push({ url: request.url, method: request.method, body, headers: request.headers });
      const [, status, ...rest] = (request.url ?? "").split("/");
      if (status !== undefined && /^30\d$/.test(status))
        response.writeHead(Number(status), { location: decodeURIComponent(rest.join("/")) }).end();
      else response.end("final");
    });
  };
  const home = await serve(t, record);
  const away = await serve(t, record, "127.0.0.2");
  const secrets: Partial<HttpCheck> = { bearer_token: "t0ken", headers: { "X-Api-Key": "k3y", Cookie: "a=b" } };
  const to = (status: number, target: string): string => `${home}/${status}/${encodeURIComponent(target)}`;
  const last = () => seen.at(-1) as (typeof seen)[0];

  matchObject(t, await run(to(302, "/final"), secrets), { status: "up", http_status: 200, response_size: 5 });
  matchObject(
    t,
    last().headers,
    { authorization: "Bearer t0ken", "x-api-key": "k3y", cookie: "a=b" },
    "the same origin gets what the check sends",
  );

  matchObject(t, await run(to(302, `${away}/final`), secrets), {
    status: "up",
    warnings: [`Redirected from ${home} to ${away}.`],
  });
  for (const name of ["authorization", "x-api-key", "cookie"])
    t.notOk(name in last().headers, `another origin does not get ${name}`);
  t.equal(last().headers.host, away.slice(7));

  await run(to(307, `${away}/302/${encodeURIComponent(`${home}/final`)}`), secrets);
  t.equal(last().url, "/final");
  t.notOk("authorization" in last().headers, "and nothing comes back when the way leads home again");

  await run(to(307, "/final"), { ...secrets, method: "POST", body: "data" });
  matchObject(t, last(), { method: "POST", body: "data" }, "307 keeps method and body");
  await run(to(308, `${away}/final`), { method: "POST", body: "data" });
  matchObject(t, last(), { method: "POST", body: "" }, "but the body stays with its origin");
  await run(to(302, "/final"), { method: "POST", body: "data", headers: { "content-type": "text/x" } });
  matchObject(t, last(), { method: "GET", body: "" }, "302 turns POST into GET");
  t.notOk("content-type" in last().headers, "whose headers about a body go with it");
  await run(to(303, "/final"), { method: "DELETE" });
  t.equal(last().method, "GET");

  matchObject(t, await run(to(302, "http://user:pass@" + away.slice(7) + "/final")), { status: "up" });
  t.notOk("authorization" in last().headers, "credentials in a Location are not used");

  matchObject(t, await run(to(302, "/final"), { follow_redirects: false }), {
    status: "down",
    error: "expected status 200-299, got 302",
  });
  matchObject(
    t,
    await run(`${home}/304`),
    { status: "down", error: "expected status 200-299, got 304" },
    "a 3xx without Location is an answer",
  );
  const loop = to(302, "/").slice(0, -3);
  matchObject(t, await run(`${loop}${encodeURIComponent(new URL(to(302, "x")).pathname)}`, { max_redirects: 0 }), {
    status: "down",
    error: "more than 0 redirects",
  });
  matchObject(t, await run(to(302, "ftp://files.example.org/")), {
    status: "down",
    error: "redirected to a ftp URL, which cannot be followed",
  });
  matchObject(t, await run(to(302, "http://[oops")), {
    status: "down",
    error: `redirected by ${home} to something that is not a URL`,
  });
  const { port, server } = await tcpServer(t, () => undefined);
  await new Promise((settle) => server.close(settle));
  matchObject(t, await run(to(302, `http://127.0.0.2:${port}/secret?token=1`)), {
    status: "down",
    error: `redirected to http://127.0.0.2:${port}: connection refused`,
  });

  let turns = 0;
  const carousel = await serve(t, (_request, response) => response.writeHead(302, { location: `/${turns++}` }).end());
  matchObject(t, await run(carousel, { max_redirects: 3 }), {
    status: "down",
    error: "more than 3 redirects",
    http_status: 302,
  });
  t.equal(turns, 4);
});

t.test("the guard applies to every hop", async (t) => {
  let canary = 0;
  const url = await serve(t, (_request, response) => {
    canary++;
    response.end();
  });
  const guarded = testRunner({ allowPrivate: false, lookup: () => Promise.resolve(["127.0.0.1"]) });
  matchObject(t, await run(url, {}, guarded), {
    status: "error",
    error: "address 127.0.0.1 is blocked (127.0.0.0/8)",
    skip: false,
    http_status: null,
  });
  matchObject(t, await run(`http://rebinding.example.org:${new URL(url).port}/`, {}, guarded), {
    status: "down",
    error: "the name has no public address: it does not exist, or it leads to a network that is not public",
  });
  matchObject(t, await run("http://[::ffff:7f00:1]/", {}, guarded), {
    status: "error",
    error: "address ::ffff:7f00:1 is blocked (::ffff:0:0/96)",
  });
  matchObject(t, await run("http://169.254.169.254/latest/meta-data", {}, guarded), {
    status: "error",
    error: "address 169.254.169.254 is blocked (169.254.0.0/16)",
  });
  t.equal(canary, 0);
});

t.test("errors of misbehaving servers", async (t) => {
  const { port, server } = await tcpServer(t, () => undefined);
  await new Promise((settle) => server.close(settle));
  matchObject(t, await run(`http://127.0.0.1:${port}/`), {
    status: "down",
    error: "connection refused",
    http_status: null,
    ttfb_ms: null,
  });
  const cases: [string, (socket: Socket) => void, object][] = [
    ["no answer", (socket) => socket.end(), { status: "down", error: "connection closed without a response" }],
    [
      "a reset",
      (socket) => socket.resetAndDestroy(),
      { status: "down", error: "connection reset before the response was complete" },
    ],
    [
      "not HTTP",
      (socket) => socket.end("SSH-2.0-OpenSSH_9.2\r\n"),
      { status: "down", error: /^the answer is not valid HTTP: / },
    ],
    [
      "a body that breaks off",
      (socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"),
      { status: "down", error: "connection closed in the middle of the body", http_status: 200, response_size: 4 },
    ],
    [
      "a wrong status whose body breaks off",
      (socket) => socket.end("HTTP/1.1 500 Oops\r\nContent-Length: 100\r\n\r\nhalf"),
      { status: "down", error: "expected status 200-299, got 500" },
    ],
    [
      "a switch of protocols",
      (socket) => socket.end("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
      { status: "down", error: "expected status 200-299, got 101", http_status: 101 },
    ],
    [
      "a huge head",
      (socket) => socket.end(`HTTP/1.1 200 OK\r\nX: ${"x".repeat(100_000)}\r\n\r\n`),
      { status: "down", error: "the response head is larger than 64 KiB" },
    ],
    [
      "a flood of interim answers",
      (socket) => socket.write("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(500)),
      { status: "down", error: "more than 32 interim (1xx) responses" },
    ],
    [
      "one interim answer",
      (socket) => socket.end("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
      { status: "up", error: null },
    ],
    [
      "no length and no end but the connection's",
      (socket) => socket.end("HTTP/1.1 200 OK\r\n\r\nold school"),
      { status: "up", response_size: 10 },
    ],
    [
      "control characters",
      (socket) => socket.end("HTTP/1.1 429 Slow\r\nRetry-After: 7\tseconds\xe9\r\n\r\n"),
      { status: "degraded", error: /^rate-limited 429 \(Retry-After: 7 seconds/ },
    ],
  ];
  for (const [what, answer, expected] of cases) matchObject(t, await run(await speak(t, answer)), expected, what);
});

t.test("every check ends with its timeout, whatever the server does", async (t) => {
  const timeout = 400;
  const drip = (head: string, drop: string) => (socket: Socket) => {
    socket.write(head);
    const timer = setInterval(() => socket.write(drop), 20);
    socket.on("close", () => clearInterval(timer));
  };
  const cases: [string, (socket: Socket) => void, object][] = [
    ["silence", () => undefined, { status: "down", error: "no response within 0.4 s", http_status: null }],
    [
      "an endless head",
      drip("HTTP/1.1 200 OK\r\n", "X-More: 1\r\n"),
      { status: "down", error: "response head timed out after 0.4 s" },
    ],
    [
      "a dripping body",
      drip("HTTP/1.1 200 OK\r\n\r\n", "."),
      { status: "up", error: null, http_status: 200, warnings: ["the body did not end"] },
    ],
    [
      "a dripping body after a wrong status",
      drip("HTTP/1.1 502 Bad Gateway\r\n\r\n", "."),
      { status: "down", error: "expected status 200-299, got 502" },
    ],
    [
      "a dripping body after a 503",
      drip("HTTP/1.1 503 Busy\r\nRetry-After: 1\r\n\r\n", "."),
      { status: "degraded", error: "rate-limited 503 (Retry-After: 1)" },
    ],
    ["slow interim answers", drip("", "HTTP/1.1 103 Early Hints\r\n\r\n"), { status: "down" }],
    [
      "chunks that never end",
      drip("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\n.\r\n"),
      { status: "up", error: null, warnings: ["the body did not end"] },
    ],
    [
      "a body that stops arriving",
      (socket) => void socket.write("HTTP/1.1 200 OK\r\n\r\n."),
      { status: "down", error: "response body timed out after 0.4 s" },
    ],
  ];
  for (const [what, answer, expected] of cases) {
    const result = await run(await speak(t, answer), { timeout });
    matchObject(t, result, expected, what);
    t.ok((result.total_ms ?? 0) < timeout + 250, `${what}: ends in time`);
  }
  const { port } = await tcpServer(t, () => undefined);
  matchObject(t, await run(`https://127.0.0.1:${port}/`, { timeout }), {
    status: "down",
    error: "TLS handshake timed out after 0.4 s",
    tls_ms: null,
  });
  const stuck = testRunner({ lookup: () => new Promise(() => undefined) });
  matchObject(t, await run("http://slow.example.org/", { timeout }, stuck), {
    status: "down",
    error: "name resolution timed out after 0.4 s",
    dns_ms: null,
  });
  const endless = await speak(t, (socket) => {
    socket.write("HTTP/1.1 200 OK\r\n\r\n");
    const more = (): boolean => socket.write(Buffer.alloc(65_536)) && !socket.destroyed && (setImmediate(more), true);
    socket.on("drain", more);
    more();
  });
  matchObject(
    t,
    await run(endless),
    { status: "up", response_size: 1024 * 1024 },
    "an endless body is read up to 1 MiB",
  );
});

t.test("https", async (t) => {
  const { private: key, cert } = await generate([{ name: "commonName", value: "localhost" }], {
    algorithm: "sha256",
    keyType: "ec",
    notAfterDate: new Date(Date.now() + 5.5 * 86_400_000),
  });
  const server = createTlsServer({ key, cert }, (_request, response) => response.end("secret garden"));
  await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
  t.teardown(() => server.close());
  const port = (server.address() as AddressInfo).port;
  const lookup = testRunner({ lookup: () => Promise.resolve(["127.0.0.1"]) });
  matchObject(t, await run(`https://127.0.0.1:${port}/`), {
    status: "down",
    error: "certificate is self-signed",
    http_status: null,
  });
  const result = await run(
    `https://www.example.org:${port}/`,
    { verify_tls: false, expected_body_contains: "garden" },
    lookup,
  );
  matchObject(t, result, {
    status: "up",
    http_status: 200,
    warnings: ["The certificate of www.example.org expires in 5 days."],
  });
  const plannedEnd = Date.parse(new X509Certificate(cert).validTo);
  t.equal(result.certificateNotAfter, plannedEnd, "the certificate is read during the ordinary run");
  for (const phase of ["dns_ms", "connect_ms", "tls_ms", "ttfb_ms"] as const) t.ok((result[phase] ?? -1) >= 0, phase);
  const plain = await serve(t, (_request, response) => response.end());
  matchObject(t, await run(plain.replace("http:", "https:")), {
    status: "down",
    error: "the server does not speak TLS on this port",
  });
});

t.test("IPv6", async (t) => {
  const url = await serve(t, (request, response) => response.end(request.headers.host), "::1").catch(() => null);
  if (url === null) return t.comment("no IPv6 on this machine");
  matchObject(t, await run(url, { expected_body_contains: url.slice(7) }), { status: "up" });
});

t.test("the response of a failed run: status line, headers and the beginning of a text body", async (t) => {
  /** A server that writes `head` and then the pieces, each after the one before it was sent. */
  const answering = (head: string, pieces: (string | Buffer)[] = [], end = true) =>
    speak(t, (socket) => {
      socket.write(`HTTP/1.1 ${head}\r\n\r\n`);
      for (const piece of pieces) socket.write(piece);
      if (end) socket.end();
    });
  const text = "500 Oops\r\nContent-Type: text/plain";
  const snap = async (url: string, change: Partial<HttpCheck> = {}) => (await run(url, change)).snapshot;

  t.test("captured for failing runs only, and only where the check keeps it", async (t) => {
    const url = await serve(t, (request, response) => {
      response.statusCode = request.url === "/up" ? 200 : 503;
      response.end("busy");
    });
    t.equal(await snap(`${url}/up`), null);
    matchObject(t, await snap(url), { status_line: "HTTP/1.1 503 Service Unavailable" });
    t.equal(await snap(url, { capture_failures: false }), null);
    matchObject(t, await snap(`${url}/up`, { expected_body_contains: "garden" }), { status_line: "HTTP/1.1 200 OK" });
    t.equal(await snap("http://127.0.0.1:9/"), null, "without a response there is none");
  });

  t.test("the state of the body", async (t) => {
    const of = async (head: string, pieces: (string | Buffer)[] = [], end = true, change: Partial<HttpCheck> = {}) => {
      const { body, body_state } = (await snap(await answering(head, pieces, end), change))!;
      return [body_state, body];
    };
    t.strictSame(await of(`${text}\r\nContent-Length: 5`, ["a\u202eb"]), ["complete", "a\\u202eb"]);
    t.strictSame(await of(`${text}\r\nContent-Length: 0`), ["none", null]);
    t.strictSame(await of("500\r\nContent-Type: image/png\r\nContent-Length: 3", ["abc"]), ["not_text", null]);
    t.strictSame(await of("500\r\nContent-Length: 3", ["abc"]), ["not_text", null], "no type");
    const zipped = gzipSync("secret");
    t.strictSame(await of(`${text}\r\nContent-Encoding: gzip\r\nContent-Length: ${zipped.length}`, [zipped]), [
      "not_text",
      null,
    ]);
    for (const type of ["application/json", "application/problem+json", "application/xhtml+xml", "TEXT/HTML;charset=x"])
      matchObject(t, await of(`500 x\r\nContent-Type: ${type}\r\nContent-Length: 2`, ["{}"]), ["complete", "{}"], type);
    t.strictSame(
      await of("500 x\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Length: 1", [Buffer.from([0xe9])]),
      ["complete", "é"],
    );
    t.strictSame(await of(`${text}\r\nContent-Length: 90`, ["half"]), ["interrupted", "half"], "closed early");
    const late = await of(`${text}\r\nContent-Length: 90`, ["so far"], false, { timeout: 2000 });
    t.strictSame(late, ["interrupted", "so far"], "timed out in the middle of the body");
    const chunk = (part: string) => `${Buffer.byteLength(part).toString(16)}\r\n${part}\r\n`;
    t.strictSame(await of(`${text}\r\nTransfer-Encoding: chunked`, [chunk("one "), chunk("two"), "0\r\n\r\n"]), [
      "complete",
      "one two",
    ]);
  });

  t.test("the first KiB, cut at a character, in pieces of any size", async (t) => {
    for (const size of [1, 700, 1023, 1024, 5000]) {
      const bytes = Buffer.from("€".repeat(400));
      const pieces: Buffer[] = [];
      for (let at = 0; at < bytes.length; at += size) pieces.push(bytes.subarray(at, at + size));
      const snapshot = (await snap(await answering(`${text}\r\nContent-Length: ${bytes.length}`, pieces)))!;
      t.strictSame([snapshot.body, snapshot.body_state], ["€".repeat(341), "truncated"], `pieces of ${size}`);
    }
  });

  t.test("many and long headers are bounded, control characters are visible", async (t) => {
    const long = await answering(
      `500 ${"x".repeat(900)}\r\n` +
        Array.from({ length: 70 }, (_, at) => `X-Part-${at}: ${"y-".repeat(at === 0 ? 900 : 5)}`).join("\r\n") +
        "\r\nContent-Length: 0",
    );
    const snapshot = (await snap(long))!;
    t.equal(snapshot.status_line.length, 200);
    t.equal(snapshot.headers.length, 40);
    t.equal(snapshot.headers_omitted, 31);
    t.equal(snapshot.headers[0]!.value.length, 500);
    const hostile = await answering("500 x\r\nX-A: <script>alert(1)</script>\r\nX-B: a\x80\tb\r\nContent-Length: 0");
    t.strictSame(
      (await snap(hostile))!.headers.slice(0, 2).map(({ value }) => value),
      ["<script>alert(1)</script>", "a\\u0080\\u0009b"],
    );
  });

  t.test("secrets are masked in every encoding", async (t) => {
    const secret = 'k3y/"with<chars>';
    const credentials: Partial<HttpCheck> = {
      headers: { "X-Key": secret, Cookie: "sid=abcdef123456; lang=en", "X-Short": "q7", Accept: "text/html" },
      basic_auth: ["me", "pa55word&more"],
    };
    const body = "user=ann&password=in-the-body";
    const url = await serve(t, (request, response) => {
      response.statusCode = 500;
      response.setHeader("X-Refused", `IN-THE-BODY at ${request.url}`);
      response.setHeader("Set-Cookie", ["sid=1", "other=2"]);
      response.setHeader("WWW-Authenticate", 'Basic realm="inside-host"');
      response.setHeader("X-Auth-Token", "tkn");
      response.setHeader("X-Echo", `${request.headers.authorization} and ${secret}`);
      response.setHeader("Location", "https://u:pw@example.org/?code=c0de&x=1");
      response.setHeader("X-Request-Id", "0af7651916cd43dd8448eb211c80319c");
      response.setHeader("Content-Type", "application/json");
      response.end(
        `${JSON.stringify({ secret })} ${encodeURIComponent(secret)} ${Buffer.from(secret).toString("base64")} ` +
          "k3y/&quot;with&lt;chars&gt; pa55word&more pa55word%26more abcdef123456 q7 q71 text/html " +
          '"db_password": "hunter2" eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln',
      );
    });
    const snapshot = (await snap(`${url}/a/b0x9y8z7?key=b0x9y8z7`, { ...credentials, method: "POST", body }))!;
    const headers = new Map(snapshot.headers.map(({ name, value }) => [name, value]));
    t.equal(headers.get("X-Refused"), "*** at /a/***?key=***", "what the body and the URL of the check call a secret");
    t.equal(headers.get("Set-Cookie"), "***");
    t.equal(headers.get("WWW-Authenticate"), "Basic ***");
    t.equal(headers.get("X-Auth-Token"), "***");
    t.equal(headers.get("X-Echo"), "Basic *** and ***");
    t.equal(headers.get("Location"), "https://***@example.org/?code=***&x=1");
    t.equal(headers.get("X-Request-Id"), "0af7651916cd43dd8448eb211c80319c");
    t.equal(snapshot.body, '{"secret":"***"} *** *** *** *** *** *** *** q71 text/html "db_password": "***" ***');
    const all = JSON.stringify(snapshot);
    for (const part of ["k3y", "pa55", "abcdef", "hunter2", "inside-host", "tkn", "c0de", "eyJ"])
      t.notOk(all.includes(part), part);
  });

  t.test("a secret that is cut off by the limit or by the end of the connection is masked as well", async (t) => {
    const bearer_token = "s3cret-token-of-thirty-letters";
    for (const [head, pieces] of [
      [`${text}\r\nContent-Length: 3000`, ["-".repeat(1010) + bearer_token + "-".repeat(3000)]],
      [`${text}\r\nContent-Length: 3000`, [`token: ${bearer_token.slice(0, 12)}`]],
    ] as const) {
      const { body } = (await snap(await answering(head, [...pieces]), { bearer_token }))!;
      t.notOk(body!.includes("s3c"), body!);
      t.ok(body!.endsWith("***"), body!);
    }
  });

  t.test("a redirect that leads nowhere shows the last response", async (t) => {
    const url = await serve(t, (_request, response) => {
      response.writeHead(302, { location: "/again" });
      response.end("not read");
    });
    matchObject(t, await snap(url, { max_redirects: 1 }), {
      status_line: "HTTP/1.1 302 Found",
      body: null,
      body_state: "none",
    });
  });
  t.end();
});
