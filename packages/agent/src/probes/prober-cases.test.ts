import type { AddressInfo, Socket } from "node:net";
import { createServer as createTlsServer, TLSSocket } from "node:tls";
import { generate } from "selfsigned";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { checkKinds } from "@statusmesh/shared/checks";
import type { TcpCheck } from "@statusmesh/shared/checks/tcp";
import { trustAlso } from "@statusmesh/shared/net/tls";
import { validate } from "@statusmesh/shared/schema/validate";
import { outcomeOf, tcpServer, testRunner } from "../testing.ts";

/*
 * The cases of prober/tcp_test.go of blackbox_exporter (prometheus/blackbox_exporter at 01e2b32c), as tcp and tls_cert
 * checks: the same servers, and the same verdicts. Each test has the name that it has there.
 */

const dayMs = 86_400_000;
const now = Math.floor(Date.now() / 1000) * 1000;
const runner = testRunner({ lookup: async () => ["127.0.0.1"] });

async function run(type: "tcp" | "tls_cert", change: object) {
  const spec = validate(checkKinds[type].schema, { type, timeout: 5000, ...change });
  return (await outcomeOf(runner.run("org", { ...spec }))).measurement;
}

async function ask(t: Test, change: Partial<TcpCheck>, serve: (socket: Socket) => void): Promise<string> {
  const { port } = await tcpServer(t, serve);
  const { status } = await run("tcp", { host: "127.0.0.1", port, ...change });
  return status;
}

const issue = async (days: number, ca?: { cert: string; private: string }, keyPair?: object) =>
  // OpenSSL takes a certificate whose issuer has the name of its subject for self-signed.
  await generate([{ name: "commonName", value: ca === undefined ? "localhost" : "leaf" }], {
    keyType: "ec",
    algorithm: "sha256",
    notAfterDate: new Date(now + days * dayMs),
    extensions: [
      { name: "basicConstraints", cA: ca === undefined },
      { name: "subjectAltName", altNames: [{ type: 2, value: "localhost" }] },
    ],
    ...(ca === undefined ? {} : { ca: { key: ca.private, cert: ca.cert } }),
    ...keyPair,
  });

async function serveTls(t: Test, cert: string, key: string): Promise<number> {
  const server = createTlsServer({ cert, key, maxVersion: "TLSv1.2" }, (socket) => {
    socket.on("error", () => undefined).end("Hello World!\n");
  });
  server.on("tlsClientError", () => undefined);
  await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
  t.teardown(() => server.close());
  return (server.address() as AddressInfo).port;
}

t.test("TestTCPConnection, TestTCPConnectionFails", async (t) => {
  t.equal(await ask(t, {}, (socket) => void socket.end()), "up");
  const { port, server } = await tcpServer(t, () => undefined);
  await new Promise((settle) => server.close(settle));
  t.equal((await run("tcp", { host: "127.0.0.1", port })).status, "down");
});

t.test("TestTCPConnectionWithTLS", async (t) => {
  const own = await issue(1);
  trustAlso([own.cert]);
  const port = await serveTls(t, own.cert, own.private);
  const status = async (change: object) => (await run("tcp", { port, tls: "tls", ...change })).status;
  t.equal(await status({ host: "127.0.0.1" }), "down", "an address that the certificate does not have");
  t.equal(await status({ host: "localhost" }), "up", "the name of the target");
  t.equal(await status({ host: "127.0.0.1", server_name: "localhost" }), "up", "the name of the configuration");
  const { details } = await run("tls_cert", { host: "localhost", port, warn_days: 1, critical_days: 0 });
  matchObject(t, details, { not_after: new Date(now + dayMs).toISOString() });
});

t.test("TestTCPConnectionWithTLSAndVerifiedCertificateChain", async (t) => {
  const older = await issue(1);
  // The same key and name, and a later end.
  const root = await issue(3, undefined, { keyPair: { privateKey: older.private, publicKey: older.public } });
  const leaf = await issue(2, older);
  trustAlso([root.cert, older.cert]);
  const port = await serveTls(t, `${leaf.cert}\n${older.cert}`, leaf.private);
  matchObject(t, await run("tcp", { host: "localhost", port, tls: "tls" }), { status: "up", error: null });
  const { details } = await run("tls_cert", {
    host: "localhost",
    port,
    judge: "chain",
    warn_days: 1,
    critical_days: 0,
  });
  matchObject(t, details, { not_after: new Date(now + 2 * dayMs).toISOString() }, "probe_ssl_last_chain_expiry");
});

t.test("TestTCPConnectionQueryResponseStartTLS", async (t) => {
  const own = await issue(1);
  trustAlso([own.cert]);
  const change = { server_name: "localhost", tls: "starttls_smtp", send: "EHLO tls.prober\\n", expect: "250-AUTH" };
  const answers: Record<string, string> = {
    EHLO: "250-pseudo-server.example.net\n250-STARTTLS\n250 DSN\n",
    STARTTLS: "220 2.0.0 Ready to start TLS\n",
  };
  const serve = (socket: Socket): void => {
    socket.write("220 ESMTP StartTLS pseudo-server\n");
    socket.on("data", (line) => {
      const word = line.toString().trim().split(" ")[0]!;
      if (word === "STARTTLS") socket.removeAllListeners("data");
      socket.write(answers[word]!);
      if (word !== "STARTTLS") return;
      const inner = new TLSSocket(socket, { isServer: true, cert: own.cert, key: own.private });
      inner.on("error", () => undefined).on("data", () => inner.write("250-AUTH\n250 DSN\n"));
    });
  };
  t.equal(await ask(t, change as Partial<TcpCheck>, serve), "up");
});

t.test("TestTCPConnectionQueryResponseIRC", async (t) => {
  const nick = { send: "NICK prober\\nUSER prober prober prober :prober\\n", expect: " 001 prober" };
  const irc = (answer: string) => (socket: Socket) => {
    socket.write(":ircd.localhost NOTICE AUTH :*** Looking up your hostname...\n");
    socket.on("data", () => socket.end(answer));
  };
  t.equal(await ask(t, nick, irc(":ircd.localhost 001 prober :Welcome to IRC!\n")), "up");
  t.equal(await ask(t, nick, irc("ERROR: Your IP address has been blacklisted.\n")), "down");
});

t.test("TestTCPConnectionQueryResponseMatching", async (t) => {
  const ssh = { greeting: "SSH-2.0-OpenSSH_6.9p1", send: "CONFIRM\\n", expect: "CONFIRM" };
  const serve = (socket: Socket) => {
    socket.write("SSH-2.0-OpenSSH_6.9p1 Debian-8\n");
    socket.on("data", (line) => socket.end(line));
  };
  t.equal(await ask(t, ssh, serve), "up");
  t.equal(await ask(t, { ...ssh, expect: "NOT CONFIRMED" }, serve), "down");
});
