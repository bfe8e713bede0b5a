import Type, { type Static } from "typebox";
import { Line } from "@statusmesh/shared/text";
import { described, Id, nullable, PageOf, paging, Shape, Text, Timestamp } from "../../platform/http/wire.ts";

const fields = {
  label: nullable(
    Line({
      maxLength: 80,
      errorCode: "SHARE_LABEL_INVALID",
      description: "Name of the link, up to 80 characters, for its owners",
      examples: ["For Acme"],
    }),
  ),
  expires_at: nullable(described(Timestamp, "The link ends then; null: never", null)),
};

export const ShareCreate = Shape("ShareCreate", "A new share link", {
  label: Type.Optional(fields.label),
  expires_at: Type.Optional(fields.expires_at),
});
export type ShareCreate = Static<typeof ShareCreate>;

export const Share = Shape("Share", "A link that shows one monitor, read-only and without credentials", {
  id: Id,
  target_id: Id,
  ...fields,
  token: nullable(
    Text(
      "Secret part of the link; null when it is sealed under a key that is not configured",
      "Kp3vX9dQ2mZ7rT1sB5nY8wC4hJ6fL0gAKp3vX9dQ2mZ",
    ),
  ),
  url: nullable(
    Text(
      "The link; null without the token",
      "https://status.example.org/m/Kp3vX9dQ2mZ7rT1sB5nY8wC4hJ6fL0gAKp3vX9dQ2mZ",
    ),
  ),
  created_at: Timestamp,
  created_by: nullable(Type.String({ format: "uuid", description: "Id of the user; null when the user is gone" })),
  last_viewed_at: nullable(described(Timestamp, "To the minute; null when never")),
});
export type Share = Static<typeof Share>;

export const SharePage = PageOf(Share);

export const ShareListQuery = Type.Object(paging(50, 1000));
export type ShareListQuery = Static<typeof ShareListQuery>;
