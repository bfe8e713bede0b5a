/*
 * Entry for the incident engine, which writes deliveries in the transaction of its changes, and for metrics.
 */
export { isDue, isNext } from "./sending/claim-queries.ts";
export type { AttemptWatch } from "./sending/deliverer.ts";
export { writeAcknowledgements } from "./alerts/alerts.ts";
export { writeDeliveries } from "./outbox/outbox.ts";
export type { OutboxNotice } from "./outbox/outbox-queries.ts";
export { reviveDelivery } from "./log.ts";
export { selectStandings as standings, type Standing } from "./outbox/standing-queries.ts";
export { deliveriesOf } from "./present.ts";
