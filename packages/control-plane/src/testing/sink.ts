import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { generate } from "selfsigned";
import type { Teardown } from "./database.ts";

export interface Received {
  path: string;
  headers: IncomingMessage["headers"];
  /** The raw bytes of the body. */
  body: Buffer;
}

export type SinkAnswer = (request: Received, reply: ServerResponse) => void;

/** An https server on loopback that records its requests. Its own authority `ca` signs its certificate. */
export async function startSink(
  t: Teardown,
  first: SinkAnswer = (_request, reply) => void reply.writeHead(200).end("ok"),
) {
  // A name of its own: of two authorities with one name, a client that trusts both finds only one.
  const authority = await generate([{ name: "commonName", value: `Test authority ${randomUUID()}` }], {
    keyType: "ec",
    algorithm: "sha256",
    extensions: [
      { name: "basicConstraints", cA: true, critical: true },
      { name: "keyUsage", keyCertSign: true, critical: true },
    ],
  });
  const own = await generate([{ name: "commonName", value: "127.0.0.1" }], {
    keyType: "ec",
    algorithm: "sha256",
    extensions: [
      {
        name: "subjectAltName",
        altNames: [
          { type: 2, value: "hooks.example.org" },
          { type: 7, ip: "127.0.0.1" },
        ],
      },
    ],
    ca: { key: authority.private, cert: authority.cert },
  });
  const received: Received[] = [];
  const sink = { ca: authority.cert, url: "", received, answer: first, connections: 0 };
  const server = createServer({ key: own.private, cert: own.cert }, (request, reply) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const got = { path: request.url ?? "", headers: request.headers, body: Buffer.concat(chunks) };
      received.push(got);
      sink.answer(got, reply);
    });
  });
  server.on("secureConnection", () => void sink.connections++);
  server.on("tlsClientError", () => undefined);
  // A sender may be killed while it waits.
  server.on("clientError", (_error, socket) => socket.destroy());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  sink.url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return sink;
}
