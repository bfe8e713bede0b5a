import fc from "fast-check";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { NetworkGuard, type Place } from "./network.ts";
import { FakeClock, httpCheck, outcomeOf, tcpServer, testRunner } from "../testing.ts";

const controlPlane = { host: "status.example.org", port: 443 };

/** A guard in a world where each name has an address; those in `down` are silent, and so is all else while `cut`. */
function scene(options: { canaries?: Place[]; addresses?: Record<string, string> } = {}) {
  const clock = new FakeClock();
  const lines: string[] = [];
  const asked: string[] = [];
  const down = new Set<string>();
  const world = { cut: false };
  const addresses: Record<string, string> = {
    "status.example.org": "5.1.0.1",
    "a.example.org": "20.1.0.1",
    "b.example.org": "30.1.0.1",
    "c.example.org": "40.1.0.1",
    "nas.lan": "192.168.1.2",
    "tv.lan": "192.168.1.3",
    "printer.lan": "192.168.1.4",
    ...options.addresses,
  };
  const network = new NetworkGuard({
    clock,
    log: (level, msg) => lines.push(`${level} ${msg}`),
    controlPlane,
    canaries: options.canaries ?? [],
    connect: ({ host }, _named, signal) => {
      asked.push(host);
      const address = addresses[host];
      if (address === undefined) throw new Error(`no address for ${host}`);
      if (!world.cut && !down.has(host)) return Promise.resolve(address);
      return new Promise((_, fail) =>
        signal.addEventListener("abort", () => fail(new Error("silent")), { once: true }),
      );
    },
  });
  const up = (...hosts: string[]): void => {
    for (const host of hosts) network.reached({ host, port: 443 }, addresses[host]!);
  };
  /** A run of ten seconds that fails now; the time that canaries take passes. */
  const fails = async (host: string, address: string | null = addresses[host] ?? null): Promise<boolean> => {
    const believed = network.isEvidence({ host, port: 443, address, began: clock.monotonic() - 10_000 });
    await clock.pass(3_000);
    return await believed;
  };
  return { clock, network, lines, asked, down, world, up, fails };
}

t.test("a failure is evidence while another destination answers; no canary is probed", async (t) => {
  const { clock, asked, up, fails } = scene();
  up("a.example.org", "b.example.org");
  await clock.pass(60_000);
  up("b.example.org");
  t.equal(await fails("a.example.org"), true);
  t.strictSame(asked, []);
});

t.test("an earlier answer of the same destination, or one from before the run, is no proof", async (t) => {
  const { clock, asked, up, fails } = scene();
  up("b.example.org", "a.example.org");
  await clock.pass(60_000);
  up("a.example.org");
  t.equal(await fails("a.example.org"), true);
  t.ok(asked.includes("status.example.org"), "so the canaries were asked, and answered");
});

t.test("without any answer the agent is impaired, once, until a destination answers", async (t) => {
  const { clock, network, lines, world, up, fails } = scene();
  up("a.example.org", "b.example.org", "c.example.org");
  await clock.pass(60_000);
  world.cut = true;
  const since = clock.now();
  for (const host of ["a.example.org", "b.example.org", "c.example.org", "new.example.org"])
    t.equal(await fails(host), false, host);
  t.ok(network.impairedSince !== null && network.impairedSince >= since && network.impairedSince <= since + 3_000);
  t.equal(lines.length, 1, "one line, however many runs fail");
  await clock.pass(24 * 3_600_000);
  t.equal(await fails("a.example.org"), false, "a day later the destinations that answered last still show it");
  world.cut = false;
  await clock.pass(15_000);
  t.equal(network.impairedSince, null, "noticed without any run");
  matchObject(t, lines, [/^error .* is down/, /^info .* works again/]);
});

t.test("a run that reaches its destination ends the impairment at once", async (t) => {
  const { clock, network, world, up, fails } = scene();
  up("a.example.org", "b.example.org", "c.example.org");
  await clock.pass(60_000);
  world.cut = true;
  await fails("a.example.org");
  t.ok(network.impairedSince !== null);
  up("nas.lan");
  t.ok(network.impairedSince !== null, "but not one on another side");
  up("b.example.org");
  t.equal(network.impairedSince, null);
});

t.test("one answer among many timeouts shows that the network works", async (t) => {
  const { clock, network, down, up, fails } = scene();
  up("a.example.org", "b.example.org", "c.example.org");
  await clock.pass(60_000);
  for (const host of ["a.example.org", "b.example.org", "status.example.org"]) down.add(host);
  for (const host of ["a.example.org", "b.example.org"]) t.equal(await fails(host), true, host);
  t.equal(network.impairedSince, null);
});

t.test("the last answer decides whether a destination is public or private", async (t) => {
  const { clock, network, world, up, fails } = scene();
  const hosts = ["a.example.org", "b.example.org", "c.example.org"];
  up(...hosts);
  // All of them have moved to one provider, and that one alone can be down.
  for (const [n, host] of hosts.entries()) network.reached({ host, port: 443 }, `20.1.9.${n + 1}`);
  await clock.pass(60_000);
  world.cut = true;
  t.equal(await fails("a.example.org", "20.1.9.1"), true);
  t.equal(network.impairedSince, null);
});

t.test("with too few destinations a failure is evidence", async (t) => {
  const few = scene();
  few.up("a.example.org");
  await few.clock.pass(60_000);
  few.world.cut = true;
  t.equal(await few.fails("a.example.org"), true, "the target and the control plane may be down");
  t.strictSame(few.asked, [], "with too few destinations to decide, none is probed");

  const neighbours = scene({ addresses: { "b.example.org": "20.1.7.1", "c.example.org": "20.1.9.9" } });
  neighbours.up("a.example.org", "b.example.org", "c.example.org");
  await neighbours.clock.pass(60_000);
  neighbours.world.cut = true;
  t.equal(await neighbours.fails("b.example.org"), true, "one hoster and the control plane may be down");

  const here = scene({ addresses: { "status.example.org": "127.0.0.1" } });
  here.up("a.example.org", "b.example.org", "c.example.org");
  await here.clock.pass(60_000);
  for (const host of ["a.example.org", "b.example.org", "c.example.org"]) here.down.add(host);
  t.equal(
    await here.fails("a.example.org"),
    false,
    "a control plane on this machine shows nothing about the network, though it answers",
  );
});

t.test("a destination that has been down for long is no evidence", async (t) => {
  const { clock, down, world, up, fails } = scene();
  up("a.example.org", "b.example.org", "c.example.org");
  await clock.pass(60_000);
  for (const host of ["b.example.org", "c.example.org"]) {
    down.add(host);
    t.equal(await fails(host), true);
  }
  up("a.example.org");
  await clock.pass(60_000);
  world.cut = true;
  t.equal(await fails("a.example.org"), true, "only it and the control plane fell silent");
});

t.test("for private networks only configured canaries count", async (t) => {
  const lan = scene();
  lan.up("nas.lan", "tv.lan", "printer.lan");
  await lan.clock.pass(60_000);
  lan.world.cut = true;
  t.equal(await lan.fails("nas.lan"), true);

  const router = { host: "192.168.1.1", port: 80 };
  const chosen = scene({ canaries: [router], addresses: { "192.168.1.1": "192.168.1.1" } });
  chosen.up("nas.lan", "tv.lan");
  await chosen.clock.pass(60_000);
  chosen.down.add("nas.lan");
  t.equal(await chosen.fails("nas.lan"), true, "the router answers");
  chosen.world.cut = true;
  t.equal(await chosen.fails("tv.lan"), false, "the router does not");
  t.ok(chosen.network.impairedSince !== null);
});

t.test("one configured canary is enough, and does not outweigh an answer", async (t) => {
  const { clock, world, down, up, fails } = scene({
    canaries: [{ host: "one.example.net", port: 53 }],
    addresses: { "one.example.net": "1.1.1.1" },
  });
  up("a.example.org", "b.example.org");
  await clock.pass(60_000);
  down.add("one.example.net");
  down.add("a.example.org");
  t.equal(await fails("a.example.org"), true, "b answers");
  world.cut = true;
  t.equal(await fails("b.example.org"), false);
});

t.test("a late resolver is evidence only while it answers for other names", async (t) => {
  let answers = true;
  let lookups = 0;
  const clock = new FakeClock();
  const lines: string[] = [];
  const network = new NetworkGuard({
    clock,
    log: (level) => void lines.push(level),
    controlPlane: { host: "127.0.0.1", port: 80 },
    canaries: [],
    connect: () => Promise.reject(new Error("silent")),
    lookUp: () => {
      lookups++;
      return answers ? Promise.resolve(["192.0.2.1"]) : new Promise(() => undefined);
    },
  });
  const late = async (): Promise<boolean> => {
    const began = clock.monotonic() - 10_000;
    const believed = Promise.all(
      ["a.example", "b.example"].map((host) =>
        network.isEvidence({ host, port: 80, address: null, began, unresolved: true }),
      ),
    );
    await clock.pass(3_000);
    return (await believed).every(Boolean);
  };
  t.equal(await late(), true, "without a name that it answered for before");
  t.equal(lookups, 0);
  network.reached({ host: "good.example", port: 443 }, "198.51.99.1");
  t.equal(await late(), true, "the target's name alone is late");
  answers = false;
  t.equal(await late(), false);
  t.equal(await late(), false);
  t.equal(lookups, 3, "concurrent runs ask once");
  answers = true;
  t.equal(await late(), true);
  t.strictSame(lines, ["warn", "info"], "said once");
});

t.test("runs against this machine are no evidence about the network", async (t) => {
  const { world, asked, fails } = scene({
    canaries: [{ host: "one.example.net", port: 53 }],
    addresses: { "one.example.net": "1.1.1.1" },
  });
  world.cut = true;
  t.equal(await fails("127.0.0.1", "127.0.0.1"), true);
  t.equal(await fails("localhost", "::1"), true);
  t.strictSame(asked, []);
});

t.test("a hundred concurrent failures probe the canaries once", async (t) => {
  const { clock, network, world, asked, up } = scene();
  up("a.example.org", "b.example.org", "c.example.org");
  await clock.pass(60_000);
  world.cut = true;
  const all = Array.from({ length: 100 }, (_, n) =>
    network.isEvidence({ host: `t${n}.example.org`, port: 443, address: null, began: clock.monotonic() }),
  );
  await clock.pass(3_000);
  t.ok((await Promise.all(all)).every((believed) => !believed));
  t.equal(asked.length, 4);
});

t.test("a run on an impaired network is skipped with a reason and opens no breaker", async (t) => {
  const { port, server } = await tcpServer(t, (socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
  const clock = new FakeClock();
  const seen: string[] = [];
  let believed = true;
  const network = new NetworkGuard({
    clock,
    log: () => undefined,
    canaries: [],
    controlPlane,
    connect: () => Promise.reject(new Error("silent")),
  });
  network.reached = (place, address) => void seen.push(`${place.host}:${place.port} ${address}`);
  network.isEvidence = (failure) => {
    seen.push(`failed ${failure.host}:${failure.port} ${failure.address}`);
    return Promise.resolve(believed);
  };
  const runner = testRunner({ clock, network, lookup: () => Promise.resolve(["127.0.0.1"]) });
  const run = () => outcomeOf(runner.run("org", { ...httpCheck(`http://shop.example.org:${port}/`) }));
  matchObject(t, await run(), { skip: false, measurement: { status: "up" } });
  server.close();
  for (let n = 0; n < 4; n++)
    matchObject(t, await run(), { skip: false, measurement: { status: "down", error: "connection refused" } });
  believed = false;
  for (let n = 0; n < 10; n++)
    matchObject(
      t,
      await run(),
      { skip: true, measurement: { status: "error", error: "the agent's own network is down (connection refused)" } },
      "the breaker stays shut",
    );
  believed = true;
  matchObject(t, await run(), { measurement: { error: "connection refused" } });
  matchObject(t, await run(), { measurement: { error: "circuit_open" } });
  t.strictSame([seen[0], seen[1]], [`shop.example.org:${port} 127.0.0.1`, `failed shop.example.org:${port} 127.0.0.1`]);
});

t.test(
  "in any order of events: an answer is proof, an outage of the network is no evidence, and an answer ends it",
  async (t) => {
    const hosts = ["a", "b", "c", "d", "e"].map((name) => `${name}.example.org`);
    const addresses = { "d.example.org": "50.1.0.1", "e.example.org": "60.1.0.1" };
    const step = fc.record({
      do: fc.constantFrom("reach", "reach", "reach", "fail", "fail", "fail beside an answer", "cut", "restore", "wait"),
      host: fc.nat({ max: hosts.length - 1 }),
    });
    let cuts = 0;
    let acquitted = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 40 }), async (steps) => {
        const { clock, network, world, up, fails } = scene({ addresses });
        /** Those that answered their last run: each is of another network. */
        const known = new Set<string>();
        for (const it of steps) {
          if (it.do === "cut") {
            // Longer than a run takes: no answer of before falls into a run that fails from now on.
            world.cut = true;
            await clock.pass(15_000);
          } else if (it.do === "restore") {
            world.cut = false;
            await clock.pass(15_000);
            if (network.impairedSince !== null) return false;
          } else if (it.do === "wait") await clock.pass(7_000);
          else {
            const host = hosts[it.host]!;
            const other = hosts[(it.host + 1) % hosts.length]!;
            if (it.do === "reach" || it.do === "fail beside an answer") {
              if (world.cut) continue;
              const who = it.do === "reach" ? host : other;
              up(who);
              known.add(who);
              if (network.impairedSince !== null) return false;
              if (it.do === "reach") continue;
              await clock.pass(5_000);
            }
            const believed = await fails(host);
            if (world.cut && known.size >= 3) {
              cuts++;
              if (believed || network.impairedSince === null) return false;
            }
            if (!world.cut) {
              acquitted++;
              // Somebody answered while it ran, or the control plane does now.
              if (!believed || network.impairedSince !== null) return false;
            }
            if (believed) known.delete(host);
          }
        }
        network.stop();
        return true;
      }),
      { numRuns: 300 },
    );
    t.ok(cuts > 20 && acquitted > 200, `${cuts} failures while cut, ${acquitted} while not`);
  },
);
