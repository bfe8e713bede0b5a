import { Pool } from "undici";
import { exponentialMs, jitteredMs } from "@statusmesh/shared/backoff";
import { asObject, parsedJson } from "@statusmesh/shared/json";
import { messageOf } from "@statusmesh/shared/thrown";

/** Errors of the control plane, by the reaction of the agent. */
export type ApiErrorKind =
  /** It cannot be reached or is overloaded: retry with backoff. */
  | "away"
  /** It refuses the token: only a person can change that. */
  | "refused"
  /** It speaks another protocol version. */
  | "protocol"
  /** It will never accept this body. */
  | "rejected"
  /** The reply is not from a control plane. */
  | "unexpected";

export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly kind: ApiErrorKind;
  /** Retry-After in seconds; null without one. */
  readonly retryAfterMs: number | null;

  constructor(kind: ApiErrorKind, message: string, retryAfterMs: number | null = null) {
    super(message);
    this.kind = kind;
    this.retryAfterMs = retryAfterMs;
  }
}

/** What was caught, as an error of the control plane. */
export const asApiError = (error: unknown): ApiError =>
  error instanceof ApiError ? error : new ApiError("unexpected", messageOf(error));

/** Times and last error of one kind of request to the control plane. Times are Unix ms on its clock. */
export class Contact {
  succeededAt: number | null = null;
  /** The last failure, also after a later success. */
  failure: { at: number; message: string } | null = null;

  succeeded(now: number): void {
    this.succeededAt = Math.round(now);
  }

  failed(now: number, message: string): void {
    this.failure = { at: Math.round(now), message };
  }
}

interface AskOptions {
  timeoutMs: number;
  signal: AbortSignal;
  onHead?: () => void;
  token?: string;
}

export interface Api {
  /**
   * Posts JSON and returns the parsed body of a 200; `onHead` is called when the response head arrives. `token`
   * replaces the usual one. Rejects with {@link ApiError}, or with the signal's reason.
   */
  post(path: string, body: unknown, options: AskOptions): Promise<unknown>;
  /** The same for a GET. */
  get(path: string, options: AskOptions): Promise<unknown>;
  /** Uses this token from now on. */
  useToken(token: string): void;
  close(): Promise<void>;
}

/** Connections: one long poll, two batches, and one spare. */
const connections = 4;
const maxErrorBytes = 10_000;

/** HTTP client for the control plane: keeps connections and sends the token with every request. */
export function connectApi(baseUrl: string, token: string, userAgent: string): Api {
  const url = new URL(baseUrl);
  const prefix = url.pathname.replace(/\/+$/, "");
  const pool = new Pool(url.origin, { connections, connect: { timeout: 10_000 }, keepAliveTimeout: 30_000 });
  let usual = token;
  const ask = async (
    method: "GET" | "POST",
    path: string,
    body: string | null,
    { timeoutMs, signal, onHead, token: given = usual }: AskOptions,
  ): Promise<unknown> => {
    const headers = {
      authorization: `Bearer ${given}`,
      "content-type": "application/json",
      "user-agent": userAgent,
      accept: "application/json",
    };
    let status: number;
    let retryAfter: string | string[] | undefined;
    let text: string;
    try {
      const response = await pool.request({
        path: prefix + path,
        method,
        headers,
        body,
        signal,
        headersTimeout: timeoutMs,
        bodyTimeout: timeoutMs,
      });
      onHead?.();
      status = response.statusCode;
      retryAfter = response.headers["retry-after"];
      text = await response.body.text();
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      throw new ApiError("away", reasonOf(error));
    }
    if (status !== 200) throw refusal(status, text.slice(0, maxErrorBytes), secondsToMs(retryAfter));
    const reply = parsedJson(text);
    if (reply === undefined) throw new ApiError("unexpected", "the answer is not JSON");
    return reply;
  };
  return {
    post: (path, body, options) => ask("POST", path, JSON.stringify(body), options),
    get: (path, options) => ask("GET", path, null, options),
    useToken: (next) => void (usual = next),
    close: () => pool.destroy(),
  };
}

function refusal(status: number, text: string, retryAfterMs: number | null): ApiError {
  const { code, message } = envelopeOf(text);
  const words = message === null ? `status ${status}` : `status ${status}: ${message}`;
  if (code === "AGENT_PROTOCOL_MISMATCH") return new ApiError("protocol", words);
  if (status === 401 || status === 403) return new ApiError("refused", words);
  // Only the codes of a control plane count: a proxy may send the same status.
  if (code !== null && (status === 400 || status === 413 || status === 415 || status === 422))
    return new ApiError("rejected", words);
  if (status >= 500 || status === 408 || status === 425 || status === 429)
    return new ApiError("away", words, retryAfterMs);
  return status === 413 ? new ApiError("rejected", words) : new ApiError("unexpected", words);
}

/** Code and message of an error envelope, if the body is one. */
function envelopeOf(text: string): { code: string | null; message: string | null } {
  const { code, message } = asObject(asObject(parsedJson(text))["error"]);
  return {
    code: typeof code === "string" ? code : null,
    message: typeof message === "string" ? message.slice(0, 300) : null,
  };
}

/** Retry-After in seconds (RFC 9110 section 10.2.3), at most five minutes; the date form is not used here. */
function secondsToMs(header: string | string[] | undefined): number | null {
  const seconds = typeof header === "string" && /^\d{1,9}$/.test(header) ? Number(header) : null;
  return seconds === null ? null : Math.min(seconds, 300) * 1000;
}

function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  return messageOf(error);
}

/** Backoff before attempt `n` (from 0): doubled, capped, with jitter so that a fleet does not return at once. */
export const backoffMs = (attempt: number, firstMs: number, maxMs: number, random?: () => number): number =>
  jitteredMs(exponentialMs(attempt, firstMs, maxMs), random);

/** Backoff while only a person can end the refusal. */
const slowRetryMs = 60_000;

/** Wait before the next attempt after a failed one, from 0: as the control plane asks, else with backoff. */
export const retryMs = ({ kind, retryAfterMs }: ApiError, attempt: number): number =>
  kind === "away" ? (retryAfterMs ?? backoffMs(attempt, 250, 30_000)) : backoffMs(0, slowRetryMs, slowRetryMs);
