import { createSocket } from "node:dgram";
import { join } from "node:path";
import t, { type Test } from "tap";
import { DialError } from "./dial-error.ts";
import { createLookup } from "./resolve.ts";

type Answer = { a?: string[]; aaaa?: string[]; rcode?: number; silent?: boolean };
const noError = 0;
const serverFailure = 2;
const nameError = 3;

/** A name server that knows a few names; its address, and the questions that it was asked. */
async function nameServer(t: Test, zone: Record<string, Answer>): Promise<{ address: string; asked: string[] }> {
  const asked: string[] = [];
  const socket = createSocket("udp4");
  socket.on("message", (query, from) => {
    const labels: string[] = [];
    let at = 12;
    for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
      labels.push(query.toString("latin1", at + 1, at + 1 + length));
      at += length + 1;
    }
    const type = query.readUInt16BE(at + 1);
    const name = labels.join(".").toLowerCase();
    asked.push(`${name} ${type === 28 ? "AAAA" : "A"}`);
    const answer = zone[name] ?? { rcode: nameError };
    if (answer.silent === true) return;
    const records = (
      type === 28
        ? (answer.aaaa ?? []).map(v6Bytes)
        : (answer.a ?? []).map((ip) => Buffer.from(ip.split(".").map(Number)))
    ).map((data) =>
      // A pointer to the name in the question, type, class, 60 s to live, length (RFC 1035 section 4.1.3).
      Buffer.concat([Buffer.from([0xc0, 0x0c, 0, type, 0, 1, 0, 0, 0, 60, 0, data.length]), data]),
    );
    const head = Buffer.from([
      query[0] ?? 0,
      query[1] ?? 0,
      0x81,
      0x80 | (answer.rcode ?? noError),
      0,
      1,
      0,
      records.length,
      0,
      0,
      0,
      0,
    ]);
    socket.send(Buffer.concat([head, query.subarray(12, at + 5), ...records]), from.port, from.address);
  });
  await new Promise<void>((settle) => socket.bind(0, "127.0.0.1", settle));
  t.teardown(() => socket.close());
  return { address: `127.0.0.1:${socket.address().port}`, asked };
}

/** Only for addresses written out in full. */
const v6Bytes = (ip: string): Buffer =>
  Buffer.from(ip.split(":").flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 255]));

const v6 = "2001:db8:0:0:0:0:0:1";

t.test("queries both address families once and alternates them", async (t) => {
  const { address, asked } = await nameServer(t, {
    "both.example.org": { a: ["192.0.2.1", "192.0.2.2", "192.0.2.3"], aaaa: [v6] },
    "six.example.org": { aaaa: [v6] },
  });
  const lookup = createLookup({ servers: [address], system: () => t.fail("the system is not asked") as never });
  t.strictSame(await lookup("both.example.org"), ["192.0.2.1", "2001:db8::1", "192.0.2.2", "192.0.2.3"]);
  t.strictSame(asked.sort(), ["both.example.org A", "both.example.org AAAA"]);
  t.strictSame(await lookup("six.example.org"), ["2001:db8::1"], "an IPv6-only name");
});

t.test("short names: hosts file, search domains, DNS, and the system last", async (t) => {
  const { address, asked } = await nameServer(t, {
    "nextcloud.home.arpa": { a: ["192.0.2.1"] },
    "db.shop.lan": { a: ["192.0.2.2"] },
    container: { a: ["192.0.2.3"] },
  });
  const folder = t.testdir({
    hosts: "192.0.2.8 nas nas.lan # disk\n2001:db8::8 nas\n",
    resolv: "nameserver 127.0.0.1\nsearch home.arpa lan.\n",
  });
  const system: string[] = [];
  const lookup = createLookup({
    servers: [address],
    hostsFile: join(folder, "hosts"),
    resolverFile: join(folder, "resolv"),
    system: (name) => {
      system.push(name);
      return Promise.resolve(["192.0.2.9"]);
    },
  });
  t.strictSame(await lookup("nas"), ["192.0.2.8", "2001:db8::8"]);
  t.strictSame(await lookup("nas.lan"), ["192.0.2.8"]);
  t.strictSame(await lookup("app.localhost"), ["127.0.0.1", "::1"]);
  t.strictSame([asked, system], [[], []], "nobody is asked");
  t.strictSame(await lookup("nextcloud"), ["192.0.2.1"]);
  t.strictSame(await lookup("db.shop"), ["192.0.2.2"], "a name with a dot");
  t.strictSame(await lookup("container"), ["192.0.2.3"]);
  t.strictSame(system, []);
  asked.length = 0;
  t.strictSame(await lookup("printer.local"), ["192.0.2.9"]);
  t.strictSame(asked, [], "mDNS names are not sent to a name server");
  t.strictSame(await lookup("winshare"), ["192.0.2.9"], "a name that only the system knows");
  t.strictSame(system, ["printer.local", "winshare"]);
});

t.test("absent names are remembered, and those of the public DNS are not asked of the system", async (t) => {
  const { address, asked } = await nameServer(t, {});
  let asksSystem = 0;
  let now = 0;
  const lookup = createLookup({
    servers: [address],
    clock: { now: () => now, after: () => () => undefined },
    system: () => {
      asksSystem++;
      return Promise.reject(new DialError("dns", "name not found", "ENOTFOUND"));
    },
  });
  for (const name of ["nowhere.example.org", "nowhere"]) {
    await t.rejects(lookup(name), { message: "name not found" });
    const count = asked.length;
    await t.rejects(lookup(name), { message: "name not found" });
    t.equal(asked.length, count, "not asked again");
  }
  t.equal(asksSystem, 1, "the short name only");
  now = 30_001;
  asked.length = 0;
  await t.rejects(lookup("nowhere"), { message: "name not found" });
  t.ok(asked.length > 0, "DNS is asked anew after 30 s");
  t.equal(asksSystem, 1, "the system after five minutes");
});

t.test("1,000 absent names beside 100 short names at 10 s, for 30 minutes", async (t) => {
  // The operating system: four threads, 5 s for a name that does not exist, 20 ms for one that does.
  let now = 0;
  const timers = new Map<number, Set<() => void>>();
  const stepMs = 20;
  const clock = {
    now: () => now,
    after(ms: number, callback: () => void) {
      const at = Math.ceil((now + ms) / stepMs) * stepMs;
      const due = timers.get(at) ?? new Set();
      timers.set(at, due.add(callback));
      return () => void due.delete(callback);
    },
  };
  let busy = 0;
  let mostBusy = 0;
  const absent = new DialError("dns", "name not found", "ENOTFOUND");
  const threads: (() => void)[] = [];
  const isShort = (name: string): boolean => name.startsWith("short");
  const system = (name: string): Promise<string[]> =>
    new Promise((settle, reject) => {
      const begin = (): void => {
        mostBusy = Math.max(mostBusy, ++busy);
        clock.after(isShort(name) ? 20 : 5000, () => {
          busy--;
          threads.shift()?.();
          if (isShort(name)) settle(["192.0.2.1"]);
          else reject(absent);
        });
      };
      if (busy < 4) begin();
      else threads.push(begin);
    });
  const query = () => Promise.reject(absent);
  const resolverFile = join(t.testdir({}), "none");
  const lookup = createLookup({ query, system, clock, resolverFile, hostsFile: resolverFile });
  const failures: string[] = [];
  let answers = 0;
  const pass = async (until: number): Promise<void> => {
    for (const first = now; now < until; now += stepMs) {
      const due = timers.get(now);
      timers.delete(now);
      if (due === undefined && now > first) continue;
      for (const callback of due ?? []) callback();
      for (let turn = 0; turn < 12; turn++) await Promise.resolve();
    }
  };
  for (let round = 0; round < 180; round++) {
    const began = round * 10_000;
    // Each absent name once a minute, a sixth of them per round.
    for (let at = round % 6; at < 1000; at += 6) lookup(`absent-${at}`, "noisy").catch(() => undefined);
    for (let at = 0; at < 100; at++)
      lookup(`short-${at}`, `org-${at % 20}`).then(
        () => void (answers++, now - began > 9000 && failures.push(`short-${at} after ${now - began} ms`)),
        (error: DialError) => {
          if (!error.local) failures.push(`short-${at}: ${error.message}`);
        },
      );
    await pass(began + 10_000);
  }
  t.strictSame(failures, []);
  t.ok(answers > 0.8 * 180 * 100, `${answers} of 18,000 lookups of short names were answered`);
  t.ok(mostBusy <= 3, "a thread is left for the file system");
});

t.test("distinguishes SERVFAIL from NXDOMAIN", async (t) => {
  const { address } = await nameServer(t, { "broken.example.org": { rcode: serverFailure } });
  const notFound = () => Promise.reject(new DialError("dns", "name not found", "ENOTFOUND"));
  const lookup = createLookup({ servers: [address], system: notFound });
  await t.rejects(lookup("broken.example.org"), {
    name: "DialError",
    phase: "dns",
    message: "the name server failed to resolve the name",
  });
  await t.rejects(lookup("nowhere.example.org"), { message: "name not found" });
});

t.test("localhost is resolved", async (t) => {
  const addresses = await createLookup()("localhost");
  t.ok(addresses.some((address) => address === "127.0.0.1" || address === "::1"));
});
