import { placeOf, type WebSocketCheck } from "@statusmesh/shared/checks/websocket";
import { dial } from "@statusmesh/shared/net/dial";
import { DialError, wordsFor } from "@statusmesh/shared/net/dial-error";
import { codeOf } from "@statusmesh/shared/thrown";
import type { WebSocket } from "ws";
import { handshake } from "./tls/handshake.ts";
import { shortened } from "./http/http-expectations.ts";
import { maskerOf } from "./masking/masking.ts";
import { oncePer, type Probe, type ProbeContext, type Verdict } from "./probe.ts";

const destinationOf = oncePer(({ url }: WebSocketCheck) => placeOf(url));
/** Bytes of all messages together in which the expected text is searched. */
const maxBytes = 1024 * 1024;

/** Up when the handshake succeeds and, where the check expects a text, a message has it. */
export const websocket: Probe<WebSocketCheck> = {
  timeoutStatus: "down",
  async run(spec, context) {
    const { signal, trace, allowPrivate, lookup } = context;
    const { secure: isSecure, host, port } = destinationOf(spec);
    // Loaded on first use; the dial is ours, because the library would resolve the name itself.
    const { WebSocket: Client } = await import("ws");
    const { ip_version: ipVersion } = spec;
    const { socket } = await dial({ host, port, allowPrivate, ipVersion, signal, lookup, trace });
    try {
      const verify = spec.verify_tls;
      const stream = isSecure ? await handshake(socket, { host, verify }, context) : socket;
      const client = new Client(spec.url, [...(spec.subprotocols ?? [])], {
        createConnection: () => stream,
        followRedirects: false,
        perMessageDeflate: false,
        maxPayload: maxBytes,
        headers: { "User-Agent": context.userAgent, ...spec.headers },
      });
      try {
        return await converse(spec, client, context);
      } finally {
        client.terminate();
        stream.destroy();
      }
    } finally {
      socket.destroy();
    }
  },
};

function converse(spec: WebSocketCheck, client: WebSocket, { signal, trace }: ProbeContext): Promise<Verdict> {
  trace.overdue = "no WebSocket handshake within";
  const started = performance.now();
  return new Promise((settle, reject) => {
    let read = 0;
    let opened = false;
    const onAbort = (): void => reject(signal.reason as Error);
    if (signal.aborted) return onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    const end = (verdict: Verdict): void => {
      signal.removeEventListener("abort", onAbort);
      settle(verdict);
    };
    const down = (error: string): void => end({ status: "down", error });
    const up = (): void => {
      client.close(1000);
      end({ status: "up", error: null });
    };
    client.on("unexpected-response", (_request, response) => {
      trace.http_status = response.statusCode ?? null;
      down(`the handshake was answered with status ${response.statusCode ?? "none"} instead of 101`);
    });
    client.on("error", (error) => {
      if (codeOf(error) === "WS_ERR_UNSUPPORTED_MESSAGE_LENGTH") return down("a message is larger than 1 MiB");
      if (!("code" in error) || /^(?:WS_ERR|HPE)_/.test(codeOf(error)))
        return down(`not a valid WebSocket: ${wordsFor(error)}`);
      signal.removeEventListener("abort", onAbort);
      reject(new DialError("connect", wordsFor(error), codeOf(error), error));
    });
    client.on("open", () => {
      opened = true;
      trace.ttfb_ms = performance.now() - started;
      trace.http_status = 101;
      trace.overdue = "no message with the expected text within";
      if (spec.send !== null) client.send(spec.send, () => spec.expect === null && up());
      else if (spec.expect === null) up();
    });
    client.on("message", (data: Buffer) => {
      if (spec.expect === null) return;
      read += data.length;
      trace.response_size = read;
      if (data.toString().includes(spec.expect)) return up();
      const wanted = JSON.stringify(spec.expect.slice(0, 200));
      const error = `no message contains ${wanted}; got ${quoted(spec, data)}`;
      trace.verdict = { status: "down", error };
      if (read >= maxBytes) down(error);
    });
    client.on("close", (code, reason) => {
      if (!opened || spec.expect === null) return;
      const why = reason.length === 0 ? "" : ` (${quoted(spec, reason)})`;
      end(trace.verdict ?? { status: "down", error: `closed with code ${code}${why} before the expected text` });
    });
  });
}

/** The start of what the server sent, without the header values of the check. */
const quoted = ({ headers }: WebSocketCheck, data: Buffer): string =>
  shortened(JSON.stringify(maskerOf(Object.values(headers))(data.subarray(0, 4096).toString())));
