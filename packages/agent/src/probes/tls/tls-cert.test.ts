import { type AddressInfo, connect, type Socket } from "node:net";
import { createServer, createSecureContext, type TlsOptions } from "node:tls";
import { generate } from "selfsigned";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import type { TlsCertCheck } from "@statusmesh/shared/checks/tls-cert";
import { errorInWords } from "@statusmesh/shared/checks";
import { FakeClock, outcomeOf, tcpServer, testRunner } from "../../testing.ts";

const dayMs = 86_400_000;
const runner = testRunner();

const check = (port: number, change: Partial<TlsCertCheck> = {}): TlsCertCheck => ({
  type: "tls_cert",
  host: "127.0.0.1",
  port,
  server_name: null,
  warn_days: 14,
  critical_days: 7,
  timeout: 5000,
  ...change,
});

async function run(port: number, change: Partial<TlsCertCheck> = {}, with_ = runner) {
  const { measurement, skip } = await outcomeOf(with_.run("org", { ...check(port, change) }));
  return { ...measurement, skip };
}

/** A certificate that ends so many ms from `now`, at a whole second as certificates do. */
const certificate = (untilMs: number, name = "www.example.org", now = Date.now()) =>
  generate([{ name: "commonName", value: name }], {
    algorithm: "sha256",
    keyType: "ec",
    notBeforeDate: new Date(now - 100 * dayMs),
    notAfterDate: new Date(Math.floor((now + untilMs) / 1000) * 1000),
  });

/**
 * A TLS server that notes the names and the protocols that it was asked for, and whether its clients went away as they
 * should.
 */
async function serve(
  t: Test,
  options: TlsOptions,
): Promise<{ port: number; asked: unknown[]; protocols: unknown[]; ended: (count: number) => Promise<unknown[]> }> {
  const asked: unknown[] = [];
  const ends: unknown[] = [];
  const protocols: unknown[] = [];
  const sockets = new Set<Socket>();
  const server = createServer(options, (socket) => {
    // Set by Node, and not declared.
    asked.push((socket as unknown as { servername: unknown }).servername);
    protocols.push(socket.alpnProtocol);
    socket.resume().once("end", () => ends.push("end"));
    socket.on("error", (error) => ends.push(error));
  });
  const ended = async (count: number): Promise<unknown[]> => {
    while (ends.length < count) await new Promise((settle) => setTimeout(settle, 5));
    return ends;
  };
  server.on("connection", (socket: Socket) => sockets.add(socket));
  server.on("tlsClientError", () => undefined);
  await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, asked, protocols, ended };
}

const serveFor = async (t: Test, days: number, name?: string) => {
  const { private: key, cert } = await certificate(days * dayMs, name);
  return await serve(t, { key, cert });
};

t.test("up: nothing is said, and the phases are measured", async (t) => {
  const { port, asked, protocols, ended } = await serveFor(t, 60.5);
  const result = await run(port);
  matchObject(t, result, {
    status: "up",
    error: null,
    dns_ms: null,
    ttfb_ms: null,
    http_status: null,
    response_size: null,
    skip: false,
  });
  t.ok((result.connect_ms ?? 0) > 0 && (result.tls_ms ?? 0) > 0);
  t.ok(
    (result.total_ms ?? 0) >= (result.connect_ms ?? 0) + (result.tls_ms ?? 0) - 0.01,
    "the phases are parts of the whole",
  );
  t.strictSame(await ended(1), ["end"], "the server sees a connection that was closed, not one that broke");
  t.strictSame(asked, [false], "an address is not sent as a server name");
  t.strictSame(protocols, [false], "no protocol is offered");
  const named = testRunner({ lookup: async () => ["127.0.0.1"] });
  t.ok(((await run(port, { host: "shop.example.org" }, named)).dns_ms ?? 0) > 0);
  await run(port, { host: "shop.example.org.", server_name: "Other.Example.ORG." }, named);
  await run(port, { server_name: "bücher.example" });
  await ended(4);
  t.strictSame(
    asked.slice(1),
    ["shop.example.org", "other.example.org", "xn--bcher-kva.example"],
    "the name of the host, or the one given",
  );
});

t.test("days remaining decide", async (t) => {
  // The whole table on one clock, to the second: a certificate ends at a whole one.
  const now = Math.floor(Date.now() / 1000) * 1000;
  const at = testRunner({ clock: new FakeClock(now) });
  const { private: key, cert } = await certificate(10 * dayMs, "www.example.org", now);
  const { port } = await serve(t, { key, cert });
  const cases: [number, number, number, string][] = [
    [0, 10, 7, "up"],
    [1000, 10, 7, "degraded"],
    [0, 11, 7, "degraded"],
    [3 * dayMs, 14, 7, "degraded"],
    [3 * dayMs + 1000, 14, 7, "down"],
    [10 * dayMs, 1, 0, "degraded"],
    [9 * dayMs, 1, 0, "up"],
    [9 * dayMs + 1000, 1, 0, "degraded"],
    [10 * dayMs + 1000, 1, 0, "down"],
    [50 * dayMs, 1, 0, "down"],
  ];
  for (const [later, warn_days, critical_days, status] of cases) {
    const then = later === 0 ? at : testRunner({ clock: new FakeClock(now + later) });
    const result = await run(port, { warn_days, critical_days }, then);
    t.equal(result.status, status, `${later / dayMs} days later, warn ${warn_days}, critical ${critical_days}`);
    const details = {
      days_remaining: Math.floor((10 * dayMs - later) / dayMs),
      not_after: new Date(now + 10 * dayMs).toISOString(),
      subject_common_name: "www.example.org",
      issuer_common_name: "www.example.org",
    };
    t.strictSame(result.details, details, "whatever the status");
    if (status === "up") t.equal(result.error, null);
    else t.equal(result.error, JSON.stringify(details));
  }
});

t.test("what people read", async (t) => {
  const document = (days_remaining: number, name: string | null = "www.example.org") =>
    JSON.stringify({
      days_remaining,
      not_after: "2026-11-26T10:00:00.000Z",
      subject_common_name: name,
      issuer_common_name: "R11",
    });
  for (const [days, words] of [
    [5, "certificate of www.example.org expires in 5 days, on 2026-11-26"],
    [1, "certificate of www.example.org expires in 1 day, on 2026-11-26"],
    [0, "certificate of www.example.org expires in less than a day, on 2026-11-26"],
    [-1, "certificate of www.example.org expired less than a day ago, on 2026-11-26"],
    [-2, "certificate of www.example.org expired 1 day ago, on 2026-11-26"],
    [-9, "certificate of www.example.org expired 8 days ago, on 2026-11-26"],
  ] as const)
    t.equal(errorInWords(document(days)), words);
  t.equal(errorInWords(document(3, null)), "certificate expires in 3 days, on 2026-11-26");
  for (const other of ["connection refused", "{", '{"a":1}', "[{}]", 'the body does not contain "{}"', "null"])
    t.equal(errorInWords(other), other, "anything else stays as it is");
});

t.test("names: none, several, long and ugly ones leave the document whole", async (t) => {
  const of = async (names: { shortName: string; value: string }[]) => {
    const { private: key, cert } = await generate(names, {
      algorithm: "sha256",
      keyType: "ec",
      notAfterDate: new Date(Date.now() + dayMs),
    });
    const { port } = await serve(t, { key, cert });
    const { error } = await run(port);
    return JSON.parse(error ?? "") as Record<string, unknown>;
  };
  matchObject(t, await of([{ shortName: "O", value: "Acme" }]), {
    subject_common_name: null,
    issuer_common_name: null,
  });
  matchObject(
    t,
    await of([
      { shortName: "CN", value: "outer" },
      { shortName: "CN", value: "inner" },
    ]),
    { subject_common_name: "inner" },
  );
  matchObject(t, await of([{ shortName: "CN", value: 'quote " zero\u0000end' }]), {
    subject_common_name: 'quote " zero end',
  });
  matchObject(t, await of([{ shortName: "CN", value: "" }]), { subject_common_name: null });
  matchObject(t, await of([{ shortName: "CN", value: "漢".repeat(500) }]), { subject_common_name: "漢".repeat(200) });
});

t.test("which certificate depends on the name that is asked for", async (t) => {
  const [short, long] = [
    await certificate(3 * dayMs, "default.example.org"),
    await certificate(300 * dayMs, "shop.example.org"),
  ];
  const { port } = await serve(t, {
    key: short.private,
    cert: short.cert,
    SNICallback: (name, done) =>
      done(
        null,
        createSecureContext(
          name === "shop.example.org"
            ? { key: long.private, cert: long.cert }
            : { key: short.private, cert: short.cert },
        ),
      ),
  });
  matchObject(t, await run(port), { status: "down", error: /"subject_common_name":"default.example.org"/ });
  matchObject(t, await run(port, { server_name: "shop.example.org" }), { status: "up", error: null });
});

t.test("a server that speaks another protocol than HTTP is not offered HTTP, which it would hang up on", async (t) => {
  const { private: key, cert } = await certificate(99 * dayMs);
  const { port } = await serve(t, { key, cert, ALPNProtocols: ["imap"] });
  matchObject(t, await run(port), { status: "up", error: null });
});

t.test("old servers are reached: TLS 1.0, a weak key", async (t) => {
  const { private: key, cert } = await generate([{ name: "commonName", value: "old.example.org" }], {
    algorithm: "sha1",
    keySize: 1024,
    notAfterDate: new Date(Date.now() + 99 * dayMs),
  });
  const { port } = await serve(t, { key, cert, minVersion: "TLSv1", maxVersion: "TLSv1", ciphers: "ALL:@SECLEVEL=0" });
  matchObject(t, await run(port), { status: "up", error: null });
});

/**
 * Stands between client and server up to TLS 1.2, and may change what the server says first. Whatever the client
 * answers to it, it hears the alert `handshake failure`.
 */
async function refusing(
  t: Test,
  behind: number,
  change: (bytes: Buffer) => Buffer = (same) => same,
  alert = 40,
): Promise<number> {
  const { port } = await tcpServer(t, (client) => {
    const server = connect(behind, "127.0.0.1");
    server.on("error", () => undefined);
    client.once("close", () => server.destroy());
    server.once("data", (hello: Buffer) => client.write(change(hello)));
    client.once("data", (hello: Buffer) => {
      server.write(hello);
      client.once("data", () => client.end(Buffer.from([21, 3, 3, 0, 2, 2, alert])));
    });
  });
  return port;
}

/**
 * A ServerHello without the extension renegotiation_info (RFC 5746 section 3.2), as servers of before it send: in a
 * record of its own, with the lengths that follow from it.
 */
function withoutRenegotiationInfo(bytes: Buffer): Buffer {
  const info = Buffer.from("ff01000100", "hex");
  const at = bytes.indexOf(info);
  if (at < 0) throw new Error("the server sent no renegotiation_info");
  const changed = Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + info.length)]);
  // The session id is 32 bytes or none; the extensions come after it, the cipher suite and the compression.
  const extensions = 5 + 4 + 2 + 32 + 1 + (bytes[43] ?? 0) + 3;
  for (const [field, size] of [
    [3, 2],
    [6, 3],
    [extensions, 2],
  ] as const)
    changed.writeUIntBE(changed.readUIntBE(field, size) - info.length, field, size);
  return changed;
}

t.test(
  "the certificate is read where the server requires a client certificate, or cannot renegotiate safely",
  async (t) => {
    const { private: key, cert } = await certificate(99 * dayMs);
    const { port } = await serve(t, { key, cert, requestCert: true, rejectUnauthorized: true, maxVersion: "TLSv1.2" });
    matchObject(t, await run(await refusing(t, port)), { status: "up", error: null });
    matchObject(t, await run(await refusing(t, port), { warn_days: 365 }), {
      status: "degraded",
      error: /"days_remaining":98/,
    });
    matchObject(
      t,
      await run(await refusing(t, port, withoutRenegotiationInfo)),
      { status: "up", error: null },
      "no safe renegotiation",
    );
    matchObject(
      t,
      await run(await refusing(t, port, undefined, 50)),
      { status: "up", error: null },
      "decode_error of GnuTLS",
    );
  },
);

t.test("what keeps the certificate from being read is an error in words", async (t) => {
  const { private: key, cert } = await certificate(99 * dayMs);
  const anonymous = await serve(t, { ciphers: "aNULL:@SECLEVEL=0", maxVersion: "TLSv1.2", dhparam: "auto" });
  matchObject(
    t,
    await run(anonymous.port),
    { status: "error", error: /^TLS handshake failed: the server sent the alert "handshake failure"$/ },
    "a server without a certificate",
  );
  const shared = await serve(t, {
    ciphers: "PSK:@SECLEVEL=0",
    maxVersion: "TLSv1.2",
    pskCallback: () => Buffer.alloc(16),
  });
  matchObject(
    t,
    await run(shared.port),
    { status: "error", error: /^TLS handshake failed: the server sent the alert "handshake failure"$/ },
    "a server with a shared key instead",
  );
  const strict = await serve(t, { key, cert, requestCert: true, rejectUnauthorized: true, minVersion: "TLSv1.3" });
  matchObject(
    t,
    await run(strict.port),
    { status: "up", error: null },
    "one that wants a certificate of the client shows its own first",
  );

  const hostile = async (answer: (socket: Socket) => void) => run((await tcpServer(t, answer)).port, { timeout: 1000 });
  matchObject(t, await hostile((socket) => socket.end("220 mail.example.org ESMTP\r\n")), {
    status: "error",
    error: "the server does not speak TLS on this port",
  });
  matchObject(t, await hostile((socket) => socket.once("data", () => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"))), {
    status: "error",
    error: "the server does not speak TLS on this port",
  });
  const closed = "connection closed by peer during the TLS handshake";
  matchObject(t, await hostile((socket) => socket.once("data", () => socket.resetAndDestroy())), {
    status: "error",
    error: closed,
  });
  matchObject(t, await hostile((socket) => socket.once("data", () => socket.end())), {
    status: "error",
    error: closed,
  });
  // A ServerHello that never gets to its end.
  matchObject(
    t,
    await hostile((socket) => socket.once("data", () => socket.end(Buffer.from("160303003a0200003603", "hex")))),
    { status: "error", error: closed },
  );
  matchObject(
    t,
    await hostile((socket) => socket.once("data", () => socket.write(Buffer.from("160303003a0200003603", "hex")))),
    {
      status: "error",
      error: "TLS handshake timed out after 1.0 s",
    },
  );
  matchObject(t, await hostile(() => undefined), {
    status: "error",
    error: "TLS handshake timed out after 1.0 s",
    tls_ms: null,
    skip: false,
  });

  const { port, server } = await tcpServer(t, () => undefined);
  await new Promise((settle) => server.close(settle));
  matchObject(t, await run(port), { status: "error", error: "connection refused" });
  const nowhere = testRunner({ lookup: () => new Promise(() => undefined) });
  matchObject(t, await run(port, { host: "slow.example.org", timeout: 200 }, nowhere), {
    status: "error",
    error: "name resolution timed out after 0.2 s",
  });
});

t.test("the guard looks at every address, at the time of the connection", async (t) => {
  const { port, asked } = await serveFor(t, 60);
  const guarded = testRunner({ allowPrivate: false, lookup: async () => ["93.184.215.14", "127.0.0.1"] });
  matchObject(t, await run(port, {}, guarded), {
    status: "error",
    error: "address 127.0.0.1 is blocked (127.0.0.0/8)",
  });
  matchObject(t, await run(port, { host: "rebound.example.org" }, guarded), {
    status: "error",
    error: "the name has no public address: it does not exist, or it leads to a network that is not public",
  });
  t.strictSame(asked, []);
});

t.test("nothing stays behind", async (t) => {
  const closed: Promise<void>[] = [];
  const { port } = await tcpServer(
    t,
    (socket) => void closed.push(new Promise((settle) => socket.resume().once("close", () => settle()))),
  );
  const hanging = runner.run("org", { ...check(port) });
  const accepted = async (count: number): Promise<void> => {
    while (closed.length < count) await new Promise((settle) => setTimeout(settle, 5));
  };
  await accepted(1);
  hanging.abandon();
  t.equal(await hanging.done, null);
  await run(port, { timeout: 100 });
  await accepted(2);
  await Promise.all(closed);
  t.pass("both connections are closed");
});
