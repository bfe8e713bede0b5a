/*
 * Functions for jobs only; other domains use service.ts.
 */
export { announce, isNewsDue } from "./announce.ts";
export { areMessagesDue, everyMs, sendToSubscribers } from "./send.ts";
export { sweepSubscribers } from "./sweep.ts";
