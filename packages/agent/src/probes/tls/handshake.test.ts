import { writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { createServer } from "node:https";
import { join } from "node:path";
import { createServer as createTlsServer } from "node:tls";
import { generate } from "selfsigned";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { WebSocketServer } from "ws";
import { checkKinds, type ProbedType } from "@statusmesh/shared/checks";
import { validate } from "@statusmesh/shared/schema/validate";
import { commandHere, FakeClock, outcomeOf, testRunner } from "../../testing.ts";

/* What checks say of certificates, by kind: dates, chains, names, and authorities of the agent. */

const dayMs = 86_400_000;
const now = Date.now();
const host = "localhost";

interface Pair {
  cert: string;
  private: string;
}

/** A certificate that is valid from and until so many days from now. */
async function issue(
  name: string,
  { from = -100, until = 100, ca, names = true }: { from?: number; until?: number; ca?: Pair; names?: boolean } = {},
  authority = false,
): Promise<Pair> {
  return await generate([{ name: "commonName", value: name }], {
    keyType: "ec",
    algorithm: "sha256",
    notBeforeDate: new Date(now + from * dayMs),
    notAfterDate: new Date(now + until * dayMs),
    extensions: [
      { name: "basicConstraints" as const, cA: authority, critical: true },
      ...(names && !authority
        ? [{ name: "subjectAltName" as const, altNames: [{ type: 2 as const, value: name }] }]
        : []),
    ],
    ...(ca === undefined ? {} : { ca: { key: ca.private, cert: ca.cert } }),
  });
}

const root = await issue("Root", { until: 400 }, true);
const between = await issue("Between", { until: 20, ca: root }, true);
const ended = await issue("Between", { from: -90, until: -3.5, ca: root }, true);

/** An https server that also answers WebSockets and sends a text first over plain TLS. */
async function serve(t: Test, leaf: Pair, ...others: Pair[]): Promise<{ https: number; tls: number }> {
  const options = { key: leaf.private, cert: [leaf, ...others].map(({ cert }) => cert).join("\n") };
  const https = createServer(options, (_request, response) => void response.end("ok"));
  const sockets = new WebSocketServer({
    server: https,
    handleProtocols: (offered) => (offered.has("chat.v2") ? "chat.v2" : false),
  });
  const tls = createTlsServer(options, (socket) => void socket.on("error", () => undefined).end("hello"));
  for (const server of [https, tls]) {
    server.on("tlsClientError", () => undefined);
    await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
    t.teardown(() => server.close());
  }
  t.teardown(() => {
    for (const client of sockets.clients) client.terminate();
    https.closeAllConnections();
  });
  const portOf = (server: typeof tls) => (server.address() as AddressInfo).port;
  return { https: portOf(https), tls: portOf(tls) };
}

const runner = testRunner({ lookup: async () => ["127.0.0.1"] });

async function run(type: ProbedType, spec: object, by = runner) {
  const check = validate(checkKinds[type].schema, { type, timeout: 5000, ...spec });
  const { measurement, warnings, certificateNotAfter } = await outcomeOf(by.run("org", { ...check }));
  return { ...measurement, warnings, certificateNotAfter };
}

const kinds = ({ https, tls }: { https: number; tls: number }, verify_tls = false) =>
  [
    ["http", { url: `https://${host}:${https}/`, verify_tls }],
    ["websocket", { url: `wss://${host}:${https}/`, verify_tls }],
    ["tcp", { host, port: tls, tls: "tls", expect: "hello", verify_tls }],
  ] as const;

t.test("warnings of what is accepted, the same for every kind", async (t) => {
  const unknown = (issuer: string, subject: string) =>
    `localhost does not send the certificate of ${issuer}, which issued ${subject} and is not trusted here: an ` +
    "intermediate certificate is missing, or the authority is an internal one.";
  const day = new Date(now - 3.5 * dayMs).toISOString().slice(0, 10);
  const leaf = await issue(host, { ca: between });
  const cases: [string, Pair[], string[]][] = [
    ["a whole chain", [leaf, between, root], []],
    ["a missing intermediate", [leaf], [unknown("Between", "localhost")]],
    ["an authority that is not trusted", [leaf, between], [unknown("Root", "Between")]],
    [
      "an ended intermediate",
      [await issue(host, { ca: ended }), ended, root],
      [`localhost sends a certificate that has ended: Between expired 3 days ago, on ${day}.`],
    ],
    [
      "a name only as common name",
      [await issue(host, { ca: between, names: false }), between, root],
      [
        "The certificate of localhost has its name only as common name, which browsers ignore: it needs a " +
          "subjectAltName.",
      ],
    ],
    [
      "23 hours left",
      [await issue(host, { until: 23 / 24 })],
      ["The certificate of localhost expires in less than a day."],
    ],
    ["13 days left", [await issue(host, { until: 13.5 })], ["The certificate of localhost expires in 13 days."]],
  ];
  for (const [what, chain, warnings] of cases) {
    const ports = await serve(t, ...(chain as [Pair]));
    for (const [type, spec] of kinds(ports)) {
      const result = await run(type, spec);
      t.strictSame([result.status, result.warnings], ["up", warnings], `${type}: ${what}`);
      t.ok(result.certificateNotAfter, `${type} keeps the end of the certificate`);
    }
    const { status, warnings: found } = await run("tls_cert", {
      host,
      port: ports.tls,
      warn_days: 1,
      critical_days: 0,
    });
    const expected = what.includes("left") ? [] : warnings;
    t.strictSame(found, expected, `tls_cert: ${what}`);
    if (!what.includes("hours")) t.equal(status, "up");
  }
});

t.test(
  "tls_cert: a certificate that is not valid yet is down, and the chain counts where the check says so",
  async (t) => {
    const early = await serve(t, await issue(host, { from: 33.5, until: 200 }));
    const result = await run("tls_cert", { host, port: early.tls });
    const day = new Date(now + 33.5 * dayMs).toISOString().slice(0, 10);
    matchObject(t, result, { status: "down", details: { days_remaining: 199, not_before: new RegExp(`^${day}T`) } });
    t.equal(checkKinds.tls_cert.errorInWords!(result.error!), `certificate of localhost is not valid before ${day}`);

    const chain = await serve(t, await issue(host, { ca: between }), between, root);
    const judge = async (change: object) => {
      const { status, details, error } = await run("tls_cert", { host, port: chain.tls, ...change });
      const { days_remaining: left, subject_common_name, leaf_common_name } = details as Record<string, unknown>;
      return [
        status,
        left,
        subject_common_name,
        leaf_common_name,
        error === null ? null : checkKinds.tls_cert.errorInWords!(error),
      ];
    };
    t.strictSame(await judge({ warn_days: 30 }), ["up", 99, "localhost", undefined, null]);
    t.strictSame(await judge({ judge: "chain", warn_days: 15 }), ["up", 19, "Between", "localhost", null]);
    const end = new Date(now + 20 * dayMs).toISOString().slice(0, 10);
    const words = `certificate of Between, in the chain of localhost, expires in 19 days, on ${end}`;
    t.strictSame(await judge({ judge: "chain", warn_days: 30 }), ["degraded", 19, "Between", "localhost", words]);
    t.strictSame((await judge({ judge: "chain", warn_days: 30, critical_days: 25 }))[0], "down");

    const later = testRunner({ clock: new FakeClock(now + 50 * dayMs), lookup: async () => ["127.0.0.1"] });
    t.equal((await run("tls_cert", { host, port: chain.tls, warn_days: 14 }, later)).status, "up", "the leaf alone");
    t.equal((await run("tls_cert", { host, port: chain.tls, judge: "chain" }, later)).status, "down");
  },
);

t.test("an authority of the agent: --ca-file, and the message that names it", async (t) => {
  const ports = await serve(t, await issue(host, { ca: between }), between);
  const file = join(t.testdir({}), "ca.pem");
  writeFileSync(file, `Our authority\n${root.cert}\n`);
  const url = `https://${host}:${ports.https}/`;
  const check = async (...words: string[]) => {
    const { stdout, stderr, code } = await commandHere([
      "check",
      "http",
      url,
      "--json",
      "--allow-private-targets",
      ...words,
    ]);
    return stdout === ""
      ? { code, stderr }
      : (JSON.parse(stdout) as { result: { status: string; error: string | null } });
  };
  matchObject(t, await check(), {
    result: {
      status: "down",
      error: /not trusted here.*: name its authority .*certificates\.ca_id.*, or trust it on the agent \(--ca-file\)$/,
    },
  });
  writeFileSync(`${file}.txt`, "no certificate");
  matchObject(t, await check("--ca-file", `${file}.txt`), { code: 78, stderr: /has no certificate/ });
  matchObject(t, await check("--ca-file", `${file}.none`), { code: 78, stderr: /cannot be read \(ENOENT\)/ });
  const trusted = await check("--ca-file", file);
  matchObject(t, trusted, { result: { status: "up", error: null } });
  t.strictSame("warnings" in trusted ? trusted.warnings : null, []);
});

t.test("WebSocket subprotocols: the server must choose one", async (t) => {
  const ports = await serve(t, await issue(host));
  const ask = async (subprotocols: string[]) => {
    const { status, error } = await run("websocket", {
      url: `wss://${host}:${ports.https}/`,
      verify_tls: false,
      subprotocols,
    });
    return [status, error];
  };
  t.strictSame(await ask(["chat.v1", "chat.v2"]), ["up", null]);
  t.strictSame(await ask(["chat.v1"]), ["down", "not a valid WebSocket: Server sent no subprotocol"]);
  t.throws(
    () => validate(checkKinds.websocket.schema, { type: "websocket", url: "ws://a.example/", subprotocols: ["a b"] }),
    {
      code: "INVALID_HTTP_HEADER",
      field: "/subprotocols/0",
    },
  );
});
