import Type, { type Static } from "typebox";
import { Line } from "@statusmesh/shared/text";
import { described, Id, nullable, OneOf, PageOf, paging, Shape, Text, Timestamp } from "../../../platform/http/wire.ts";

const scopes = ["data", "badges"] as const;
export type ReaderScope = (typeof scopes)[number];

const fields = {
  name: Line({ maxLength: 80, emptyCode: "EMPTY_NAME", description: "1 to 80 characters", examples: ["Wall display"] }),
  scope: OneOf(scopes, "data: JSON, feeds, llms.txt, badges and the logo; badges: badges and the logo alone", "data"),
};

export const ReaderTokenCreate = Shape("ReaderTokenCreate", "A new reader token", {
  name: fields.name,
  scope: Type.Optional(Type.Unsafe<ReaderScope>({ ...fields.scope, default: "data" })),
});
export type ReaderTokenCreate = Static<typeof ReaderTokenCreate>;

const shared = {
  id: Id,
  ...fields,
  hint: Text("The last characters of the token", "x7Qd"),
  created_at: Timestamp,
  last_used_at: nullable(described(Timestamp, "To the minute; null when never")),
};

export const ReaderToken = Shape("ReaderToken", "A token of a program that reads a private page", shared);
export type ReaderToken = Static<typeof ReaderToken>;

export const NewReaderToken = Shape("NewReaderToken", "A new reader token, with its secret", {
  ...shared,
  token: Text("The token. This reply alone has it", "sm_read_Kp3vX9dQ2mZ7rT1sB5nY8wC4hJ6fL0gAKp3vX9dQx7Qd"),
});
export type NewReaderToken = Static<typeof NewReaderToken>;

export const ReaderTokenPage = PageOf(ReaderToken);
export const ReaderTokenQuery = Type.Object(paging(50, 1000));
