/*
 * Entry for the incident engine, which writes deliveries in the transaction of its changes, and for metrics.
 */
export type { AttemptWatch } from "./deliverer.ts";
export { type OutboxNotice, writeDeliveries } from "./outbox.ts";
export { deliveriesOf } from "./present.ts";
