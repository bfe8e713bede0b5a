import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";
import type { BlockList, Socket } from "node:net";
import { AppError } from "@statusmesh/shared/errors";
import { addressKey, canonicalAddress } from "./address.ts";
import { isListed } from "./address-list.ts";
import { answerRaw, parserError, refuse } from "./raw-answer.ts";

/** Requests that a connection may have unanswered; browsers and agents send one at a time. */
const maxPipelined = 32;
/** Connections over the limits that are kept long enough to be answered; the oldest makes room for the next. */
const maxOver = 128;
const overLifeMs = 3_000;

export interface ConnectionLimits {
  /** Connections in all. */
  readonly max: number;
  /** Connections of one address, or of one /64 of IPv6; 0 is any number. */
  readonly perAddress: number;
  /** Addresses that {@link perAddress} is not for: one proxy stands for many visitors. */
  readonly proxies: BlockList;
  /** How long a reader may take nothing of what is there for it. From then on it is held to {@link minBytesPerSecond}. */
  readonly stallMs: number;
  /** A connection is closed that takes less than this on average. */
  readonly minBytesPerSecond: number;
}

/** Figures that are no configuration: a phone on the slowest network reads more than a KiB a second. */
export const readerPace = { stallMs: 30_000, minBytesPerSecond: 1024 };

interface Connection {
  readonly socket: Socket;
  readonly key: string;
  /** Over the limits: answered only about the health of the service, and closed soon. */
  readonly over: boolean;
  unanswered: number;
  /** Requests that wait for the answer to the one before them. */
  readonly next: (() => void)[];
  /** Since when something waits to be read, and how much had been read then. */
  stall: { since: number; taken: number } | null;
}

/**
 * Keeps connections within limits: in all, for each address, in unanswered requests and in how slowly a reader may read.
 * Beyond the number limits only /healthz and /readyz are answered. Also answers what the parser refuses, in the envelope.
 * `listener` gets the other requests. Stops with the server.
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
    // What was pipelined behind the request that closed it.
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
    // One at a time: the parser hands over all that was pipelined in one turn of the event loop.
    if (connection.unanswered === 1) listener()(request, response);
    else connection.next.push(() => void (request.socket.destroyed || listener()(request, response)));
  };

  // Milliseconds of the process: a wall clock that is set must close nobody's connection.
  const sweep = setInterval(() => {
    const now = performance.now();
    for (const connection of connections.values())
      if (tooSlow(connection, now, limits)) connection.socket.resetAndDestroy();
  }, limits.stallMs / 6).unref();

  server.on("connection", admit);
  server.on("request", take);
  // Bodies that are announced are asked for when they are read; other expectations are ignored (RFC 9110, section 10.1.1).
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

/** True for a reader that has taken too little of what waits for it. Notes since when it waits. */
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

/** Bytes that wait for the reader, and those that the system has taken for it. Node has the size of the system's queue nowhere else. */
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
