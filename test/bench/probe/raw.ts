import { connect } from "node:net";
import { createHistogram } from "node:perf_hooks";
import { hosts } from "./hosts.ts";

// The yardstick: the least that Node can do to send a request over a fresh connection and see the answer.
const [port = "0", perSecond = "0"] = process.argv.slice(2);
const lag = createHistogram();
let sent = 0;
const begun = performance.now();

function request(): void {
  const host = hosts[sent++ % hosts.length] as string;
  const socket = connect({ host, port: Number(port) });
  socket.on("connect", () => socket.write(`GET / HTTP/1.1\r\nHost: ${host}:${port}\r\nConnection: close\r\n\r\n`));
  socket.on("data", (chunk: Buffer) => {
    if (chunk.toString("latin1", 9, 12) !== "200") throw new Error("the target does not answer 200");
  });
  socket.on("end", () => socket.destroy());
  socket.on("error", (error) => {
    throw error;
  });
}

function turn(): void {
  const due = ((performance.now() - begun) / 1000) * Number(perSecond);
  for (let i = 0; sent < due && i < 4; i++) {
    lag.record(Math.max(1, Math.round(((due - sent) / Number(perSecond)) * 1e6)));
    request();
  }
  setTimeout(turn, 1);
}
turn();
process.stdout.write("started\n");
process.on("SIGTERM", () => {
  process.stdout.write(`${JSON.stringify({ sent, lag_p99_ms: lag.percentile(99) / 1000 })}\n`, () => process.exit(0));
});
