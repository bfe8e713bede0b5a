/**
 * The one registry of error codes. A code is stable: it is never renamed, reused for something else or given another
 * status. A new one is added here and nowhere else; the OpenAPI document and the tests read this table.
 */
const registry = {
  // Requests that cannot be read
  INVALID_JSON: [400, "the body is not JSON"],
  INVALID_BODY: [400, "the body is JSON, but a value in it has the wrong type or cannot be stored"],
  INVALID_QUERY: [400, "a query parameter has the wrong type or range"],
  INVALID_ID: [400, "an id in the body is not a UUID"],
  UNKNOWN_FIELD: [400, "the body or the query has a key that the route does not know"],
  INVALID_REQUEST: [400, "the request is not HTTP as RFC 9112 has it"],
  REQUEST_TIMEOUT: [408, "the request did not arrive in time"],
  HEADERS_TOO_LARGE: [431, "the headers of the request are larger than 16 KiB together"],
  TOO_MANY_CONNECTIONS: [503, "there are too many open connections, in all or from one address"],
  INVALID_HOST: [400, "the Host header is missing, or is not a host"],
  UNSUPPORTED_MEDIA_TYPE: [415, "the Content-Type is not application/json, or the body has a Content-Encoding"],
  PAYLOAD_TOO_LARGE: [413, "the body is larger than the route takes"],
  RATE_LIMITED: [
    429,
    "too many requests in the last minute; Retry-After has the seconds to wait, details.scope the exceeded budget",
  ],
  // Authentication and access
  UNAUTHENTICATED: [401, "no valid session or token came with the request"],
  INVALID_CREDENTIALS: [401, "the address, the password, the present password or the passkey is wrong"],
  PASSKEY_INVALID: [400, "the response of a new passkey is malformed, used, or of another browser, origin or host"],
  CODE_REQUIRED: [401, "the first factor was right; the code of the second factor completes the sign-in"],
  CODE_INVALID: [401, "the code of the second factor is wrong or was used already"],
  FRESH_SIGN_IN_REQUIRED: [403, "the change needs a factor that was proven in the session within 15 minutes"],
  WEAK_PASSWORD: [
    400,
    "the password is too short, too long, among the most used, or made of what is known of the person",
  ],
  FORBIDDEN: [403, "the caller may not do this"],
  INSUFFICIENT_SCOPE: [403, "the token lacks the scope that the route needs"],
  OWNER_REQUIRED: [403, "only an owner of the organisation may do this"],
  CSRF_REJECTED: [403, "a cookie-authenticated write came from another origin"],
  INVITATION_INVALID: [400, "an invitation is unknown, used, revoked or expired"],
  INVITATION_FOR_ANOTHER: [403, "the invitation was sent to another address than the one that is signed in"],
  SIGN_IN_LINK_INVALID: [400, "a sign-in link is unknown, used or expired"],
  // Routes and resources
  NOT_FOUND: [404, "no such route or resource"],
  METHOD_NOT_ALLOWED: [405, "the path exists, but not with this method"],
  TARGET_NOT_FOUND: [404, "no such target in this organisation"],
  CHANNEL_NOT_FOUND: [404, "no such notification channel in this organisation"],
  INCIDENT_NOT_FOUND: [404, "no such incident in this organisation"],
  EMPTY_TITLE: [400, "a title has no visible character"],
  TITLE_TOO_LONG: [400, "a title has more than 200 characters"],
  DESCRIPTION_TOO_LONG: [400, "a description has more than 5000 characters"],
  EMPTY_MESSAGE: [400, "the message of an update has no visible character"],
  MESSAGE_TOO_LONG: [400, "the message of an update has more than 2000 characters"],
  DELIVERY_NOT_FOUND: [404, "the incident has no such notification"],
  DELIVERY_NOT_DEAD: [409, "a notification is to be sent again that has not failed"],
  DELIVERY_SUPERSEDED: [409, "the channel has received a newer notification of the incident"],
  PAGE_ACCESS: [401, "the status page is private, and this visitor has no access to it"],
  READER_TOKEN_NOT_FOUND: [404, "the status page has no such reader token"],
  READER_TOKENS_LIMIT: [409, "the status page has the maximum number of reader tokens"],
  STATUS_PAGE_NOT_FOUND: [404, "no such status page in this organisation"],
  COMPONENT_NOT_FOUND: [404, "the monitor is not on this status page"],
  ORG_REQUIRED: [400, "the token is not bound to an organisation, and the header X-Sm-Org names none"],
  ORG_NOT_FOUND: [404, "no such organisation that the caller belongs to"],
  MEMBER_NOT_FOUND: [404, "no such member of the organisation"],
  INVITATION_NOT_FOUND: [404, "no such pending invitation of the organisation"],
  AUDIT_ENTRY_NOT_FOUND: [404, "no such entry in the audit log of the organisation"],
  API_TOKEN_NOT_FOUND: [404, "the caller has no such API token"],
  REGION_NOT_FOUND: [404, "no such region"],
  AGENT_NOT_FOUND: [404, "no such agent"],
  // Targets and checks
  EMPTY_NAME: [400, "a name has no visible character"],
  INVALID_TAG: [400, "a tag is empty, too long, or there are too many"],
  INVALID_URL_SCHEME: [400, "the URL scheme is not one of the kind: http and https, or ws and wss"],
  INVALID_URL_FORMAT: [400, "the URL is malformed, has no host, or carries credentials"],
  INVALID_HTTP_METHOD: [400, "the HTTP method is not one that a check may send"],
  INVALID_HTTP_HEADER: [400, "a header name or value cannot be sent"],
  INVALID_STATUS_RANGE: [400, "expected_status is outside 100..599 or the range is reversed"],
  INVALID_TLS_CRED_COMBO: [400, "verify_tls is false while the check carries credentials over https"],
  INVALID_INTERVAL: [400, "the interval is not a whole number of seconds in range"],
  MIN_CHECK_INTERVAL: [422, "the interval is below the floor of the plan or of the kind"],
  INVALID_TIMEOUT: [400, "the timeout is not a whole number of milliseconds from 100 to 60000"],
  INVALID_TCP_PORT: [400, "the port is not in 1..65535"],
  INVALID_TCP_HOST: [400, "the host is empty or not a host name or address"],
  INVALID_TLS_CERT_PARAMS: [
    400,
    "server_name is no host name, warn_days is not more than critical_days, or certificates names none of the kind",
  ],
  INVALID_DNS_PARAMS: [
    400,
    "the domain, the record type, the resolver or the expected text of a dns check cannot be used",
  ],
  INVALID_DOMAIN_PARAMS: [400, "domain is no registered domain, or warn_days is not more than critical_days"],
  INVALID_PATTERN: [
    400,
    "a pattern is not RE2 syntax, or a path not JSONPath (RFC 9535); the message has the position",
  ],
  INVALID_EXPECTATION: [400, "an expectation has an unknown op, a value that does not fit it, or there are too many"],
  INVALID_THRESHOLD: [
    400,
    "degraded_above_ms or down_above_ms is not in 1..timeout, or down_above_ms is not the larger",
  ],
  INVALID_HEARTBEAT: [
    400,
    "the period, schedule, grace or longest run of a heartbeat check, or one of its addresses, cannot be used",
  ],
  INVALID_GROUP: [400, "a member of a group is listed twice or does not exist, or its rule cannot be used"],
  GROUP_TOO_DEEP: [400, "more than 4 groups would stand above each other"],
  GROUP_CYCLE: [400, "a group would be a member of itself, directly, over other groups or by a tag"],
  HEARTBEAT_ADDRESS_TAKEN: [409, "another monitor of the installation has this heartbeat address"],
  NOT_PROBED: [422, "no agent probes the monitor: jobs report to it, or it follows from its members"],
  INVALID_ALERT_CONFIG: [400, "an alert binding or an alerting number is not valid"],
  INVALID_REGION_POLICY: [422, "the count of the region policy is 0 or exceeds the available regions"],
  REGION_INVALID: [422, "a region is unknown, disabled or listed twice, or there is none"],
  HISTORY_OVERLAP: [400, "imported history reaches into the own results of its target"],
  BULK_EMPTY: [400, "a bulk request is empty"],
  BULK_TOO_LARGE: [413, "a bulk request has more than 10,000 items"],
  PRECONDITION_FAILED: [412, "If-Match names an older state of what is changed"],
  CHECK_KIND_IMMUTABLE: [400, "a PATCH tries to change the kind of a check"],
  SECRET_UNREADABLE: [409, "a stored secret was sealed under a key that is not configured; details.pointer names it"],
  CREDENTIALS_REQUIRED: [
    400,
    "an edit would send a stored secret to another or an unverified server; send every secret again or remove it",
  ],
  REDACTION_SENTINEL: [400, "a secret field still holds the mask ***"],
  SSRF_BLOCKED: [400, "the address is private, local or reserved"],
  ABUSE_BLOCKED: [400, "the request would harm this service or others; details.reason says how"],
  URL_PATTERN_BLOCKED: [400, "the path of the URL is a recon path or listed by the operator"],
  DOMAIN_DENYLISTED: [400, "the domain or a parent domain is on the operator's deny-list"],
  // Configuration as code
  UNRESOLVED_VARIABLE: [400, "a text of a document has a variable that the client has not filled in"],
  UNKNOWN_REFERENCE: [400, "a document names an object by a key or an id that there is not"],
  ADOPTION_REQUIRED: [
    422,
    "a document declares an object whose name or slug one has that no file declares; adopt that one, or rename",
  ],
  MANAGED_ELSEWHERE: [409, "another project of configuration as code declares the object"],
  PLAN_STALE: [
    409,
    "the plan token is of another document, organisation or day, or what the plan has read has changed since",
  ],
  SOURCE_IN_USE: [409, "another writer, such as a second discovery, has the project until its lease ends"],
  PRUNE_LIMIT: [422, "an apply would delete more objects than max_delete allows"],
  BAD_TIME_RANGE: [400, "to is not after from"],
  // Channels
  CHANNEL_NAME_TAKEN: [422, "another channel of the organisation has this name"],
  CHANNEL_NAME_INVALID: [400, "the channel name has no visible character, a control character, or over 100 characters"],
  INVALID_CHANNEL_CONFIG: [400, "the channel configuration is not valid for its kind"],
  INVALID_ACTIVE_HOURS: [400, "the active hours of a channel are not valid; the message says how"],
  CHANNEL_QUOTA_EXCEEDED: [
    422,
    "the plan's limit of notification channels is reached; details have the limit and the current number",
  ],
  CHANNEL_TEST_FAILED: [422, "the test message could not be delivered"],
  CHANNEL_KIND_MANAGED: [422, "channels of this kind are created by a link code only"],
  CHANNEL_UNVERIFIED: [422, "the address of the email channel has not been confirmed"],
  CHANNEL_VERIFICATION_LIMIT: [422, "too many verification mails were sent within a day"],
  CHANNEL_NOT_VERIFIABLE: [422, "the kind of the channel needs no verification"],
  CHANNEL_LINK_INVALID: [404, "a link of a mail or of an invitation to connect is unknown, used, revoked or expired"],
  TELEGRAM_LINK_NOT_FOUND: [404, "no such code of the organisation, or no Telegram bot is configured"],
  TELEGRAM_LINK_LIMIT: [422, "the organisation has the maximum number of pending Telegram codes"],
  WHATSAPP_LINK_NOT_FOUND: [404, "no such code of the organisation, or no WhatsApp number is configured"],
  WHATSAPP_LINK_LIMIT: [422, "the organisation has the maximum number of pending WhatsApp codes"],
  DELEGATE_LINK_NOT_FOUND: [404, "no such pending delegation link of the organisation"],
  DELEGATE_LINK_LIMIT: [422, "the organisation has the maximum number of pending delegation links"],
  DELEGATE_KIND_INVALID: [400, "the channel kind is unknown, or cannot be connected by a link"],
  QUOTA_EXCEEDED: [422, "a limit of the plan is reached; details have the quota, its limit and the current number"],
  // Organisations and credentials
  INVALID_EXPIRY: [400, "expires_at is in the past, or too far ahead"],
  LAST_SIGN_IN_METHOD: [409, "the user could no longer sign in without this provider"],
  MCP_TOKEN_READ_ONLY: [422, "a token for MCP asks for a scope that is no read scope"],
  EMAIL_NOT_VERIFIED: [403, "the address of the user is not verified, and the token needs that"],
  CONNECTED_APP_NOT_FOUND: [404, "the id names no connected app of the caller in the organisation"],
  PASSKEYS_LIMIT: [409, "the user has the maximum number of passkeys"],
  API_TOKENS_LIMIT: [409, "the user has the maximum number of live API tokens"],
  INVITATIONS_LIMIT: [409, "the organisation has the maximum number of pending invitations"],
  ALREADY_MEMBER: [409, "the person is a member of the organisation already"],
  ALREADY_INVITED: [409, "the address has a pending invitation already"],
  LAST_OWNER: [409, "the organisation would be left without an owner"],
  // Status pages
  SLUG_TAKEN: [409, "another status page, or another organisation, has this slug"],
  INVALID_CSS: [400, "the style sheet is too long, no CSS, or would load something"],
  INVALID_SLUG: [400, "the slug is not made of a-z, 0-9 and -, in the length that its field has"],
  COMPONENT_ALREADY_ON_PAGE: [409, "the monitor is on this page already"],
  INVALID_COMPONENT_ID: [
    400,
    "a listed component is unknown, missing or repeated, or those of a running maintenance window are changed",
  ],
  STATUS_DATA_UNAVAILABLE: [503, "the status page could not be computed yet"],
  INVALID_TIME_ZONE: [400, "the time zone of the page is no IANA name"],
  INVALID_CUSTOM_DOMAIN: [400, "the custom domain is no host name, or one of this service"],
  CUSTOM_DOMAIN_TAKEN: [409, "another status page has proved the custom domain"],
  LOGO_FORMAT_UNSUPPORTED: [415, "the logo is no PNG, JPEG or WebP image"],
  LOGO_TOO_MANY_PIXELS: [413, "the logo has more pixels than are decoded"],
  LOGO_UNREADABLE: [400, "the logo is damaged or incomplete"],
  // Share links
  SHARE_NOT_FOUND: [404, "no live share link is there, or it is another organisation's"],
  SHARE_LABEL_INVALID: [400, "the label has no visible character, a control character, or over 80 characters"],
  ACKNOWLEDGE_LINK_INVALID: [404, "a link to acknowledge is incomplete, or its channel was disabled or deleted"],
  ACKNOWLEDGE_LINK_EXPIRED: [410, "the incident of a link to acknowledge is over"],
  INCIDENT_ALREADY_OPEN: [409, "the target has an open incident; details.incident_id names it"],
  SUBSCRIPTION_NOT_FOUND: [404, "the link of a subscription is unknown, or the subscription ended"],
  SUBSCRIBER_NOT_FOUND: [404, "the status page has no subscriber with this id"],
  // Maintenance
  SNOOZE_NOT_FOUND: [404, "there is no such snooze in the organisation, or it has ended"],
  INVALID_DEPENDENCY: [400, "a target that another depends on is not in the organisation, or there are more than ten"],
  DEPENDENCY_CYCLE: [400, "a target would depend on itself, directly or over others"],
  INVALID_SNOOZE: [400, "scope, end or reason of a snooze is invalid; the message says how"],
  REPORT_RECIPIENT_NOT_FOUND: [404, "the organisation has no such recipient of reports"],
  INVALID_REPORT_RECIPIENT: [
    400,
    "channel, status page or tag of a recipient of reports is invalid; the message says how",
  ],
  CERTIFICATE_NOT_FOUND: [404, "no certificate has this id, or it is another organisation's"],
  CERTIFICATE_NAME_TAKEN: [409, "a certificate of the organisation has the name"],
  CERTIFICATE_IN_USE: [409, "targets name the certificate; details.targets lists the first of them"],
  CERTIFICATE_KEY_MISMATCH: [422, "the private key does not belong to the certificate"],
  INVALID_CERTIFICATE: [400, "a certificate, its private key or its passphrase cannot be used; the message says why"],
  UPDATE_TEMPLATE_NOT_FOUND: [404, "no update template has this id, or it is another organisation's"],
  UPDATE_TEMPLATE_NAME_TAKEN: [409, "an update template of this kind has the name"],
  MAINTENANCE_NOT_FOUND: [404, "no maintenance window has this id, or it is another organisation's"],
  MAINTENANCE_ENDED: [422, "the last occurrence of the recurrence rule has ended"],
  MAINTENANCE_COMPLETED: [422, "the maintenance window has ended and can no longer be changed"],
  INVALID_TIME_RANGE: [
    400,
    "a maintenance window or an incident ends before it starts, or the start of a running window is changed",
  ],
  INVALID_DURATION: [400, "a maintenance window is longer than 30 days, or than the time between two occurrences"],
  INVALID_RECURRENCE: [
    400,
    "the recurrence rule is malformed or unsupported, its time zone is unknown, or it excludes the first start",
  ],
  OCCURRENCE_NOT_FOUND: [404, "the maintenance window has no occurrence with this id"],
  // Regions and agents
  REGION_ID_TAKEN: [409, "another region has this id"],
  RESOURCE_IN_USE: [409, "something still depends on the resource"],
  AGENT_PROTOCOL_MISMATCH: [409, "the agent speaks another version of the protocol"],
  PROBE_UNAVAILABLE: [503, "no agent serves the region, and none that starts or restarts has connected within 10 s"],
  PROBE_BUSY: [503, "the agents of the region had no place for the run, or did not answer, in time"],
  INGEST_BUSY: [503, "the ingest queue is full"],
  // The service itself
  SERVICE_STARTING: [503, "the service is starting or draining"],
  DEPENDENCY_DOWN: [503, "the database does not answer"],
  CIRCUIT_OPEN: [
    503,
    "reserved: an open circuit breaker is the error `circuit_open` of a result, and refuses no request",
  ],
  INTERNAL: [500, "a defect in StatusMesh"],
} as const satisfies Record<string, readonly [status: number, when: string]>;

export type ErrorCode = keyof typeof registry;

/** Codes of the specification that no request is answered with. */
export const reservedCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>(["CIRCUIT_OPEN"]);

/** Status of each code, and when it is answered. */
export const errorCodes = Object.fromEntries(
  Object.entries(registry).map(([code, [status, when]]) => [code, { status, when }]),
) as Record<ErrorCode, { status: number; when: string }>;

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
