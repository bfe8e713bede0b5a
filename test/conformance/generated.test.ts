import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import formats from "ajv-formats";
import fc, { type Arbitrary } from "fast-check";
import t from "tap";
import { errorCodes } from "@statusmesh/shared/errors";
import { newId } from "@statusmesh/shared/ids";
import { type Answer, type Client, connect, type Json, type RequestOptions } from "../harness/api.ts";
import { agentIn, castIn } from "../harness/cast.ts";
import { cloneDatabase } from "../harness/database.ts";
import { serveHere } from "../harness/in-process.ts";
import { fitting, type Node, resolve, spoilt, unreadable } from "./arbitraries.ts";
import { goodBodies, tcp, webhook } from "./bodies.ts";
import { nameOf, routes } from "./declared.ts";

/*
 * Valid and invalid requests, generated from the OpenAPI document and sent to the real service: each reply is one that
 * the document declares for the operation. SM_TEST_SEED changes the generated values, SM_TEST_RUNS their number.
 */

const seed = Number(process.env["SM_TEST_SEED"] ?? 20_261_121);
const runs = Number(process.env["SM_TEST_RUNS"] ?? 2);

const operatorSecret = "a-secret-of-the-operator";
const database = await cloneDatabase(t);
const { sql } = database;
const { olga, milan, xenia } = await castIn(sql);
await sql`
  update plans
  set api_writes_per_min = null, api_reads_per_min = null, bulk_ops_per_min = null, test_now_per_min = null,
    check_now_per_min = null`;
// Its region is disabled: no target is assigned to it, and no request waits for it.
const agent = await agentIn(sql, "idle");
await sql`update regions set enabled = false where id = 'idle'`;
const url = await serveHere(t, database, {
  SM_SECURITY__ALLOW_PRIVATE_TARGETS: "true",
  SM_OPERATOR__ADMIN_TOKEN: operatorSecret,
  SM_PUBLIC_STATUS__PUBLIC_PER_IP_RATE_LIMIT_PER_MIN: "0",
  SM_AUTH__PER_IP_RATE_LIMIT_PER_MIN: "0",
});
const anonymous = connect(t, url, null);
const bearing = (token: string): Client => anonymous.with({ authorization: `Bearer ${token}` });
const callers: Record<string, Client> = {
  token: bearing(olga.token),
  agent: bearing(agent.token),
  operator: bearing(operatorSecret),
};

const made = async (path: string, json: object): Promise<Json> => (await callers["token"]!.post(path, json)).body;
const target = await made("/api/v1/targets", { name: "Shop", check: tcp });
const heartbeat = await made("/api/v1/targets", { name: "Job", check: { type: "heartbeat", period: 60_000 } });
const channel = await made("/api/v1/notification-channels", { name: "Duty", config: webhook });
const window = await made("/api/v1/maintenance", goodBodies({ targetId: target.id })["POST /api/v1/maintenance"]!);
const page = await made("/api/v1/status-pages", { slug: "null", name: "Shop" });
await made(`/api/v1/status-pages/${page.id}/components`, { target_id: target.id });
const incident = newId();
await sql`
  insert into incidents
    (id, org_id, target_id, started_at, opened_at, outage_since, severity, impact, peak_impact,
      regions_down, regions_up, created_at, updated_at)
  values
    (${incident}, ${olga.orgId}, ${target.id}, now(), now(), now(), 'major', 'major_outage', 'major_outage',
      '{default}', '{}', now(), now())`;
// The region of the document's examples.
await callers["operator"]!.post("/operator/regions", { id: "frankfurt", name: "Frankfurt" });
/** Olga's thing for each path parameter; operations that delete or leave get a thing of another user. */
const idsByPath: Record<string, string> = {
  "/api/v1/targets/{id}/heartbeat": heartbeat.id,
  "/api/v1/targets/{id}": target.id,
  "/api/v1/notification-channels/{id}": channel.id,
  "/api/v1/maintenance/{id}": window.id,
  "/api/v1/status-pages/{id}": page.id,
  "/api/v1/incidents/{id}": incident,
  "/api/public/v1/incidents/{id}": incident,
  "/api/v1/orgs/{id}": olga.orgId,
  "/operator/orgs/{id}": xenia.orgId,
  "/operator/regions/{id}": "default",
  "/operator/agents/{id}": agent.id,
  "/api/public/v1/components/{id}": target.id,
};
const parts: Record<string, string> = {
  target_id: target.id,
  user_id: milan.userId,
  occurrence_id: window.occurrence.id,
};

interface Operation {
  name: string;
  method: string;
  path: string;
  security: Record<string, unknown>[];
  parameters: { name: string; in: string; description: string; schema: Node }[];
  body: Node | null;
  /** True where a request without a body is valid. */
  bodyOptional: boolean;
  responses: Record<string, Node>;
}

const document: Json = (await anonymous.get("/api/openapi.json")).body;
const isOAuth = (path: string): boolean => /^\/oauth\/|oauth-/.test(path);
const operations: Operation[] = Object.entries<Json>(document.paths).flatMap(([path, methods]) =>
  // OAuth is off here and takes forms; oauth/oauth.test.ts holds its replies against the document.
  (isOAuth(path) ? [] : Object.entries<Json>(methods)).map(([method, it]) => ({
    name: `${method.toUpperCase()} ${path}`,
    method: method.toUpperCase(),
    path,
    security: it.security,
    parameters: it.parameters.map((parameter: Node) => resolve(document, parameter)),
    body: it.requestBody?.content["application/json"].schema ?? null,
    bodyOptional: it.requestBody?.required === false,
    responses: Object.fromEntries(
      Object.entries<Json>(it.responses).map(([status, response]) => [status, resolve(document, response)]),
    ),
  })),
);

const ajv = new Ajv2020({ strict: false, inlineRefs: false, code: { optimize: false } });
formats.default(ajv);
ajv.addSchema(document, "document");
/** By the text of the schema: most replies refer to the same ones. */
const compiled = new Map<string, ValidateFunction>();
const known = new WeakMap<Node, ValidateFunction>();
function validatorOf(schema: Node): ValidateFunction {
  const found = known.get(schema);
  if (found !== undefined) return found;
  const text = JSON.stringify(schema).replaceAll('"$ref":"#/', '"$ref":"document#/');
  let validator = compiled.get(text);
  if (validator === undefined) compiled.set(text, (validator = ajv.compile(JSON.parse(text))));
  known.set(schema, validator);
  return validator;
}

/** The first difference between a reply and the declared replies of the operation; null without one. */
function broken(operation: Operation, answer: Answer, body: Json): string | null {
  const response = operation.responses[answer.status];
  if (response === undefined) return "a status that is not declared";
  if (
    answer.status >= 500 &&
    answer.body?.error?.code !== "PROBE_UNAVAILABLE" &&
    answer.body?.error?.code !== "STATUS_DATA_UNAVAILABLE"
  )
    return "the service failed";
  for (const [header, declared] of Object.entries<Node>(response["headers"] ?? {})) {
    const { required, schema } = resolve(document, declared);
    const value = answer.headers[header.toLowerCase()];
    if (
      value === undefined
        ? required === true
        : !validatorOf(schema)(schema.type === "integer" ? Number(value) : String(value))
    )
      return `the header ${header} is ${value}`;
  }
  const contents = Object.entries<Node>(response["content"] ?? {});
  const sent = contents.find(([name]) => answer.headers["content-type"] === `${name}; charset=utf-8`);
  const [type, media] = sent ?? contents[0] ?? [null, null];
  if (type === null || media === null) return answer.text === "" ? null : "a body that is not declared";
  // A path that cannot be decoded is not that of a page.
  if (type === "text/html" && answer.body?.error?.code === "NOT_FOUND") return null;
  if (answer.headers["content-type"] !== `${type}; charset=utf-8`) return `the type ${answer.headers["content-type"]}`;
  const validator = validatorOf(media["schema"]);
  if (!validator(type === "application/json" ? answer.body : answer.text)) return ajv.errorsText(validator.errors);
  // Public pages answer a visitor's error as a page, and pings in the words of the product.
  return answer.status < 400 || type !== "application/json" || answer.body.ok === false
    ? null
    : brokenError(answer, media, body);
}

function brokenError(answer: Answer, media: Node, body: Json): string | null {
  const { code, field, message } = answer.body.error;
  if (media["examples"][code] === undefined) return `the code ${code} is not declared`;
  if (errorCodes[code as keyof typeof errorCodes].status !== answer.status)
    return `the code ${code} with the status ${answer.status}`;
  if (message.trim() === "") return "no message";
  if (field === null || field === "" || field.startsWith("/query/")) return null;
  return field.startsWith("/") && leadsSomewhere(field, body) ? null : `the field ${field}`;
}

/** True for a pointer to a value of the body, or to a key that an object of it lacks. */
function leadsSomewhere(pointer: string, body: Json): boolean {
  let at = body;
  const keys = pointer
    .slice(1)
    .split("/")
    .map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
  for (const [depth, key] of keys.entries()) {
    if (typeof at !== "object" || at === null) return false;
    if (!Object.hasOwn(at, key)) return depth >= keys.length - 1 || at[key] === undefined;
    at = at[key];
  }
  return true;
}

/** Codes of requests that violate their schema. */
const invalidInput = new Set(["INVALID_BODY", "INVALID_JSON", "UNKNOWN_FIELD", "INVALID_QUERY", "INVALID_ID"]);
/**
 * Rules that are stricter than a schema can express: combinations of credentials and body, and the fields of a partial
 * check.
 */
const beyondSchemas = new RegExp(
  [
    "^POST .*/targets.* INVALID_BODY .*/(?:bearer_token|basic_auth/0|body|name)$",
    String.raw`^PATCH /api/v1/targets/\{id\} \w+ /check`,
    // No pattern detects every address that browsers refuse.
    String.raw`^(?:POST|PATCH) /api/v1/status-pages\S* INVALID_BODY /branding/website_url$`,
    // Networks and domains, a mode without what it asks for, or whose means the installation lacks.
    String.raw`^(?:POST|PATCH) /api/v1/status-pages\S* INVALID_BODY /access/\w+(?:/\d+)?$`,
    // Languages go with the language auto alone.
    String.raw`^(?:POST|PATCH) /api/v1/status-pages\S* INVALID_BODY /branding/languages$`,
    // After how many minutes.
    String.raw`^(?:POST|PATCH) /api/v1/status-pages\S* INVALID_BODY /publish/after_minutes$`,
    // Two names of one filter.
    "^GET /api/v1/maintenance INVALID_QUERY /query/status$",
    // The document of a project is compared with the schemas of its objects.
    String.raw`^POST /api/v1/config/(?:plan|apply) \w+ /document`,
    // Dates of the calendar, of the last 400 days, each once.
    "^POST /api/v1/import/history INVALID_BODY /items/",
    // Days of the calendar.
    "^GET /api/v1/reports/uptime INVALID_QUERY /query/(?:from|to)$",
    // One of two fields.
    "^POST /api/v1/incidents INVALID_BODY /target_id$",
    // A sign-in is by address and password, or by the code of a link; a present password is only there if one is set.
    "^POST /api/v1/sessions INVALID_BODY /(?:email|password|code)$",
    "^PUT /api/v1/me/password INVALID_BODY /current$",
    // What the account has.
    "^POST /api/v1/sessions/current/verify INVALID_BODY /password$",
    // A monitor, or a name and a state.
    String.raw`^(?:POST|PATCH) /api/v1/status-pages/\S*/components\S* INVALID_BODY /(?:target_id|state|public_name)$`,
    // The plans are rows of the installation.
    String.raw`^PATCH /operator/orgs/\{id\} INVALID_BODY /plan$`,
  ].join("|"),
);

const callerOf = ({ security }: Operation): Client => callers[Object.keys(security[0] ?? {})[0] ?? ""] ?? anonymous;

function pathOf({ method, path }: Operation, id: string | null): string {
  const own = Object.entries(idsByPath).find(([prefix]) => path.startsWith(prefix))?.[1];
  const spared = method === "DELETE" || /\/(?:restore|switch)$/.test(path);
  return path.replaceAll(
    /\{(\w+)\}/g,
    (_, name: string) => id ?? (spared ? newId() : name === "id" ? (own ?? newId()) : (parts[name] ?? newId())),
  );
}

/** Valid bodies that neither send anything off this machine nor delay the test. */
function bodiesOf(operation: Operation): Arbitrary<Json> {
  if (operation.body === null) return fc.constant(undefined);
  const good = fitting(document, operation.body);
  if (operation.path === "/api/agent/pull") return good.map((body) => ({ ...body, cursor: null, protocol: 1 }));
  if (operation.path === "/api/v1/notification-channels/test")
    return good.map((body) => ({ ...body, config: webhook }));
  if (operation.name === "PATCH /api/v1/notification-channels/{id}")
    return good.map(({ config, ...body }) => (config === undefined ? body : { ...body, config: webhook }));
  if (/^(?:POST|PATCH) \/api\/v1\/status-pages(?:\/\{id\})?$/.test(operation.name))
    return good.map(withOneName).map(asPublic);
  return good;
}

/** A public page: a private one is not read at /status. */
const asPublic = ({ access, ...body }: Json): Json =>
  access === undefined ? body : { ...body, access: { ...access, mode: "public" } };

/** A page whose branding has each field once: one with its two names is refused. */
function withOneName({ branding, ...body }: Json): Json {
  if (branding === undefined) return body;
  const fields = Object.entries(branding).filter(
    ([name]) => !Object.hasOwn(branding, name.replace("public_", "")) || !name.startsWith("public_"),
  );
  return { ...body, branding: Object.fromEntries(fields) };
}

const sample = <T>(arbitrary: Arbitrary<T>, count: number): T[] => fc.sample(arbitrary, { seed, numRuns: count });
const queryOf = (query: Record<string, Json>): string => {
  const pairs = Object.entries(query).map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`);
  return pairs.length === 0 ? "" : `?${pairs.join("&")}`;
};

/** Sends the request and records each difference from the document. `wanted` checks what the document leaves open. */
async function probe(
  operation: Operation,
  path: string,
  send: RequestOptions,
  body: Json,
  failures: string[],
  wanted: (answer: Answer) => string | null,
): Promise<void> {
  const answer = await callerOf(operation).send(operation.method, path, send);
  const fault = broken(operation, answer, body) ?? wanted(answer) ?? (await unreadableLocation(operation, answer));
  if (fault !== null)
    failures.push(
      `${fault}: ${operation.method} ${path} ` +
        `${JSON.stringify(body ?? String(send.body ?? "")).slice(0, 600)} -> ${answer.status} ` +
        `${answer.text.slice(0, 300)}`,
    );
}

const located = new Set<string>();

/** The `Location` of a new resource answers GET. Asked once for each operation. */
async function unreadableLocation(operation: Operation, answer: Answer): Promise<string | null> {
  const location = answer.status === 201 ? String(answer.headers["location"] ?? "") : "";
  if (location === "" || located.has(operation.name)) return null;
  located.add(operation.name);
  const { status } = await callerOf(operation).get(location.split("#")[0]!);
  return status === 200 ? null : `its Location ${location} answers ${status}`;
}

/** A body of another protocol version is refused for its version first. */
const refused = (answer: Answer): string | null =>
  [400, 413, 415, 422].includes(answer.status) || answer.body?.error?.code === "AGENT_PROTOCOL_MISMATCH"
    ? null
    : "it should have been refused";

t.test("what fits the document is not refused for its shape", async (t) => {
  const done = new Set<string>();
  for (const operation of operations) {
    const failures: string[] = [];
    const queries = operation.parameters.filter((it) => it.in === "query");
    const query = fc.record(Object.fromEntries(queries.map((it) => [it.name, fitting(document, it.schema)])), {
      requiredKeys: [],
      noNullPrototype: true,
    });
    for (const [body, asked] of sample(
      fc.tuple(bodiesOf(operation), query),
      operation.body === null && queries.length === 0 ? 1 : runs,
    )) {
      const path = `${pathOf(operation, null)}${queryOf(asked)}`;
      await probe(
        operation,
        path,
        body === undefined ? {} : { json: body },
        body,
        failures,
        ({ status, body: reply }) => {
          if (status < 300) done.add(operation.name);
          const { code, field } = reply?.error ?? {};
          return invalidInput.has(code) && !beyondSchemas.test(`${operation.name} ${code} ${field}`)
            ? "it fits, and was refused"
            : null;
        },
      );
    }
    t.strictSame(failures, [], `${operation.name}, seed ${seed}`);
  }
  t.ok(located.size > 5, `the Location of ${located.size} operations was read`);
  t.ok(done.size > operations.length * 0.45, `and much of it is done: ${done.size} of ${operations.length}`);
});

/** All texts for the first operation of a class, `count` in turn for each of the others. */
function turnsOf(count: number): <T>(classOf: string, texts: readonly T[]) => readonly T[] {
  const turns = new Map<string, number>();
  return (classOf, texts) => {
    const turn = turns.get(classOf) ?? 0;
    turns.set(classOf, turn + 1);
    return turn === 0 ? texts : Array.from({ length: count }, (_, n) => texts[(count * turn + n) % texts.length]!);
  };
}

/** Operations of one class read bodies in the same way, before their schemas are looked at. */
function bodyClass({ name }: Operation): string {
  const { auth, bodyLimit, bodyOptional, onInvalidBody, body } = routes.find((route) => nameOf(route) === name)!;
  return `${auth} ${bodyLimit} ${bodyOptional} ${onInvalidBody !== null} ${(body as { type?: string } | null)?.type}`;
}

t.test("an invalid body is refused as documented, and one that is still valid is accepted", async (t) => {
  const inTurn = turnsOf(3);
  for (const operation of operations) {
    if (operation.body === null) continue;
    const failures: string[] = [];
    const validator = validatorOf(operation.body);
    const path = pathOf(operation, null);
    for (const body of sample(
      bodiesOf(operation).chain((good) => spoilt(good)),
      2 * runs,
    )) {
      const held =
        operation.path === "/api/agent/pull" ||
        operation.path === "/api/v1/notification-channels/test" ||
        operation.name === "PATCH /api/v1/notification-channels/{id}";
      const fits = validator(body);
      // Values that are still valid are covered above, where their effects are bounded.
      if (held && fits) continue;
      await probe(operation, path, { json: body }, body, failures, (answer) => (fits ? null : refused(answer)));
    }
    const [good] = sample(bodiesOf(operation), 1);
    for (const { title, body, headers } of inTurn(bodyClass(operation), unreadable(good))) {
      if (title === "nothing" && operation.bodyOptional) continue;
      const sent = { "content-type": "application/json", ...headers };
      await probe(
        operation,
        path,
        { body, headers: sent },
        title.startsWith("__proto__") ? JSON.parse(String(body)) : title === "nothing" ? undefined : parsed(body),
        failures,
        refused,
      );
    }
    t.strictSame(failures, [], `${operation.name}, seed ${seed}`);
  }
});

const parsed = (body: string | Buffer): Json => {
  try {
    return JSON.parse(String(body));
  } catch {
    return undefined;
  }
};

t.test("odd paths and queries are answered as documented", async (t) => {
  const ids = [
    "%",
    "%zz",
    "a%00b",
    "%ff%fe",
    "%f0%9f",
    "..%2f..",
    "x".repeat(2000),
    "%F0%9F%A7%AA",
    "null",
    "-1",
    "01931F2E-7C1A-7D30-9B5E-2F6A4C8D1E90",
    newId(),
  ];
  const odd = [
    "",
    "-1",
    "0",
    "1.5",
    "1e3",
    "0x10",
    "NaN",
    "true",
    "99999999999999999999",
    "%00",
    "%ff",
    "%zz",
    "%",
    "2026-13-45T99:99:99Z",
    "2026-02-30T00:00:00.000Z",
    "x".repeat(5000),
    "a'b\"c",
    "%F0%9F%A7%AA",
  ];
  const inTurn = turnsOf(1);
  for (const operation of operations) {
    const failures: string[] = [];
    const [good] = sample(bodiesOf(operation), 1);
    const send = good === undefined ? {} : { json: good };
    const [, thing] = /([\w.-]+)\/\{/.exec(operation.path) ?? [];
    if (thing !== undefined)
      for (const id of inTurn(thing, ids))
        await probe(operation, pathOf(operation, id), send, good, failures, () => null);
    // The other routes ignore unknown parameters, because health checks, browsers and jobs call them.
    const isStrict = /^\/(?:api\/(?:public\/)?v1\/(?!heartbeat\/)|operator\/)/.test(operation.path);
    if (operation.method === "GET" && isStrict) {
      const own = pathOf(operation, null);
      await probe(operation, `${own}?intervall=1`, send, good, failures, (answer) =>
        answer.body?.error?.code === "UNKNOWN_FIELD" ? null : "an unknown parameter was taken",
      );
      await probe(operation, `${own}?__proto__=1`, send, good, failures, refused);
      for (const { name, description, schema } of operation.parameters.filter((it) => it.in === "query")) {
        if (/silently capped/.test(description))
          await probe(operation, `${own}?${name}=${"9".repeat(30)}`, send, good, failures, (answer) =>
            answer.status === 200 ? null : "a large value was not capped",
          );
        await probe(operation, `${own}?${name}=1&${name}=1`, send, good, failures, refused);
        for (const text of inTurn(`${name} ${JSON.stringify(schema)}`, odd))
          await probe(operation, `${own}?${name}=${text.replaceAll('"', "%22")}`, send, good, failures, () => null);
      }
    }
    t.strictSame(failures, [], `${operation.name}, seed ${seed}`);
  }
});
