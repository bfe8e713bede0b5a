export { disconnectApp, endConnectionsOf, listConnectedApps, sweepOAuth } from "./connections.ts";
export { mcpScopes } from "./scopes.ts";
