import Type, { type Static } from "typebox";
import { Line } from "@statusmesh/shared/text";
import { ConfigInput } from "../channels/schema.ts";
import {
  Closed,
  described,
  Id,
  nullable,
  OneOf,
  PageOf,
  paging,
  Shape,
  Text,
  Timestamp,
} from "../../platform/http/wire.ts";

const name = Line({
  maxLength: 100,
  errorCode: "CHANNEL_NAME_INVALID",
  description: "Name of the channel; left out, that of the chat or of the kind",
  examples: ["On call"],
});
const state = OneOf(
  ["pending", "consumed", "expired"],
  "consumed: a channel was created; expired: also when revoked",
  "pending",
);
const dates = { created_at: Timestamp, expires_at: Timestamp };
const code = Text("The code; shown this once", "J3v…");

export const CodeCreate = Closed(
  { name: Type.Optional(name) },
  { title: "LinkCodeCreate", description: "A new link code", examples: [{ name: "On call" }] },
);
export type CodeCreate = Static<typeof CodeCreate>;

export const TelegramCode = Shape("TelegramLinkCode", "A code that connects one Telegram chat within 15 minutes", {
  id: Id,
  code,
  deep_link: Text("Opens a private chat with the bot", "https://t.me/statusmesh_bot?start=J3v"),
  group_deep_link: Text("Adds the bot to a group", "https://t.me/statusmesh_bot?startgroup=J3v"),
  ...dates,
});

export const WhatsappCode = Shape("WhatsappLinkCode", "A code that connects one phone within 15 minutes", {
  id: Id,
  code,
  deep_link: Text("Opens a chat with the number, with the code as the message", "https://wa.me/4915112345678?text=J3v"),
  ...dates,
});

const channelId = nullable(described(Id, "The channel that was created; null before"));

export const CodeState = Shape("LinkCodeState", "State of a link code", {
  id: Id,
  state,
  channel_id: channelId,
  ...dates,
});

export const DelegateCreate = Closed(
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
export const DelegationLink = Shape(
  "DelegationLink",
  "A link with which a person without an account creates one channel",
  delegation,
);
export type DelegationLink = Static<typeof DelegationLink>;
export const NewDelegationLink = Shape("NewDelegationLink", "A delegation link and its address", {
  ...delegation,
  url: Text("The link; shown this once", "https://status.example.org/c/J3v"),
});
export const DelegationPage = PageOf(DelegationLink);
export const DelegationQuery = Closed(paging(50, 1000));

export const ConnectBody = Shape("DelegatedChannel", "The channel that a delegation link creates", {
  name: Type.Optional(name),
  config: ConfigInput,
});
