import Type, { type Static } from "typebox";
import { IdText } from "@statusmesh/shared/text";
import { Id, nullable, PageOf, paging, Timestamp } from "../../platform/http/wire.ts";

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

/** Body of a visitor's request to subscribe, as JSON or as a form. */
export const SubscriptionRequest = Type.Object(
  {
    email: Type.Optional(
      Type.String({
        maxLength: 254,
        pattern: '^[^\\s@<>(),;:"\\\\\\[\\]]+@[^\\s@<>(),;:"\\\\\\[\\]]+\\.[^\\s@<>(),;:"\\\\\\[\\]]+$',
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

export const Accepted = Type.Object(
  {
    message: Type.String({
      description: "What happens next",
      examples: ["If the address is not subscribed yet, a confirmation link is sent to it."],
    }),
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
  token: Type.String({
    description: "Token of the link",
    examples: ["V2hhdCBhIHRva2VuIGxvb2tzIGxpa2UsIDQzIGNoYXJzYQ"],
  }),
});

export const SubscriberParams = Type.Object({ id: Id, subscriber_id: Id });

export const Subscriber = Type.Object(
  {
    id: Id,
    kind: Type.Enum([...kinds], { description: "Transport", examples: ["email"] }),
    address: Type.String({ description: "Masked address", examples: ["a…@example.org"] }),
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
