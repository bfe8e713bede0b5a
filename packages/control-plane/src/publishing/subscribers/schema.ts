import Type, { type Static } from "typebox";
import { IdText, Line } from "@statusmesh/shared/text";
import {
  Closed,
  Flag,
  Id,
  Integer,
  nullable,
  OneOf,
  PageOf,
  paging,
  Shape,
  Text,
  Timestamp,
} from "../../platform/http/wire.ts";
import { languages } from "../languages/schema.ts";

export const kinds = ["email", "webhook"] as const;
export type Kind = (typeof kinds)[number];

const componentIds = Type.Array(
  IdText({ format: "uuid", errorCode: "INVALID_COMPONENT_ID", description: "Id of a component" }),
  {
    maxItems: 1000,
    minItems: 1,
    description: "Components of the page; omitted: all of them, also those that are added later",
  },
);

const longestEmail = 254;
// Labels exclude the dot: otherwise a search would try every dot of the domain as the last one.
const inAddress = '[^\\s@<>(),;:"\\\\\\[\\]';
const emailPattern = `^${inAddress}]+@(?:${inAddress}.]+\\.)+${inAddress}.]+$`;
export const isEmail = (text: string): boolean => text.length <= longestEmail && new RegExp(emailPattern).test(text);

/** Body of a visitor's request to subscribe, as JSON or as a form. */
export const SubscriptionRequest = Closed({
  email: Type.Optional(
    Type.String({
      maxLength: longestEmail,
      pattern: emailPattern,
      expects: "Enter an email address, like name@example.org",
      description: "Address that is sent a confirmation link",
    }),
  ),
  webhook_url: Type.Optional(
    Type.String({ maxLength: 2048, minLength: 1, description: "https URL that answers a challenge" }),
  ),
  component_ids: Type.Optional(componentIds),
  time_zone: Type.Optional(
    Type.String({ maxLength: 64, description: "IANA zone of the times in mails; omitted: that of the page" }),
  ),
  language: Type.Optional(OneOf(languages, "Language of the texts in mails; omitted: that of the page", "en")),
});
export type SubscriptionRequest = Static<typeof SubscriptionRequest>;

const mostImported = 10_000;

export const SubscriberImport = Shape("SubscriberImport", "Subscribers of another product", {
  items: Type.Array(
    Closed({
      email: Type.Optional(Type.String({ maxLength: 2048, description: "Address", examples: ["ann@example.org"] })),
      webhook_url: Type.Optional(Type.String({ maxLength: 2048, description: "In place of an address: https URL" })),
      component_ids: Type.Optional(componentIds),
    }),
    {
      minItems: 1,
      maxItems: mostImported,
      sizeCodes: ["BULK_EMPTY", "BULK_TOO_LARGE"],
      description: "Subscribers of the page where they are now",
    },
  ),
  confirmed: Type.Literal(true, { description: "You state that each of them has confirmed the subscription there" }),
  source: Line({
    maxLength: 80,
    description: "Where they come from: the first message to each says so",
    examples: ["our page at Statuspage"],
  }),
});
export type SubscriberImport = Static<typeof SubscriberImport>;

export const SubscribersImported = Shape("SubscribersImported", "Outcome for each subscriber", {
  imported: Integer("Subscribers that were added", 2),
  skipped: Type.Array(
    Closed({
      index: Integer("Place in items", 1),
      reason: Text("Why it was not added", "has unsubscribed from this page"),
    }),
    { description: "The others, in the order sent" },
  ),
});
export type SubscribersImported = Static<typeof SubscribersImported>;

export const Accepted = Shape("SubscriptionAccepted", "The same for known and new addresses", {
  message: Text("What happens next", "If the address is not subscribed yet, a confirmation link is sent to it."),
});

export const SubscriptionChange = Closed({
  confirm: Type.Optional(Flag("True confirms the address")),
  component_ids: Type.Optional(Type.Union([componentIds, Type.Null()])),
});
export type SubscriptionChange = Static<typeof SubscriptionChange>;

export const TokenParam = Type.Object({
  token: Text("Token of the link", "V2hhdCBhIHRva2VuIGxvb2tzIGxpa2UsIDQzIGNoYXJzYQ"),
});

export const SubscriberParams = Type.Object({ id: Id, subscriber_id: Id });

export const Subscriber = Shape("Subscriber", "A subscriber of a status page", {
  id: Id,
  kind: OneOf(kinds, "Transport", "email"),
  address: Text("Masked address", "a…@example.org"),
  state: OneOf(["pending", "active"], "pending: not confirmed", "active"),
  component_ids: nullable(
    Type.Array(Type.String({ format: "uuid" }), { description: "Components; null: all", examples: [[]] }),
  ),
  created_at: Timestamp,
  confirmed_at: nullable(Timestamp),
});
export type Subscriber = Static<typeof Subscriber>;

export const SubscriberPage = PageOf(Subscriber);
export const SubscriberQuery = Type.Object({ ...paging(50, 500) });
export type SubscriberQuery = Static<typeof SubscriberQuery>;
