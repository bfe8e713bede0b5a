import { takeTurns } from "../../platform/process/turns.ts";
import type { TSchema } from "typebox";
import type { ErrorCode } from "@statusmesh/shared/errors";
import type { Json } from "@statusmesh/shared/json";
import { challengeOf } from "../../platform/http/challenge.ts";
import { declaredErrors, locates, type Route, setsCookie } from "../../platform/http/route.ts";
import { ErrorEnvelope } from "../../platform/http/wire.ts";
import { errorComponents, errorResponses } from "./errors.ts";
import { exampleId, exampleOf } from "./examples.ts";
import { about, describeBody, describeOperation, describePathParameter, describeReply, tags } from "./words.ts";
import { oauthOperations } from "./oauth.ts";
import {
  content,
  fixedHeader,
  operationIdOf,
  sharedHeader,
  textHeader,
  textParameter,
  typical,
  unfilled,
} from "./parts.ts";
import { pingOperations } from "./pings.ts";
import { describeDefaults, openSchemas, type Schemas } from "./schemas.ts";
import { surfaceOperations } from "./surfaces.ts";
import { version } from "../../platform/program.ts";

const exampleTag = '"Qk1FTo9wPtpP3xXWv7uT0g"';

const sharedParameters: Json = {
  IdempotencyKey: textParameter(
    "header",
    "Idempotency-Key",
    "Any text. For 24 hours the same key with the same body gets the first reply again, marked " +
      "`Idempotent-Replayed: true`, and nothing runs twice.",
    "import-2026-11-20",
  ),
  IfMatch: textParameter(
    "header",
    "If-Match",
    "The `ETag` of the state that the change is made to: PRECONDITION_FAILED where there is a newer one",
    exampleTag,
  ),
  IfNoneMatch: textParameter(
    "header",
    "If-None-Match",
    "The `ETag` of the copy that the client has: 304 without a body where it is still current",
    exampleTag,
  ),
  Org: textParameter(
    "header",
    "X-Sm-Org",
    "Slug or id of the organisation, for a session or an unbound token. Default: the session's current " +
      "organisation, or the token's own. An unbound token of a user with several organisations needs it, except for " +
      "/me and /orgs.",
    "acme",
  ),
};

const sharedHeaders: Json = {
  RequestId: textHeader(
    "Finds the request in the log: the trace id of `traceparent` when the request has one",
    "4bf92f3577b34da6a3ce929d0e0e4736",
  ),
  NoStore: fixedHeader("Not to be cached", "no-store"),
  RetryAfter: {
    description: "Seconds to wait before the next try",
    required: true,
    schema: { type: "integer", minimum: 1 },
    example: 17,
  },
  Authenticate: fixedHeader("Authentication scheme (RFC 6750)", "Bearer"),
};

function parameters(route: Route, schemas: Schemas): Json[] {
  const path = Object.entries<TSchema>(route.params?.properties ?? {}).map(([name, schema]) => {
    const { description = describePathParameter(route.path, name), ...rest } = schemas.publish(schema, "in");
    const example = "examples" in rest ? exampleOf(rest, schemas.components, name) : exampleId;
    return { name, in: "path", required: true, description, schema: rest, example };
  });
  const required = new Set<string>((route.query as { required?: string[] } | null)?.required ?? []);
  const query = Object.entries<TSchema>(route.query?.properties ?? {}).map(([name, schema]) => {
    const { description, ...rest } = schemas.publish(schema, "in");
    const optional = !required.has(name) || "default" in rest;
    const example = exampleOf(rest, schemas.components, name);
    return {
      name,
      in: "query",
      required: !optional,
      description,
      schema: rest,
      ...("default" in rest ? { example } : { examples: unfilled(example) }),
    };
  });
  const headers = [
    ...(route.auth === "tenant" ? ["Org"] : []),
    ...(route.idempotent ? ["IdempotencyKey"] : []),
    ...(!route.etag ? [] : [route.method === "GET" ? "IfNoneMatch" : "IfMatch"]),
  ];
  return [...path, ...query, ...headers.map((name) => ({ $ref: `#/components/parameters/${name}` }))];
}

function replyHeaders(route: Route, status: string): Json {
  const cache = route.method === "GET" && route.cache !== null ? route.cache : null;
  const headers: Json = {
    "X-Request-Id": sharedHeader("RequestId"),
    "Cache-Control": cache === null ? sharedHeader("NoStore") : fixedHeader("Caching rules of the reply", cache),
  };
  if (status === "201" && locates(route))
    headers["Location"] = textHeader("Path of the created resource", `${route.path}/${exampleId}`);
  if (setsCookie(route)) headers["Set-Cookie"] = textHeader("The session");
  if (route.etag) headers["ETag"] = textHeader("Changes with the answer", exampleTag);
  if (route.idempotent)
    headers["Idempotent-Replayed"] = {
      description: "`true` on a replayed reply",
      schema: { type: "string", const: "true" },
    };
  return headers;
}

/** The reply to a GET with a current `If-None-Match`. */
const notModified = (route: Route): Json =>
  route.etag && route.method === "GET"
    ? { 304: { description: "The copy that the client has is current", headers: replyHeaders(route, "304") } }
    : {};

function replies(route: Route, schemas: Schemas): Json {
  return Object.fromEntries(
    Object.entries(route.replies).map(([status, schema]) => {
      const headers = replyHeaders(route, status);
      if (schema === null) return [status, { description: status === "202" ? "Accepted" : "Done", headers }];
      const published = schemas.publish(schema, "out");
      return [
        status,
        {
          description: describeReply(status, published, schemas.components),
          headers,
          content: {
            ...content(route.mediaType, published, exampleOf(published, schemas.components)),
            ...(route.csv && status === "200" ? { "text/csv": csvContent } : {}),
          },
        },
      ];
    }),
  );
}

/** A reply to `format=csv`. */
const csvContent: Json = {
  schema: { type: "string", description: "CSV (RFC 4180) with a header line, where the query has `format=csv`" },
  examples: typical("id,name\r\n"),
};

/** Other bodies of a route that takes a file. */
const fileContent: Json = {
  "multipart/form-data": {
    schema: {
      type: "object",
      description: "A form with one file",
      required: ["file"],
      properties: { file: { type: "string", description: "The file", contentMediaType: "application/octet-stream" } },
    },
    examples: typical({ file: "…" }),
  },
  "image/*": {
    schema: { type: "string", description: "The bytes of the file", contentMediaType: "application/octet-stream" },
    examples: typical("…"),
  },
};

function requestBody(route: Route, schemas: Schemas): Json {
  if (route.body === null) return {};
  const schema = schemas.publish(route.body, "in");
  return {
    requestBody: {
      required: !route.bodyOptional,
      description: describeBody(schema, schemas.components, route.summary),
      content: {
        ...content("application/json", schema, exampleOf(schema, schemas.components)),
        ...(route.upload === null ? {} : fileContent),
      },
    },
  };
}

const security: Record<Route["auth"], Json[]> = {
  tenant: [{ token: [] }, { session: [] }],
  agent: [{ agent: [] }],
  operator: [{ operator: [] }],
  public: [],
  // A public page needs none.
  page: [{}, { token: [] }, { reader: [] }, { readerKey: [] }],
};

/** The OpenAPI 3.1 document of all declared routes and of the other surfaces, made in slices. */
export async function openApiDocument(routes: readonly Route[], publicUrl: string, cookieName: string): Promise<Json> {
  const schemas = openSchemas(routes.flatMap((route) => Object.values(route.replies)).filter((it) => it !== null));
  schemas.publish(ErrorEnvelope, "out");
  const used = new Set<ErrorCode>();
  const paths: Record<string, Json> = { ...surfaceOperations(used), ...pingOperations(), ...oauthOperations(used) };
  const turns = await takeTurns();
  for (const route of routes) {
    if (turns.over()) await turns.next();
    const body = requestBody(route, schemas);
    describeDefaults(body);
    (paths[route.path] ??= {})[route.method.toLowerCase()] = {
      operationId: operationIdOf(route.method.toLowerCase(), route.path.replace(/^\/api(?:\/v1)?/, "")),
      tags: [route.tag],
      summary: route.summary,
      description: describeOperation(route),
      parameters: parameters(route, schemas),
      ...body,
      responses: {
        ...replies(route, schemas),
        ...notModified(route),
        ...errorResponses(declaredErrors(route), used, challengeOf(route.path)),
      },
      security: security[route.auth],
      ...(route.category === null ? {} : { "x-rate-category": route.category }),
      ...(route.auth === "tenant" ? { "x-role": route.role } : {}),
    };
  }
  await turns.next();
  describeDefaults(schemas.components);
  const shown = new Set(["Service", "OAuth", ...routes.map((route) => route.tag)]);
  return {
    openapi: "3.1.0",
    info: {
      title: "StatusMesh",
      version,
      summary: "Uptime monitoring, alerting and public status pages",
      description: about,
      contact: { name: "This instance", url: publicUrl },
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: publicUrl, description: "This instance" }],
    tags: [...shown].sort().map((name) => ({ name, ...(tags[name] === undefined ? {} : { description: tags[name] }) })),
    paths,
    components: {
      schemas: schemas.components,
      ...errorComponents(used, paths),
      parameters: sharedParameters,
      headers: sharedHeaders,
      securitySchemes: {
        token: { type: "http", scheme: "bearer", description: "An API token, sm_live_…" },
        session: {
          type: "apiKey",
          in: "cookie",
          name: cookieName,
          description:
            "The console's session. A write with it must come from the console itself (Origin, Sec-Fetch-Site)",
        },
        reader: {
          type: "http",
          scheme: "bearer",
          description: "A reader token of a private status page, sm_read_…, for its data and images",
        },
        readerKey: {
          type: "apiKey",
          in: "query",
          name: "key",
          description: "A reader token, where a program sends no header",
        },
        agent: { type: "http", scheme: "bearer", description: "An agent's token, sm_agent_…" },
        operator: {
          type: "http",
          scheme: "bearer",
          description: "The operator secret of the instance, operator.admin_token",
        },
      },
    },
  };
}

/**
 * The interactive viewer at /docs, one operation at a time: all of them at once are 800,000 elements. The files are
 * our own assets; there are no third-party requests.
 */
export function docsPage({ viewer, script, theme, icon }: Record<"viewer" | "script" | "theme" | "icon", string>) {
  const attributes = [
    'load-fonts="false" show-header="false"',
    'render-style="focused" schema-style="table"',
    'theme="light" bg-color="#ffffff" text-color="#14181f" primary-color="#1d4ab8"',
    'nav-bg-color="#f7f8fa" nav-text-color="#14181f" nav-hover-text-color="#14181f"',
    'allow-server-selection="false" allow-spec-url-load="false" allow-spec-file-load="false"',
    'regular-font="system-ui" mono-font="ui-monospace"',
  ];
  const dark =
    "color-scheme: dark; --page: #14171c; --text: #eceff3; --line: #23282f; --link: #8aabff; --post: #4cc79b; " +
    "--put: #f0b354; --delete: #ff8387";
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>StatusMesh API</title>
<link rel="icon" href="${icon}" type="image/svg+xml">
<script src="${theme}"></script>
<script type="module" src="${viewer}"></script><script type="module" src="${script}"></script>
<style>
:root { color-scheme: light; --page: #fff; --text: #14181f; --line: #d8dce3; --link: #1d4ab8;
  --post: #0f7553; --put: #955205; --delete: #c0232b }
:root[data-theme="dark"] { ${dark} }
@media (prefers-color-scheme: dark) { :root:not([data-theme="light"]) { ${dark} } }
body { display: flex; flex-direction: column; height: 100vh; margin: 0; background: var(--page); color: var(--text) }
header { display: flex; flex-wrap: wrap; gap: 4px 16px; align-items: baseline; padding: 8px 16px;
  border-bottom: 1px solid var(--line); font: 14px system-ui }
h1 { margin: 0; font-size: 16px }
a { color: var(--link) }
label, select { display: none; flex: 1 0 100% }
select { min-width: 0; min-height: 44px; font: inherit }
rapi-doc { --blue: var(--link); --green: var(--post); --orange: var(--put); --yellow: var(--put); --red: var(--delete);
  flex: 1; min-height: 0 }
@media (max-width: 767px) { label, select { display: block } }
</style>
</head>
<body>
<header><h1>StatusMesh API</h1><a href="/">Console</a><a href="/api/openapi.json">OpenAPI document</a>
<label for="operation">Operation</label><select id="operation"><option value="">Overview</option></select></header>
<rapi-doc ${attributes.join(" ")}></rapi-doc>
</body>
</html>
`;
}
