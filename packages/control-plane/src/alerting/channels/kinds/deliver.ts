import { asObject, type Json, parsedJson } from "@statusmesh/shared/json";
import {
  type Outbound,
  OutboundError,
  type OutboundReply,
  type OutboundRequest,
} from "../../../platform/outbound/client.ts";
import { DeliveryError } from "./kind.ts";

/** Why a vendor did not accept a message, read from its reply. */
export interface VendorFailure {
  /** Words of the vendor. */
  reason: string;
  /** True when a retry cannot help; left out, the HTTP status decides. */
  permanent?: boolean;
  /** Left out, the header Retry-After decides. */
  retryAfterSecs?: number | null;
}

/**
 * Sends one request; throws DeliveryError unless the receiver accepts it. `failureIn` reads every reply of a vendor,
 * also with a 2xx status, and returns null for an accepted message. The error never has the URL, which may hold a
 * token.
 */
export async function deliver(
  transport: Outbound,
  request: OutboundRequest,
  failureIn: (reply: OutboundReply) => VendorFailure | null = () => null,
): Promise<void> {
  let reply: OutboundReply;
  try {
    reply = await transport.send(request);
  } catch (cause) {
    throw new DeliveryError(cause instanceof OutboundError ? cause.message : "the message could not be sent", {
      cause,
    });
  }
  const { status } = reply;
  const failure = failureIn(reply);
  if (status >= 200 && status < 300 && failure === null) return;
  throw new DeliveryError(answered({ status, text: failure?.reason ?? reply.text }), {
    status,
    permanent: failure?.permanent ?? isPermanent(status),
    retryAfterSecs: failure?.retryAfterSecs ?? reply.retryAfterSecs,
  });
}

/** True for a 4xx that a retry will not change: all except request timeout, too early and too many requests. */
export function isPermanent(status: number): boolean {
  return status >= 400 && status < 500 && status !== 408 && status !== 425 && status !== 429;
}

/** `the receiver answered 500: out of order`, with the start of the reply. */
function answered({ status, text }: Pick<OutboundReply, "status" | "text">): string {
  const said = text
    .toWellFormed()
    .replaceAll(/[\s\p{C}]+/gu, " ")
    .trim();
  const start = said.length > 200 ? `${said.slice(0, 200).toWellFormed()}…` : said;
  const hint = status >= 300 && status < 400 ? " (redirects are not followed)" : "";
  return `the receiver answered ${status}${hint}${start === "" ? "" : `: ${start}`}`;
}

/** A POST of a JSON body. */
export const jsonRequest = (url: string, body: object, headers: Record<string, string> = {}): OutboundRequest => ({
  method: "POST",
  url,
  headers: { "content-type": "application/json", ...headers },
  body: JSON.stringify(body),
});

/** A POST of a form. */
export const formRequest = (
  url: string,
  fields: Record<string, string>,
  headers: Record<string, string> = {},
): OutboundRequest => ({
  method: "POST",
  url,
  headers: { "content-type": "application/x-www-form-urlencoded", ...headers },
  body: new URLSearchParams(fields).toString(),
});

/** The reply as a JSON object; empty for anything else. */
export const jsonObject = ({ text }: Pick<OutboundReply, "text">): Json => asObject(parsedJson(text));

/** The first object of a list; empty without one. */
export const firstObject = (value: unknown): Json => (Array.isArray(value) ? asObject(value[0]) : {});

/** A text or a number as text; empty for anything else. */
export const wordOf = (value: unknown): string =>
  typeof value === "string" || typeof value === "number" ? String(value) : "";

/** The parts that are not empty, with a separator. */
export const joined = (parts: readonly string[], separator = " "): string =>
  parts.filter((part) => part !== "").join(separator);
