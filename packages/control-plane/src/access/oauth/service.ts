export { disconnectApp, endConnectionsOf, listConnectedApps, sweepOAuth } from "./connections.ts";
export { offeredScopes } from "./scopes.ts";
