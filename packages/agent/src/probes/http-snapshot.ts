import type { IncomingMessage } from "node:http";
import { checkKinds } from "@statusmesh/shared/checks";
import type { HttpCheck } from "@statusmesh/shared/checks/http";
import { boundedSnapshot, type FailureSnapshot, snapshotLimits } from "@statusmesh/shared/failure-snapshot";
import { leastPart, maskedHeader, type Masker, maskerOf } from "./masking.ts";
import { secretValues } from "./secret-values.ts";

/** Longest header value that is searched for secrets, characters; the rest is cut off before. */
const maxSearched = 4096;

/** The body bytes of a response so far. */
export interface BodyStart {
  /** The first bytes, at most 1 KiB. */
  readonly start: Buffer;
  /** Bytes received. */
  readonly size: number;
}

/** The response of a failed run with every secret masked; `body` is null where the body was not read. */
export function snapshotOf(spec: HttpCheck, response: IncomingMessage, body: BodyStart | null): FailureSnapshot {
  const masked = maskerOf(secretsOf(spec));
  const headers: FailureSnapshot["headers"] = [];
  const { rawHeaders } = response;
  const count = rawHeaders.length / 2;
  for (let at = 0; at < Math.min(count, snapshotLimits.headers); at++) {
    const name = rawHeaders[2 * at]!;
    const value = rawHeaders[2 * at + 1]!;
    headers.push({ name, value: maskedHeader(name, value.slice(0, maxSearched), masked) });
  }
  const reason = masked((response.statusMessage ?? "").slice(0, maxSearched));
  return boundedSnapshot({
    status_line: `HTTP/${response.httpVersion} ${response.statusCode ?? 0} ${reason}`.trim(),
    headers,
    headers_omitted: count - headers.length,
    ...bodyOf(response, body, masked),
  });
}

/** A part of a response for a message, with every secret masked. `header`: the name of the header it is from. */
export function quoteMasked(spec: HttpCheck, text: string, header?: string): string {
  const masked = maskerOf(secretsOf(spec));
  return header === undefined ? masked(text) : maskedHeader(header, text, masked);
}

function secretsOf(spec: HttpCheck): string[] {
  const secrets: string[] = [];
  checkKinds.http.mapSecrets(spec, (secret) => {
    secrets.push(secret);
    return secret;
  });
  // Servers repeat the path of a request, and what a form was sent.
  for (const text of [spec.url, spec.body ?? ""])
    for (const { start, end } of secretValues(text.slice(0, maxSearched)))
      if (end - start >= leastPart) secrets.push(text.slice(start, end));
  if (spec.basic_auth !== null) secrets.push(Buffer.from(spec.basic_auth.join(":"), "utf8").toString("base64"));
  return secrets;
}

function bodyOf(
  response: IncomingMessage,
  body: BodyStart | null,
  masked: Masker,
): Pick<FailureSnapshot, "body" | "body_state"> {
  if (body === null || body.size === 0) return { body: null, body_state: "none" };
  const { "content-type": type = "", "content-encoding": encoding = "identity" } = response.headers;
  if (!isText(type) || encoding.toLowerCase() !== "identity") return { body: null, body_state: "not_text" };
  const longer = body.size > body.start.length;
  const isCut = longer || !response.complete;
  // With `stream` the bytes of a character that is cut at the end are left out.
  const text = decoderOf(type).decode(body.start, { stream: isCut });
  return {
    body: masked(text, isCut),
    body_state: longer ? "truncated" : response.complete ? "complete" : "interrupted",
  };
}

const isText = (type: string): boolean => /^\s*(?:text\/|application\/(?:[\w.-]+\+)?(?:json|xml)\b)/i.test(type);

function decoderOf(type: string): InstanceType<typeof TextDecoder> {
  const charset = /;\s*charset\s*=\s*"?([\w.:-]{1,40})/i.exec(type)?.[1] ?? "utf-8";
  try {
    return new TextDecoder(charset);
  } catch {
    return new TextDecoder();
  }
}
