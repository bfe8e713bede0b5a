/*
 * What jobs use of this domain, and no other domain does.
 */
export { announce } from "./announce.ts";
export { everyMs, sendToSubscribers } from "./send.ts";
