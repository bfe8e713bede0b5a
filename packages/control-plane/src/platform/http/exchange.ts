import { randomFillSync } from "node:crypto";
import type { Context, Middleware } from "koa";
import postgres from "postgres";
import { AppError } from "@statusmesh/shared/errors";
import type { Clock } from "../process/clock.ts";
import { challengeOf } from "./challenge.ts";
import { failureAnswer, failureOf } from "../db/client/failures.ts";
import type { Log } from "../process/log.ts";
import { ClientGone } from "../process/turns.ts";

/** W3C Trace Context, level 1, section 3.2: version, trace id, parent id, flags. */
const traceparent = /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** Trace id of the caller, or a new one; every log line and error of the request has it. */
export function traceId(header: string): string {
  const given = traceparent.exec(header)?.[1];
  return given === undefined || /^0+$/.test(given) ? newTraceId() : given;
}

const random = Buffer.alloc(4096);
let used = random.length;

/** 16 random bytes in hex, from bytes of many at once: every request has one. */
function newTraceId(): string {
  if (used === random.length) {
    randomFillSync(random);
    used = 0;
  }
  return random.toString("hex", used, (used += 16));
}

/**
 * The envelope of an error. Only a 400 has `field`; other statuses have the pointer in `details.pointer`. An internal
 * error reveals only its trace id.
 */
export function envelope(error: AppError, trace: string | null) {
  const { code, message, status } = error;
  const details = status === 400 || error.field === null ? error.details : { ...error.details, pointer: error.field };
  return { error: { code, message, field: status === 400 ? error.field : null, details, trace_id: trace } };
}

/** A request with its reply. */
export interface RequestSeen {
  /** Path of the route, `/api/v1/targets/{id}`; null without a route. */
  route: string | null;
  method: string;
  status: number;
  ms: number;
}

/** Codes of sign-in links, invitations and shares: at least 32 characters that are no UUID. */
const secretSegment = /(?<=\/)(?![0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:\/|$))[^/]{32,}/gi;

const minSecretLength = 32;

/** The path with secrets masked. */
const loggedPath = (path: string): string =>
  path.length <= minSecretLength ? path : path.replaceAll(secretSegment, "***");

/** The path for the log; `state.loggedPath` replaces one that is a secret as a whole. */
const pathOf = (http: Context): string => (http.state["loggedPath"] as string | undefined) ?? loggedPath(http.path);

/** Records the declared path of the request. */
export function atRoute(http: Context, declared: string): void {
  http.state["route"] = declared;
}

/** The declared path of the request; null when none was recorded. */
export const routeOf = (http: Context): string | null => (http.state["route"] as string | undefined) ?? null;

/** Header of the trace id in every reply. */
export const traceHeader = "X-Request-Id";

/** The trace id of the request; null before {@link exchange} has set it. */
export const traceOf = (http: Context): string | null => (http.state["traceId"] as string | undefined) ?? null;

/**
 * The outermost middleware: sets the trace id, writes one log line per request, and turns errors into the envelope.
 * `page` renders an error for what was requested, such as a page, or returns null. `onReply` is called with every
 * request after its reply is set.
 */
export function exchange(options: {
  log: Log;
  clock: Clock;
  page(error: AppError, http: Context): ErrorPage | Promise<ErrorPage>;
  /** Headers of every reply. */
  headers: Readonly<Record<string, string>>;
  onReply?: ((request: RequestSeen) => void) | undefined;
}): Middleware {
  const headers = Object.entries(options.headers);
  const hasUrl = urlCheck();
  return async (http, next) => {
    const started = options.clock.now();
    const report = (ms: number) =>
      options.onReply?.({
        route: routeOf(http),
        method: http.method,
        status: http.status,
        ms,
      });
    const trace = traceId(http.get("traceparent"));
    http.state["traceId"] = trace;
    // After the handler: a head that it has written is complete, and costs less than headers that are set before.
    const setHeaders = () => {
      if (http.res.headersSent) return;
      http.res.setHeader(traceHeader, trace);
      for (const [name, value] of headers) http.res.setHeader(name, value);
    };
    if (!hasUrl(http)) {
      answer(
        http,
        new AppError("INVALID_HOST", "The Host header of the request is missing, or is not a host name or an address."),
        trace,
        null,
      );
      setHeaders();
      return report(0);
    }
    try {
      await next();
      // Koa would answer a plain-text 404.
      if (http.status === 404 && http.body === undefined)
        throw new AppError("NOT_FOUND", `There is nothing at ${http.path}.`);
    } catch (thrown) {
      const error = asAppError(thrown);
      reportFailure(http, error, thrown, options.log);
      answer(http, error, trace, await options.page(error, http));
    }
    setHeaders();
    const took = options.clock.now() - started;
    const fields = { trace, method: http.method, path: pathOf(http), status: http.status, ms: took };
    if (http.path !== "/healthz" && http.path !== "/readyz") options.log.debug(fields, "request");
    report(took);
  };
}

/** Host is required from HTTP/1.1 on (RFC 9112, section 3.2). */
const hasHost = ({ req }: Context): boolean => (req.headers.host ?? "") !== "" || req.httpVersion === "1.0";

/**
 * Tells whether a request has a valid URL; without one its path and query are unavailable. A path cannot make a URL
 * invalid, so a Host that was valid for the previous request is not parsed again.
 */
function urlCheck(): (http: Context) => boolean {
  let validHost = "";
  return (http) => {
    const { host = "" } = http.req.headers;
    const isPath = http.originalUrl.startsWith("/");
    if (isPath && host !== "" && host === validHost) return true;
    // Koa sets an empty object for an invalid Host or request target.
    if (!hasHost(http) || !(http.URL instanceof URL)) return false;
    if (isPath) validHost = host;
    return true;
  };
}

/** The body of an error reply in place of the envelope. */
export interface ErrorBody {
  type: string;
  body: string;
}

/** HTML, another body, or null for the envelope. */
type ErrorPage = ErrorBody | string | null;

function answer(http: Context, error: AppError, trace: string, page: ErrorPage): void {
  http.status = error.status;
  http.set("Cache-Control", "no-store");
  if (error.retryAfterSecs !== null) http.set("Retry-After", String(error.retryAfterSecs));
  if (error.status === 401) http.set("WWW-Authenticate", challengeOf(http.path));
  if (page === null) {
    http.body = envelope(error, trace);
    http.type = "application/json; charset=utf-8";
  } else {
    const { type, body } = typeof page === "string" ? { type: "text/html; charset=utf-8", body: page } : page;
    http.body = body;
    http.type = type;
  }
}

/** Logs a request that failed inside the service. */
export function reportFailure(http: Context, error: AppError, thrown: unknown, log: Log): void {
  const fields = { trace: traceOf(http), code: error.code, path: pathOf(http) };
  // The database watch logs an outage once, at its start and its end.
  if (error.code === "DEPENDENCY_DOWN" && (error.cause === undefined || failureOf(error.cause) !== null))
    log.debug({ ...fields, reason: String(error.cause) }, "request failed");
  else if (error.status >= 500) log.error({ ...fields, err: describe(thrown) }, "request failed");
}

/** The AppError that anything thrown stands for. */
export function asAppError(thrown: unknown): AppError {
  if (thrown instanceof AppError) return thrown;
  // Nobody reads this reply.
  if (thrown instanceof ClientGone) return new AppError("REQUEST_TIMEOUT", thrown.message, { cause: thrown });
  const failure = failureOf(thrown);
  if (failure !== null) return failureAnswer(failure, thrown);
  if (thrown instanceof postgres.PostgresError && (thrown.code === "22021" || thrown.code === "22P05")) {
    return new AppError("INVALID_BODY", "A text contains a character that cannot be stored.", { cause: thrown });
  }
  return new AppError("INTERNAL", "Internal server error. The log has the details under the trace id.", {
    cause: thrown,
  });
}

/** An error with its stack and cause, for the log. */
export function describe(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown);
  const cause = thrown.cause instanceof Error ? `\ncaused by ${thrown.cause.stack ?? thrown.cause.message}` : "";
  return `${thrown.stack ?? thrown.message}${cause}`;
}
