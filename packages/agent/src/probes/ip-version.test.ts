import { createSocket } from "node:dgram";
import { type AddressInfo, createServer, type Server } from "node:net";
import t, { type Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { kindOf, type ProbedSpec, type SpecOf } from "@statusmesh/shared/checks";
import { httpCheck, outcomeOf, testRunner } from "../testing.ts";

type IpVersion = "any" | "4" | "6";
type Connecting = Exclude<ProbedSpec["type"], "container" | "exec" | "domain_expiry" | "ping" | "status_page">;

/** Listens on one port of 127.0.0.1 and ::1, TCP and UDP; the families of what came. */
async function bothFamilies(t: Test): Promise<{ port: number; came: Set<string> }> {
  const came = new Set<string>();
  const tcp = (family: string): Server =>
    createServer((socket) => {
      came.add(family);
      socket.on("error", () => undefined).destroy();
    });
  const listen = (server: Server, port: number, host: string) =>
    new Promise<number>((settle, reject) =>
      server.once("error", reject).listen(port, host, () => settle((server.address() as AddressInfo).port)),
    );
  const [v4, v6] = [tcp("4"), tcp("6")];
  const port = await listen(v4, 0, "127.0.0.1");
  await listen(v6, port, "::1");
  const udp = [createSocket("udp4"), createSocket("udp6")];
  for (const [at, socket] of udp.entries()) {
    socket.on("message", (message, from) => {
      came.add(at === 0 ? "4" : "6");
      message.writeUInt16BE(0x8183, 2);
      socket.send(message, from.port, from.address);
    });
    await new Promise<void>((settle) => socket.bind(port, at === 0 ? "127.0.0.1" : "::1", settle));
  }
  t.teardown(() => [v4, v6, ...udp].forEach((one) => one.close()));
  return { port, came };
}

const checks: { readonly [T in Connecting]: (host: string, port: number) => SpecOf<T> } = {
  http: (host, port) => httpCheck(`http://${host}:${port}/`),
  tcp: (host, port) => ({ type: "tcp", host, port, timeout: 5000 }),
  grpc: (host, port) => ({
    type: "grpc",
    host,
    port,
    service: "",
    tls: false,
    verify_tls: true,
    server_name: null,
    timeout: 5000,
    degraded_above_ms: null,
  }),
  websocket: (host, port) => ({
    type: "websocket",
    url: `ws://${host}:${port}/`,
    send: null,
    expect: null,
    headers: {},
    verify_tls: true,
    timeout: 5000,
    degraded_above_ms: null,
  }),
  tls_cert: (host, port) => ({
    type: "tls_cert",
    host,
    port,
    server_name: "www.example.org",
    warn_days: 14,
    critical_days: 7,
    timeout: 5000,
  }),
  dns: (host, port) => ({
    type: "dns",
    domain: "www.example.org",
    record_type: "A",
    resolver: `${host}:${port}`,
    expected_contains: null,
    timeout: 5000,
  }),
};

t.test("every kind connects over the family that it is told, past the guard too", async (t) => {
  const { port, came } = await bothFamilies(t);
  for (const [type, check] of Object.entries(checks)) {
    const run = async (ip_version: IpVersion, addresses: string[]) => {
      came.clear();
      const runner = testRunner({ lookup: async () => addresses });
      const { measurement } = await outcomeOf(
        runner.run("org", { ...check("both.example.org", port), ip_version } as SpecOf<Connecting>),
      );
      return { families: [...came], ...measurement };
    };
    const both = ["127.0.0.1", "::1"];
    t.strictSame((await run("4", both)).families, ["4"], `${type} over IPv4`);
    t.strictSame((await run("6", both)).families, ["6"], `${type} over IPv6`);
    t.strictSame((await run("any", both)).families, ["4"], `${type} over the first that answers`);
    const none = await run("6", ["127.0.0.1"]);
    t.strictSame(none.families, [], type);
    matchObject(t, none, { status: type === "tls_cert" ? "error" : "down", error: /(^|: )no IPv6 address$/ }, type);
  }
});

t.test("ping too, and a redirect to an address of the other family", async (t) => {
  const ping = (ip_version: IpVersion): SpecOf<"ping"> => ({
    type: "ping",
    host: "both.example.org",
    packets: 1,
    max_loss_pct: 0,
    timeout: 3000,
    degraded_above_ms: null,
    ip_version,
  });
  const runner = testRunner({ lookup: async () => ["127.0.0.1"] });
  matchObject(t, (await outcomeOf(runner.run("org", ping("4")))).measurement, { status: "up" });
  matchObject(t, (await outcomeOf(runner.run("org", ping("6")))).measurement, {
    status: "down",
    error: "no IPv6 address",
  });
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.end("HTTP/1.1 302 Found\r\nLocation: http://[::1]:1/\r\nContent-Length: 0\r\n\r\n");
  });
  await new Promise<void>((settle) => server.listen(0, "127.0.0.1", settle));
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const check = httpCheck(`http://127.0.0.1:${port}/`, { ip_version: "4" });
  matchObject(t, (await outcomeOf(runner.run("org", { ...check }))).measurement, {
    status: "down",
    error: "redirected to http://[::1]:1: no IPv4 address",
  });
});

t.test("an address of the other family is refused at save", async (t) => {
  const host = { 4: "192.0.2.1", 6: "[2001:db8::1]" };
  for (const [type, check] of Object.entries(checks) as [Connecting, (host: string, port: number) => ProbedSpec][])
    for (const version of ["4", "6"] as const) {
      const rules = (address: string) => () => {
        const spec = check(type === "http" || type === "websocket" || type === "dns" ? address : bare(address), 443);
        kindOf(spec).rules({ ...spec, ip_version: version } as ProbedSpec);
      };
      t.doesNotThrow(rules(host[version]), `${type} ${version}`);
      t.throws(rules(host[version === "4" ? "6" : "4"]), { field: "/ip_version", message: /is an IPv. address/ }, type);
    }
});

const bare = (host: string): string => host.replaceAll(/[[\]]/g, "");
