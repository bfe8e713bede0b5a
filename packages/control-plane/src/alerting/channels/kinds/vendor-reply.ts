import {
  type Outbound,
  OutboundError,
  type OutboundReply,
  type OutboundRequest,
} from "../../../platform/outbound/client.ts";
import { answered, DeliveryError, isPermanent } from "./kind.ts";

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
 * Sends one request to a vendor; throws DeliveryError unless the vendor accepts it. `failureIn` reads every reply, also
 * with a 2xx status, and returns null for an accepted message. The error never has the URL, which may hold a
 * token.
 */
export async function deliverTo(
  transport: Outbound,
  request: OutboundRequest,
  failureIn: (reply: OutboundReply) => VendorFailure | null,
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

/** A POST of a JSON body. */
export const jsonRequest = (url: string, body: object): OutboundRequest => ({
  method: "POST",
  url,
  headers: { "content-type": "application/json" },
  body: JSON.stringify(body),
});

/** The reply as a JSON object; empty for anything else. */
export function jsonObject({ text }: Pick<OutboundReply, "text">): Record<string, unknown> {
  try {
    return asObject(JSON.parse(text));
  } catch {
    return {};
  }
}

export const asObject = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};

/** The first object of a list; empty without one. */
export const firstObject = (value: unknown): Record<string, unknown> =>
  Array.isArray(value) ? asObject(value[0]) : {};

/** A text or a number as text; empty for anything else. */
export const wordOf = (value: unknown): string =>
  typeof value === "string" || typeof value === "number" ? String(value) : "";

/** The parts that are not empty, with a separator. */
export const joined = (parts: readonly string[], separator = " "): string =>
  parts.filter((part) => part !== "").join(separator);
