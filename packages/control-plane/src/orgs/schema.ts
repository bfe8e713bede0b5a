import Type, { type Static } from "typebox";
import { Email } from "../auth/schema.ts";
import { Id, nullable, PageOf, Timestamp } from "../http/wire.ts";

const Role = Type.Enum(["owner", "member"]);
export type Role = Static<typeof Role>;

const orgFields = {
  name: Type.String({ maxLength: 80, description: "1 to 80 characters" }),
  slug: Type.String({
    pattern: "^[a-z][a-z0-9-]{2,29}$",
    errorCode: "INVALID_SLUG",
    description: "3 to 30 of a-z, 0-9 and -, starting with a letter; the header X-Sm-Org takes it",
  }),
};

export const OrgCreate = Type.Object(
  { name: orgFields.name, slug: Type.Optional(Type.Unsafe<string>({ ...orgFields.slug, description: "Made from the name when left out" })) },
  { additionalProperties: false, title: "OrgCreate" },
);
export type OrgCreate = Static<typeof OrgCreate>;

export const OrgPatch = Type.Object({ name: Type.Optional(orgFields.name), slug: Type.Optional(orgFields.slug) }, { additionalProperties: false, title: "OrgPatch" });
export type OrgPatch = Static<typeof OrgPatch>;

export const Org = Type.Object(
  {
    id: Id,
    name: Type.String(),
    slug: Type.String(),
    plan: Type.String(),
    role: Role,
    current: Type.Boolean({ description: "Whether this request acts in it" }),
    created_at: Timestamp,
    deleted_at: nullable(Timestamp),
    purged_at: nullable(Type.String({ format: "date-time", description: "Until then a deleted organisation can be restored" })),
  },
  { additionalProperties: false, title: "Org" },
);
export type Org = Static<typeof Org>;
export const OrgPage = PageOf(Org);

export const quotas = ["max_targets", "max_members", "max_pending_invitations", "max_status_pages", "max_public_components", "max_notification_channels"] as const;
export type Quota = (typeof quotas)[number];

const Use = Type.Object({ current: Type.Integer(), limit: nullable(Type.Integer({ description: "Null is unlimited" })) });
export const Usage = Type.Object(
  {
    plan: Type.String(),
    min_check_interval_secs: Type.Integer(),
    quotas: Type.Object(Object.fromEntries(quotas.map((quota) => [quota, Use])) as Record<Quota, typeof Use>, { additionalProperties: false }),
  },
  { additionalProperties: false, title: "Usage" },
);
export type Usage = Static<typeof Usage>;

/** `{id}` and `{user_id}` in a path. */
export const MemberParams = Type.Object({ id: Type.String(), user_id: Type.String() });

export const Member = Type.Object(
  { user_id: Id, email: Type.String(), name: nullable(Type.String()), role: Role, joined_at: Timestamp },
  { additionalProperties: false, title: "Member" },
);
export type Member = Static<typeof Member>;
export const MemberPage = PageOf(Member);
export const MemberPatch = Type.Object({ role: Role }, { additionalProperties: false, title: "MemberPatch" });

/** `{id}` and `{invitation_id}` in a path. */
export const InvitationParams = Type.Object({ id: Type.String(), invitation_id: Type.String() });

export const InvitationCreate = Type.Object(
  { email: Email, role: Type.Optional(Type.Unsafe<Role>({ ...Role, default: "member" })) },
  { additionalProperties: false, title: "InvitationCreate" },
);
export type InvitationCreate = Static<typeof InvitationCreate>;

const invitation = { id: Id, email: Type.String(), role: Role, invited_by: nullable(Type.String({ description: "Email address" })), created_at: Timestamp, expires_at: Timestamp };
export const Invitation = Type.Object(invitation, { additionalProperties: false, title: "Invitation" });
export type Invitation = Static<typeof Invitation>;
export const InvitationPage = PageOf(Invitation);

export const NewInvitation = Type.Object(
  {
    ...invitation,
    mail: Type.Enum(["sent", "logged", "failed"], { description: "logged: no mail server is configured, the link is in the log. failed: revoke it and invite again" }),
  },
  { additionalProperties: false, title: "NewInvitation" },
);
export type NewInvitation = Static<typeof NewInvitation>;

export const InvitationAccept = Type.Object(
  { code: Type.String({ minLength: 1, maxLength: 100, description: "The code of the link in the invitation" }) },
  { additionalProperties: false, title: "InvitationAccept" },
);
