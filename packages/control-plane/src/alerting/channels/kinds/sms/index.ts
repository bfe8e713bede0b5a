import Type, { type Static } from "typebox";
import { checkAll } from "@statusmesh/shared/schema/faults";
import type { FieldForm } from "@statusmesh/shared/schema/form";
import type { Content } from "../../sending/content.ts";
import { messageText } from "../../sending/message.ts";
import { type ChannelKind, channelKind, ConfigText, holds, invalid, PhoneText } from "../kind.ts";
import { deliver } from "../deliver.ts";
import { plivo } from "./plivo.ts";
import { type Credential, e164, type Inbound, type InboundRequest, type SmsProvider, withPlus } from "./provider.ts";
import { fittingLines, needsUnicode, segmentsOf, simplified } from "./segments.ts";
import { defaultRegion, sinch } from "./sinch.ts";
import { telnyx } from "./telnyx.ts";
import { twilio } from "./twilio.ts";
import { vonage } from "./vonage.ts";
import { Shape } from "../../../../platform/http/wire.ts";

/** Registry of providers. A new one is one file here, one line in this registry, and its credentials in the schema. */
const smsProviders = { twilio, telnyx, vonage, plivo, sinch } as const satisfies Record<string, SmsProvider>;
type ProviderName = keyof typeof smsProviders;
const providerNames = Object.keys(smsProviders) as ProviderName[];

const credential = (
  description: string,
  example: string,
  label: string,
  providers: ProviderName[],
  more: { control?: "password" } = {},
) =>
  Type.Optional(
    ConfigText({
      maxLength: 200,
      description,
      examples: [example],
      form: { label, when: { field: "provider", is: providers }, ...more } satisfies FieldForm,
    }),
  );
const secret = { control: "password" } as const;

export const SmsConfig = Shape(
  "SmsConfig",
  "Sends one text message for each notification through your account at a provider",
  {
    type: Type.Literal("sms"),
    provider: Type.Enum(providerNames, {
      description: "Provider of text messages",
      examples: ["twilio"],
      form: {
        label: "Provider",
        options: Object.fromEntries(Object.entries(smsProviders).map(([name, { label }]) => [name, label])),
      },
    }),
    to: PhoneText,
    from: ConfigText({
      maxLength: 32,
      description: "Your number at the provider, or a sender id of at most 11 characters",
      examples: ["+15005550006"],
      form: { label: "Send from", placeholder: "+15005550006", hint: "Your number, short code or sender id." },
    }),
    account_sid: credential(
      "Twilio: AC and 32 hexadecimal digits",
      "AC00000000000000000000000000000000",
      "Account SID",
      ["twilio"],
    ),
    auth_id: credential("Plivo", "MAXXXXXXXXXXXXXXXXXX", "Auth id", ["plivo"]),
    auth_token: credential(
      "Twilio and Plivo; reads as ***",
      "0123456789abcdef0123456789abcdef",
      "Auth token",
      ["twilio", "plivo"],
      secret,
    ),
    // Secret at Telnyx only, where it is the credential; at Vonage it is the name of the account.
    api_key: credential("Telnyx (reads as ***) and Vonage", "a1b2c3d4", "API key", ["telnyx", "vonage"], {
      control: "password",
    }),
    api_secret: credential("Vonage; reads as ***", "0123456789abcdef", "API secret", ["vonage"], secret),
    messaging_profile_id: credential(
      "Telnyx, optional",
      "40000000-0000-4000-8000-000000000000",
      "Messaging profile id (optional)",
      ["telnyx"],
    ),
    service_plan_id: credential("Sinch", "0123456789abcdef0123456789abcdef", "Service plan id", ["sinch"]),
    api_token: credential("Sinch; reads as ***", "0123456789abcdef0123456789abcdef", "API token", ["sinch"], secret),
    region: Type.Optional(
      Type.Enum(["us", "eu", "au", "br", "ca"], {
        description: `Sinch: region of the account; ${defaultRegion} when left out, and replies show it`,
        examples: ["eu"],
        form: { label: "Region", when: { field: "provider", is: ["sinch"] } } satisfies FieldForm,
      }),
    ),
  },
);
export type SmsConfig = Static<typeof SmsConfig>;

/** Segments of a text message at most: each is charged. */
const maxSegments = 3;
const maxFacts = 4;

/** The message as a text of at most three segments. */
export function smsText(content: Content): string {
  const { title, facts, url, acknowledgeUrl } = messageText(content);
  if (content.kind === "reply") return simplified(title);
  return fittingLines(
    {
      title: simplified(title),
      // Several incidents are one line: a person opens the link for more.
      facts: (content.kind === "round" ? [] : facts.slice(0, maxFacts)).map(({ label, value }) => ({
        label: simplified(label),
        value: simplified(value),
      })),
      // One link: its page leads on to the incident.
      url: acknowledgeUrl === null ? url : `Acknowledge: ${acknowledgeUrl}`,
    },
    (text) => segmentsOf(text) <= maxSegments,
  );
}

const providerOf = ({ provider }: SmsConfig): SmsProvider => smsProviders[provider];

const isSenderId = (text: string): boolean => /^(?=.*[A-Za-z])[A-Za-z0-9 ._&-]{1,11}$/.test(text);

/** The provider's credentials: each in its format, none missing, none of another provider. */
function credentialsRule(config: SmsConfig): void {
  const { label, required, optional } = providerOf(config);
  const formats = { ...required, ...optional };
  const rules = Object.entries(formats).map(([field, format]) => () => {
    const value = config[field as Credential];
    if (value === undefined && field in required) invalid(`${label} needs ${field}.`, `/${field}`);
    if (value !== undefined && !format.pattern.test(value))
      invalid(`${label}: ${field} ${format.expects}.`, `/${field}`);
  });
  const foreign = Object.keys(config).find((field) => !own.has(field) && !(field in formats));
  checkAll(...rules, holds(foreign === undefined, `${label} has no ${foreign}.`, `/${foreign}`));
}

const declared = channelKind({
  type: "sms",
  label: "SMS",
  purpose: "Through your SMS provider",
  icon: "sms",
  phone: true,
  schema: SmsConfig,
  rules(config) {
    const { to, from } = config;
    checkAll(
      holds(e164.test(to), "Write the number in international format, like +4915112345678.", "/to"),
      holds(
        e164.test(from) || /^\d{3,15}$/.test(from) || isSenderId(from),
        "The sender is a number like +15005550006, a short code, or a name of at most 11 letters and digits.",
        "/from",
      ),
      () => credentialsRule(config),
    );
  },
  complete: (config): SmsConfig =>
    config.provider === "sinch" ? { ...config, region: config.region ?? defaultRegion } : config,
  address: (config) => ({ url: providerOf(config).origin(credentialsOf(config)), pointer: null }),
  endpoints: providerNames,
  endpoint: ({ provider }) => provider,
  async send(config, { content }, { http }) {
    const provider = providerOf(config);
    const text = smsText(content);
    const request = provider.request(credentialsOf(config), {
      to: config.to,
      from: config.from,
      text,
      unicode: needsUnicode(text),
    });
    await deliver(http, request, (reply) => provider.failure(reply));
  },
});

/** One text message for each notification. The provider decides which credential is secret, and where it goes. */
export const sms: ChannelKind<typeof SmsConfig> = {
  ...declared,
  mapSecrets(config, change) {
    const { secret: name } = providerOf(config);
    const value = config[name];
    return value === undefined ? { ...config } : { ...config, [name]: change(value, `/${name}`) };
  },
  secretsGoTo: (config) => ({ origin: providerOf(config).origin(credentialsOf(config)), verified: true }),
};

/** A message that a provider brings, with the proof that it is from the provider. */
export interface InboundSms {
  id: string;
  /** Numbers of the channels that it may answer. */
  from: string;
  to: string;
  text: string;
  /** Whether the provider has signed it for the account of the channel. */
  isFor(config: SmsConfig): boolean;
}

/** A request of a provider as a message; null where it is none, or the provider has no messages that are verified. */
export function readInbound(provider: string, request: InboundRequest): InboundSms | null {
  const known: Readonly<Record<string, { inbound?: Inbound }>> = smsProviders;
  const inbound = Object.hasOwn(known, provider) ? known[provider]?.inbound : undefined;
  const message = inbound?.read(request) ?? null;
  if (inbound === undefined || message === null || message.id === "") return null;
  return {
    ...message,
    isFor: (config) =>
      config.provider === provider &&
      config.to === message.from &&
      withPlus(config.from) === message.to &&
      inbound.isSigned(credentialsOf(config), request),
  };
}

const own = new Set(["type", "provider", "to", "from"]);

function credentialsOf({ type: _type, provider: _provider, to: _to, from: _from, ...credentials }: SmsConfig) {
  return credentials;
}
