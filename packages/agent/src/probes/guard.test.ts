import { createSocket } from "node:dgram";
import { createServer as createHttpServer } from "node:http";
import { createServer, type AddressInfo, type Server } from "node:net";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { probedTypes, type ProbedType, type SpecOf } from "@statusmesh/shared/checks";
import { httpCheck, outcomeOf, testLookups, testRunner } from "../testing.ts";
import { http } from "./http/http.ts";
import type { ProbeContext } from "./probe.ts";
import { newTrace } from "../run/verdicts.ts";

/*
 * The guard against requests forged through a monitor, for whatever kinds there are. A kind that is added does not
 * compile until it is here.
 */

interface Dials<S> {
  /** A check that goes to an address. */
  address: (address: string, port: number) => S;
  /** A check that goes to a name; null where the kind takes none, which is said in a comment. */
  name: ((name: string, port: number) => S) | null;
  /** Ways to write this machine that are taken; all unless said. */
  written?: readonly string[];
}

const inUrl = (host: string): string => (host.includes(":") ? `[${host}]` : host);
const tls = (host: string, port: number): SpecOf<"tls_cert"> => ({
  type: "tls_cert",
  host,
  port,
  // Which name is asked for says nothing about where the connection goes.
  server_name: "www.example.org",
  warn_days: 14,
  critical_days: 7,
  timeout: 2000,
});

const pingCheck = (host: string): SpecOf<"ping"> => ({
  type: "ping",
  host,
  packets: 1,
  max_loss_pct: 0,
  timeout: 2000,
  degraded_above_ms: null,
});

const socketCheck = (url: string): SpecOf<"websocket"> => ({
  type: "websocket",
  url,
  send: null,
  expect: null,
  headers: {},
  verify_tls: false,
  timeout: 2000,
  degraded_above_ms: null,
});

const statusPageCheck = (url: string): SpecOf<"status_page"> => ({
  type: "status_page",
  url,
  component: null,
  timeout: 2000,
});

const grpcCheck = (host: string, port: number): SpecOf<"grpc"> => ({
  type: "grpc",
  host,
  port,
  service: "",
  tls: true,
  verify_tls: false,
  server_name: "www.example.org",
  timeout: 2000,
  degraded_above_ms: null,
});

const dnsCheck = (resolver: string): SpecOf<"dns"> => ({
  type: "dns",
  domain: "www.example.org",
  record_type: "A",
  resolver,
  expected_contains: null,
  timeout: 2000,
});

const kinds: { readonly [T in ProbedType]: Dials<SpecOf<T>> | { never: string } } = {
  http: {
    address: (address, port) => httpCheck(`https://${inUrl(address)}:${port}/`, { verify_tls: false }),
    name: (name, port) => httpCheck(`http://${name}:${port}/`),
  },
  tcp: {
    address: (host, port) => ({ type: "tcp", host, port, timeout: 2000 }),
    name: (host, port) => ({ type: "tcp", host, port, timeout: 2000 }),
  },
  grpc: {
    address: grpcCheck,
    name: (name, port) => ({ ...grpcCheck(name, port), tls: false }),
  },
  status_page: {
    address: (address, port) => statusPageCheck(`https://${inUrl(address)}:${port}/`),
    name: (name, port) => statusPageCheck(`http://${name}:${port}/`),
  },
  websocket: {
    address: (address, port) => socketCheck(`wss://${inUrl(address)}:${port}/`),
    name: (name, port) => socketCheck(`ws://${name}:${port}/`),
  },
  ping: { address: (host) => pingCheck(host), name: (host) => pingCheck(host) },
  tls_cert: { address: tls, name: tls },
  dns: {
    address: (address, port) => dnsCheck(`${inUrl(address)}:${port}`),
    name: (name, port) => dnsCheck(`${name}:${port}`),
    written: ["localhost", "LOCALHOST.", "a.localhost"],
  },
  container: { never: "the agent's own setting decides what is connected to" },
  exec: { never: "the agent's own file decides what is connected to" },
  domain_expiry: { never: "it asks registries, which their own public list chooses" },
};

/** Listens on one port of 127.0.0.1 and ::1, TCP and UDP, and counts what comes. */
async function canary(t: Test): Promise<{ port: number; received: { connections: number; bytes: number } }> {
  const received = { connections: 0, bytes: 0 };
  const listen = (server: Server, port: number, host: string) =>
    new Promise<number>((settle, reject) =>
      server.once("error", reject).listen(port, host, () => settle((server.address() as AddressInfo).port)),
    );
  const tcp = () =>
    createServer((socket) => {
      received.connections++;
      socket.on("data", (chunk) => (received.bytes += chunk.length)).on("error", () => undefined);
    });
  const [v4, v6, udp] = [tcp(), tcp(), createSocket("udp4")];
  const port = await listen(v4, 0, "127.0.0.1");
  await listen(v6, port, "::1").catch(() => undefined);
  udp.on("message", (message) => (received.bytes += message.length));
  await new Promise<void>((settle) => udp.bind(port, "127.0.0.1", settle));
  t.teardown(() => {
    v4.close();
    v6.close();
    udp.close();
  });
  return { port, received };
}

/** One address of every range, in the forms that lead to this machine first. */
const inside = `
  127.0.0.1 127.255.255.254 0.0.0.0 ::1 :: ::ffff:127.0.0.1 ::ffff:7f00:1 ::127.0.0.1 64:ff9b::7f00:1 64:ff9b:1::7f00:1
  2002:7f00:1::1
  10.0.0.1 100.64.0.1 168.63.129.16 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1 192.0.2.1 192.88.99.1
  192.168.0.1 198.18.0.1
  198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1 255.255.255.255 100::1 2001::1 2001:db8::1 3fff::1 fc00::1 fd00:ec2::254
  fe80::1 ff02::1
  2620:0:0:0:0:5efe:7f00:1
`
  .trim()
  .split(/\s+/);
/** What a name may answer at the time of the connection, whatever it answered when the target was made. */
const answers = [
  ["127.0.0.1"],
  ["::1"],
  ["::ffff:127.0.0.1"],
  ["93.184.215.14", "127.0.0.1"],
  ["127.0.0.1", "93.184.215.14"],
  ["2606:4700:4700::1111", "93.184.215.14", "::1"],
  [...Array.from({ length: 30 }, (_, at) => `93.184.215.${at}`), "127.0.0.1"],
];
/** Ways to write this machine without an address that looks like one. */
const written = [
  "localhost",
  "LOCALHOST.",
  "a.localhost",
  "0x7f.1",
  "2130706433",
  "017700000001",
  "127.1",
  "0",
  "127。0。0。1",
  "１２７.0.0.1",
];

for (const type of probedTypes) {
  const kind = kinds[type] as Dials<SpecOf<ProbedType>> | { never: string };
  t.test(
    `${type}: ${"never" in kind ? `no address to guard, because ${kind.never}` : "not one byte, not one connection"}`,
    async (t) => {
      const { port, received } = await canary(t);
      let lookups = 0;
      const guarded = (addresses: readonly string[] = []) =>
        testRunner({ allowPrivate: false, lookup: async () => (lookups++, [...addresses]) });
      if ("never" in kind) {
        const result = await outcomeOf(
          guarded(["127.0.0.1"]).run("org", {
            type,
            domain: "example.org",
            warn_days: 30,
            critical_days: 7,
            timeout: 300,
          }),
        );
        t.equal(result.measurement.connect_ms, null);
        return t.strictSame(
          [received, lookups],
          [{ connections: 0, bytes: 0 }, 0],
          "nothing of the check's own is dialled or looked up",
        );
      }
      const seen = async (spec: SpecOf<ProbedType>, runner: ReturnType<typeof testRunner>) => {
        const { measurement, skip } = await outcomeOf(runner.run("org", { ...spec }));
        const { total_ms: _, ...fields } = measurement;
        return { ...fields, skip };
      };
      const refused = async (spec: SpecOf<ProbedType>, runner: ReturnType<typeof testRunner>, what: string) => {
        const { measurement, skip } = await outcomeOf(runner.run("org", { ...spec }));
        matchObject(
          t,
          { ...measurement, skip },
          {
            status: "error",
            error: /^address \S+ is blocked \(.+\)$/,
            connect_ms: null,
            skip: false,
          },
          what,
        );
      };
      for (const address of inside) await refused(kind.address(address, port), guarded(), address);
      if (kind.name !== null) {
        for (const host of kind.written ?? written) await refused(kind.name(host, port), guarded(["127.0.0.1"]), host);
        t.equal(lookups, 0, "what is this machine by definition is not looked up");
        const absent = await seen(kind.name("rebound.example.org", port), guarded());
        matchObject(t, absent, {
          error: /^(the name server \S+: )?the name has no public address: /,
          dns_ms: null,
          connect_ms: null,
          skip: false,
        });
        for (const list of answers) {
          lookups = 0;
          const inside = await seen(kind.name("rebound.example.org", port), guarded(list));
          t.equal(lookups, 1, "a second answer is never asked for");
          t.strictSame(inside, absent, `${list.join(" ")}: a name that leads inside is answered like an absent one`);
        }
        const [one, other] = [guarded(["127.0.0.1"]), guarded()];
        for (let i = 0; i < 6; i++)
          t.strictSame(
            await seen(kind.name("rebound.example.org", port), one),
            await seen(kind.name("rebound.example.org", port), other),
            "and again, when a breaker has opened",
          );
      }
      await new Promise((settle) => setTimeout(settle, 50));
      t.strictSame(received, { connections: 0, bytes: 0 }, "the canary has received nothing");
    },
  );
}

t.test("http: a redirect to a private address is refused at its hop", async (t) => {
  const { port, received } = await canary(t);
  let location = "";
  const server = createHttpServer((_request, response) => response.writeHead(302, { location }).end());
  await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
  t.teardown(() => server.close());
  const first = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  for (const [to, words] of [
    [`http://127.0.0.1:${port}/`, "address 127.0.0.1 is blocked (127.0.0.0/8)"],
    [`https://[::ffff:127.0.0.1]:${port}/`, "address ::ffff:7f00:1 is blocked (::ffff:0:0/96)"],
    [`//0x7f.1:${port}/`, "address 127.0.0.1 is blocked (127.0.0.0/8)"],
    [
      `http://rebound.example.org:${port}/`,
      "the name has no public address: it does not exist, or it leads to a network that is not public",
    ],
  ] as const) {
    location = to;
    let hops = 0;
    const context: ProbeContext = {
      signal: AbortSignal.timeout(5000),
      trace: newTrace(),
      // The first hop stands for a public server.
      get allowPrivate() {
        return hops++ === 0;
      },
      userAgent: "StatusMesh/1.2.3",
      commands: null,
      docker: null,
      certificates: { ca: null, client: null },
      owner: "org",
      warn: () => undefined,
      now: Date.now,
      lookup: async () => ["127.0.0.1"],
      rdap: testLookups({ registriesUrl: "http://127.0.0.1:1/" }),
    };
    matchObject(
      t,
      await http.run(httpCheck(first), context),
      {
        status: words.startsWith("address") ? "error" : "down",
        error: `redirected to ${new URL(to, first).origin}: ${words}`,
      },
      to,
    );
  }
  t.strictSame(received, { connections: 0, bytes: 0 });
});
