import type { Json } from "@statusmesh/shared/json";
import type { Route } from "../../platform/http/route.ts";

/* Texts of the document that come from no route. */

/** Description of each tag. A new tag gets its line here. */
export const tags: Record<string, string> = {
  "API tokens": "Credentials for programs: created here, shown once, with scopes and an expiry.",
  Agents: "The protocol between sm-agent and the control plane. Times are Unix milliseconds here.",
  "Connected apps": "MCP clients that a user connected by OAuth.",
  "Configuration as code": "Files that declare monitors, channels, status pages and maintenance windows.",
  Reports: "Uptime in a range of time, by target, tag or status page.",
  Dashboard: "Summary of the organisation.",
  Incidents: "Outages: opened and closed by the engine, acknowledged and resolved by people.",
  "Notification channels":
    "Destinations of notifications about incidents. Paths of link codes such as `telegram-link/{id}` and paths of a " +
    "channel such as `{id}/test` have the same form. No two of them share a method, the literal segment is matched " +
    "first (OpenAPI 3.1, section 4.8.8.2), and the id of a channel is a UUID.",
  Hooks: "Requests of Telegram, Meta and Resend. Each is absent until it is configured.",
  OAuth: "Authorization server of the MCP server. Absent, like its consent page, until `mcp.oauth_enabled` is on.",
  Operator: "Regions and agents of the installation. Without `operator.admin_token` these routes answer 404.",
  Organisations: "Members, invitations, usage and the audit log of an organisation.",
  Public: "The published status page, without authentication.",
  Results: "Check results, and statistics computed from them.",
  Service: "Health of the process, and this document.",
  Maintenance: "Planned work: notifications of its targets are held, and status pages show it.",
  Search: "Search in the resources of the organisation and the pages of the console.",
  "Share links": "Links that show one monitor, read-only, to anyone who has them.",
  "Sign-in": "The caller, sign-in and sessions.",
  Subscribers: "Visitors who are sent updates of a status page, by email or webhook.",
  "Status pages": "Public status pages. Every member reads them, owners change them.",
  Heartbeats: "Monitors that jobs report to: ping URL, state and pings.",
  Snoozes: "Periods in which the notifications of selected monitors are held.",
  Certificates: "Authorities that checks trust, and client certificates that they present.",
  "Update templates": "Saved texts for updates of incidents and for maintenance.",
  Targets: "Monitors: check, interval, regions and alerting policy.",
};

export const about = `Uptime monitoring, alerting and public status pages that you run yourself.

**Authentication.** \`/api/v1\` takes \`Authorization: Bearer sm_live_…\` or the session cookie of the console. A token
acts in one organisation. An unbound token and a session choose theirs with the header \`X-Sm-Org: <slug or id>\`. A
write with a cookie must be same-origin.

**Bodies** are JSON in UTF-8 and strict: an unknown field is an error that names it. Times are RFC 3339 in UTC with
milliseconds, ids are UUIDv7. The length of a text is its number of Unicode code points.

**Lists** answer \`{items, total, limit, offset}\`. A limit above the maximum is silently capped.

**Errors** have one shape, \`Error\`; \`code\` is stable. An existing path answers another method with 405
\`METHOD_NOT_ALLOWED\` and the header \`Allow\`. An absent resource and a resource of another organisation are 404.
\`CIRCUIT_OPEN\` is reserved: an open circuit breaker is the error \`circuit_open\` of a result, and refuses no
request.

**Rate limits.** Each operation names its budget. Budgets count per organisation and per user and minute; the plan sets
them. Over the budget: 429 \`RATE_LIMITED\` with \`Retry-After\` in seconds. 503 has \`Retry-After\` too.`;

/** Singular of the path segment before a parameter, where it is not the regular one. */
const things: Record<string, string> = {
  orgs: "organisation",
  "api-tokens": "API token",
  "connected-apps": "connected app",
  "status-pages": "status page",
  "update-templates": "update template",
  "notification-channels": "channel",
};

/** Description of a path parameter: `Id of the target`. */
export function describePathParameter(path: string, name: string): string {
  const part = path.split("/").find((_, at, parts) => parts[at + 1] === `{${name}}`) ?? "";
  const thing =
    name === "id"
      ? (things[part] ?? part.replace(/s$/, "").replaceAll("-", " "))
      : name.replace(/_id$/, "").replaceAll("_", " ");
  return `Id of the ${thing}`;
}

const roleWords = { owner: "Owners only.", owner_or_self: "Owners, or the member concerned." } as const;

/** Description of an operation: effect, required scope and role, rate-limit category. */
export function describeOperation(route: Route): string {
  const said = [route.description ?? `${route.summary}.`];
  if (route.role !== "member") said.push(roleWords[route.role]);
  if (route.everyScope) said.push(`Needs a session, or a token with every scope, \`${route.scope}\` included.`);
  else if (route.scope !== null) said.push(`Needs the scope \`${route.scope}\`.`);
  if (route.category !== null) said.push(`Charged to the budget \`${route.category}\`.`);
  return said.join(" ");
}

/** Description of a reply, from the title of the schema: `The new target`. */
export function describeReply(status: string, published: Json, schemas: Json): string {
  const node = resolve(published, schemas);
  if (typeof node["description"] === "string") return node["description"];
  if (node["type"] === "array") return "All items, in the order sent";
  const title = node["title"];
  const thing = typeof title === "string" ? title.replaceAll(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase() : "reply";
  return status === "201" ? `Created: the ${thing.replace(/^new /, "")}` : `The ${thing}`;
}

/** Description of the request body. */
export function describeBody(published: Json, schemas: Json, summary: string): string {
  const node = resolve(published, schemas);
  return typeof node["description"] === "string"
    ? node["description"]
    : `Input: ${summary.charAt(0).toLowerCase()}${summary.slice(1)}`;
}

const resolve = (node: Json, schemas: Json): Json =>
  typeof node["$ref"] === "string" ? (schemas[node["$ref"].replace("#/components/schemas/", "")] as Json) : node;
