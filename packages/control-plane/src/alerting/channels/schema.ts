import Type, { type Static, type TSchema } from "typebox";
import { Line } from "@statusmesh/shared/text";
import {
  described,
  Flag,
  Id,
  ignored,
  Integer,
  ManagedBy,
  nullable,
  OneOf,
  PageOf,
  paging,
  Patch,
  Shape,
  Text,
  Timestamp,
  WriteSourceSchema,
} from "../../platform/http/wire.ts";
import { MinSeverity } from "../../access/orgs/schema.ts";
import { type ChannelConfig, channelKinds } from "./kinds/index.ts";
import type { ChannelKind } from "./kinds/kind.ts";
import { subscriptionFields } from "./kinds/web_push.ts";

export type { ChannelConfig } from "./kinds/index.ts";
export {
  type AlertEvent,
  type Content,
  type Group,
  type MailThread,
  type Notice,
  type Reason,
  reasons,
  type Round,
  type RoundLine,
} from "./sending/content.ts";
export { severities, type Severity } from "@statusmesh/shared/severity";

const tagged = {
  discriminator: "type",
  errorCode: "INVALID_CHANNEL_CONFIG",
  description: "How the channel is reached, tagged by type; secrets read as ***",
} as const;

/** Config of any kind, tagged by `type`. */
const Config = Type.Unsafe<ChannelConfig>(
  Type.Union(
    Object.values(channelKinds).map((kind): TSchema => kind.schema),
    tagged,
  ),
);

/** {@link Config} of the kinds that a request may create; the others are created by link codes. */
export const ConfigInput = Type.Unsafe<ChannelConfig>(
  Type.Union(
    Object.values(channelKinds).flatMap((kind: ChannelKind): TSchema[] => (kind.managed === true ? [] : [kind.schema])),
    tagged,
  ),
);

export const weekdays = ["mo", "tu", "we", "th", "fr", "sa", "su"] as const;

const clockTime = (description: string, example: string) =>
  Type.String({
    pattern: "^([01][0-9]|2[0-3]):[0-5][0-9]$",
    errorCode: "INVALID_ACTIVE_HOURS",
    expects: "Use a time like 08:30",
    description,
    examples: [example],
  });

const ActiveHours = Shape(
  "ActiveHours",
  "When a channel is notified. A ladder skips a level whose channels are outside their hours",
  {
    timezone: Type.String({
      maxLength: 64,
      minLength: 1,
      errorCode: "INVALID_ACTIVE_HOURS",
      description: "IANA time zone in which days and times are read, with its daylight saving time",
      examples: ["Europe/Berlin"],
    }),
    days: Type.Array(
      Type.Enum([...weekdays], {
        errorCode: "INVALID_ACTIVE_HOURS",
        description: "A day of the week",
        examples: ["mo"],
      }),
      {
        minItems: 1,
        maxItems: 7,
        uniqueItems: true,
        errorCode: "INVALID_ACTIVE_HOURS",
        description: "Days on which the hours begin",
        examples: [["mo", "tu", "we", "th", "fr"]],
      },
    ),
    from: clockTime("Begin, HH:MM", "08:00"),
    to: clockTime("End, HH:MM; earlier than from: on the next day", "18:00"),
    outside: Type.Enum(["hold", "drop"], {
      errorCode: "INVALID_ACTIVE_HOURS",
      description: "hold: notifications wait until the hours begin; drop: they are not sent, recoveries included",
      examples: ["hold"],
    }),
  },
);
export type ActiveHours = Static<typeof ActiveHours>;

const Route = Shape("Route", "Monitors that notify the channel by their tags, beside those that list it", {
  tags: Type.Array(
    Line({ maxLength: 50, errorCode: "INVALID_TAG", description: "1 to 50 characters", examples: ["production"] }),
    {
      minItems: 1,
      maxItems: 20,
      errorCode: "INVALID_TAG",
      description: "Tags of monitors",
      examples: [["production"]],
    },
  ),
  match: Type.Enum(["any", "all"], {
    default: "any",
    errorCode: "INVALID_TAG",
    description: "any: monitors with one of the tags; all: monitors with every one",
    examples: ["any"],
  }),
});
export type Route = Static<typeof Route>;

const fields = {
  name: Line({
    maxLength: 100,
    errorCode: "CHANNEL_NAME_INVALID",
    description: "1 to 100 characters, unique in the organisation",
    examples: ["On call"],
  }),
  enabled: Flag("A disabled channel receives nothing"),
  is_default: Flag("Whether a target that is created without `alerts` notifies the channel", false),
  active_hours: nullable(ActiveHours),
  route: nullable(Route),
  min_severity: described(
    MinSeverity,
    "The channel is notified of incidents of this severity and higher ones",
    "major",
  ),
  rounds: nullable(
    Flag(
      "True: notices that come within seconds leave as one message; false: each alone. null: as the kind does, which " +
        "is true for people and false for webhooks. PagerDuty and Opsgenie always get each alone",
      null,
    ),
  ),
};

export const ChannelCreate = Shape("ChannelCreate", "A new channel", {
  name: fields.name,
  config: ConfigInput,
  enabled: Type.Optional(Type.Boolean({ ...fields.enabled, default: true })),
  is_default: Type.Optional(Type.Boolean({ ...fields.is_default, default: false })),
  active_hours: Type.Optional(fields.active_hours),
  route: Type.Optional(fields.route),
  min_severity: Type.Optional(Type.Unsafe<MinSeverity>({ ...fields.min_severity, default: "minor" })),
  rounds: Type.Optional(fields.rounds),
  ...ignored,
});
export type ChannelCreate = Static<typeof ChannelCreate>;

export const ChannelPatch = Patch(
  "ChannelPatch",
  { name: "On call, EU", enabled: true },
  { ...fields, config: ConfigInput, ...ignored },
);
export type ChannelPatch = Static<typeof ChannelPatch>;

export const ChannelTest = Shape("ChannelTest", "A config to try", { config: ConfigInput });
export type ChannelTest = Static<typeof ChannelTest>;

export const ChannelTestReply = Shape("ChannelTestReply", "The receiver has accepted the test message", {
  ok: Type.Literal(true, { description: "Always: a failure is an error" }),
});

export const ResendReply = Shape("VerificationSent", "Outcome of the verification mail", {
  mail: OneOf(
    ["sent", "logged", "failed"],
    "sent: the mail server has it; logged: none is configured; failed: it was refused",
    "sent",
  ),
});

export const Channel = Shape("Channel", "A notification channel; secrets are masked as ***", {
  id: Id,
  ...fields,
  config: Config,
  disabled_reason: nullable(Text("Why StatusMesh has disabled the channel; null when it has not", null)),
  last_delivery: nullable(
    Shape("LastDelivery", "The last attempt; null before the first", {
      at: Timestamp,
      state: OneOf(
        ["pending", "delivered", "dead"],
        "State of the delivery after the attempt; pending: another attempt follows",
        "delivered",
      ),
      error: nullable(Text("Why the attempt failed; null when accepted", null)),
    }),
  ),
  failing_since: nullable(
    described(
      Timestamp,
      "Time of the first failed attempt since the last accepted delivery or test; null while they succeed",
      null,
    ),
  ),
  targets_count: Integer("Number of targets that notify the channel, those by its route included", 12),
  routed_count: Integer("Number of targets that notify it by its route alone", 8),
  tested_at: nullable(
    described(Timestamp, "When the receiver last accepted a test message of this config; null: never", null),
  ),
  verified: nullable(Flag("Whether the receiver has confirmed; null for kinds that need no confirmation", true)),
  person: nullable(
    Shape("ChannelPerson", "The person whose device it is; null for a channel of the organisation", {
      user_id: Id,
      email: Text("Address of the person", "olga@example.org"),
    }),
  ),
  managed_by: ManagedBy,
  write_source: WriteSourceSchema,
  created_at: Timestamp,
  updated_at: Timestamp,
});
export type Channel = Static<typeof Channel>;

export const PushKey = Shape("PushKey", "The key that a browser subscribes with", {
  public_key: Text(
    "applicationServerKey: a point of P-256 in base64url (RFC 8292)",
    "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8",
  ),
});

const { endpoint, p256dh, auth } = subscriptionFields;

export const DeviceCreate = Shape("DeviceCreate", "A browser that notifies its person", {
  name: described(fields.name, "1 to 100 characters: how you call the device", "Pixel 9"),
  subscription: Shape("PushSubscription", "What PushManager.subscribe() gives, as JSON", {
    endpoint,
    expirationTime: Type.Optional(
      Type.Union([Type.Integer({ minimum: 0, maximum: 8_640_000_000_000_000 }), Type.Null()], {
        description: "When the subscription ends, Unix ms; null for never",
        examples: [null],
      }),
    ),
    keys: Shape("PushSubscriptionKeys", "Keys of the subscription", { p256dh, auth }),
  }),
  private: Type.Optional(
    Type.Boolean({ ...Flag("True: messages name no monitor; details follow after opening", false), default: false }),
  ),
});
export type DeviceCreate = Static<typeof DeviceCreate>;

export const ChannelApplied = Shape("ChannelApplied", "How many targets were changed", {
  added: Integer("Targets that notify the channel from now on", 12),
});

export const ChannelPage = PageOf(Channel);

export const ChannelListQuery = Type.Object(paging(50, 1000));
export type ChannelListQuery = Static<typeof ChannelListQuery>;
