import type { ErrorCode } from "@statusmesh/shared/errors";
import { errorResponses } from "./errors.ts";
import type { Json } from "@statusmesh/shared/json";
import { content, fixedHeader, operationIdOf, sharedHeader, textHeader } from "./parts.ts";
import { object, type Operation, operations, text } from "./oauth-operations.ts";

/*
 * The OAuth 2.1 authorization server in the document. Its operations are no declared routes: requests are forms, and
 * replies have the shapes of their RFCs instead of the envelope of the API.
 */

const refusalSchema = object({
  error: text("Code of RFC 6749, RFC 7591 or RFC 8707"),
  error_description: text("What is wrong"),
});
const html = content("text/html", { type: "string" }, "<!doctype html>…");

function headersOf(status: number, cache: string): Json {
  return {
    "X-Request-Id": sharedHeader("RequestId"),
    "Cache-Control": fixedHeader("Caching rules of the reply", cache),
    ...(status === 302 ? { Location: textHeader("Where the browser goes") } : {}),
    ...(status === 401
      ? { "WWW-Authenticate": { description: "Where the client authenticated", schema: { type: "string" } } }
      : {}),
    ...(status === 429 || status === 503 ? { "Retry-After": sharedHeader("RetryAfter") } : {}),
  };
}

function refusalOf([status, description]: [string, string], pages: boolean): [string, Json] {
  const [code] = description.split(/ or |, /);
  const error = /^[a-z_]+$/.test(code!)
    ? code!
    : /^4(?!29)/.test(status)
      ? "invalid_request"
      : "temporarily_unavailable";
  // A Host that is not served has the envelope of the API.
  const schema = status === "400" ? { anyOf: [refusalSchema, { $ref: "#/components/schemas/Error" }] } : refusalSchema;
  return [
    status,
    {
      description,
      headers: headersOf(Number(status), "no-store"),
      content:
        pages && status.startsWith("4")
          ? html
          : content("application/json", schema, { error, error_description: description }),
    },
  ];
}

function responsesOf({ reply, cache = "no-store", redirects = {}, refusals, pages = false }: Operation): Json {
  const type = reply.type ?? "application/json";
  const schema = reply.schema ?? { type: "string" };
  // Metadata needs no database.
  const failure: Record<string, string> = { 503: "The database does not answer" };
  const refused: Record<string, string> = { ...refusals, ...(cache === "no-store" ? failure : {}) };
  return {
    [reply.status]: {
      description: reply.description,
      headers: headersOf(reply.status, cache),
      ...(reply.example === undefined ? {} : { content: content(type, schema, reply.example) }),
    },
    ...Object.fromEntries(
      Object.entries(redirects).map(([status, description]) => [
        status,
        { description, headers: headersOf(Number(status), "no-store") },
      ]),
    ),
    ...Object.fromEntries(Object.entries(refused).map((refusal) => refusalOf(refusal, pages))),
  };
}

function bodyOf({ form, json }: Operation): Json {
  if (json !== undefined)
    return {
      requestBody: {
        required: true,
        description: "Metadata of the client",
        content: content("application/json", json.schema, json.example),
      },
    };
  if (form === undefined) return {};
  const fields = Object.entries(form);
  const schema = object(
    Object.fromEntries(fields.map(([name, { description }]) => [name, text(description)])),
    fields.filter(([, { required }]) => required === true).map(([name]) => name),
  );
  const value = Object.fromEntries(fields.map(([name, field]) => [name, field.example]));
  return {
    requestBody: {
      required: true,
      description: "A form",
      content: content("application/x-www-form-urlencoded", schema, value),
    },
  };
}

/** The operations by path. `used` is called with their error codes. */
export function oauthOperations(used: Set<ErrorCode>): Record<string, Json> {
  const paths: Record<string, Json> = {};
  for (const operation of operations) {
    const { path, method, summary, description, query = {} } = operation;
    (paths[path] ??= {})[method] = {
      operationId: operationIdOf(method, path.replace("/.well-known", "")),
      tags: ["OAuth"],
      summary,
      description,
      parameters: Object.entries(query).map(([name, field]) => ({
        name,
        in: "query",
        required: field.required === true,
        description: field.description,
        schema: { type: "string" },
        example: field.example,
      })),
      ...bodyOf(operation),
      responses: { ...responsesOf(operation), ...errorResponses(["NOT_FOUND", "INTERNAL"], used) },
      security: path === "/oauth/authorize" ? [{ session: [] }] : [],
    };
  }
  return paths;
}
