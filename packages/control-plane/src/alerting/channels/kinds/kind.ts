import Type, { type Static, type TSchema, type TSchemaOptions } from "typebox";
import { AppError } from "@statusmesh/shared/errors";
import type { SecretsDestination } from "@statusmesh/shared/secrets";
import { urlProblem } from "@statusmesh/shared/url";
import type { Config } from "../../../config/config.ts";
import type { SubscriptionKeys } from "../../../platform/crypto/push-message.ts";
import type { Mail } from "../../../platform/email/mail.ts";
import type { Icon } from "../../../platform/html/icons.ts";
import type { Outbound } from "../../../platform/outbound/client.ts";
import type { Content, MailThread } from "../sending/content.ts";
import { mapSecretsOf, shownEnds } from "./secrets.ts";

declare module "typebox" {
  interface TSchemaOptions {
    /** True for a text, or the values of a record or list, that is sealed at rest and reads as ***. */
    secret?: boolean;
    /** Of a secret that is masked: this many of its last characters are shown behind the mask. */
    shows?: number;
  }
}

type TextOptions = TSchemaOptions & { maxLength: number };

/** A text of a config that is not empty. */
export const ConfigText = (options: TextOptions) => Type.String({ minLength: 1, ...options });

/** The number that messages go to. */
export const PhoneText = ConfigText({
  maxLength: 32,
  description: "Receiving number in international format",
  examples: ["+4915112345678"],
  form: { label: "Send to", placeholder: "+4915112345678", hint: "International format." },
});

/** {@link ConfigText} that is sealed at rest and reads as ***. */
export const SecretText = (options: TextOptions) => ConfigText({ ...options, secret: true });

/** The URL of a webhook of a vendor, which holds a secret. `hint`: where people find it. */
export const WebhookUrl = (options: { description: string; examples: string[]; placeholder: string; hint: string }) => {
  const { description, examples, ...form } = options;
  return SecretText({
    maxLength: 2048,
    description,
    examples,
    form: { label: "Webhook URL", control: "url", ...form },
  });
};

export interface ChannelMessage {
  /** The same at every attempt, so that receivers can deduplicate. */
  deliveryId: string;
  /** The same at every attempt that is about the same notices; left out, the id of the delivery. */
  messageId?: string;
  content: Content;
  /** Of a notification by mail. */
  mail?: MailThread;
  /** Unix ms of this attempt. */
  sentAt: number;
}

/** Dependencies of `send`. */
export interface Transports {
  http: Outbound;
  /** Returns when the mail server has accepted the mail; throws {@link DeliveryError} otherwise. */
  mail(mail: Mail): Promise<void>;
  /** Returns when the push service has accepted the message; throws {@link DeliveryError} otherwise. */
  push(message: PushMessage): Promise<void>;
  /** The bot and the number of the installation, for managed kinds. */
  readonly central: CentralAccounts;
}

/** A message for one browser, before it is encrypted and signed. */
export interface PushMessage {
  endpoint: string;
  keys: SubscriptionKeys;
  /** Public key of this installation that the subscription was made with. */
  serverKey: string;
  ttlSecs: number;
  /** RFC 8030 section 5.3. */
  urgency: "high" | "normal";
  topic: string;
  content: string;
}

/** Accounts of the installation; empty texts where it has none. */
export type CentralAccounts = Pick<Config["channels"], "slack" | "telegram" | "whatsapp">;

/** Addresses that the installation allows. */
export interface AllowedUrls {
  /** True allows http, for receivers in a private network. */
  http: boolean;
}

/** A kind of notification channel, complete in one file. */
export interface ChannelKind<S extends TSchema = TSchema> {
  readonly type: string;
  /** Display name: "Webhook". */
  readonly label: string;
  /** What it does, in a few words, and the icon of the console beside them. */
  readonly purpose: string;
  readonly icon: Icon;
  /**
   * True for a kind that a person without an account connects by a delegation link: with an own address, or
   * a chat where the installation has a bot or a number. False for kinds with credentials of the organisation.
   */
  delegable(central: CentralAccounts): boolean;
  /**
   * The wire shape of the config. Fields with a `default` may be omitted. {@link rules} holds the format of secrets,
   * so that a mask is reported as a mask and not as a malformed secret.
   */
  readonly schema: S;
  /** Rules beyond the schema. Throws INVALID_CHANNEL_CONFIG with a pointer relative to the config (`/url`). */
  rules(config: Static<S>, allowed: AllowedUrls): void;
  /** The config as it is stored: optional fields filled in, and texts in their canonical form. */
  complete(config: Static<S>): Static<S>;
  /** Returns a copy with `change` applied to every secret. `pointer` names the field. */
  mapSecrets(config: Static<S>, change: (secret: string, pointer: string) => string): Static<S>;
  /** Last characters of secrets that replies show, by field. */
  readonly shownEnds: ReadonlyMap<string, number>;
  /**
   * The server that gets the secrets; null for a kind with a fixed server, or while the address cannot be parsed. An
   * edit that changes it must send every stored secret again.
   */
  secretsGoTo(config: Static<S>): SecretsDestination | null;
  /** URLs chosen by the organisation, for the address guard. Called after {@link rules}. */
  urls(config: Static<S>): { url: string; pointer: string }[];
  /**
   * Whether several notices leave as one message: `usual` unless the channel says otherwise, `possible` where the
   * channel says so, `never` for kinds whose alerts have a state of their own.
   */
  readonly rounds: "usual" | "possible" | "never";
  /** True for a kind that wakes a person or is charged by message: it gets nothing that is over by then. */
  readonly phone?: true;
  /**
   * How incidents of one cause share a key: `alert` where the receiver keeps an alert for it, which is triggered,
   * updated, acknowledged and resolved once; `group` where each notice names its group. Left out: not at all.
   */
  readonly shares?: "alert" | "group";
  /** True where changes of a target that flaps are sent as well. */
  readonly everyChange: boolean;
  /**
   * The server that messages go to, such as `hooks.slack.com`: at most a few sends to it run at once, so that a hanging
   * one delays no other.
   */
  host(config: Static<S>): string;
  /**
   * The address whose owner must confirm before anything is sent to it; left out by kinds that need no confirmation.
   */
  confirms?(config: Static<S>): string;
  /** True for a kind whose channels are created by link codes, or by the browser that they notify, only. */
  readonly managed?: true;
  /** Keys of `channels.endpoints` for this kind. */
  readonly endpoints: readonly string[];
  /** The one of {@link endpoints} that replaces the server of this config. */
  endpoint(config: Static<S>): string;
  /** Sends the message. Returns when the receiver has accepted it; throws {@link DeliveryError} otherwise. */
  send(config: Static<S>, message: ChannelMessage, transports: Transports): Promise<void>;
}

/** Declaration of a kind; {@link channelKind} derives the rest of {@link ChannelKind} from the schema. */
export interface KindDeclaration<S extends TSchema> extends Pick<
  ChannelKind<S>,
  "type" | "label" | "purpose" | "icon" | "phone" | "shares" | "schema" | "confirms" | "managed" | "send"
> {
  /** Left out by a kind that no delegation link connects. */
  delegable?: ChannelKind<S>["delegable"];
  /** Left out by kinds for people: `usual`. */
  rounds?: ChannelKind<S>["rounds"];
  everyChange?: boolean;
  /** See {@link ChannelKind.rules}; left out where the schema has every rule. */
  rules?: ChannelKind<S>["rules"];
  /** Left out where a config is stored as it is sent. */
  complete?: ChannelKind<S>["complete"];
  /** Left out by a kind with one vendor: the key is its type. */
  endpoints?: readonly string[];
  endpoint?: ChannelKind<S>["endpoint"];
  /**
   * URL of the server that gets the messages. `pointer` names the field that chooses it, and is null for a server that
   * the kind fixes: only a chosen one is checked by the address guard, and a change of it needs
   * every secret again.
   */
  address(config: Static<S>): { url: string; pointer: string | null };
}

/** Completes a declaration. Secrets are the fields whose schema has `secret: true`. */
export function channelKind<S extends TSchema>({
  address,
  rules = () => undefined,
  complete = (config) => config,
  ...rest
}: KindDeclaration<S>): ChannelKind<S> {
  const chosen = (config: Static<S>) => {
    const { url, pointer } = address(config);
    return pointer === null ? [] : [{ url, pointer }];
  };
  return {
    delegable: () => false,
    rounds: "usual",
    everyChange: false,
    endpoints: [rest.type],
    endpoint: () => rest.type,
    ...rest,
    rules,
    complete,
    mapSecrets: mapSecretsOf<Static<S>>(rest.schema),
    shownEnds: shownEnds(rest.schema),
    secretsGoTo: (config) => chosen(config).map(({ url }) => serverOf(url))[0] ?? null,
    urls: chosen,
    host: (config) => new URL(address(config).url).host,
  };
}

/** A message that the receiver did not accept. People read the error text. */
export class DeliveryError extends Error {
  override readonly name = "DeliveryError";
  /** True when a retry cannot help. */
  readonly permanent: boolean;
  /** HTTP status of the reply; null without one. */
  readonly status: number | null;
  readonly retryAfterSecs: number | null;
  /** Why the channel is to be disabled: its receiver has ended for good. Null: it stays enabled. */
  readonly disables: string | null;

  constructor(
    message: string,
    extras: {
      permanent?: boolean;
      status?: number | null;
      retryAfterSecs?: number | null;
      disables?: string | null;
      cause?: unknown;
    } = {},
  ) {
    super(message, extras.cause === undefined ? undefined : { cause: extras.cause });
    this.permanent = extras.permanent ?? false;
    this.status = extras.status ?? null;
    this.retryAfterSecs = extras.retryAfterSecs ?? null;
    this.disables = extras.disables ?? null;
  }
}

/** Throws INVALID_CHANNEL_CONFIG. `field` is relative to the config. */
export function invalid(message: string, field: string): never {
  throw new AppError("INVALID_CHANNEL_CONFIG", message, { field });
}

/** A rule for `checkAll`: {@link invalid} unless `condition` is true. */
export const holds = (condition: boolean, message: string, field: string) => (): void => {
  if (!condition) invalid(message, field);
};

/** {@link ChannelKind.secretsGoTo} for a URL. Null for an invalid URL, such as a masked one. */
function serverOf(url: string): SecretsDestination | null {
  return URL.canParse(url) ? { origin: new URL(url).origin, verified: true } : null;
}

/**
 * The URL of a config field; throws INVALID_CHANNEL_CONFIG unless it is https (or http where `allowed`) and without
 * credentials.
 */
export function webUrl(text: string, pointer: string, allowed: AllowedUrls): URL {
  const problem = urlProblem(text);
  if (problem !== null) invalid(problem, pointer);
  const url = new URL(text);
  if (url.protocol !== "https:" && !(url.protocol === "http:" && allowed.http))
    invalid("The URL must begin with https://, because notifications reveal outages.", pointer);
  if (url.username !== "" || url.password !== "")
    invalid("Credentials do not belong in the URL. Send them as a header.", pointer);
  if (url.port === "0") invalid("Port 0 cannot be connected to. Use 1 to 65535.", pointer);
  return url;
}

/**
 * {@link webUrl} of a server that people run themselves, without a query: http is for those in a private network.
 */
export function ownServer(text: string, pointer: string, allowed: AllowedUrls): URL {
  if (!allowed.http && text.startsWith("http://"))
    invalid(
      "The URL must begin with https://, because notifications reveal outages. http is for servers in a private " +
        "network, where security.allow_private_targets and channels.allow_http are set.",
      pointer,
    );
  const url = webUrl(text, pointer, allowed);
  if (url.search !== "" || url.hash !== "") invalid("The URL of the server has no query and no #.", pointer);
  return url;
}

/** The URL of a path below the address of a server, which may have a base path. */
export const below = (server: string, path: string): string => {
  const { origin, pathname } = new URL(server);
  return `${origin}${pathname.replace(/\/+$/, "")}${path}`;
};

/** A rule for `checkAll`: a header can carry the text as a credential. `name` begins the sentence of the refusal. */
export const headerToken = (text: string, name: string, field: string) =>
  holds(/^[\x21-\x7e]+$/.test(text), `${name} has printable ASCII characters only, without blanks.`, field);

/**
 * {@link webUrl} on a host of the vendor: one of `hosts`, or below one that begins with a dot. `wanted` is the sentence
 * that says which URL is right.
 */
export function vendorUrl(text: string, pointer: string, hosts: readonly string[], wanted: string): URL {
  const url = webUrl(text, pointer, { http: false });
  const known = hosts.some((host) => (host.startsWith(".") ? url.hostname.endsWith(host) : url.hostname === host));
  if (!known || url.port !== "") invalid(wanted, pointer);
  return url;
}
