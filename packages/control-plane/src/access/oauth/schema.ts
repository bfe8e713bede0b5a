import Type, { type Static } from "typebox";
import { Id, nullable, PageOf, Timestamp } from "../../platform/http/wire.ts";

export const ConnectedApp = Type.Object(
  {
    id: Id,
    client_name: nullable(
      Type.String({ description: "Name that the app gave itself; null without one", examples: ["Claude"] }),
    ),
    redirect_host: Type.String({
      description: "Host that received the authorization code",
      examples: ["claude.example", "localhost:33418"],
    }),
    scopes: Type.Array(Type.String({ examples: ["targets:read"] }), { description: "Scopes that the user approved" }),
    created_at: Timestamp,
    last_used_at: nullable(
      Type.String({ format: "date-time", description: "Last use, to the minute; null: never used" }),
    ),
    expires_at: Timestamp,
  },
  { additionalProperties: false, title: "ConnectedApp", description: "An MCP client that the caller connected" },
);
export type ConnectedApp = Static<typeof ConnectedApp>;
export const ConnectedAppPage = PageOf(ConnectedApp);
