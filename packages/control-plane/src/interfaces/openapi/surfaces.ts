import type { Json } from "@statusmesh/shared/json";
import type { ErrorCode } from "@statusmesh/shared/errors";
import { byStatus, errorResponses, whenOf } from "./errors.ts";
import { exampleId } from "./examples.ts";
import { content, fixedHeader, operationIdOf, sharedHeader, textParameter } from "./parts.ts";

/* Operations besides the declared routes: health, this document, public pages. */

interface Surface {
  path: string;
  tag: string;
  summary: string;
  description: string;
  parameters?: Json[];
  type: string;
  schema: Json;
  example: unknown;
  cache: string;
  /** The reply with status 200. */
  reply: string;
  /** Errors besides those of every request. */
  errors?: readonly ErrorCode[];
  /** Errors that are answered as a page. */
  errorPages?: readonly ErrorCode[];
}

const state = (word: string): Json => ({
  type: "object",
  properties: { status: { type: "string", const: word } },
  required: ["status"],
  additionalProperties: false,
});
const html = { type: "text/html", schema: { type: "string" }, example: '<!doctype html>\n<html lang="en">…</html>\n' };

const pageCache = "public, max-age=10, stale-while-revalidate=30";

const surfaces: Surface[] = [
  {
    path: "/status",
    tag: "Public",
    summary: "The status page as HTML",
    description:
      "On the host of a page, `/` is the same. `fragment=1` answers the part that changes, without the frame.",
    parameters: [textParameter("query", "fragment", "1: the changing part alone", "1")],
    ...html,
    cache: pageCache,
    reply: "The page",
    errors: ["RATE_LIMITED"],
    errorPages: ["STATUS_PAGE_NOT_FOUND", "STATUS_DATA_UNAVAILABLE"],
  },
  {
    path: "/status/incidents/{id}",
    tag: "Public",
    summary: "An incident as HTML",
    description: "The newest 20 updates; all of them with `updates=all`.",
    parameters: [
      {
        name: "id",
        in: "path",
        required: true,
        description: "Id of the incident",
        schema: { type: "string" },
        example: exampleId,
      },
      textParameter("query", "updates", "all: every update", "all"),
    ],
    ...html,
    cache: pageCache,
    reply: "The incident",
    errors: ["RATE_LIMITED"],
    errorPages: ["STATUS_PAGE_NOT_FOUND", "INCIDENT_NOT_FOUND", "STATUS_DATA_UNAVAILABLE"],
  },
  {
    path: "/hooks/whatsapp",
    tag: "Hooks",
    summary: "Handshake of the WhatsApp webhook",
    description:
      "Meta sends it when the webhook is set up, and the challenge is repeated. 405 without " +
      "`channels.whatsapp.verify_token` and without `hub.mode`.",
    parameters: [
      textParameter("query", "hub.mode", "`subscribe`", "subscribe"),
      textParameter("query", "hub.verify_token", "The configured verify token", "…"),
      textParameter("query", "hub.challenge", "Text to repeat", "1158201444"),
    ],
    type: "text/plain",
    schema: { type: "string" },
    example: "1158201444",
    cache: "no-store",
    reply: "The challenge",
    errors: ["FORBIDDEN", "METHOD_NOT_ALLOWED"],
  },
  {
    path: "/healthz",
    tag: "Service",
    summary: "Whether the process is up",
    description:
      "Answers 200 whenever the process does. Never throttled; looks at nothing else, so restart what does " +
      "not answer it.",
    type: "application/json",
    schema: state("ok"),
    example: { status: "ok" },
    cache: "no-store",
    reply: "The process is up",
  },
  {
    path: "/readyz",
    tag: "Service",
    summary: "Whether requests should be sent here",
    description: "503 while the process stops, and while the database does not answer. Never throttled.",
    type: "application/json",
    schema: state("ready"),
    example: { status: "ready" },
    cache: "no-store",
    reply: "Requests are served",
    errors: ["SERVICE_STARTING", "DEPENDENCY_DOWN"],
  },
  {
    path: "/api/openapi.json",
    tag: "Service",
    summary: "This document",
    description: "OpenAPI 3.1 with JSON Schema 2020-12.",
    type: "application/json",
    schema: {
      type: "object",
      required: ["openapi"],
      properties: { openapi: { type: "string", description: "Version of OpenAPI" } },
    },
    example: { openapi: "3.1.0" },
    cache: "public, max-age=60",
    reply: "The document",
  },
  {
    path: "/api/config.schema.json",
    tag: "Service",
    summary: "The schema of configuration files",
    description: "JSON Schema 2020-12, for editors: `# yaml-language-server: $schema=…` in the first line of a file.",
    type: "application/json",
    schema: {
      type: "object",
      required: ["$schema"],
      properties: { $schema: { type: "string", description: "Version of JSON Schema" } },
    },
    example: { $schema: "https://json-schema.org/draft/2020-12/schema" },
    cache: "public, max-age=60",
    reply: "The schema",
  },
  {
    path: "/docs",
    tag: "Service",
    summary: "This document for people",
    description: "A viewer that runs in the browser and loads nothing from elsewhere.",
    ...html,
    cache: "public, max-age=60",
    reply: "The viewer",
  },
];

/** Responses of these codes by status, as pages. */
function errorPageResponses(codes: readonly ErrorCode[]): Json {
  return Object.fromEntries(
    byStatus(codes).map(([status, own]) => [
      status,
      {
        description: whenOf(own),
        headers: {
          "X-Request-Id": sharedHeader("RequestId"),
          "Cache-Control": sharedHeader("NoStore"),
          ...(status === 503 ? { "Retry-After": sharedHeader("RetryAfter") } : {}),
        },
        content: content(html.type, html.schema, html.example),
      },
    ]),
  );
}

/** Operations by path. `used` is called with their error codes. */
export function surfaceOperations(used: Set<ErrorCode>): Record<string, Json> {
  return Object.fromEntries(
    surfaces.map((it) => [
      it.path,
      {
        get: {
          operationId: operationIdOf("get", it.path.replace(/^\/api/, "")),
          tags: [it.tag],
          summary: it.summary,
          description: it.description,
          parameters: it.parameters ?? [],
          responses: {
            200: {
              description: it.reply,
              headers: {
                "X-Request-Id": sharedHeader("RequestId"),
                "Cache-Control": fixedHeader("How long the answer may be kept", it.cache),
              },
              content: content(it.type, it.schema, it.example),
            },
            ...errorResponses(["INTERNAL", "INVALID_HOST", ...(it.errors ?? [])], used),
            ...errorPageResponses(it.errorPages ?? []),
          },
          security: [],
        },
      },
    ]),
  );
}
