export { acknowledgeUrl, linkedChannel } from "./alerts/acknowledge-links.ts";
export {
  acknowledgeAlerts,
  isAcknowledgeable,
  type LinkedChannel,
  selectEverythingTold as everythingTold,
  selectLastTold as lastTold,
  selectLater as laterIncidents,
} from "./alerts/acknowledge-queries.ts";
export { dropHeldNotices } from "./log.ts";
export { backoffMs } from "./sending/retry.ts";
