import type { Socket } from "node:net";
import type { HttpCheck } from "@statusmesh/shared/checks/http";
import type { FailureSnapshot } from "@statusmesh/shared/protocol/failure-snapshot";
import { Cancellation } from "@statusmesh/shared/net/cancellation";
import { dial } from "@statusmesh/shared/net/dial";
import { DialError, wordsFor } from "@statusmesh/shared/net/dial-error";
import { codeOf } from "@statusmesh/shared/thrown";
import { connectionDiagnosis } from "../../diagnosis/connection.ts";
import { charsetLabel, encodingOf, isUtf8Label } from "../../http/charset.ts";
import { codeMargin } from "../../http/codings.ts";
import { Cookies } from "../../http/cookies.ts";
import { digestAnswer } from "../../http/digest.ts";
import { brokenBody, type Response, ResponseError, ResponseReader } from "../../http/response.ts";
import { BodyReader, maxBodyBytes } from "./body.ts";
import { handshake } from "../tls/handshake.ts";
import { missingText, shortened, type Unmet } from "./http-expectations.ts";
import { accepts, answering, expectation, firstHop, isRedirect, nextHop, type Hop } from "./message.ts";
import { quoteMasked, snapshotOf } from "./snapshot.ts";
import { endless, judgeBody, judgeOf, noJudge, verdictOn } from "./verdict.ts";
import { down, type Probe, type ProbeContext, up, type Verdict } from "../probe.ts";

/** Time since the last bytes after which a body no longer arrives, ms. */
const stillArrivesMs = 1000;

/** What the hops of one run share. */
interface Progress {
  /** Redirects that have been followed. */
  redirects: number;
  /** Answers to challenges of the present hop. */
  answers: number;
  cookies: Cookies | null;
  /** Requests of redirects: method, address and cookies. */
  seen: Set<string>;
}

/** An HTTP request over a fresh guarded connection per hop, judged by status code and body. */
export const http: Probe<HttpCheck> = {
  timeoutStatus: "down",
  async run(spec, context) {
    // Before anything is sent: what cannot be compiled fails here, and not in an event of the response.
    judgeOf(spec);
    const { userAgent } = context;
    const progress: Progress = { redirects: 0, answers: 0, cookies: null, seen: new Set() };
    let hop = firstHop(spec, userAgent);
    for (;;) {
      const answer = await exchange(spec, hop, context, progress);
      if ("status" in answer) return answer;
      const { response } = answer;
      const set = response.values("set-cookie");
      if (set.length > 0) (progress.cookies ??= new Cookies()).take(set, hop.url);
      if ("authorization" in answer) {
        progress.answers++;
        hop = answering(hop, answer.authorization, progress.cookies?.for(hop.url) ?? "", userAgent);
        continue;
      }
      const next = nextHop(hop, {
        location: answer.location,
        status: response.status,
        userAgent,
        verified: spec.verify_tls,
        cookiesFor: (url) => progress.cookies?.for(url) ?? "",
      });
      if ("error" in next) return down(next.error);
      progress.seen.add(identityOf(hop));
      if (progress.seen.has(identityOf(next)))
        return down(`redirects in a circle: ${next.origin}${shortened(quoteMasked(spec, next.path, "location"))}`);
      if (next.host !== hop.host) context.note?.(`Redirected from ${hop.origin} to ${next.origin}.`);
      progress.redirects++;
      progress.answers = 0;
      hop = next;
      context.trace.redirectedTo = hop.origin;
    }
  },
};

const identityOf = ({ method, origin, path, cookies }: Hop): string => `${method} ${origin}${path}\n${cookies}`;

/** A verdict, a redirect to follow, or a challenge with its answer. */
type Answer = Verdict | { response: Response; location: string } | { response: Response; authorization: string };

async function exchange(spec: HttpCheck, hop: Hop, context: ProbeContext, progress: Progress): Promise<Answer> {
  const { signal, trace, allowPrivate, lookup } = context;
  try {
    const { host, port } = hop;
    const { ip_version: ipVersion } = spec;
    const { socket } = await dial({ host, port, allowPrivate, ipVersion, signal, lookup, trace });
    const verify = spec.verify_tls;
    const stream = hop.secure ? await handshake(socket, { host, verify, isOwn: hop.isOwn }, context) : socket;
    return await converse(spec, hop, stream, context, progress);
  } catch (error) {
    // A host reached by a redirect must not open the breaker of the first host.
    if (progress.redirects > 0 && error instanceof DialError) {
      return {
        status: error.phase === "guard" || error.local ? "error" : "down",
        error: `redirected to ${hop.origin}: ${error.message}`,
        skip: error.local,
        diagnosis: connectionDiagnosis(error),
      };
    }
    throw error;
  }
}

/** One request and its response over a connected socket, which is always destroyed at the end. */
function converse(
  spec: HttpCheck,
  hop: Hop,
  socket: Socket,
  context: ProbeContext,
  progress: Progress,
): Promise<Answer> {
  const { signal, trace, warn } = context;
  trace.overdue = "no response within";
  return new Promise((settle, reject) => {
    const started = performance.now();
    const readBefore = socket.bytesRead;
    let done = false;
    let body: BodyHooks | null = null;

    const finish = (): void => {
      done = true;
      signal.removeEventListener("abort", onAbort);
      socket.destroy();
    };
    // A promise is settled after the connection has ended: its time is not the server's.
    const answer = (value: Answer | Promise<Answer>): void => {
      if (done) return;
      finish();
      settle(value);
    };
    const fail = (error: Error): void => {
      if (done) return;
      finish();
      if (trace.verdict !== null) settle(trace.verdict);
      else reject(new DialError("connect", conversationWords(error, body !== null), codeOf(error), error));
    };
    const reader = new ResponseReader(hop.method, {
      warn,
      head(response) {
        trace.ttfb_ms = (trace.ttfb_ms ?? 0) + (performance.now() - started);
        body = receive(spec, hop, response, { context, progress, answer });
      },
      data: (chunk) => body?.data(chunk),
      end: () => body?.end(),
    });
    const attempt = (step: () => void): void => {
      try {
        if (!done) step();
      } catch (error) {
        if (error instanceof ResponseError) return fail(error);
        finish();
        reject(error as Error);
      }
    };
    const onAbort = (): void => {
      if (body === null)
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
    socket.on("data", (chunk: Buffer) => attempt(() => reader.push(chunk)));
    socket.on("end", () => attempt(() => reader.finish()));
    socket.on("error", fail);
    socket.on("close", () => attempt(() => reader.finish()));
    socket.write(hop.request);
  });
}

/** What takes the body of a response. */
interface BodyHooks {
  data(chunk: Buffer): void;
  end(): void;
}

const noBody: BodyHooks = { data: () => undefined, end: () => undefined };

interface Receiving {
  context: ProbeContext;
  progress: Progress;
  answer(value: Answer | Promise<Answer>): void;
}

function receive(spec: HttpCheck, hop: Hop, response: Response, receiving: Receiving): BodyHooks {
  const { context, progress, answer } = receiving;
  const { trace } = context;
  const { status } = response;
  trace.http_status = status;
  trace.received = { response, body: null };
  const accepted = accepts(spec.expected_status, status);
  const location = response.value("location") ?? "";
  if (spec.follow_redirects && isRedirect(status) && location !== "") {
    if (spec.capture_failures) trace.snapshot = () => snapshotOf(spec, response, null);
    const isUsedUp = progress.redirects >= spec.max_redirects;
    if (!isUsedUp || !accepted) {
      answer(isUsedUp ? down(`more than ${spec.max_redirects} redirects`) : { response, location });
      return noBody;
    }
  }
  const challenged = challengeOf(spec, hop, response, progress);
  if (challenged !== null && "authorization" in challenged) {
    answer({ response, authorization: challenged.authorization });
    return noBody;
  }

  trace.overdue = "response body timed out after";
  if (!accepted) trace.verdict = refusal(spec, response, challenged?.error ?? leftBehind(hop, status));
  const judging = accepted ? judgeOf(spec) : noJudge;
  const charset = judging.judge === null ? null : charsetLabel(response.value("content-type") ?? "");
  if (judging.judge?.needsText === true && charset !== null && encodingOf(charset) === null) {
    answer({ status: "error", error: `the charset ${JSON.stringify(shortened(charset.slice(0, 40)))} is not known` });
    return noBody;
  }
  trace.response_size = 0;
  return receiveBody(spec, response, { ...judging, charset }, receiving);
}

/** Takes the body of the last response, and judges it. */
function receiveBody(
  spec: HttpCheck,
  response: Response,
  judging: typeof noJudge & { charset: string | null },
  { context, answer }: Receiving,
): BodyHooks {
  const { trace, note } = context;
  const { judge, searched, charset } = judging;
  const codings = judge?.needsBody === true ? response.codings() : [];
  // UTF-8 is searched while it arrives; other bodies are kept until they can be read.
  const text = codings.length === 0 && isUtf8Label(charset) ? searched : null;
  const keepsAll = judge?.needsBody === true && text === null;
  const max = codings.length === 0 ? maxBodyBytes : maxBodyBytes + codeMargin;
  const reader = new BodyReader(text, { keepsAll, max });
  trace.received = { response, body: reader };
  // A function literal assigned to a property directly is allocated in V8's old generation, and would keep the whole
  // exchange alive until the next full collection.
  const capture = (): FailureSnapshot => snapshotOf(spec, response, reader);
  if (spec.capture_failures) trace.snapshot = capture;
  /** What the body that has arrived lacks; `partial` where it goes on. */
  const judged = async (partial: boolean, signal = context.signal): Promise<Unmet | Verdict | null> => {
    if (judge === null) return null;
    if (text !== null && !reader.isKept) return reader.found ? null : missingText(text, reader);
    return await judgeBody(spec, response, reader, { ...judging, judge, codings, partial, ...context, signal });
  };
  let isOver = false;
  let lastAt = -Infinity;
  const conclude = (): void => {
    // The end may follow the abort, in buffered data.
    if (isOver) return;
    isOver = true;
    if (reader.cut) note?.("The response is larger than 1 MiB; the rest of it was not read.");
    if (trace.verdict !== null) return answer(trace.verdict);
    if (judge === null) return answer(up);
    answer(judged(false).then((found) => verdictOn(spec, found)));
  };
  const atDeadline = (): Promise<Verdict | null> | null => {
    if (isOver || lastAt < performance.now() - Math.min(stillArrivesMs, spec.timeout / 2)) return null;
    isOver = true;
    // The deadline has passed: the bound of a judgement is its own.
    return endless(spec, context, judged(true, new Cancellation()));
  };
  if (trace.verdict === null && !response.hasLength) trace.atDeadline = atDeadline;
  return {
    data(chunk) {
      reader.take(chunk);
      trace.response_size = reader.size;
      lastAt = performance.now();
      if (reader.cut) conclude();
    },
    end: conclude,
  };
}

/** The answer to a challenge of digest authentication, or why there is none; null for another response. */
function challengeOf(
  spec: HttpCheck,
  hop: Hop,
  response: Response,
  { answers }: Progress,
): { authorization: string } | { error: string } | null {
  if (response.status !== 401 || spec.auth_scheme !== "digest" || spec.basic_auth === null) return null;
  if (hop.credentials !== "own") return null;
  const [user, password] = spec.basic_auth;
  const answer = digestAnswer(response.values("www-authenticate"), {
    method: hop.method,
    uri: hop.path,
    user,
    password,
  });
  // A nonce that has expired is replaced once; other credentials there are none.
  if ("authorization" in answer && answers > 0 && (!answer.isStale || answers > 1)) return null;
  return answer;
}

const leftBehind = ({ credentials, origin }: Hop, status: number): string | undefined =>
  credentials === "left behind" && (status === 401 || status === 403)
    ? `the credentials were not sent to ${origin}: a redirect left their server`
    : undefined;

function refusal(spec: HttpCheck, response: Response, reason: string | undefined): Verdict {
  const { status } = response;
  if (status === 429 || status === 503) {
    const retryAfter = response.value("retry-after");
    return {
      status: "degraded",
      error: `rate-limited ${status}${retryAfter === undefined ? "" : ` (Retry-After: ${retryAfter.slice(0, 100)})`}`,
    };
  }
  const more = reason === undefined ? "" : ` (${reason})`;
  return down(`expected status ${expectation(spec.expected_status)}, got ${status}${more}`);
}

function conversationWords(error: Error, responded: boolean): string {
  if (error instanceof ResponseError) return error.message;
  if (codeOf(error) !== "ECONNRESET") return wordsFor(error);
  return responded ? brokenBody : "connection reset before the response was complete";
}
