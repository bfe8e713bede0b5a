import t from "tap";
import { errorCodes } from "@statusmesh/shared/errors";
import { allRoutes } from "./app.ts";
import { scopes } from "./context.ts";
import { openApiDocument, version } from "./openapi.ts";
import { openIngest } from "./pipeline/ingest.ts";

const hub = { on: () => () => {}, wait: async () => false, ready: async () => {} };
const routes = allRoutes({ hub, ingest: openIngest(async () => {}), draining: new AbortController().signal });

interface Operation {
  operationId: string;
  description?: string;
  parameters: { name: string; in: string; required: boolean }[];
  responses: Record<string, { description: string; content?: { "application/json": { schema: unknown } } }>;
}
interface Document {
  openapi: string;
  info: { version: string };
  servers: { url: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, unknown>; securitySchemes: Record<string, { name?: string }> };
}
const document = JSON.parse(JSON.stringify(openApiDocument(routes, "https://status.example.org", "_sm_session"))) as Document;
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, operation })),
);

/** Every object within a value, with its place. */
function* nodes(value: unknown, place = ""): Generator<[string, Record<string, unknown>]> {
  if (typeof value !== "object" || value === null) return;
  if (!Array.isArray(value)) yield [place, value as Record<string, unknown>];
  for (const [key, child] of Object.entries(value)) yield* nodes(child, `${place}/${key}`);
}

t.test("every route is in the document, once", async (t) => {
  const declared = routes.map(({ method, path }) => `${method} ${path}`);
  t.strictSame(operations.map(({ name }) => name).sort(), [...declared].sort());
  t.equal(new Set(declared).size, declared.length);
  const ids = operations.map(({ operation }) => operation.operationId);
  t.equal(new Set(ids).size, ids.length);
  for (const id of ids) t.match(id, /^[a-z]+_[a-z0-9_]+[a-z0-9]$/);
  t.match(document, {
    openapi: "3.1.0",
    info: { version },
    servers: [{ url: "https://status.example.org" }],
    components: { securitySchemes: { session: { name: "_sm_session" } } },
  });
});

t.test("what is for owners only says so, and nothing else does", async (t) => {
  for (const route of routes) {
    const operation = document.paths[route.path]![route.method.toLowerCase()]!;
    const told = operation.description?.includes("For owners") === true;
    const refuses = operation.responses["403"]?.description.includes("OWNER_REQUIRED") === true;
    t.strictSame({ told, refuses }, { told: route.role !== "member", refuses: route.role !== "member" }, `${route.method} ${route.path}`);
    t.ok(route.role === "member" || route.door === "tenant", `${route.method} ${route.path}: only members have a role`);
  }
});

t.test("a path with a parameter comes after its literal siblings, or it would take their requests", async (t) => {
  const shadows = (first: string[], then: string[]) =>
    first.length === then.length && first.some((part) => part.startsWith("{")) && first.every((part, at) => part.startsWith("{") || part === then[at]);
  for (const [at, later] of routes.entries()) {
    for (const earlier of routes.slice(0, at)) {
      if (earlier.method === later.method && shadows(earlier.path.split("/"), later.path.split("/")))
        t.fail(`${earlier.method} ${earlier.path} takes what is meant for ${later.path}`);
    }
  }
});

t.test("nothing of the validator's own shows, and every reference leads somewhere", async (t) => {
  for (const [place, node] of nodes(document)) {
    for (const key of Object.keys(node)) {
      if (place.endsWith("/properties")) continue;
      if (["errorCode", "cap", "expects", "secret"].includes(key) || key.startsWith("~")) t.fail(`${place}/${key}`);
    }
    if (typeof node["discriminator"] === "string") t.fail(`${place}: a discriminator is an object in OpenAPI`);
    const reference = node["$ref"];
    if (typeof reference === "string" && !Object.hasOwn(document.components.schemas, reference.replace("#/components/schemas/", "")))
      t.fail(`${place} leads nowhere: ${reference}`);
  }
  t.ok(Object.keys(document.components.schemas).includes("Target"));
});

t.test("two schemas of one name are the same schema", async (t) => {
  const texts = new Map<string, string>();
  const seen = (schema: unknown) => {
    for (const [, node] of nodes(schema)) {
      const title = node["title"];
      if (typeof title !== "string") continue;
      const text = JSON.stringify(node);
      t.equal(texts.get(title) ?? text, text, title);
      texts.set(title, text);
    }
  };
  for (const route of routes) for (const schema of [route.body, route.query, ...Object.values(route.replies)]) seen(schema);
});

t.test("each operation says what it takes, what it answers and what it asks for", async (t) => {
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
    for (const code of route.errors) t.match(operation.responses[errorCodes[code].status]?.description, new RegExp(`\\b${code}:`), `${name} ${code}`);
    if (route.scope !== null) {
      t.ok(scopes.includes(route.scope), name);
      t.match(operation.description, route.scope, name);
    }
  }
});
