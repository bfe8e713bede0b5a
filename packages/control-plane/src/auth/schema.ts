import Type, { type Static } from "typebox";
import { Id, nullable, PageOf, Timestamp } from "../http/wire.ts";

export const SessionCreate = Type.Object({ code: Type.String({ minLength: 1, maxLength: 100, description: "The code of a sign-in link" }) }, { additionalProperties: false });

export const Session = Type.Object(
  { id: Id, user_agent: nullable(Type.String()), ip: nullable(Type.String()), current: Type.Boolean(), created_at: Timestamp, last_used_at: Timestamp, expires_at: Timestamp },
  { additionalProperties: false, title: "Session" },
);
export type Session = Static<typeof Session>;
export const SessionPage = PageOf(Session);

export const Me = Type.Object(
  {
    user: Type.Object({ id: Id, email: Type.String(), name: nullable(Type.String()) }),
    org: Type.Object({ id: Id, name: Type.String(), slug: Type.String(), plan: Type.String() }),
    role: Type.Enum(["owner", "member"]),
    scopes: Type.Array(Type.String()),
  },
  { additionalProperties: false, title: "Me" },
);
export type Me = Static<typeof Me>;
