import { createSocket } from "node:dgram";
import { chmodSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { join } from "node:path";
import { createServer as createTlsServer } from "node:tls";
import { generate } from "selfsigned";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { probedTypes, type ProbedType, type SpecOf } from "@statusmesh/shared/checks";
import { FakeClock, httpCheck, outcomeOf, tcpServer, testRunner } from "../testing.ts";

/*
 * The cap per host and the circuit breaker, as every kind meets them. A kind that is added does not compile until it is
 * here.
 */

const dayMs = 86_400_000;
const expired = await generate([{ name: "commonName", value: "x" }], {
  algorithm: "sha256",
  keyType: "ec",
  notBeforeDate: new Date(Date.now() - 9 * dayMs),
  notAfterDate: new Date(Date.now() - dayMs),
});
const answering = (text: string) => (socket: Socket) => void socket.once("data", () => socket.end(text));
const timeout = 5000;

type Check = { type: ProbedType; timeout: number };

interface Kind {
  /** Two checks of one destination that answers nothing, and one of another destination. */
  silent(t: Test): Promise<{ same: [Check, Check]; other: Check }>;
  /**
   * A check of a destination that cannot be reached, and the error. `repair` makes the destination answer, and returns
   * a part of the error from then on: a wrong status, an expired certificate, no such name. Null where every answer is
   * welcome.
   */
  unreachable(t: Test): Promise<{ check: Check; error: RegExp; repair(): Promise<string | null> }>;
}

async function listen(t: Test, server: ReturnType<typeof createServer>, port: number): Promise<number> {
  await new Promise<void>((settle, reject) => server.once("error", reject).listen(port, "127.0.0.1", settle));
  t.teardown(() => server.close());
  return (server.address() as AddressInfo).port;
}

/** A kind that sends to a port. `answer` listens there; `error` is part of what a check says about it. */
function toPort(kind: {
  check: (host: string, port: number) => Check;
  answer: (t: Test, port: number) => Promise<unknown>;
  error: string | null;
  /** A destination that answers nothing, in two spellings. */
  silent?: (t: Test) => Promise<{ hosts: [string, string]; port: number }>;
}): Kind {
  const { check, answer, error } = kind;
  const silent = kind.silent ?? (async () => ({ hosts: ["Slow.example.org", "slow.example.org."], port: 8080 }));
  return {
    async silent(t) {
      const { hosts, port } = await silent(t);
      return { same: [check(hosts[0]!, port), check(hosts[1]!, port)], other: check(hosts[0]!, port + 1) };
    },
    async unreachable(t) {
      const port = await closedPort(t);
      const repair = async () => (await answer(t, port), error);
      return { check: check("127.0.0.1", port), error: /connection refused$/, repair };
    },
  };
}

const kinds: { readonly [T in ProbedType]: Kind | { none: string } } = {
  http: toPort({
    check: (host, port) => httpCheck(`http://${host}:${port}/`, { timeout }),
    answer: (t, port) => listen(t, createServer(answering("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n")), port),
    error: "expected status 200-299, got 500",
  }),
  tcp: toPort({
    check: (host, port) => ({ type: "tcp", host, port, timeout }),
    answer: (t, port) => listen(t, createServer(), port),
    error: null,
  }),
  grpc: toPort({
    check: (host, port) => ({
      type: "grpc",
      host,
      port,
      service: "",
      tls: false,
      verify_tls: true,
      server_name: null,
      timeout,
      degraded_above_ms: null,
    }),
    answer: (t, port) => listen(t, createServer(answering("HTTP/1.1 400 Bad Request\r\n\r\n")), port),
    error: "the answer is not valid HTTP/2",
  }),
  status_page: toPort({
    check: (host, port) => ({ type: "status_page", url: `http://${host}:${port}/`, component: null, timeout }),
    answer: (t, port) =>
      listen(t, createServer(answering("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")), port),
    error: "no status page was recognised",
  }),
  websocket: toPort({
    check: (host, port) => ({
      type: "websocket",
      url: `ws://${host}:${port}/`,
      send: null,
      expect: null,
      headers: {},
      verify_tls: true,
      timeout,
      degraded_above_ms: null,
    }),
    answer: (t, port) => listen(t, createServer(answering("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n")), port),
    error: "the handshake was answered with status 500 instead of 101",
  }),
  ping: {
    async silent(t) {
      await fakePing(t, null);
      return { same: [pingCheck("127.0.0.1"), pingCheck("127.1")], other: pingCheck("127.0.0.2") };
    },
    async unreachable(t) {
      const answer = await fakePing(t, "ping: connect: Network is unreachable\n", 2);
      const repair = async () => {
        answer("1 packets transmitted, 0 received, 100% packet loss, time 0ms\n", 1);
        return "no answer to 1 packet";
      };
      return { check: pingCheck("127.0.0.1"), error: /^network unreachable$/, repair };
    },
  },
  tls_cert: toPort({
    check: (host, port) => ({
      type: "tls_cert",
      host,
      port,
      server_name: null,
      warn_days: 14,
      critical_days: 7,
      timeout,
    }),
    answer: (t, port) => listen(t, createTlsServer({ key: expired.private, cert: expired.cert }), port),
    error: '"days_remaining":-',
  }),
  dns: toPort({
    check: (host, port) => ({
      type: "dns",
      domain: "x.example.org",
      record_type: "A",
      resolver: `${host}:${port}`,
      expected_contains: null,
      timeout,
    }),
    async answer(t, port) {
      const socket = createSocket("udp4");
      socket.on("message", (message, from) => {
        message.writeUInt16BE(0x8183, 2);
        socket.send(message, from.port, from.address);
      });
      await new Promise<void>((settle) => socket.bind(port, "127.0.0.1", settle));
      t.teardown(() => socket.close());
    },
    error: "x.example.org does not exist (NXDOMAIN)",
    // A name server is given by its address.
    async silent(t) {
      const socket = createSocket("udp4");
      await new Promise<void>((settle) => socket.bind(0, "127.0.0.1", settle));
      t.teardown(() => socket.close());
      return { hosts: ["127.0.0.1", "127.0.0.1"], port: socket.address().port };
    },
  }),
  container: { none: "the agent's own setting decides what is connected to" },
  exec: { none: "its destination is known to the agent's own file only" },
  domain_expiry: { none: "it talks to registries, and keeps its own peace with them" },
};

const pingCheck = (host: string): SpecOf<"ping"> => ({
  type: "ping",
  host,
  packets: 1,
  max_loss_pct: 0,
  timeout,
  degraded_above_ms: null,
});

/**
 * A `ping` that prints a text (null: that never ends) to a file descriptor, first in the path. Returns a function that
 * changes both.
 */
async function fakePing(t: Test, text: string | null, to: 1 | 2 = 1): Promise<(text: string, to: 1 | 2) => void> {
  const program = (fd: 1 | 2): string => `#!/bin/sh\n${text === null ? "exec sleep 60" : `cat "$0.txt" >&${fd}`}\n`;
  const folder = t.testdir({ ping: program(to), "ping.txt": text ?? "" });
  chmodSync(join(folder, "ping"), 0o755);
  const { PATH: path } = process.env;
  process.env["PATH"] = `${folder}:${path}`;
  t.teardown(() => (process.env["PATH"] = path));
  return (other, fd) => {
    writeFileSync(join(folder, "ping.txt"), other);
    writeFileSync(join(folder, "ping"), program(fd));
  };
}

async function closedPort(t: Test): Promise<number> {
  const { port, server } = await tcpServer(t, () => undefined);
  await new Promise((settle) => server.close(settle));
  return port;
}

for (const type of probedTypes) {
  const kind = kinds[type];
  t.test(`${type}${"none" in kind ? `: no limits, because ${kind.none}` : ""}`, async (t) => {
    const clock = new FakeClock();
    const runner = testRunner({ clock, lookup: () => new Promise(() => undefined) });
    if ("none" in kind) {
      runner.cap.max = 0;
      const check = { type, domain: "example.org", warn_days: 30, critical_days: 7, timeout };
      for (let i = 0; i < 7; i++)
        t.notMatch((await outcomeOf(runner.run("org", check))).measurement.error, /circuit_open|throttled/);
      return;
    }

    await t.test("the cap", async (t) => {
      runner.cap.max = 2;
      const { same, other } = await kind.silent(t);
      const running = same.map((check) => runner.run("org", { ...check }));
      const throttled = await outcomeOf(runner.run("org", { ...same[0] }));
      matchObject(
        t,
        throttled,
        {
          skip: true,
          measurement: { status: "degraded", error: "throttled: host concurrency cap", dns_ms: null, connect_ms: null },
        },
        "no evidence",
      );
      const others = [runner.run("org", { ...other }), runner.run("another-org", { ...same[0] })];
      for (const run of others)
        t.equal(
          await Promise.race([run.done, "running"]),
          "running",
          "another destination and another organisation have places of their own",
        );
      t.equal(runner.recheck("org", { ...same[0] }), null, "a recheck without a place leaves no result");
      for (const run of [...running, ...others]) run.abandon();
      t.equal(runner.breakers.open(clock.monotonic()), 0, "and none of this opens a breaker");
      runner.cap.max = 1000;
    });

    await t.test("the breaker", async (t) => {
      const { check, error: refused, repair } = await kind.unreachable(t);
      const run = async () => (await outcomeOf(runner.run("org", { ...check }))).measurement;
      const error = async () => (await run()).error;
      const first = await run();
      matchObject(t, first.error, refused);
      for (let i = 0; i < 4; i++) matchObject(t, await error(), refused);
      const open = await outcomeOf(runner.run("org", { ...check }));
      matchObject(
        t,
        open,
        {
          skip: false,
          measurement: { status: "error", error: "circuit_open", connect_ms: null, total_ms: 0 },
          cause: { status: first.status, error: first.error },
        },
        "open, and evidence, with the failure that opened it",
      );
      t.equal(runner.breakers.open(clock.monotonic()), 1);
      const recheck = () => runner.recheck("org", { ...check });
      t.equal(recheck(), null, "it refuses rechecks: as failures they would confirm what lasted a second");
      await clock.pass(29_999);
      t.equal(await error(), "circuit_open");
      t.equal(recheck(), null);
      await clock.pass(1);
      const [trial, beside] = await Promise.all([error(), error()]);
      matchObject(t, trial, refused, "one trial");
      t.equal(beside, "circuit_open", "and not a second one beside it");
      t.equal(await error(), "circuit_open", "that failed: open for as long again");
      await clock.pass(30_000);
      const unwelcome = await repair();
      for (let i = 0; i < 7; i++) {
        const answer = await error();
        if (unwelcome === null) t.equal(answer, null);
        else t.ok(answer?.includes(unwelcome), `an answer closes it, whatever it says: ${answer}`);
      }
      t.equal(runner.breakers.open(clock.monotonic()), 0);
    });
  });
}

t.test("neither a response nor the target of a redirect opens a breaker", async (t) => {
  const runner = testRunner();
  const closed = await closedPort(t);
  const { port: mute } = await tcpServer(t, () => undefined);
  const at = async (serve: (socket: Socket) => void) => `http://127.0.0.1:${(await tcpServer(t, serve)).port}/`;
  const redirectTo = (port: number) =>
    answering(`HTTP/1.1 302 Found\r\nLocation: http://127.0.0.2:${port}/\r\nContent-Length: 0\r\n\r\n`);
  const { port: muteThere } = await tcpServer(t, () => undefined, "127.0.0.2");
  const tls = await listen(t, createTlsServer({ key: expired.private, cert: expired.cert }), 0);
  const cases: [string, object, RegExp][] = [
    [await at(answering("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")), {}, /^rate-limited 503$/],
    [
      await at(answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")),
      { expected_body_contains: "x" },
      /does not contain/,
    ],
    [await at(redirectTo(closed)), {}, /^redirected to http:\/\/127\.0\.0\.2:\d+: connection refused$/],
    [
      await at(redirectTo(muteThere)),
      { timeout: 600 },
      /^redirected to http:\/\/127\.0\.0\.2:\d+: no response within 0\.6 s$/,
    ],
    [
      await at(answering("HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n")),
      {},
      /^redirects in a circle: http:\/\/127\.0\.0\.1:\d+\/$/,
    ],
    [`https://127.0.0.1:${tls}/`, {}, /^certificate (expired|is)/],
  ];
  for (const [url, change, error] of cases) {
    const check = { ...httpCheck(url, change) };
    for (let i = 0; i < 6; i++)
      matchObject(t, (await outcomeOf(runner.run("org", check))).measurement.error, error, url);
  }
  t.equal(runner.breakers.open(performance.now()), 0);
  const silent = { ...httpCheck(`http://127.0.0.1:${mute}/`, { timeout: 100 }) };
  for (let i = 0; i < 7; i++)
    t.equal((await outcomeOf(runner.run("org", silent))).measurement.error, "no response within 0.1 s");
  t.equal(runner.breakers.open(performance.now()), 0, "nor does a server that accepts and says nothing");
});
