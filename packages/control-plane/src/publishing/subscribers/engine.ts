/*
 * Functions for jobs only; other domains use service.ts.
 */
export { announce, isNewsDue } from "./announce.ts";
export { areMessagesDue, everyMs, openWebhookSender, sendMails, type WebhookSender } from "./sender.ts";
export { sweepSubscribers } from "./service.ts";
