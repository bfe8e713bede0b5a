import { createServer, type AddressInfo, type Socket } from "node:net";
import { createSecureContext, createServer as createTlsServer, type TlsOptions } from "node:tls";
import { generate } from "selfsigned";
import t, { type Test } from "tap";
import { dial, type DialTrace } from "./dial.ts";
import { secure, type SecureOptions } from "./tls.ts";

const dayMs = 86_400_000;
const never = new AbortController().signal;

type Pems = { private: string; cert: string };

const authority = await generate([{ name: "commonName", value: "Test authority" }], {
  algorithm: "sha256",
  keyType: "ec",
  extensions: [
    { name: "basicConstraints", cA: true, critical: true },
    { name: "keyUsage", keyCertSign: true, critical: true },
  ],
});

/** A certificate of the test authority for a name, valid from and until so many days from now. */
function certificate(name: string, fromDays: number, untilDays: number): Promise<Pems> {
  return generate([{ name: "commonName", value: name }], {
    algorithm: "sha256",
    keyType: "ec",
    notBeforeDate: new Date(Date.now() + fromDays * dayMs),
    notAfterDate: new Date(Date.now() + untilDays * dayMs),
    extensions: [
      {
        name: "subjectAltName",
        altNames: [
          { type: 2, value: name },
          { type: 7, ip: "127.0.0.1" },
        ],
      },
    ],
    ca: { key: authority.private, cert: authority.cert },
  });
}

async function serve(
  t: Test,
  pems: Pems,
  options: TlsOptions = {},
): Promise<{ port: number; received: () => string; servername: () => unknown }> {
  let received = "";
  let servername: unknown;
  const server = createTlsServer({ key: pems.private, cert: pems.cert, ...options }, (socket) => {
    servername = socket.servername;
    socket.on("data", (chunk) => (received += chunk.toString()));
    socket.on("error", () => undefined);
    socket.on("end", () => socket.end());
  });
  server.on("tlsClientError", () => undefined);
  await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
  t.teardown(() => server.close());
  return { port: (server.address() as AddressInfo).port, received: () => received, servername: () => servername };
}

async function shake(port: number, options: Partial<SecureOptions> = {}) {
  const { socket } = await dial({ host: "127.0.0.1", port, allowPrivate: true, signal: never });
  try {
    return await secure({ socket, host: "www.example.org", verify: true, signal: never, ...options });
  } catch (error) {
    t.ok(socket.destroyed, "a failed handshake leaves no socket");
    throw error;
  }
}

const trusted = createSecureContext({ ca: authority.cert });

t.test("a valid certificate", async (t) => {
  const { port, received, servername } = await serve(t, await certificate("www.example.org", -1, 30));
  const trace: DialTrace = { overdue: "", dns_ms: null, connect_ms: null, tls_ms: null };
  const socket = await shake(port, { context: trusted, trace });
  t.ok(socket.authorized);
  t.ok((trace.tls_ms ?? -1) > 0);
  t.equal(trace.overdue, "TLS handshake timed out after");
  socket.end("hello");
  await new Promise((settle) => socket.once("close", settle));
  t.equal(received(), "hello");
  t.equal(servername(), "www.example.org", "the name is sent");

  const byAddress = await shake(port, { context: trusted, host: "127.0.0.1" });
  byAddress.end();
  await new Promise((settle) => byAddress.once("close", settle));
  t.notOk(servername(), "an address is compared with the certificate, but never sent as a name");
});

t.test("errors of invalid certificates", async (t) => {
  const cases: [string, Promise<Pems>, Partial<SecureOptions>, string][] = [
    ["expired", certificate("www.example.org", -30, -3.5), {}, "certificate expired 3 days ago"],
    ["expired just now", certificate("www.example.org", -30, -0.1), {}, "certificate expired less than a day ago"],
    ["not valid yet", certificate("www.example.org", 1.5, 30), {}, "certificate is not valid for another 1 day"],
    [
      "for another name",
      certificate("other.example.org", -1, 30),
      {},
      "certificate is not for www.example.org (it is for other.example.org, 127.0.0.1)",
    ],
    [
      "of an unknown authority",
      certificate("www.example.org", -1, 30),
      { context: createSecureContext() },
      "certificate is signed by an authority that is not trusted here, or an intermediate certificate is missing",
    ],
    [
      "self-signed",
      generate([{ name: "commonName", value: "www.example.org" }], { algorithm: "sha256", keyType: "ec" }),
      {},
      "certificate is self-signed",
    ],
  ];
  for (const [what, pems, options, message] of cases) {
    const { port, received } = await serve(t, await pems);
    await t.rejects(
      shake(port, { context: trusted, ...options }),
      { name: "DialError", phase: "certificate", message, transport: false },
      what,
    );
    t.equal(received(), "", "nothing was sent");
    const accepted = await shake(port, { verify: false });
    t.notOk(accepted.authorized, "without verification it is accepted");
    accepted.destroy();
  }
});

t.test("old protocol versions are offered only without verification", async (t) => {
  const { port } = await serve(t, await certificate("www.example.org", -1, 30), {
    minVersion: "TLSv1",
    maxVersion: "TLSv1",
    ciphers: "DEFAULT@SECLEVEL=0",
  });
  await t.rejects(shake(port, { context: trusted }), {
    phase: "tls",
    message: "the server offers no secure TLS version (1.2 or later)",
  });
  const accepted = await shake(port, { verify: false });
  t.equal(accepted.getProtocol(), "TLSv1");
  accepted.destroy();
});

t.test("servers without TLS", async (t) => {
  const serveRaw = async (onConnection: (socket: Socket) => void) => {
    const server = createServer((socket) => {
      socket.on("error", () => undefined);
      t.teardown(() => socket.destroy());
      onConnection(socket);
    });
    await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
    t.teardown(() => server.close());
    return (server.address() as AddressInfo).port;
  };
  const plain = await serveRaw((socket) => socket.once("data", () => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n")));
  await t.rejects(shake(plain), { phase: "tls", message: "the server does not speak TLS on this port" });
  const closing = await serveRaw((socket) => socket.once("data", () => socket.end()));
  await t.rejects(shake(closing), {
    phase: "tls",
    message: "connection closed by peer during the TLS handshake",
    transport: true,
  });
  const resetting = await serveRaw((socket) => socket.once("data", () => socket.resetAndDestroy()));
  await t.rejects(shake(resetting), {
    phase: "tls",
    message: "connection closed by peer during the TLS handshake",
  });

  const silent = await serveRaw(() => undefined);
  await t.rejects(shake(silent, { signal: AbortSignal.timeout(100) }), {
    phase: "tls",
    message: "TLS handshake timed out",
  });
  const controller = new AbortController();
  const waiting = shake(silent, { signal: controller.signal });
  const reason = new Error("not interested any more");
  setTimeout(() => controller.abort(reason), 20);
  await t.rejects(waiting, reason);
});
