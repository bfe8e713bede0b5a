import type { Static, TSchema } from "typebox";
import { AppError } from "@statusmesh/shared/errors";
import type { SecretsDestination } from "@statusmesh/shared/secrets";
import { urlProblem } from "@statusmesh/shared/url";
import { type Outbound, OutboundError, type OutboundReply, type OutboundRequest } from "../../outbound/client.ts";
import type { Notice } from "../../incidents/schema.ts";

/** One notice on its way to one channel. */
export interface ChannelMessage {
  /** The same at every attempt, so that a receiver can tell a repetition. */
  deliveryId: string;
  notice: Notice;
  /** True for a message that a person sent to try the channel: it must page nobody for longer than that. */
  test: boolean;
  /** Unix ms of this attempt. */
  sentAt: number;
}

/** What the instance allows of addresses that the organisation chooses. */
export interface AllowedUrls {
  /** True also takes http, for receivers in the own network. */
  http: boolean;
}

/** A kind of notification channel: everything about it is in its one file. */
export interface ChannelKind<S extends TSchema = TSchema> {
  readonly type: string;
  /** How people call it: "Webhook". */
  readonly label: string;
  /**
   * The wire shape of the config. Fields with a `default` may be omitted. What a secret must look like is said in
   * {@link rules}, so that the mask is answered as a mask and not as a malformed secret.
   */
  readonly schema: S;
  /** Rules that the schema does not say. Throws INVALID_CHANNEL_CONFIG with a pointer relative to the config (`/url`). */
  rules(config: Static<S>, allowed: AllowedUrls): void;
  /** Applies `change` to every secret of the config, and returns the copy. `pointer` names the field. */
  mapSecrets(config: Static<S>, change: (secret: string, pointer: string) => string): Static<S>;
  /**
   * The server that the secrets are sent to; null for a kind that always sends them to the same one, or while the address
   * cannot be read. An edit that changes it must bring every stored secret again.
   */
  secretsGoTo(config: Static<S>): SecretsDestination | null;
  /** The URLs that the organisation chose and that we would call, for the guard. Called after {@link rules}. */
  urls(config: Static<S>): { url: string; pointer: string }[];
  /** Tells the receiver. Returns when it has accepted; throws {@link DeliveryError} when it has not. */
  send(config: Static<S>, message: ChannelMessage, transport: Outbound): Promise<void>;
}

/** A notice that was not accepted. The message says in a person's words what happened. */
export class DeliveryError extends Error {
  override readonly name = "DeliveryError";
  /** True when sending the same again cannot help. */
  readonly permanent: boolean;
  /** What the receiver answered; null when it did not. */
  readonly status: number | null;
  readonly retryAfterSecs: number | null;

  constructor(
    message: string,
    extras: { permanent?: boolean; status?: number | null; retryAfterSecs?: number | null; cause?: unknown } = {},
  ) {
    super(message, extras.cause === undefined ? undefined : { cause: extras.cause });
    this.permanent = extras.permanent ?? false;
    this.status = extras.status ?? null;
    this.retryAfterSecs = extras.retryAfterSecs ?? null;
  }
}

/** True when the receiver will answer the same to the same message: 4xx, except for timeout, too early and too many requests. */
export function isPermanent(status: number): boolean {
  return status >= 400 && status < 500 && status !== 408 && status !== 425 && status !== 429;
}

/** Sends one request and returns the receiver's reply when it is a 2xx; throws DeliveryError for anything else. */
export async function deliverRequest(transport: Outbound, request: OutboundRequest): Promise<OutboundReply> {
  let reply: OutboundReply;
  try {
    reply = await transport.send(request);
  } catch (cause) {
    throw new DeliveryError(cause instanceof OutboundError ? cause.message : "the message could not be sent", {
      cause,
    });
  }
  const { status, retryAfterSecs } = reply;
  if (status >= 200 && status < 300) return reply;
  throw new DeliveryError(answered(reply), { permanent: isPermanent(status), status, retryAfterSecs });
}

/** `the receiver answered 500: out of order`, with the start of what it said. */
function answered({ status, text }: OutboundReply): string {
  const said = text
    .toWellFormed()
    .replaceAll(/[\s\p{C}]+/gu, " ")
    .trim();
  const start = said.length > 200 ? `${said.slice(0, 200).toWellFormed()}…` : said;
  const hint = status >= 300 && status < 400 ? " (redirects are not followed)" : "";
  return `the receiver answered ${status}${hint}${start === "" ? "" : `: ${start}`}`;
}

/** Throws INVALID_CHANNEL_CONFIG. `field` is relative to the config. */
export function invalid(message: string, field: string): never {
  throw new AppError("INVALID_CHANNEL_CONFIG", message, { field });
}

/** {@link ChannelKind.secretsGoTo} of a kind whose address is a URL. Null for a text that is none, as a masked one. */
export function serverOf(url: string): SecretsDestination | null {
  return URL.canParse(url) ? { origin: new URL(url).origin, verified: true } : null;
}

/**
 * The URL of a config field, or INVALID_CHANNEL_CONFIG that says what is wrong: it must be https, or http where that is
 * `allowed`, and carry no credentials.
 */
export function webUrl(text: string, pointer: string, allowed: AllowedUrls): URL {
  const problem = urlProblem(text);
  if (problem !== null) invalid(problem, pointer);
  const url = new URL(text);
  if (url.protocol !== "https:" && !(url.protocol === "http:" && allowed.http))
    invalid("The URL must begin with https://, because what is sent there says what is down.", pointer);
  if (url.username !== "" || url.password !== "")
    invalid("Credentials do not belong in the URL. Send them as a header.", pointer);
  if (url.port === "0") invalid("Port 0 cannot be connected to. Use 1 to 65535.", pointer);
  return url;
}
