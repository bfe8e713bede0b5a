import { createSocket } from "node:dgram";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createSecureServer } from "node:https";
import { type AddressInfo, createServer as createTcpServer, type Server } from "node:net";
import { decode, encode } from "dns-packet";
import { type Measurable, reply, zone } from "./kinds.ts";

// The checked server: a minimal response on every loopback address. Prints its port on the first line.
// Arguments: kind, and for https the file with key and certificate.
const [kind = "http", pemFile = ""] = process.argv.slice(2) as [Measurable?, string?];
const ready = (port: number): void => void process.stdout.write(`${port}\n`);

if (kind === "dns") {
  const socket = createSocket("udp4");
  socket.on("message", (question, { port, address }) => {
    const { id, questions } = decode(question);
    socket.send(
      encode({
        type: "response",
        id: id ?? 0,
        questions: questions ?? [],
        answers: [{ type: "A", name: zone.name, ttl: 60, data: zone.address }],
      }),
      port,
      address,
    );
  });
  socket.bind(0, "127.0.0.1", () => ready(socket.address().port));
} else {
  const server = serverOf(kind);
  server.listen(0, "0.0.0.0", 4096, () => ready((server.address() as AddressInfo).port));
}
process.on("SIGTERM", () => process.exit(0));

function serverOf(of: Exclude<Measurable, "dns">): Server {
  if (of === "tcp") return createTcpServer((socket) => socket.on("error", () => undefined).resume());
  if (of !== "https")
    return Object.assign(
      createServer((_request, response) => {
        response.setHeader("content-type", "application/json");
        response.end(reply);
      }),
      { keepAliveTimeout: 1 },
    );
  const pem = readFileSync(pemFile);
  return createSecureServer({ key: pem, cert: pem }, (_request, response) => response.end("ok"));
}
