import { request, type IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { HttpCheck } from "@statusmesh/shared/checks/http";
import type { FailureSnapshot } from "@statusmesh/shared/failure-snapshot";
import { dial } from "@statusmesh/shared/net/dial";
import { DialError, wordsFor } from "@statusmesh/shared/net/dial-error";
import { codeOf } from "@statusmesh/shared/thrown";
import { handshake } from "./handshake.ts";
import { BodyReader } from "./http-body.ts";
import {
  compileExpectations,
  expectationsOf,
  type Judge,
  missingText,
  type Received,
  shortened,
  type Unmet,
} from "./http-expectations.ts";
import { accepts, expectation, firstHop, isRedirect, nextHop, type Hop } from "./http-message.ts";
import { quoteMasked, snapshotOf } from "./http-snapshot.ts";
import { judgeInThread } from "./judging.ts";
import { down, oncePer, type Probe, type ProbeContext, up, type Verdict } from "./probe.ts";

/** Limit of response heads, bytes; browsers stop at 256 KiB, common servers at 8. */
const maxHeaderBytes = 64 * 1024;
/** Limit of 1xx responses before the final one (RFC 9110 section 15.2). */
const maxInformational = 32;
const brokenBody = "connection closed in the middle of the body";
/** Steps of a judgement that are done at once; a million take 1 to 5 ms. */
const maxStepsAtOnce = 4_000_000;
/** Bytes of a body that is judged at once. */
const maxBytesAtOnce = 64 * 1024;

/** Null where the check expects nothing beyond the status and a text, which is searched while the body arrives. */
const judgeOf = oncePer((spec: HttpCheck): { judge: Judge | null } => ({
  judge:
    spec.expected_headers.length > 0 ||
    spec.expected_body_absent !== null ||
    (spec.expected_body_contains !== null && spec.body_case_insensitive) ||
    spec.expected_body_matches !== null ||
    spec.expected_body_not_matches !== null ||
    spec.expected_json.length > 0
      ? compileExpectations(spec)
      : null,
}));

/** An HTTP request over a fresh guarded connection per hop, judged by status code and body. */
export const http: Probe<HttpCheck> = {
  timeoutStatus: "down",
  async run(spec, context) {
    // Before anything is sent: what cannot be compiled fails here, and not in an event of the response.
    judgeOf(spec);
    let hop = firstHop(spec, context.userAgent);
    for (let redirects = 0; ; redirects++) {
      const answer = await exchange(spec, hop, context, redirects > 0);
      if (!("redirect" in answer)) return answer;
      if (redirects === spec.max_redirects) return down(`more than ${spec.max_redirects} redirects`);
      const next = nextHop(hop, answer.redirect, answer.status, context.userAgent);
      if ("error" in next) return down(next.error);
      if (next.host !== hop.host) context.note?.(`Redirected from ${hop.origin} to ${next.origin}.`);
      hop = next;
      context.trace.redirectedTo = hop.origin;
    }
  },
};

type Answer = Verdict | { redirect: string; status: number };

async function exchange(spec: HttpCheck, hop: Hop, context: ProbeContext, redirected: boolean): Promise<Answer> {
  const { signal, trace, allowPrivate, lookup } = context;
  try {
    const { host, port } = hop;
    const { ip_version: ipVersion } = spec;
    const { socket } = await dial({ host, port, allowPrivate, ipVersion, signal, lookup, trace });
    const verify = spec.verify_tls;
    const stream = hop.secure ? await handshake(socket, { host, verify }, context) : socket;
    return await converse(spec, hop, stream, context);
  } catch (error) {
    // A host reached by a redirect must not open the breaker of the first host.
    if (redirected && error instanceof DialError) {
      return {
        status: error.phase === "guard" || error.local ? "error" : "down",
        error: `redirected to ${hop.origin}: ${error.message}`,
        skip: error.local,
      };
    }
    throw error;
  }
}

/** One request and its response over a connected socket, which is always destroyed at the end. */
function converse(spec: HttpCheck, hop: Hop, socket: Socket, context: ProbeContext): Promise<Answer> {
  const { signal, trace } = context;
  trace.overdue = "no response within";
  return new Promise((settle, reject) => {
    const started = performance.now();
    let informational = 0;
    let done = false;
    let response: IncomingMessage | null = null;
    const readBefore = socket.bytesRead;
    const message = request({
      createConnection: () => socket,
      method: hop.method,
      path: hop.path,
      headers: hop.headers,
      maxHeaderSize: maxHeaderBytes,
    });

    const finish = (): void => {
      done = true;
      signal.removeEventListener("abort", onAbort);
      message.destroy();
      socket.destroy();
    };
    // A promise is settled after the connection has ended: its time is not the server's.
    const answer = (value: Answer | Promise<Answer>): void => {
      if (done) return;
      finish();
      settle(value);
    };
    const fail = (error: Error): void => {
      // Bytes after a complete response (a longer body, a second response) are ignored.
      if (done || response?.complete === true) return;
      finish();
      if (trace.verdict !== null) settle(trace.verdict);
      else reject(new DialError("connect", conversationWords(error, response !== null), codeOf(error), error));
    };
    const onAbort = (): void => {
      if (response === null)
        trace.overdue =
          socket.writableLength > 0
            ? "sending the request timed out after"
            : socket.bytesRead > readBefore
              ? "response head timed out after"
              : "no response within";
      finish();
      reject(signal.reason as Error);
    };

    signal.addEventListener("abort", onAbort, { once: true });
    message.on("error", fail);
    // Node reports some premature ends without an error.
    message.on("close", () => {
      if (!done) fail(new Error(response === null ? "connection closed without a response" : brokenBody));
    });
    message.on("information", () => {
      if (++informational > maxInformational) fail(new Error(`more than ${maxInformational} interim (1xx) responses`));
    });
    const onResponse = (received: IncomingMessage): void => {
      response = received;
      trace.ttfb_ms = (trace.ttfb_ms ?? 0) + (performance.now() - started);
      receive(spec, received, context, answer, fail);
    };
    message.on("response", onResponse);
    // A 101 ends HTTP on this connection, and counts like any status.
    message.on("upgrade", onResponse);
    message.end(hop.body ?? undefined);
  });
}

function receive(
  spec: HttpCheck,
  response: IncomingMessage,
  context: ProbeContext,
  answer: (value: Answer | Promise<Answer>) => void,
  fail: (error: Error) => void,
): void {
  const { trace, warn, note } = context;
  const status = response.statusCode ?? 0;
  trace.http_status = status;
  const captures = spec.capture_failures;
  const location = response.headers.location;
  if (spec.follow_redirects && isRedirect(status) && location !== undefined) {
    if (captures) trace.snapshot = () => snapshotOf(spec, response, null);
    return answer({ redirect: location, status });
  }

  trace.overdue = "response body timed out after";
  const accepted = accepts(spec.expected_status, status);
  if (!accepted) trace.verdict = refusal(spec, response, status);
  const judge = accepted ? judgeOf(spec).judge : null;
  const charset = charsetOf(response);
  const text = accepted && judge === null ? spec.expected_body_contains : null;
  const reader = new BodyReader(text, charset, judge !== null);
  // A function literal assigned to a property directly is allocated in V8's old generation, and would keep the whole
  // exchange alive until the next full collection.
  const capture = (): FailureSnapshot => snapshotOf(spec, response, reader);
  if (captures) trace.snapshot = capture;
  let judged = false;
  const conclude = (): void => {
    // The end may follow the abort, in buffered data.
    if (judged) return;
    judged = true;
    if (reader.cut) note?.("The response is larger than 1 MiB; the rest of it was not read.");
    if (trace.verdict !== null) return answer(trace.verdict);
    const read = { cut: reader.cut, contentType: contentTypeOf(response), charset };
    if (judge === null) return answer(text === null || reader.found ? up : verdictOf(spec, missingText(text, read)));
    const received = { ...read, body: reader.whole, headers: spec.expected_headers.map(valuesIn(response)) };
    if (reader.cut && (spec.expected_body_absent !== null || spec.expected_body_not_matches !== null))
      warn("Only the first MiB of the body was searched for what must be absent.");
    answer(judgeResponse(spec, judge, received, context));
  };
  response.on("data", (chunk: Buffer) => {
    reader.take(chunk);
    trace.response_size = reader.size;
    if (reader.cut) conclude();
  });
  response.on("end", conclude);
  response.on("error", (error) => fail(codeOf(error) === "ECONNRESET" ? new Error(brokenBody) : error));
  trace.response_size = 0;
  // No HTTP follows it, so Node would wait for the end of the body.
  if (status === 101) conclude();
}

/** At once where that takes little, else in a thread. */
async function judgeResponse(
  spec: HttpCheck,
  judge: Judge,
  received: Received,
  { trace, owner, signal }: ProbeContext,
): Promise<Verdict> {
  if (received.body.length <= maxBytesAtOnce && judge.cost(received) <= maxStepsAtOnce)
    return verdictOf(spec, judge.judge(received));
  const busy: Verdict = { status: "error", error: "the agent had no time to judge the response", skip: true };
  trace.verdict = busy;
  const outcome = await judgeInThread(
    { expectations: expectationsOf(spec), received },
    {
      owner,
      signal,
      onPhase: (phase) => {
        const error = phase === "json" ? "the path selects too much" : "the patterns take too long on this body";
        trace.verdict = phase === "starved" ? busy : { status: "error", error };
      },
    },
  );
  if (outcome === "busy") return busy;
  return outcome === "overdue" ? trace.verdict : verdictOf(spec, outcome);
}

function verdictOf(spec: HttpCheck, unmet: Unmet | null): Verdict {
  if (unmet === null) return up;
  const got = unmet.got === null ? "" : shortened(quoteMasked(spec, unmet.got, unmet.header));
  return { status: unmet.status, error: unmet.before + got + unmet.after };
}

const valuesIn =
  (response: IncomingMessage) =>
  ({ name }: { name: string }): readonly string[] =>
    response.headersDistinct[name.toLowerCase()] ?? [];

/** The two character sets in which bodies are read; every other one is read as UTF-8. */
const charsetOf = ({ headers }: IncomingMessage): "utf8" | "latin1" =>
  /;\s*charset\s*=\s*"?(?:iso-8859-1|latin-?1|windows-1252|us-ascii)\b/i.test(headers["content-type"] ?? "")
    ? "latin1"
    : "utf8";

function contentTypeOf({ headers }: IncomingMessage): string {
  const type = headers["content-type"]?.split(";")[0]!.trim().slice(0, 100) || "no content type";
  const encoding = headers["content-encoding"] ?? "identity";
  return encoding === "identity" ? type : `${type}, sent as ${encoding.slice(0, 40)}`;
}

function refusal(spec: HttpCheck, response: IncomingMessage, status: number): Verdict {
  if (status === 429 || status === 503) {
    const retryAfter = response.headers["retry-after"];
    return {
      status: "degraded",
      error: `rate-limited ${status}${retryAfter === undefined ? "" : ` (Retry-After: ${retryAfter.slice(0, 100)})`}`,
    };
  }
  return down(`expected status ${expectation(spec.expected_status)}, got ${status}`);
}

function conversationWords(error: Error, responded: boolean): string {
  const code = codeOf(error);
  if (code === "HPE_HEADER_OVERFLOW")
    return `the response ${responded ? "trailers are" : "head is"} larger than ${maxHeaderBytes / 1024} KiB`;
  if (code === "HPE_CHUNK_EXTENSIONS_OVERFLOW") return "the response body has chunk extensions larger than 16 KiB";
  if (!responded && "rawPacket" in error && Buffer.isBuffer(error.rawPacket) && isHttp2Preface(error.rawPacket))
    return "the server speaks HTTP/2 only, and was asked in HTTP/1.1";
  if (code.startsWith("HPE_")) {
    const reason = "reason" in error && typeof error.reason === "string" ? error.reason : error.message;
    return `the answer is not valid HTTP: ${reason}`;
  }
  if (code === "ECONNRESET" && error.message === "socket hang up") return "connection closed without a response";
  if (code === "ECONNRESET") return "connection reset before the response was complete";
  return wordsFor(error);
}

/** A server's HTTP/2 starts with a SETTINGS frame on stream 0 (RFC 9113 section 3.4). */
function isHttp2Preface(bytes: Buffer): boolean {
  return bytes.length >= 9 && bytes[3] === 0x04 && bytes.readUInt32BE(5) === 0;
}
