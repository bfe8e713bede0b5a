/**
 * The one registry of error codes. A code is stable: it is never renamed, reused for something else or given another
 * status. A new one is added here and nowhere else; the OpenAPI document and the tests read this table.
 */
export const errorCodes = {
  // Requests that cannot be read
  INVALID_JSON: { status: 400, when: "the body is not JSON" },
  INVALID_BODY: { status: 400, when: "the body is JSON, but a value in it has the wrong type or cannot be stored" },
  INVALID_QUERY: { status: 400, when: "a query parameter has the wrong type or range" },
  INVALID_ID: { status: 400, when: "an id in the body is not a UUID" },
  UNKNOWN_FIELD: { status: 400, when: "the body or the query has a key that the route does not know" },
  INVALID_REQUEST: { status: 400, when: "the request is not HTTP as RFC 9112 has it" },
  REQUEST_TIMEOUT: { status: 408, when: "the request did not arrive in time" },
  HEADERS_TOO_LARGE: { status: 431, when: "the headers of the request are larger than 16 KiB together" },
  TOO_MANY_CONNECTIONS: { status: 503, when: "there are too many open connections, in all or from one address" },
  INVALID_HOST: { status: 400, when: "the Host header is missing, or is not a host" },
  UNSUPPORTED_MEDIA_TYPE: {
    status: 415,
    when: "the Content-Type is not application/json, or the body has a Content-Encoding",
  },
  PAYLOAD_TOO_LARGE: { status: 413, when: "the body is larger than the route takes" },
  RATE_LIMITED: {
    status: 429,
    when:
      "too many requests in the last minute; Retry-After has the seconds to wait, details.scope the exceeded " +
      "budget",
  },
  // Authentication and access
  UNAUTHENTICATED: { status: 401, when: "no valid session or token came with the request" },
  FORBIDDEN: { status: 403, when: "the caller may not do this" },
  INSUFFICIENT_SCOPE: { status: 403, when: "the token lacks the scope that the route needs" },
  OWNER_REQUIRED: { status: 403, when: "only an owner of the organisation may do this" },
  CSRF_REJECTED: { status: 403, when: "a cookie-authenticated write came from another origin" },
  INVITATION_INVALID: { status: 400, when: "an invitation is unknown, used, revoked or expired" },
  INVITATION_FOR_ANOTHER: {
    status: 403,
    when: "the invitation was sent to another address than the one that is signed in",
  },
  SIGN_IN_LINK_INVALID: { status: 400, when: "a sign-in link is unknown, used or expired" },
  // Routes and resources
  NOT_FOUND: { status: 404, when: "no such route or resource" },
  METHOD_NOT_ALLOWED: { status: 405, when: "the path exists, but not with this method" },
  TARGET_NOT_FOUND: { status: 404, when: "no such target in this organisation" },
  CHANNEL_NOT_FOUND: { status: 404, when: "no such notification channel in this organisation" },
  INCIDENT_NOT_FOUND: { status: 404, when: "no such incident in this organisation" },
  EMPTY_TITLE: { status: 400, when: "a title has no visible character" },
  TITLE_TOO_LONG: { status: 400, when: "a title has more than 200 characters" },
  DESCRIPTION_TOO_LONG: { status: 400, when: "a description has more than 5000 characters" },
  EMPTY_MESSAGE: { status: 400, when: "the message of an update has no visible character" },
  MESSAGE_TOO_LONG: { status: 400, when: "the message of an update has more than 2000 characters" },
  DELIVERY_NOT_FOUND: { status: 404, when: "the incident has no such notification" },
  DELIVERY_NOT_DEAD: { status: 409, when: "a notification is to be sent again that has not failed" },
  DELIVERY_SUPERSEDED: { status: 409, when: "the channel has received a newer notification of the incident" },
  STATUS_PAGE_NOT_FOUND: { status: 404, when: "no such status page in this organisation" },
  COMPONENT_NOT_FOUND: { status: 404, when: "the monitor is not on this status page" },
  ORG_REQUIRED: { status: 400, when: "the token is not bound to an organisation, and the header X-Sm-Org names none" },
  ORG_NOT_FOUND: { status: 404, when: "no such organisation that the caller belongs to" },
  MEMBER_NOT_FOUND: { status: 404, when: "no such member of the organisation" },
  INVITATION_NOT_FOUND: { status: 404, when: "no such pending invitation of the organisation" },
  AUDIT_ENTRY_NOT_FOUND: { status: 404, when: "no such entry in the audit log of the organisation" },
  API_TOKEN_NOT_FOUND: { status: 404, when: "the caller has no such API token" },
  REGION_NOT_FOUND: { status: 404, when: "no such region" },
  AGENT_NOT_FOUND: { status: 404, when: "no such agent" },
  // Targets and checks
  EMPTY_NAME: { status: 400, when: "a name has no visible character" },
  INVALID_TAG: { status: 400, when: "a tag is empty, too long, or there are too many" },
  INVALID_URL_SCHEME: { status: 400, when: "the URL scheme is not one of the kind: http and https, or ws and wss" },
  INVALID_URL_FORMAT: { status: 400, when: "the URL is malformed, has no host, or carries credentials" },
  INVALID_HTTP_METHOD: { status: 400, when: "the HTTP method is not one that a check may send" },
  INVALID_HTTP_HEADER: { status: 400, when: "a header name or value cannot be sent" },
  INVALID_STATUS_RANGE: { status: 400, when: "expected_status is outside 100..599 or the range is reversed" },
  INVALID_TLS_CRED_COMBO: { status: 400, when: "verify_tls is false while the check carries credentials over https" },
  INVALID_INTERVAL: { status: 400, when: "the interval is not a whole number of seconds in range" },
  MIN_CHECK_INTERVAL: { status: 422, when: "the interval is below the floor of the plan or of the kind" },
  INVALID_TIMEOUT: { status: 400, when: "the timeout is not a whole number of milliseconds from 100 to 60000" },
  INVALID_TCP_PORT: { status: 400, when: "the port is not in 1..65535" },
  INVALID_TCP_HOST: { status: 400, when: "the host is empty or not a host name or address" },
  INVALID_TLS_CERT_PARAMS: {
    status: 400,
    when: "server_name is no host name, or warn_days is not more than critical_days",
  },
  INVALID_DNS_PARAMS: {
    status: 400,
    when: "the domain, the record type, the resolver or the expected text of a dns check cannot be used",
  },
  INVALID_DOMAIN_PARAMS: {
    status: 400,
    when: "domain is no registered domain, or warn_days is not more than critical_days",
  },
  INVALID_PATTERN: {
    status: 400,
    when: "a pattern is not RE2 syntax, or a path not JSONPath (RFC 9535); the message has the position",
  },
  INVALID_EXPECTATION: {
    status: 400,
    when: "an expectation has an unknown op, a value that does not fit it, or there are too many",
  },
  INVALID_THRESHOLD: {
    status: 400,
    when: "degraded_above_ms or down_above_ms is not in 1..timeout, or down_above_ms is not the larger",
  },
  INVALID_HEARTBEAT: {
    status: 400,
    when: "the period, schedule, grace or longest run of a heartbeat check, or one of its addresses, cannot be used",
  },
  HEARTBEAT_ADDRESS_TAKEN: { status: 409, when: "another monitor of the installation has this heartbeat address" },
  NOT_PROBED: { status: 422, when: "no agent probes the monitor: what it watches reports by itself" },
  INVALID_ALERT_CONFIG: { status: 400, when: "an alert binding or an alerting number is not valid" },
  INVALID_REGION_POLICY: { status: 422, when: "the count of the region policy is 0 or exceeds the available regions" },
  REGION_INVALID: { status: 422, when: "a region is unknown, disabled or listed twice, or there is none" },
  HISTORY_OVERLAP: { status: 400, when: "imported history reaches into the own results of its target" },
  BULK_EMPTY: { status: 400, when: "a bulk request is empty" },
  BULK_TOO_LARGE: { status: 413, when: "a bulk request has more than 10,000 items" },
  PRECONDITION_FAILED: { status: 412, when: "If-Match names an older state of what is changed" },
  CHECK_KIND_IMMUTABLE: { status: 400, when: "a PATCH tries to change the kind of a check" },
  SECRET_UNREADABLE: {
    status: 409,
    when: "a stored secret was sealed under a key that is not configured; details.pointer names it",
  },
  CREDENTIALS_REQUIRED: {
    status: 400,
    when: "an edit would send a stored secret to another or an unverified server; send every secret again or remove it",
  },
  REDACTION_SENTINEL: { status: 400, when: "a secret field still holds the mask ***" },
  SSRF_BLOCKED: { status: 400, when: "the address is private, local or reserved" },
  ABUSE_BLOCKED: { status: 400, when: "the request would harm this service or others; details.reason says how" },
  URL_PATTERN_BLOCKED: { status: 400, when: "the path of the URL is a recon path or listed by the operator" },
  DOMAIN_DENYLISTED: { status: 400, when: "the domain or a parent domain is on the operator's deny-list" },
  // Configuration as code
  UNRESOLVED_VARIABLE: { status: 400, when: "a text of a document has a variable that the client has not filled in" },
  UNKNOWN_REFERENCE: { status: 400, when: "a document names an object by a key or an id that there is not" },
  ADOPTION_REQUIRED: {
    status: 422,
    when: "a document declares an object whose name or slug one has that no file declares; adopt that one, or rename",
  },
  MANAGED_ELSEWHERE: { status: 409, when: "another project of configuration as code declares the object" },
  PLAN_STALE: {
    status: 409,
    when: "the plan token is of another document, organisation or day, or what the plan has read has changed since",
  },
  PRUNE_LIMIT: { status: 422, when: "an apply would delete more objects than max_delete allows" },
  BAD_TIME_RANGE: { status: 400, when: "to is not after from" },
  // Channels
  CHANNEL_NAME_TAKEN: { status: 422, when: "another channel of the organisation has this name" },
  CHANNEL_NAME_INVALID: {
    status: 400,
    when: "the channel name has no visible character, a control character, or over 100 characters",
  },
  INVALID_CHANNEL_CONFIG: { status: 400, when: "the channel configuration is not valid for its kind" },
  INVALID_ACTIVE_HOURS: { status: 400, when: "the active hours of a channel are not valid; the message says how" },
  CHANNEL_QUOTA_EXCEEDED: {
    status: 422,
    when: "the plan's limit of notification channels is reached; details have the limit and the current number",
  },
  CHANNEL_TEST_FAILED: { status: 422, when: "the test message could not be delivered" },
  CHANNEL_KIND_MANAGED: { status: 422, when: "channels of this kind are created by a link code only" },
  CHANNEL_UNVERIFIED: { status: 422, when: "the address of the email channel has not been confirmed" },
  CHANNEL_VERIFICATION_LIMIT: { status: 422, when: "too many verification mails were sent within a day" },
  CHANNEL_NOT_VERIFIABLE: { status: 422, when: "the kind of the channel needs no verification" },
  CHANNEL_LINK_INVALID: {
    status: 404,
    when: "a link of a mail or of an invitation to connect is unknown, used, revoked or expired",
  },
  TELEGRAM_LINK_NOT_FOUND: { status: 404, when: "no such code of the organisation, or no Telegram bot is configured" },
  TELEGRAM_LINK_LIMIT: { status: 422, when: "the organisation has the maximum number of pending Telegram codes" },
  WHATSAPP_LINK_NOT_FOUND: {
    status: 404,
    when: "no such code of the organisation, or no WhatsApp number is configured",
  },
  WHATSAPP_LINK_LIMIT: { status: 422, when: "the organisation has the maximum number of pending WhatsApp codes" },
  DELEGATE_LINK_NOT_FOUND: { status: 404, when: "no such pending delegation link of the organisation" },
  DELEGATE_LINK_LIMIT: { status: 422, when: "the organisation has the maximum number of pending delegation links" },
  DELEGATE_KIND_INVALID: { status: 400, when: "the channel kind is unknown, or cannot be connected by a link" },
  QUOTA_EXCEEDED: {
    status: 422,
    when: "a limit of the plan is reached; details have the quota, its limit and the current number",
  },
  // Organisations and credentials
  INVALID_EXPIRY: { status: 400, when: "expires_at is in the past, or too far ahead" },
  LAST_SIGN_IN_METHOD: { status: 409, when: "the user could no longer sign in without this provider" },
  MCP_TOKEN_READ_ONLY: { status: 422, when: "a token for MCP asks for a scope that is no read scope" },
  EMAIL_NOT_VERIFIED: { status: 403, when: "the address of the user is not verified, and the token needs that" },
  CONNECTED_APP_NOT_FOUND: { status: 404, when: "the id names no connected app of the caller in the organisation" },
  API_TOKENS_LIMIT: { status: 409, when: "the user has the maximum number of live API tokens" },
  INVITATIONS_LIMIT: { status: 409, when: "the organisation has the maximum number of pending invitations" },
  ALREADY_MEMBER: { status: 409, when: "the person is a member of the organisation already" },
  ALREADY_INVITED: { status: 409, when: "the address has a pending invitation already" },
  LAST_OWNER: { status: 409, when: "the organisation would be left without an owner" },
  // Status pages
  SLUG_TAKEN: { status: 409, when: "another status page, or another organisation, has this slug" },
  INVALID_SLUG: { status: 400, when: "the slug is not made of a-z, 0-9 and -, in the length that its field has" },
  COMPONENT_ALREADY_ON_PAGE: { status: 409, when: "the monitor is on this page already" },
  INVALID_COMPONENT_ID: {
    status: 400,
    when: "a listed component is unknown, missing or repeated, or those of a running maintenance window are changed",
  },
  STATUS_DATA_UNAVAILABLE: { status: 503, when: "the status page could not be computed yet" },
  INVALID_TIME_ZONE: { status: 400, when: "the time zone of the page is no IANA name" },
  INVALID_CUSTOM_DOMAIN: { status: 400, when: "the custom domain is no host name, or one of this service" },
  CUSTOM_DOMAIN_TAKEN: { status: 409, when: "another status page has proved the custom domain" },
  LOGO_FORMAT_UNSUPPORTED: { status: 415, when: "the logo is no PNG, JPEG or WebP image" },
  LOGO_TOO_MANY_PIXELS: { status: 413, when: "the logo has more pixels than are decoded" },
  LOGO_UNREADABLE: { status: 400, when: "the logo is damaged or incomplete" },
  // Share links
  SHARE_NOT_FOUND: { status: 404, when: "no live share link is there, or it is another organisation's" },
  SHARE_LABEL_INVALID: {
    status: 400,
    when: "the label has no visible character, a control character, or over 80 characters",
  },
  ACKNOWLEDGE_LINK_INVALID: {
    status: 404,
    when: "a link to acknowledge is incomplete, or its channel was disabled or deleted",
  },
  ACKNOWLEDGE_LINK_EXPIRED: { status: 410, when: "the incident of a link to acknowledge is over" },
  INCIDENT_ALREADY_OPEN: { status: 409, when: "the target has an open incident; details.incident_id names it" },
  SUBSCRIPTION_NOT_FOUND: { status: 404, when: "the link of a subscription is unknown, or the subscription ended" },
  SUBSCRIBER_NOT_FOUND: { status: 404, when: "the status page has no subscriber with this id" },
  // Maintenance
  SNOOZE_NOT_FOUND: { status: 404, when: "there is no such snooze in the organisation, or it has ended" },
  INVALID_DEPENDENCY: {
    status: 400,
    when: "a target that another depends on is not in the organisation, or there are more than ten",
  },
  DEPENDENCY_CYCLE: { status: 400, when: "a target would depend on itself, directly or over others" },
  INVALID_SNOOZE: { status: 400, when: "scope, end or reason of a snooze is invalid; the message says how" },
  REPORT_RECIPIENT_NOT_FOUND: { status: 404, when: "the organisation has no such recipient of reports" },
  INVALID_REPORT_RECIPIENT: {
    status: 400,
    when: "channel, status page or tag of a recipient of reports is invalid; the message says how",
  },
  UPDATE_TEMPLATE_NOT_FOUND: { status: 404, when: "no update template has this id, or it is another organisation's" },
  UPDATE_TEMPLATE_NAME_TAKEN: { status: 409, when: "an update template of this kind has the name" },
  MAINTENANCE_NOT_FOUND: { status: 404, when: "no maintenance window has this id, or it is another organisation's" },
  MAINTENANCE_COMPLETED: { status: 422, when: "the maintenance window has ended and can no longer be changed" },
  INVALID_TIME_RANGE: {
    status: 400,
    when: "a maintenance window or an incident ends before it starts, or the start of a running window is changed",
  },
  INVALID_DURATION: {
    status: 400,
    when: "a maintenance window is longer than 30 days, or than the time between two occurrences",
  },
  INVALID_RECURRENCE: {
    status: 400,
    when: "the recurrence rule is malformed or unsupported, its time zone is unknown, or it excludes the first start",
  },
  OCCURRENCE_NOT_FOUND: { status: 404, when: "the maintenance window has no occurrence with this id" },
  // Regions and agents
  REGION_ID_TAKEN: { status: 409, when: "another region has this id" },
  RESOURCE_IN_USE: { status: 409, when: "something still depends on the resource" },
  AGENT_PROTOCOL_MISMATCH: { status: 409, when: "the agent speaks another version of the protocol" },
  PROBE_UNAVAILABLE: {
    status: 503,
    when: "no agent serves the region, and none that starts or restarts has connected within 10 s",
  },
  PROBE_BUSY: { status: 503, when: "the agents of the region had no place for the run, or did not answer, in time" },
  INGEST_BUSY: { status: 503, when: "the ingest queue is full" },
  // The service itself
  SERVICE_STARTING: { status: 503, when: "the service is starting or draining" },
  DEPENDENCY_DOWN: { status: 503, when: "the database does not answer" },
  INTERNAL: { status: 500, when: "a defect in StatusMesh" },
} as const satisfies Record<string, { status: number; when: string }>;

export type ErrorCode = keyof typeof errorCodes;

/** True for a string that is a key of the registry; used to trust a code that rides on a schema node. */
export function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === "string" && Object.hasOwn(errorCodes, value);
}

/** Optional parts of an error. */
export interface ErrorExtras {
  /** RFC 6901 pointer into the body (`/check/url`) or `/query/<name>`. */
  field?: string | null;
  details?: Record<string, unknown> | null;
  /** Seconds for the Retry-After header. */
  retryAfterSecs?: number;
  cause?: unknown;
}

/** The one error class that reaches a caller. Anything else thrown becomes INTERNAL. */
export class AppError extends Error {
  override readonly name = "AppError";
  readonly code: ErrorCode;
  readonly status: number;
  readonly field: string | null;
  readonly details: Record<string, unknown> | null;
  readonly retryAfterSecs: number | null;

  constructor(code: ErrorCode, message: string, extras: ErrorExtras = {}) {
    super(message, extras.cause === undefined ? undefined : { cause: extras.cause });
    this.code = code;
    this.status = errorCodes[code].status;
    this.field = extras.field ?? null;
    this.details = extras.details ?? null;
    this.retryAfterSecs = extras.retryAfterSecs ?? null;
  }
}
