export { acknowledgeUrl, linkedChannel } from "./acknowledge-links.ts";
export { type LinkedChannel, selectWaiting as waitingIncidents } from "./acknowledge-queries.ts";
export { dropHeldNotices } from "./log.ts";
export { backoffMs } from "./retry.ts";
