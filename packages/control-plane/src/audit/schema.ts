import Type, { type Static } from "typebox";
import { IdText } from "@statusmesh/shared/text";
import { Id, nullable, PageOf, paging, Timestamp } from "../http/wire.ts";

const Change = Type.Unknown({
  description:
    "What it was, or became, without secrets: of a change only the fields that differ. Null where the write does not say",
  examples: [null],
});

export const AuditEntry = Type.Object(
  {
    id: Id,
    at: Timestamp,
    user_id: nullable(Type.Unsafe<string>({ ...Id, description: "Who did it; null for StatusMesh itself" })),
    user_email: nullable(Type.String({ description: "As it was then", examples: ["olga@example.org"] })),
    actor_type: Type.Enum(["session", "token", "system"], {
      description: "What the request came with",
      examples: ["token"],
    }),
    actor_id: nullable(
      Type.String({ description: "The session or the API token", examples: ["01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e90"] }),
    ),
    action: Type.String({
      description: "Method and path as this document has them: DELETE /api/v1/targets/{id}",
      examples: ["DELETE /api/v1/targets/{id}"],
    }),
    resource_id: nullable(
      Type.String({ description: "What it was done to", examples: ["01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e90"] }),
    ),
    before: Change,
    after: Change,
    write_source: Type.Enum(["ui", "api", "terraform"], { description: "Which kind of client", examples: ["api"] }),
    ip: nullable(Type.String({ description: "Where the request came from", examples: ["192.0.2.17"] })),
    user_agent: nullable(Type.String({ description: "What the client calls itself", examples: ["curl/8.14.1"] })),
    trace_id: nullable(
      Type.String({ description: "Finds the request in the log", examples: ["4bf92f3577b34da6a3ce929d0e0e4736"] }),
    ),
  },
  { additionalProperties: false, title: "AuditEntry", description: "One write: who, what, when" },
);
export type AuditEntry = Static<typeof AuditEntry>;
export const AuditPage = PageOf(AuditEntry);

export const AuditQuery = Type.Object(
  {
    user_id: Type.Optional(
      IdText({
        maxLength: 100,
        description: "Only what this user did",
        examples: ["01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e90"],
      }),
    ),
    resource_id: Type.Optional(
      IdText({
        maxLength: 100,
        description: "Only what was done to this resource, bulk requests included",
        examples: ["01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e90"],
      }),
    ),
    resource_type: Type.Optional(
      Type.String({
        pattern: "^[a-z-]{1,40}$",
        description:
          "Only what was done to resources of this type, as paths have it: targets, notification-channels, status-pages, incidents, orgs",
        examples: ["targets"],
      }),
    ),
    ...paging(100, 1000),
  },
  { additionalProperties: false },
);
export type AuditQuery = Static<typeof AuditQuery>;
