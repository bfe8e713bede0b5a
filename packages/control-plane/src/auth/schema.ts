import Type, { type Static } from "typebox";
import { type Scope, scopes } from "../context.ts";
import { Id, nullable, PageOf, Timestamp } from "../http/wire.ts";

/** An address as people write it; services compare it in lower case. RFC 5321 section 4.5.3.1 ends it at 254. */
export const Email = Type.String({ maxLength: 254, pattern: '^[^\\s@<>,;"]+@[^\\s@<>,;"]+$', description: "An email address" });

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

const scopeList = Type.Array(Type.Enum([...scopes]), { minItems: 1, uniqueItems: true, maxItems: scopes.length });

const tokenFields = {
  name: Type.String({ maxLength: 100, description: "What it is for, 1 to 100 characters" }),
  scopes: scopeList,
  expires_at: nullable(Timestamp),
};

export const ApiTokenCreate = Type.Object(
  {
    name: tokenFields.name,
    scopes: Type.Unsafe<Scope[]>({ ...scopeList, description: "What it may do; no more than the caller may" }),
    expires_at: Type.Optional(nullable(Timestamp)),
    bound: Type.Optional(
      Type.Boolean({ default: true, description: "True: it acts in the organisation of this request only. False: in any of the user's, named by the header X-Sm-Org" }),
    ),
  },
  { additionalProperties: false, title: "ApiTokenCreate" },
);
export type ApiTokenCreate = Static<typeof ApiTokenCreate>;

const stored = {
  id: Id,
  ...tokenFields,
  org_id: nullable(Type.String({ format: "uuid", description: "Null: not bound to one organisation" })),
  created_at: Timestamp,
  last_used_at: nullable(Type.String({ format: "date-time", description: "To the minute" })),
};

export const ApiToken = Type.Object(stored, { additionalProperties: false, title: "ApiToken" });
export type ApiToken = Static<typeof ApiToken>;
export const ApiTokenPage = PageOf(ApiToken);

export const NewApiToken = Type.Object({ ...stored, token: Type.String({ description: "Shown this once" }) }, { additionalProperties: false, title: "NewApiToken" });
export type NewApiToken = Static<typeof NewApiToken>;

export const MagicLinkRequest = Type.Object({ email: Email }, { additionalProperties: false, title: "MagicLinkRequest" });
