export { acknowledgeUrl, linkedChannel, type LinkedChannel, waitingIncidents } from "./acknowledge-links.ts";
export { dropHeldNotices } from "./log.ts";
export { backoffMs } from "./retry.ts";
