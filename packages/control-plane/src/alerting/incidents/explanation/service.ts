export { explainIncident, explainVotes } from "./explain.ts";
export { listDeliveries, retryDelivery } from "./notifications.ts";
