/*
 * Functions for jobs only; other domains use service.ts.
 */
export { announce } from "./announce.ts";
export { everyMs, sendToSubscribers } from "./send.ts";
