import type { Socket } from "node:net";
import { canonicalHost } from "@statusmesh/shared/checks/host";
import { parsedJson } from "@statusmesh/shared/json";
import { dial } from "@statusmesh/shared/net/dial";
import { DialError, wordsFor } from "@statusmesh/shared/net/dial-error";
import { codeOf } from "@statusmesh/shared/thrown";
import { portOf } from "@statusmesh/shared/url";
import { CodingError, decoded } from "../../http/codings.ts";
import { type Response, ResponseError, ResponseReader } from "../../http/response.ts";
import { handshake } from "../tls/handshake.ts";
import { BodyReader } from "../http/body.ts";
import { isRedirect } from "../http/message.ts";
import type { ProbeContext } from "../probe.ts";

/** Requests of a run, redirects included. */
const maxRequests = 6;
/** Documents of 500 components with 90 days of history have 1.5 MiB; parsing 2 MiB takes 20 ms. */
const maxBytes = 2 * 1024 * 1024;

/** A document, or what was received in its place. */
export type JsonReply = { status: number } & ({ document: unknown } | { problem: string } | object);

interface Received {
  response: Response;
  body: BodyReader;
}

/** GET requests for JSON within one run, each over a fresh guarded connection. */
export class JsonRequests {
  left = maxRequests;
  /** Address of the last reply, after its redirects; null before one. */
  last: URL | null = null;
  /** Address of the document that was recognised. */
  found: URL | null = null;
  readonly #context: ProbeContext;

  constructor(context: ProbeContext) {
    this.#context = context;
  }

  /** Follows redirects. Throws DialError for a server that cannot be reached. */
  async get(from: URL): Promise<JsonReply> {
    let url = from;
    for (;;) {
      if (this.left === 0) return { status: 0, problem: `more than ${maxRequests} requests would be needed` };
      this.left--;
      const { response, body } = await this.#exchange(url);
      this.last = url;
      const { status } = response;
      const location = response.value("location") ?? "";
      if (isRedirect(status) && location !== "") {
        const next = URL.canParse(location, url.href) ? new URL(location, url) : null;
        if (next === null || (next.protocol !== "http:" && next.protocol !== "https:") || next.port === "0")
          return { status, problem: "redirects to something that cannot be requested" };
        next.username = next.password = next.hash = "";
        url = next;
        continue;
      }
      if (status !== 200) return { status };
      return { status, ...(await documentOf(response, body)) };
    }
  }

  async #exchange(url: URL): Promise<Received> {
    const { signal, trace, allowPrivate, lookup } = this.#context;
    const host = canonicalHost(url.hostname);
    const { socket } = await dial({ host, port: portOf(url), allowPrivate, signal, lookup, trace });
    const stream =
      url.protocol === "https:" ? await handshake(socket, { host, verify: true, isOwn: false }, this.#context) : socket;
    return await converse(url, stream, this.#context);
  }
}

async function documentOf(response: Response, body: BodyReader): Promise<{ document: unknown } | { problem: string }> {
  if (body.cut) return { problem: "the answer is larger than 2 MiB" };
  try {
    const { bytes, cut } = await decoded(body.whole, response.codings(), { max: maxBytes, partial: false });
    if (cut) return { problem: "the answer is larger than 2 MiB" };
    const document = parsedJson(bytes.toString("utf8").replace(/^\ufeff/, ""));
    return document === undefined ? { problem: "the answer is no JSON" } : { document };
  } catch (error) {
    if (error instanceof CodingError) return { problem: error.message };
    throw error;
  }
}

/** One request and its whole response; the socket is always destroyed at the end. */
function converse(url: URL, socket: Socket, { signal, trace, userAgent, warn }: ProbeContext): Promise<Received> {
  trace.overdue = "no response within";
  return new Promise((settle, reject) => {
    const started = performance.now();
    const body = new BodyReader(null, { keepsAll: true, max: maxBytes });
    let response: Response | null = null;
    let done = false;
    const finish = (end: () => void): void => {
      if (done) return;
      done = true;
      signal.removeEventListener("abort", onAbort);
      socket.destroy();
      end();
    };
    const fail = (error: Error): void =>
      finish(() => {
        const words = error instanceof ResponseError ? error.message : wordsFor(error);
        reject(new DialError("connect", words, codeOf(error), error));
      });
    const conclude = (): void => finish(() => settle({ response: response!, body }));
    const reader = new ResponseReader("GET", {
      warn,
      head(head) {
        response = head;
        trace.http_status = head.status;
        trace.ttfb_ms = (trace.ttfb_ms ?? 0) + (performance.now() - started);
        trace.response_size = 0;
        trace.overdue = "response body timed out after";
        // What else than a document is not read.
        if (head.status !== 200) conclude();
      },
      data(chunk) {
        body.take(chunk);
        trace.response_size = body.size;
        if (body.cut) conclude();
      },
      end: conclude,
    });
    const attempt = (step: () => void): void => {
      try {
        if (!done) step();
      } catch (error) {
        fail(error as Error);
      }
    };
    const onAbort = (): void => finish(() => reject(signal.reason as Error));
    signal.addEventListener("abort", onAbort, { once: true });
    socket.on("data", (chunk: Buffer) => attempt(() => reader.push(chunk)));
    socket.on("end", () => attempt(() => reader.finish()));
    socket.on("error", fail);
    socket.on("close", () => attempt(() => reader.finish()));
    const lines = [
      `GET ${url.pathname}${url.search} HTTP/1.1`,
      `Host: ${url.host}`,
      `User-Agent: ${userAgent}`,
      "Accept: application/json",
      "Accept-Encoding: identity",
      "Connection: close",
    ];
    socket.write(`${lines.join("\r\n")}\r\n\r\n`);
  });
}
