import { spawnSync } from "node:child_process";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { detailsOf, kindOf, type SpecOf } from "@statusmesh/shared/checks";
import { outcomeOf, testRunner } from "../testing.ts";
import { answersIn, pingCause } from "./ping.ts";

const check = (changes: Partial<SpecOf<"ping">> = {}): SpecOf<"ping"> => ({
  type: "ping",
  host: "127.0.0.1",
  packets: 3,
  max_loss_pct: 0,
  timeout: 3000,
  degraded_above_ms: null,
  ...changes,
});
const run = async (changes: Partial<SpecOf<"ping">> = {}, lookup?: (name: string) => Promise<string[]>) =>
  await outcomeOf(testRunner(lookup === undefined ? {} : { lookup }).run("org", { ...check(changes) }));

/** A program in place of the system's `ping`; its arguments are written to a file. */
function fakePing(t: Test, script: string): { folder: string; args: () => string } {
  const folder = t.testdir({ ping: `#!/bin/sh\necho "$*" >> "$0.args"\n${script}\n`, "ping.args": "" });
  chmodSync(join(folder, "ping"), 0o755);
  const { PATH: path } = process.env;
  process.env["PATH"] = `${folder}:${path}`;
  t.teardown(() => (process.env["PATH"] = path));
  return { folder, args: () => readFileSync(join(folder, "ping.args"), "utf8") };
}
const prints = (text: string, code = 0): string => `cat <<'END'\n${text}\nEND\nexit ${code}`;

t.test("this machine, over both families, with the system's own ping", async (t) => {
  t.equal(await pingCause(), null);
  for (const host of ["127.0.0.1", "::1", "0x7f.1"]) {
    const { measurement, skip } = await run({ host, timeout: 1000 });
    matchObject(t, measurement, { status: "up", error: null, details: { sent: 3, received: 3, loss_pct: 0 } }, host);
    const { total_ms: total, details } = measurement as {
      total_ms: number;
      details: { min_ms: number; max_ms: number };
    };
    t.ok(details.min_ms <= total && total <= details.max_ms + 0.001, `the mean round trip, not the run: ${total}`);
    t.notOk(skip);
  }
  const named = await run({ host: "gw.example.org" }, async () => ["127.0.0.1"]);
  matchObject(t, named.measurement, { status: "up", details: { received: 3 } });
  t.type(named.measurement.dns_ms, "number");
  matchObject(
    t,
    await run({ degraded_above_ms: 1 }),
    { measurement: { status: "up" } },
    "its interval is not its time",
  );
});

t.test("busybox, whose packets count from 0", async (t) => {
  if (spawnSync("sh", ["-c", "command -v busybox"]).status !== 0)
    return t.pass("needs busybox", { skip: "install busybox" });
  fakePing(t, 'exec busybox ping "$@"');
  matchObject(t, (await run()).measurement, { status: "up", details: { sent: 3, received: 3, loss_pct: 0 } });
  matchObject(t, (await run({ host: "::1" })).measurement, { status: "up", details: { received: 3 } });
});

t.test("the output of iputils and busybox: answers, duplicates, losses", (t) => {
  // Recorded from iputils 20221126 and BusyBox 1.35.
  const cases: [string, [number, number][]][] = [
    [
      "64 bytes from 127.0.0.1: icmp_seq=1 ttl=64 time=0.089 ms\n" +
        "64 bytes from 127.0.0.1: icmp_seq=3 ttl=64 time=0.046 ms\n",
      [
        [1, 0.089],
        [3, 0.046],
      ],
    ],
    ["64 bytes from ::1: seq=0 ttl=64 time=0.057 ms\n", [[0, 0.057]]],
    [
      "64 bytes from 192.0.2.1: icmp_seq=1 ttl=64 time=1.5 ms\n" +
        "64 bytes from 192.0.2.1: icmp_seq=1 ttl=64 time=2.5 ms (DUP!)\n",
      [[1, 1.5]],
    ],
    ["64 bytes from 192.0.2.1: icmp_seq=1 ttl=52 time=1203 ms\n64 bytes from 192.0.2.1: icmp_se", [[1, 1203]]],
    ["From 192.0.2.7 icmp_seq=1 Destination Host Unreachable\n", []],
    ["64 bytes from 192.0.2.1: icmp_seq=2 ttl=64 (truncated)\n", []],
    ["", []],
  ];
  for (const [output, answers] of cases) t.strictSame([...answersIn(output)], answers, output);
  t.end();
});

t.test("loss is degraded above its limit, and down when nothing comes back", async (t) => {
  const lossy =
    "64 bytes from 127.0.0.1: icmp_seq=1 ttl=64 time=10.0 ms\n" +
    "64 bytes from 127.0.0.1: icmp_seq=2 ttl=64 time=20.0 ms\n\n" +
    "--- 127.0.0.1 ping statistics ---\n3 packets transmitted, 2 received, 33.3333% packet loss, time 401ms";
  const { args } = fakePing(t, prints(lossy));
  matchObject(t, (await run()).measurement, {
    status: "degraded",
    error: "33.3 % packet loss, limit 0 %",
    total_ms: 15,
    details: { sent: 3, received: 2, loss_pct: 33.3, min_ms: 10, max_ms: 20 },
  });
  matchObject(t, (await run({ max_loss_pct: 34 })).measurement, { status: "up", error: null });
  matchObject(t, (await run({ max_loss_pct: 34, degraded_above_ms: 14 })).measurement, {
    status: "degraded",
    error: "slow: 15 ms, limit 14 ms",
  });
  await run({ packets: 10, timeout: 1000 });
  t.match(
    args(),
    /^-n -c 3 -i 0\.200 -W 3 127\.0\.0\.1\n[^]*-n -c 10 -i 0\.0[5-9]\d -W 1 127\.0\.0\.1\n$/,
    "all packets go out before the deadline",
  );
  t.match(
    detailsOf("ping")!.inWords({ sent: 3, received: 2, loss_pct: 33.3, min_ms: 10, max_ms: 20 }, 0),
    "2 of 3 packets answered, in 10.0 to 20.0 ms",
  );
});

t.test("nothing comes back: down, with what a router said", async (t) => {
  const output =
    "From 192.0.2.7 icmp_seq=1 Destination Host Unreachable\n\n--- 192.0.2.9 ping statistics ---\n" +
    "3 packets transmitted, 0 received, +1 errors, 100% packet loss, time 401ms";
  fakePing(t, prints(output, 1));
  matchObject(t, await run(), {
    skip: false,
    measurement: {
      status: "down",
      error: "no answer to 3 packets (Destination Host Unreachable)",
      details: { sent: 3, received: 0, loss_pct: 100, min_ms: null, max_ms: null },
    },
  });
});

t.test("at the deadline what has come back decides, and the program is gone", async (t) => {
  const { args } = fakePing(
    t,
    `echo "64 bytes from 127.0.0.1: icmp_seq=1 ttl=64 time=5 ms"; echo $$ > "$0.args"; exec sleep 600`,
  );
  matchObject(t, (await run({ timeout: 800 })).measurement, {
    status: "degraded",
    error: "66.7 % packet loss, limit 0 %",
    details: { sent: 3, received: 1 },
  });
  const pid = Number(args());
  const isThere = (): boolean => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };
  while (isThere()) await new Promise((settle) => setTimeout(settle, 10));
  t.pass("it was killed");
});

t.test("where echo requests cannot be sent, the run is no evidence and one of three causes is named", async (t) => {
  const { causes } = kindOf({ type: "ping" });
  const named = async (t: Test, cause: string) => {
    t.equal(await pingCause(), cause);
    matchObject(t, await run(), { skip: true, measurement: { status: "error", error: causes![cause], details: null } });
  };
  await t.test("iputils without a capability", async (t) => {
    fakePing(
      t,
      "printf 'ping: socktype: SOCK_RAW\\nping: socket: Operation not permitted\\n" +
        "ping: => missing cap_net_raw+p capability or setuid?\\n' >&2; exit 2",
    );
    await named(t, "ping_socket_refused");
  });
  await t.test("busybox without a capability", async (t) => {
    fakePing(
      t,
      "echo 'PING 127.0.0.1 (127.0.0.1): 56 data bytes'; echo 'ping: permission denied (are you root?)' >&2; exit 1",
    );
    await named(t, "ping_socket_refused");
  });
  const pathIs = (t: Test, folder: string) => {
    const { PATH: path } = process.env;
    process.env["PATH"] = folder;
    t.teardown(() => (process.env["PATH"] = path));
  };
  await t.test("no program", async (t) => {
    pathIs(t, t.testdir({}));
    await named(t, "ping_missing");
  });
  await t.test("a program that may not be executed", async (t) => {
    // What the kernel answers to a file capability outside the bounding set is EPERM; to a file without the bit EACCES.
    const folder = t.testdir({ ping: "" });
    writeFileSync(join(folder, "ping"), "", { mode: 0o644 });
    pathIs(t, folder);
    await named(t, "ping_not_executable");
  });
});

t.test(
  "an address of a family without a network is left for the next; anything else is the agent's own fault",
  async (t) => {
    const answer =
      "64 bytes from 127.0.0.1: icmp_seq=1 ttl=64 time=1 ms\n\n3 packets transmitted, 3 received, 0% packet loss";
    const { args } = fakePing(
      t,
      `case "$*" in *::1) echo 'ping: connect: Network is unreachable' >&2; exit 2;; esac\n${prints(answer)}`,
    );
    matchObject(t, (await run({ host: "gw.example.org" }, async () => ["::1", "127.0.0.1"])).measurement, {
      status: "degraded",
    });
    t.match(args(), / ::1\n.* 127\.0\.0\.1\n/);
    matchObject(t, await run({ host: "::1" }), { measurement: { status: "down", error: "network unreachable" } });
    matchObject(t, await run({ host: "gw.example.org" }, async () => ["::1", "127.0.0.1"]), { skip: false });
    fakePing(t, "echo 'ping: invalid option -- n' >&2; exit 2");
    matchObject(t, await run(), { skip: true, measurement: { error: "ping failed: ping: invalid option -- n" } });
  },
);

t.test("an address that cannot be reached, or is silent, is left for one of the other family", async (t) => {
  const answer =
    "64 bytes from 127.0.0.1: icmp_seq=1 ttl=64 time=1 ms\n\n1 packets transmitted, 1 received, 0% packet loss";
  const statistics = "1 packets transmitted, 0 received, 100% packet loss";
  // Recorded from iputils 20221126, where the system has no IPv6 address, no route, a router without a route, a loss.
  const failures = {
    "no address": "echo 'ping: connect: Cannot assign requested address' >&2; exit 2",
    "no route": "echo 'ping: connect: No route to host' >&2; exit 2",
    router: prints(`From 2001:db8::1 icmp_seq=1 Destination unreachable: No route\n\n${statistics}`, 1),
    loss: prints(statistics, 1),
    silence: "exec sleep 600",
  };
  for (const [what, script] of Object.entries(failures)) {
    const { args } = fakePing(t, `case "$*" in *::1) ${script.replace(/$/, "\n")};; esac\n${prints(answer)}`);
    const one = { host: "gw.example.org", packets: 1, timeout: 1500 };
    const { measurement, skip } = await run(one, async () => ["::1", "127.0.0.1"]);
    matchObject(
      t,
      { ...measurement, skip },
      { status: "up", error: null, details: { received: 1 }, skip: false },
      what,
    );
    t.match(args(), /^[^\n]* ::1\n[^\n]* 127\.0\.0\.1\n$/, what);
    t.match(
      (await run({ ...one, ip_version: "6" }, async () => ["::1", "127.0.0.1"])).measurement.status,
      "down",
      what,
    );
  }
  fakePing(t, `case "$*" in *::1) ${failures["no route"]};; esac\n${failures.router}`);
  matchObject(
    t,
    (await run({ host: "gw.example.org", packets: 1 }, async () => ["::1", "127.0.0.1"])).measurement,
    { status: "down", error: "no answer to 1 packet (Destination unreachable: No route)" },
    "without an answer the address to which packets went decides",
  );
});

t.test("at most 32 at once; one that finds no place is no evidence", async (t) => {
  const { args, folder } = fakePing(t, 'while [ ! -e "$0.go" ]; do sleep 0.1; done; exit 1');
  const runner = testRunner();
  const start = (from: number, to: number, timeout: number) =>
    Array.from({ length: to - from }, (_, at) =>
      outcomeOf(runner.run("org", check({ host: `127.0.0.${from + at}`, timeout }))),
    );
  const running = start(1, 33, 60_000);
  const started = () => args().split("\n").length - 1;
  while (started() < 32) await sleep(20);
  for (const { skip, measurement } of await Promise.all(start(33, 41, 200)))
    matchObject(t, { skip, error: measurement.error }, { skip: true, error: "32 pings were running" });
  t.equal(started(), 32);
  writeFileSync(join(folder, "ping.go"), "");
  for (const { measurement } of await Promise.all(running)) t.match(measurement.error, /^ping failed/);
});

t.test("a host that could be an option is refused, and never an argument", async (t) => {
  const { rules } = kindOf({ type: "ping" });
  for (const host of ["-f", "-c100", "\uff0df", "-x.example.org"])
    t.throws(() => rules(check({ host })), { code: "INVALID_TCP_HOST", field: "/host" }, host);
  for (const host of ["gw.example.org", "2001:db8::1", "192.0.2.1"]) t.doesNotThrow(() => rules(check({ host })), host);
  t.throws(() => rules(check({ degraded_above_ms: 3001 })), { code: "INVALID_THRESHOLD" });
});
