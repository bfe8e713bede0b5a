import Type, { type Static } from "typebox";
import type { FieldForm } from "../form.ts";
import { timeout } from "./kind.ts";

export const methods: readonly string[] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
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
