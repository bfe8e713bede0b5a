export { dropHeldNotices, listDeliveries, retryDelivery } from "./log.ts";
