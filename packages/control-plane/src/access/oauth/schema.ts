import Type, { type Static } from "typebox";
import { described, Id, nullable, PageOf, Shape, Text, Timestamp } from "../../platform/http/wire.ts";

export const ConnectedApp = Shape("ConnectedApp", "An MCP client that the caller connected", {
  id: Id,
  client_name: nullable(Text("Name that the app gave itself; null without one", "Claude")),
  redirect_host: Text("Host that received the authorization code", "claude.example", "localhost:33418"),
  scopes: Type.Array(Type.String({ examples: ["targets:read"] }), { description: "Scopes that the user approved" }),
  created_at: Timestamp,
  last_used_at: nullable(described(Timestamp, "Last use, to the minute; null: never used")),
  expires_at: Timestamp,
});
export type ConnectedApp = Static<typeof ConnectedApp>;
export const ConnectedAppPage = PageOf(ConnectedApp);
