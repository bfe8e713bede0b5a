import Type, { type Static } from "typebox";
import { AppError } from "../errors.ts";
import { checkAll, Faults, rule } from "../faults.ts";
import type { FieldForm } from "../form.ts";
import { pointerSegment } from "../secrets.ts";
import { urlProblem } from "../url.ts";
import { type CheckKind, timeout } from "./kind.ts";
import { ShellError } from "./shell.ts";

const methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
/** Title of the collapsed part of the form. */
const section = "Advanced HTTP options";

const statusCode = Type.Integer({
  minimum: 100,
  maximum: 599,
  errorCode: "INVALID_STATUS_RANGE",
  description: "A status code",
  examples: [200],
});

const ExpectedStatus = Type.Union(
  [
    Type.Object(
      { kind: Type.Literal("exact"), value: statusCode },
      { additionalProperties: false, title: "ExactStatus", description: "One status code" },
    ),
    Type.Object(
      {
        kind: Type.Literal("range"),
        value: Type.Object(
          { min: statusCode, max: statusCode },
          { additionalProperties: false, description: "Both ends included" },
        ),
      },
      { additionalProperties: false, title: "StatusRange", description: "Every status code of a range" },
    ),
    Type.Object(
      {
        kind: Type.Literal("one_of"),
        value: Type.Array(statusCode, {
          minItems: 1,
          maxItems: 100,
          errorCode: "INVALID_STATUS_RANGE",
          description: "Any of these",
        }),
      },
      { additionalProperties: false, title: "StatusList", description: "Some status codes" },
    ),
  ],
  {
    default: { kind: "range", value: { min: 200, max: 299 } },
    discriminator: "kind",
    description: "Which status codes count as up",
    form: {
      section,
      label: "Accepted status codes",
      control: "status",
      hint: "200-299, or 200, or 200, 204, 301.",
      beside: true,
    },
  },
);
export type ExpectedStatus = Static<typeof ExpectedStatus>;

const nullableText = (maxLength: number, description: string, form: FieldForm) =>
  Type.Union([Type.String({ minLength: 1, maxLength }), Type.Null()], { default: null, description, form });

export const HttpCheck = Type.Object(
  {
    type: Type.Literal("http"),
    url: Type.String({
      minLength: 1,
      maxLength: 2048,
      errorCode: "INVALID_URL_FORMAT",
      description: "http or https",
      examples: ["https://shop.example.org/health"],
      form: { label: "URL", control: "url" },
    }),
    method: Type.String({
      minLength: 1,
      maxLength: 20,
      default: "GET",
      errorCode: "INVALID_HTTP_METHOD",
      description: "GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS",
      form: { section, options: Object.fromEntries(methods.map((method) => [method, method])) },
    }),
    timeout: timeout({ section, beside: true, hint: "Includes redirects." }),
    expected_status: ExpectedStatus,
    expected_body_contains: nullableText(1000, "Text that the first MiB of the body must contain", {
      section,
      label: "Response must contain",
      hint: "Searched in the first MiB. Empty accepts any body.",
    }),
    follow_redirects: Type.Boolean({
      default: true,
      description: "Whether the answer of the last hop counts, not that of the first",
      form: { section },
    }),
    max_redirects: Type.Integer({
      minimum: 0,
      maximum: 20,
      default: 5,
      description: "Hops before the run fails",
      form: { section, label: "Maximum redirects" },
    }),
    headers: Type.Record(Type.String(), Type.String({ maxLength: 8192 }), {
      default: {},
      maxProperties: 50,
      description:
        "Sent with the request; dropped when a redirect leaves the origin. Values read as ***, except those of " +
        "Accept, Content-Type, User-Agent and a few other headers that never authenticate",
      form: {
        section,
        placeholder: "Accept: application/json",
        hint: "One per line, name and value. Values are encrypted, except those of Accept, Content-Type and the like.",
        maskedHint:
          "One per line. *** is a stored value: leave the list unchanged to keep it, or enter every value again.",
      },
    }),
    body: nullableText(65_536, "Sent with the request, UTF-8", {
      section,
      control: "lines",
      hint: "Not for GET and HEAD. Set its Content-Type as a header.",
    }),
    verify_tls: Type.Boolean({
      default: true,
      description:
        "false accepts any certificate; over https not together with basic_auth, bearer_token or an " +
        "Authorization header",
      form: {
        section,
        label: "Verify the certificate",
        hint: "Off accepts any certificate. Not with credentials over https.",
      },
    }),
    basic_auth: Type.Union(
      [Type.Tuple([Type.String({ minLength: 1, maxLength: 255 }), Type.String({ maxLength: 1024 })]), Type.Null()],
      {
        default: null,
        description: "User and password; the password reads as ***",
        form: { section, label: "Credentials", view: { name: "targets/fields/credentials", with: ["bearer_token"] } },
      },
    ),
    bearer_token: nullableText(8192, "Sent as Authorization: Bearer; reads as ***", {}),
    capture_failures: Type.Boolean({
      default: true,
      description:
        "Whether status line, headers and the first KiB of the body of a failed response are kept for members, " +
        "30 days, with secrets masked",
      form: {
        section,
        label: "Keep failed responses",
        hint: "The response of the first failed check is shown with the incident for 30 days. Secrets are masked.",
      },
    }),
  },
  { additionalProperties: false, title: "HttpCheck", description: "Requests a URL and verifies the response" },
);
export type HttpCheck = Static<typeof HttpCheck>;

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
/** Names that versions up to 0.1 recognised as secrets; other values they stored unsealed. */
const sealedBefore = /authorization|cookie|token|secret|password|api-?key|signature|credential/i;

const isSecretHeader = (name: string): boolean => !harmlessHeaders.has(name.toLowerCase());
const headerPointer = (name: string): string => `/headers/${pointerSegment(name)}`;

/**
 * Throws INVALID_URL_SCHEME for a scheme other than http and https; a text without a scheme is left to another rule.
 */
function schemeRule(scheme: string | undefined): void {
  if (scheme !== undefined && scheme !== "http" && scheme !== "https")
    throw new AppError("INVALID_URL_SCHEME", `The scheme "${scheme}" cannot be checked. Use http or https.`, {
      field: "/url",
    });
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
function credentialsRule(url: URL): void {
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
function headersRule(headers: HttpCheck["headers"]): void {
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
    if (message !== null) faults.add(new AppError("INVALID_HTTP_HEADER", message, { field: headerPointer(name) }));
  }
  faults.throwAny();
}

const isHttps = (url: string): boolean => URL.canParse(url) && new URL(url).protocol === "https:";

const authenticates = ({ basic_auth, bearer_token, headers }: HttpCheck): boolean =>
  basic_auth !== null ||
  bearer_token !== null ||
  Object.keys(headers).some((name) => credentialHeaders.has(name.toLowerCase()));

function statusFrom(text: string): unknown {
  if (/^\d{1,9}$/.test(text)) return { kind: "exact", value: Number(text) };
  const [, min, max] = /^(\d{1,9})-(\d{1,9})$/.exec(text) ?? [];
  if (min !== undefined) return { kind: "range", value: { min: Number(min), max: Number(max) } };
  if (/^\d{1,9}(,\d{1,9})+$/.test(text)) return { kind: "one_of", value: text.split(",").map(Number) };
  throw new ShellError(`must be a status code, a range or a list: 200, 200-299 or 200,204, and not "${text}"`);
}

function headersFrom(lines: readonly string[]): unknown {
  const headers = new Map<string, string>();
  for (const line of lines) {
    const at = line.indexOf(":");
    const name = line.slice(0, Math.max(0, at)).trim();
    // A line without a colon is not repeated in the error: it may be a secret.
    if (name === "")
      throw new ShellError("must have a name and a value with a colon between them, for example 'accept: text/html'");
    if (headers.has(name)) throw new ShellError(`has "${name}" twice`);
    headers.set(name, line.slice(at + 1).trim());
  }
  return Object.fromEntries(headers);
}

function userAndPassword(text: string): unknown {
  const at = text.indexOf(":");
  if (at < 1) throw new ShellError("must have a user and a password with a colon between them");
  return [text.slice(0, at), text.slice(at + 1)];
}

export const http: CheckKind<typeof HttpCheck> = {
  type: "http",
  label: "HTTP",
  schema: HttpCheck,
  minIntervalSecs: 10,
  defaultIntervalSecs: 60,

  rules(spec) {
    const { method, expected_status: expected, bearer_token: bearer } = spec;
    checkAll(
      () => urlRule(spec.url),
      () => methodRule(method),
      rule(
        expected.kind !== "range" || expected.value.min <= expected.value.max,
        "INVALID_STATUS_RANGE",
        "The smallest accepted status is above the largest. Swap min and max.",
        "/expected_status/value",
      ),
      () => headersRule(spec.headers),
      rule(
        spec.basic_auth === null || bearer === null,
        "INVALID_BODY",
        "basic_auth and bearer_token both set the Authorization header. Set one to null.",
        "/bearer_token",
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
        "Credentials are not sent to a server whose certificate is not verified. Set verify_tls to true or " +
          "remove the credentials.",
        "/verify_tls",
      ),
      rule(
        spec.body === null || (method !== "GET" && method !== "HEAD"),
        "INVALID_BODY",
        `A ${method} request carries no body. Use POST, or set body to null.`,
        "/body",
      ),
    );
  },

  destination(spec) {
    const url = new URL(spec.url);
    schemeRule(url.protocol.slice(0, -1));
    credentialsRule(url);
    return {
      host: url.hostname.replace(/^\[|\]$/g, "").replace(/(?<=.)\.$/, ""),
      port: url.port === "" ? (url.protocol === "https:" ? 443 : 80) : Number(url.port),
      pointer: "/url",
    };
  },

  url: (spec) => new URL(spec.url),

  mapSecrets(spec, change) {
    const headers = Object.fromEntries(
      Object.entries(spec.headers).map(([name, value]) => [
        name,
        isSecretHeader(name) ? change(value, headerPointer(name)) : value,
      ]),
    );
    return {
      ...spec,
      headers,
      basic_auth: spec.basic_auth === null ? null : [spec.basic_auth[0], change(spec.basic_auth[1], "/basic_auth/1")],
      bearer_token: spec.bearer_token === null ? null : change(spec.bearer_token, "/bearer_token"),
    };
  },

  formerlyPlain: (pointer) => pointer.startsWith("/headers/") && !sealedBefore.test(pointer.slice("/headers/".length)),

  secretsGoTo(spec) {
    const url = new URL(spec.url);
    const host = url.hostname.replace(/(?<=.)\.$/, "");
    const port = url.port === "" ? (url.protocol === "https:" ? "443" : "80") : url.port;
    // Behind a shared address (CDN, ingress) the Host header decides which server answers.
    const virtual = Object.entries(spec.headers).find(([name]) => name.toLowerCase() === "host")?.[1] ?? "";
    return { origin: `${url.protocol}//${host}:${port} ${virtual.toLowerCase()}`, verified: spec.verify_tls };
  },

  shell: {
    subject: "<url>",
    read: (subject) => ({ url: subject }),
    options: {
      method: { read: ([text = ""]) => text.toUpperCase() },
      expected_status: {
        name: "expect-status",
        takes: "200 | 200-299 | 200,204",
        read: ([text = ""]) => statusFrom(text),
      },
      expected_body_contains: { name: "contains" },
      headers: {
        name: "header",
        words: "header of the request; may be repeated",
        takes: "name: value",
        repeated: true,
        secret: "some",
        read: headersFrom,
      },
      capture_failures: { words: "do not print the response of a failed check" },
      follow_redirects: { words: "judge the first answer, also where it redirects" },
      verify_tls: { words: "accept any certificate" },
      basic_auth: { words: "user:password", secret: "always", read: ([text = ""]) => userAndPassword(text) },
      bearer_token: { words: "sent as Authorization: Bearer", secret: "always" },
    },
  },

  summary: (spec) => `${spec.method} ${spec.url}`,
  searchText: (spec) => spec.url,
};
