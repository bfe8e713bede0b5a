import type { Test } from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { type ErrorCode, errorCodes, reservedCodes } from "@statusmesh/shared/errors";
import type { Answer, Client, RequestOptions } from "../harness/api.ts";

/** A refused request with its expected reply. */
export interface Case {
  title: string;
  /** `POST /api/v1/targets` */
  ask: string;
  send?: RequestOptions;
  as?: Client;
  code: ErrorCode;
  /** The place in the request, for a 400; null where it has none. */
  field?: string | null;
  headers?: Record<string, string | RegExp>;
}

/** Shorthand for the common case: a refused body. */
export const refusedBody =
  (ask: string) =>
  (title: string, json: unknown, code: ErrorCode, field: string | null = null): Case => ({
    title,
    ask,
    send: { json },
    code,
    field,
  });

/** Details that the specification promises for some codes. */
const quota = { quota: String, current: Number, limit: Number, plan: String };
const promised: Partial<Record<ErrorCode, object>> = {
  SSRF_BLOCKED: { range: String },
  ABUSE_BLOCKED: { reason: String },
  INSUFFICIENT_SCOPE: { scope: /^[a-z_]+:[a-z]+$/ },
  QUOTA_EXCEEDED: quota,
  CHANNEL_QUOTA_EXCEEDED: quota,
  RATE_LIMITED: { scope: /^per_(org|user)_[a-z_]+$/ },
};

const seen = new Set<ErrorCode>();

/**
 * Checks a reply against its code: status, envelope, a message in whole sentences, the pointer (400 only), promised
 * details, Retry-After.
 */
export function isRefused(
  t: Test,
  answer: Answer,
  { title, code, field = null, headers = {} }: Pick<Case, "title" | "code" | "field" | "headers">,
): void {
  const { status } = errorCodes[code];
  matchObject(
    t,
    answer,
    { status, headers, body: { error: { code } } },
    `${title}: ${code}, not ${answer.text.slice(0, 300)}`,
  );
  const error = answer.body?.error ?? {};
  t.strictSame(Object.keys(error), ["code", "message", "field", "details", "trace_id"], `${title}: the envelope`);
  t.match(error.message, /^\S.*[.?]$/s, `${title}: a message in whole sentences`);
  t.equal(error.field, status === 400 ? field : null, `${title}: the place in the request`);
  if (promised[code] !== undefined) matchObject(t, error.details, promised[code], `${title}: its details`);
  if (status === 429 || status === 503) t.match(answer.headers["retry-after"], /^[1-9]\d*$/, `${title}: Retry-After`);
  const { "x-request-id": request } = answer.headers;
  matchObject(
    t,
    answer.headers,
    { "content-type": "application/json; charset=utf-8", "cache-control": "no-store" },
    `${title}: its headers`,
  );
  t.equal(request ?? null, error.trace_id, `${title}: the trace is the same in both places`);
  if (answer.status === status && error.code === code) seen.add(code);
}

/** Codes of the registry that no case has provoked so far. */
export const neverSeen = (): ErrorCode[] =>
  (Object.keys(errorCodes) as ErrorCode[]).filter((code) => !seen.has(code) && !reservedCodes.has(code));
