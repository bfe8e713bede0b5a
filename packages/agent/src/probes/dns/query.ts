import { randomInt } from "node:crypto";
import { createSocket, type Socket } from "node:dgram";
import { Resolver } from "node:dns";
import { connect, isIPv6 } from "node:net";
import type { CancelSignal } from "@statusmesh/shared/net/cancellation";
import { codeOf } from "@statusmesh/shared/thrown";
import { hostAndPort } from "@statusmesh/shared/url";
import { encodeQuestion, MalformedMessage, type Question, readReply, type Reply } from "./message.ts";

/** A name server: its address, without brackets. */
export interface Server {
  address: string;
  port: number;
}

/** A name server that could not be asked, by the code of the system or of this file. */
export class QueryError extends Error {
  readonly code: string;
  /** True where UDP answered, with a truncated answer, and TCP failed. */
  readonly overTcp: boolean;

  constructor(code: string, overTcp = false, cause?: unknown) {
    super(code, { cause });
    this.code = code;
    this.overTcp = overTcp;
  }
}

/** Time after which a lost packet is sent again, ms, doubled with each round over the servers. */
const firstWaitMs = 1000;
/** A firewall may drop questions with EDNS: from this round on it is left out. */
const plainFromRound = 2;
/** The machine's name servers are read again after this time; sockets get a new port, ms. */
const maxAgeMs = 30_000;
/** Idle sockets that are kept. */
const maxIdle = 64;

/** Codes of a server that cannot answer itself, after which the next one is asked. */
const otherServerMayKnow: ReadonlySet<string> = new Set(["SERVFAIL", "NOTIMP", "REFUSED"]);

export interface QueryHooks {
  /** Called when a truncated answer came and TCP is tried. */
  onTruncated?: () => void;
}

/**
 * Asks name servers in turn until one answers: over UDP, and over TCP where the answer is truncated. Repeats lost
 * packets until the signal aborts. Rejects with {@link QueryError}, or with the reason of the signal.
 */
export async function ask(
  servers: readonly Server[],
  question: Question,
  signal: CancelSignal,
  { onTruncated }: QueryHooks = {},
): Promise<Reply> {
  const sent = new SentQuestions(question, signal);
  let extended = true;
  let silent = servers;
  try {
    for (let round = 0; ; round++) {
      let last: Reply | QueryError | null = null;
      for (let targets = [...silent], target = targets.shift(); target !== undefined; target = targets.shift()) {
        const withExtension = extended && round < plainFromRound;
        sent.send(target, withExtension);
        const got = await sent.next(firstWaitMs * 2 ** round);
        if (got === null) continue;
        silent = silent.filter((server) => server !== got.server);
        if (withExtension && !(got.reply instanceof QueryError) && refusesExtension.has(got.reply.rcode)) {
          // A server of before 1999 (RFC 6891 section 7).
          extended = false;
          targets.unshift(got.server);
          continue;
        }
        last = got.reply;
        if (!(last instanceof QueryError) && last.truncated) {
          onTruncated?.();
          last = await overTcp(got.server, question, withExtension, signal);
        }
        if (!(last instanceof QueryError) && !otherServerMayKnow.has(last.rcode)) return last;
      }
      if (last !== null && !(last instanceof QueryError)) return last;
      // A server that is silent may have lost the packet.
      if (silent.length === 0) throw last ?? new QueryError("ENOSERVER");
    }
  } finally {
    sent.end();
  }
}

const refusesExtension: ReadonlySet<string> = new Set(["FORMERR", "NOTIMP", "BADVERS"]);

type Listener = (message: Buffer | QueryError) => void;

/** The socket of one name server, shared by its open questions: one for each question costs twice as much. */
class Channel {
  readonly openedAt = performance.now();
  readonly #listeners = new Map<number, Listener>();
  readonly #socket: Socket;
  #unsent: Buffer[] | null = [];
  /** A send takes the ICMP error of the message before, which nobody sees without a callback (Node, dgram.js). */
  readonly #sent = (error: Error | null): void => {
    if (error !== null && !this.isClosed) this.#fail(error);
  };
  isClosed = false;

  constructor({ address, port }: Server) {
    this.#socket = createSocket(isIPv6(address) ? "udp6" : "udp4");
    this.#socket.on("error", (error) => this.#fail(error));
    this.#socket.on("message", (message) => {
      const listener = message.length < 2 ? undefined : this.#listeners.get(message.readUInt16BE(0));
      if (listener !== undefined) return listener(message);
      // No DNS at all. Any other message without its question is a late answer.
      if (message.length < 12 || (message.readUInt8(2) & 0x80) === 0) this.#tellAll(new QueryError("EBADRESP"));
    });
    try {
      this.#socket.connect(port, address, (error?: Error) => {
        if (error !== undefined) return this.#fail(error);
        for (const message of this.#unsent ?? []) this.#send(message);
        this.#unsent = null;
      });
    } catch (error) {
      setImmediate(() => this.#fail(error as Error));
    }
  }

  get isIdle(): boolean {
    return this.#listeners.size === 0;
  }

  /** Sends what `encode` makes of an unused id. The returned function ends it. */
  send(encode: (id: number) => Buffer, listener: Listener): { id: number; end: () => void } {
    let id = randomInt(0x1_0000);
    while (this.#listeners.has(id)) id = (id + 1) & 0xffff;
    this.#listeners.set(id, listener);
    this.#socket.ref();
    if (this.#unsent === null) this.#send(encode(id));
    else this.#unsent.push(encode(id));
    const end = (): void => {
      this.#listeners.delete(id);
      if (!this.isIdle || this.isClosed) return;
      this.#socket.unref();
      if (performance.now() - this.openedAt > maxAgeMs) this.close();
    };
    return { id, end };
  }

  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.#socket.close();
  }

  #send(message: Buffer): void {
    this.#socket.send(message, this.#sent);
  }

  /** ICMP said that nothing is there, or this machine cannot send: all questions end. */
  #fail(error: Error): void {
    this.close();
    this.#tellAll(new QueryError(codeOf(error), false, error));
  }

  #tellAll(error: QueryError): void {
    for (const listener of this.#listeners.values()) listener(error);
  }
}

const channels = new Map<string, Channel>();

function channelTo(server: Server): Channel {
  const key = hostAndPort(server.address, server.port);
  const known = channels.get(key);
  if (known !== undefined && !known.isClosed && performance.now() - known.openedAt < maxAgeMs) return known;
  if (known?.isIdle === true) known.close();
  const channel = new Channel(server);
  channels.delete(key);
  channels.set(key, channel);
  if (channels.size > maxIdle) {
    for (const [other, candidate] of channels) {
      if (!candidate.isIdle || candidate === channel) continue;
      candidate.close();
      channels.delete(other);
      break;
    }
  }
  return channel;
}

/** The answer of a server. */
interface Received {
  server: Server;
  reply: Reply | QueryError;
}

/** One question as it was sent over UDP to several servers, or again: a late answer is an answer. */
class SentQuestions {
  readonly #question: Question;
  readonly #signal: CancelSignal;
  #open: { server: Server; end: () => void }[] = [];
  #received: Received[] = [];
  #wake: () => void = () => undefined;

  constructor(question: Question, signal: CancelSignal) {
    this.#question = question;
    this.#signal = signal;
  }

  send(server: Server, extended: boolean): void {
    const { id, end } = channelTo(server).send(
      (chosen) => encodeQuestion(chosen, this.#question, extended),
      (message) => {
        const reply = message instanceof QueryError ? message : readOrError(message, id, this.#question);
        if (reply === null) return;
        for (const one of this.#open) if (one.server === server) one.end();
        this.#open = this.#open.filter((one) => one.server !== server);
        this.#received.push({ server, reply });
        this.#wake();
      },
    );
    this.#open.push({ server, end });
  }

  /** The next answer of any server; null for none within `waitMs`. Rejects with the reason of the signal. */
  next(waitMs: number): Promise<Received | null> {
    return new Promise((settle, reject) => {
      const signal = this.#signal;
      const finish = (): void => {
        clearTimeout(timer);
        signal.removeEventListener("abort", finish);
        this.#wake = () => undefined;
        if (signal.aborted) reject(signal.reason as Error);
        else settle(this.#received.shift() ?? null);
      };
      const timer = setTimeout(finish, waitMs);
      signal.addEventListener("abort", finish, { once: true });
      this.#wake = finish;
      if (signal.aborted || this.#received.length > 0) finish();
    });
  }

  end(): void {
    for (const { end } of this.#open) end();
    this.#open = [];
  }
}

/** What a message answers; null for a message about something else. */
function readOrError(message: Buffer, id: number, question: Question): Reply | QueryError | null {
  try {
    return readReply(message, id, question);
  } catch (error) {
    if (!(error instanceof MalformedMessage)) throw error;
    return new QueryError("EBADRESP", false, error);
  }
}

/** The answer of a server over TCP (RFC 7766), until the signal aborts. */
function overTcp(
  server: Server,
  question: Question,
  extended: boolean,
  signal: CancelSignal,
): Promise<Reply | QueryError> {
  return new Promise((settle, reject) => {
    if (signal.aborted) return reject(signal.reason as Error);
    const id = randomInt(0x1_0000);
    const socket = connect({ host: server.address, port: server.port, autoSelectFamily: false });
    let buffered = Buffer.alloc(0);
    const finish = (conclude: () => void): void => {
      signal.removeEventListener("abort", onAbort);
      socket.removeAllListeners("close").removeAllListeners("data").destroy();
      conclude();
    };
    const fail = (code: string, cause?: unknown): void => finish(() => settle(new QueryError(code, true, cause)));
    const onAbort = (): void => finish(() => reject(signal.reason as Error));
    signal.addEventListener("abort", onAbort, { once: true });
    socket.on("error", (error) => fail(codeOf(error), error));
    socket.on("close", () => fail("ECONNRESET"));
    socket.on("connect", () => {
      const message = encodeQuestion(id, question, extended);
      socket.write(Buffer.concat([Buffer.from([message.length >> 8, message.length & 255]), message]));
    });
    socket.on("data", (chunk: Buffer) => {
      buffered = Buffer.concat([buffered, chunk]);
      if (buffered.length < 2 || buffered.length < 2 + buffered.readUInt16BE(0)) return;
      const reply = readOrError(buffered.subarray(2, 2 + buffered.readUInt16BE(0)), id, question);
      finish(() => settle(reply instanceof QueryError || reply === null ? new QueryError("EBADRESP", true) : reply));
    });
  });
}

let own: { servers: readonly Server[]; readAt: number } | null = null;

/** The name servers of this machine. */
export function ownServers(): readonly Server[] {
  if (own === null || performance.now() - own.readAt > maxAgeMs)
    own = { servers: new Resolver().getServers().map(serverIn), readAt: performance.now() };
  return own.servers;
}

/** `127.0.0.1`, `::1`, `127.0.0.1:5353` or `[::1]:5353`, as Node lists them. */
function serverIn(text: string): Server {
  const [, v6, v4, port] = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?$/.exec(text) ?? [];
  return { address: v6 ?? v4 ?? text, port: port === undefined ? 53 : Number(port) };
}
