import * as http from "node:http";
import * as https from "node:https";
import type { Place } from "./docker-socket.ts";

interface Sent {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal?: AbortSignal;
  /** Longest silence, ms. */
  readonly idleMs?: number;
}

/** Sends a request; the body of the reply is to be read. Rejects with the error of the connection. */
export function ask({ url, ...tls }: Place, sent: Sent): Promise<http.IncomingMessage> {
  const { method = "GET", path, headers = {}, body, signal, idleMs = 30_000 } = sent;
  const client = url.protocol === "https:" ? https : http;
  return new Promise((resolve, reject) => {
    const request = client.request(new URL(`${url.pathname.replace(/\/+$/, "")}${path}`, url), {
      ...tls,
      method,
      agent: false,
      timeout: idleMs,
      headers: { ...headers, ...(body === undefined ? {} : { "content-length": String(Buffer.byteLength(body)) }) },
      ...(signal === undefined ? {} : { signal }),
    });
    request.on("timeout", () => request.destroy(new Error(`nothing came for ${idleMs / 1000} s`)));
    request.on("error", reject);
    request.on("response", resolve);
    request.end(body);
  });
}

/** The body of a reply, at most `maxBytes`. Rejects beyond. */
export async function textOf(reply: http.IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of reply as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBytes) {
      reply.destroy();
      throw new Error(`the reply has more than ${maxBytes / 1_048_576} MiB`);
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

const maxItemBytes = 4 * 1_048_576;

/**
 * The objects of a JSON list, one after the other: a list of 5,000 containers is never in memory as a whole. Throws for
 * a text that is no list, or ends before it does.
 */
export async function* itemsOf(reply: AsyncIterable<Buffer>): AsyncGenerator<unknown> {
  let depth = 0;
  let inText = false;
  let isEscaped = false;
  let parts: Buffer[] = [];
  let size = 0;
  let hasBegun = false;
  let hasEnded = false;
  for await (const chunk of reply) {
    let from = depth > 1 ? 0 : -1;
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at]!;
      if (inText) {
        if (isEscaped) isEscaped = false;
        else if (byte === 0x5c) isEscaped = true;
        else if (byte === 0x22) inText = false;
        continue;
      }
      if (byte === 0x22) inText = true;
      else if (byte === 0x7b || byte === 0x5b) {
        if (depth === 0 && byte !== 0x5b) throw new Error("the reply is no list");
        hasBegun = true;
        if (++depth === 2) from = at;
      } else if (byte === 0x7d || byte === 0x5d) {
        if (--depth === 0) hasEnded = true;
        if (depth !== 1) continue;
        parts.push(chunk.subarray(from, at + 1));
        yield JSON.parse(Buffer.concat(parts).toString("utf8")) as unknown;
        parts = [];
        size = 0;
        from = -1;
      }
    }
    if (from < 0) continue;
    parts.push(chunk.subarray(from));
    size += chunk.length - from;
    if (size > maxItemBytes) throw new Error("an object of the list has more than 4 MiB");
  }
  if (!hasBegun || !hasEnded) throw new Error("the reply is no list, or ended before its end");
}

/** The lines of a reply that does not end, as events and watches are. */
export async function* linesOf(reply: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let rest = "";
  const decoder = new TextDecoder();
  for await (const chunk of reply) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop()!;
    if (rest.length > maxItemBytes) throw new Error("a line has more than 4 MiB");
    yield* lines.filter((line) => line.trim() !== "");
  }
}
