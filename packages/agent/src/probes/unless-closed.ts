import type { Socket } from "node:net";
import type { CancelSignal } from "@statusmesh/shared/net/cancellation";
import { DialError, wordsFor } from "@statusmesh/shared/net/dial-error";
import { codeOf } from "@statusmesh/shared/thrown";

/**
 * Resolves when `begin` says so; with `closed`, also when the other side closes. Rejects with a DialError when the
 * connection breaks, and with the reason of the signal.
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
