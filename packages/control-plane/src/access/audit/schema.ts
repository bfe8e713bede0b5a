import Type, { type Static } from "typebox";
import { IdText } from "@statusmesh/shared/text";
import {
  Closed,
  described,
  Id,
  nullable,
  OneOf,
  PageOf,
  paging,
  Shape,
  Text,
  Timestamp,
} from "../../platform/http/wire.ts";

const Change = Type.Unknown({
  description:
    "The resource without secrets; of a change only the changed fields. Null where the write does not record it",
  examples: [null],
});

export const AuditEntry = Shape("AuditEntry", "One write: actor, action, time", {
  id: Id,
  at: Timestamp,
  user_id: nullable(described(Id, "Acting user; null for StatusMesh itself")),
  user_email: nullable(Text("As it was then", "olga@example.org")),
  actor_type: OneOf(
    ["session", "token", "mcp", "channel", "system"],
    "Credential of the request; mcp: the token of an MCP client; channel: a link or button in a notification",
    "token",
  ),
  actor_id: nullable(Text("The session, API token or channel", "01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e90")),
  action: Text(
    "Method and path as this document has them: DELETE /api/v1/targets/{id}; of an MCP call those of the " +
      "equivalent route",
    "DELETE /api/v1/targets/{id}",
  ),
  resource_id: nullable(Text("Affected resource", "01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e90")),
  before: Change,
  after: Change,
  write_source: OneOf(["ui", "api", "terraform"], "Which kind of client", "api"),
  ip: nullable(Text("Where the request came from", "192.0.2.17")),
  user_agent: nullable(Text("User-Agent of the client", "curl/8.14.1")),
  trace_id: nullable(Text("Finds the request in the log", "4bf92f3577b34da6a3ce929d0e0e4736")),
});
export type AuditEntry = Static<typeof AuditEntry>;
export const AuditPage = PageOf(AuditEntry);

export const AuditQuery = Closed({
  user_id: Type.Optional(
    IdText({
      maxLength: 100,
      description: "Entries of this user",
      examples: ["01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e90"],
    }),
  ),
  resource_id: Type.Optional(
    IdText({
      maxLength: 100,
      description: "Entries of this resource, including bulk requests",
      examples: ["01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e90"],
    }),
  ),
  resource_type: Type.Optional(
    Type.String({
      pattern: "^[a-z-]{1,40}$",
      expects: "Use a resource type as in paths, like targets or status-pages",
      description:
        "Entries of this resource type, as in paths: targets, notification-channels, status-pages, incidents, orgs",
      examples: ["targets"],
    }),
  ),
  ...paging(100, 1000),
});
export type AuditQuery = Static<typeof AuditQuery>;
