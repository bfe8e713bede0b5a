import Type, { type Static } from "typebox";
import { idPatternInAnyCase } from "@statusmesh/shared/ids";
import { IdText, Line } from "@statusmesh/shared/text";
import { Email } from "../auth/schema.ts";
import {
  Closed,
  described,
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
  TimeZoneName,
} from "../../platform/http/wire.ts";
import { severities } from "@statusmesh/shared/severity";
import { perQuota, PlanLimits, PlanOverrides } from "../plans/schema.ts";

const Role = OneOf(
  ["owner", "member", "viewer"],
  "Owners have full access; members have everything except owner-only operations; viewers read everything but " +
    "secrets, share links and addresses of people, and change nothing",
);
export type Role = Static<typeof Role>;

/** An id whose errors carry the code of the alert binding. */
export const AlertChannelId = IdText({
  pattern: idPatternInAnyCase,
  format: "uuid",
  errorCode: "INVALID_ALERT_CONFIG",
  description: "Id of a channel of the organisation",
});

/** Gate of a binding, a level or a channel. */
export const MinSeverity = Type.Enum([...severities], {
  errorCode: "INVALID_ALERT_CONFIG",
  expects: "Use minor, major or critical",
  description: "Only incidents of this severity and higher ones; the highest gate on the way to a channel counts",
  examples: ["major"],
});
export type MinSeverity = Static<typeof MinSeverity>;

/** Levels of an escalation ladder. */
export const maxLevels = 5;

export const escalationWords =
  "Escalation ladder: the channels of each level are notified so many minutes after the opening, unless somebody " +
  "acknowledges the incident or it ends";

/** Channels that are notified while nobody acknowledges an incident. */
export const Escalation = Type.Array(
  Closed(
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
      min_severity: Type.Optional(
        described(MinSeverity, "The level is passed over while the incident is less severe; absent: minor", "critical"),
      ),
    },
    { errorCode: "INVALID_ALERT_CONFIG" },
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

export const OrgCreate = Shape("OrgCreate", "A new organisation", {
  name: orgFields.name,
  slug: Type.Optional(Type.Unsafe<string>({ ...orgFields.slug, description: "Derived from the name by default" })),
});
export type OrgCreate = Static<typeof OrgCreate>;

const setupDismissed = "True: the console no longer shows the setup checklist";

const requireSecondFactor =
  "True: sessions that were opened without a second factor or a passkey only read here. Tokens are not affected";

export const OrgPatch = Shape("OrgPatch", "Fields to change; omitted fields stay unchanged", {
  name: Type.Optional(orgFields.name),
  slug: Type.Optional(orgFields.slug),
  setup_dismissed: Type.Optional(Flag(setupDismissed)),
  escalation: Type.Optional(orgEscalation),
  timezone: Type.Optional(orgTimezone),
  require_second_factor: Type.Optional(Flag(requireSecondFactor)),
});
export type OrgPatch = Static<typeof OrgPatch>;

const orgShown = {
  name: Text("Display name", "Acme"),
  slug: Text("Value of the header X-Sm-Org", "acme"),
  plan: Text("Id of its plan", "selfhost"),
  deleted_at: nullable(described(Timestamp, "Null unless deleted", null)),
};

export const Org = Shape("Org", "An organisation as the caller sees it", {
  id: Id,
  name: orgShown.name,
  slug: orgShown.slug,
  plan: orgShown.plan,
  role: described(Role, "Role of the caller"),
  setup_dismissed: Flag(setupDismissed, false),
  escalation: orgEscalation,
  timezone: orgTimezone,
  require_second_factor: Flag(requireSecondFactor, false),
  current: Flag("True for the organisation of this request"),
  created_at: Timestamp,
  deleted_at: orgShown.deleted_at,
  purged_at: nullable(described(Timestamp, "Until then a deleted organisation can be restored", null)),
});
export type Org = Static<typeof Org>;
export const OrgPage = PageOf(Org);

const Use = Type.Object(
  {
    current: Integer("Current number", 12),
    limit: nullable(Integer("Null is unlimited", 20)),
  },
  { description: "Current number and limit" },
);
export const Usage = Shape("Usage", "Plan limits and current usage", {
  plan: Text("Id of the plan", "free"),
  min_check_interval_secs: Integer("The smallest interval of a target", 60),
  quotas: Closed(perQuota(Use), { description: "By the name of the quota" }),
  refused_30d: Type.Record(Type.String(), Type.Integer(), {
    description:
      "How often the plan refused something in the last 30 days, by quota (min_check_interval_secs and " +
      "owned_orgs are among them); one that never did is left out",
    examples: [{ max_targets: 3 }],
  }),
});
export type Usage = Static<typeof Usage>;

export const Member = Shape("Member", "A member of the organisation", {
  user_id: Id,
  email: Text("Address of mails to the user", "olga@example.org"),
  name: nullable(Text("Null when not set", "Olga")),
  role: Role,
  joined_at: Timestamp,
});
export type Member = Static<typeof Member>;
export const MemberPage = PageOf(Member);
export const MemberPatch = Shape("MemberPatch", "The new role", { role: Role });

export const InvitationCreate = Shape("InvitationCreate", "A new invitation", {
  email: Email,
  role: Type.Optional(Type.Unsafe<Role>({ ...Role, default: "member" })),
});
export type InvitationCreate = Static<typeof InvitationCreate>;

const invitation = {
  id: Id,
  email: Text("Invited address", "milan@example.org"),
  role: Role,
  invited_by: nullable(Text("Email address", "olga@example.org")),
  created_at: Timestamp,
  expires_at: Timestamp,
};
export const Invitation = Shape("Invitation", "A pending invitation", invitation);
export type Invitation = Static<typeof Invitation>;
export const InvitationPage = PageOf(Invitation);

export const NewInvitation = Shape("NewInvitation", "The invitation and the outcome of its mail", {
  ...invitation,
  mail: OneOf(
    ["sent", "logged", "failed"],
    "logged: no mail server is configured, see url. failed: revoke it and invite again",
  ),
  url: nullable(
    Text(
      "The link to pass on where no mail server is configured; null where it was mailed",
      "https://status.example.org/invitations/q8zC0vQy1mJ5s2r7T4xB9nK3wE6uH0aL",
    ),
  ),
});
export type NewInvitation = Static<typeof NewInvitation>;

export const InvitationAccept = Shape("InvitationAccept", "Proof of the invited address", {
  code: Type.String({
    minLength: 1,
    maxLength: 100,
    description: "The code of the link in the invitation",
    examples: ["q8zC0vQy1mJ5s2r7T4xB9nK3wE6uH0aL"],
  }),
  password: Type.Optional(
    Type.String({
      maxLength: 2000,
      description: "Password of the new account, where passwords are enabled",
      examples: ["correct horse battery staple"],
    }),
  ),
});

/** Search and page of the operator's list. */
export const OperatorOrgQuery = Closed({
  q: Type.Optional(
    Type.String({ maxLength: 200, description: "Part of the name or the slug, in any case", examples: ["acme"] }),
  ),
  // Each row counts what the organisation has: 1,000 took 7 s of the database.
  ...paging(50, 100),
});
export type OperatorOrgQuery = Static<typeof OperatorOrgQuery>;

export const OperatorOrg = Shape("OperatorOrg", "An organisation as the operator sees it", {
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
  usage: Closed(perQuota(Integer("Current number", 12)), { description: "What it has, by the name of the quota" }),
  created_at: Timestamp,
  deleted_at: orgShown.deleted_at,
});
export type OperatorOrg = Static<typeof OperatorOrg>;
export const OperatorOrgPage = PageOf(OperatorOrg);

export const OperatorOrgPatch = Shape(
  "OperatorOrgPatch",
  "The new plan, and all overrides: those that are left out end, {} ends all",
  {
    plan: Type.Optional(Type.String({ maxLength: 100, description: "Id of the new plan", examples: ["free"] })),
    overrides: Type.Optional(PlanOverrides),
  },
);
export type OperatorOrgPatch = Static<typeof OperatorOrgPatch>;
