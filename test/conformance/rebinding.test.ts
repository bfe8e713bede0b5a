import { createSocket } from "node:dgram";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { probedTypes, type ProbedType, type SpecOf } from "@statusmesh/shared/checks";
import { createLookup } from "@statusmesh/shared/net/resolve";
import { kindCases } from "@statusmesh/control-plane/alerting/channels/kinds.test.cases";
import { contents } from "@statusmesh/control-plane/alerting/channels/kinds.test.contents";
import { deliver } from "@statusmesh/control-plane/alerting/channels/kinds/deliver";
import { channelKinds, type ChannelType } from "@statusmesh/control-plane/alerting/channels/kinds/index";
import { createOutbound } from "@statusmesh/control-plane/platform/outbound/client";
import { nameServer, type Reply } from "sm-agent/probes/dns/testing-dns";
import { httpCheck, outcomeOf, testRunner } from "sm-agent/testing";
import { requires } from "../harness/requires.ts";

/*
 * Names and redirects that lead from a public address to a private one, for every kind of check and channel, with a
 * name server of ours. They run in a network of their own, in which public addresses are this machine.
 */

const isInside = "SM_TEST_OWN_NETWORK";
const [publicAddress, publicAddress6, privateAddress] = ["93.184.215.14", "2606:4700::6810:84e5", "10.0.0.1"];
const port = 443;

type Named = (name: string) => SpecOf<ProbedType>;

/** A check of each kind that goes to a name; null for a kind that takes none. */
const checks: Record<ProbedType, Named | null> = {
  http: (name) => httpCheck(`http://${name}:${port}/`),
  tcp: (host) => ({ type: "tcp", host, port, timeout: 2000 }),
  ping: (host) => ({ type: "ping", host, packets: 1, max_loss_pct: 0, timeout: 2000, degraded_above_ms: null }),
  grpc: (host) => ({
    type: "grpc",
    host,
    port,
    service: "",
    tls: false,
    verify_tls: false,
    server_name: null,
    timeout: 2000,
    degraded_above_ms: null,
  }),
  status_page: (name) => ({ type: "status_page", url: `http://${name}:${port}/`, component: null, timeout: 2000 }),
  websocket: (name) => ({
    type: "websocket",
    url: `ws://${name}:${port}/`,
    send: null,
    expect: null,
    headers: {},
    verify_tls: false,
    timeout: 2000,
    degraded_above_ms: null,
  }),
  tls_cert: (host) => ({
    type: "tls_cert",
    host,
    port,
    server_name: null,
    warn_days: 14,
    critical_days: 7,
    timeout: 2000,
  }),
  dns: (name) => ({
    type: "dns",
    domain: "www.example.org",
    record_type: "A",
    resolver: `${name}:${port}`,
    expected_contains: null,
    timeout: 300,
  }),
  // The agent's own file decides about commands, and a public list about registries.
  container: null,
  exec: null,
  domain_expiry: null,
};

async function tests(): Promise<void> {
  const seen = { public: 0, private: 0 };
  let location = "";
  const listen = async (host: string, who: keyof typeof seen): Promise<void> => {
    const server: Server = createServer((socket) => {
      seen[who]++;
      socket.on("error", () => undefined);
      socket.once("data", () =>
        socket.end(`HTTP/1.1 302 Found\r\nLocation: ${location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`),
      );
    });
    await new Promise<void>((settle, reject) => server.once("error", reject).listen(port, host, settle));
    const udp = createSocket(host.includes(":") ? "udp6" : "udp4");
    udp.on("message", () => seen[who]++);
    await new Promise<void>((settle) => udp.bind(port, host, settle));
    t.teardown(() => (server.close(), udp.close()));
  };
  for (const host of [publicAddress, publicAddress6]) await listen(host, "public");
  for (const host of [privateAddress, "127.0.0.1", "::1"]) await listen(host, "private");

  /** Answers of every name: of the first query of a family, and of later ones. */
  let first: Reply = {};
  let later: Reply = {};
  let queries = new Map<string, number>();
  const reply: Reply = {
    change: (packet) => {
      const type = packet.questions?.[0]?.type ?? "A";
      const count = (queries.get(type) ?? 0) + 1;
      queries.set(type, count);
      const { answers = [], truncated = false } = count === 1 ? first : later;
      const fitting = answers.filter((one) => one.type === type || one.type === "CNAME");
      return { ...packet, answers: truncated ? [] : fitting, flags: packet.flags! | (truncated ? 0x200 : 0) };
    },
  };
  const names = await nameServer(t, new Proxy({}, { get: () => reply }));
  const answering = (firstly: Reply, laterOn: Reply = firstly): void => {
    [first, later, queries] = [firstly, laterOn, new Map()];
  };
  const to = (...addresses: string[]): Reply => ({
    answers: addresses.map((data) => ({
      type: data.includes(":") ? "AAAA" : "A",
      name: "web.example.org",
      ttl: 0,
      data,
    })),
  });
  const resolver = () => createLookup({ servers: [names.address], hostsFile: "/dev/null", resolverFile: "/dev/null" });
  const insides: [string, Reply, Reply?][] = [
    ["private", to(privateAddress)],
    ["loopback", to("127.0.0.1")],
    ["both", to(publicAddress, privateAddress)],
    ["another family", to(publicAddress, "::1")],
    ["mapped", to(publicAddress, `::ffff:${privateAddress}`)],
    [
      "an alias",
      { answers: [{ type: "CNAME", name: "web.example.org", data: "a.internal" }, ...to(privateAddress).answers!] },
    ],
    ["over TCP", { truncated: true }, to(privateAddress)],
  ];

  for (const type of probedTypes) {
    const named = checks[type];
    if (named === null) continue;
    await t.test(type, async (t) => {
      const run = async (name: string) =>
        (await outcomeOf(testRunner({ allowPrivate: false, lookup: resolver() }).run("org", named(name)))).measurement;
      Object.assign(seen, { public: 0, private: 0 });
      answering(to(publicAddress), to(privateAddress));
      for (location of [`http://${privateAddress}:${port}/`, `//127.1:${port}/`, `http://next.example.org:${port}/`]) {
        queries = new Map();
        const { status, error } = await run("web.example.org");
        if (type === "http")
          t.match(error, /^redirected to \S+: (?:address \S+ is blocked|the name has no public address)/);
        if (type === "tcp" || type === "ping") t.equal(status, "up");
      }
      t.ok(seen.public >= (type === "ping" ? 0 : 3), "the public address is connected to");
      matchObject(
        t,
        await run("web.example.org"),
        { error: /(?:^|: )the name has no public address/ },
        "the next run looks again",
      );
      for (const [what, ...replies] of insides) {
        answering(...replies);
        matchObject(t, await run("web.example.org"), { error: /(?:^|: )the name has no public address/ }, what);
      }
      answering(to(publicAddress6));
      location = `ws://[::ffff:${privateAddress}]:${port}/`;
      await run("web.example.org");
      t.equal(seen.private, 0, "nothing private is connected to");
    });
  }

  for (const type of Object.keys(channelKinds) as ChannelType[]) {
    if (kindCases[type].mail === true) continue;
    await t.test(`channel ${type}`, async (t) => {
      const send = async (): Promise<unknown> => {
        const outbound = createOutbound({
          allowPrivate: false,
          clock: { now: Date.now },
          lookup: resolver(),
          deadlineMs: 2000,
        });
        const message = { deliveryId: "01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e92", content: contents["opened"]!, sentAt: 0 };
        const central = {
          slack: { signing_secret: "x" },
          telegram: { bot_token: "1:x", bot_username: "bot", webhook_secret: "" },
          whatsapp: {
            access_token: "x",
            phone_number_id: "1",
            app_secret: "",
            verify_token: "",
            number: "",
            template: "",
          },
        };
        const { config } = kindCases[type];
        const kind = channelKinds[type] as { send(...args: unknown[]): Promise<unknown> };
        const push = ({ endpoint: url }: { endpoint: string }) =>
          deliver(outbound, { method: "POST", url, headers: {}, body: "" });
        const transport = { central, http: outbound, push };
        return await kind.send(config, message, transport).catch((error: unknown) => String(error));
      };
      Object.assign(seen, { public: 0, private: 0 });
      answering(to(publicAddress), to(privateAddress));
      location = `http://${privateAddress}:${port}/`;
      await send();
      t.equal(seen.public, 1, "the public address is connected to");
      t.match(await send(), /no public address/, "the next delivery looks again");
      // They share one client: every answer is tried with one of them.
      for (const [what, ...replies] of type === "webhook" ? insides : insides.slice(2, 3)) {
        answering(...replies);
        t.match(await send(), /no public address/, what);
      }
      t.strictSame(seen, { public: 1, private: 0 }, "nothing private is connected to");
    });
  }

  await t.test("a redirect is no delivery", async (t) => {
    const outbound = createOutbound({
      allowPrivate: false,
      allowHttp: true,
      clock: { now: Date.now },
      lookup: resolver(),
    });
    Object.assign(seen, { public: 0, private: 0 });
    answering(to(publicAddress));
    for (location of [`http://${privateAddress}:${port}/`, `http://next.example.org:${port}/`])
      matchObject(
        t,
        await outbound.send({ method: "POST", url: `http://web.example.org:${port}/`, headers: {}, body: "x" }),
        {
          status: 302,
        },
      );
    t.strictSame(seen, { public: 2, private: 0 });
  });
}

if (process.env[isInside] !== undefined) await tests();
else if (await requires(t, "namespace")) {
  const addresses = [publicAddress, publicAddress6, privateAddress].map((one) => `ip address add ${one} dev lo`);
  const script = ["ip link set lo up", ...addresses, 'exec "$0" "$1"'].join("; ");
  const args = ["--net", "sh", "-ec", script, process.execPath, join(import.meta.dirname, "rebinding.test.js")];
  await t.spawn(
    "unshare",
    args,
    { env: { ...process.env, [isInside]: "1" }, timeout: 120_000 },
    "in a network of its own",
  );
}
