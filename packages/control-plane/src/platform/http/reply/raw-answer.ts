import { STATUS_CODES, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { AppError } from "@statusmesh/shared/errors";
import { envelope, traceId } from "../exchange.ts";

/** Error of Node's HTTP parser; `reason` is its text. */
interface ParserFault {
  readonly code?: string | undefined;
  readonly reason?: string;
}

/** The error for a request that could not be parsed. */
export function parserError({ code, reason }: ParserFault): AppError {
  if (code === "HPE_HEADER_OVERFLOW")
    return new AppError("HEADERS_TOO_LARGE", "The headers of the request are larger than 16 KiB together.");
  if (code === "HPE_CHUNK_EXTENSIONS_OVERFLOW")
    return new AppError("PAYLOAD_TOO_LARGE", "The chunk extensions of the request are larger than 16 KiB.");
  if (code === "ERR_HTTP_REQUEST_TIMEOUT")
    return new AppError(
      "REQUEST_TIMEOUT",
      "The request did not arrive in time. Send its headers within 20 s and all of it within 60 s.",
    );
  if (code === "HPE_INVALID_METHOD") return new AppError("INVALID_REQUEST", "The method of the request is unknown.");
  return new AppError("INVALID_REQUEST", `The request is not HTTP${reason === undefined ? "" : `: ${reason}`}.`);
}

const headersOf = (error: AppError, body: string, trace: string): Record<string, string> => ({
  "Content-Type": "application/json; charset=utf-8",
  "Content-Length": String(Buffer.byteLength(body)),
  "Cache-Control": "no-store",
  "X-Content-Type-Options": "nosniff",
  "X-Request-Id": trace,
  ...(error.retryAfterSecs === null ? {} : { "Retry-After": String(error.retryAfterSecs) }),
  Connection: "close",
});

/** Answers on a socket without a parsed request, and closes it. */
export function answerRaw(socket: Socket, error: AppError): void {
  const trace = traceId("");
  const body = JSON.stringify(envelope(error, trace));
  const lines = Object.entries(headersOf(error, body, trace)).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${error.status} ${STATUS_CODES[error.status]}\r\n${lines.join("")}\r\n${body}`, () =>
    socket.destroy(),
  );
}

/** Answers a request before it reaches the application. */
export function refuse(response: ServerResponse, error: AppError): void {
  const trace = traceId("");
  const body = JSON.stringify(envelope(error, trace));
  response.writeHead(error.status, headersOf(error, body, trace)).end(body);
}
