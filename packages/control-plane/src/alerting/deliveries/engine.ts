/*
 * Entry for the incident engine, which writes deliveries in the transaction of its changes, and for metrics.
 */
export { isDue, isNext } from "./claim-queries.ts";
export type { AttemptWatch } from "./deliverer.ts";
export { writeAcknowledgements } from "./alerts.ts";
export { writeDeliveries } from "./outbox.ts";
export type { OutboxNotice } from "./outbox-queries.ts";
export { reviveDelivery } from "./log.ts";
export { selectStandings as standings, type Standing } from "./standing-queries.ts";
export { deliveriesOf } from "./present.ts";
