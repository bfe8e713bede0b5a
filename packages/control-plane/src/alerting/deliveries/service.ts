export { acknowledgeUrl, linkedChannel, type LinkedChannel, waitingIncidents } from "./acknowledge-links.ts";
export { dropHeldNotices, listDeliveries, retryDelivery } from "./log.ts";
export { backoffMs } from "./retry.ts";
