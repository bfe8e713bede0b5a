export { completed as completedConfig, delegableKinds, kindOf as channelKindOf } from "./index.ts";
export { DeliveryError } from "./kind.ts";
export { acknowledgeAction } from "./slack.ts";
export { readInbound } from "./sms/index.ts";
export { type InboundRequest } from "./sms/provider.ts";
