import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { AgentPing } from "@statusmesh/shared/protocol/agent-protocol";
import { newId } from "@statusmesh/shared/ids";
import { digestOf, isAddress, type PingRefusal, type PingRequest, readPing } from "@statusmesh/shared/pings/address";
import {
  inWordsOf,
  MinuteCounts,
  pingHeaders,
  PingRate,
  pingReplies,
  type PingReply,
  preflightHeaders,
  RateWarning,
  reasonOf,
  textOf,
} from "@statusmesh/shared/pings/receive";
import { messageOf } from "@statusmesh/shared/thrown";
import { hostAndPort } from "@statusmesh/shared/url";
import type { Clock } from "../clock.ts";
import type { Log } from "../telemetry/log.ts";
import { JournalFull, type PingJournal } from "./journal.ts";
import type { KnownAddresses } from "./known.ts";

/** New addresses of one visitor within a minute. Every well-formed one is taken, so made-up ones are bounded here. */
const newPerMinute = 1000;
const maxEntries = 50_000;
const maxSockets = 1000;

const full: PingReply = { status: 503, text: "the spool of the agent is full", headers: { "Retry-After": "60" } };
const broken: PingReply = { status: 503, text: "the ping could not be stored", headers: { "Retry-After": "5" } };

export interface ListenerOptions {
  bind: { host: string; port: number };
  journal: PingJournal;
  known: KnownAddresses;
  clock: Clock;
  log: Log;
}

export interface PingListener {
  /** `http://127.0.0.1:9465` */
  readonly url: string;
  close(): Promise<void>;
}

/**
 * Takes pings of jobs at the addresses of a control plane. The answer says that the ping is on the disk; whether a
 * monitor has the address is found out when it is delivered. Rejects with the error of `listen`.
 */
export async function openPingListener(options: ListenerOptions): Promise<PingListener> {
  const { bind, log } = options;
  const listener = new Listener(options);
  const limits = { maxHeaderSize: 16_384, headersTimeout: 5000, requestTimeout: 15_000, keepAliveTimeout: 5000 };
  const server = createServer(limits, (request, response) => {
    listener.answer(request, response).catch((error: unknown) => {
      log("error", "a ping could not be answered", { reason: messageOf(error) });
      response.destroy();
    });
  });
  server.maxConnections = maxSockets;
  server.listen(bind.port, bind.host);
  await once(server, "listening");
  const { address, port } = server.address() as AddressInfo;
  return {
    url: `http://${hostAndPort(address, port)}`,
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeIdleConnections();
      const cancel = options.clock.after(1000, () => server.closeAllConnections());
      await closed;
      cancel();
    },
  };
}

class Listener {
  readonly #options: ListenerOptions;
  readonly #rates = new Map<string, PingRate>();
  readonly #strangers = new MinuteCounts(maxEntries);
  readonly #warning = new RateWarning();

  constructor(options: ListenerOptions) {
    this.#options = options;
  }

  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "" } = request;
    if (method === "OPTIONS") return void response.writeHead(204, { ...pingHeaders, ...preflightHeaders }).end();
    if (method !== "GET" && method !== "HEAD" && method !== "POST")
      return send(request, response, null, pingReplies.otherMethod);
    const url = URL.canParse(request.url ?? "", "http://agent") ? new URL(request.url!, "http://agent") : null;
    const asked = readPing({
      method,
      path: url?.pathname ?? "",
      query: url?.searchParams ?? new URLSearchParams(),
      authorization: request.headers.authorization ?? "",
    });
    if ("status" in asked) return send(request, response, null, pingReplies.refused(asked));
    if (!isAddress(asked.address, asked.value)) return send(request, response, asked, pingReplies.unknown);
    send(request, response, asked, await this.#take(method, request, asked));
  }

  async #take(method: AgentPing["method"], request: IncomingMessage, asked: PingRequest): Promise<PingReply> {
    const { clock, journal, known, log } = this.#options;
    const now = clock.now();
    const address = digestOf(asked.address, asked.value);
    const source_ip = (request.socket.remoteAddress ?? "").replace(/^::ffff:(?=[\d.]+$)/, "").slice(0, 64);
    const rate = this.#rates.get(address);
    const isOver = rate !== undefined && !rate.take(now);
    const warning = isOver ? this.#warning.words(now) : null;
    if (warning !== null) log("warn", warning, { kind: asked.address });
    if (isOver && !rate.showsLife(now)) return pingReplies.limited(1);
    if (rate === undefined) {
      if (++this.#strangers.of(source_ip, now).count > newPerMinute) return pingReplies.limited(60);
      this.#rates.set(address, new PingRate(now));
      if (this.#rates.size > maxEntries) this.#rates.delete(this.#rates.keys().next().value!);
    }
    // The control plane has just said that no monitor has this address.
    if (known.isUnknown(address, now)) return isOver ? pingReplies.limited(1) : pingReplies.stored;
    // Made-up addresses do not take the room of real ones.
    if (journal.isFilling && !known.isKnown(address)) return full;
    const body = isOver ? null : textOf(request, asked, () => undefined);
    const message = isOver ? null : await reasonOf(asked, body);
    const ping: AgentPing = {
      id: newId(),
      address,
      at: now,
      method,
      kind: asked.kind,
      exit_code: asked.exitCode,
      run_id: asked.runId,
      source_ip,
      user_agent: (request.headers["user-agent"] ?? "").slice(0, 200),
      ...(message === null ? {} : { message }),
      ...(asked.durationMs === null ? {} : { duration_ms: asked.durationMs }),
      ...(isOver ? { beyond_rate: true as const } : {}),
    };
    try {
      await journal.append({ ping });
    } catch (error) {
      return error instanceof JournalFull ? full : broken;
    }
    if (body !== null) void this.#keepBody(ping, body);
    return isOver ? pingReplies.limited(1) : pingReplies.stored;
  }

  async #keepBody({ id, address }: AgentPing, body: Promise<string>): Promise<void> {
    const text = await body.catch(() => "");
    if (text !== "")
      await this.#options.journal.append({ body: { id, address, body: text } }).catch((error: unknown) => {
        this.#options.log("warn", "the body of a ping could not be stored", { reason: messageOf(error) });
      });
  }
}

function send(
  request: IncomingMessage,
  response: ServerResponse,
  asked: PingRequest | PingRefusal | null,
  reply: PingReply,
): void {
  const { headers, body } = inWordsOf(asked, reply);
  response.writeHead(reply.status, { ...pingHeaders, ...headers, "Content-Length": Buffer.byteLength(body) });
  response.end(request.method === "HEAD" ? undefined : body);
}
