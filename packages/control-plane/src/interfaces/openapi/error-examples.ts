import type { ErrorCode } from "@statusmesh/shared/errors";

interface ErrorExample {
  message?: string;
  field?: string;
  details?: Record<string, unknown>;
}

const quota = (name: string, limit: number): ErrorExample => ({
  details: { quota: name, current: limit, limit, plan: "free" },
});

/** Field and details of example errors. A code without an entry uses the text of the registry. */
export const errorExamples: Partial<Record<ErrorCode, ErrorExample>> = {
  INVALID_BODY: {
    message: "name is required.",
    field: "/name",
    details: {
      errors: [
        { field: "/name", code: "INVALID_BODY", message: "name is required." },
        { field: "/check/timeout", code: "INVALID_TIMEOUT", message: "check.timeout must be at least 100." },
      ],
    },
  },
  INVALID_QUERY: { message: "limit must be a whole number.", field: "/query/limit" },
  INVALID_ID: { field: "/target_id" },
  UNKNOWN_FIELD: { message: 'There is no field "intervall" here. Did you mean "interval"?', field: "/intervall" },
  UNSUPPORTED_MEDIA_TYPE: { message: "Send the body as JSON, with the header Content-Type: application/json." },
  PAYLOAD_TOO_LARGE: { message: "The body is larger than 1 MiB, the limit of this route." },
  RATE_LIMITED: {
    message: "Too many requests. Try again in 17 s.",
    details: { scope: "per_org_api_writes", limit: 600, window_secs: 60 },
  },
  UNAUTHENTICATED: { message: "Sign in, or send a token as Authorization: Bearer sm_live_…." },
  INVALID_CREDENTIALS: { message: "The email address or the password is wrong." },
  CODE_REQUIRED: {
    message: "Enter the code that your authenticator app shows, or one of your recovery codes.",
    details: { pointer: "/code" },
  },
  CODE_INVALID: {
    message: "The code is wrong, or it was used already. Enter the one that the app shows now, or a recovery code.",
    details: { pointer: "/code" },
  },
  FRESH_SIGN_IN_REQUIRED: {
    message: "This change needs a sign-in within the last 15 minutes. Confirm that it is you, or sign in again.",
    details: { proofs: ["password"] },
  },
  PASSKEY_INVALID: {
    message: "The challenge is older than 5 minutes. Try again.",
    field: "/response",
  },
  WEAK_PASSWORD: { message: "Use at least 10 characters; this password has 7.", field: "/password" },
  INSUFFICIENT_SCOPE: { details: { scope: "targets:write" } },
  EMPTY_NAME: { field: "/name" },
  INVALID_TAG: { field: "/tags/1" },
  INVALID_CUSTOM_DOMAIN: { field: "/custom_domain" },
  INVALID_TIME_ZONE: { field: "/branding/timezone" },
  INVALID_URL_SCHEME: {
    message: 'Start with http:// or https://. The scheme "ftp" cannot be checked.',
    field: "/check/url",
  },
  INVALID_URL_FORMAT: {
    message: '"shop" is not a URL. Write it with scheme and host, for example https://example.org/health.',
    field: "/check/url",
  },
  INVALID_HTTP_METHOD: { field: "/check/method" },
  INVALID_HTTP_HEADER: { field: "/check/headers/Host" },
  INVALID_STATUS_RANGE: {
    message: "The smallest accepted status is above the largest. Swap min and max.",
    field: "/check/expected_status/value",
  },
  INVALID_CERTIFICATE: {
    message: 'No certificate is in the text: it must have "-----BEGIN CERTIFICATE-----" (PEM), to its END line.',
    field: "/certificate",
  },
  CERTIFICATE_IN_USE: {
    message: "1 monitor uses this certificate: Shop. Change them first.",
    details: { used_by: 1, targets: [{ id: "01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e90", name: "Shop" }] },
  },
  INVALID_TLS_CRED_COMBO: { field: "/check/verify_tls" },
  INVALID_INTERVAL: { field: "/interval" },
  INVALID_TIMEOUT: { field: "/check/timeout" },
  INVALID_TCP_PORT: { field: "/check/port" },
  INVALID_TCP_HOST: { field: "/check/host" },
  INVALID_PATTERN: {
    message: "The pattern cannot be used: missing closing ), at character 1: (ok.",
    field: "/check/expected_body_matches",
  },
  INVALID_EXPECTATION: { message: 'lt compares numbers, and "5" is none.', field: "/check/expected_json/0/value" },
  INVALID_THRESHOLD: {
    message: "down_above_ms (500) must be more than degraded_above_ms (800): a check is degraded first.",
    field: "/check/down_above_ms",
  },
  INVALID_HEARTBEAT: {
    message: "Give either a period or a schedule: when is the next report expected?",
    field: "/check/period",
  },
  INVALID_GROUP: { message: "There is no monitor with this id.", field: "/check/members/0" },
  GROUP_CYCLE: {
    message: "A group cannot be a member of itself, directly, over other groups or by a tag.",
    field: "/check/members",
  },
  GROUP_TOO_DEEP: { message: "At most 4 groups may stand above each other.", field: "/check/members" },
  HEARTBEAT_ADDRESS_TAKEN: {
    message: "Another monitor of this installation has one of these addresses. Remove it there first.",
    details: { pointer: "/heartbeat_addresses" },
  },
  INVALID_ALERT_CONFIG: { field: "/alerts/0/channel_id" },
  CHECK_KIND_IMMUTABLE: { field: "/check/type" },
  CREDENTIALS_REQUIRED: { field: "/check/bearer_token" },
  REDACTION_SENTINEL: { field: "/check/bearer_token" },
  SSRF_BLOCKED: { field: "/check/url", details: { range: "10.0.0.0/8" } },
  ABUSE_BLOCKED: { field: "/check/url", details: { reason: "own_api" } },
  URL_PATTERN_BLOCKED: { field: "/check/url" },
  DOMAIN_DENYLISTED: { field: "/check/url" },
  UNRESOLVED_VARIABLE: {
    message: "${TOKEN} has no value: the client fills in variables. Write $${ for the text itself.",
    field: "/document/monitors/shop/check/bearer_token",
  },
  UNKNOWN_REFERENCE: {
    message: 'The document has no key "ops" in channels.',
    field: "/document/monitors/shop/alerts/0",
  },
  PRUNE_LIMIT: { details: { delete: 12, max_delete: 10 } },
  BAD_TIME_RANGE: { field: "/query/to" },
  CHANNEL_NAME_INVALID: { field: "/name" },
  INVALID_CHANNEL_CONFIG: { message: "Use an https:// URL: notifications must be encrypted.", field: "/config/url" },
  INVALID_ACTIVE_HOURS: {
    message: "Mars/Olympus is no IANA time zone. Use a name like Europe/Berlin or UTC.",
    field: "/active_hours/timezone",
  },
  INVALID_DEPENDENCY: { message: "There is no monitor with this id.", field: "/depends_on/0" },
  DEPENDENCY_CYCLE: { message: "A monitor cannot depend on itself, directly or over others.", field: "/depends_on" },
  CHANNEL_VERIFICATION_LIMIT: { details: { limit: 5, scope: "channel" } },
  DELEGATE_KIND_INVALID: { field: "/kind" },
  CHANNEL_QUOTA_EXCEEDED: quota("max_notification_channels", 20),
  QUOTA_EXCEEDED: quota("max_targets", 20),
  EMPTY_TITLE: { field: "/public_title" },
  TITLE_TOO_LONG: { field: "/public_title" },
  DESCRIPTION_TOO_LONG: { field: "/public_description" },
  EMPTY_MESSAGE: { field: "/message" },
  MESSAGE_TOO_LONG: { field: "/message" },
  MCP_TOKEN_READ_ONLY: {
    message: "targets:write is no read scope. A token for MCP can only read.",
    details: { pointer: "/scopes/1" },
  },
  INVALID_EXPIRY: { field: "/expires_at" },
  INVALID_CSS: { field: "/custom_css" },
  INVALID_SLUG: { field: "/slug" },
  HISTORY_OVERLAP: { field: "/items/0/days/12/date" },
  INVALID_COMPONENT_ID: { field: "/target_ids/0" },
};
