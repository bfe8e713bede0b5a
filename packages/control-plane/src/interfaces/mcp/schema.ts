import Type, { type Static } from "typebox";
import { Closed, Id, nullable, OneOf, PageOf, paging, Shape, Text, Timestamp } from "../../platform/http/wire.ts";

const outcomes = ["success", "denied", "error"] as const;
export type Outcome = (typeof outcomes)[number];

export const McpCall = Shape("McpCall", "One call of an MCP tool that writes", {
  id: Id,
  at: Timestamp,
  actor_type: Type.Literal("mcp", { description: "Always mcp", examples: ["mcp"] }),
  token_id: Type.Unsafe<string>({ ...Id, description: "Access token or API token of the call" }),
  user_id: Type.Unsafe<string>({ ...Id, description: "User of the token" }),
  user_email: nullable(Text("Their address; null when the account is gone", "olga@example.org")),
  org_id: Type.Unsafe<string>({ ...Id, description: "Organisation of the token" }),
  app: Text("Name of the connected app, or of the token that a person created", "Claude"),
  monitor: nullable(
    Text("Name of the monitor that the call was about, as it was then; null where it was not found", "Checkout API"),
  ),
  tool: Text("Name of the tool", "pause_monitor"),
  arguments: Type.Record(Type.String(), Type.Unknown(), {
    description: "Arguments that the tool declares, as they came",
    examples: [{ monitor_id: "01931f2e-7c1a-7d30-9b5e-2f6a4c8d1e90" }],
  }),
  outcome: OneOf(
    outcomes,
    "denied: a scope or the person's yes is missing; error: anything else that failed",
    "success",
  ),
  detail: nullable(Text("Code of the failure", "declined")),
  refused: nullable(
    Type.Integer({
      description:
        "Calls that a limit refused: those of one token and tool in one minute are one row, with the arguments of " +
        "the first; null for a row of one call",
      examples: [30],
    }),
  ),
});
export type McpCall = Static<typeof McpCall>;
export const McpCallPage = PageOf(McpCall);

export const McpCallQuery = Closed(paging(100, 1000));
