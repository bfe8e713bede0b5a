import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo, Server } from "node:net";
import { generate } from "selfsigned";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { ExpectedStatus, HttpCheck } from "@statusmesh/shared/checks/http";
import { httpCheck, outcomeOf, testRunner } from "../../testing.ts";
import { BodyReader } from "./body.ts";

/* What each field of an http check does to the request on the wire, and to the verdict. */

const runner = testRunner();
const here = testRunner({ lookup: async () => ["127.0.0.1"] });

async function run(url: string, change: Partial<HttpCheck> = {}, with_ = runner, onDemand = true) {
  const { measurement, warnings } = await outcomeOf(with_.run("org", { ...httpCheck(url, change) }, onDemand));
  return { ...measurement, warnings };
}

/** The verdict, and exactly these warnings: a pattern without elements would match any. */
async function warned(
  t: Test,
  result: ReturnType<typeof run>,
  pattern: object,
  warnings: readonly string[],
  what = "",
): Promise<void> {
  const found = await result;
  matchObject(t, found, pattern, what);
  t.strictSame(found.warnings, warnings, what);
}

async function listen(t: Test, server: Server & { closeAllConnections(): void }, host = "127.0.0.1"): Promise<number> {
  await new Promise<void>((settle, reject) => server.once("error", reject).listen(0, host, settle));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

const serve = (t: Test, listener: RequestListener, host?: string) =>
  listen(t, createServer({ maxHeaderSize: 128 * 1024 }, listener), host);

/** A server that notes what it was asked. */
async function noting(t: Test, host?: string): Promise<{ port: number; last: () => IncomingMessage }> {
  const seen: IncomingMessage[] = [];
  const port = await serve(t, (request, response) => (seen.push(request), response.end("ok")), host);
  return { port, last: () => seen.at(-1)! };
}

t.test("url: path and query of the request", async (t) => {
  const { port, last } = await noting(t);
  const at = `http://127.0.0.1:${port}`;
  const long = `/${"a".repeat(2048 - at.length - 1)}`;
  const cases: [string, string][] = [
    ["", "/"],
    ["/?", "/"],
    ["?a=1", "/?a=1"],
    ["/a/b?x=1&x=2&&=#part?no", "/a/b?x=1&x=2&&="],
    ["/?q='quoted'&<b>|{}^`[]\\\"", "/?q='quoted'&<b>|{}^`[]\\\""],
    ["/?sig=%2f%2F%zz+%20*~!$(),;:@/?", "/?sig=%2f%2F%zz+%20*~!$(),;:@/?"],
    ["/?q=grüße und mehr", "/?q=gr%C3%BC%C3%9Fe%20und%20mehr"],
    ["/grüße", "/gr%C3%BC%C3%9Fe"],
    ["/a/../b/./c", "/b/c"],
    ["/a%2f..%2fb", "/a%2f..%2fb"],
    ["//double//slash", "//double//slash"],
    [long, long],
  ];
  for (const [path, asked] of cases) {
    matchObject(t, await run(at + path), { status: "up", error: null }, path.slice(0, 60));
    t.equal(last().url, asked);
  }
  matchObject(
    t,
    await run(`http://user:secret@127.0.0.1:${port}/`),
    { status: "error", error: /^Credentials do not belong in the URL/ },
    "what the control plane would not let through is not sent",
  );
});

t.test("url: host and port", async (t) => {
  const { port, last } = await noting(t);
  const cases: [string, string][] = [
    [`http://WWW.Example.org:${port}/`, `www.example.org:${port}`],
    [`http://www.example.org.:${port}/`, `www.example.org.:${port}`],
    [`http://bücher.example:${port}/`, `xn--bcher-kva.example:${port}`],
    [`http://127.0.0.1:${port}/`, `127.0.0.1:${port}`],
    [`http://0x7f.1:${port}/`, `127.0.0.1:${port}`],
  ];
  for (const [url, host] of cases) {
    matchObject(t, await run(url, {}, here), { status: "up" }, url);
    t.equal(last().headers.host, host);
  }
  const six = await noting(t, "::1").catch(() => null);
  if (six === null) t.comment("no IPv6 on this machine");
  else {
    matchObject(t, await run(`http://[0:0::1]:${six.port}/`), { status: "up" });
    t.equal(six.last().headers.host, `[::1]:${six.port}`);
  }
});

t.test("several addresses: a dead one does not fail the check", async (t) => {
  const { port } = await noting(t, "127.0.0.2");
  const at = (...addresses: string[]) =>
    run(`http://two.example.org:${port}/`, {}, testRunner({ lookup: async () => addresses }));
  matchObject(t, await at("127.0.0.1", "127.0.0.2"), { status: "up", error: null });
  matchObject(t, await at("::1", "127.0.0.2"), { status: "up", error: null });
  matchObject(t, await at("127.0.0.1", "127.0.0.3"), { status: "down", error: "connection refused" });
  matchObject(t, await at(), { status: "down", error: "name has no address" });
});

t.test("SNI, verify_tls and warnings", async (t) => {
  const asked: unknown[] = [];
  const of = (days: number, name = "www.example.org") =>
    generate([{ name: "commonName", value: name }], {
      algorithm: "sha256",
      keyType: "ec",
      notBeforeDate: new Date(Date.now() - 100 * 86_400_000),
      notAfterDate: new Date(Date.now() + days * 86_400_000),
    });
  const tls = async (days: number) => {
    const { private: key, cert } = await of(days);
    const server = createTlsServer({ key, cert }, (request, response) => {
      // Set by Node, and not declared.
      asked.push((request.socket as unknown as { servername: unknown }).servername);
      response.end("ok");
    });
    return await listen(t, server);
  };
  const any = { verify_tls: false };
  const port = await tls(60);
  for (const [host, name] of [
    ["www.example.org", "www.example.org"],
    ["Bücher.example.", "xn--bcher-kva.example"],
    ["127.0.0.1", false],
  ] as const) {
    await warned(t, run(`https://${host}:${port}/`, any, here), { status: "up" }, [], host);
    t.equal(asked.at(-1), name);
  }
  await run(`https://www.example.org:${port}/`, { ...any, headers: { Host: "other.example.org" } }, here);
  t.equal(
    asked.at(-1),
    "www.example.org",
    "a Host header of the check's own does not change whom the connection is for",
  );
  matchObject(t, await run(`https://www.example.org:${port}/`, {}, here), {
    status: "down",
    error: "certificate is self-signed",
    http_status: null,
  });
  await warned(t, run(`https://www.example.org:${await tls(13.9)}/`, any, here), { status: "up" }, [
    "The certificate of www.example.org expires in 13 days.",
  ]);
  await warned(t, run(`https://www.example.org:${await tls(14.1)}/`, any, here), { status: "up" }, []);
  await warned(t, run(`https://www.example.org:${await tls(13.9)}/`, any, here, false), { status: "up" }, [
    "The certificate of www.example.org expires in 13 days.",
  ]);
  const expired = await tls(-3.5);
  await warned(t, run(`https://www.example.org:${expired}/`, any, here), { status: "up" }, [
    "The certificate of www.example.org has expired.",
  ]);
  matchObject(t, await run(`https://www.example.org:${expired}/`, {}, here), {
    status: "down",
    error: /^certificate (is self-signed|expired 3 days ago)$/,
  });
});

t.test("headers: default headers can be replaced, and none is sent twice", async (t) => {
  const { port, last } = await noting(t);
  const own = {
    host: "h.example.org",
    "USER-agent": "u/1",
    Accept: "text/x",
    "accept-encoding": "gzip",
    "Content-Type": "text/y",
    Authorization: "Own x",
  };
  await run(`http://127.0.0.1:${port}/`, { method: "POST", body: "x", headers: own });
  const names = last().rawHeaders.filter((_, at) => at % 2 === 0);
  t.equal(new Set(names.map((name) => name.toLowerCase())).size, names.length);
  for (const [name, value] of Object.entries(own)) t.equal(last().headers[name.toLowerCase()], value, name);
  t.ok(names.includes("USER-agent"), "names go out as they were written");
});

t.test("a redirect to another port or scheme is another origin; another path is not", async (t) => {
  const away = await noting(t);
  const secrets: Partial<HttpCheck> = {
    basic_auth: ["alice", "s3cret"],
    headers: { "X-Api-Key": "k3y", "X-Harmless": "1" },
  };
  let location = "";
  const home = await noting(t);
  const first = await serve(t, (_request, response) => response.writeHead(307, { location }).end());
  location = `http://127.0.0.1:${away.port}/there?x='1'`;
  await warned(
    t,
    run(`http://127.0.0.1:${first}/`, { ...secrets, method: "PUT", body: "data" }),
    { status: "up" },
    [],
    "the same host is no other host",
  );
  t.equal(last(away), "PUT /there?x='1'");
  for (const name of ["authorization", "x-api-key", "x-harmless", "content-type"])
    t.notOk(name in away.last().headers, name);
  t.equal(away.last().headers["content-length"], "0");
  location = "?page=2";
  matchObject(t, await run(`http://127.0.0.1:${first}/`, { ...secrets, max_redirects: 2 }), {
    status: "down",
    error: /^redirects in a circle: http:\/\/127\.0\.0\.1:\d+\/\?page=2$/,
  });
  location = `http://localhost.example.org:${home.port}/`;
  await warned(t, run(`http://127.0.0.1:${first}/`, {}, here), { status: "up" }, [
    `Redirected from http://127.0.0.1:${first} to http://localhost.example.org:${home.port}.`,
  ]);
  await warned(t, run(`http://127.0.0.1:${first}/`, {}, here, false), { status: "up" }, [], "no note by schedule");
  matchObject(
    t,
    await run(`http://127.0.0.1:${first}/`, {
      follow_redirects: false,
      expected_status: { kind: "exact", value: 307 },
    }),
    { status: "up", http_status: 307 },
  );

  function last(at: typeof away): string {
    return `${at.last().method} ${at.last().url}`;
  }
});

t.test("429 and 503 pass where every form of expected_status lists them", async (t) => {
  const port = await serve(t, (request, response) =>
    response.writeHead(Number(request.url?.slice(1)), { "retry-after": "7" }).end("calm"),
  );
  const ways: ((status: number) => ExpectedStatus)[] = [
    (value) => ({ kind: "exact", value }),
    (value) => ({ kind: "one_of", value: [200, value] }),
    (value) => ({ kind: "range", value: { min: value, max: value } }),
    () => ({ kind: "range", value: { min: 100, max: 599 } }),
  ];
  for (const status of [429, 503]) {
    const at = `http://127.0.0.1:${port}/${status}`;
    for (const way of ways) {
      const expected_status = way(status);
      matchObject(
        t,
        await run(at, { expected_status }),
        { status: "up", error: null, http_status: status },
        JSON.stringify(expected_status),
      );
      matchObject(t, await run(at, { expected_status, expected_body_contains: "calm" }), { status: "up" });
      matchObject(
        t,
        await run(at, { expected_status, expected_body_contains: "storm" }),
        { status: "down", error: 'the body does not contain "storm"' },
        "and then the body counts",
      );
    }
    matchObject(t, await run(at, { expected_body_contains: "calm" }), {
      status: "degraded",
      error: `rate-limited ${status} (Retry-After: 7)`,
    });
  }
});

t.test("expected_body_contains at any chunk boundaries", (t) => {
  const text = "abcabcabd—fin";
  const bytes = Buffer.from(text);
  for (const needle of ["abcabd", "abd—", "—", "n", text, "abcabcabc", "x"]) {
    for (let first = 0; first <= bytes.length; first++) {
      for (let second = first; second <= bytes.length; second++) {
        const reader = new BodyReader(needle);
        for (const part of [bytes.subarray(0, first), bytes.subarray(first, second), bytes.subarray(second)])
          reader.take(part);
        const found = reader.found;
        if (found !== text.includes(needle)) t.fail(`"${needle}" in chunks that end at ${first} and ${second}`);
      }
    }
    const reader = new BodyReader(needle);
    for (const byte of bytes) reader.take(Buffer.from([byte]));
    t.equal(reader.found, text.includes(needle), `"${needle}" byte by byte`);
  }
  t.end();
});

t.test("a response of exactly 1 MiB, and of one byte more", async (t) => {
  const port = await serve(t, (request, response) =>
    response.end(Buffer.alloc(1024 * 1024 + Number(request.url?.slice(1)), "x")),
  );
  for (const [more, warnings] of [
    [-1, []],
    [0, []],
    [1, ["The response is larger than 1 MiB; the rest of it was not read."]],
  ] as const) {
    const result = await run(`http://127.0.0.1:${port}/${more}`);
    matchObject(t, result, { status: "up", response_size: Math.min(1024 * 1024, 1024 * 1024 + more) }, `${more}`);
    t.strictSame(result.warnings, warnings);
  }
});
