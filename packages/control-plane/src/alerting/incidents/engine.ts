/*
 * Entry for ingest, delivery and jobs.
 */
export {
  changeEvidence,
  type EvidenceChange,
  type EvidenceTarget,
  foldRuns,
  type LockedEvidence,
  selectRechecks,
  wantsRecheck,
} from "./evidence.ts";
export { followMaintenance, isMaintenanceDue } from "./maintenance.ts";
export { inActiveWindow } from "./maintenance-queries.ts";
export { type CapturedFailure, keepSnapshots } from "./snapshots.ts";
export { noticeOf, type NoticeSubject, writeDeliveries } from "../deliveries/outbox.ts";
export { deliveriesChannel } from "../deliveries/outbox-queries.ts";
