import Type, { type Static } from "typebox";
import { idPatternInAnyCase } from "@statusmesh/shared/ids";
import { IdText, Line } from "@statusmesh/shared/text";
import { Email } from "../auth/schema.ts";
import {
  described,
  Id,
  Integer,
  nullable,
  PageOf,
  paging,
  Text,
  Timestamp,
  TimeZoneName,
} from "../../platform/http/wire.ts";
import { perQuota, PlanLimits, PlanOverrides } from "../plans/schema.ts";

/** `limit` and `offset` of a list. */
export const ListQuery = Type.Object(paging(50, 1000), { additionalProperties: false });

const Role = Type.Enum(["owner", "member", "viewer"], {
  description:
    "Owners have full access; members have everything except owner-only operations; viewers read everything but " +
    "secrets, share links and addresses of people, and change nothing",
});
export type Role = Static<typeof Role>;

/** An id whose errors carry the code of the alert binding. */
export const AlertChannelId = IdText({
  pattern: idPatternInAnyCase,
  format: "uuid",
  errorCode: "INVALID_ALERT_CONFIG",
  description: "Id of a channel of the organisation",
});

/** Levels of an escalation ladder. */
export const maxLevels = 5;

export const escalationWords =
  "Escalation ladder: the channels of each level are notified so many minutes after the opening, unless somebody " +
  "acknowledges the incident or it ends";

/** Channels that are notified while nobody acknowledges an incident. */
export const Escalation = Type.Array(
  Type.Object(
    {
      after_minutes: Type.Integer({
        minimum: 1,
        maximum: 10_080,
        expects: "Enter whole minutes, 1 to 10080",
        errorCode: "INVALID_ALERT_CONFIG",
        description: "Minutes from the opening notice; more than those of the level before",
        examples: [10],
      }),
      channel_ids: Type.Array(AlertChannelId, {
        minItems: 1,
        maxItems: 20,
        errorCode: "INVALID_ALERT_CONFIG",
        description: "Channels of this level",
      }),
    },
    { additionalProperties: false, errorCode: "INVALID_ALERT_CONFIG" },
  ),
  {
    maxItems: maxLevels,
    errorCode: "INVALID_ALERT_CONFIG",
    description: escalationWords,
  },
);
export type Escalation = Static<typeof Escalation>;

const orgEscalation = described(
  Escalation,
  `${escalationWords}. The default of targets without a ladder of their own`,
  [],
);

const orgTimezone = described(
  TimeZoneName,
  "Name of the IANA time zone in which days of reports begin, and of times in notifications",
);

const orgFields = {
  name: Line({ maxLength: 80, emptyCode: "EMPTY_NAME", description: "1 to 80 characters", examples: ["Acme"] }),
  slug: Type.String({
    pattern: "^[a-z][a-z0-9-]{2,29}$",
    expects: "Use 3 to 30 letters, digits or hyphens, starting with a letter",
    errorCode: "INVALID_SLUG",
    description: "3 to 30 of a-z, 0-9 and -, starting with a letter; the value of the header X-Sm-Org",
    examples: ["acme"],
  }),
};

export const OrgCreate = Type.Object(
  {
    name: orgFields.name,
    slug: Type.Optional(Type.Unsafe<string>({ ...orgFields.slug, description: "Derived from the name by default" })),
  },
  { additionalProperties: false, title: "OrgCreate", description: "A new organisation" },
);
export type OrgCreate = Static<typeof OrgCreate>;

const setupDismissed = "True: the console no longer shows the setup checklist";

export const OrgPatch = Type.Object(
  {
    name: Type.Optional(orgFields.name),
    slug: Type.Optional(orgFields.slug),
    setup_dismissed: Type.Optional(Type.Boolean({ description: setupDismissed })),
    escalation: Type.Optional(orgEscalation),
    timezone: Type.Optional(orgTimezone),
  },
  { additionalProperties: false, title: "OrgPatch", description: "Fields to change; omitted fields stay unchanged" },
);
export type OrgPatch = Static<typeof OrgPatch>;

const orgShown = {
  name: Text("Display name", "Acme"),
  slug: Text("Value of the header X-Sm-Org", "acme"),
  plan: Text("Id of its plan", "selfhost"),
  deleted_at: nullable(described(Timestamp, "Null unless deleted", null)),
};

export const Org = Type.Object(
  {
    id: Id,
    name: orgShown.name,
    slug: orgShown.slug,
    plan: orgShown.plan,
    role: described(Role, "Role of the caller"),
    setup_dismissed: Type.Boolean({ description: setupDismissed, examples: [false] }),
    escalation: orgEscalation,
    timezone: orgTimezone,
    current: Type.Boolean({ description: "True for the organisation of this request" }),
    created_at: Timestamp,
    deleted_at: orgShown.deleted_at,
    purged_at: nullable(described(Timestamp, "Until then a deleted organisation can be restored", null)),
  },
  { additionalProperties: false, title: "Org", description: "An organisation as the caller sees it" },
);
export type Org = Static<typeof Org>;
export const OrgPage = PageOf(Org);

const Use = Type.Object(
  {
    current: Integer("Current number", 12),
    limit: nullable(Integer("Null is unlimited", 20)),
  },
  { description: "Current number and limit" },
);
export const Usage = Type.Object(
  {
    plan: Text("Id of the plan", "free"),
    min_check_interval_secs: Integer("The smallest interval of a target", 60),
    quotas: Type.Object(perQuota(Use), { additionalProperties: false, description: "By the name of the quota" }),
    refused_30d: Type.Record(Type.String(), Type.Integer(), {
      description:
        "How often the plan refused something in the last 30 days, by quota (min_check_interval_secs and " +
        "owned_orgs are among them); one that never did is left out",
      examples: [{ max_targets: 3 }],
    }),
  },
  { additionalProperties: false, title: "Usage", description: "Plan limits and current usage" },
);
export type Usage = Static<typeof Usage>;

/** `{id}` and `{entry_id}` in a path. */
export const AuditEntryParams = Type.Object({ id: Type.String(), entry_id: Type.String() });

/** `{id}` and `{user_id}` in a path. */
export const MemberParams = Type.Object({ id: Type.String(), user_id: Type.String() });

export const Member = Type.Object(
  {
    user_id: Id,
    email: Text("Address of mails to the user", "olga@example.org"),
    name: nullable(Text("Null when not set", "Olga")),
    role: Role,
    joined_at: Timestamp,
  },
  { additionalProperties: false, title: "Member", description: "A member of the organisation" },
);
export type Member = Static<typeof Member>;
export const MemberPage = PageOf(Member);
export const MemberPatch = Type.Object(
  { role: Role },
  { additionalProperties: false, title: "MemberPatch", description: "The new role" },
);

/** `{id}` and `{invitation_id}` in a path. */
export const InvitationParams = Type.Object({ id: Type.String(), invitation_id: Type.String() });

export const InvitationCreate = Type.Object(
  { email: Email, role: Type.Optional(Type.Unsafe<Role>({ ...Role, default: "member" })) },
  { additionalProperties: false, title: "InvitationCreate", description: "A new invitation" },
);
export type InvitationCreate = Static<typeof InvitationCreate>;

const invitation = {
  id: Id,
  email: Text("Invited address", "milan@example.org"),
  role: Role,
  invited_by: nullable(Text("Email address", "olga@example.org")),
  created_at: Timestamp,
  expires_at: Timestamp,
};
export const Invitation = Type.Object(invitation, {
  additionalProperties: false,
  title: "Invitation",
  description: "A pending invitation",
});
export type Invitation = Static<typeof Invitation>;
export const InvitationPage = PageOf(Invitation);

export const NewInvitation = Type.Object(
  {
    ...invitation,
    mail: Type.Enum(["sent", "logged", "failed"], {
      description: "logged: no mail server is configured, see url. failed: revoke it and invite again",
    }),
    url: nullable(
      Text(
        "The link to pass on where no mail server is configured; null where it was mailed",
        "https://status.example.org/invitations/q8zC0vQy1mJ5s2r7T4xB9nK3wE6uH0aL",
      ),
    ),
  },
  { additionalProperties: false, title: "NewInvitation", description: "The invitation and the outcome of its mail" },
);
export type NewInvitation = Static<typeof NewInvitation>;

export const InvitationAccept = Type.Object(
  {
    code: Type.String({
      minLength: 1,
      maxLength: 100,
      description: "The code of the link in the invitation",
      examples: ["q8zC0vQy1mJ5s2r7T4xB9nK3wE6uH0aL"],
    }),
  },
  { additionalProperties: false, title: "InvitationAccept", description: "Proof of the invited address" },
);

/** Search and page of the operator's list. */
export const OperatorOrgQuery = Type.Object(
  {
    q: Type.Optional(
      Type.String({ maxLength: 200, description: "Part of the name or the slug, in any case", examples: ["acme"] }),
    ),
    // Each row counts what the organisation has: 1,000 took 7 s of the database.
    ...paging(50, 100),
  },
  { additionalProperties: false },
);
export type OperatorOrgQuery = Static<typeof OperatorOrgQuery>;

export const OperatorOrg = Type.Object(
  {
    id: Id,
    name: orgShown.name,
    slug: orgShown.slug,
    plan: orgShown.plan,
    overrides: PlanOverrides,
    limits: described(PlanLimits, "The limits in force: those of the plan, overridden"),
    owners: Type.Array(Type.String(), {
      description: "Email addresses of its owners, at most 10, oldest first",
      examples: [["olga@example.org"]],
    }),
    usage: Type.Object(perQuota(Integer("Current number", 12)), {
      additionalProperties: false,
      description: "What it has, by the name of the quota",
    }),
    created_at: Timestamp,
    deleted_at: orgShown.deleted_at,
  },
  { additionalProperties: false, title: "OperatorOrg", description: "An organisation as the operator sees it" },
);
export type OperatorOrg = Static<typeof OperatorOrg>;
export const OperatorOrgPage = PageOf(OperatorOrg);

export const OperatorOrgPatch = Type.Object(
  {
    plan: Type.Optional(Type.String({ maxLength: 100, description: "Id of the new plan", examples: ["free"] })),
    overrides: Type.Optional(PlanOverrides),
  },
  {
    additionalProperties: false,
    title: "OperatorOrgPatch",
    description: "The new plan, and all overrides: those that are left out end, {} ends all",
  },
);
export type OperatorOrgPatch = Static<typeof OperatorOrgPatch>;
