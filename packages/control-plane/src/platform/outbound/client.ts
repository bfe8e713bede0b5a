import { readFileSync } from "node:fs";
import type { Socket } from "node:net";
import { createSecureContext, type SecureContext } from "node:tls";
import { dial } from "@statusmesh/shared/net/dial";
import { wordsFor } from "@statusmesh/shared/net/dial-error";
import type { Lookup } from "@statusmesh/shared/net/resolve";
import { secure } from "@statusmesh/shared/net/tls";
import type { Clock } from "../process/clock.ts";

const { version } = JSON.parse(readFileSync(new URL("../../../package.json", import.meta.url), "utf8")) as {
  version: string;
};
/** User-Agent of every outbound request. */
export const userAgent = `StatusMesh/${version}`;

/** Loaded with the first request: it takes a tenth of the CPU time of a start. */
const loadUndici = async () => (await import("undici")).default;

const usualDeadlineMs = 10_000;
/** Maximum number of bytes read from a reply, where the client sets no other. */
const usualReplyBytes = 65_536;

export interface OutboundRequest {
  method: "GET" | "POST" | "PUT" | "DELETE";
  /** https (or http where the client allows it), without credentials. */
  url: string;
  /**
   * Origin and base path to dial in place of those of `url`. The operator chooses it, so it may be http and private.
   */
  endpoint?: string | undefined;
  headers: Record<string, string>;
  /** Text is sent as UTF-8, byte for byte. */
  body?: string | Buffer;
}

export interface OutboundReply {
  status: number;
  /** The body, up to `maxReplyBytes`. */
  text: string;
  /** The same before it was decoded; senders of tests leave it out. */
  bytes?: Buffer;
  /** Null for an absent or invalid header. */
  retryAfterSecs: number | null;
}

/** HTTP client for addresses chosen by organisations. */
export interface Outbound {
  /**
   * Sends one request over its own connection. Any response is a reply, also a redirect; without one it throws {@link
   * OutboundError}.
   */
  send(request: OutboundRequest): Promise<OutboundReply>;
}

/** No response. The message is for the owner of the receiver, and holds no part of the request. */
export class OutboundError extends Error {
  override readonly name = "OutboundError";
}

export interface OutboundOptions {
  /** True disables the guard against private addresses. */
  allowPrivate: boolean;
  clock: Clock;
  /** True allows http. */
  allowHttp?: boolean | undefined;
  /** CA certificates (PEM) in place of the system's. */
  ca?: string | undefined;
  /** Replaces the shared TLS context, without `ca`. */
  context?: SecureContext | null | undefined;
  lookup?: Lookup | undefined;
  /** Deadline from name lookup to the last byte of the reply, ms; default 10 s. */
  deadlineMs?: number | undefined;
  /** Bytes that are read of a reply; default 64 KiB. */
  maxReplyBytes?: number | undefined;
  /** Aborts requests in flight. */
  signal?: AbortSignal | undefined;
}

/**
 * Opens the client. Every request resolves and dials through the guard: a pooled socket would not be checked again.
 * Redirects are not followed and proxies are not used, because both would choose the destination.
 */
export function createOutbound(options: OutboundOptions): Outbound {
  const deadlineMs = options.deadlineMs ?? usualDeadlineMs;
  const context = options.ca === undefined ? (options.context ?? undefined) : createSecureContext({ ca: options.ca });

  async function open(url: URL, trusted: boolean, signal: AbortSignal): Promise<Socket> {
    const host = url.hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");
    const { socket } = await dial({
      host,
      port: Number(url.port || (url.protocol === "https:" ? 443 : 80)),
      allowPrivate: trusted || options.allowPrivate,
      signal,
      lookup: options.lookup,
    });
    if (url.protocol === "http:") return socket;
    return await secure({ socket, host, verify: true, signal, context, now: () => options.clock.now() });
  }

  async function exchange(request: OutboundRequest, signal: AbortSignal): Promise<OutboundReply> {
    const trusted = request.endpoint !== undefined;
    const url = trusted ? atEndpoint(request.url, request.endpoint!) : new URL(request.url);
    if (!trusted && url.protocol !== "https:" && !(url.protocol === "http:" && options.allowHttp === true))
      throw new OutboundError("the URL is not https, and this instance does not allow http (channels.allow_http)");
    const { Client } = await loadUndici();
    // The client has no timeouts of its own: the signal ends both the connection attempt and the request.
    const client = new Client(url.origin, {
      connect: (_options, done) =>
        void open(url, trusted, signal).then(
          (socket) => done(null, socket),
          (error: Error) => done(error, null),
        ),
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    try {
      const { statusCode, headers, body } = await client.request({
        method: request.method,
        path: url.pathname + url.search,
        headers: { "user-agent": userAgent, ...request.headers },
        body: request.body ?? null,
        // Connection: close, because each request has its own connection.
        reset: true,
        signal,
      });
      const bytes = await readSome(body, options.maxReplyBytes ?? usualReplyBytes);
      return {
        status: statusCode,
        bytes,
        text: bytes.toString("utf8"),
        retryAfterSecs: retryAfter(headers["retry-after"], options.clock.now()),
      };
    } finally {
      client.destroy().catch(() => undefined);
    }
  }

  return {
    async send(request) {
      if (options.signal?.aborted) throw new OutboundError("the sender is stopping");
      // Not AbortSignal.any: on Node 20 a long-lived signal retains memory for every signal derived from it.
      const cut = new AbortController();
      const stop = (): void => cut.abort(new OutboundError("the sender is stopping"));
      options.signal?.addEventListener("abort", stop, { once: true });
      const timer = setTimeout(
        () => cut.abort(new OutboundError(`no answer within ${deadlineMs / 1000} s`)),
        deadlineMs,
      );
      try {
        return await exchange(request, cut.signal);
      } catch (error) {
        const cause: unknown = cut.signal.aborted ? cut.signal.reason : error;
        throw cause instanceof OutboundError ? cause : new OutboundError(wordsFor(cause), { cause });
      } finally {
        clearTimeout(timer);
        options.signal?.removeEventListener("abort", stop);
      }
    },
  };
}

/** The URL at another origin, with the path of `endpoint` before its own. */
function atEndpoint(url: string, endpoint: string): URL {
  const { pathname, search } = new URL(url);
  const base = new URL(endpoint);
  base.pathname = base.pathname.replace(/\/$/, "") + pathname;
  base.search = search;
  return base;
}

async function readSome(body: AsyncIterable<Buffer>, most: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    chunks.push(chunk.subarray(0, most - size));
    size += chunk.length;
    if (size >= most) break;
  }
  return Buffer.concat(chunks);
}

/** Seconds from now of a Retry-After in either form (RFC 9110 section 10.2.3); null for an absent or invalid one. */
export function retryAfter(header: string | string[] | undefined, now: number): number | null {
  const value = (Array.isArray(header) ? header[0] : header)?.trim() ?? "";
  if (/^\d{1,9}$/.test(value)) return Number(value);
  // HTTP dates end in GMT or in a year; Date.parse alone accepts much more.
  const date = /^[A-Z][a-z]+,? .*(GMT|\d{4})$/.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(date) ? null : Math.max(0, Math.ceil((date - now) / 1000));
}
