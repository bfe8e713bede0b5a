import Type, { type Static } from "typebox";
import { Id, nullable, PageOf, paging, Timestamp } from "../http/wire.ts";

const Change = nullable(Type.Unknown({ description: "What it was, or became, without secrets; null where the write does not say" }));

export const AuditEntry = Type.Object(
  {
    id: Id,
    at: Timestamp,
    user_id: nullable(Id),
    user_email: nullable(Type.String({ description: "As it was then" })),
    actor_type: Type.Enum(["session", "token", "system"]),
    actor_id: nullable(Type.String({ description: "The session or the API token" })),
    action: Type.String({ description: "Method and path as this document has them: DELETE /api/v1/targets/{id}" }),
    resource_id: nullable(Type.String()),
    before: Change,
    after: Change,
    write_source: Type.Enum(["ui", "api", "terraform"]),
    ip: nullable(Type.String()),
    user_agent: nullable(Type.String()),
    trace_id: nullable(Type.String()),
  },
  { additionalProperties: false, title: "AuditEntry" },
);
export type AuditEntry = Static<typeof AuditEntry>;
export const AuditPage = PageOf(AuditEntry);

export const AuditQuery = Type.Object(
  {
    user_id: Type.Optional(Type.String({ maxLength: 100, description: "Only what this user did" })),
    resource_id: Type.Optional(Type.String({ maxLength: 100, description: "Only what was done to this resource" })),
    ...paging(100, 1000),
  },
  { additionalProperties: false },
);
export type AuditQuery = Static<typeof AuditQuery>;
