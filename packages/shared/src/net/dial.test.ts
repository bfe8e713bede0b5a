import { spawn } from "node:child_process";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import t, { type Test } from "tap";
import { dial, type DialTrace } from "./dial.ts";
import { DialError } from "./dial-error.ts";

const never = new AbortController().signal;

function newTrace(): DialTrace {
  return { overdue: "", dns_ms: null, connect_ms: null, tls_ms: null };
}

async function listen(
  t: Test,
  host = "127.0.0.1",
  onConnection: (socket: Socket) => void = () => undefined,
): Promise<{ server: Server; port: number; seen: { connections: number; bytes: number } }> {
  const seen = { connections: 0, bytes: 0 };
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    seen.connections++;
    sockets.add(socket);
    socket.on("data", (chunk) => (seen.bytes += chunk.length));
    socket.on("error", () => undefined);
    onConnection(socket);
  });
  await new Promise<void>((settle) => server.listen(0, host, settle));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { server, port: (server.address() as AddressInfo).port, seen };
}

/** A port that nothing listens on. */
async function closedPort(t: Test): Promise<number> {
  const { server, port } = await listen(t);
  await new Promise((settle) => server.close(settle));
  return port;
}

const openSockets = (): number =>
  process.getActiveResourcesInfo().filter((name) => name === "TCPSocketWrap" || name === "TCPConnectWrap").length;

t.test("connects to an address without a lookup", async (t) => {
  const { port } = await listen(t);
  const trace = newTrace();
  const lookup = () => t.fail("an address is not looked up") as never;
  const dialled = await dial({ host: "127.0.0.1", port, allowPrivate: true, signal: never, lookup, trace });
  t.equal(dialled.address, "127.0.0.1");
  t.equal(trace.dns_ms, null);
  t.ok(trace.connect_ms! >= 0);
  dialled.socket.destroy();
});

t.test("resolves a name once and measures the time", async (t) => {
  const { port } = await listen(t);
  const trace = newTrace();
  let lookups = 0;
  const lookup = (name: string) => {
    t.equal(name, "db.example.org");
    lookups++;
    return Promise.resolve(["127.0.0.1"]);
  };
  const { socket, address } = await dial({
    host: "db.example.org",
    port,
    allowPrivate: true,
    signal: never,
    lookup,
    trace,
  });
  t.equal(lookups, 1);
  t.equal(address, "127.0.0.1");
  t.ok(trace.dns_ms! >= 0);
  socket.destroy();
});

t.test("the guard: no connection to a blocked address", async (t) => {
  const canary = await listen(t);
  const to = (host: string, ...addresses: string[]) =>
    dial({ host, port: canary.port, allowPrivate: false, signal: never, lookup: () => Promise.resolve(addresses) });
  await t.rejects(to("127.0.0.1"), { phase: "guard", code: "BLOCKED", transport: false });
  await t.rejects(to("mixed.example.org", "203.0.114.1", "127.0.0.1"), { phase: "dns", code: "NO_PUBLIC_ADDRESS" });
  await new Promise((settle) => setTimeout(settle, 50));
  t.strictSame(canary.seen, { connections: 0, bytes: 0 });
});

t.test("error messages", async (t) => {
  const port = await closedPort(t);
  await t.rejects(dial({ host: "127.0.0.1", port, allowPrivate: true, signal: never }), {
    name: "DialError",
    phase: "connect",
    code: "ECONNREFUSED",
    message: "connection refused",
    transport: true,
  });
  await t.rejects(
    dial({ host: "empty.example.org", port, allowPrivate: true, signal: never, lookup: () => Promise.resolve([]) }),
    {
      phase: "dns",
      message: "name has no address",
    },
  );
  await t.rejects(
    dial({
      host: "nowhere.invalid",
      port,
      allowPrivate: true,
      signal: never,
      lookup: () => Promise.reject(new DialError("dns", "name not found", "ENOTFOUND")),
    }),
    {
      phase: "dns",
      message: "name not found",
    },
  );
});

t.test("an unreachable address does not fail the connection while others are left", async (t) => {
  const { port } = await listen(t, "127.0.0.2");
  const dead = await dial({
    host: "two.example.org",
    port,
    allowPrivate: true,
    signal: never,
    lookup: () => Promise.resolve(["127.0.0.1", "127.0.0.2"]),
  });
  t.equal(dead.address, "127.0.0.2", "refused: the next one at once");
  dead.socket.destroy();

  // A listener whose queue is full drops connection requests, as a host behind a broken route does.
  const silent = await fullBacklog(t, port);
  if (silent === null) return t.comment("this system does not let a backlog fill up");
  const trace = newTrace();
  const slow = await dial({
    host: "slow.example.org",
    port,
    allowPrivate: true,
    signal: never,
    trace,
    lookup: () => Promise.resolve([silent, "127.0.0.2"]),
  });
  t.equal(slow.address, "127.0.0.2", "silent: the next one after a moment");
  t.ok(trace.connect_ms! >= 200, "the wait for the first address is in the connect time");
  slow.socket.destroy();
});

t.test("an abort ends the dial at once and leaves no socket", async (t) => {
  const before = openSockets();
  const silent = await fullBacklog(t);
  const reason = new Error("the operator lost interest");

  const looking = new AbortController();
  const lookingUp = dial({
    host: "hangs.example.org",
    port: 1,
    allowPrivate: true,
    signal: looking.signal,
    lookup: () => new Promise(() => undefined),
  });
  looking.abort(reason);
  await t.rejects(lookingUp, reason, "while the name is resolved");

  if (silent !== null) {
    const connecting = new AbortController();
    const dialling = dial({ host: silent, port: silentPort, allowPrivate: true, signal: connecting.signal });
    connecting.abort(new DOMException("deadline", "TimeoutError"));
    await t.rejects(
      dialling,
      { name: "DialError", phase: "connect", message: "connection timed out" },
      "while it connects; a deadline has words",
    );
  }
  await t.rejects(
    dial({ host: "127.0.0.1", port: 1, allowPrivate: true, signal: AbortSignal.abort(reason) }),
    reason,
    "before it begins",
  );
  await new Promise((settle) => setImmediate(settle));
  t.ok(openSockets() <= before + backlogSockets, "no socket is left");
});

let silentPort = 0;
let backlogSockets = 0;

/**
 * An address whose listener accepts no more connections and does not say so; null where the system does not behave so.
 */
async function fullBacklog(t: Test, port = 0): Promise<string | null> {
  const host = "127.0.0.3";
  const script =
    `const s=require('net').createServer();s.listen({port:${port},host:'${host}',backlog:1},()=>{` +
    "process.stdout.write(s.address().port+'\\n');setImmediate(()=>{for(;;);})});";
  const listener = spawn(process.execPath, ["-e", script], { stdio: ["ignore", "pipe", "inherit"] });
  t.teardown(() => listener.kill("SIGKILL"));
  silentPort = await new Promise<number>((settle) =>
    listener.stdout.once("data", (line: Buffer) => settle(Number(line.toString()))),
  );
  listener.kill("SIGSTOP");
  for (let i = 0; i < 8; i++) {
    const socket = connect({ host, port: silentPort });
    backlogSockets++;
    socket.on("error", () => undefined);
    t.teardown(() => socket.destroy());
    const connected = await new Promise<boolean>((settle) => {
      socket.once("connect", () => settle(true));
      // On a loaded machine the timer may come before a connection that is there already.
      setTimeout(() => setTimeout(() => settle(false), 50), 250);
    });
    if (!connected) return host;
  }
  return null;
}
