import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import formats from "ajv-formats";
import t from "tap";
import { matchObject } from "@statusmesh/shared/testing";
import { type ErrorCode, errorCodes } from "@statusmesh/shared/errors";
import { allRoutes } from "../../app.ts";
import { scopes } from "../../platform/context.ts";
import { openApiDocument } from "./document.ts";
import { version } from "../../platform/program.ts";
import { openAgentPings } from "../../monitoring/heartbeats/intake/agent-pings.ts";
import { openIngest } from "../../monitoring/pipeline/ingest.ts";

const hub = { on: () => () => {}, wait: async () => false, ready: async () => {} };
const routes = allRoutes({
  hub,
  ingest: openIngest(async () => {}),
  agentPings: openAgentPings(async () => {}),
  draining: new AbortController().signal,
});

type Content = Record<string, { schema: object; examples: Record<string, { $ref?: string; value?: unknown }> }>;
interface Operation {
  operationId: string;
  description: string;
  parameters: {
    $ref?: string;
    name: string;
    in: string;
    required: boolean;
    description?: string;
    schema: object;
    example?: unknown;
    examples?: { typical: { value: unknown } };
  }[];
  requestBody?: { description: string; content: Content };
  responses: Record<string, Response>;
  security: object[];
}
interface Response {
  $ref?: string;
  description: string;
  headers?: Record<string, object>;
  content?: Content;
}
interface Document {
  openapi: string;
  info: { version: string };
  servers: { url: string }[];
  tags: { name: string; description?: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: {
    schemas: Record<string, Json>;
    responses: Record<string, Response>;
    examples: Record<string, { value: Json }>;
    headers: Record<string, Json>;
    parameters: Record<string, Json>;
    securitySchemes: Record<string, { name?: string }>;
  };
}
type Json = Record<string, unknown>;
const document = JSON.parse(
  JSON.stringify(await openApiDocument(routes, "https://status.example.org", "_sm_session")),
) as Document;
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, operation })),
);

/** Resolves a `$ref` of the document. */
const follow = (reference: string): unknown =>
  reference
    .slice(2)
    .split("/")
    .reduce<unknown>((node, key) => (node as Json | undefined)?.[key], document);
const responseOf = (response: Response): Response =>
  response.$ref === undefined ? response : (follow(response.$ref) as Response);

/** Holds a value against a schema of the document, by the rules of JSON Schema 2020-12. */
const ajv = new Ajv2020({ strict: false, inlineRefs: false, allErrors: true });
formats.default(ajv);
ajv.addSchema(document, "document");
const absolute = (schema: object): object =>
  JSON.parse(JSON.stringify(schema).replaceAll('"$ref":"#/', '"$ref":"document#/')) as object;
/** By the text of the schema: most replies refer to the same ones. */
const validators = new Map<string, ValidateFunction>();
function faults(schema: object, value: unknown): string | null {
  const text = JSON.stringify(schema);
  const validator = validators.get(text) ?? ajv.compile(absolute(schema));
  validators.set(text, validator);
  return validator(value) ? null : ajv.errorsText(validator.errors);
}

/** Every object within a value, with its place. */
function* nodes(value: unknown, place = ""): Generator<[string, Record<string, unknown>]> {
  if (typeof value !== "object" || value === null) return;
  if (!Array.isArray(value)) yield [place, value as Record<string, unknown>];
  for (const [key, child] of Object.entries(value)) yield* nodes(child, `${place}/${key}`);
}

t.test("every route is in the document, once", async (t) => {
  const declared = routes.map(({ method, path }) => `${method} ${path}`);
  const oauth = [
    "GET /.well-known/oauth-authorization-server",
    "GET /.well-known/oauth-protected-resource",
    "GET /.well-known/oauth-protected-resource/mcp",
    "GET /oauth/authorize",
    ...["authorize", "register", "revoke", "token"].map((name) => `POST /oauth/${name}`),
  ];
  const pages = ["GET /status", "GET /status/incidents/{id}", "GET /hooks/whatsapp"];
  const pings = ["/hb/{token}", "/hb/{token}/{event}", "/ping/{uuid}", "/ping/{key}/{name}", "/api/push/{token}"]
    .concat("/api/v1/heartbeat/{token}", "/api/v1/heartbeat/{token}/{event}")
    .flatMap((path) => [`GET ${path}`, `POST ${path}`])
    .concat("POST /api/v1/endpoints/{key}/external");
  const documents = ["GET /api/openapi.json", "GET /api/config.schema.json", "GET /docs"];
  const beside = ["GET /healthz", "GET /readyz", ...documents, ...pages, ...pings, ...oauth];
  t.strictSame(operations.map(({ name }) => name).sort(), [...declared, ...beside].sort());
  t.equal(new Set(declared).size, declared.length);
  const ids = operations.map(({ operation }) => operation.operationId);
  t.equal(new Set(ids).size, ids.length);
  for (const id of ids) t.match(id, /^[a-z]+_[a-z0-9_]+[a-z0-9]$/);
  matchObject(t, document, {
    openapi: "3.1.0",
    info: { version },
    servers: [{ url: "https://status.example.org" }],
    components: { securitySchemes: { session: { name: "_sm_session" } } },
  });
});

t.test("exactly the owner-only operations say so", async (t) => {
  for (const route of routes) {
    const operation = document.paths[route.path]![route.method.toLowerCase()]!;
    const documented = operation.description?.match(/Owners only|Owners, or/) != null;
    const refused = operation.responses["403"];
    const refuses = refused !== undefined && responseOf(refused).description.includes("OWNER_REQUIRED");
    t.strictSame(
      { documented, refuses },
      // Where one kind of several is for owners, the route declares the code, and its description says so.
      {
        documented: route.role !== "member",
        refuses: route.role !== "member" || route.errors.includes("OWNER_REQUIRED"),
      },
      `${route.method} ${route.path}`,
    );
    t.ok(route.role === "member" || route.auth === "tenant", `${route.method} ${route.path}: only members have a role`);
  }
});

t.test("a path with a parameter comes after its literal siblings", async (t) => {
  const shadows = (first: string[], then: string[]) =>
    first.length === then.length &&
    first.some((part) => part.startsWith("{")) &&
    first.every((part, at) => part.startsWith("{") || part === then[at]);
  for (const [at, later] of routes.entries()) {
    for (const earlier of routes.slice(0, at)) {
      if (earlier.method === later.method && shadows(earlier.path.split("/"), later.path.split("/")))
        t.fail(`${earlier.method} ${earlier.path} takes what is meant for ${later.path}`);
    }
  }
});

t.test("paths of the same form share no method, and their tag says which is matched", (t) => {
  const isEither = (part: string, other: string) => part === other || part.startsWith("{") || other.startsWith("{");
  const paths = Object.keys(document.paths).map((path) => ({ path, parts: path.split("/") }));
  const pairs = paths.flatMap((one, at) =>
    paths
      .slice(at + 1)
      .filter(({ parts }) => parts.length === one.parts.length && parts.every((it, i) => isEither(it, one.parts[i]!)))
      // Those that differ in one place only are a literal and its parameter: OpenAPI says which is matched.
      .filter(({ parts }) => parts.filter((it, i) => it.startsWith("{") !== one.parts[i]!.startsWith("{")).length > 1)
      .map((other) => [one.path, other.path] as const),
  );
  for (const [one, other] of pairs) {
    const shared = Object.keys(document.paths[one]!).filter((method) => method in document.paths[other]!);
    t.strictSame(shared, [], `${one} and ${other}`);
  }
  const channels = "/api/v1/notification-channels/";
  t.strictSame(
    [...new Set(pairs.flat())].sort(),
    [
      "delegate/{id}",
      "devices/{id}",
      "telegram-link/{id}",
      "whatsapp-link/{id}",
      "{id}/apply",
      "{id}/resend-verification",
      "{id}/test",
    ].map((path) => channels + path),
  );
  const described = document.tags.find(({ name }) => name === "Notification channels");
  t.match(described?.description, /the literal segment is matched first/);
  t.end();
});

t.test("replies with credentials, of the caller and of a mail to confirm are not kept", (t) => {
  for (const name of [
    "GET /api/v1/me",
    "GET /api/v1/api-tokens",
    "POST /api/v1/api-tokens",
    "POST /api/v1/notification-channels/{id}/resend-verification",
  ]) {
    const { operation } = operations.find((one) => one.name === name)!;
    const reply = Object.entries(operation.responses).find(([status]) => status.startsWith("2"))![1];
    t.match(JSON.stringify(responseOf(reply).headers?.["Cache-Control"]), /NoStore|no-store/, name);
  }
  t.end();
});

t.test("no keyword of the validator is published, and every reference resolves", async (t) => {
  for (const [place, node] of nodes(document)) {
    for (const key of Object.keys(node)) {
      if (place.endsWith("/properties") || /\/(?:examples?|default)(?:\/|$)/.test(place)) continue;
      if (
        ["errorCode", "emptyCode", "sizeCodes", "mapEntries", "cap", "text", "form"].includes(key) ||
        key.startsWith("~")
      )
        t.fail(`${place}/${key}`);
    }
    if (typeof node["discriminator"] === "string") t.fail(`${place}: a discriminator is an object in OpenAPI`);
    const reference = node["$ref"];
    if (typeof reference === "string" && follow(reference) === undefined)
      t.fail(`${place} leads nowhere: ${reference}`);
  }
  t.ok(Object.keys(document.components.schemas).includes("Target"));
});

t.test("schemas with the same name are equal", async (t) => {
  const texts = new Map<string, string>();
  const different = new Set<string>();
  const seen = (schema: unknown) => {
    for (const [, node] of nodes(schema)) {
      const title = node["title"];
      if (typeof title !== "string") continue;
      const text = JSON.stringify(node);
      if ((texts.get(title) ?? text) !== text) different.add(title);
      texts.set(title, text);
    }
  };
  for (const route of routes)
    for (const schema of [route.body, route.query, ...Object.values(route.replies)]) seen(schema);
  t.ok(texts.size > 50, `${texts.size} names`);
  t.strictSame([...different], []);
});

t.test("each operation documents input, replies and access", async (t) => {
  for (const route of routes) {
    const operation = document.paths[route.path]![route.method.toLowerCase()]!;
    const name = `${route.method} ${route.path}`;
    t.strictSame(
      operation.parameters.filter((it) => it.in === "path").map((it) => it.name),
      [...route.path.matchAll(/\{(\w+)\}/g)].map(([, parameter]) => parameter),
      name,
    );
    t.ok(
      operation.parameters.every((it) => it.in === "path" || !it.required || it.name !== "limit"),
      name,
    );
    for (const status of Object.keys(route.replies)) t.ok(operation.responses[status], `${name} ${status}`);
    for (const code of route.errors) {
      const response = operation.responses[errorCodes[code].status];
      t.match(responseOf(response!).description, new RegExp(`\\b${code}:`), `${name} ${code}`);
    }
    if (route.scope !== null) {
      t.ok(scopes.includes(route.scope), name);
      matchObject(t, operation.description, route.scope, name);
    }
  }
});

t.test("every body, reply, parameter, header and error has a valid example", async (t) => {
  const wrong: string[] = [];
  const expect = (holds: unknown, what: string) => {
    if (holds === undefined || holds === false || holds === "") wrong.push(what);
  };
  const holds = (schema: object, example: unknown, name: string) => {
    const fault = faults(schema, example);
    expect(fault === null, `${name}: ${fault} in ${JSON.stringify(example)?.slice(0, 200)}`);
  };
  let bodies = 0;
  const holdsContent = (content: Content, name: string) => {
    for (const { schema, examples } of Object.values(content)) {
      expect(Object.keys(examples).length > 0, `${name} has no example`);
      for (const example of Object.values(examples)) {
        const { value } = example.$ref === undefined ? example : (follow(example.$ref) as typeof example);
        holds(schema, value, `${name} ${example.$ref ?? ""}`);
      }
      bodies++;
    }
  };
  for (const { name, operation } of operations) {
    for (const given of operation.parameters) {
      const parameter = given.$ref === undefined ? given : (follow(given.$ref) as typeof given);
      expect(parameter.description, `${name} ${parameter.name} is not described`);
      holds(parameter.schema, parameter.example ?? parameter.examples?.typical.value, `${name} ${parameter.name}`);
    }
    if (operation.requestBody !== undefined) holdsContent(operation.requestBody.content, name);
    for (const [status, response] of Object.entries(operation.responses)) {
      const { headers, content } = responseOf(response);
      expect(headers?.["X-Request-Id"], `${name} ${status}: X-Request-Id`);
      if (status === "429" || status === "503") expect(headers?.["Retry-After"], `${name} ${status}: Retry-After`);
      if (content !== undefined) holdsContent(content, `${name} ${status}`);
    }
  }
  t.strictSame(wrong, []);
  t.ok(bodies > 3 * routes.length, "and there are many");
  for (const [code, { value }] of Object.entries(document.components.examples)) {
    const { error } = value as { error: { code: string; field: string | null } };
    t.equal(error.code, code);
    t.ok(error.field === null || errorCodes[code as ErrorCode].status === 400, `${code}: field belongs to 400s`);
  }
});

t.test("every example of a schema node is valid", async (t) => {
  const wrong: string[] = [];
  let seen = 0;
  for (const [place, node] of nodes(document.components.schemas)) {
    if (!Array.isArray(node["examples"]) || place.endsWith("/properties")) continue;
    for (const example of node["examples"]) {
      const fault = faults(node, example);
      if (fault !== null) wrong.push(`${place}: ${fault}`);
      seen++;
    }
  }
  t.strictSame(wrong, []);
  t.ok(seen > 500, `${seen} examples`);
});

t.test("the branches of a discriminator have titles, and exactly one is valid", async (t) => {
  let seen = 0;
  for (const [place, node] of nodes(document.components.schemas)) {
    if (node["oneOf"] === undefined || place.endsWith("/properties")) continue;
    const { propertyName, mapping } = (node["discriminator"] ?? {}) as {
      propertyName?: string;
      mapping?: Record<string, string>;
    };
    t.ok(propertyName, `${place}: each branch of a tagged union has a title`);
    for (const [tag, reference] of Object.entries(mapping ?? {}))
      matchObject(t, follow(reference), { properties: { [propertyName!]: { const: tag } } }, `${place} ${tag}`);
    seen++;
  }
  t.ok(seen >= 4);
});

t.test("optional input is not required, and fields of every reply are", async (t) => {
  t.strictSame(document.components.schemas["TcpCheckInput"]?.["required"], ["type", "host", "port"]);
  t.strictSame(document.components.schemas["TcpCheck"]?.["required"], ["type", "host", "port", "timeout"]);
  t.strictSame(document.components.schemas["TargetCreate"]?.["required"], ["name", "check"]);
  t.equal(
    faults(
      { $ref: "#/components/schemas/TargetCreate" },
      { name: "Shop", check: { type: "tcp", host: "shop.example.org", port: 443 } },
    ),
    null,
  );
  t.match(
    faults(
      { $ref: "#/components/schemas/TargetCreate" },
      { name: "Shop", check: { type: "tcp", host: "shop.example.org" } },
    ),
    "port",
  );
  t.match(faults({ $ref: "#/components/schemas/HttpCheck" }, { type: "http", url: "https://example.org/" }), "timeout");
  const limit = document.paths["/api/v1/targets"]?.["get"]?.parameters.find((it) => it.name === "limit");
  matchObject(t, limit, { description: /silently capped at 1000/, schema: { default: 50 } });
  t.notOk("maximum" in limit!.schema, "a capped value is not a wrong one");
});

t.test("every property has a description", async (t) => {
  const undescribed: string[] = [];
  for (const [place, node] of nodes(document.components.schemas)) {
    if (!place.endsWith("/properties")) continue;
    for (const [name, child] of Object.entries(node as Record<string, Json>)) {
      const referred = typeof child["$ref"] === "string" ? (follow(child["$ref"]) as Json) : child;
      // A constant is what it is.
      if (!(referred["description"] ?? ("const" in referred || referred["anyOf"] !== undefined)))
        undescribed.push(`${place}/${name}`);
    }
  }
  t.strictSame(undescribed, []);
});
