import type { Socket } from "node:net";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { probedTypes } from "@statusmesh/shared/checks";
import { CircuitBreakers, InflightCap } from "./limits.ts";
import { Stats } from "../telemetry/stats.ts";
import { FakeClock, httpCheck, outcomeOf, tcpServer, testRunner } from "../testing.ts";

const tcp = (port: number, host = "127.0.0.1", timeout = 5000) => ({ type: "tcp", host, port, timeout });

t.test("tcp", async (t) => {
  const runner = testRunner();
  const { port, server } = await tcpServer(t, () => undefined);
  const { measurement, skip } = await outcomeOf(runner.run("org", tcp(port)));
  matchObject(t, measurement, {
    status: "up",
    error: null,
    http_status: null,
    response_size: null,
    dns_ms: null,
    tls_ms: null,
    ttfb_ms: null,
  });
  t.ok((measurement.connect_ms ?? 0) > 0);
  t.notOk(skip);
  await new Promise((settle) => server.close(settle));
  matchObject(t, (await outcomeOf(runner.run("org", tcp(port)))).measurement, {
    status: "down",
    error: "connection refused",
  });
  const guarded = testRunner({ allowPrivate: false });
  matchObject(t, (await outcomeOf(guarded.run("org", tcp(port, "0x7f.1")))).measurement, {
    status: "error",
    error: "address 127.0.0.1 is blocked (127.0.0.0/8)",
  });
});

t.test("a withheld check reports the reason and is no evidence", async (t) => {
  const outcome = await outcomeOf(
    testRunner().run("org", { type: "withheld", reason: "its secrets cannot be opened" }),
  );
  matchObject(t, outcome, {
    skip: true,
    measurement: { status: "error", error: "its secrets cannot be opened", connect_ms: null },
  });
});

t.test("concurrent runs of an organisation against one host are limited", async (t) => {
  const stats = new Stats();
  const runner = testRunner({ stats });
  runner.cap.max = 2;
  const { port } = await tcpServer(t, () => undefined);
  const url = `http://127.0.0.1:${port}/`;
  const first = runner.run("org", { ...httpCheck(url) });
  const second = runner.run("org", { ...httpCheck(url) });
  const third = await outcomeOf(runner.run("org", { ...httpCheck(`${url}other`) }));
  matchObject(t, third, {
    skip: true,
    measurement: { status: "degraded", error: "throttled: host concurrency cap", connect_ms: null, total_ms: 0 },
  });
  t.equal(stats.throttled, 1);
  const stranger = runner.run("another-org", { ...httpCheck(url) });
  t.equal(stats.inFlight, 3, "another organisation has places of its own");
  for (const run of [first, second, stranger]) run.abandon();
  t.equal(await first.done, null, "an abandoned run has no outcome");
  t.equal(stats.inFlight, 0);
  const next = runner.run("org", { ...httpCheck(url) });
  t.equal(stats.inFlight, 1, "the places are free again");
  next.abandon();
});

t.test("an on-demand run waits for a place and is answered as busy without one, never throttled", async (t) => {
  const clock = new FakeClock();
  const stats = new Stats();
  const runner = testRunner({ clock, stats });
  runner.cap.max = 2;
  let mute = true;
  const { port } = await tcpServer(t, (socket) => {
    if (!mute) socket.once("data", () => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
  });
  const check = () => ({ ...httpCheck(`http://127.0.0.1:${port}/`, { timeout: 5000 }) });

  const slow = runner.run("org", check(), true);
  const waiting = [1, 2, 3].map(() => runner.run("org", check(), true));
  t.equal(runner.waiting, 3, "runs on demand leave the last place free");
  const scheduled = runner.run("org", check());
  t.equal(stats.inFlight, 2, "to the schedule");
  matchObject(t, await outcomeOf(runner.run("org", check())), {
    skip: true,
    throttled: true,
    measurement: { status: "degraded", error: "throttled: host concurrency cap" },
  });
  scheduled.abandon();
  waiting[1]!.abandon();
  t.equal(await waiting[1]!.done, null, "one that is given up leaves the queue");
  t.equal(runner.waiting, 2);

  mute = false;
  await clock.pass(4000);
  slow.abandon();
  matchObject(t, await outcomeOf(waiting[0]!), {
    skip: false,
    throttled: false,
    measurement: { status: "up", error: null },
  });
  matchObject(t, await outcomeOf(waiting[2]!), { measurement: { status: "up" } }, "one after the other");
  t.equal(runner.waiting, 0);

  mute = true;
  const [first, second, third] = [1, 2, 3].map(() => runner.run("org", check(), true));
  await clock.pass(5000);
  matchObject(t, await outcomeOf(first!), { measurement: { status: "down", error: "no response within 5.0 s" } });
  matchObject(t, await outcomeOf(third!), {
    skip: true,
    throttled: true,
    measurement: { error: "the agent had no capacity for this run within 5 s" },
  });
  t.equal(stats.inFlight, 1);
  await clock.pass(5000);
  matchObject(
    t,
    await outcomeOf(second!),
    { measurement: { status: "down", error: "no response within 5.0 s" } },
    "a run that waited has its whole time",
  );

  let reason: string | null = "the agent is over its memory limit";
  const limited = testRunner({ clock, refusalReason: () => reason });
  const patient = limited.run("org", check(), true);
  matchObject(t, await outcomeOf(limited.run("org", check())), { skip: true, throttled: true });
  mute = false;
  reason = null;
  await clock.pass(50);
  matchObject(t, await outcomeOf(patient), { measurement: { status: "up" } }, "also when the agent itself had no room");
});

t.test("the circuit breaker", async (t) => {
  const clock = new FakeClock();
  const runner = testRunner({ clock });
  let connections = 0;
  const answer = (socket: Socket) => {
    connections++;
    socket.once("data", () => socket.end("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"));
  };
  const { port, server } = await tcpServer(t, answer);
  const close = () => new Promise((settle) => server.close(settle));
  const listen = () => new Promise<void>((settle) => server.listen(port, "127.0.0.1", settle));
  const check = { ...httpCheck(`http://127.0.0.1:${port}/`) };
  const error = async (org = "org", onDemand = false) =>
    (await outcomeOf(runner.run(org, check, onDemand))).measurement.error;

  for (let i = 0; i < 10; i++)
    t.equal(await error(), "expected status 200-299, got 500", "a wrong status never opens it");
  await close();
  for (let i = 0; i < 5; i++) t.equal(await error(), "connection refused", "the first five failures are found out");
  await listen();
  connections = 0;
  const open = await outcomeOf(runner.run("org", check));
  matchObject(t, open, { skip: false, measurement: { status: "error", error: "circuit_open" } });
  t.equal(connections, 0, "nothing is dialled");
  await close();
  t.equal(await error("another-org"), "connection refused", "other organisations find out for themselves");
  t.equal(runner.breakers.open(clock.monotonic()), 1);

  await clock.pass(30_000);
  t.equal(await error(), "connection refused", "after half a minute one trial");
  t.equal(await error(), "circuit_open", "fails: open again");
  t.equal(await error("org", true), "connection refused", "a run on demand is a trial at any time");
  t.equal(await error(), "circuit_open");
  await listen();
  t.equal(await error("org", true), "expected status 200-299, got 500", "and closes the breaker");
  t.equal(await error(), "expected status 200-299, got 500", "closed");
});

t.test("units: cap and breakers", (t) => {
  const cap = new InflightCap(1);
  t.ok(cap.enter("a"));
  t.notOk(cap.enter("a"));
  t.ok(cap.enter("b"));
  cap.leave("a");
  t.ok(cap.enter("a"));
  cap.leave("a");
  t.ok(cap.enter("a", true), "the first run takes the only place");
  t.notOk(cap.enter("a"));
  cap.leave("a", true);
  cap.max = 3;
  t.strictSame([cap.enter("a", true), cap.enter("a", true), cap.enter("a", true)], [true, true, false]);
  t.strictSame([cap.enter("a"), cap.enter("a")], [true, false], "the last of several is the schedule's");

  const breakers = new CircuitBreakers();
  const refused = { kind: "tcp", status: "down", error: "connection refused", waitedMs: Infinity } as const;
  const at = (now: number, timeoutMs = 60_000) => ({ now, timeoutMs });
  for (let i = 0; i < 4; i++) breakers.failed("a", 0, refused);
  breakers.connected("a");
  breakers.failed("a", 0, refused);
  t.ok(breakers.allows("a", at(0)), "only failures in a row count");
  for (let i = 0; i < 4; i++) breakers.failed("a", 0, refused);
  t.notOk(breakers.allows("a", at(29_999)));
  t.ok(breakers.allows("a", at(30_000)), "one trial");
  t.notOk(breakers.allows("a", at(30_001)), "not two");
  for (let i = 0; i < 20_000; i++) breakers.failed(`host ${i}`, 0, refused);
  t.ok(breakers.allows("a", at(0)), "what failed longest ago is forgotten first");

  const silent = { kind: "tcp", status: "down", error: "connection timed out after 1.0 s", waitedMs: 1000 } as const;
  for (let i = 0; i < 5; i++) breakers.failed("far", 0, silent);
  t.notOk(breakers.allows("far", at(0, 1000)));
  t.ok(breakers.allows("far", at(0, 1001)), "a timeout says nothing to a check that waits longer");
  t.notOk(breakers.allows("far", at(0, 100)));

  for (let i = 0; i < 5; i++) breakers.failed("asked", 0, refused);
  t.ok(breakers.allows("asked", { ...at(10, 500), onDemand: true }), "a run on demand is the trial");
  t.notOk(breakers.allows("asked", { ...at(11, 500), onDemand: true }), "one at a time");
  t.notOk(breakers.allows("asked", at(30_009)), "which delays that of the schedule");
  breakers.failed("asked", 12, refused);
  t.ok(breakers.allows("asked", { ...at(13), onDemand: true }));
  t.end();
});

t.test("failures of the agent are no evidence", async (t) => {
  const clock = new FakeClock();
  const logged: string[] = [];
  const runner = testRunner({ clock, log: (_level, msg) => logged.push(msg) });
  matchObject(t, await outcomeOf(runner.run("org", { type: "icmp" })), {
    skip: true,
    measurement: {
      status: "error",
      error: `this agent cannot run icmp checks (it knows ${probedTypes.join(", ")}): update it`,
    },
  });
  matchObject(t, await outcomeOf(runner.run("org", { ...httpCheck("gopher://old.example.org/") })), {
    skip: false,
    measurement: { status: "error", error: 'Start with http:// or https://. The scheme "gopher" cannot be checked.' },
  });

  const { port } = await tcpServer(t, () => undefined);
  const silent = runner.run("org", { ...httpCheck(`http://127.0.0.1:${port}/`), timeout: 1000 });
  await new Promise((settle) => setTimeout(settle, 50));
  clock.stall(20_000);
  await clock.pass(0);
  matchObject(t, await outcomeOf(silent), {
    skip: true,
    measurement: { status: "error", error: "the agent was suspended for 19 s" },
  });

  const broken = testRunner({
    log: (_level, msg) => logged.push(msg),
    lookup: () => Promise.reject(new TypeError("a defect")),
  });
  matchObject(t, await outcomeOf(broken.run("org", tcp(1, "db.example.org"))), {
    skip: true,
    measurement: { status: "error", error: "the agent failed to run the check; its log says why" },
  });
  t.strictSame(logged, ["a probe failed unexpectedly"]);
});
