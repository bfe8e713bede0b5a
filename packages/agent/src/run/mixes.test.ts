import { createSocket } from "node:dgram";
import { type AddressInfo, type Server, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import fc from "fast-check";
import { generate } from "selfsigned";
import t from "tap";
import { httpCheck, tcpServer, testRunner } from "../testing.ts";
import type { Outcome, WireCheck } from "./run.ts";

/*
 * Many monitors of one host, most of them of one port: whatever the others meet there, the verdict about each is the
 * one that it has alone. Real servers; no clock is faked.
 */

const behaviours: Record<string, (socket: Socket) => void> = {
  ok: (socket) => void socket.end("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
  error: (socket) => void socket.end("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"),
  slow: () => undefined,
  reset: (socket) => void socket.resetAndDestroy(),
  closed: (socket) => void socket.end(),
  malformed: (socket) => void socket.end("HELLO\r\n\r\n"),
  endless: (socket) => void socket.write("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nx"),
  dropped: (socket) => void socket.destroy(),
};

/** Plain text: the behaviour is the path of the request. Anything else is a client of another protocol. */
function serve(socket: Socket): void {
  socket.once("data", (bytes) => {
    const path = /^GET \/(\w+) /.exec(bytes.toString("latin1"))?.[1] ?? "malformed";
    (behaviours[path] ?? behaviours["malformed"]!)(socket);
  });
}

async function portOf(t: { teardown(close: () => unknown): void }, server: Server): Promise<number> {
  await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
  t.teardown(() => server.close());
  return (server.address() as AddressInfo).port;
}

const patience = { timeout: 20_000 };
/** For checks that end by their timeout. A busy machine may spend it on the connection: only the status is the same. */
const short = { timeout: 200 };

t.test("the verdict about a monitor is the one that it has alone", async (t) => {
  const { port } = await tcpServer(t, serve);
  // Nothing on the machine takes a port below 1024 meanwhile.
  const unused = 1;
  // UDP at the same port number: every name exists there without records.
  const names = createSocket("udp4");
  names.on("message", (message, from) => {
    message.writeUInt16BE(0x8180, 2);
    names.send(message, from.port, from.address);
  });
  await new Promise<void>((settle) => names.bind(port, "127.0.0.1", settle));
  t.teardown(() => names.close());
  const { private: key, cert } = await generate([{ name: "commonName", value: "x" }], { keyType: "ec" });
  const closedTls = createTlsServer({ key, cert, requestCert: true, rejectUnauthorized: true }).on(
    "tlsClientError",
    () => undefined,
  );
  const tlsPort = await portOf(t, closedTls);

  const web = (path: string, change = {}) => ({
    ...httpCheck(`http://127.0.0.1:${port}/${path}`, { ...patience, ...change }),
  });
  const tcp = (at: number, change = {}) => ({ type: "tcp", host: "127.0.0.1", port: at, ...patience, ...change });
  const certificate = (at: number) => ({
    type: "tls_cert",
    host: "127.0.0.1",
    port: at,
    server_name: null,
    warn_days: 14,
    critical_days: 7,
    ...patience,
  });
  const kinds: Record<string, () => WireCheck> = {
    "an answer": () => web("ok"),
    "a wrong status": () => web("error"),
    "no answer": () => web("slow", short),
    "a reset": () => web("reset"),
    "an end without an answer": () => web("closed"),
    "a malformed head": () => web("malformed"),
    "an answer that does not end": () => web("endless", { ...short, expected_body_contains: "never" }),
    "a TLS handshake with a server without TLS": () => ({
      ...httpCheck(`https://127.0.0.1:${port}/ok`, patience),
    }),
    "a certificate of a server without TLS": () => certificate(port),
    "gRPC with a server of HTTP/1.1": () => ({
      type: "grpc",
      host: "127.0.0.1",
      port,
      service: "",
      tls: false,
      verify_tls: true,
      server_name: null,
      degraded_above_ms: null,
      metadata: {},
      ...patience,
    }),
    "a dropped upgrade": () => ({
      type: "websocket",
      url: `ws://127.0.0.1:${port}/dropped`,
      send: null,
      expect: null,
      headers: {},
      subprotocols: [],
      verify_tls: true,
      degraded_above_ms: null,
      ...patience,
    }),
    "another text": () => tcp(port, { send: "GET /ok \\r\\n", expect: "ready" }),
    "a connection": () => tcp(port),
    "no record": () => ({
      type: "dns",
      domain: "x.example.org",
      record_type: "A",
      resolver: `127.0.0.1:${port}`,
      expected_contains: null,
      expected_exactly: [],
      expected_absent: [],
      expected_rcode: null,
      ...patience,
    }),
    "a name server whose port is closed": () => ({
      type: "dns",
      domain: "x.example.org",
      record_type: "A",
      resolver: `127.0.0.1:${tlsPort}`,
      expected_contains: null,
      expected_exactly: [],
      expected_absent: [],
      expected_rcode: null,
      ...patience,
    }),
    "a client certificate that is missing": () => ({ ...httpCheck(`https://127.0.0.1:${tlsPort}/`, patience) }),
    "a certificate where one of the client is required": () => certificate(tlsPort),
    "a connection to a port with TLS": () => tcp(tlsPort),
    "a refused connection": () => tcp(unused),
    "a refused request": () => ({ ...httpCheck(`http://127.0.0.1:${unused}/`, patience) }),
  };
  /** The verdict as evidence shows it: a run that the breaker refused has the words of the last dial. */
  const verdictOf = (outcome: Outcome | null, check: WireCheck) => {
    const { status, error } = outcome!.cause ?? outcome!.measurement;
    return check["timeout"] === short.timeout ? status : `${status} ${error ?? ""}`;
  };
  const alone = new Map<string, string>();
  for (const [name, make] of Object.entries(kinds)) {
    const check = make();
    alone.set(name, verdictOf(await testRunner().run("org", check).done, check));
  }
  t.equal(alone.get("an answer"), "up ");
  t.equal(alone.get("a connection"), "up ");
  t.match(alone.get("a refused connection"), /^down .*connection refused/);
  t.ok(new Set(alone.values()).size >= 12, "as many misbehaviours");

  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.constantFrom(...Object.keys(kinds)), { minLength: 60, maxLength: 200, size: "max" }),
      async (mix) => {
        const runner = testRunner();
        runner.cap.max = 40;
        const checks = mix.map((name) => kinds[name]!());
        for (let round = 0; round < 3; round++)
          await Promise.all(
            mix.map(async (name, at) => {
              const run = runner.runInTurn("org", checks[at]!, {
                slot: round,
                longestMs: 60_000,
                throttled: () => undefined,
              });
              const verdict = verdictOf(await run.done, checks[at]!);
              if (verdict !== alone.get(name)) throw new Error(`${name}: "${verdict}", alone "${alone.get(name)}"`);
            }),
          );
      },
    ),
    { numRuns: 2, endOnFailure: true },
  );
});
