import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";
import type { BlockList, Socket } from "node:net";
import { AppError } from "@statusmesh/shared/errors";
import { addressKey, canonicalAddress } from "./per-ip.ts";
import { isListed } from "@statusmesh/shared/net/address";
import { answerRaw, parserError, refuse } from "../reply/raw-answer.ts";

/**
 * Classes of connections, by their current request. Each has a share of all connections that no other class can take;
 * the rest is for whichever comes first. Streams stay for hours, so they have their share only.
 */
export type ConnectionClass = "visitors" | "api" | "agents" | "streams";
const sharePerClass = 1 / 8;

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
  /** Class of a request; an application makes a connection a stream by {@link becomeStream}. */
  readonly classOf: (request: IncomingMessage) => Exclude<ConnectionClass, "streams">;
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
  /** False for a trusted proxy, which serves many visitors. */
  readonly limited: boolean;
  /** `new` until its first request; `over` without a slot: it closes soon unless its class has one. */
  place: ConnectionClass | "new" | "over";
  unanswered: number;
  /** Pipelined requests that wait for the previous reply. */
  readonly next: (() => void)[];
  /** Start of the current stall and the bytes read until then. */
  stall: { since: number; taken: number } | null;
}

const makeStream = new WeakMap<Socket, () => boolean>();

/** Counts the connection as a stream until its next request. False when the share of streams is taken. */
export const becomeStream = (socket: Socket): boolean => makeStream.get(socket)?.() ?? true;

/**
 * Enforces the limits of connections: in total, per class and address, of unanswered requests, and of slow readers.
 * Without a slot only /healthz and /readyz are answered. Requests that the parser refuses get the error envelope.
 * `listener` gets all other requests. Stops with the server.
 */
export function serveGuarded(server: Server, limits: ConnectionLimits, listener: () => RequestListener): void {
  const connections = new Map<Socket, Connection>();
  const perKey = new Map<string, number>();
  const over = new Set<Connection>();
  const share = Math.floor(limits.max * sharePerClass);
  const held = { visitors: 0, api: 0, agents: 0, streams: 0, new: 0 };

  const hasRoom = (to: ConnectionClass | "new"): boolean => {
    if (to !== "new" && held[to] < share) return true;
    if (to === "streams") return false;
    const beyond = (one: ConnectionClass): number => Math.max(0, held[one] - share);
    return held.new + beyond("visitors") + beyond("api") + beyond("agents") < limits.max - 4 * share;
  };

  /** Moves the connection; false, and without a slot, when the class is full. */
  const move = (connection: Connection, to: ConnectionClass | "new"): boolean => {
    leave(connection);
    const { key, limited } = connection;
    const same = perKey.get(key) ?? 0;
    if ((limited && same >= limits.perAddress) || !hasRoom(to)) {
      admitOver(connection);
      return false;
    }
    held[to]++;
    connection.place = to;
    perKey.set(key, same + 1);
    return true;
  };

  const leave = (connection: Connection): void => {
    const { key, place } = connection;
    if (place === "over") return void over.delete(connection);
    held[place]--;
    connection.place = "over";
    const left = perKey.get(key)! - 1;
    if (left === 0) perKey.delete(key);
    else perKey.set(key, left);
  };

  const admit = (socket: Socket): void => {
    const address = canonicalAddress(socket.remoteAddress ?? "");
    const limited = limits.perAddress > 0 && !isListed(limits.proxies, address);
    const connection: Connection = {
      socket,
      key: addressKey(address),
      limited,
      place: "over",
      unanswered: 0,
      next: [],
      stall: null,
    };
    connections.set(socket, connection);
    move(connection, "new");
    makeStream.set(socket, () => connection.place === "streams" || (hasRoom("streams") && move(connection, "streams")));
    socket.once("close", () => {
      connections.delete(socket);
      leave(connection);
    });
  };

  const admitOver = (connection: Connection): void => {
    const [oldest] = over;
    if (over.size >= maxOver) oldest?.socket.resetAndDestroy();
    over.add(connection);
    const end = (): void => void (over.has(connection) && connection.socket.resetAndDestroy());
    // After a stall of the event loop a request may have arrived that is read in this turn, and gets its 503.
    const timer = setTimeout(() => setImmediate(end), overLifeMs).unref();
    connection.socket.once("close", () => clearTimeout(timer));
  };

  const take = (request: IncomingMessage, response: ServerResponse): void => {
    const connection = connections.get(request.socket);
    // Pipelined behind the request that closed the connection.
    if (connection === undefined || request.socket.destroyed) return;
    // Pipelined requests share the slot of the first one.
    if (connection.unanswered === 0 && !hasPlace(connection, request)) {
      response.setHeader("Connection", "close");
      if (!isHealth(request)) return refuse(response, tooMany(limits));
    }
    if (++connection.unanswered > maxPipelined) return void request.socket.resetAndDestroy();
    response.on("close", () => {
      if (--connection.unanswered === 0) connection.stall = null;
      connection.next.shift()?.();
    });
    // One at a time: the parser emits all pipelined requests in one turn of the event loop.
    if (connection.unanswered === 1) listener()(request, response);
    else connection.next.push(() => void (request.socket.destroyed || listener()(request, response)));
  };

  /** Moves the connection to the class of its request. */
  const hasPlace = (connection: Connection, request: IncomingMessage): boolean => {
    if (isHealth(request)) return connection.place !== "over";
    const to = limits.classOf(request);
    return connection.place === to || move(connection, to);
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

const isHealth = ({ url = "" }: IncomingMessage): boolean => url === "/healthz" || url === "/readyz";

const tooMany = ({ max, perAddress }: ConnectionLimits): AppError =>
  new AppError("TOO_MANY_CONNECTIONS", "There are too many open connections. Close some, or try again in a moment.", {
    retryAfterSecs: 5,
    details: { limit: max, limit_per_address: perAddress === 0 ? null : perAddress },
  });
