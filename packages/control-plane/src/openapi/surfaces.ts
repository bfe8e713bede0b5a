import type { Json } from "./json.ts";
import { errorResponses } from "./errors.ts";
import type { ErrorCode } from "@statusmesh/shared/errors";

/* Operations besides the declared routes: health, this document, public pages. */

interface Surface {
  path: string;
  operationId: string;
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
  errors: readonly ErrorCode[];
}

const state = (word: string): Json => ({
  type: "object",
  properties: { status: { type: "string", const: word } },
  required: ["status"],
  additionalProperties: false,
});
const html = { type: "text/html", schema: { type: "string" }, example: '<!doctype html>\n<html lang="en">…</html>\n' };

const surfaces: Surface[] = [
  {
    path: "/healthz",
    operationId: "get_healthz",
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
    errors: ["INTERNAL", "INVALID_HOST"],
  },
  {
    path: "/readyz",
    operationId: "get_readyz",
    tag: "Service",
    summary: "Whether requests should be sent here",
    description: "503 while the process stops, and while the database does not answer. Never throttled.",
    type: "application/json",
    schema: state("ready"),
    example: { status: "ready" },
    cache: "no-store",
    reply: "Requests are served",
    errors: ["INTERNAL", "INVALID_HOST", "SERVICE_STARTING", "DEPENDENCY_DOWN"],
  },
  {
    path: "/api/openapi.json",
    operationId: "get_openapi_json",
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
    errors: ["INTERNAL", "INVALID_HOST"],
  },
  {
    path: "/docs",
    operationId: "get_docs",
    tag: "Service",
    summary: "This document for people",
    description: "A viewer that runs in the browser and loads nothing from elsewhere.",
    ...html,
    cache: "public, max-age=60",
    reply: "The viewer",
    errors: ["INTERNAL", "INVALID_HOST"],
  },
];

const always = { "X-Request-Id": { $ref: "#/components/headers/RequestId" } };

/** Operations by path. `used` is called with their error codes. */
export function surfaceOperations(used: Set<ErrorCode>): Record<string, Json> {
  return Object.fromEntries(
    surfaces.map((it) => [
      it.path,
      {
        get: {
          operationId: it.operationId,
          tags: [it.tag],
          summary: it.summary,
          description: it.description,
          parameters: it.parameters ?? [],
          responses: {
            200: {
              description: it.reply,
              headers: {
                ...always,
                "Cache-Control": {
                  description: "How long the answer may be kept",
                  required: true,
                  schema: { type: "string", const: it.cache },
                },
              },
              content: {
                [it.type]: { schema: it.schema, examples: { typical: { summary: "Typical", value: it.example } } },
              },
            },
            ...errorResponses(it.errors, used),
          },
          security: [],
        },
      },
    ]),
  );
}
