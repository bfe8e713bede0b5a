import Type, { type Static } from "typebox";
import { IdText, Line } from "@statusmesh/shared/text";
import { Id, Integer, nullable, PageOf, paging, Text, Timestamp } from "../../platform/http/wire.ts";

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
const emailPattern = '^[^\\s@<>(),;:"\\\\\\[\\]]+@[^\\s@<>(),;:"\\\\\\[\\]]+\\.[^\\s@<>(),;:"\\\\\\[\\]]+$';
export const isEmail = (text: string): boolean => text.length <= longestEmail && new RegExp(emailPattern).test(text);

/** Body of a visitor's request to subscribe, as JSON or as a form. */
export const SubscriptionRequest = Type.Object(
  {
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
  },
  { additionalProperties: false },
);
export type SubscriptionRequest = Static<typeof SubscriptionRequest>;

const mostImported = 10_000;

export const SubscriberImport = Type.Object(
  {
    items: Type.Array(
      Type.Object(
        {
          email: Type.Optional(Type.String({ maxLength: 2048, description: "Address", examples: ["ann@example.org"] })),
          webhook_url: Type.Optional(
            Type.String({ maxLength: 2048, description: "In place of an address: https URL" }),
          ),
          component_ids: Type.Optional(componentIds),
        },
        { additionalProperties: false },
      ),
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
  },
  { additionalProperties: false, title: "SubscriberImport", description: "Subscribers of another product" },
);
export type SubscriberImport = Static<typeof SubscriberImport>;

export const SubscribersImported = Type.Object(
  {
    imported: Integer("Subscribers that were added", 2),
    skipped: Type.Array(
      Type.Object(
        {
          index: Integer("Place in items", 1),
          reason: Text("Why it was not added", "has unsubscribed from this page"),
        },
        { additionalProperties: false },
      ),
      { description: "The others, in the order sent" },
    ),
  },
  { additionalProperties: false, title: "SubscribersImported", description: "Outcome for each subscriber" },
);
export type SubscribersImported = Static<typeof SubscribersImported>;

export const Accepted = Type.Object(
  {
    message: Text("What happens next", "If the address is not subscribed yet, a confirmation link is sent to it."),
  },
  { additionalProperties: false, title: "SubscriptionAccepted", description: "The same for known and new addresses" },
);

export const SubscriptionChange = Type.Object(
  {
    confirm: Type.Optional(Type.Boolean({ description: "True confirms the address" })),
    component_ids: Type.Optional(Type.Union([componentIds, Type.Null()])),
  },
  { additionalProperties: false },
);
export type SubscriptionChange = Static<typeof SubscriptionChange>;

export const TokenParam = Type.Object({
  token: Text("Token of the link", "V2hhdCBhIHRva2VuIGxvb2tzIGxpa2UsIDQzIGNoYXJzYQ"),
});

export const SubscriberParams = Type.Object({ id: Id, subscriber_id: Id });

export const Subscriber = Type.Object(
  {
    id: Id,
    kind: Type.Enum([...kinds], { description: "Transport", examples: ["email"] }),
    address: Text("Masked address", "a…@example.org"),
    state: Type.Enum(["pending", "active"], { description: "pending: not confirmed", examples: ["active"] }),
    component_ids: nullable(
      Type.Array(Type.String({ format: "uuid" }), { description: "Components; null: all", examples: [[]] }),
    ),
    created_at: Timestamp,
    confirmed_at: nullable(Timestamp),
  },
  { additionalProperties: false, title: "Subscriber", description: "A subscriber of a status page" },
);
export type Subscriber = Static<typeof Subscriber>;

export const SubscriberPage = PageOf(Subscriber);
export const SubscriberQuery = Type.Object({ ...paging(50, 500) });
export type SubscriberQuery = Static<typeof SubscriberQuery>;
