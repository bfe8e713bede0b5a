import type { Json } from "./json.ts";
import type { Route } from "../http/route.ts";

/* The words of the document that no route says by itself. */

/** What stands under each heading. A new tag gets its line here. */
export const tags: Record<string, string> = {
  "API tokens": "Credentials for programs: made here, shown once, with scopes and an end.",
  Agents: "What sm-agent speaks with the control plane. Times are Unix milliseconds here.",
  Dashboard: "The organisation in numbers.",
  Incidents: "What is wrong and why we think so: opened and closed by the engine, acknowledged and resolved by people.",
  "Notification channels": "Where notices about incidents go.",
  Operator:
    "Regions and agents of the instance, for whoever runs it. Without `operator.admin_token` these routes do not exist (404).",
  Organisations: "Members, invitations, usage and the audit log of an organisation.",
  Public: "What anybody may read about the published status page, without a credential.",
  Results: "What the checks found, and what is computed from it.",
  Service: "Health of the process, and this document.",
  "Sign-in": "Who the caller is, sign-in and sessions.",
  "Status pages": "What visitors see. Every member reads, only owners change.",
  Targets: "What is checked (monitors): how, how often, from where, and who is told.",
};

export const about = `Uptime monitoring, alerting and public status pages that you run yourself.

**Who is asking.** \`/api/v1\` takes \`Authorization: Bearer sm_live_…\` or the session cookie of the console. A token acts in one
organisation; one that is not bound, and a session, name theirs with the header \`X-Sm-Org: <slug>\`. A write with a cookie must come from our own pages.

**Bodies** are JSON in UTF-8 and strict: an unknown field is an error that names it. Times are RFC 3339 in UTC with milliseconds, ids are UUIDv7.

**Lists** answer \`{items, total, limit, offset}\`. A limit above the largest is silently capped.

**Errors** have one shape, \`Error\`; \`code\` is stable. A path that exists answers another method with 405 \`METHOD_NOT_ALLOWED\` and the header
\`Allow\`; what does not exist, and what belongs to somebody else, is 404.

**Rates.** Each operation names the budget that it is charged to, per organisation and per user and minute, from the plan. Over it: 429 \`RATE_LIMITED\`
with \`Retry-After\` in seconds. 503 has \`Retry-After\` too.`;

/** Names of what is addressed by the last part of a path before its parameter, where the part is not simply its plural. */
const things: Record<string, string> = {
  orgs: "organisation",
  "api-tokens": "API token",
  "status-pages": "status page",
  "notification-channels": "channel",
};

/** `Id of the target`: what stands for a parameter of a path. */
export function describePathParameter(path: string, name: string): string {
  const part = path.split("/").find((_, at, parts) => parts[at + 1] === `{${name}}`) ?? "";
  const thing =
    name === "id"
      ? (things[part] ?? part.replace(/s$/, "").replaceAll("-", " "))
      : name.replace(/_id$/, "").replaceAll("_", " ");
  return `Id of the ${thing}`;
}

const roleWords = { owner: "For owners of the organisation.", owner_or_self: "For owners, and for oneself." } as const;

/** What the operation does, who may ask for it, and what it is charged to. */
export function describeOperation(route: Route): string {
  const said = [route.description ?? `${route.summary}.`];
  if (route.role !== "member") said.push(roleWords[route.role]);
  if (route.scope !== null) said.push(`Needs the scope \`${route.scope}\`.`);
  if (route.category !== null) said.push(`Charged to the budget \`${route.category}\`.`);
  return said.join(" ");
}

/** `The new target`, from the title of the schema. */
export function describeReply(status: string, published: Json, schemas: Json): string {
  const node = resolve(published, schemas);
  if (typeof node["description"] === "string") return node["description"];
  if (node["type"] === "array") return "All of them, in the order sent";
  const title = node["title"];
  const thing = typeof title === "string" ? title.replaceAll(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase() : "answer";
  return status === "201" ? `Made: the ${thing.replace(/^new /, "")}` : `The ${thing}`;
}

/** What the request body is. */
export function describeBody(published: Json, schemas: Json, summary: string): string {
  const node = resolve(published, schemas);
  return typeof node["description"] === "string"
    ? node["description"]
    : `What to use: ${summary.charAt(0).toLowerCase()}${summary.slice(1)}`;
}

const resolve = (node: Json, schemas: Json): Json =>
  typeof node["$ref"] === "string" ? (schemas[node["$ref"].replace("#/components/schemas/", "")] as Json) : node;
