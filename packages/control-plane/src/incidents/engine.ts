/*
 * What ingest, delivery and jobs use of this domain, and no other domain does.
 */
export { changeEvidence, type EvidenceChange, type EvidenceTarget, foldRuns, type LockedEvidence } from "./evidence.ts";
export { deliveriesChannel, noticeOf, type TellableIncident, writeDeliveries } from "./outbox.ts";
