import { createSocket } from "node:dgram";
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
  const lookup = createLookup([address], () => t.fail("the system is not asked") as never);
  t.strictSame(await lookup("both.example.org"), ["192.0.2.1", "2001:db8::1", "192.0.2.2", "192.0.2.3"]);
  t.strictSame(asked.sort(), ["both.example.org A", "both.example.org AAAA"]);
  t.strictSame(await lookup("six.example.org"), ["2001:db8::1"], "an IPv6-only name");
});

t.test("short and local names go to the system resolver", async (t) => {
  const { address, asked } = await nameServer(t, {});
  const system: string[] = [];
  const lookup = createLookup([address], (name) => {
    system.push(name);
    return Promise.resolve(["192.0.2.9"]);
  });
  for (const name of ["db", "printer.local", "app.localhost"]) t.strictSame(await lookup(name), ["192.0.2.9"], name);
  t.strictSame(asked, [], "these names are not sent to a name server");
  t.strictSame(await lookup("nowhere.example.org"), ["192.0.2.9"], "a name that DNS does not have");
  t.strictSame(system, ["db", "printer.local", "app.localhost", "nowhere.example.org"]);
});

t.test("distinguishes SERVFAIL from NXDOMAIN", async (t) => {
  const { address } = await nameServer(t, { "broken.example.org": { rcode: serverFailure } });
  const notFound = () => Promise.reject(new DialError("dns", "name not found", "ENOTFOUND"));
  const lookup = createLookup([address], notFound);
  await t.rejects(lookup("broken.example.org"), {
    name: "DialError",
    phase: "dns",
    message: "the name server failed to resolve the name",
  });
  await t.rejects(lookup("nowhere.example.org"), { message: "name not found" });
});

t.test("the system lookup resolves localhost", async (t) => {
  const addresses = await createLookup()("localhost");
  t.ok(addresses.some((address) => address === "127.0.0.1" || address === "::1"));
});
