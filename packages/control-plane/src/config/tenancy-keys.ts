import Type from "typebox";
import { flag, origin, secret, text, whole } from "./reader.ts";

const provider = (name: string, issuer: string, example: string) =>
  Type.Object({
    client_id: text(
      "",
      `Client id of the application that was registered with ${name}`,
      "a client id without white space",
      "^\\S*$",
    ),
    client_secret: secret(`Client secret of that application`, "a client secret without white space", "^\\S*$"),
    issuer: text(
      "",
      `Replaces ${issuer}`,
      `an https URL like ${example}; http only on a loopback address`,
      "^(?:https?://[^\\s?#@]+)?$",
    ),
  });

export const bootstrap = Type.Object({
  email: text(
    "owner@localhost",
    "Email address of the owner created at the first start",
    "an email address",
    "^[^\\s@]+@[^\\s@]+$",
  ),
  org_name: text(
    "My organisation",
    "Name of the organisation created at the first start",
    "1 to 80 characters",
    "^(?=.*\\S).{1,80}$",
  ),
  token: secret(
    "API token created at the first start, with every scope",
    "sm_live_ and at least 32 characters of A-Z a-z 0-9 - _",
    "^(?:sm_live_[A-Za-z0-9_-]{32,})?$",
  ),
});

export const subscribers = Type.Object({
  per_minute: whole(600, 1, 60_000, "Messages a minute to subscribers of status pages; alerts go first"),
});

export const alerts = Type.Object({
  round_secs: Type.Integer({
    default: 30,
    minimum: 0,
    maximum: 300,
    // 0, or at least 10: a shorter round is no pause for a person.
    not: { minimum: 1, maximum: 9 },
    description: "Shortest time between two messages of a channel for people, seconds; 0: each notice alone",
    expects: "0, or a whole number from 10 to 300",
  }),
  heartbeat_url: text(
    "",
    "URL that is requested every minute while monitoring and alerting work, for a dead-man's switch; empty: none",
    "an http or https URL like https://hc-ping.example.org/abc, or nothing",
    "^(?:https?://[^\\s/?#@]+(?:[/?]\\S*)?)?$",
  ),
});

/** Issuers of the providers whose setting is empty. */
export const usualIssuers = { github: "https://github.com", google: "https://accounts.google.com", oidc: "" };

export const auth = Type.Object({
  required: flag(true, "False: every request acts as the owner of the first organisation"),
  trusted_proxy: flag(
    false,
    "True: a reverse proxy authenticates users; auth.required = false needs it beyond loopback",
  ),
  // Without a default: settleMethods decides.
  enabled_methods: Type.Array(Type.Enum(["password", "passkey", "github", "google", "oidc", "magic_link"]), {
    description: "Sign-in methods; absent: magic_link, and password and passkey too without mail and providers",
    expects: "a list of: password, passkey, github, google, oidc, magic_link",
  }),
  github: provider("GitHub", "https://github.com, for GitHub Enterprise", "https://github.example.org"),
  google: provider(
    "Google",
    "https://accounts.google.com, for any provider with OpenID Connect discovery",
    "https://login.example.org",
  ),
  oidc: Type.Object({
    ...provider("the identity provider", "nothing: required", "https://login.example.org/realms/acme").properties,
    name: text(
      "Single sign-on",
      "Name of the provider on the sign-in page",
      "1 to 40 characters",
      "^(?=.*\\S).{1,40}$",
    ),
    groups_claim: text(
      "groups",
      "Claim with the groups of a person; a dot leads into an object, as in realm_access.roles",
      "1 to 100 characters without white space",
      "^\\S{1,100}$",
    ),
    role_map: Type.Array(Type.String({ pattern: "^.{1,200}=(?:owner|member|viewer)$" }), {
      default: [],
      description: "Groups that have a role in the first organisation, as group=role; empty: groups are ignored",
      expects: "a list of group=role, where role is owner, member or viewer",
    }),
  }),
  public_base_url: origin(
    "Origin of the authorization server for MCP clients, its issuer; empty: server.public_url",
    "https://status.example.org",
  ),
  per_ip_rate_limit_per_min: whole(60, 0, 1_000_000, "Sign-in attempts per visitor and minute; 0: unlimited"),
  session: Type.Object({
    cookie_name: text(
      "_sm_session",
      "Name of the session cookie",
      "1 to 64 of A-Z a-z 0-9 - _",
      "^[A-Za-z0-9_-]{1,64}$",
    ),
  }),
  magic_link: Type.Object({
    throttle_secs: whole(60, 0, 86_400, "Interval between two sign-in links to one address, seconds; 0: none"),
  }),
  api_tokens: Type.Object({ max_per_user: whole(25, 1, 10_000, "Live API tokens per user") }),
  invitations: Type.Object({
    max_pending_per_org: whole(50, 1, 10_000, "Pending invitations per organisation; a plan may allow fewer"),
    max_per_day: whole(100, 1, 10_000, "Invitations of an organisation, and of a user, within a day"),
  }),
});

export const operator = Type.Object({
  admin_token: secret(
    "Bearer secret of /operator; empty: off",
    "at least 16 characters without white space",
    "^(?:\\S{16,})?$",
  ),
  email: text(
    "",
    "Recipient of notices about regions and agents; empty: bootstrap.email",
    "an email address, or nothing",
    "^(?:[^\\s@]+@[^\\s@]+)?$",
  ),
});

export const retention = Type.Object({
  audit_days: whole(730, 1, 36_500, "Retention of the audit log, days"),
  quota_events_days: whole(90, 30, 36_500, "Retention of refusals by a plan, days"),
  login_attempts_days: whole(180, 1, 36_500, "Retention of the log of sign-in attempts, days"),
});

export const tenancy = Type.Object({
  default_plan: text(
    "selfhost",
    "Plan of a new organisation",
    "the id of a plan: 1 to 40 of a-z, 0-9, - and _",
    "^[a-z0-9_-]{1,40}$",
  ),
  free_tier_owner_org_limit: whole(3, 1, 10_000, "Organisations that a user may own"),
  deletion_grace_period_days: whole(30, 0, 3650, "Grace period in which a deleted organisation can be restored, days"),
  path_based_public_routes: flag(true, "Serves the status page under /status"),
  subdomain_public_routes: flag(false, "Serves each status page at {slug}.{public_status.base_domain}"),
});

export const public_status = Type.Object({
  base_domain: text(
    "",
    "Parent domain of the hosts of status pages",
    "a domain like status.example.org",
    "^(?:[a-z0-9-]{1,63}(?:\\.[a-z0-9-]{1,63})*)?$",
  ),
  last_good_ttl_secs: whole(
    3600,
    0,
    604_800,
    "Lifetime of the last good copy of a status page while the database is unavailable, seconds",
  ),
  public_per_ip_rate_limit_per_min: whole(
    60,
    0,
    1_000_000,
    "Requests per visitor and minute to the status page and its JSON; 0: unlimited",
  ),
  max_logo_size_bytes: whole(1_048_576, 1024, 4_194_304, "Largest logo that may be uploaded, bytes"),
  max_logo_dimension_px: whole(1200, 16, 4000, "Longest side of a stored logo, pixels; a larger one is scaled down"),
  dns_resolver: text(
    "",
    "Name server that proves custom domains, ip or ip:port; empty: that of the system",
    "an address like 9.9.9.9 or 127.0.0.1:5353",
    "^(?:[0-9.]+(?::\\d{1,5})?|\\[[0-9a-fA-F:.]+\\](?::\\d{1,5})?)?$",
  ),
});
