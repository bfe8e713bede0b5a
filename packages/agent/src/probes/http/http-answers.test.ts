import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo, Server, Socket } from "node:net";
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from "node:zlib";
import { execFile } from "node:child_process";
import { generate } from "selfsigned";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { HttpCheck } from "@statusmesh/shared/checks/http";
import { httpCheck, outcomeOf, tcpServer, testRunner } from "../../testing.ts";

/* Answers as they come in the wild: charsets, codings, endless bodies, redirects with cookies, heads, digest. */

const runner = testRunner({ lookup: async () => ["127.0.0.1"] });

async function ask(url: string, change: Partial<HttpCheck> = {}) {
  const { measurement, warnings } = await outcomeOf(runner.run("org", { ...httpCheck(url, change) }));
  const { status, error } = measurement;
  return { status, error, warnings };
}

async function listen(t: Test, server: Server & { closeAllConnections?(): void }): Promise<number> {
  await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
  t.teardown(() => {
    server.closeAllConnections?.();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}
const serve = (t: Test, handler: (request: IncomingMessage, response: ServerResponse) => void) =>
  listen(t, createServer(handler));
/** A server that answers with these bytes. */
const saying = async (t: Test, bytes: string | Buffer): Promise<string> =>
  `http://127.0.0.1:${(await tcpServer(t, (socket) => socket.once("data", () => socket.end(bytes)))).port}/`;

const up = { status: "up", error: null, warnings: [] };
const down = (error: string) => ({ status: "down", error, warnings: [] });
const wrong = (error: string) => ({ status: "error", error, warnings: [] });

t.test("charsets: what is there is found, and what is there is not absent", async (t) => {
  const cases: [string, string, string][] = [
    // Content-Type, body in hex, a word of it.
    ["text/html; charset=Shift_JIS", "834783898145", "エラ"],
    ["text/html; charset=windows-1251", "cef8e8e1eae0", "Ошибка"],
    ["text/html; charset=euc-jp", "a5a8a5e9a1bc", "エラー"],
    ["text/html; charset=iso-2022-jp", "1b244225282569213c1b2842", "エラー"],
    ["text/html; charset=gbk", "b4edceb3", "错"],
    ["text/html; charset=gb18030", "b4edceb3", "错"],
    ["text/html; charset=big5", "a4a4a4e5", "中文"],
    ["text/html; charset=euc-kr", "bfc0b7f9", "오류"],
    ["text/html; charset=koi8-r", "efdbc9c2cbc1", "Ошибка"],
    ["text/html; charset=iso-8859-2", "b1e6ea", "ąćę"],
    ["text/html; charset=iso-8859-15", "a4", "€"],
    ["text/html; charset=tis-620", "a1a2", "กข"],
    ["text/html; charset=windows-1250", "8a9a", "Šš"],
    ["text/html; charset=utf-16", "450072007200", "Err"],
    ["text/html", "feff00450072", "Er"],
    ["text/html; charset=utf-8", "fffe45007200", "Er"],
    ["text/html; charset=iso-8859-1", "3132a080", "12\u00a0€"],
    ["text/html; charset=windows-1252", "69749273", "it’s"],
    ["text/html; charset=iso8859-1", "e9", "é"],
    ["text/html", "3c6d65746120636861727365743d6b6f69382d723efe", "Ч"],
    ["text/plain", "e9", "é"],
  ];
  const port = await serve(t, ({ url = "" }, response) => {
    const [type, hex] = cases[Number(url.slice(1))]!;
    response.setHeader("Content-Type", type);
    response.end(Buffer.from(hex, "hex"));
  });
  for (const [at, [type, , word]] of cases.entries()) {
    const url = `http://127.0.0.1:${port}/${at}`;
    t.strictSame(await ask(url, { expected_body_contains: word }), up, type);
    matchObject(t, await ask(url, { expected_body_absent: word }), { status: "down" }, `${type}, absent`);
  }
  const odd = await saying(t, "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=x-odd\r\n\r\n[1]");
  t.strictSame(await ask(odd, { expected_body_absent: "x" }), wrong('the charset "x-odd" is not known'));
  t.strictSame(await ask(odd), up, "where no expectation reads the body");
  t.strictSame(await ask(odd, { expected_json: [{ path: "$[0]", op: "eq", value: 1 }] }), up, "JSON is UTF-8");
  const replaced = await saying(t, "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=hz-gb-2312\r\n\r\nx");
  t.strictSame(await ask(replaced, { expected_body_absent: "x" }), wrong('the charset "hz-gb-2312" is not known'));
  const marked = await saying(
    t,
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n\xef\xbb\xbfOK".replace(/.*/s, (all) => all),
  );
  t.strictSame(await ask(marked, { expected_body_matches: "OK$" }), up);
  const bom = await saying(t, Buffer.from("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n\ufeffOK"));
  t.strictSame(await ask(bom, { expected_body_matches: "^OK$" }), up, "the mark is not part of the text");
});

t.test("content codings are undone where an expectation reads the body", async (t) => {
  const text = `${"x".repeat(70_000)}needle {"a":1}`;
  const codings: [string, Buffer][] = [
    ["gzip", gzipSync(text)],
    ["x-gzip", gzipSync(text)],
    ["deflate", deflateSync(text)],
    ["deflate", deflateRawSync(text)],
    ["br", brotliCompressSync(text)],
    ["gzip, br", brotliCompressSync(gzipSync(text))],
    ["identity, gzip", gzipSync(text)],
  ];
  for (const [coding, body] of codings) {
    const url = await saying(
      t,
      Buffer.concat([Buffer.from(`HTTP/1.1 200 OK\r\nContent-Encoding: ${coding}\r\n\r\n`), body]),
    );
    t.strictSame(await ask(url, { expected_body_contains: "needle" }), up, coding);
    t.strictSame(await ask(url, { expected_body_absent: "needle" }), down('the body contains "needle"'), coding);
    t.strictSame(await ask(url, { expected_body_absent: "haystack" }), up, coding);
  }
  const chunk = gzipSync("needle");
  const transfer = await saying(
    t,
    Buffer.concat([
      Buffer.from(`HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n${chunk.length.toString(16)}\r\n`),
      chunk,
      Buffer.from("\r\n0\r\n\r\n"),
    ]),
  );
  t.strictSame(await ask(transfer, { expected_body_contains: "needle" }), up, "Transfer-Encoding");

  const coded = (coding: string, body: Buffer) =>
    saying(t, Buffer.concat([Buffer.from(`HTTP/1.1 200 OK\r\nContent-Encoding: ${coding}\r\n\r\n`), body]));
  const zstd = await coded("zstd", Buffer.from("x"));
  t.strictSame(
    await ask(zstd, { expected_body_absent: "y" }),
    wrong("the body is sent as zstd, which cannot be read"),
    "absence never holds on bytes that were not read",
  );
  t.strictSame(await ask(zstd), up, "nothing reads the body");
  const damaged = wrong("the body is sent as gzip, and its data are damaged");
  t.strictSame(await ask(await coded("gzip", Buffer.from("plain")), { expected_body_absent: "y" }), damaged);
  const half = gzipSync(Buffer.from(Array.from({ length: 5000 }, (_, n) => n % 251))).subarray(0, -20);
  t.strictSame(await ask(await coded("gzip", half), { expected_body_absent: "y" }), damaged, "it ends early");
  t.strictSame(await ask(await coded("gzip", Buffer.alloc(0)), { expected_body_absent: "y" }), up, "an empty body");
  const bomb = await coded("gzip, gzip", gzipSync(gzipSync(Buffer.alloc(64 << 20, "x"))));
  t.strictSame(
    await ask(bomb, { expected_body_contains: "y" }),
    down('the first MiB of the body does not contain "y"'),
    "a bomb ends at 1 MiB of text",
  );
});

t.test("bodies without an end", async (t) => {
  const dripping = async (head: string, first: string, then: string | null) => {
    const { port } = await tcpServer(t, (socket: Socket) => {
      socket.write(`HTTP/1.1 200 OK\r\n${head}\r\n${first}`);
      if (then === null) return;
      const timer = setInterval(() => socket.write(then), 30);
      socket.on("close", () => clearInterval(timer));
    });
    return `http://127.0.0.1:${port}/`;
  };
  const timeout = 600;
  const endless = { ...up, warnings: ["the body did not end"] };
  const overdue = down("response body timed out after 0.6 s");
  const events = await dripping("Content-Type: text/event-stream\r\n", "data: ready\n\n", "data: x\n\n");
  const first = "Only the first MiB of the body was searched for what must be absent.";
  const cases: [string, string, Partial<HttpCheck>, object][] = [
    ["nothing is expected", events, {}, endless],
    ["the text came", events, { expected_body_contains: "ready" }, endless],
    ["another text did not", events, { expected_body_contains: "never" }, overdue],
    ["a pattern", events, { expected_body_matches: "^data: ready" }, endless],
    [
      "what must be absent is",
      events,
      { expected_body_absent: "oops" },
      { ...endless, warnings: [first, "the body did not end"] },
    ],
    [
      "what must be absent is there",
      events,
      { expected_body_absent: "ready" },
      { ...down('the body contains "ready"'), warnings: [first] },
    ],
    ["a threshold of time", events, { down_above_ms: 300 }, endless],
    [
      "JSON has no end",
      events,
      { expected_json: [{ path: "$", op: "exists" }] },
      down("response body timed out after 0.6 s"),
    ],
    ["it stops arriving", await dripping("", "data", null), {}, overdue],
    ["it has a length", await dripping("Content-Length: 9999\r\n", "data", "."), {}, overdue],
    ["no byte came", await dripping("", "", null), {}, overdue],
    ["compressed", await dripping("Content-Encoding: gzip\r\n", "", null), { expected_body_contains: "x" }, overdue],
  ];
  await Promise.all(
    cases.map(async ([what, url, change, said]) => t.strictSame(await ask(url, { ...change, timeout }), said, what)),
  );
});

t.test("redirects", async (t) => {
  const seen: string[] = [];
  const port = await serve(t, (request, response) => {
    const { url = "", headers } = request;
    seen.push(`${url} ${headers.cookie ?? "-"}`);
    const to = (location: string, status = 302) => response.writeHead(status, { Location: location }).end();
    const path = url.split("?")[0];
    if (path === "/login") {
      response.setHeader("Set-Cookie", ["session=1; Path=/", "deep=2; Path=/deep", "safe=3; Secure"]);
      return to("/home");
    }
    if (path === "/home") return headers.cookie?.includes("session=1") === true ? response.end("in") : to("/login");
    if (path === "/cafe")
      return response.writeHead(302, [["Location", Buffer.from("/café").toString("latin1")]] as never).end();
    if (path === "/caf%C3%A9") return response.end("coffee");
    if (path === "/empty") return to("");
    if (path === "/circle") return to("/circle2?token=abcdefghijklmnop");
    if (path === "/circle2") return to("/circle");
    if (path === "/once") return to("/home2");
    return response.end("page");
  });
  const at = `http://127.0.0.1:${port}`;
  t.strictSame(await ask(`${at}/home`, { expected_body_contains: "in" }), up, "a cookie is sent to later hops");
  t.strictSame(seen, ["/home -", "/login -", "/home session=1"]);
  seen.length = 0;
  await ask(`${at}/login`, { headers: { Cookie: "own=0" } });
  t.strictSame(seen, ["/login own=0", "/home own=0; session=1"], "after the cookies of the check; none is kept");
  t.strictSame(await ask(`${at}/cafe`, { expected_body_contains: "coffee" }), up, "a Location in UTF-8");
  t.strictSame(await ask(`${at}/empty`), down("expected status 200-299, got 302"), "an empty Location leads nowhere");
  matchObject(t, await ask(`${at}/circle`), {
    status: "down",
    error: /^redirects in a circle: http:\/\/127\.0\.0\.1:\d+\/circle$/,
  });
  const only = { expected_status: { kind: "exact" as const, value: 302 } };
  t.strictSame(await ask(`${at}/once`, { max_redirects: 0, ...only }), up, "the hops are used up, and it is expected");
  t.strictSame(await ask(`${at}/once`, { max_redirects: 0 }), down("more than 0 redirects"));
  matchObject(t, await ask(`${at}/once`, only), { status: "down", error: "expected status 302, got 200" });
});

t.test("credentials follow from http to https of one host, and nowhere else", async (t) => {
  const pems = await generate([{ name: "commonName", value: "www.example.org" }], {
    extensions: [{ name: "subjectAltName", altNames: [{ type: 2, value: "www.example.org" }] }],
  });
  const got: string[] = [];
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    got.push(`${request.headers.authorization ?? "-"} ${String(request.headers["x-key"] ?? "-")}`);
    response.writeHead(request.headers.authorization === undefined ? 401 : 200).end();
  };
  // One port for both: the first byte of a TLS record is 22.
  const tls = createTlsServer({ key: pems.private, cert: pems.cert }, answer);
  let location = "";
  const plain = createServer((_request, response) => response.writeHead(301, { Location: location }).end());
  const { port } = await tcpServer(t, (socket) => {
    socket.once("readable", () => {
      const first = socket.read() as Buffer | null;
      if (first === null) return;
      socket.unshift(first);
      (first[0] === 22 ? tls : plain).emit("connection", socket);
    });
  });
  const other = await serve(t, answer);
  const check = { basic_auth: ["me", "pw"] as [string, string], headers: { "X-Key": "k" }, timeout: 3000 };
  location = `https://www.example.org:${port}/`;
  const first = await ask(`http://www.example.org:${port}/`, { ...check });
  matchObject(
    t,
    first,
    { status: "down", error: /certificate is/ },
    "a certificate that is not trusted ends it before",
  );
  t.strictSame(got, []);
  const loose = await ask(`http://www.example.org:${port}/`, { ...check, verify_tls: false });
  t.strictSame(got, ["- -"], "not where TLS is not verified");
  t.strictSame(
    loose.error,
    `expected status 200-299, got 401 (the credentials were not sent to https://www.example.org:${port}: a redirect left their server)`,
  );
  got.length = 0;
  location = `http://www.example.org:${other}/`;
  matchObject(t, await ask(`http://www.example.org:${port}/`, check), {
    error: /^expected status 200-299, got 401 \(the cred/,
  });
  t.strictSame(got, ["- -"], "another port is another server");
});

t.test("digest", async (t) => {
  const md5 = (text: string): string => createHash("md5").update(text).digest("hex");
  let nonce = "n1";
  const requests: string[] = [];
  const port = await serve(t, (request, response) => {
    const { authorization = "" } = request.headers;
    const [, got = ""] = /nonce="(\w+)"/.exec(authorization) ?? [];
    const [, cnonce = ""] = /cnonce="(\w+)"/.exec(authorization) ?? [];
    const a2 = md5(`${request.method}:${request.url}`);
    const right = md5(`${md5("me:r:pw")}:${got}:00000001:${cnonce}:auth:${a2}`);
    requests.push(authorization === "" ? "none" : got);
    if (request.url === "/stale" && requests.length === 2) nonce = "n2";
    if (authorization.includes(`response="${right}"`) && got === nonce) return response.end("in");
    const stale = got !== "" && got !== nonce ? ", stale=true" : "";
    return response
      .writeHead(401, { "WWW-Authenticate": `Digest realm="r", qop="auth", nonce="${nonce}"${stale}` })
      .end();
  });
  const digest = { auth_scheme: "digest" as const, basic_auth: ["me", "pw"] as [string, string] };
  const url = `http://127.0.0.1:${port}`;
  t.strictSame(await ask(`${url}/a?b=c`, { ...digest, expected_body_contains: "in" }), up);
  t.strictSame(requests.splice(0), ["none", "n1"]);
  t.strictSame(await ask(`${url}/`, { ...digest, method: "POST", body: "x" }), up, "with a body");
  requests.length = 0;
  t.strictSame(await ask(`${url}/stale`, digest), up, "a nonce that has expired is replaced");
  t.strictSame(requests.splice(0), ["none", "n1", "n2"]);
  t.strictSame(await ask(`${url}/`, { ...digest, basic_auth: ["me", "no"] }), down("expected status 200-299, got 401"));
  t.strictSame(requests.splice(0), ["none", "n2"], "wrong credentials are sent once");
  const basic = await saying(t, 'HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm="x"\r\nContent-Length: 0\r\n\r\n');
  t.strictSame(
    await ask(basic, digest),
    down("expected status 200-299, got 401 (the server asks for basic, not for digest)"),
  );
});

t.test("JSON numbers are compared and shown by their digits", async (t) => {
  const url = await saying(
    t,
    'HTTP/1.1 200 OK\r\n\r\n{"id": 12345678901234567891, "s": "7 8", "f": 1.10, "big": 9007199254740993}',
  );
  const json = (path: string, op: "eq" | "ne" | "gt", value: string | number) =>
    ask(url, { expected_json: [{ path, op, value }] });
  t.strictSame(await json("$.id", "eq", "12345678901234567891"), up);
  t.strictSame(
    await json("$.id", "eq", "12345678901234567890"),
    down('$.id is 12345678901234567891, expected "12345678901234567890"'),
  );
  t.strictSame(
    await json("$.big", "ne", "9007199254740993"),
    down("$.big is 9007199254740993, expected another value"),
  );
  t.strictSame(await json("$.big", "gt", 9007199254740991), up);
  t.strictSame(await json("$.f", "eq", 2), down("$.f is 1.10, expected 2"));
});

const ok = "Content-Length: 2\r\n\r\nok";
const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
/** Heads, and the fault that is named; null where there is none, and where the answer is refused. */
const heads: [string, string | Buffer, string | null][] = [
  ["plain", `HTTP/1.1 200 OK\r\n${ok}`, null],
  [
    "a control character",
    `HTTP/1.1 200 OK\r\nSet-Cookie: a=b\x01c\r\n${ok}`,
    "Set-Cookie: its value has a control character",
  ],
  ["DEL", `HTTP/1.1 200 OK\r\nX-A: a\x7fb\r\n${ok}`, "X-A: its value has a control character"],
  ["NUL in a value", `HTTP/1.1 200 OK\r\nX-A: a\x00b\r\n${ok}`, null],
  ["NUL in the status line", `HTTP/1.1 200 O\x00K\r\n${ok}`, null],
  ["LF alone", `HTTP/1.1 200 OK\r\n${ok}`.replaceAll("\r", ""), "lines end without CR"],
  ["LF alone in one line", `HTTP/1.1 200 OK\nX-A: b\r\n${ok}`, "lines end without CR"],
  ["CR in a value", `HTTP/1.1 200 OK\r\nX-A: a\rb\r\n${ok}`, "X-A: its value has a control character"],
  ["CR CR LF", `HTTP/1.1 200 OK\r\nX-A: a\r\r\n${ok}`, "X-A: its value has a control character"],
  ["CR for CR LF", `HTTP/1.1 200 OK\rX-A: a\r${ok}`, "the status line is unusual"],
  [
    "a space before the colon",
    `HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok`,
    "Content-Length: a space is before its colon",
  ],
  ["a space before a name", `HTTP/1.1 200 OK\r\n X-A: b\r\n${ok}`, null],
  ["a space in a name", `HTTP/1.1 200 OK\r\nX A: b\r\n${ok}`, "X A: its name has a character that names have not"],
  ["a folded value", `HTTP/1.1 200 OK\r\nX-A: a\r\n b\r\n\tc\r\n${ok}`, "X-A: its value is on several lines"],
  ["a folded length", "HTTP/1.1 200 OK\r\nContent-Length:\r\n 2\r\n\r\nok", null],
  ["no colon", `HTTP/1.1 200 OK\r\nnothing\r\n${ok}`, null],
  ["no name", `HTTP/1.1 200 OK\r\n: b\r\n${ok}`, "its name has a character that names have not"],
  ["the same length twice", `HTTP/1.1 200 OK\r\nContent-Length: 2\r\n${ok}`, "Content-Length: it is not one number"],
  ["two lengths", `HTTP/1.1 200 OK\r\nContent-Length: 3\r\n${ok}`, "Content-Length: it is not one number"],
  ["a list of lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok", "Content-Length: it is not one number"],
  ["+2", "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok", "Content-Length: it is not one number"],
  ["-2", "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok", null],
  ["no length in it", "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nok", null],
  [
    "a length and chunks",
    `HTTP/1.1 200 OK\r\nContent-Length: 2\r\n${chunked.slice(17)}2\r\nok\r\n0\r\n\r\n`,
    "Content-Length: the body is chunked",
  ],
  ["spaces after a chunk size", `${chunked}2  \r\nok\r\n0\t\r\n\r\n`, null],
  ["a space before a chunk size", `${chunked} 2\r\nok\r\n0\r\n\r\n`, null],
  ["chunk extensions", `${chunked}2 ; a = "b"\r\nok\r\n0;c\r\n\r\n`, null],
  ["chunks with LF alone", `${chunked}2\nok\n0\n\n`, null],
  ["a chunk size with 0x", `${chunked}0x2\r\nok\r\n0\r\n\r\n`, null],
  ["a chunk without its end", `${chunked}2\r\nok0\r\n\r\n`, null],
  ["chunks without their end", `${chunked}2\r\nok\r\n0\r\n`, null],
  ["a trailer", `${chunked}2\r\nok\r\n0\r\nX-T: a\r\n\r\n`, null],
  ["a trailer without a colon", `${chunked}2\r\nok\r\n0\r\nfoo\r\n\r\n`, null],
  ["chunked twice", chunked.replace("chunked", "chunked, chunked") + "2\r\nok\r\n0\r\n\r\n", null],
  ["a value in UTF-8", Buffer.from(`HTTP/1.1 200 OK\r\nX-A: café\r\n${ok}`), null],
  [
    "a name in UTF-8",
    Buffer.from(`HTTP/1.1 200 OK\r\nX-é: a\r\n${ok}`),
    "X-é: its name has a character that names have not",
  ],
  ["no reason", `HTTP/1.1 200\r\n${ok}`, null],
  ["a tab in the status line", `HTTP/1.1\t200 OK\r\n${ok}`, null],
  ["two spaces in the status line", `HTTP/1.1  200 OK\r\n${ok}`, "the status line is unusual"],
  ["no space before the reason", `HTTP/1.1 200OK\r\n${ok}`, "the status line is unusual"],
  ["lower case", `http/1.1 200 OK\r\n${ok}`, "the status line is unusual"],
  ["HTTP/1.2", `HTTP/1.2 200 OK\r\n${ok}`, null],
  ["HTTP/2", `HTTP/2 200 OK\r\n${ok}`, "the status line is unusual"],
  ["HTTP/0.9", "<html>ok", null],
  ["a status of two digits", `HTTP/1.1 20 OK\r\n${ok}`, null],
  ["a status of four digits", `HTTP/1.1 2000 OK\r\n${ok}`, null],
  ["a status of letters", `HTTP/1.1 2OO OK\r\n${ok}`, null],
  ["no empty line", "HTTP/1.1 200 OK\r\nX-A: b\r\n", "it ends without an empty line"],
  ["a short body", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", null],
  ["more than the body", `HTTP/1.1 200 OK\r\n${ok}more`, null],
  [
    "a fault in an interim answer",
    `HTTP/1.1 103 Early\r\nLink : a\r\n\r\nHTTP/1.1 200 OK\r\n${ok}`,
    "Link: a space is before its colon",
  ],
];

/** What curl prints, whatever the transfers end with. */
const run = (args: readonly string[]): Promise<string> =>
  new Promise((settle) => execFile("curl", args, (_error, stdout) => settle(stdout)));

t.test("heads: what curl reads is read, with one warning for a faulty field", async (t) => {
  // Other versions accept other shapes.
  const isCompared = (await run(["--version"])).startsWith("curl 7.88.");
  if (!isCompared) {
    const why = "there is no curl 7.88: install curl of Debian 12";
    if (process.env["SM_TEST_REQUIRE"]?.split(",").includes("curl") === true) t.fail(`curl is required: ${why}`);
    else t.pass("needs curl", { skip: why });
  }
  const urls = await Promise.all(
    heads.map(([, bytes]) => saying(t, typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes)),
  );
  const codes: string[] = [];
  // Some refusals end the transfers that follow in the same process.
  while (isCompared && codes.length < urls.length) {
    const outputs = urls.slice(codes.length).flatMap((url) => ["-o", "/dev/null", url]);
    codes.push(...(await run(["-s", "-m", "5", "-w", "%{exitcode}\n", ...outputs])).trim().split("\n"));
  }
  for (const [at, [what, , fault]] of heads.entries()) {
    const { status, warnings } = await ask(urls[at]!);
    t.strictSame(warnings, fault === null ? [] : [`malformed head: ${fault}`], what);
    if (isCompared) t.equal(status, codes[at] === "0" ? "up" : "down", `${what}: as curl`);
  }
  const url = await saying(t, Buffer.from(`HTTP/1.1 200 OK\r\nX-A: café\r\nX-B: caf\xe9\r\n${ok}`, "latin1"));
  const utf8 = await saying(t, Buffer.from(`HTTP/1.1 200 OK\r\nX-A: café\r\n${ok}`));
  const header = (name: string) => ({ expected_headers: [{ name, op: "eq" as const, value: "café" }] });
  t.strictSame(await ask(url, header("x-b")), up, "latin1");
  t.strictSame(await ask(utf8, header("x-a")), up, "UTF-8");
});
