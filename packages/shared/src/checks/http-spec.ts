import Type, { type Static } from "typebox";
import type { FieldForm } from "../schema/form.ts";
import { certificatesField } from "./certificates.ts";
import { ops } from "./expectations.ts";
import { urlField } from "./host.ts";
import { degradedAbove, ipVersion, nullableText, threshold, timeout } from "./kind.ts";
import { Closed, Shape } from "../schema/shapes.ts";

export const methods: readonly string[] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
/** Title of the collapsed part of the form. */
const section = "Advanced HTTP options";
/** Title of the part of the form with what the response must be. */
const expectations = "Expectations";

const statusCode = Type.Integer({
  minimum: 100,
  maximum: 599,
  errorCode: "INVALID_STATUS_RANGE",
  description: "A status code",
  examples: [200],
});

const ExpectedStatus = Type.Union(
  [
    Shape("ExactStatus", "One status code", { kind: Type.Literal("exact"), value: statusCode }),
    Shape("StatusRange", "Every status code of a range", {
      kind: Type.Literal("range"),
      value: Closed({ min: statusCode, max: statusCode }, { description: "Both ends included" }),
    }),
    Shape("StatusList", "Some status codes", {
      kind: Type.Literal("one_of"),
      value: Type.Array(statusCode, {
        minItems: 1,
        maxItems: 500,
        errorCode: "INVALID_STATUS_RANGE",
        description: "Any of these",
      }),
    }),
  ],
  {
    default: { kind: "range", value: { min: 200, max: 299 } },
    discriminator: "kind",
    description: "Which status codes count as up",
    form: {
      section: expectations,
      label: "Accepted status codes",
      control: "status",
      hint: "200-299, or 200, or 200, 204, 301.",
    },
  },
);
export type ExpectedStatus = Static<typeof ExpectedStatus>;

const nullablePattern = (description: string, form: FieldForm) =>
  nullableText(
    500,
    `${description}: RE2 syntax, unanchored, (?i) for any case`,
    { section: expectations, ...form },
    "INVALID_PATTERN",
  );

const errorCode = "INVALID_EXPECTATION";
const expectationFields = {
  op: Type.Enum([...ops], { errorCode, description: "How it is compared", examples: ["eq"] }),
  value: Type.Optional(
    Type.Union([Type.String({ maxLength: 1000 }), Type.Number(), Type.Boolean(), Type.Null()], {
      errorCode,
      description:
        "Compared with type and value; absent for exists and absent, a number for lt, le, gt and ge. Integers from " +
        "2^53 on are texts of their digits",
      examples: ["ok"],
    }),
  ),
};

const JsonExpectation = Closed(
  {
    path: Type.String({
      minLength: 1,
      maxLength: 500,
      errorCode: "INVALID_PATTERN",
      description: "JSONPath (RFC 9535). Where it selects several values, one must fit",
      examples: ["$.status"],
    }),
    ...expectationFields,
  },
  { errorCode, title: "JsonExpectation", description: "What a value of the body must be" },
);

const HeaderExpectation = Closed(
  {
    name: Type.String({
      minLength: 1,
      maxLength: 128,
      errorCode: "INVALID_HTTP_HEADER",
      description: "Name of the header, in any case",
      examples: ["content-type"],
    }),
    ...expectationFields,
  },
  {
    errorCode,
    title: "HeaderExpectation",
    description: "What a header of the response must be; with a number as value it is read as a number",
  },
);

export const HttpCheck = Shape("HttpCheck", "Requests a URL and verifies the response", {
  type: Type.Literal("http"),
  url: urlField("http or https", "https://shop.example.org/health"),
  expected_status: ExpectedStatus,
  expected_body_contains: nullableText(1000, "Text that the first MiB of the body must contain", {
    section: expectations,
    label: "Response must contain",
    hint: "Searched in the first MiB. Empty accepts any body.",
  }),
  expected_body_absent: nullableText(1000, "Text that the first MiB of the body must not contain", {
    section: expectations,
    label: "Response must not contain",
    beside: true,
  }),
  body_case_insensitive: Type.Boolean({
    default: false,
    description: "Whether expected_body_contains and expected_body_absent ignore the case of letters",
    form: { section: expectations, label: "Ignore case in these texts" },
  }),
  expected_body_matches: nullablePattern("Pattern that the first MiB of the body must match", {
    label: "Response must match",
    hint: "A regular expression (RE2), for example version [0-9]+\\.[0-9]+. (?i) ignores case.",
  }),
  expected_body_not_matches: nullablePattern("Pattern that the first MiB of the body must not match", {
    label: "Response must not match",
    beside: true,
  }),
  expected_json: Type.Array(JsonExpectation, {
    default: [],
    maxItems: 10,
    errorCode,
    description: "Values that the JSON body must have",
    form: {
      section: expectations,
      label: "JSON values",
      control: "expectations",
      placeholder: '$.status eq "ok"',
      hint: `One per line: JSONPath, ${ops.join(" ")}, JSON value.`,
    },
  }),
  expected_headers: Type.Array(HeaderExpectation, {
    default: [],
    maxItems: 10,
    errorCode,
    description: "Headers that the response must have",
    form: {
      section: expectations,
      label: "Response headers",
      control: "expectations",
      placeholder: 'content-type contains "json"',
      hint: "One per line, in the same format, with a header name in place of the path.",
    },
  }),
  degraded_above_ms: degradedAbove({ section: expectations }),
  down_above_ms: threshold("Down when the whole check takes longer than this, milliseconds; null: never", {
    section: expectations,
    label: "Down above (ms)",
    hint: "Above the degraded limit, at most the timeout.",
    beside: true,
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
  ip_version: ipVersion(section),
  follow_redirects: Type.Boolean({
    default: true,
    description: "Whether the answer of the last hop counts, not that of the first",
    form: { section },
  }),
  max_redirects: Type.Integer({
    minimum: 0,
    maximum: 20,
    default: 5,
    description: "Hops before the run fails; the answer after them is final where its status code is expected",
    form: { section, label: "Maximum redirects" },
  }),
  headers: Type.Record(Type.String(), Type.String({ maxLength: 8192 }), {
    default: {},
    maxProperties: 50,
    description:
      "Sent with the request; dropped when a redirect leaves the origin, other than to https of the same host. " +
      "Values read as ***, except those of Accept, Content-Type, User-Agent and a few other headers that " +
      "never authenticate",
    form: {
      section,
      placeholder: "Accept: application/json",
      hint: "One per line, name and value. Values are encrypted, except those of Accept, Content-Type and similar.",
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
  certificates: certificatesField(section),
  basic_auth: Type.Union(
    [Type.Tuple([Type.String({ minLength: 1, maxLength: 255 }), Type.String({ maxLength: 1024 })]), Type.Null()],
    {
      default: null,
      description: "User and password; the password reads as ***",
      form: { section, label: "Credentials", view: { name: "targets/fields/credentials", with: ["bearer_token"] } },
    },
  ),
  auth_scheme: Type.Enum(["basic", "digest"], {
    default: "basic",
    description: "How basic_auth is used: sent with each request, or as the answer to a challenge (RFC 7616)",
    examples: ["basic"],
    form: {
      section,
      label: "Authentication scheme",
      options: { basic: "With each request (Basic)", digest: "As an answer to the server (Digest)" },
    },
  }),
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
});
export type HttpCheck = Static<typeof HttpCheck>;
