import Type, { type Static } from "typebox";
import { Line } from "@statusmesh/shared/text";
import { ConfigInput } from "../channels/schema.ts";
import { described, Id, nullable, PageOf, paging, Text, Timestamp } from "../../platform/http/wire.ts";

const name = Line({
  maxLength: 100,
  errorCode: "CHANNEL_NAME_INVALID",
  description: "Name of the channel; left out, that of the chat or of the kind",
  examples: ["On call"],
});
const strict = { additionalProperties: false } as const;
const state = Type.Enum(["pending", "consumed", "expired"], {
  description: "consumed: a channel was created; expired: also when revoked",
  examples: ["pending"],
});
const dates = { created_at: Timestamp, expires_at: Timestamp };
const code = Text("The code; shown this once", "J3v…");

export const CodeCreate = Type.Object(
  { name: Type.Optional(name) },
  { ...strict, title: "LinkCodeCreate", description: "A new link code", examples: [{ name: "On call" }] },
);
export type CodeCreate = Static<typeof CodeCreate>;

export const TelegramCode = Type.Object(
  {
    id: Id,
    code,
    deep_link: Text("Opens a private chat with the bot", "https://t.me/statusmesh_bot?start=J3v"),
    group_deep_link: Text("Adds the bot to a group", "https://t.me/statusmesh_bot?startgroup=J3v"),
    ...dates,
  },
  { ...strict, title: "TelegramLinkCode", description: "A code that connects one Telegram chat within 15 minutes" },
);

export const WhatsappCode = Type.Object(
  {
    id: Id,
    code,
    deep_link: Text(
      "Opens a chat with the number, with the code as the message",
      "https://wa.me/4915112345678?text=J3v",
    ),
    ...dates,
  },
  { ...strict, title: "WhatsappLinkCode", description: "A code that connects one phone within 15 minutes" },
);

const channelId = nullable(described(Id, "The channel that was created; null before"));

export const CodeState = Type.Object(
  { id: Id, state, channel_id: channelId, ...dates },
  { ...strict, title: "LinkCodeState", description: "State of a link code" },
);

export const DelegateCreate = Type.Object(
  {
    name: Type.Optional(name),
    kind: Type.Optional(
      Type.String({
        maxLength: 40,
        errorCode: "DELEGATE_KIND_INVALID",
        description: "The only kind that may be connected; left out, every kind that can",
        examples: ["slack"],
      }),
    ),
  },
  {
    ...strict,
    title: "DelegationLinkCreate",
    description: "A new delegation link",
    examples: [{ name: "Ops of Acme", kind: "slack" }],
  },
);
export type DelegateCreate = Static<typeof DelegateCreate>;

const delegation = {
  id: Id,
  name: nullable(Text("Name of the channel to be; null: the visitor chooses", null)),
  kind: nullable(Text("The only kind that may be connected; null: any", "slack")),
  state,
  channel_id: channelId,
  ...dates,
};
export const DelegationLink = Type.Object(delegation, {
  ...strict,
  title: "DelegationLink",
  description: "A link with which a person without an account creates one channel",
});
export type DelegationLink = Static<typeof DelegationLink>;
export const NewDelegationLink = Type.Object(
  {
    ...delegation,
    url: Text("The link; shown this once", "https://status.example.org/c/J3v"),
  },
  { ...strict, title: "NewDelegationLink", description: "A delegation link and its address" },
);
export const DelegationPage = PageOf(DelegationLink);
export const DelegationQuery = Type.Object(paging(50, 1000), strict);

export const ConnectBody = Type.Object(
  { name: Type.Optional(name), config: ConfigInput },
  { ...strict, title: "DelegatedChannel", description: "The channel that a delegation link creates" },
);
