import Type, { type Static } from "typebox";
import { Id, nullable, PageOf, paging, Timestamp } from "../../platform/http/wire.ts";

const outcomes = ["success", "denied", "error"] as const;
export type Outcome = (typeof outcomes)[number];

export const McpCall = Type.Object(
  {
    id: Id,
    at: Timestamp,
    actor_type: Type.Literal("mcp", { description: "Always mcp", examples: ["mcp"] }),
    token_id: Type.Unsafe<string>({ ...Id, description: "Access token or API token of the call" }),
    user_id: Type.Unsafe<string>({ ...Id, description: "User of the token" }),
    user_email: nullable(
      Type.String({ description: "Their address; null when the account is gone", examples: ["olga@example.org"] }),
    ),
    org_id: Type.Unsafe<string>({ ...Id, description: "Organisation of the token" }),
    app: Type.String({
      description: "Name of the connected app, or of the token that a person created",
      examples: ["Claude"],
    }),
    monitor: nullable(
      Type.String({
        description: "Name of the monitor that the call was about, as it was then; null where it was not found",
        examples: ["Checkout API"],
      }),
    ),
    tool: Type.String({ description: "Name of the tool", examples: ["pause_monitor"] }),
    arguments: Type.Record(Type.String(), Type.Unknown(), {
      description: "Arguments that the tool declares, as they came",
      examples: [{ monitor_id: "01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e90" }],
    }),
    outcome: Type.Enum([...outcomes], {
      description: "denied: a scope or the person's yes is missing; error: anything else that failed",
      examples: ["success"],
    }),
    detail: nullable(Type.String({ description: "Code of the failure", examples: ["declined"] })),
  },
  { additionalProperties: false, title: "McpCall", description: "One call of an MCP tool that writes" },
);
export type McpCall = Static<typeof McpCall>;
export const McpCallPage = PageOf(McpCall);

export const McpCallQuery = Type.Object(paging(100, 1000), { additionalProperties: false });
