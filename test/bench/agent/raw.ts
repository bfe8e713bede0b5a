import { spawn } from "node:child_process";
import { Resolver } from "node:dns";
import { connect as connectHttp2 } from "node:http2";
import { connect } from "node:net";
import { createHistogram } from "node:perf_hooks";
import { connect as connectSecurely, createSecureContext } from "node:tls";
import { hostOf } from "./hosts.ts";
import { health, type Measurable, packets, zone } from "./kinds.ts";

// The yardstick: a bare Node client that sends the request of a check over a fresh connection and verifies the
// response. Arguments: kind, port and requests per second.
const [kind = "http", port = "0", perSecond = "0"] = process.argv.slice(2) as [Measurable?, string?, string?];
const lag = createHistogram();
let sent = 0;
let done = 0;
const begun = performance.now();
const secureContext = createSecureContext();
const resolver = new Resolver();
resolver.setServers([`127.0.0.1:${port}`]);

const fail = (error: Error): never => {
  throw error;
};

const once: Record<Measurable, (host: string) => void> = {
  http: (host) => speak(connect({ host, port: Number(port) }), "connect", host),
  http_expectations: (host) => once.http(host),
  https: (host) => speak(connectSecurely({ host, port: Number(port), secureContext }), "secureConnect", host),
  tcp(host) {
    const socket = connect({ host, port: Number(port) });
    socket.on("connect", () => {
      socket.destroy();
      done++;
    });
    socket.on("error", fail);
  },
  websocket(host) {
    const socket = connect({ host, port: Number(port) });
    socket.on("connect", () =>
      socket.write(
        `GET / HTTP/1.1\r\nHost: ${host}:${port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
          "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
      ),
    );
    socket.on("data", (chunk: Buffer) => {
      if (chunk.toString("latin1", 9, 12) !== "101") throw new Error("the target does not answer 101");
      // A masked close frame with 1000.
      socket.end(Buffer.from("88820000000003e8", "hex"));
      done++;
    });
    socket.on("error", fail);
  },
  grpc(host) {
    const session = connectHttp2(`http://${host}:${port}`);
    session.on("error", fail);
    const request = session.request({
      ":method": "POST",
      ":path": health.path,
      "content-type": "application/grpc",
      te: "trailers",
    });
    request.on("data", (chunk: Buffer) => {
      if (!chunk.equals(health.serving)) throw new Error("the target does not answer SERVING");
      done++;
    });
    request.on("trailers", () => session.destroy());
    request.end(health.ask);
  },
  ping(host) {
    const { count, intervalMs } = packets;
    const args = ["-n", "-c", String(count), "-i", (intervalMs / 1000).toFixed(3), "-W", "10", host];
    const child = spawn("ping", args, { stdio: ["ignore", "pipe", "ignore"] });
    let output = "";
    child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString("latin1")));
    child.on("error", fail);
    child.on("close", () => {
      if (!output.includes(`${count} received`)) throw new Error(`not every packet came back: ${output}`);
      done++;
    });
  },
  dns() {
    resolver.resolve4(zone.name, (error, addresses) => {
      if (error !== null || addresses[0] !== zone.address) throw error ?? new Error("another address");
      done++;
    });
  },
};

function speak(socket: ReturnType<typeof connect>, connected: string, host: string): void {
  socket.on(connected, () => socket.write(`GET / HTTP/1.1\r\nHost: ${host}:${port}\r\nConnection: close\r\n\r\n`));
  socket.on("data", (chunk: Buffer) => {
    if (chunk.toString("latin1", 9, 12) !== "200") throw new Error("the target does not answer 200");
    done++;
  });
  socket.on("end", () => socket.destroy());
  socket.on("error", fail);
}

function turn(): void {
  const due = ((performance.now() - begun) / 1000) * Number(perSecond);
  for (let i = 0; sent < due && i < 4; i++) {
    lag.record(Math.max(1, Math.round(((due - sent) / Number(perSecond)) * 1e6)));
    once[kind](hostOf(sent++, kind === "https"));
  }
  setTimeout(turn, Math.max(1, ((sent + 1) / Number(perSecond)) * 1000 - (performance.now() - begun)));
}
turn();
process.stdout.write("started\n");
// Replies with its counts; the lag covers the time since the last reply.
process.stdin.on("data", () => {
  process.stdout.write(`${JSON.stringify({ done, lag_p99_ms: lag.percentile(99) / 1000 })}\n`);
  lag.reset();
});
process.on("SIGTERM", () => process.exit(0));
