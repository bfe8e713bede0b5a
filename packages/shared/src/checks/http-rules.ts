import { AppError } from "../errors.ts";
import { checkAll, Faults, rule } from "../schema/faults.ts";
import { pointerSegment } from "../secrets.ts";
import { urlProblem } from "../url.ts";
import { expectationRule, pathRule, patternRule } from "./expectations.ts";
import { PatternCheck } from "./patterns.ts";
import { type HttpCheck, methods } from "./http-spec.ts";
import { canonicalHost } from "./host.ts";
import { credentialsUnverified, ipVersionRule, thresholdRules } from "./kind.ts";

/**
 * Headers that the client sets itself, or that change the framing of the message (RFC 9110 section 7.6.1, RFC 9112
 * section 6).
 */
const ownHeaders = new Set([
  "connection",
  "content-length",
  "expect",
  "http2-settings",
  "keep-alive",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);
const headerName = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}$/;
/** Field values: visible ASCII, space, tab and obs-text (RFC 9110 section 5.5), as Node sends them. */
const headerValue = /^[\t\x20-\x7e\x80-\xff]*$/;
/** Headers without credentials. The value of any other header is a secret: names of vendors' keys cannot be listed. */
const harmlessHeaders = new Set([
  "accept",
  "accept-charset",
  "accept-encoding",
  "accept-language",
  "cache-control",
  "content-type",
  "origin",
  "pragma",
  "referer",
  "user-agent",
  "x-requested-with",
]);
/** Authentication headers of HTTP (RFC 9110 sections 11.6.2 and 11.7.2). */
const credentialHeaders = new Set(["authorization", "proxy-authorization"]);

export const isSecretHeader = (name: string): boolean => !harmlessHeaders.has(name.toLowerCase());
/** Whether a header of a check can be sent, and is not written by the agent itself. */
export const isSendableHeader = (name: string, value: string): boolean =>
  headerName.test(name) && headerValue.test(value) && !ownHeaders.has(name.toLowerCase());
const headerPointer = (name: string, field = "headers"): string => `/${field}/${pointerSegment(name)}`;

/** Returns a copy with `change` applied to the value of every secret header. `pointer` names it in the check. */
export const mapHeaderSecrets = (
  headers: HttpCheck["headers"],
  change: (secret: string, pointer: string) => string,
  field?: string,
): HttpCheck["headers"] =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name,
      isSecretHeader(name) ? change(value, headerPointer(name, field)) : value,
    ]),
  );

/**
 * Throws INVALID_URL_SCHEME for a scheme other than http and https; a text without a scheme is left to another rule.
 */
export function schemeRule(scheme: string | undefined): void {
  if (scheme !== undefined && scheme !== "http" && scheme !== "https")
    throw new AppError(
      "INVALID_URL_SCHEME",
      `Start with http:// or https://. The scheme "${scheme}" cannot be checked.`,
      {
        field: "/url",
      },
    );
}

/** Throws an AppError for an invalid URL of a check. */
function urlRule(text: string): URL {
  const refuse = (message: string) => new AppError("INVALID_URL_FORMAT", message, { field: "/url" });
  schemeRule(/^([a-z][a-z\d+.-]*):/i.exec(text)?.[1]?.toLowerCase());
  const problem = urlProblem(text);
  if (problem !== null) throw refuse(problem);
  const url = new URL(text);
  if (url.port === "0") throw refuse("Port 0 cannot be connected to. Use 1 to 65535.");
  credentialsRule(url);
  return url;
}

/** Throws INVALID_URL_FORMAT for a URL with credentials, which would appear in lists and logs. */
export function credentialsRule(url: URL): void {
  if (url.username === "" && url.password === "") return;
  throw new AppError(
    "INVALID_URL_FORMAT",
    "Credentials do not belong in the URL. Use the Credentials section (basic_auth).",
    { field: "/url" },
  );
}

function methodRule(method: string): void {
  if (!methods.includes(method))
    throw new AppError("INVALID_HTTP_METHOD", `"${method}" cannot be sent. Use one of ${methods.join(", ")}.`, {
      field: "/method",
    });
}

/** Throws INVALID_HTTP_HEADER for every header that cannot be sent, or that the agent writes itself. */
export function headersRule(headers: HttpCheck["headers"], field?: string): void {
  const faults = new Faults();
  const seen = new Set<string>();
  for (const [name, value] of Object.entries(headers)) {
    const lower = name.toLowerCase();
    const message = !headerName.test(name)
      ? "A header name has 1 to 128 letters, digits and -_.!#$%&'*+^`|~."
      : ownHeaders.has(lower)
        ? `"${name}" is written by the agent and cannot be set.`
        : seen.has(lower)
          ? `"${name}" is there twice.`
          : headerValue.test(value)
            ? null
            : `The value of "${name}" has a line break or a character that cannot be sent.`;
    seen.add(lower);
    if (message !== null)
      faults.add(new AppError("INVALID_HTTP_HEADER", message, { field: headerPointer(name, field) }));
  }
  faults.throwAny();
}

const isHttps = (url: string): boolean => URL.canParse(url) && new URL(url).protocol === "https:";

const authenticates = ({ basic_auth, bearer_token, headers }: HttpCheck): boolean =>
  basic_auth !== null ||
  bearer_token !== null ||
  Object.keys(headers).some((name) => credentialHeaders.has(name.toLowerCase()));

/** Throws INVALID_PATTERN and INVALID_EXPECTATION for what no response could be compared with. */
function expectationRules(spec: HttpCheck): void {
  const patterns = new PatternCheck();
  checkAll(
    () => patternRule(spec.expected_body_matches, "/expected_body_matches", patterns),
    () => patternRule(spec.expected_body_not_matches, "/expected_body_not_matches", patterns),
    ...spec.expected_json.flatMap((one, at) => [
      () => pathRule(one.path, `/expected_json/${at}/path`, patterns),
      () => expectationRule(one, `/expected_json/${at}`, { patterns, isHeader: false }),
    ]),
    ...spec.expected_headers.flatMap((one, at) => [
      rule(
        headerName.test(one.name),
        "INVALID_HTTP_HEADER",
        "A header name has 1 to 128 letters, digits and -_.!#$%&'*+^`|~.",
        `/expected_headers/${at}/name`,
      ),
      () => expectationRule(one, `/expected_headers/${at}`, { patterns, isHeader: true }),
    ]),
  );
}

/** Rules of an HTTP check beyond its schema. Throws AppError with every violation. */
export function httpRules(spec: HttpCheck): void {
  const { method, expected_status: expected, bearer_token: bearer } = spec;
  checkAll(
    () => urlRule(spec.url),
    () => ipVersionRule(canonicalHost(urlRule(spec.url).hostname), spec.ip_version, "INVALID_URL_FORMAT"),
    () => methodRule(method),
    rule(
      expected.kind !== "range" || expected.value.min <= expected.value.max,
      "INVALID_STATUS_RANGE",
      "The smallest accepted status is above the largest. Swap min and max.",
      "/expected_status/value",
    ),
    () => headersRule(spec.headers),
    () => expectationRules(spec),
    () => thresholdRules(spec),
    rule(
      spec.basic_auth === null || bearer === null,
      "INVALID_BODY",
      "basic_auth and bearer_token both set the Authorization header. Set one to null.",
      "/bearer_token",
    ),
    rule(
      spec.auth_scheme === "basic" || spec.basic_auth !== null,
      "INVALID_BODY",
      "auth_scheme digest needs the user and the password in basic_auth.",
      "/auth_scheme",
    ),
    rule(
      spec.basic_auth?.[0].includes(":") !== true,
      "INVALID_BODY",
      "A user name for basic_auth cannot contain a colon (RFC 7617).",
      "/basic_auth/0",
    ),
    rule(
      bearer === null || /^[\x21-\x7e]+$/.test(bearer),
      "INVALID_BODY",
      "A bearer token has visible ASCII characters only.",
      "/bearer_token",
    ),
    rule(
      spec.verify_tls || !isHttps(spec.url) || !authenticates(spec),
      "INVALID_TLS_CRED_COMBO",
      `${credentialsUnverified} or remove the credentials.`,
      "/verify_tls",
    ),
    rule(
      spec.body === null || (method !== "GET" && method !== "HEAD"),
      "INVALID_BODY",
      `A ${method} request carries no body. Use POST, or set body to null.`,
      "/body",
    ),
  );
}
