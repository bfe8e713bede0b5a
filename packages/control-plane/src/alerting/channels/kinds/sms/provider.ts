import type { OutboundReply, OutboundRequest } from "../../../../platform/outbound/client.ts";
import type { VendorFailure } from "../deliver.ts";

/** Credential fields of all providers. */
export type Credential =
  | "account_sid"
  | "auth_token"
  | "api_key"
  | "messaging_profile_id"
  | "api_secret"
  | "auth_id"
  | "service_plan_id"
  | "api_token"
  | "region";

export type Credentials = Readonly<Partial<Record<Credential, string>>>;

export interface SmsText {
  to: string;
  from: string;
  text: string;
  /** True when the text has characters outside the GSM 7-bit alphabet. */
  unicode: boolean;
}

/** A provider of text messages, complete in one file. */
export interface SmsProvider {
  readonly label: string;
  /** Required fields and their formats, in words. */
  readonly required: Readonly<Partial<Record<Credential, Format>>>;
  readonly optional?: Readonly<Partial<Record<Credential, Format>>>;
  /** The only secret among them. */
  readonly secret: Credential;
  /** `https://api.example.org`, without a slash at the end. */
  origin(credentials: Credentials): string;
  request(credentials: Credentials, sms: SmsText): OutboundRequest;
  /** Messages that people answer with; left out where the credentials of a channel do not verify them. */
  readonly inbound?: Inbound;
  /** The error in a reply of any status; null for an accepted message. */
  failure(reply: OutboundReply): VendorFailure | null;
}

/** A request of a provider with a message to a number of the organisation. */
export interface InboundRequest {
  /** As the provider has it. */
  url: string;
  header(name: string): string;
  form: URLSearchParams;
}

export interface Inbound {
  /** The message; `id` is the same when the provider repeats it. Null for anything else. Numbers begin with +. */
  read(request: InboundRequest): { id: string; from: string; to: string; text: string } | null;
  isSigned(credentials: Credentials, request: InboundRequest): boolean;
}

/** The number with a plus. */
export const withPlus = (number: string): string => (/^\d{7,15}$/.test(number) ? `+${number}` : number);

export interface Format {
  pattern: RegExp;
  expects: string;
}

/** A phone number in international format (ITU-T E.164: at most 15 digits). */
export const e164 = /^\+[1-9]\d{6,14}$/;

/** A key or token without white space. */
export const opaque: Format = { pattern: /^[\x21-\x7e]{1,200}$/, expects: "has 1 to 200 characters without spaces" };
export const alphanumeric: Format = { pattern: /^[A-Za-z0-9]{1,100}$/, expects: "has letters and digits only" };

/** Authorization header of HTTP Basic (RFC 7617). */
export const basic = (user: string, password: string): string =>
  `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;

/** Digits of an international number: some vendors take no plus. A sender id does not change. */
export const withoutPlus = (number: string): string => number.replace(/^\+/, "");
