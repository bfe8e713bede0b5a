import { createServer as createHttpServer, type ServerResponse } from "node:http";
import { createServer, type Server, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "@statusmesh/control-plane/testing/ports";
import type { Teardown } from "./folder.ts";

/**
 * Behaviour of a target for the next requests: a reply with a status, delayed where set; no reply; a connection reset;
 * or an endless body of single bytes.
 */
export type Behaviour =
  | { status: number; delayMs?: number; headers?: Record<string, string>; body?: string }
  | "hang"
  | "reset"
  | "drip";

export interface TestServer {
  readonly port: number;
  /** Number of requests, or of connections for a tcp target. */
  readonly requests: () => number;
  /** Closes the port, so that connections are refused. */
  down(): Promise<void>;
  /** Opens the same port again. */
  up(): Promise<void>;
}

export interface HttpTarget extends TestServer {
  readonly url: string;
  behave(how: Behaviour): void;
}

const host = "127.0.0.1";

async function listen(server: Server, port: number): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      await new Promise<void>((resolve, reject) => {
        server.once("error", reject);
        server.listen(port, host, () => {
          server.off("error", reject);
          resolve();
        });
      });
      return;
    } catch (error) {
      // Connections of the last time may hold the port for a moment.
      if (tries === 50) throw error;
      await sleep(100);
    }
  }
}

async function switchable(t: Teardown, server: Server): Promise<Pick<TestServer, "port" | "down" | "up">> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.on("close", () => sockets.delete(socket));
  });
  const port = await freePort();
  await listen(server, port);
  const down = async (): Promise<void> => {
    if (!server.listening) return;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  t.teardown(down);
  return { port, down, up: async () => void (server.listening || (await listen(server, port))) };
}

/** An HTTP server, healthy until a test changes its answer. */
export async function startHttpTarget(t: Teardown, first: Behaviour = { status: 200 }): Promise<HttpTarget> {
  let how = first;
  let requests = 0;
  const server = createHttpServer((request, response) => {
    requests++;
    request.resume();
    void answer(response, how);
  });
  const { port, down, up } = await switchable(t, server);
  return { port, url: `http://${host}:${port}/`, requests: () => requests, behave: (next) => (how = next), down, up };
}

async function answer(response: ServerResponse, how: Behaviour): Promise<void> {
  if (how === "hang") return;
  if (how === "reset") return void response.socket?.resetAndDestroy();
  if (how === "drip") {
    response.writeHead(200, { "Content-Type": "text/plain" });
    while (!response.destroyed) {
      response.write(".");
      await sleep(100);
    }
    return;
  }
  if (how.delayMs !== undefined) await sleep(how.delayMs);
  response.writeHead(how.status, { "Content-Type": "text/plain", ...how.headers }).end(how.body ?? "ok\n");
}

export interface TcpTarget extends TestServer {
  /** Time of each connection, Unix ms. */
  readonly arrivals: readonly number[];
}

/** A tcp server that accepts and stays silent. */
export async function startTcpTarget(t: Teardown): Promise<TcpTarget> {
  const arrivals: number[] = [];
  const server = createServer((socket) => {
    arrivals.push(Date.now());
    socket.resume();
  });
  return { ...(await switchable(t, server)), arrivals, requests: () => arrivals.length };
}
