import { createHash } from "node:crypto";
import { createSocket } from "node:dgram";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createHttp2Server } from "node:http2";
import { createServer as createSecureServer } from "node:https";
import { type AddressInfo, createServer as createTcpServer, type Server } from "node:net";
import { decode, encode } from "dns-packet";
import { health, type Measurable, reply, zone } from "./kinds.ts";

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
  // The kernel answers pings.
  if (of === "tcp" || of === "ping") return createTcpServer((socket) => socket.on("error", () => undefined).resume());
  if (of === "grpc") {
    const server = createHttp2Server();
    server
      .on("sessionError", () => undefined)
      .on("stream", (stream) => {
        stream.on("error", () => undefined).on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
        stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
        stream.end(health.serving);
      });
    return server as unknown as Server;
  }
  if (of === "websocket")
    return createServer().on("upgrade", (request, socket) => {
      const key = `${request.headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
      const accept = createHash("sha1").update(key).digest("base64");
      socket.write(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
          `Sec-WebSocket-Accept: ${accept}\r\n\r\n`,
      );
      socket.on("error", () => undefined).on("data", () => socket.end());
    });
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
