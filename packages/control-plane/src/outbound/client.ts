import { readFileSync } from "node:fs";
import type { Socket } from "node:net";
import { createSecureContext, type SecureContext } from "node:tls";
import { Client } from "undici";
import { dial } from "@statusmesh/shared/net/dial";
import { wordsFor } from "@statusmesh/shared/net/dial-error";
import type { Lookup } from "@statusmesh/shared/net/resolve";
import { secure } from "@statusmesh/shared/net/tls";
import type { Clock } from "../context.ts";

const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
  version: string;
};
/** What every request of ours says it is. */
export const userAgent = `StatusMesh/${version}`;

const usualDeadlineMs = 10_000;
/** What a receiver answers is only ever shown or looked at for a few fields; the rest is not read. */
const maxReplyBytes = 65_536;

export interface OutboundRequest {
  method: "GET" | "POST";
  /** https (or http where the client allows it), without credentials. */
  url: string;
  headers: Record<string, string>;
  /** Sent as UTF-8, byte for byte. */
  body?: string;
}

export interface OutboundReply {
  status: number;
  /** The body as far as it was read: at most 64 KiB. */
  text: string;
  /** Null when the receiver named no time, or one that cannot be read. */
  retryAfterSecs: number | null;
}

/** The one way out of the control plane for what an organisation configured. */
export interface Outbound {
  /** Sends one request over a connection of its own. Any answer is a reply, redirects included; none is an {@link OutboundError}. */
  send(request: OutboundRequest): Promise<OutboundReply>;
}

/** No answer came. The message is for the owner of the receiver, and holds no part of the request. */
export class OutboundError extends Error {
  override readonly name = "OutboundError";
}

export interface OutboundOptions {
  /** True switches the guard against private addresses off. */
  allowPrivate: boolean;
  clock: Clock;
  /** True also sends to http addresses. */
  allowHttp?: boolean | undefined;
  /** Certificates (PEM) to trust instead of the system's. */
  ca?: string | undefined;
  /** Replaces the shared TLS context where `ca` is left out. */
  context?: SecureContext | null | undefined;
  lookup?: Lookup | undefined;
  /** From the first name lookup to the last byte of the answer; 10 s. */
  deadlineMs?: number | undefined;
  /** Ends whatever is being sent. */
  signal?: AbortSignal | undefined;
}

/**
 * Opens the way out. Every request resolves and dials anew past the guard: a pooled socket would never be looked at
 * again. Redirects are not followed and proxies are not used, because both would choose where the request goes.
 */
export function createOutbound(options: OutboundOptions): Outbound {
  const deadlineMs = options.deadlineMs ?? usualDeadlineMs;
  const context = options.ca === undefined ? (options.context ?? undefined) : createSecureContext({ ca: options.ca });

  async function open(url: URL, signal: AbortSignal): Promise<Socket> {
    const host = url.hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");
    const { socket } = await dial({
      host,
      port: Number(url.port || (url.protocol === "https:" ? 443 : 80)),
      allowPrivate: options.allowPrivate,
      signal,
      lookup: options.lookup,
    });
    if (url.protocol === "http:") return socket;
    return await secure({ socket, host, verify: true, signal, context, now: () => options.clock.now() });
  }

  async function exchange(request: OutboundRequest, signal: AbortSignal): Promise<OutboundReply> {
    const url = new URL(request.url);
    if (url.protocol !== "https:" && !(url.protocol === "http:" && options.allowHttp === true))
      throw new OutboundError("the URL is not https, and this instance does not allow http (channels.allow_http)");
    // The client neither times out nor gives up a connection that does not come about: the signal ends both, here and in open().
    const client = new Client(url.origin, {
      connect: (_options, done) =>
        void open(url, signal).then(
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
        // Says Connection: close, as nothing else will come over this one.
        reset: true,
        signal,
      });
      return {
        status: statusCode,
        text: await readSome(body),
        retryAfterSecs: retryAfter(headers["retry-after"], options.clock.now()),
      };
    } finally {
      client.destroy().catch(() => undefined);
    }
  }

  return {
    async send(request) {
      if (options.signal?.aborted) throw new OutboundError("the sender is stopping");
      // Not AbortSignal.any: on Node 20 a signal that lives long keeps something of every signal made from it.
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

async function readSome(body: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    chunks.push(chunk.subarray(0, maxReplyBytes - size));
    size += chunk.length;
    if (size >= maxReplyBytes) break;
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** Seconds from now, of a Retry-After in either form (RFC 9110 section 10.2.3); null for none or nonsense. */
export function retryAfter(header: string | string[] | undefined, now: number): number | null {
  const value = (Array.isArray(header) ? header[0] : header)?.trim() ?? "";
  if (/^\d{1,9}$/.test(value)) return Number(value);
  // The three forms of an HTTP date all end in GMT or in a year; Date.parse alone takes much more than they.
  const date = /^[A-Z][a-z]+,? .*(GMT|\d{4})$/.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(date) ? null : Math.max(0, Math.ceil((date - now) / 1000));
}
