import Type, { type Static } from "typebox";
import { Line } from "@statusmesh/shared/text";
import { type Scope, scopes } from "../../platform/context.ts";
import {
  Closed,
  described,
  Flag,
  Id,
  nullable,
  OneOf,
  PageOf,
  paging,
  Shape,
  Text,
  Timestamp,
} from "../../platform/http/wire.ts";
import { AuthenticationResponse } from "./passkeys/schema.ts";

/** `limit` and `offset` of a list. */
export const ListQuery = Closed(paging(50, 1000));

/** An address as typed; services compare it in lower case. At most 254 characters: RFC 5321, section 4.5.3.1. */
export const Email = Type.String({
  maxLength: 254,
  pattern: '^[^\\s\\x00-\\x1f\\x7f@<>,;"]+@[^\\s\\x00-\\x1f\\x7f@<>,;"]+$',
  expects: "Enter an email address, like name@example.org",
  description: "An email address",
  examples: ["olga@example.org"],
});

/** A password as typed; the service judges its length after NFC. */
const password = (description: string) =>
  Type.String({ maxLength: 2000, description, examples: ["correct horse battery staple"] });

const secondFactorCode = Type.String({
  minLength: 1,
  maxLength: 40,
  description: "The six digits of the authenticator app, or a recovery code",
  examples: ["287082"],
});

export const SessionCreate = Shape("SessionCreate", "Proof of identity: email and password, or the code of a link", {
  email: Type.Optional(Email),
  password: Type.Optional(password("The password of the account")),
  code: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 100,
      description:
        "Alone the code of a sign-in link, or in the browser that was answered CODE_REQUIRED that of the second " +
        "factor; beside a password the code of the second factor, or a recovery code",
      examples: ["q8zC0vQy1mJ5s2r7T4xB9nK3wE6uH0aL"],
    }),
  ),
});
export type SessionCreate = Static<typeof SessionCreate>;

export const PasswordChange = Shape("PasswordChange", "A new password of the caller", {
  current: Type.Optional(password("The present password, where there is one")),
  password: password("The new password: 10 to 256 characters, none of the most used ones"),
});

export const SessionProof = Shape("SessionProof", "A factor of the caller, proven again", {
  password: Type.Optional(password("The password of the caller, where there is one")),
  code: Type.Optional(secondFactorCode),
  response: Type.Optional(AuthenticationResponse),
});
export type SessionProof = Static<typeof SessionProof>;

export const TotpConfirm = Shape("TotpConfirm", "The first code of a new secret", { code: secondFactorCode });

export const NewTotp = Shape(
  "NewTotp",
  "A new secret for an authenticator app (RFC 6238), which only this reply shows",
  {
    secret: Text("160 bits in base32", "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"),
    otpauth_url: Text(
      "The address that the app reads",
      "otpauth://totp/StatusMesh:olga%40example.org?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=StatusMesh",
    ),
    qr: Text("The address as a QR code, in SVG", "<svg></svg>"),
  },
);

export const RecoveryCodes = Shape("RecoveryCodes", "Codes that replace one of the app, once each; shown only here", {
  recovery_codes: Type.Array(Type.String({ examples: ["7K2M-9PQR-4TVW"] }), { description: "Ten codes" }),
});

export const Session = Shape("Session", "A signed-in browser", {
  id: Id,
  user_agent: nullable(Text("Browser that signed in", "Mozilla/5.0 (X11; Linux x86_64; rv:145.0)")),
  ip: nullable(Text("Address that signed in", "192.0.2.17")),
  current: Flag("True for the session of this request"),
  created_at: Timestamp,
  last_used_at: Timestamp,
  expires_at: Timestamp,
});
export type Session = Static<typeof Session>;
export const SessionPage = PageOf(Session);

export const Identity = Closed(
  {
    id: Id,
    provider: Text("github, google or oidc"),
    issuer: Text("Who attests the identity: another issuer of the same provider is another identity"),
    email: Text("The address by which it was linked"),
    created_at: Timestamp,
    last_used_at: Timestamp,
  },
  { title: "Identity" },
);
export type Identity = Static<typeof Identity>;
export const IdentityPage = PageOf(Identity);

export const Me = Shape("Me", "The caller, and the organisation that it acts in", {
  user: Type.Object(
    {
      id: Id,
      email: Text("Address of mails to the user", "olga@example.org"),
      name: nullable(Text("Null when not set", "Olga")),
    },
    { description: "The caller" },
  ),
  org: nullable(
    Type.Object(
      {
        id: Id,
        name: Text("Display name", "Acme"),
        slug: Text("Value of the header X-Sm-Org", "acme"),
        plan: Text("Id of its plan", "selfhost"),
      },
      { description: "The organisation that this request acts in; null for an unbound token that names none" },
    ),
  ),
  role: nullable(OneOf(["owner", "member", "viewer"], "Role in that organisation; null without one")),
  scopes: Type.Array(Type.String({ examples: ["targets:read"] }), { description: "Scopes of the credential" }),
});
export type Me = Static<typeof Me>;

const scopeList = Type.Array(Type.Enum([...scopes]), {
  minItems: 1,
  uniqueItems: true,
  maxItems: scopes.length,
  description: "Scopes; X:write and X:execute include X:read",
});

const tokenFields = {
  name: Line({
    maxLength: 100,
    emptyCode: "EMPTY_NAME",
    description: "Purpose, 1 to 100 characters",
    examples: ["Deployment pipeline"],
  }),
  scopes: scopeList,
  expires_at: nullable(
    described(Timestamp, "The token is refused from then on; null: never", "2027-11-20T00:00:00.000Z"),
  ),
};

export const ApiTokenCreate = Shape("ApiTokenCreate", "A new token", {
  name: tokenFields.name,
  scopes: Type.Unsafe<Scope[]>({
    ...scopeList,
    description: "Scopes, at most those of the caller; X:write and X:execute include X:read",
  }),
  expires_at: Type.Optional(tokenFields.expires_at),
  bound: Type.Optional(
    Type.Boolean({
      default: true,
      description:
        "True: acts in the organisation of this request only. False: in any of its user's, named by X-Sm-Org",
    }),
  ),
  audience: Type.Optional(
    nullable(
      OneOf(
        ["mcp"],
        "mcp: only for the MCP server, not for this API; bound, with read scopes, for at most 365 days. " +
          "Null: for this API",
      ),
    ),
  ),
});
export type ApiTokenCreate = Static<typeof ApiTokenCreate>;

const stored = {
  id: Id,
  ...tokenFields,
  org_id: nullable(Type.String({ format: "uuid", description: "Null: not bound to one organisation" })),
  audience: nullable(OneOf(["mcp"], "mcp: only for the MCP server; null: for this API")),
  created_at: Timestamp,
  last_used_at: nullable(described(Timestamp, "Last use, to the minute; null: never used")),
};

export const ApiToken = Shape("ApiToken", "A token, without its secret", stored);
export type ApiToken = Static<typeof ApiToken>;
export const ApiTokenPage = PageOf(ApiToken);

export const NewApiToken = Shape("NewApiToken", "The token with its secret, which only this reply shows", {
  ...stored,
  token: Text("Shown only in this reply", "sm_live_Kp3vX9dQ2mZ7rT1sB5nY8wC4hJ6fL0gA"),
});
export type NewApiToken = Static<typeof NewApiToken>;

export const MagicLinkRequest = Shape("MagicLinkRequest", "Address that requests a sign-in link", { email: Email });
