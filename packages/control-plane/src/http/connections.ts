import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";
import type { BlockList, Socket } from "node:net";
import { AppError } from "@statusmesh/shared/errors";
import { addressKey, canonicalAddress } from "./address.ts";
import { isListed } from "@statusmesh/shared/net/address-list";
import { answerRaw, parserError, refuse } from "./raw-answer.ts";

/** Unanswered requests per connection; browsers and agents send one at a time. */
const maxPipelined = 32;
/** Connections beyond the limits that stay open for a 503; the oldest is evicted for the next. */
const maxOver = 128;
const overLifeMs = 3_000;

export interface ConnectionLimits {
  /** Connections in total. */
  readonly max: number;
  /** Connections per address, of IPv6 per /64; 0 is unlimited. */
  readonly perAddress: number;
  /** Addresses without the limit {@link perAddress}: a proxy serves many visitors. */
  readonly proxies: BlockList;
  /** Stall time of a reader, ms, before {@link minBytesPerSecond} applies. */
  readonly stallMs: number;
  /** A reader below this average is disconnected. */
  readonly minBytesPerSecond: number;
}

/** Not configurable: a phone on the slowest network reads more than 1 KiB/s. */
export const readerPace = { stallMs: 30_000, minBytesPerSecond: 1024 };

interface Connection {
  readonly socket: Socket;
  readonly key: string;
  /** Beyond the limits: only /healthz and /readyz are answered, and the connection closes soon. */
  readonly over: boolean;
  unanswered: number;
  /** Pipelined requests that wait for the previous reply. */
  readonly next: (() => void)[];
  /** Start of the current stall and the bytes read until then. */
  stall: { since: number; taken: number } | null;
}

/**
 * Enforces the limits of connections: in total, per address, of unanswered requests, and of slow readers. Beyond the
 * number limits only /healthz and /readyz are answered. Requests that the parser refuses get the error envelope.
 * `listener` gets all other requests. Stops with the server.
 */
export function serveGuarded(server: Server, limits: ConnectionLimits, listener: () => RequestListener): void {
  const connections = new Map<Socket, Connection>();
  const perKey = new Map<string, number>();
  const over = new Set<Connection>();

  const admit = (socket: Socket): void => {
    const address = canonicalAddress(socket.remoteAddress ?? "");
    const key = addressKey(address);
    const same = perKey.get(key) ?? 0;
    const crowded = limits.perAddress > 0 && same >= limits.perAddress && !isListed(limits.proxies, address);
    const connection: Connection = {
      socket,
      key,
      over: crowded || connections.size - over.size >= limits.max,
      unanswered: 0,
      next: [],
      stall: null,
    };
    connections.set(socket, connection);
    if (connection.over) admitOver(connection);
    else perKey.set(key, same + 1);
    socket.once("close", () => {
      connections.delete(socket);
      if (over.delete(connection)) return;
      const left = perKey.get(key)! - 1;
      if (left === 0) perKey.delete(key);
      else perKey.set(key, left);
    });
  };

  const admitOver = (connection: Connection): void => {
    const [oldest] = over;
    if (over.size >= maxOver) oldest?.socket.resetAndDestroy();
    over.add(connection);
    const timer = setTimeout(() => connection.socket.resetAndDestroy(), overLifeMs).unref();
    connection.socket.once("close", () => clearTimeout(timer));
  };

  const take = (request: IncomingMessage, response: ServerResponse): void => {
    const connection = connections.get(request.socket);
    // Pipelined behind the request that closed the connection.
    if (connection === undefined || request.socket.destroyed) return;
    if (connection.over) {
      response.setHeader("Connection", "close");
      if (!/^\/(?:healthz|readyz)$/.test(request.url ?? "")) return refuse(response, tooMany(limits));
    }
    if (++connection.unanswered > maxPipelined) return void request.socket.resetAndDestroy();
    response.once("close", () => {
      if (--connection.unanswered === 0) connection.stall = null;
      connection.next.shift()?.();
    });
    // One at a time: the parser emits all pipelined requests in one turn of the event loop.
    if (connection.unanswered === 1) listener()(request, response);
    else connection.next.push(() => void (request.socket.destroyed || listener()(request, response)));
  };

  // Monotonic time: a change of the wall clock closes no connection.
  const sweep = setInterval(() => {
    const now = performance.now();
    for (const connection of connections.values())
      if (tooSlow(connection, now, limits)) connection.socket.resetAndDestroy();
  }, limits.stallMs / 6).unref();

  server.on("connection", admit);
  server.on("request", take);
  // `readBody` sends 100 Continue; other expectations are ignored (RFC 9110, section 10.1.1).
  server.on("checkContinue", take);
  server.on("checkExpectation", take);
  server.on("connect", (_request, socket) => answerRaw(socket as Socket, parserError({ code: "HPE_INVALID_METHOD" })));
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    const busy = (connections.get(socket as Socket)?.unanswered ?? 0) > 0;
    if (error.code === "ECONNRESET" || !socket.writable || busy) socket.destroy();
    else answerRaw(socket as Socket, parserError(error));
  });
  server.on("close", () => clearInterval(sweep));
}

/** True for a reader below the minimum rate. Records the start of a stall. */
function tooSlow(connection: Connection, now: number, { stallMs, minBytesPerSecond }: ConnectionLimits): boolean {
  const { waiting, taken } = flowOf(connection.socket);
  if (waiting === 0) connection.stall = null;
  else if (connection.stall === null) connection.stall = { since: now, taken };
  else {
    const ms = now - connection.stall.since;
    return ms >= stallMs && taken - connection.stall.taken < (ms / 1000) * minBytesPerSecond;
  }
  return false;
}

/** Bytes that wait for the reader and bytes that the kernel has accepted; only the handle has the size of its queue. */
function flowOf(socket: Socket): { waiting: number; taken: number } {
  const { _handle: handle } = socket as unknown as { _handle?: { writeQueueSize?: number; bytesWritten?: number } };
  const queued = handle?.writeQueueSize ?? 0;
  return { waiting: queued + socket.writableLength, taken: (handle?.bytesWritten ?? 0) - queued };
}

const tooMany = ({ max, perAddress }: ConnectionLimits): AppError =>
  new AppError("TOO_MANY_CONNECTIONS", "There are too many open connections. Close some, or try again in a moment.", {
    retryAfterSecs: 5,
    details: { limit: max, limit_per_address: perAddress === 0 ? null : perAddress },
  });
