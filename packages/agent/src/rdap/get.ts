import type { Socket } from "node:net";
import { canonicalHost } from "@statusmesh/shared/checks/host";
import { dial } from "@statusmesh/shared/net/dial";
import { DialError, wordsFor } from "@statusmesh/shared/net/dial-error";
import { secure } from "@statusmesh/shared/net/tls";
import { codeOf } from "@statusmesh/shared/thrown";
import { portOf } from "@statusmesh/shared/url";
import { Agent, type buildConnector, type Dispatcher, request } from "undici";
import { isAllowedUrl, isPlain } from "./allowed-url.ts";

/** A failed request. The message is for operators: lower case, no full stop. */
export class GetError extends Error {
  override readonly name = "GetError";
  /** True when this machine lacks a resource. */
  readonly local: boolean;

  constructor(message: string, local = false, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.local = local;
  }
}

export interface GetOptions {
  accept: string;
  userAgent: string;
  /** The only timeout. */
  signal: AbortSignal;
  /** Maximum length of the body, bytes. */
  maxBytes: number;
  /** False: redirects may lead to public addresses only. */
  allowPrivate: boolean;
}

export interface GetReply {
  status: number;
  text: string;
  retryAfter: string | null;
}

const maxRedirects = 5;

/**
 * GETs a small text from a public registry, following redirects (RFC 7480 section 5.2), over connections that are
 * closed when this resolves. Rejects with GetError, or with the reason of the signal. The address guard applies to
 * redirects and to plain http: an https URL comes from the operator or the list, which may name a mirror on a private
 * address.
 */
export async function get(start: string, options: GetOptions): Promise<GetReply> {
  // Only the signal limits the time: a timeout of the client would end requests that the check still has time for.
  const limits = { headersTimeout: 0, bodyTimeout: 0, pipelining: 0 };
  const first = new Agent({ ...limits, connect: { timeout: 0 } });
  const guarded = new Agent({ ...limits, connect: guardedConnector(options) });
  try {
    return await follow(
      (url, redirects) => (isPlain(url) || (redirects > 0 && !options.allowPrivate) ? guarded : first),
      start,
      options,
    );
  } catch (error) {
    if (options.signal.aborted) throw options.signal.reason;
    if (error instanceof GetError) throw error;
    const reason: unknown = error instanceof AggregateError ? error.errors[0] : error;
    throw new GetError(wordsFor(reason), new DialError("connect", "", codeOf(reason)).local, error);
  } finally {
    await Promise.all([first.destroy(), guarded.destroy()]);
  }
}

/** Connects through the guard, as checks do. */
function guardedConnector({ signal, allowPrivate }: GetOptions): buildConnector.connector {
  return ({ hostname, protocol, port }, done) => {
    const host = canonicalHost(hostname);
    const connect = async (): Promise<Socket> => {
      const { socket } = await dial({ host, port: portOf({ protocol, port }), allowPrivate, signal });
      return protocol === "https:" ? await secure({ socket, host, verify: true, signal }) : socket;
    };
    connect().then(
      (socket) => done(null, socket),
      (error: Error) => done(error, null),
    );
  };
}

async function follow(
  agentFor: (url: URL, redirects: number) => Agent,
  start: string,
  options: GetOptions,
): Promise<GetReply> {
  let url = new URL(start);
  const first = url;
  for (let redirects = 0; ; redirects++) {
    const isListed = isPlain(url) && url.hostname === first.hostname && isPlain(first);
    if (!isListed && !isAllowedUrl(url, first)) throw new GetError(`${url.origin} is not asked: it is not https`);
    const reply = await request(url, {
      dispatcher: agentFor(url, redirects),
      signal: options.signal,
      // Without inflation there are no compression bombs.
      headers: { accept: options.accept, "accept-encoding": "identity", "user-agent": options.userAgent },
    });
    const { location, "retry-after": retryAfter } = reply.headers;
    if (![301, 302, 303, 307, 308].includes(reply.statusCode) || typeof location !== "string") {
      return {
        status: reply.statusCode,
        text: await read(reply.body, url, options.maxBytes),
        retryAfter: typeof retryAfter === "string" ? retryAfter : null,
      };
    }
    reply.body.on("error", () => undefined).destroy();
    if (redirects === maxRedirects) throw new GetError(`more than ${maxRedirects} redirects`);
    if (!URL.canParse(location, url.href))
      throw new GetError(`redirected by ${url.host} to something that is not a URL`);
    url = new URL(location, url);
  }
}

async function read(body: Dispatcher.ResponseData["body"], url: URL, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBytes) throw new GetError(`the answer of ${url.host} is larger than ${maxBytes / 1_000_000} MB`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}
