export { disconnectApp, endConnectionsOf, listConnectedApps, sweepOAuth } from "./connections.ts";
