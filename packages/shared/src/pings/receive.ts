import type { IncomingMessage } from "node:http";
import { minuteMs, secondMs } from "../time.ts";
import type { PingRefusal, PingRequest } from "./address.ts";

/*
 * The bounds of pings and the words of their replies, for control plane and agents.
 */

/** Pings of one address: a bucket of `burst` that fills by `perSecond`. */
const rate = { perSecond: 5, burst: 60 };
/** A job beyond its rate is alive: one ping of it in so many ms is counted, without a row. */
const aliveMs = secondMs;

/** What is left of the rate of an address after its first ping. */
export class PingRate {
  #level = rate.burst - 1;
  #at: number;
  #aliveAt: number;

  constructor(now: number) {
    this.#at = now;
    this.#aliveAt = now;
  }

  /** Counts a ping. False beyond the rate. */
  take(now: number): boolean {
    const passed = (Math.max(0, now - this.#at) * rate.perSecond) / secondMs;
    this.#level = Math.min(rate.burst, this.#level + passed);
    this.#at = now;
    if (this.#level < 1) return false;
    this.#level--;
    return true;
  }

  /** Whether a ping beyond the rate is the one that counts as a sign of life. */
  showsLife(now: number): boolean {
    if (now - this.#aliveAt < aliveMs) return false;
    this.#aliveAt = now;
    return true;
  }
}

/** Counts of visitors within a minute each, of at most `most` visitors: the oldest ones make room. */
export class MinuteCounts {
  readonly #counts = new Map<string, { count: number; endsAt: number }>();
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  /** The count of a visitor, which the caller changes; its minute begins with the first look. */
  of(visitor: string, now: number): { count: number } {
    const known = this.#counts.get(visitor);
    if (known !== undefined && now < known.endsAt) return known;
    const fresh = { count: 0, endsAt: now + minuteMs };
    // To the end of the order.
    this.#counts.delete(visitor);
    this.#counts.set(visitor, fresh);
    if (this.#counts.size > this.#most) this.#counts.delete(this.#counts.keys().next().value!);
    return fresh;
  }
}

/** Says once a minute that a job exceeds its rate. */
export class RateWarning {
  #quietUntil = -Infinity;

  /** The words to log; null while they were logged within the last minute. */
  words(now: number): string | null {
    if (now < this.#quietUntil) return null;
    this.#quietUntil = now + minuteMs;
    return `a job sends more than ${rate.perSecond} pings a second: the excess is answered 429`;
  }
}

/** Bytes of a body that are kept. */
const bodyLimit = 10_000;
/** A body may take so long, and so many may be under way. */
const bodyMs = 10 * secondMs;
const maxBodies = 1000;

let bodies = 0;

/** What is kept of a ping beside its row: the message in its query, or else its body; null for neither. */
export function textOf(
  request: IncomingMessage,
  { message }: PingRequest,
  proceed: () => void,
): Promise<string> | null {
  if (message !== null) return Promise.resolve(keptText(Buffer.from(message)));
  return request.method === "POST" ? receiveBody(request, proceed) : null;
}

/** A failure waits so long for a body that says why: Better Stack's jobs send their output, as a rule at once. */
const reasonMs = secondMs;
/** Characters of the reason of a failure. */
const reasonLength = 300;

/** Why the job failed, in one line: the message in the query, or Better Stack's body; null where it did not say. */
export async function reasonOf(
  { address, kind, message }: PingRequest,
  body: Promise<string> | null,
): Promise<string | null> {
  if (kind !== "fail") return null;
  let text = message;
  if (address === "better_stack" && body !== null) {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<null>((resolve) => (timer = setTimeout(resolve, reasonMs, null)));
    text = await Promise.race([body, late]);
    clearTimeout(timer);
  }
  // oxlint-disable-next-line no-control-regex -- what a job writes goes into messages
  const line = [...(text ?? "").replaceAll(/[\s\u0000-\u001f\u007f]+/g, " ").trim()].slice(0, reasonLength).join("");
  return line === "" ? null : line;
}

/** PostgreSQL stores no NUL. */
const keptText = (bytes: Buffer): string => bytes.subarray(0, bodyLimit).toString("utf8").replaceAll("\0", "");

/**
 * The first {@link bodyLimit} bytes of the body, once it is there. It is read beside the reply; a sender that takes too
 * long loses its connection. Empty without a body, or while too many are under way. `proceed` asks for it.
 */
async function receiveBody(request: IncomingMessage, proceed: () => void): Promise<string> {
  if (bodies >= maxBodies) return "";
  proceed();
  bodies++;
  const chunks: Buffer[] = [];
  let size = 0;
  const { socket } = request;
  let over = (): void => undefined;
  const timer = setTimeout(() => socket.destroy(), bodyMs);
  try {
    await new Promise<void>((resolve) => {
      over = resolve;
      request.on("data", (chunk: Buffer) => {
        if (size < bodyLimit) chunks.push(chunk.subarray(0, bodyLimit - size));
        size += chunk.length;
      });
      request.once("end", resolve);
      // Once it is answered, Node tells a request nothing of the end of its connection.
      socket.once("close", resolve);
      if (socket.destroyed) resolve();
    });
  } finally {
    clearTimeout(timer);
    socket.off("close", over);
    bodies--;
  }
  return keptText(Buffer.concat(chunks));
}

/** A reply before it has the form of a product. */
export interface PingReply {
  readonly status: number;
  readonly text: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export const pingReplies = {
  stored: { status: 200, text: "OK" },
  created: { status: 201, text: "Created" },
  limit: { status: 403, text: "limit" },
  unknown: { status: 404, text: "not found" },
  postOnly: { status: 405, text: "POST only", headers: { Allow: "POST" } },
  otherMethod: { status: 405, text: "GET, HEAD or POST", headers: { Allow: "GET, HEAD, POST" } },
  limited: (secs: number): PingReply => ({
    status: 429,
    text: "too many pings",
    headers: { "Retry-After": String(secs) },
  }),
  refused: ({ status, reason }: PingRefusal): PingReply => ({
    status,
    text: reason,
    ...(status === 405 ? { headers: { Allow: "POST" } } : {}),
  }),
} as const;

/** Headers of every reply. */
export const pingHeaders = { "Access-Control-Allow-Origin": "*", "Cache-Control": "no-store" } as const;
/** More of them for OPTIONS, which has no body. */
export const preflightHeaders = {
  "Access-Control-Allow-Methods": "GET, HEAD, POST",
  "Access-Control-Allow-Headers": "*",
} as const;

/** Headers and body of a reply in the words of the product. */
export function inWordsOf(
  asked: PingRequest | PingRefusal | null,
  { status, text, headers = {} }: PingReply,
): { headers: Record<string, string>; body: string } {
  const isKuma = asked !== null && "address" in asked && asked.address === "kuma";
  return {
    headers: {
      ...headers,
      "Ping-Body-Limit": String(bodyLimit),
      "Content-Type": isKuma ? "application/json; charset=utf-8" : "text/plain; charset=utf-8",
    },
    body: !isKuma ? text : status === 200 ? '{"ok":true}' : JSON.stringify({ ok: false, msg: text }),
  };
}
