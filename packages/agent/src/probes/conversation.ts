import type { Socket } from "node:net";
import type { CancelSignal } from "@statusmesh/shared/net/cancellation";
import { DialError, wordsFor } from "@statusmesh/shared/net/dial-error";
import { codeOf } from "@statusmesh/shared/thrown";

/** Limit of what a server says before TLS, bytes; a line of SMTP has 512, of IMAP 8 KiB. */
const maxBytes = 32 * 1024;

/** Bytes that are searched again when more arrive. */
const maxMatch = 256;

/** A server that says more than {@link maxBytes} before TLS. */
export class TooLong extends Error {
  override readonly name = "TooLong";
}

/**
 * The plain part of a conversation before TLS. The socket is paused between reads: what follows the go-ahead belongs to
 * the handshake.
 */
export class Conversation {
  readonly #socket: Socket;
  readonly #signal: CancelSignal;
  #buffer = Buffer.alloc(0);
  #read = 0;

  constructor(socket: Socket, signal: CancelSignal) {
    this.#socket = socket;
    this.#signal = signal;
  }

  /** Bytes that were received and not read. */
  get pending(): number {
    return this.#buffer.length;
  }

  send(bytes: string | Uint8Array): void {
    this.#socket.write(bytes);
  }

  /** The next line, latin1, without its end. */
  async line(): Promise<string> {
    let at: number;
    while ((at = this.#buffer.indexOf(10)) < 0) await this.#more();
    return this.#take(at + 1)
      .toString("latin1")
      .trimEnd();
  }

  /** The next `count` bytes. */
  async bytes(count: number): Promise<Buffer> {
    while (this.#buffer.length < count) await this.#more();
    return this.#take(count);
  }

  /** Everything up to the end of the first match, latin1. A match has at most {@link maxMatch} bytes. */
  async until(pattern: RegExp): Promise<string> {
    for (let from = 0; ; await this.#more()) {
      const found = pattern.exec(this.#buffer.toString("latin1", from));
      if (found !== null) return this.#take(from + found.index + found[0].length).toString("latin1");
      from = Math.max(0, this.#buffer.length - maxMatch);
    }
  }

  /** What was received and not read, latin1. */
  rest(): string {
    return this.#take(this.#buffer.length).toString("latin1");
  }

  #take(count: number): Buffer {
    const taken = this.#buffer.subarray(0, count);
    this.#buffer = this.#buffer.subarray(count);
    return taken;
  }

  async #more(): Promise<void> {
    if (this.#read > maxBytes) throw new TooLong("the answers before TLS are larger than 32 KiB");
    const socket = this.#socket;
    const chunk = await unlessClosed<Buffer>(socket, this.#signal, (done) => void socket.once("data", done).resume());
    socket.pause();
    this.#read += chunk.length;
    this.#buffer = Buffer.concat([this.#buffer, chunk]);
  }
}

/**
 * Resolves with the value that `begin` gives to `done`, or with that of `closed` when the other side closes. Rejects
 * with a DialError when the connection breaks, and with the reason of the signal.
 */
export function unlessClosed<T = void>(
  socket: Socket,
  signal: CancelSignal,
  begin: (done: (value: T) => void) => void,
  closed?: () => T,
): Promise<T> {
  return new Promise((settle, reject) => {
    const end = (conclude: () => void): void => {
      signal.removeEventListener("abort", onAbort);
      socket.off("error", onError).off("close", onClose).off("end", onClose).removeAllListeners("data");
      conclude();
    };
    const onAbort = (): void => end(() => reject(signal.reason as Error));
    const onError = (error: Error): void =>
      end(() => reject(new DialError("connect", wordsFor(error), codeOf(error), error)));
    const onClose = (): void =>
      end(() =>
        closed === undefined
          ? reject(new DialError("connect", "connection closed by peer", "ECONNRESET"))
          : settle(closed()),
      );
    if (signal.aborted) return reject(signal.reason as Error);
    signal.addEventListener("abort", onAbort, { once: true });
    socket.on("error", onError).on("close", onClose).on("end", onClose);
    begin((value) => end(() => settle(value)));
  });
}
