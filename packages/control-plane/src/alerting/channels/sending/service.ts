export { maxNameLength, plain } from "./message-text.ts";
export {
  channelOutbound,
  hostOf,
  isForPeople,
  isForPhones,
  replyThrough,
  roundKinds,
  sendThrough,
  sharesOf,
  takesEveryChange,
  tellVendor,
} from "./sending.ts";
export { testChannel, testConfig } from "./test-messages.ts";
export { channelsAt, disableAt, moveTelegramChat, smsChannels } from "./vendor-events.ts";
