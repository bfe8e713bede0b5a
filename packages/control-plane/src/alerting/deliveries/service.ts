export { acknowledgeUrl, linkedChannel } from "./acknowledge-links.ts";
export {
  acknowledgeAlerts,
  isAcknowledgeable,
  type LinkedChannel,
  selectEverythingTold as everythingTold,
  selectLastTold as lastTold,
  selectLater as laterIncidents,
} from "./acknowledge-queries.ts";
export { dropHeldNotices } from "./log.ts";
export { backoffMs } from "./retry.ts";
