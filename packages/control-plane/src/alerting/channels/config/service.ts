export { channelForms, checkConfig, checkWebhookUrl, isPermanentStatus, kindLabel, webhookSignature } from "./rules.ts";
export { openConfigPartly as openedConfig, resealChannels, unreadableChannels } from "./sealing.ts";
export { keepChannels, manageChannels, storedChannels, type StoredChannel } from "./stored.ts";
