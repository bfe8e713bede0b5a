import type { ClientHttp2Session, ClientHttp2Stream } from "node:http2";
import type { GrpcCheck } from "@statusmesh/shared/checks/grpc";
import { canonicalHost, serverName } from "@statusmesh/shared/checks/host";
import { dial } from "@statusmesh/shared/net/dial";
import { DialError, wordsFor } from "@statusmesh/shared/net/dial-error";
import { codeOf } from "@statusmesh/shared/thrown";
import { hostAndPort, percentDecoded } from "@statusmesh/shared/url";
import { handshake } from "./tls/handshake.ts";
import { shortened } from "./http/http-expectations.ts";
import { maskerOf } from "./masking/masking.ts";
import { down, oncePer, type Probe, type ProbeContext, up, type Verdict } from "./probe.ts";

/*
 * grpc.health.v1 over node:http2: the request has one string and the response one enum, while a gRPC library would
 * resolve and dial by itself, past the guard, and is larger than the whole agent.
 */

const hostOf = oncePer(({ host }: GrpcCheck) => canonicalHost(host));
/** The metadata of the check; names are in lower case (RFC 9113 section 8.2). */
const metadataOf = oncePer(({ metadata = {} }: GrpcCheck) =>
  Object.fromEntries(Object.entries(metadata).map(([name, value]) => [name.toLowerCase(), value])),
);
const authorityOf = oncePer((spec: GrpcCheck) => hostAndPort(serverName(spec), spec.port));

/** A health response has 2 bytes; this leaves room for fields of later versions. */
const maxMessage = 4096;
/** PING, SETTINGS and interim (1xx) headers of a server within one call. */
const maxControlFrames = 100;

/** Up when the server says SERVING. */
export const grpc: Probe<GrpcCheck> = {
  timeoutStatus: "down",
  async run(spec, context) {
    const { signal, trace, allowPrivate, lookup } = context;
    const { port, ip_version: ipVersion } = spec;
    const { socket } = await dial({ host: hostOf(spec), port, allowPrivate, ipVersion, signal, lookup, trace });
    try {
      if (!spec.tls) return await call(spec, socket, context);
      const host = serverName(spec);
      const options = { host, verify: spec.verify_tls, protocols: ["h2"] };
      const secured = await handshake(socket, options, context);
      if (secured.alpnProtocol !== "h2") return down("the server does not offer HTTP/2 over TLS, which gRPC needs");
      return await call(spec, secured, context);
    } finally {
      socket.destroy();
    }
  },
};

async function call(
  spec: GrpcCheck,
  stream: NonNullable<ClientHttp2Session["socket"]>,
  { signal, trace, userAgent }: ProbeContext,
): Promise<Verdict> {
  // Loaded on first use.
  const { connect } = await import("node:http2");
  const authority = authorityOf(spec);
  const scheme = spec.tls ? "https" : "http";
  const session = connect(`${scheme}://${authority}`, {
    createConnection: () => stream,
    // MiB, of all frames and headers together.
    maxSessionMemory: 1,
    maxReservedRemoteStreams: 0,
    settings: { enablePush: false, initialWindowSize: 65_535, maxHeaderListSize: 16_384 },
  });
  try {
    return await new Promise<Verdict>((settle, reject) => {
      trace.overdue = "no gRPC answer within";
      const onAbort = (): void => reject(signal.reason as Error);
      if (signal.aborted) return onAbort();
      signal.addEventListener("abort", onAbort, { once: true });
      let frames = 0;
      const countFrame = (): void => {
        if (++frames > maxControlFrames) settle(down("the server floods the connection with control frames"));
      };
      const onError = (error: Error): void => {
        const code = codeOf(error);
        if (code.startsWith("ERR_HTTP2_")) settle(down(`the answer is not valid HTTP/2: ${wordsFor(error)}`));
        else reject(new DialError("connect", wordsFor(error), code, error));
      };
      session.on("error", onError).on("ping", countFrame).on("remoteSettings", countFrame);
      // NO_ERROR is a server that drains: it still answers this call.
      session.on("goaway", (code: number) => {
        if (code !== 0) settle(down(`the server ended the connection (GOAWAY, ${resetNames[code] ?? code})`));
      });
      session.on("close", () => settle(down("connection closed without an answer")));
      const request: ClientHttp2Stream = session.request({
        ":method": "POST",
        ":path": "/grpc.health.v1.Health/Check",
        ":scheme": scheme,
        ":authority": authority,
        "content-type": "application/grpc",
        te: "trailers",
        "user-agent": userAgent,
        ...metadataOf(spec),
      });
      const started = performance.now();
      let body = Buffer.alloc(0);
      let status: GrpcStatus | null = null;
      request.on("error", (error) => {
        // A reset: said when the stream has closed.
        if (codeOf(error) !== "ERR_HTTP2_STREAM_ERROR") onError(error);
      });
      request.on("headers", countFrame);
      request.on("response", (headers) => {
        trace.ttfb_ms = performance.now() - started;
        trace.http_status = headers[":status"] ?? null;
        trace.overdue = "the gRPC answer was not complete within";
        const type = String(headers["content-type"] ?? "none");
        if (headers[":status"] !== 200)
          settle(down(`the answer is not gRPC: HTTP status ${String(headers[":status"])}`));
        else if (!/^application\/grpc(?:[+;]|$)/.test(type))
          settle(down(`the answer is not gRPC: its content type is ${shortened(JSON.stringify(type))}`));
        // A call that fails at once has its status in the only headers.
        status = statusIn(headers);
      });
      request.on("trailers", (trailers) => (status = statusIn(trailers) ?? status));
      request.on("data", (chunk: Buffer) => {
        body = Buffer.concat([body, chunk]);
        trace.response_size = body.length;
        if (body.length > maxMessage) settle(down("the answer is larger than 4 KiB"));
      });
      request.on("close", () => {
        if (status !== null) settle(verdictOf(masked(status, spec), body, spec.service));
        // The end of the connection has its own words.
        else if (session.destroyed) return;
        else if (request.rstCode !== 0)
          settle(down(`the server reset the call (${resetNames[request.rstCode] ?? request.rstCode})`));
        else settle(down("the answer has no gRPC status"));
      });
      const name = Buffer.from(spec.service, "utf8");
      // Field 1, a string; a default is not sent.
      const message = name.length === 0 ? name : Buffer.concat([Buffer.from([0x0a, ...varint(name.length)]), name]);
      const prefix = Buffer.alloc(5);
      prefix.writeUInt32BE(message.length, 1);
      request.end(Buffer.concat([prefix, message]));
    });
  } finally {
    session.destroy();
    stream.destroy();
  }
}

/** RFC 9113 section 7. */
const resetNames = (
  "NO_ERROR PROTOCOL_ERROR INTERNAL_ERROR FLOW_CONTROL_ERROR SETTINGS_TIMEOUT STREAM_CLOSED FRAME_SIZE_ERROR " +
  "REFUSED_STREAM CANCEL COMPRESSION_ERROR CONNECT_ERROR ENHANCE_YOUR_CALM INADEQUATE_SECURITY HTTP_1_1_REQUIRED"
).split(" ");

interface GrpcStatus {
  code: number;
  message: string;
}

/** The message without the metadata of the check, which a server may repeat. */
const masked = ({ code, message }: GrpcStatus, { metadata = {} }: GrpcCheck): GrpcStatus => ({
  code,
  message: message === "" ? "" : maskerOf(Object.values(metadata))(message),
});

function statusIn(headers: Readonly<Record<string, unknown>>): GrpcStatus | null {
  const text = headers["grpc-status"];
  if (typeof text !== "string" || !/^\d{1,3}$/.test(text)) return null;
  const message = headers["grpc-message"];
  // Percent-encoded: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md#responses
  return { code: Number(text), message: typeof message === "string" ? percentDecoded(message) : "" };
}

/** https://github.com/grpc/grpc/blob/master/doc/statuscodes.md */
const codes = (
  "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED " +
  "RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS " +
  "UNAUTHENTICATED"
).split(" ");
const servingStates = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"];

function verdictOf({ code, message }: GrpcStatus, body: Buffer, service: string): Verdict {
  const name = codes[code] ?? `code ${code}`;
  if (name === "UNIMPLEMENTED")
    return { status: "error", error: "the server has no grpc.health.v1.Health service (UNIMPLEMENTED)" };
  if (name === "NOT_FOUND" && service !== "")
    return down(`the server does not know the service ${shortened(JSON.stringify(service))} (NOT_FOUND)`);
  if (name !== "OK")
    return down(`the call failed: ${name}${message === "" ? "" : `, ${shortened(JSON.stringify(message))}`}`);
  const state = servingState(body);
  if (state === null) return down("the answer is no health response");
  const word = servingStates[state] ?? `state ${state}`;
  return word === "SERVING" ? up : down(`${service === "" ? "the server" : service} is ${word}`);
}

function varint(value: number): number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...varint(value >>> 7)];
}

/** Field 1 of the message in a gRPC body (0 where it is left out); null for anything else. */
function servingState(body: Buffer): number | null {
  if (body.length < 5 || body[0] !== 0 || body.readUInt32BE(1) !== body.length - 5) return null;
  let at = 5;
  let state = 0;
  const number = (): number => {
    for (let value = 0, shift = 0; shift < 35 && at < body.length; shift += 7) {
      const byte = body[at++]!;
      value += (byte & 127) * 2 ** shift;
      if (byte < 128) return value;
    }
    return Number.NaN;
  };
  while (at < body.length) {
    const tag = number();
    const wire = tag % 8;
    if (wire === 0) {
      const value = number();
      if (Number.isNaN(value)) return null;
      if (tag === 8) state = value;
    } else if (wire === 1) at += 8;
    else if (wire === 2) {
      const length = number();
      at += length;
    } else if (wire === 5) at += 4;
    else return null;
    if (!(at <= body.length)) return null;
  }
  return state;
}
