import { checkKinds } from "@statusmesh/shared/checks";
import type { HttpCheck } from "@statusmesh/shared/checks/http";
import { boundedSnapshot, type FailureSnapshot, snapshotLimits } from "@statusmesh/shared/protocol/failure-snapshot";
import { charsetLabel, encodingOf, isMarkup, textOf } from "../../http/charset.ts";
import type { Response } from "../../http/response.ts";
import { leastPart, maskedHeader, type Masker, maskerOf } from "../masking/masking.ts";
import { secretValues } from "../masking/secret-values.ts";

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
export function snapshotOf(spec: HttpCheck, response: Response, body: BodyStart | null): FailureSnapshot {
  const masked = maskerOf(secretsOf(spec));
  const headers: FailureSnapshot["headers"] = [];
  const { fields, version, status } = response;
  for (const [name, value] of fields.slice(0, snapshotLimits.headers))
    headers.push({ name, value: maskedHeader(name, value.slice(0, maxSearched), masked) });
  const reason = masked(response.reason.slice(0, maxSearched));
  return boundedSnapshot({
    status_line: `HTTP/${version} ${status} ${reason}`.trim(),
    headers,
    headers_omitted: fields.length - headers.length,
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
  response: Response,
  body: BodyStart | null,
  masked: Masker,
): Pick<FailureSnapshot, "body" | "body_state"> {
  if (body === null || body.size === 0) return { body: null, body_state: "none" };
  const type = response.value("content-type") ?? "";
  if (!isText(type) || response.codings().length > 0) return { body: null, body_state: "not_text" };
  const longer = body.size > body.start.length;
  const isCut = longer || !response.complete;
  const named = charsetLabel(type);
  const label = named === null || encodingOf(named) === null ? null : named;
  const text = textOf(body.start, { label, markup: isMarkup(type), cut: isCut });
  return {
    body: masked(text, isCut),
    body_state: longer ? "truncated" : response.complete ? "complete" : "interrupted",
  };
}

const isText = (type: string): boolean => /^\s*(?:text\/|application\/(?:[\w.-]+\+)?(?:json|xml)\b)/i.test(type);
