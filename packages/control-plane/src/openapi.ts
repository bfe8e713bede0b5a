import { readFileSync } from "node:fs";
import type { TSchema } from "typebox";
import { errorCodes, type ErrorCode } from "@statusmesh/shared/errors";
import { declaredErrors } from "./http/declared-errors.ts";
import { ErrorEnvelope } from "./http/wire.ts";
import type { Route } from "./http/route.ts";

const packageJson = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as { version: string };

/** The version of this release, as its package has it. */
export const version = packageJson.version;

type Json = Record<string, unknown>;

/** Our own keywords are for the validator, not for readers. */
function publish(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(publish);
  if (typeof schema !== "object" || schema === null) return schema;
  const out: Json = {};
  for (const [key, value] of Object.entries(schema)) {
    if (key === "errorCode" || key === "sizeCodes" || key === "cap" || key.startsWith("~")) continue;
    if (key === "discriminator" && typeof value === "string") out[key] = { propertyName: value };
    else out[key] = publish(value);
  }
  return out;
}

/** Schemas with a title become components, so that a reader meets each of them once. */
function lift(schema: unknown, components: Json): unknown {
  if (Array.isArray(schema)) return schema.map((item) => lift(item, components));
  if (typeof schema !== "object" || schema === null) return schema;
  const lifted = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, lift(value, components)])) as Json;
  const title = lifted["title"];
  if (typeof title !== "string") return lifted;
  components[title] = lifted;
  return { $ref: `#/components/schemas/${title}` };
}

const idempotencyKey: Json = {
  name: "Idempotency-Key",
  in: "header",
  required: false,
  description: "Any text of yours. For 24 hours the same key with the same body gets the first answer again, marked `Idempotent-Replayed: true`, and nothing is done twice.",
  schema: { type: "string" },
};

function parameters(route: Route): Json[] {
  const path = Object.entries(route.params?.properties ?? {}).map(([name, schema]) => ({ name, in: "path", required: true, schema: publish(schema) }));
  const required = new Set<string>((route.query as { required?: string[] } | null)?.required ?? []);
  const query = Object.entries(route.query?.properties ?? {}).map(([name, schema]) => {
    const { description, ...rest } = publish(schema) as Json;
    const optional = !required.has(name) || "default" in rest;
    return { name, in: "query", required: !optional, ...(description === undefined ? {} : { description }), schema: rest };
  });
  const headers = route.idempotent ? [idempotencyKey] : [];
  return [...path, ...query, ...headers];
}

function responses(route: Route, json: (schema: TSchema) => unknown): Json {
  const out: Json = {};
  for (const [status, schema] of Object.entries(route.replies)) {
    out[status] = { description: status === "204" ? "Done" : "Success", ...(schema === null ? {} : { content: { "application/json": { schema: json(schema) } } }) };
  }
  const byStatus = new Map<number, ErrorCode[]>();
  for (const code of declaredErrors(route)) {
    const { status } = errorCodes[code];
    byStatus.set(status, [...(byStatus.get(status) ?? []), code]);
  }
  for (const [status, codes] of [...byStatus].sort(([a], [b]) => a - b)) {
    out[status] = {
      description: codes.map((code) => `${code}: ${errorCodes[code].when}`).join("; "),
      content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
    };
  }
  return out;
}

const roleWords: Record<Route["role"], string | null> = { member: null, owner: "For owners of the organisation.", owner_or_self: "For owners, and for oneself." };

function described(route: Route): Json {
  const parts = [route.description, roleWords[route.role], route.scope === null ? null : `Needs the scope \`${route.scope}\`.`].filter((it) => it !== null);
  return parts.length === 0 ? {} : { description: parts.join(" ") };
}

const security: Record<Route["door"], Json[]> = { tenant: [{ token: [] }, { session: [] }], agent: [{ agent: [] }], operator: [{ operator: [] }], public: [] };

/** `GET /api/v1/targets/{id}` is `get_targets_id`: stable, and unique because path and method are. */
const operationId = (route: Route): string =>
  `${route.method.toLowerCase()}_${route.path
    .replace(/^\/(?:api\/(?:v1\/)?)?/, "")
    .replaceAll(/[{}]/g, "")
    .replaceAll(/[^a-z0-9]+/gi, "_")}`;

/** The OpenAPI 3.1 document of all declared routes. */
export function openApiDocument(routes: readonly Route[], publicUrl: string, cookieName: string): Json {
  const components: Json = {};
  const json = (schema: unknown) => lift(publish(schema), components);
  json(ErrorEnvelope);
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const operation: Json = {
      operationId: operationId(route),
      tags: [route.tag],
      summary: route.summary,
      ...described(route),
      parameters: parameters(route),
      ...(route.body === null ? {} : { requestBody: { required: !route.bodyOptional, content: { "application/json": { schema: json(route.body) } } } }),
      responses: responses(route, json),
      security: security[route.door],
    };
    (paths[route.path] ??= {})[route.method.toLowerCase()] = operation;
  }
  return {
    openapi: "3.1.0",
    info: { title: "StatusMesh", version, description: "Uptime monitoring, alerting and public status pages.", license: { name: "Apache-2.0", identifier: "Apache-2.0" } },
    servers: [{ url: publicUrl }],
    tags: [...new Set(routes.map((route) => route.tag))].sort().map((name) => ({ name })),
    paths,
    components: {
      schemas: components,
      securitySchemes: {
        token: { type: "http", scheme: "bearer", description: "An API token, sm_live_…" },
        session: { type: "apiKey", in: "cookie", name: cookieName, description: "The console's session" },
        agent: { type: "http", scheme: "bearer", description: "An agent's token, sm_agent_…" },
        operator: { type: "http", scheme: "bearer", description: "The operator secret of the instance" },
      },
    },
  };
}

/** The interactive viewer at /docs. `viewer` and `icon` are addresses of our own assets; nothing comes from elsewhere. */
export function docsPage(viewer: string, icon: string): string {
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>StatusMesh API</title>
<link rel="icon" href="${icon}" type="image/svg+xml"><script type="module" src="${viewer}"></script></head>
<body style="margin:0"><rapi-doc spec-url="/api/openapi.json" load-fonts="false" show-header="false" render-style="read" schema-style="table" theme="light" primary-color="#2557d6" nav-bg-color="#f7f8fa" nav-text-color="#14181f" allow-server-selection="false" regular-font="system-ui" mono-font="ui-monospace" allow-spec-url-load="false" allow-spec-file-load="false"></rapi-doc></body>
</html>
`;
}
